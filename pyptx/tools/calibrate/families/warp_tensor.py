"""The tensor core as ``mma.sync`` uses it: the rate of m16n8k16 of bf16, on zeros.

Every warp of a full CTA adds to several accumulators in turn, so that none waits for its last product.
"""

from __future__ import annotations

from functools import cache, partial

from ....core.types import b32, f32
from ....dsl import TileParam, ptx, reg
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_pass, readings, use

__all__ = ["BENCHMARKS"]

_WARP, _THREADS = 32, 512
#: Accumulators of each warp.
_CHAINS = 4
#: Products of each accumulator in a pass of the loop.
_PASS = 32
_FLOPS = 2 * 16 * 8 * 16


@cache
def products(target: str, rounds: int, passes: int) -> Kernel:
    """Build a kernel whose warps make ``passes`` times 32 products of zeros for each accumulator."""

    @kernel(out_specs=(readings(rounds),), block=_THREADS, arch=target, name=f"mma_sync_{passes}")
    def section(Out: TileParam) -> None:
        count = ptx.special.nctaid.x() * passes
        zero = ptx.special.ctaid.x()
        a, b = reg.array(b32, 4, name="a"), reg.array(b32, 2, name="b")
        sums = [reg.array(f32, 4, name=f"sum{number}_") for number in range(_CHAINS)]
        for register in (*a, *b):
            ptx.inst.mov.b32(register, zero)
        for register in (each for some in sums for each in some):
            ptx.inst.cvt.rn.f32.u32(register, zero)
        with each_pass(Out, rounds, count):
            for _ in range(_PASS):
                for each in sums:
                    ptx.inst.mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32(each, a, b, each)
        use(Out, *(each for some in sums for each in some))

    return section


def _measured(bench: Bench) -> dict[str, Readings]:
    build = partial(products, bench.device.target, bench.device.rounds)
    one = bench.slope(build, 1, 3) / _PASS
    return {"hmma.flops_per_clk_16bit": _THREADS // _WARP * _CHAINS * _FLOPS / one}


BENCHMARKS = (Microbenchmark("mma.sync", ("hmma.flops_per_clk_16bit",), _measured),)
