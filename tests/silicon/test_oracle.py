"""The oracles of these tests against a GPU: the same kernels, assembled, on the hardware.

What :mod:`tests.sim.oracle` and :mod:`tests.sim.test_warp` expect of the simulator is read off the
manual; here an H200 has the last word on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx.ir import Launch, print_module
from tests.sim.build import Kernel
from tests.sim.expected import EXPECTED
from tests.sim.test_values import batches, check
from tests.sim.test_warp import SHUFFLE, controls, shuffled
from tests.sim.values import ROWS, SHAPES

pytestmark = pytest.mark.gpu


@pytest.fixture
def context() -> Iterator[None]:
    from pyptx.runtime import driver

    with driver.device_context(0):
        yield


def on_gpu(kernel: Kernel, arrays: list[NDArray[Any]], *, grid: int, block: int) -> None:
    """Run a kernel whose parameters are all arrays; they are copied in and back."""
    from pyptx.runtime import driver
    from pyptx.runtime.launch import launch
    from pyptx.runtime.loader import load

    loaded = load(print_module(kernel.module).text, "kernel", dynamic_smem=0, device_index=0)
    pointers = []
    for array in arrays:
        pointers.append(driver.call("cuMemAlloc", array.nbytes))
        driver.call("cuMemcpyHtoD", pointers[-1], array.ctypes.data, array.nbytes)
    launch(loaded, Launch((grid, 1, 1), (block, 1, 1)), [int(pointer) for pointer in pointers])
    driver.call("cuCtxSynchronize")
    for array, pointer in zip(arrays, pointers, strict=True):
        driver.call("cuMemcpyDtoH", array.ctypes.data, pointer, array.nbytes)
        driver.call("cuMemFree", pointer)


@pytest.mark.parametrize("form_id", [i for i in EXPECTED if not i.startswith("cvta")])
def test_value_form(form_id: str, context: None) -> None:
    for batch in batches(form_id):
        outputs = np.zeros((batch.results, ROWS), np.uint64)
        kernel = batch.kernel(SHAPES[0], target="sm_90a")
        on_gpu(kernel, [batch.inputs.copy(), outputs], grid=ROWS // 128, block=128)
        check(batch, outputs)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shfl(mode: str, context: None) -> None:
    kernel = Kernel(SHUFFLE.replace("MODE", mode), "input:u64 output:u64", target="sm_90a")
    values = list(range(1000, 1032))
    for b, c in controls(mode):
        output = np.zeros(64, np.uint32)
        on_gpu(kernel, [np.array([*values, *b, *c], np.uint32), output], grid=1, block=32)
        expected = shuffled(mode, values, b, c)
        assert output[:32].tolist() == [value for value, _ in expected], (mode, b, c)
        assert output[32:].tolist() == [int(inside) for _, inside in expected], (mode, b, c)
