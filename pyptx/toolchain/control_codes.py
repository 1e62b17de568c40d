"""Control codes: the schedule that ptxas writes into each machine instruction, from Volta to Blackwell.

The hardware does not look for dependences among most instructions.  ptxas says with each instruction how
many cycles its warp waits before the next one, and for instructions without a fixed latency which of six
scoreboard barriers they hold and wait for.

Owns the decoding of bits 105 to 125 of an instruction.  Source: Z. Jia et al., *Dissecting the NVIDIA Volta
GPU Architecture via Microbenchmarking* (2018), section 2.1; the tests check the meaning on code for sm_80,
sm_90a and sm_100a.
"""

from __future__ import annotations

from ..core.records import dataclass

__all__ = ["BARRIERS", "ControlCode"]

#: Scoreboard barriers of a warp.
BARRIERS = 6
_NONE = 7
_FIRST_BIT = 105 - 64  # in the upper word


@dataclass(frozen=True, slots=True)
class ControlCode:
    """When an instruction may be issued, and what its end signals.

    ``str`` gives the notation of maxas, ``B0----5:R-:W1:-:S02``: waits for barriers 0 and 5, holds barrier 1
    until its result is written, then the warp waits 2 cycles.

    Attributes:
        stall: cycles from the issue of this instruction to that of the warp's next one, 0 to 15.
        yields: whether the scheduler should prefer another warp next.
        write_barrier: the barrier that this instruction holds until its result is written; None without one.
        read_barrier: the barrier that it holds until its operands are read; None without one.
        waits: the barriers that must be free before it is issued.
        reuse: the operand slots whose registers stay in the reuse cache.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]
    reuse: tuple[int, ...]

    @classmethod
    def decode(cls, upper: int) -> ControlCode:
        """Return the control code of an instruction, from the upper 64 of its 128 bits."""
        bits = upper >> _FIRST_BIT
        write, read, waits, reuse = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63, bits >> 17 & 15
        return cls(
            stall=bits & 15,
            yields=not bits >> 4 & 1,
            write_barrier=None if write == _NONE else write,
            read_barrier=None if read == _NONE else read,
            waits=tuple(n for n in range(BARRIERS) if waits >> n & 1),
            reuse=tuple(n for n in range(4) if reuse >> n & 1),
        )

    def __str__(self) -> str:
        waits = "".join(str(n) if n in self.waits else "-" for n in range(BARRIERS))
        read, write = ("-" if n is None else n for n in (self.read_barrier, self.write_barrier))
        return f"B{waits}:R{read}:W{write}:{'Y' if self.yields else '-'}:S{self.stall:02}"
