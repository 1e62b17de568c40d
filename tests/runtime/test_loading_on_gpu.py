"""Loading on a GPU: from the disk cache, from a shipped one, inside a capture, in forked and spawned processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyptx
from pyptx import toolchain
from pyptx.core.errors import LaunchError
from pyptx.core.types import f32
from pyptx.dsl import Tile, ptx, reg
from pyptx.entry import Kernel, kernel
from pyptx.runtime import driver, loader
from pyptx.toolchain import Tool, assemble, cache
from pyptx.toolchain.cache import CachedCubin, CubinCache, CubinSource

pytestmark = pytest.mark.gpu

N = 64


def doubled(factor: float = 2.0) -> Kernel:
    @kernel(in_specs=[Tile(N, f32)], out_specs=[Tile(N, f32)], block=N, arch="sm_90a")
    def doubled(A: Any, B: Any) -> None:
        i = ptx.special.tid.x()
        a = reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, A.at(i))
        ptx.inst.st.global_.f32(B.at(i), a * factor)

    return doubled


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ptxas: Tool) -> list[str]:
    """What was compiled, by ptxas or by the JIT; the disk cache is empty."""
    runs: list[str] = []
    for module, name in ((toolchain, "assemble"), (loader, "load_text")):
        real: Callable[..., Any] = getattr(module, name)

        def counted(*given: Any, name: str = name, real: Callable[..., Any] = real, **options: Any) -> Any:
            runs.append(name)
            return real(*given, **options)

        monkeypatch.setattr(module, name, counted)
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "cache"))
    return runs


def test_the_second_kernel_of_one_text_compiles_nothing(torch: Any, compiled: list[str]) -> None:
    a = torch.arange(N, dtype=torch.float32, device="cuda")
    for _ in range(2):
        assert torch.equal(doubled()(a), 2 * a)
    assert compiled == ["assemble"]
    assert torch.equal(doubled(3.0)(a), 3 * a)
    assert compiled == ["assemble"] * 2


def test_damage_on_disk_costs_time_alone(torch: Any, compiled: list[str], tmp_path: Path) -> None:
    a = torch.arange(N, dtype=torch.float32, device="cuda")
    doubled()(a)
    (cubin,) = tmp_path.rglob("kernel.cubin")
    os.truncate(cubin, 1000)
    assert torch.equal(doubled()(a), 2 * a)
    assert len(compiled) == 2 and len(cubin.read_bytes()) > 1000
    # A checksum that is right, and an image that the driver refuses.
    entry = CubinCache(tmp_path / "cache").entries()[0]
    source = CubinSource("doubled", (entry.folder / "kernel.ptx").read_text(), "sm_90a", ("lines",))
    CubinCache(tmp_path / "cache").discard(source, entry.tool)
    CubinCache(tmp_path / "cache").store(source, CachedCubin(b"no image", entry.tool))
    assert torch.equal(doubled()(a), 2 * a)
    assert len(compiled) == 3


def test_a_shipped_cubin_of_ptxas_is_loaded(
    torch: Any, compiled: list[str], ptxas: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = doubled()
    made = CachedCubin(assemble(k.ptx()).cubin, f"ptxas-{ptxas.version_text}")
    CubinCache(tmp_path / "shipped", shipped=True).store(CubinSource("doubled", k.ptx(), "sm_90a"), made)
    monkeypatch.setenv(cache.SHIPPED, str(tmp_path / "shipped"))
    a = torch.arange(N, dtype=torch.float32, device="cuda")
    assert torch.equal(k(a), 2 * a)
    assert compiled == [] and not (tmp_path / "cache").exists()


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_the_first_use_may_be_inside_a_capture(torch: Any, compiled: list[str], mode: str) -> None:
    a, b = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    k, graph = doubled(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        k(a, out=b)
    assert compiled == ["assemble"] and not b.any()
    a.fill_(3.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(b, 2 * a)


def test_the_jit_where_the_cache_is_off(
    torch: Any, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.SWITCH, "0")
    a = torch.arange(N, dtype=torch.float32, device="cuda")
    assert torch.equal(doubled()(a), 2 * a)
    assert compiled == ["load_text"]


def test_two_devices(torch: Any, compiled: list[str]) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    k = doubled()
    for index in (0, 1, 0):
        a = torch.arange(N, dtype=torch.float32, device=f"cuda:{index}")
        assert torch.equal(k(a), 2 * a)
    assert compiled == ["assemble"]


def _in_a_process(channel: Any) -> None:
    try:
        import torch

        a = torch.arange(N, dtype=torch.float32, device="cuda")
        channel.send(torch.equal(doubled()(a), 2 * a))
    except Exception as error:
        channel.send(repr(error))


def test_a_spawned_process_works(torch: Any) -> None:
    doubled()(torch.zeros(N, device="cuda"))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_in_a_process, args=(there,))
    process.start()
    assert here.poll(120) and here.recv() is True
    process.join(60)


def test_a_forked_process_is_told_so(torch: Any) -> None:
    a = torch.zeros(N, device="cuda")
    k = doubled()
    prepared = k.prepare(a)
    k(a)
    torch.cuda.synchronize()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for attempt in (lambda: doubled()(a), lambda: driver.device_count(), prepared):
            try:
                attempt()
                said.append("no error")
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}".replace("\n", " "))
        os.write(write, "\n".join(said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 1 << 16).decode().splitlines()
    os.close(read)
    os.close(write)
    assert "was forked from process" in said[1] and LaunchError.__name__ in said[1]
    assert all("fork" in line for line in said), said


def test_kernels_that_are_gone_are_unloaded_after_their_launches(torch: Any, compiled: list[str]) -> None:
    gc.collect()  # kernels of other tests
    pyptx.unload_unused()
    a = torch.arange(N, dtype=torch.float32, device="cuda")
    kept = doubled(5.0)
    kept(a)
    results = [doubled(factor)(a) for factor in (2.0, 3.0, 4.0)]
    gc.collect()
    assert pyptx.unload_unused() == 3
    assert all(torch.equal(b, factor * a) for b, factor in zip(results, (2.0, 3.0, 4.0), strict=True))
    assert torch.equal(kept(a), 5 * a) and pyptx.unload_unused() == 0
