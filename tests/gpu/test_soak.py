"""Launches by the ten thousand: right, and memory stays flat."""

from __future__ import annotations

import resource
import threading
from typing import Any

import pytest

from pyptx.core.types import f32, u32
from pyptx.dsl import Layout, Tile, TileParam, ptx, smem
from pyptx.entry import Kernel, kernel

pytestmark = pytest.mark.gpu

ROWS, COLUMNS = 8, 32


def resident() -> int:
    """Largest resident memory of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def added(number: float) -> Kernel:
    """y = x + number, tile by tile through tensor maps."""

    @kernel(
        in_specs=(Tile("M", COLUMNS, f32, Layout.TMA_NONE, tma_box=(ROWS, COLUMNS)),),
        out_specs=(Tile("M", COLUMNS, f32, Layout.TMA_NONE, tma_box=(ROWS, COLUMNS)),),
        grid=lambda M: -(-M // ROWS),
        block=COLUMNS,
        arch="sm_90a",
    )
    def added(x: TileParam, y: TileParam) -> None:
        tile = smem.alloc((ROWS, COLUMNS), f32)
        arrived = smem.alloc(8, align=8)
        lane, row = ptx.special.tid.x(), ptx.special.ctaid.x() * ROWS
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(arrived, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(arrived, ROWS * COLUMNS * 4)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=x.tma_desc(), coord=(0, row), mbar=arrived)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(arrived, 0)
        for number_of_row in range(ROWS):
            place = tile.at(number_of_row, lane)
            smem.store(place, smem.load(f32, place) + number)
        ptx.fence.proxy_async()
        ptx.bar.sync(0)
        with ptx.if_(lane == 0):
            ptx.cp.async_.bulk.tensor_2d(dst=y.tma_desc(), src=tile, coord=(0, row))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    return added


def test_a_hundred_thousand_launches_of_four_threads_on_four_streams(torch: Any) -> None:
    k = added(1.0)
    wrong: list[int] = []

    def work(number: int, launches: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((64 + number, COLUMNS), float(number), device="cuda")
            y = torch.empty_like(x)
            for launch in range(launches // 2):
                k(x, out=y)
                z = k(y)
                if launch % 2500 == 0:
                    torch.cuda.current_stream().synchronize()
                    if not (torch.equal(y, x + 1) and torch.equal(z, x + 2)):
                        wrong.append(launch)
            torch.cuda.current_stream().synchronize()
            if not torch.equal(z, x + 2):
                wrong.append(-1)

    def run(launches: int) -> None:
        threads = [threading.Thread(target=work, args=(n, launches // 4)) for n in range(4)]
        torch.cuda.synchronize()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run(10_000)
    before, allocated = resident(), torch.cuda.memory_allocated()
    run(100_000)
    assert not wrong
    assert resident() - before < 8 * 1024 and torch.cuda.memory_allocated() <= allocated


def test_a_graph_between_eager_calls(torch: Any) -> None:
    """A graph of three kernels with tensor maps, replayed a thousand times between eager calls."""
    first, second, third = added(1.0), added(2.0), added(3.0)
    x = torch.zeros(200, COLUMNS, device="cuda")
    third(second(first(x)))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = third(second(first(x)))
    for turn in range(1000):
        x.fill_(turn)
        y = second(x)
        graph.replay()
        other = first(z)
        if turn % 100 == 0:
            assert (y == turn + 2).all() and (z == turn + 6).all() and (other == turn + 7).all()
    torch.cuda.synchronize()
    assert (z == 1005).all() and (other == 1006).all()


def test_ten_thousand_signatures(torch: Any) -> None:
    """Sizes, and constants that each have a text and a loaded module of their own."""
    k = added(1.0)
    big = torch.zeros(10_008, COLUMNS, device="cuda")
    assert (k(big) == 1).all()  # torch loads its own kernels
    before = resident()
    for rows in range(2, 10_002):
        z = k(big[:rows])
    assert (z == 1).all()
    assert resident() - before < 32 * 1024

    @kernel(in_specs=(Tile("M", u32),), out_specs=(Tile("M", u32),), arch="sm_90a")
    def constant(x: TileParam, y: TileParam, *, C: int) -> None:
        ptx.store(y.at(0), ptx.load(u32, x.at(0)) + C)

    x = torch.ones(4, dtype=torch.uint32, device="cuda")
    free = []
    for number in range(1200):
        assert number % 100 or int(constant(x, C=number)[0]) == 1 + number
        constant(x, C=number)
        if number in (400, 1199):
            torch.cuda.synchronize()
            free.append((resident(), torch.cuda.mem_get_info()[0]))
    assert len(constant._specializations.recorded()) <= 256
    assert free[1][0] - free[0][0] < 64 * 1024 and free[0][1] - free[1][1] < 64 << 20


def test_two_gpus(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    k = added(1.0)
    for turn in range(50):
        arrays = [torch.full((64 + turn, COLUMNS), float(n), device=f"cuda:{n}") for n in range(2)]
        for n in (0, 1, 1, 0):
            y = k(arrays[n])
            assert y.device.index == n and torch.equal(y, arrays[n] + 1)
        with torch.cuda.device(1):
            assert torch.equal(k(arrays[0]), arrays[0] + 1)
    prepared = [k.prepare(each) for each in arrays]
    for n in (1, 0, 1):
        assert torch.equal(prepared[n](), arrays[n] + 1)
