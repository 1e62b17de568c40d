"""Machine code that no cache holds: each further line of straight code, and a line behind a branch.

A freshly loaded kernel goes through the same code several times. The first pass fetches it, the later ones
find it. What the first one takes more grows with the length of the code, and with the number of branches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ....core.types import f32, u32
from ....dsl import TileParam, ptx, reg
from ....entry import Kernel, kernel
from ..bench import Bench, Microbenchmark, Readings
from ..kernels import each_round, now, one_thread, read, readings, use

__all__ = ["BENCHMARKS"]

_WARP = 32
#: Bytes of a machine instruction, and of a line of code.
_INSTRUCTION, _LINE = 16, 128
#: Independent chains, so that the code has no stalls.
_CHAINS = 4
#: Lines of straight code: the caches of instructions hold all of them.
_FEW, _MANY = 16, 80
#: Branches of a section.
_LESS, _MORE = 4, 16
#: Multiply-adds that each of them skips. With an addition, the comparison and the branch itself they are a
#: KiB of code: branches come to equal places of lines, and to none next to one that is there.
_SKIPPED = 61


@cache
def straight(target: str, rounds: int, lines: int) -> Kernel:
    """Build a kernel whose section is so many lines of code without branches."""

    @kernel(out_specs=(readings(rounds),), block=_WARP, arch=target, name=f"straight_{lines}")
    def section(Out: TileParam) -> None:
        first = one_thread()
        chains = reg.array(f32, _CHAINS, init=1.0)
        factor = reg.scalar(f32)
        ptx.inst.cvt.rn.f32.u32(factor, ptx.special.ctaid.x())
        with each_round(rounds) as turn:
            begin = now()
            for number in range(lines * _LINE // _INSTRUCTION):
                x = chains[number % _CHAINS]
                ptx.inst.fma.rn.f32(x, x, factor, factor)
            read(Out, turn, begin, pred=first)
        use(Out, *chains)

    return section


@cache
def branches(target: str, rounds: int, count: int) -> Kernel:
    """Build a kernel whose section has ``count`` branches, each over a KiB of code that never runs."""

    @kernel(out_specs=(readings(rounds),), block=_WARP, arch=target, name=f"branches_{count}")
    def section(Out: TileParam) -> None:
        first = one_thread()
        chains = reg.array(f32, _CHAINS, init=1.0)
        factor = reg.scalar(f32)
        ptx.inst.cvt.rn.f32.u32(factor, ptx.special.ctaid.x())
        never = reg.scalar(u32, init=ptx.special.ctaid.z())
        with each_round(rounds) as turn:
            # So that a comparison and its branch lie in one line.
            for x in chains:
                ptx.inst.fma.rn.f32(x, x, factor, factor)
            begin = now()
            for number in range(count):
                # What is compared could change: else ptxas would compare first, and join branches.
                with ptx.if_(never == number + 1):
                    never += 1
                    for place in range(_SKIPPED):
                        x = chains[place % _CHAINS]
                        ptx.inst.fma.rn.f32(x, x, factor, factor)
            read(Out, turn, begin, pred=first)
        use(Out, *chains, never)

    return section


def _first_passes(bench: Bench, build: Callable[[str, int, int], Kernel], few: int, many: int) -> Readings:
    """Return by how much the first pass of a section takes longer, for one more repetition of its part."""
    device = bench.device
    less, more = (
        bench.first_pass(build(device.target, device.rounds, count), cold_code=True)[:, 0]
        for count in (few, many)
    )
    return (more - less) / (many - few)


def _code(bench: Bench) -> dict[str, Readings]:
    return {
        "icache.line_clk": _first_passes(bench, straight, _FEW, _MANY),
        "icache.jump_clk": _first_passes(bench, branches, _LESS, _MORE),
    }


BENCHMARKS = (Microbenchmark("code that no cache holds", ("icache.line_clk", "icache.jump_clk"), _code),)
