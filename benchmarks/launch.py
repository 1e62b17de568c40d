"""Measure what a launch costs on the host: kernels of pyptx, torch, Triton, CuTe DSL and the bare driver.

Every row launches an empty kernel, or adds two matrices of 1,024 x 8 numbers.  A burst is 500 launches
between two synchronizations, so that the queue never fills; the sustained column launches 20,000 in a row.

    python benchmarks/launch.py
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyptx import Layout, Tile, f32, kernel, ptx
from pyptx.runtime import quick
from pyptx.runtime.launch import current_stream

BURST, BURSTS, PASSES, SUSTAINED = 500, 20, 3, 20_000
LENGTH = 1024


def empty_kernel(maps: int) -> Any:
    """A kernel of two inputs and an output that does nothing; the first ``maps`` have tensor maps."""
    mapped = Tile(LENGTH, 8, f32, Layout.TMA_32B, tma_box=(8, 8))
    plain = Tile(LENGTH, 8, f32)
    tiles = [mapped if number < maps else plain for number in range(3)]

    @kernel(in_specs=tiles[:2], out_specs=tiles[2:], block=32, arch="sm_90a", name=f"empty{maps}")
    def empty(A: Any, B: Any, C: Any) -> None:
        ptx.ret()

    return empty


def any_length_cost(torch: Any, maps: int) -> tuple[float, float]:
    """Microseconds of a call with a number of rows that no call had before, and of the next call with it."""
    mapped = Tile("M", 8, f32, Layout.TMA_32B, tma_box=(8, 8))
    tiles = [mapped if number < maps else Tile("M", 8, f32) for number in range(3)]

    @kernel(in_specs=tiles[:2], out_specs=tiles[2:], grid=lambda M: -(-M // 8), block=32, arch="sm_90a")
    def any_length(A: Any, B: Any, C: Any) -> None:
        ptx.ret()

    big = [torch.ones(4096, 8, device="cuda") for _ in range(3)]
    any_length(*big[:2], out=big[2])
    unseen, seen = [], []
    for start in range(0, 1000, 50):
        arrays = [[each[: 64 + start + n] for each in big] for n in range(50)]
        for found in (unseen, seen):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for a, b, c in arrays:
                any_length(a, b, out=c)
            found.append((time.perf_counter() - begin) / len(arrays) * 1e6)
    return statistics.median(unseen), statistics.median(seen)


def bursts(torch: Any, call: Callable[[], Any]) -> list[float]:
    """Microseconds of a call on the host in each of some bursts."""
    for _ in range(BURST):
        call()
    found = []
    for _ in range(BURSTS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(BURST):
            call()
        found.append((time.perf_counter() - begin) / BURST * 1e6)
    torch.cuda.synchronize()
    return found


def sustained(torch: Any, call: Callable[[], Any]) -> float:
    """Microseconds of a call at the sustained rate."""
    begin = time.perf_counter()
    for _ in range(SUSTAINED):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / SUSTAINED * 1e6


def bare(torch: Any, a: Any, b: Any, c: Any) -> Callable[[], Any]:
    """``cuLaunchKernelEx`` through cuda.bindings with everything made before."""
    from pyptx.ir import Launch
    from pyptx.runtime.driver import driver
    from pyptx.runtime.launch import configuration, pack
    from pyptx.runtime.loader import load

    loaded = load(empty_kernel(0).ptx(), "empty0", dynamic_smem=0, device_index=0)
    packed = pack([a.data_ptr(), b.data_ptr(), c.data_ptr()])
    config = configuration(Launch((1, 1, 1), (32, 1, 1)))
    config.hStream = torch.cuda.current_stream().cuda_stream
    launch, function = driver().cuLaunchKernelEx, loaded.function
    return lambda address=packed.address, _keep=packed: launch(config, function, address, 0)


def rows(torch: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The calls by name."""
    a, b, c = (torch.ones(LENGTH, 8, device="cuda") for _ in range(3))
    yield "cuLaunchKernelEx through cuda.bindings, all prebuilt", bare(torch, a, b, c)
    yield "torch.add(a, b, out=c)", lambda: torch.add(a, b, out=c)
    yield "a + b of torch", lambda: a + b
    with contextlib.suppress(ImportError):
        yield "Triton", triton_call(a, b, c)
    with contextlib.suppress(ImportError):
        yield "CuTe DSL, TVM-FFI", cute_call(a, b, c)
    for path, pure in (("", "0"), (" (pure Python)", "1")):
        os.environ[quick.PURE] = pure  # read when the kernel's first call makes its launch
        for maps in (0, 3) if pure == "1" else range(4):
            k = empty_kernel(maps)
            p = k.prepare(a, b, out=c)
            with_maps = f", {maps} tensor maps" if maps else ""
            k(a, b, out=c)
            k(a, b)
            yield f"p(){with_maps}{path}", p
            yield f"p(a, b, out=c){with_maps}{path}", lambda p=p: p(a, b, out=c)
            yield f"k(a, b, out=c){with_maps}{path}", lambda k=k: k(a, b, out=c)
            yield f"k(a, b){with_maps}{path}", lambda k=k: k(a, b)


def triton_call(a: Any, b: Any, c: Any) -> Callable[[], Any]:
    """An empty kernel of Triton with three pointers."""
    from _triton_empty import empty

    return lambda: empty[(1,)](a, b, c, num_warps=1)


def cute_call(a: Any, b: Any, c: Any) -> Callable[[], Any]:
    """An empty kernel of CuTe DSL with three tensors."""
    from _cute_empty import compiled

    call = compiled(a, b, c)
    return lambda: call(a, b, c)


def parts(torch: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What a call of a kernel with three arrays does, part by part."""
    a, b, c = (torch.ones(LENGTH, 8, device="cuda") for _ in range(3))
    k = empty_kernel(0)
    k(a, b, out=c)
    signatures = k._signatures
    key, flat = signatures.read((a, b), c, {})
    ready = signatures._ready[key]
    frame = ready.plan.frame(flat, 0)
    yield "read the signature of three tensors", lambda: signatures.read((a, b), c, {})
    yield "look it up", lambda: signatures._ready.get(key)
    yield "current stream", lambda: current_stream(0)
    yield "store three addresses", lambda: ready.plan._fill(frame, flat, 0)
    yield "cuLaunchKernelEx and its status", lambda: ready.plan.start(frame)
    yield "allocate an output", lambda: torch.empty_like(a)


def main() -> None:
    try:
        import torch
    except ImportError:
        print("not measured: torch is not installed")
        return
    if not torch.cuda.is_available():
        print("not measured: no GPU")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: microseconds on the host\n")
    print(f"{'':54}  burst  sustained")
    calls = list(rows(torch))
    measured: dict[str, list[float]] = {name: [] for name, _ in calls}
    for _ in range(PASSES):  # what disturbs the machine for a while disturbs all rows
        for name, call in calls:
            measured[name] += bursts(torch, call)
    for name, call in calls:
        print(f"{name:54} {statistics.median(measured[name]):6.2f}  {sustained(torch, call):9.2f}")
    print("\nparts of k(a, b, out=c)")
    for name, call in parts(torch):
        print(f"{name:54} {statistics.median(bursts(torch, call)):6.2f}")
    print("\na number of rows never seen before, and then seen")
    for pure in ("0", "1"):
        os.environ[quick.PURE] = pure
        for maps in (0, 3):
            unseen, seen = any_length_cost(torch, maps)
            path = " (pure Python)" if pure == "1" else ""
            print(f"{f'k(a, b, out=c), {maps} tensor maps{path}':54} {unseen:6.2f}  {seen:9.2f}")


if __name__ == "__main__":
    main()
