"""The tensor core as ``mma.sync`` uses it: the rates of bf16, with all and half of K, and of f64, on zeros.

Two warps of each scheduler add to several accumulators in turn, so that none waits for its last product.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from ....core.records import dataclass
from ....core.types import ScalarType, b32, f32, f64
from ....dsl import TileParam, ptx, reg
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_pass, readings, use

__all__ = ["BENCHMARKS"]

_WARP, _THREADS = 32, 256
#: Schedulers of a multiprocessor, each with a tensor core.
_SCHEDULERS = 4
#: Accumulators of each warp.
_CHAINS = 4
#: Products of each accumulator in a pass of the loop.
_PASS = 32


@dataclass(frozen=True)
class _Form:
    """A form of ``mma.sync``: its name, K, the registers of A, B and a sum, and their types."""

    name: str
    k: int
    registers: tuple[int, int, int]
    factor: ScalarType
    sum: ScalarType

    @property
    def flops(self) -> int:
        return 2 * 16 * 8 * self.k

    def multiply(self, into: Any, a: Any, b: Any) -> None:
        """Record one product that adds to ``into``."""
        mma = ptx.inst.mma.sync.aligned
        {
            "bf16": lambda: mma.m16n8k16.row.col.f32.bf16.bf16.f32(into, a, b, into),
            "half": lambda: mma.m16n8k8.row.col.f32.bf16.bf16.f32(into, a, b, into),
            "f64": lambda: mma.m16n8k16.row.col.f64.f64.f64.f64(into, a, b, into),
        }[self.name]()


_WHOLE = _Form("bf16", 16, (4, 2, 4), b32, f32)
_HALF = _Form("half", 8, (2, 1, 4), b32, f32)
_DOUBLE = _Form("f64", 16, (8, 4, 4), f64, f64)


@cache
def products(form: _Form, target: str, rounds: int, passes: int) -> Kernel:
    """Build a kernel whose warps make ``passes`` times 32 products of zeros for each accumulator."""

    @kernel(out_specs=(readings(rounds),), block=_THREADS, arch=target, name=f"mma_sync_{form.name}_{passes}")
    def section(Out: TileParam) -> None:
        count = ptx.special.nctaid.x() * passes
        zero = ptx.special.ctaid.x()
        a, b = (reg.array(form.factor, n, name=name) for n, name in zip(form.registers, "ab", strict=False))
        sums = [reg.array(form.sum, form.registers[2], name=f"sum{number}_") for number in range(_CHAINS)]
        for register in (*a, *b, *(each for some in sums for each in some)):
            if register.type == b32:
                ptx.inst.mov.b32(register, zero)
            elif register.type == f32:
                ptx.inst.cvt.rn.f32.u32(register, zero)
            else:
                ptx.inst.cvt.rn.f64.u32(register, zero)
        with each_pass(Out, rounds, count):
            for _ in range(_PASS):
                for each in sums:
                    form.multiply(each, a, b)
        use(Out, *(each for some in sums for each in some))

    return section


def _measured(bench: Bench) -> dict[str, Readings]:
    def clk(form: _Form) -> Readings:
        """Return the cycles of a scheduler for one product."""
        build = partial(products, form, bench.device.target, bench.device.rounds)
        one: Readings = bench.slope(build, 1, 3) / (_PASS * _CHAINS * _THREADS // _WARP // _SCHEDULERS)
        return one

    return {
        "hmma.flops_per_clk_16bit": _SCHEDULERS * _WHOLE.flops / clk(_WHOLE),
        "hmma.least_clk": clk(_HALF),
        "dmma.flops_per_clk": _SCHEDULERS * _DOUBLE.flops / clk(_DOUBLE),
    }


BENCHMARKS = (
    Microbenchmark(
        "mma.sync", ("hmma.flops_per_clk_16bit", "hmma.least_clk", "dmma.flops_per_clk"), _measured
    ),
)
