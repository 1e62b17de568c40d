"""The pipes of a multiprocessor's schedulers: instructions a cycle, and cycles to a dependent instruction.

A chain of dependent instructions in one warp gives the latency. Several chains in every warp of a full CTA
give the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ....core.types import ScalarType, b32, f32, f64
from ....dsl import Reg, TileParam, ptx, reg
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_pass, readings, use

__all__ = ["BENCHMARKS"]

_WARP, _FULL = 32, 512
#: Independent chains of each thread for a rate.
_CHAINS = 4


def _fma(x: Reg, y: Reg) -> None:
    ptx.inst.fma.rn.f32(x, x, y, y)


def _alu(x: Reg, y: Reg) -> None:
    # ptxas moves additions to the pipe of multiply-adds, and folds logic; permutations stay.
    ptx.inst.prmt.b32(x, x, y, y)


def _mufu(x: Reg, y: Reg) -> None:
    ptx.inst.ex2.approx.ftz.f32(x, x)


def _cvt(x: Reg, y: Reg) -> None:
    ptx.inst.cvt.rn.bf16x2.f32(x, x.view(f32), y)


def _fp64(x: Reg, y: Reg) -> None:
    ptx.inst.fma.rn.f64(x, x, y, y)


def _shfl(x: Reg, y: Reg) -> None:
    ptx.inst.shfl.sync.bfly.b32(x, x, 1, 31, 0xFFFFFFFF)


#: For each pipe, its instruction, and the types of the chain and of the other operand.
_OPERATIONS: dict[str, tuple[Callable[[Reg, Reg], None], ScalarType, ScalarType]] = {
    "fma": (_fma, f32, f32),
    "alu": (_alu, b32, b32),
    "mufu": (_mufu, f32, f32),
    "cvt": (_cvt, b32, f32),
    "fp64": (_fp64, f64, f64),
    "shfl": (_shfl, b32, b32),
}


#: Instructions of each chain in a pass of the loop: ptxas moves no clock into a loop. So many that its branch
#: hardly counts.
_PASS = 64
#: How numbers that ptxas does not know become operands of a type.
_FROM_U32 = {f32: "cvt.rn.f32.u32", f64: "cvt.rn.f64.u32", b32: "mov.b32"}


def _number(kind: ScalarType, seed: Reg, name: str) -> Reg:
    """Return a register with a number of a type, 0, which ptxas does not know. Records one instruction."""
    made = reg.scalar(kind, name=name)
    ptx.inst[_FROM_U32[kind]](made, seed)
    return made


@cache
def chains(target: str, rounds: int, pipe: str, threads: int, width: int, passes: int) -> Kernel:
    """Build a kernel whose threads have ``width`` chains each, of ``passes`` times 64 instructions."""
    operation, kind, other = _OPERATIONS[pipe]

    @kernel(
        out_specs=(readings(rounds),), block=threads, arch=target, name=f"{pipe}_{threads}x{width}_{passes}"
    )
    def section(Out: TileParam) -> None:
        seed = ptx.special.ctaid.x()
        count = ptx.special.nctaid.x() * passes
        y = _number(other, seed, "y")
        # A number for each thread: ptxas drops shuffles of what all lanes have.
        x = [_number(kind, ptx.special.tid.x(), f"x{number}_") for number in range(width)]
        with each_pass(Out, rounds, count):
            for _ in range(_PASS):
                for each in x:
                    operation(each, y)
        use(Out, *x)

    return section


def _chain(bench: Bench, pipe: str, threads: int, width: int) -> Readings:
    """Return the cycles of one more instruction in each chain."""
    build = partial(chains, bench.device.target, bench.device.rounds, pipe, threads, width)
    return bench.slope(build, 1, 3) / _PASS


def _rate(bench: Bench, pipe: str) -> Readings:
    return _FULL * _CHAINS / _chain(bench, pipe, _FULL, _CHAINS)


def _pipe(pipe: str, *, latency: bool = True) -> Microbenchmark:
    """Return the microbenchmark of a pipe; not all have a constant for the latency."""
    rate, cycles = f"{pipe}.lanes_per_clk", f"{pipe}.latency_clk"

    def measure(bench: Bench) -> dict[str, Readings]:
        found = {rate: _rate(bench, pipe)}
        return {**found, cycles: _chain(bench, pipe, _WARP, 1)} if latency else found

    return Microbenchmark(f"pipe of {pipe}", (rate, cycles) if latency else (rate,), measure)


BENCHMARKS = (
    _pipe("fma"),
    _pipe("alu"),
    _pipe("mufu"),
    _pipe("cvt", latency=False),
    _pipe("fp64", latency=False),
    _pipe("shfl"),
)
