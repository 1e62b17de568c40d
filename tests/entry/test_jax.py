"""Kernels in JAX programs, on the CPU in the simulator and on a GPU."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyptx import SpecError, UnsupportedError
from tests.entry.torch_kernels import axpy, squared_relu

#: The full tier installs JAX.
pytestmark = pytest.mark.full

N = 64


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    if os.environ.get("CI"):
        return importlib.import_module("jax")
    return pytest.importorskip("jax")


def test_eager_and_under_jit(jax: Any) -> None:
    k, x = axpy(), jax.numpy.arange(float(N))
    assert (k.jax(x, x, 2.0, 3, N=N) == 3 * x + 3).all()

    @jax.jit
    def function(x: Any, y: Any) -> Any:
        return k.jax(x + 1, y, 2.0, 3, N=x.shape[0], TWICE=True) * 2

    for count in (N, 96):
        x = jax.numpy.arange(float(count))
        assert (function(x, x) == ((x + 1) * 2 + x + 3) * 4).all()


def test_vmap_runs_for_each_element(jax: Any) -> None:
    k, x = axpy(), jax.numpy.arange(float(N))
    found = jax.vmap(lambda a: k.jax(a, x, 2.0, 3, N=N))(jax.numpy.stack([x, 2 * x]))
    assert (found == jax.numpy.stack([3 * x + 3, 5 * x + 3])).all()


def test_a_derivative_of_the_author(jax: Any) -> None:
    from tests.entry.torch_kernels import squared_relu_gradient

    @jax.custom_vjp
    def act(x: Any) -> Any:
        return squared_relu.jax(x, x.size)

    act.defvjp(lambda x: (act(x), x), lambda x, dy: (squared_relu_gradient.jax(x, dy, x.size),))
    x = jax.numpy.arange(-8.0, 8.0)
    assert (jax.jit(jax.grad(lambda x: act(x).sum()))(x) == 2 * jax.numpy.maximum(x, 0)).all()


def test_what_is_refused(jax: Any) -> None:
    k, x = axpy(), jax.numpy.arange(float(N))
    with pytest.raises(SpecError, match="alpha is traced by JAX") as error:
        jax.jit(lambda x, a: k.jax(x, x, a, 3, N=N))(x, 2.0)
    assert "static_argnames" in error.value.hint
    with pytest.raises(SpecError, match="K is 64 by dimension 0 of x and 3 by dimension 0 of y"):
        k.jax(x, x[:3], 2.0, 3, N=N)
    with pytest.raises(SpecError, match="y has dtype s32, expected f32"):
        k.jax(x, x.astype(int), 2.0, 3, N=N)
    with pytest.raises(SpecError, match="the dims N of an output have no value"):
        k.jax(x, x, 2.0, 3)
    with pytest.raises(SpecError, match="axpy takes 4 inputs"):
        k.jax(x, x)
    with pytest.raises(SpecError, match="no constant or dim 'WRONG'"):
        k.jax(x, x, 2.0, 3, N=N, WRONG=1)
    from tests.entry.test_operators import double

    with pytest.raises(UnsupportedError, match="double has no outputs, and JAX's arrays cannot be written"):
        double.jax(x)


def test_findings_are_errors_of_the_program(jax: Any) -> None:
    x = jax.numpy.arange(float(N))
    with pytest.raises(Exception, match=r"SimulationError(.|\n)*out-of-bounds(.|\n)*torch_kernels.py"):
        jax.block_until_ready(squared_relu.jax(x, 200))


_PROGRAM = """
import time
import jax
from tests.entry.torch_kernels import axpy
k, x = axpy(), jax.numpy.arange(4096.0)
assert x.device.platform == "gpu", x.device
run = jax.jit(lambda x: k.jax(k.jax(x, x, 2.0, 3, N=x.size) + 1, x, 0.5, 0, N=x.size, TWICE=True) * 2)
for n in range(3):
    assert (run(x + n) == ((3 * (x + n) + 4) * 0.5 + x + n) * 4).all()
one = jax.jit(lambda x: k.jax(x, x, 2.0, 3, N=x.size))
one(x).block_until_ready()
start = time.perf_counter()
for _ in range(300):
    y = one(x)
y.block_until_ready()
print("right", round((time.perf_counter() - start) / 300 * 1e6, 1), "us")
"""


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    """In a process of its own: JAX keeps the memory that it has taken."""
    pytest.importorskip("jax")
    seen = subprocess.run(
        [sys.executable, "-c", "import jax; print(jax.default_backend())"], capture_output=True, text=True
    )
    if "gpu" not in seen.stdout:
        pytest.skip("JAX has no GPU here")
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("right")
    print(done.stdout)
