"""``ptx.warp``: what the lanes of a warp execute together. Each function records exactly one instruction."""

from __future__ import annotations

from ..core.errors import OperandError
from ..core.types import pred as predicate
from ..ir import Pair, Register
from .emit import checked
from .operands import operand, sink
from .operators import result
from .registers import Reg
from .sites import here
from .trace import current
from .types import declared

__all__ = ["FULL", "elect", "shfl_bfly", "shfl_down", "shfl_idx", "shfl_up"]

#: All 32 lanes.
FULL = 0xFFFFFFFF

_ELECT = "parallel-synchronization-and-communication-instructions-elect-sync"
_SHFL = "data-movement-and-conversion-instructions-shfl-sync"


def elect(mask: Reg | int = FULL) -> Reg:
    """A new predicate that holds in one lane of ``mask``. Records one ``elect.sync _|p, mask``.

    The same mask elects the same lane each time; which one is open.  Guarding with it lets ptxas
    emit single-thread instructions once, where ``tid == 0`` makes it loop over lanes.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-elect-sync`.
    """
    trace = current()
    members = operand(checked("mask", mask, 1, FULL, see=_ELECT), trace)
    site, source = here()
    hint = site.name or "elected"
    destination = Register(trace.free_name(hint), declared(predicate))
    binding = trace.check("elect", ("sync",), (Pair(sink, destination), members))
    trace.adopt(destination, hint)
    trace.append(binding, None, source)
    return Reg(trace, destination, predicate, trace.block, source)


def _shuffle(mode: str, value: Reg, lane: Reg | int, clamp: Reg | int, mask: Reg | int) -> Reg:
    trace = current()
    source = operand(value, trace)
    if not isinstance(source, Register) or source.type.bits != 32:
        raise OperandError(f"shfl moves a 32-bit register, not {value!r}", see=_SHFL)
    operands = (
        source,
        operand(checked("lane", lane, 0, 31, see=_SHFL), trace),
        operand(checked("clamp", clamp, 0, 0x1FFF, see=_SHFL), trace),
        operand(checked("mask", mask, 1, FULL, see=_SHFL), trace),
    )
    return result(trace, value.type, "shfl", ("sync", mode, "b32"), operands, "t")


def shfl_idx(value: Reg, lane: Reg | int, *, clamp: Reg | int = 31, mask: Reg | int = FULL) -> Reg:
    """``value`` of lane ``lane``. Records one ``shfl.sync.idx.b32``.

    Args:
        value: any 32-bit register; the result has its type.
        lane: source lane.
        clamp: the manual's operand c: segment mask in bits 8..12, last lane in bits 0..4.
        mask: lanes that take part.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    return _shuffle("idx", value, lane, clamp, mask)


def shfl_bfly(value: Reg, lane: Reg | int, *, clamp: Reg | int = 31, mask: Reg | int = FULL) -> Reg:
    """``value`` of the lane whose number is this one's XOR ``lane``. Records one ``shfl.sync.bfly.b32``."""
    return _shuffle("bfly", value, lane, clamp, mask)


def shfl_down(value: Reg, lane: Reg | int, *, clamp: Reg | int = 31, mask: Reg | int = FULL) -> Reg:
    """``value`` of the lane ``lane`` higher. Records one ``shfl.sync.down.b32``."""
    return _shuffle("down", value, lane, clamp, mask)


def shfl_up(value: Reg, lane: Reg | int, *, clamp: Reg | int = 0, mask: Reg | int = FULL) -> Reg:
    """``value`` of the lane ``lane`` lower. Records one ``shfl.sync.up.b32``; ``clamp`` is the first lane."""
    return _shuffle("up", value, lane, clamp, mask)
