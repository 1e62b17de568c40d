"""Tensor maps: what the first use of one adds to a copy.

A kernel loads boxes through several maps. The first time a multiprocessor must fetch the map; L2 holds the
boxes each time. Parts of L2 are near or far, so each box is loaded twice: by what it takes longer than others
when it comes again, it would have without the fetch.
"""

from __future__ import annotations

from functools import cache

from ....core.types import bf16
from ....dsl import Layout, Tile, TileParam, ptx, smem
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_round, initialized, now, one_lane, read, readings, wait

__all__ = ["BENCHMARKS"]

_WARP = 32
#: Maps of the kernel: a reading for each in every launch.
_MAPS = 4
_ROWS, _COLUMNS = 8, 64


@cache
def first_uses(target: str, rounds: int) -> Kernel:
    """Build a kernel whose section loads a box through one of four maps, each in a column of its own.

    Every round loads other rows, and again the same ones, in four more columns.
    """
    array = Tile(_ROWS * rounds, _COLUMNS, bf16, Layout.TMA_NONE, tma_box=(_ROWS, _COLUMNS))

    @kernel(
        in_specs=(array,) * _MAPS,
        out_specs=(readings(rounds, 2 * _MAPS),),
        block=_WARP,
        arch=target,
        name="first_uses_of_maps",
    )
    def section(A: TileParam, B: TileParam, C: TileParam, D: TileParam, Out: TileParam) -> None:
        tile = smem.alloc((_ROWS, _COLUMNS), bf16, align=128)
        full = initialized(_MAPS)
        with one_lane(), each_round(rounds) as turn:
            row = turn * _ROWS
            for column, array in enumerate((A, B, C, D) * 2):
                again, number = divmod(column, _MAPS)
                mbar = full[number]
                begin = now()
                ptx.mbarrier.arrive_expect_tx(mbar, tile.nbytes)
                ptx.cp.async_.bulk.tensor_2d(dst=tile, src=array.tma_desc(), coord=(0, row), mbar=mbar)
                wait(mbar, again)
                read(Out, turn, begin, column)

    return section


def _first(bench: Bench) -> dict[str, Readings]:
    device = bench.device
    shape = (_ROWS * device.rounds, _COLUMNS)
    more = bench.first_pass(first_uses(device.target, device.rounds), *[shape] * _MAPS)
    return {"tma.prefetch_map_ns": (more[:, :_MAPS] - more[:, _MAPS:]).ravel() / bench.ghz}


BENCHMARKS = (Microbenchmark("first use of a tensor map", ("tma.prefetch_map_ns",), _first),)
