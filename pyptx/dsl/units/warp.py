"""``ptx.warp``: instructions that the lanes of a warp execute together.

Each function records exactly one instruction, except :func:`shfl64`, :func:`reduce` and :func:`scan`, whose
docstrings give the number.  ``mask`` has a bit for each lane that takes part; all these lanes must execute
the instruction.  ``ptx.special.laneid()`` returns the number of the executing lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

from ...core.errors import OperandError
from ...core.types import TYPES, ScalarType
from ...core.types import pred as predicate
from ...ir import Operand, Pair, Register, Vector
from ..call_sites import here
from ..choices import ShuffleMode
from ..emit import Predicate, checked
from ..operands import operand, sink
from ..records import records
from ..registers import NotPred, Reg, move, new_register, owned, result
from ..trace import Trace, current
from ..types import bits_of
from .bar import warp_sync
from .qualifiers import one_of
from .values import integer_modifier, present, value, value_pair

__all__ = [
    "FULL",
    "activemask",
    "ballot",
    "elect",
    "match_all",
    "match_any",
    "reduce",
    "redux",
    "scan",
    "shfl64",
    "shfl_bfly",
    "shfl_down",
    "shfl_idx",
    "shfl_up",
    "sync",
    "vote_all",
    "vote_any",
    "vote_uni",
]

#: All 32 lanes.
FULL = 0xFFFFFFFF

_ELECT = "parallel-synchronization-and-communication-instructions-elect-sync"
_SHFL = "data-movement-and-conversion-instructions-shfl-sync"
_VOTE = "parallel-synchronization-and-communication-instructions-vote-sync"
_MATCH = "parallel-synchronization-and-communication-instructions-match-sync"
_REDUX = "parallel-synchronization-and-communication-instructions-redux-sync"

_WIDTHS = (1, 2, 4, 8, 16, 32)


def _members(mask: Reg | int, see: str) -> Operand:
    return operand(checked("mask", mask, 1, FULL, see=see), current())


def _register(name: str, given: object, bits: tuple[int, ...], see: str) -> Register:
    wanted = " or ".join(f"{n}-bit" for n in bits)
    if not isinstance(given, Reg) or given.type.bits not in bits:
        raise OperandError(f"{name} takes a {wanted} register, not {given!r}", see=see)
    return owned(given, current()).operand


# --- electing and waiting -------------------------------------------------------------------------


@overload
def elect(mask: Reg | int = ..., *, with_lane: Literal[False] = ...) -> Reg: ...


@overload
def elect(mask: Reg | int = ..., *, with_lane: Literal[True]) -> tuple[Reg, Reg]: ...


@records("elect.sync")
def elect(mask: Reg | int = FULL, *, with_lane: bool = False) -> Reg | tuple[Reg, Reg]:
    """Return a new predicate that is true in one lane of ``mask``. Records one ``elect.sync``.

    The same mask elects the same lane each time; PTX does not fix which one.  With this predicate as a guard,
    ptxas emits single-thread instructions once; with ``tid == 0``, ptxas emits a loop over the lanes.

    Args:
        mask: lanes that take part.
        with_lane: return also the number of the elected lane: ``lane, leader = elect(with_lane=True)``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-elect-sync`.
    """
    trace = current()
    members = _members(mask, _ELECT)
    if with_lane:
        return value_pair((TYPES["u32"], predicate), ("lane", "elected"), "elect", ("sync",), (members,))
    site, source = here()
    with trace.atomic():
        leader = new_register(trace, predicate, site.name or "elected", source)
        trace.record("elect", ("sync",), (Pair(sink, leader.operand), members), None, source)
    return leader


@records("bar.warp.sync")
def sync(mask: Reg | int = FULL, *, pred: Predicate = None) -> None:
    """Wait for the lanes of ``mask``, and order their memory accesses. Records one ``bar.warp.sync``.

    It is the same as ``ptx.bar.warp_sync``, which documents the errors.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-bar-warp-sync`.
    """
    warp_sync(mask, pred=pred)


@records("activemask")
def activemask() -> Reg:
    """Return the mask of the lanes that execute this instruction together, a b32. Records one ``activemask``.

    Watch out: the hardware decides which lanes run together.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-activemask`.
    """
    return result(current(), TYPES["b32"], "activemask", ("b32",), (), "active")


# --- votes and matches ----------------------------------------------------------------------------


def _vote(mode: str, kind: ScalarType, p: Reg | NotPred, mask: Reg | int, out: Reg | None, hint: str) -> Reg:
    if getattr(p, "type", None) is not predicate:
        raise OperandError(
            f"a vote takes a predicate, not {p!r}", hint="make one by comparing: x != 0", see=_VOTE
        )
    operands = (operand(p, current()), _members(mask, _VOTE))
    return value(kind, "vote", ("sync", mode, kind.name), operands, out=out, hint=hint)


@records("vote.sync")
def vote_all(p: Reg | NotPred, *, mask: Reg | int = FULL, out: Reg | None = None) -> Reg:
    """Return a predicate: true if ``p`` holds in all lanes of ``mask``. Records one ``vote.sync.all``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-vote-sync`.
    """
    return _vote("all", predicate, p, mask, out, "p")


@records("vote.sync")
def vote_any(p: Reg | NotPred, *, mask: Reg | int = FULL, out: Reg | None = None) -> Reg:
    """Return a predicate: true if ``p`` holds in any lane of ``mask``. Records one ``vote.sync.any``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-vote-sync`.
    """
    return _vote("any", predicate, p, mask, out, "p")


@records("vote.sync")
def vote_uni(p: Reg | NotPred, *, mask: Reg | int = FULL, out: Reg | None = None) -> Reg:
    """Return a predicate: true if ``p`` is equal in all lanes of ``mask``. Records one ``vote.sync.uni``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-vote-sync`.
    """
    return _vote("uni", predicate, p, mask, out, "p")


@records("vote.sync.ballot")
def ballot(p: Reg | NotPred, *, mask: Reg | int = FULL, out: Reg | None = None) -> Reg:
    """Return the mask of the lanes of ``mask`` in which ``p`` holds, a b32. Records one ``vote.sync.ballot``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-vote-sync`.
    """
    return _vote("ballot", TYPES["b32"], p, mask, out, "ballot")


@records("match.any.sync")
def match_any(given: Reg, *, mask: Reg | int = FULL, out: Reg | None = None) -> Reg:
    """Return the mask of the lanes of ``mask`` that hold the same 32 or 64 bits as this lane, a u32.

    Records one ``match.any.sync``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-match-sync`.
    """
    operands = (_register("match", given, (32, 64), _MATCH), _members(mask, _MATCH))
    kind = bits_of(given.type).name
    return value(TYPES["u32"], "match", ("any", "sync", kind), operands, out=out, hint="lanes")


@overload
def match_all(given: Reg, *, mask: Reg | int = ..., with_pred: Literal[False] = ...) -> Reg: ...


@overload
def match_all(given: Reg, *, mask: Reg | int = ..., with_pred: Literal[True]) -> tuple[Reg, Reg]: ...


@records("match.all.sync")
def match_all(given: Reg, *, mask: Reg | int = FULL, with_pred: bool = False) -> Reg | tuple[Reg, Reg]:
    """Return ``mask`` if all its lanes hold the same 32 or 64 bits, otherwise 0, a u32.

    Records one ``match.all.sync``.

    Args:
        given: register to compare.
        mask: lanes that take part.
        with_pred: return also a predicate, true if all are the same: ``lanes, same = match_all(x,
            with_pred=True)``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-match-sync`.
    """
    operands = (_register("match", given, (32, 64), _MATCH), _members(mask, _MATCH))
    modifiers = ("all", "sync", bits_of(given.type).name)
    if with_pred:
        return value_pair((TYPES["u32"], predicate), ("lanes", "same"), "match", modifiers, operands)
    return value(TYPES["u32"], "match", modifiers, operands, hint="lanes")


# --- shuffles -------------------------------------------------------------------------------------


def _clamp(mode: str, width: int | None, clamp: Reg | int | None) -> Reg | int:
    """Compute operand c of ``shfl``, which limits the exchange to segments of ``width`` lanes."""
    if clamp is not None:
        if width is not None:
            raise OperandError(
                f"both width={width!r} and clamp={clamp!r} are given: expected one of them", see=_SHFL
            )
        found: Reg | int = checked("clamp", clamp, 0, 0x1FFF, see=_SHFL)
        return found
    lanes = 32 if width is None else width
    if lanes not in _WIDTHS:
        raise OperandError(f"width is {width!r}: expected 1, 2, 4, 8, 16 or 32 lanes", see=_SHFL)
    return (32 - lanes) << 8 | (0 if mode == "up" else 31)


def _operands(
    mode: str, lane: Reg | int, width: int | None, clamp: Reg | int | None, mask: Reg | int
) -> tuple[Operand, ...]:
    trace = current()
    return (
        operand(checked("lane", lane, 0, 31, see=_SHFL), trace),
        operand(_clamp(mode, width, clamp), trace),
        _members(mask, _SHFL),
    )


def _shuffle(
    mode: str,
    given: Reg,
    lane: Reg | int,
    width: int | None,
    clamp: Reg | int | None,
    mask: Reg | int,
    with_pred: bool,
    out: Reg | None,
) -> Reg | tuple[Reg, Reg]:
    source = _register("shfl", given, (32,), _SHFL)
    operands = (source, *_operands(mode, lane, width, clamp, mask))
    modifiers = ("sync", mode, "b32")
    if not with_pred:
        return value(given.type, "shfl", modifiers, operands, out=out)
    if out is not None:
        raise OperandError(
            "out= and with_pred=True are both given: expected one of them",
            hint="to write both results into given registers, use ptx.inst.shfl",
            see=_SHFL,
        )
    return value_pair((given.type, predicate), ("t", "inside"), "shfl", modifiers, operands)


@overload
def shfl_idx(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[False] = ...,
    out: Reg | None = ...,
) -> Reg: ...


@overload
def shfl_idx(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[True],
) -> tuple[Reg, Reg]: ...


@records("shfl.sync")
def shfl_idx(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = None,
    clamp: Reg | int | None = None,
    mask: Reg | int = FULL,
    with_pred: bool = False,
    out: Reg | None = None,
) -> Reg | tuple[Reg, Reg]:
    """Read ``given`` of lane ``lane``, counted from the segment's first. Records one ``shfl.sync.idx.b32``.

    Args:
        given: any 32-bit register; the result has its type.
        lane: source lane, 0..31.
        width: lanes of a segment, a power of two: lanes exchange values within their segment. Default: 32.
        clamp: instead of ``width``, the manual's operand c: segment mask in bits 8..12, last lane (with
            ``up`` the first lane) in bits 0..4.
        mask: lanes that take part.
        with_pred: return also a predicate, true if the source lane was inside the segment; otherwise a lane
            gets its own value: ``x, inside = shfl_down(x, 1, with_pred=True)``.
        out: register to write; default: a new one, named after the variable that takes the result.

    Raises:
        OperandError: a register of another width, or a number out of range.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    return _shuffle("idx", given, lane, width, clamp, mask, with_pred, out)


@overload
def shfl_bfly(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[False] = ...,
    out: Reg | None = ...,
) -> Reg: ...


@overload
def shfl_bfly(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[True],
) -> tuple[Reg, Reg]: ...


@records("shfl.sync")
def shfl_bfly(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = None,
    clamp: Reg | int | None = None,
    mask: Reg | int = FULL,
    with_pred: bool = False,
    out: Reg | None = None,
) -> Reg | tuple[Reg, Reg]:
    """Read ``given`` of the lane numbered this lane's XOR ``lane``. Records one ``shfl.sync.bfly.b32``.

    The arguments are those of :func:`shfl_idx`.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    return _shuffle("bfly", given, lane, width, clamp, mask, with_pred, out)


@overload
def shfl_down(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[False] = ...,
    out: Reg | None = ...,
) -> Reg: ...


@overload
def shfl_down(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[True],
) -> tuple[Reg, Reg]: ...


@records("shfl.sync")
def shfl_down(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = None,
    clamp: Reg | int | None = None,
    mask: Reg | int = FULL,
    with_pred: bool = False,
    out: Reg | None = None,
) -> Reg | tuple[Reg, Reg]:
    """Read ``given`` of the lane that is ``lane`` higher. Records one ``shfl.sync.down.b32``.

    The arguments are those of :func:`shfl_idx`.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    return _shuffle("down", given, lane, width, clamp, mask, with_pred, out)


@overload
def shfl_up(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[False] = ...,
    out: Reg | None = ...,
) -> Reg: ...


@overload
def shfl_up(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = ...,
    clamp: Reg | int | None = ...,
    mask: Reg | int = ...,
    with_pred: Literal[True],
) -> tuple[Reg, Reg]: ...


@records("shfl.sync")
def shfl_up(
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = None,
    clamp: Reg | int | None = None,
    mask: Reg | int = FULL,
    with_pred: bool = False,
    out: Reg | None = None,
) -> Reg | tuple[Reg, Reg]:
    """Read ``given`` of the lane that is ``lane`` lower. Records one ``shfl.sync.up.b32``.

    The arguments are those of :func:`shfl_idx`.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    return _shuffle("up", given, lane, width, clamp, mask, with_pred, out)


def shfl64(
    mode: ShuffleMode,
    given: Reg,
    lane: Reg | int,
    *,
    width: int | None = None,
    clamp: Reg | int | None = None,
    mask: Reg | int = FULL,
) -> Reg:
    """Shuffle a 64-bit register.

    Records four instructions: a ``mov`` that splits it, two ``shfl.sync``, and a ``mov`` that joins them.

    Args:
        mode: ``"idx"``, ``"bfly"``, ``"down"`` or ``"up"``.
        given: any 64-bit register; the result has its type.
        lane, width, clamp, mask: as for :func:`shfl_idx`.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    trace = current()
    _register("shfl64", given, (64,), _SHFL)
    operands = _operands(mode, lane, width, clamp, mask)
    site, line = here()
    with trace.atomic():
        into = new_register(trace, given.type, site.name or "t", line)
        _move_halves(mode, given, operands, into, None, trace)
    return into


def _move_halves(
    mode: str,
    given: Reg,
    operands: tuple[Operand, ...],
    into: Reg,
    inside: Reg | None,
    trace: Trace,
) -> None:
    """Shuffle 64 bits: four instructions. ``inside`` gets the predicate of the first shuffle."""
    line = here()[1]
    low, high = (new_register(trace, TYPES["b32"], name, line).operand for name in ("low", "high"))
    both = Vector((low, high))
    first = low if inside is None else Pair(low, inside.operand)
    trace.record("mov", ("b64",), (both, given.operand))
    trace.record("shfl", ("sync", mode, "b32"), (first, low, *operands))
    trace.record("shfl", ("sync", mode, "b32"), (high, high, *operands))
    trace.record("mov", ("b64",), (into.operand, both))


# --- reductions -----------------------------------------------------------------------------------


@records("redux.sync", "redux.sync.bits", "redux.sync.f32")
def redux(
    op: str,
    given: Reg,
    *,
    magnitude: bool = False,
    nan: bool = False,
    mask: Reg | int = FULL,
    out: Reg | None = None,
) -> Reg:
    """Combine ``given`` over the lanes of ``mask``; all lanes get the result. Records one ``redux.sync``.

    Args:
        op: ``"add"``, ``"min"``, ``"max"`` of u32 and s32, ``"and"``, ``"or"``, ``"xor"`` of 32-bit
            integers, from sm_80 on; ``"min"`` and ``"max"`` of f32 on sm_100f.
        given: 32-bit register; the result has its type. Untyped bits add as unsigned.
        magnitude: for f32: compare absolute values.
        nan: for f32: return NaN if a lane has NaN.
        mask: lanes that take part.
        out: register to write; default: a new one, named after the variable that takes the result.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-redux-sync`.
    """
    one_of("op", op, _OPERATORS, see=_REDUX)
    operands = (_register("redux", given, (32,), _REDUX), _members(mask, _REDUX))
    kind = given.type
    on_bits = op in ("and", "or", "xor")
    type_name = "b32" if on_bits else integer_modifier(kind) if op == "add" else kind.name
    modifiers = present("sync", op, magnitude and "abs", nan and "NaN", type_name)
    return value(kind, "redux", modifiers, operands, out=out)


_OPERATORS = ("add", "min", "max", "and", "or", "xor")


def _combine(op: str, a: Reg, b: Reg, into: Reg, pred: Predicate = None) -> None:
    """Record the one instruction that computes ``a op b`` into the register ``into``."""
    if op in ("and", "or", "xor"):
        bits = (bits_of(into.type).name,)
        value(into.type, op, bits, (a.operand, b.operand), out=into, pred=pred)
    else:
        from . import math

        functions: dict[str, Callable[..., Reg]] = {"add": math.add, "min": math.min, "max": math.max}
        functions[op](a, b, out=into, pred=pred)


def _exchange(
    mode: str, given: Reg, lane: int, width: int, mask: Reg | int, into: Reg, inside: Reg | None
) -> None:
    """Shuffle ``given`` of another lane into ``into``: one instruction for 32 bits, four for 64."""
    trace = current()
    operands = _operands(mode, lane, width, None, mask)
    if given.type.bits == 64:
        _move_halves(mode, given, operands, into, inside, trace)
        return
    target = into.operand if inside is None else Pair(into.operand, inside.operand)
    trace.record("shfl", ("sync", mode, "b32"), (target, given.operand, *operands))


def _steps(width: int) -> list[int]:
    """Return the lane distances for a reduction over ``width`` lanes: 1, 2, 4 ... below ``width``."""
    if width not in _WIDTHS[1:]:
        raise OperandError(f"width is {width!r}: expected 2, 4, 8, 16 or 32 lanes", see=_SHFL)
    return [n for n in _WIDTHS if n < width]


def reduce(
    given: Reg,
    op: str | Callable[[Reg, Reg], Reg] = "add",
    *,
    width: int = 32,
    mask: Reg | int = FULL,
) -> Reg:
    """Combine ``given`` over the lanes of each segment; all lanes get the result. Works for any type.

    Records ``2 * log2(width)`` instructions, 10 for a whole warp: a butterfly ``shfl.sync`` and one operation
    for each step; for 64-bit types ``5 * log2(width)``. Floats are added in the order of the butterfly.

    Args:
        given: register of 32 or 64 bits; packs (f16x2, bf16x2) combine element by element.
        op: ``"add"``, ``"min"``, ``"max"``, ``"and"``, ``"or"``, ``"xor"``, or a function of two registers
            that records the combining instructions, such as ``lambda a, b: a * b``; it must be commutative.
        width: lanes of a segment: 2, 4, 8, 16 or 32.
        mask: lanes that take part, in whole segments.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    trace = current()
    _register("reduce", given, (32, 64), _SHFL)
    if isinstance(op, str):
        one_of("op", op, _OPERATORS, see=_SHFL)
    steps = _steps(width)
    site, line = here()
    with trace.atomic():
        total, other = given, new_register(trace, given.type, "other", line)
        made = None if callable(op) else new_register(trace, given.type, site.name or "total", line)
        for lane in reversed(steps):
            _exchange("bfly", total, lane, width, mask, other, None)
            if made is not None:
                assert isinstance(op, str)
                _combine(op, total, other, made)
                total = made
            else:
                assert callable(op)
                try:
                    total = op(total, other)
                except TypeError as fault:
                    if isinstance(fault, OperandError):
                        raise
                    raise OperandError(
                        f"op is {op!r}: expected a function of two registers ({fault})", see=_SHFL
                    ) from fault
                if getattr(total, "type", None) is not given.type:
                    raise OperandError(
                        f"the function of reduce returned {total!r}: expected a .{given.type} register"
                    )
    return total


def scan(given: Reg, op: str = "add", *, width: int = 32, mask: Reg | int = FULL) -> Reg:
    """Combine ``given`` over this lane and all lower lanes of its segment (an inclusive prefix sum).

    Records ``1 + 2 * log2(width)`` instructions, 11 for a whole warp: a ``mov``, and a ``shfl.sync.up`` and
    one guarded operation for each step; for 64-bit types ``1 + 5 * log2(width)``.

    Args:
        given: register of 32 or 64 bits.
        op: ``"add"``, ``"min"``, ``"max"``, ``"and"``, ``"or"``, ``"xor"``.
        width: lanes of a segment: 2, 4, 8, 16 or 32.
        mask: lanes that take part, whole segments.

    PTX ISA: `#data-movement-and-conversion-instructions-shfl-sync`.
    """
    trace = current()
    _register("scan", given, (32, 64), _SHFL)
    one_of("op", op, _OPERATORS, see=_SHFL)
    steps = _steps(width)
    site, line = here()
    with trace.atomic():
        total = new_register(trace, given.type, site.name or "total", line)
        other = new_register(trace, given.type, "other", line)
        inside = new_register(trace, predicate, "inside", line)
        move(trace, total, given, line)
        for lane in steps:
            _exchange("up", total, lane, width, mask, other, inside)
            _combine(op, total, other, total, inside)
    return total
