"""``ptx.atom``, ``ptx.atom_cas`` and ``ptx.red``: read-modify-write of memory in one step.

Each function records exactly one instruction.  The type is the type of the register that is combined with
memory.  Bitwise operations, exchanges and compare-and-swap work on its bits.  Untyped bits and s64 add as
unsigned, which gives the same bits.  16-bit floats are added without flushing subnormal numbers (``.noftz``),
as PTX demands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ...core.errors import OperandError
from ...core.tuples import NamedTuple
from ...core.types import ScalarType
from ...ir import Operand, Vector
from ..choices import AtomicOperation, AtomicOrder, AtomicSpace, ReductionOperation, ReductionOrder, Scope
from ..emit import Predicate
from ..operands import address, guard
from ..records import records
from ..register_arrays import RegArray
from ..registers import Number, Reg
from ..trace import current
from ..types import bits_of, the_type
from .memory import Place, cached, length, space_of
from .values import meet, present, typed, value, values

__all__ = ["atom", "atom_cas", "red"]

_ATOM = "parallel-synchronization-and-communication-instructions-atom"
_RED = "parallel-synchronization-and-communication-instructions-red"

_ON_BITS = frozenset({"and", "or", "xor", "exch"})
#: Floats of 16 bits, alone or two in a register.
_HALVES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})


def _type_modifier(op: str, kind: ScalarType) -> str:
    """Return the type modifier with which the operation ``op`` combines a value of type ``kind``."""
    if op in _ON_BITS:
        return bits_of(kind).name
    if op == "add" and kind.name == "s64":
        return "u64"
    return f"u{kind.bits}" if kind.kind == "b" and op in ("add", "inc", "dec") else kind.name


class _Operation(NamedTuple):
    """The parts of an ``atom`` or ``red``: type and number of values (None for one), modifiers, operands."""

    kind: ScalarType
    length: int | None
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]


def _operation(
    op: str,
    place: Place,
    given: Any,
    kind: ScalarType | None,
    order: tuple[str | None, str | None, str | None],
    noftz: bool,
    cache_hint: Reg | None,
    see: str,
) -> _Operation:
    """Return the parts that ``atom`` and ``red`` have in common. ``order`` is semantics, scope and space."""
    trace = current()
    several = isinstance(given, (RegArray, list, tuple))
    items = list(given) if several else [given]
    count = len(items) if several else None
    kind = the_type(kind) if kind is not None else _meet(op, items)
    elements: list[Any] = [typed(item, kind, trace) for item in items]
    hint, policies = cached(cache_hint, trace)
    sem, scope, space = order
    modifiers = present(
        sem,
        scope,
        space_of(place, space),
        op,
        (noftz or (kind.name in _HALVES and op not in _ON_BITS)) and "noftz",
        hint,
        length(count, see),
        _type_modifier(op, kind),
    )
    combined: Operand = Vector(tuple(elements)) if several else elements[0]
    return _Operation(kind, count, modifiers, (address(place, trace), combined, *policies))


def _meet(op: str, items: list[Any]) -> ScalarType:
    if not any(isinstance(item, Reg) for item in items):
        raise OperandError(
            f"the type of {op} with {', '.join(map(repr, items))} is not known",
            hint="pass the type: kind=u32",
        )
    return meet(f"atom {op}", *items)


@overload
def atom(
    op: AtomicOperation,
    target: Place,
    given: Reg | Number,
    kind: ScalarType | None = ...,
    *,
    sem: AtomicOrder | None = ...,
    scope: Scope | None = ...,
    space: AtomicSpace | None = ...,
    noftz: bool = ...,
    cache_hint: Reg | None = ...,
    out: Reg | None = ...,
    pred: Predicate = ...,
) -> Reg: ...


@overload
def atom(
    op: AtomicOperation,
    target: Place,
    given: Sequence[Reg],
    kind: ScalarType | None = ...,
    *,
    sem: AtomicOrder | None = ...,
    scope: Scope | None = ...,
    space: AtomicSpace | None = ...,
    noftz: bool = ...,
    cache_hint: Reg | None = ...,
    out: Sequence[Reg] | None = ...,
    pred: Predicate = ...,
) -> RegArray: ...


@records(
    "atom",
    "atom.exch.b128",
    "atom.add.noftz",
    "atom.add.noftz.f32",
    "atom.add.vec",
    "atom.add.vec.noftz",
    "atom.noftz.vec",
)
def atom(
    op: AtomicOperation,
    target: Place,
    given: Reg | Number | Sequence[Reg],
    kind: ScalarType | None = None,
    *,
    sem: AtomicOrder | None = None,
    scope: Scope | None = None,
    space: AtomicSpace | None = None,
    noftz: bool = False,
    cache_hint: Reg | None = None,
    out: Reg | Sequence[Reg] | None = None,
    pred: Predicate = None,
) -> Reg | RegArray:
    """Combine a value with memory, and return the value that memory held before. Records one ``atom``.

    Args:
        op: ``"add"``, ``"min"``, ``"max"``, ``"and"``, ``"or"``, ``"xor"``, ``"exch"``, ``"inc"`` (wraps to 0
            after ``given``) or ``"dec"`` (wraps to ``given`` below 0).
        target: address: a register, ``ptx.addr(...)`` or a shared-memory buffer.
        given: a register or a number; from sm_90 on, 2, 4 or 8 registers of f32 (``"add"``) or of 16-bit
            floats and packs of them (``"add"``, ``"min"``, ``"max"``), at most 16 bytes in global memory.
        kind: the type, if ``given`` is a number.
        sem: ``"relaxed"`` (the default of PTX), ``"acquire"``, ``"release"`` or ``"acq_rel"``.
        scope: ``"cta"``, ``"cluster"``, ``"gpu"`` (the default of PTX) or ``"sys"``.
        space: ``"global"``, ``"shared"``, ``"shared::cta"`` or ``"shared::cluster"``; None for a generic
            address (shared for a buffer).
        noftz: keep subnormal numbers of f32, from PTX 9.4 and sm_90 on.
        cache_hint: L2 cache policy, a 64-bit register made by ``ptx.cache.policy``.
        out: registers to write; by default new ones, named after the variable that takes the result.
        pred: guard. Where it is false, new registers have no value.

    Raises:
        InstructionError: an operation that the type does not have, or modifiers that exclude each other.
        OperandError: no such operation, or operands that do not fit.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-atom`.
    """
    it = _operation(op, target, given, kind, (sem, scope, space), noftz, cache_hint, _ATOM)
    if it.length is None:
        if out is not None and not isinstance(out, Reg):
            raise OperandError(f"out is {out!r}: expected one register", see=_ATOM)
        return value(it.kind, "atom", it.modifiers, it.operands, out=out, pred=pred, hint="old")
    if isinstance(out, Reg):
        raise OperandError(f"out is {out!r}: expected {it.length} registers", see=_ATOM)
    return values(it.kind, it.length, "atom", it.modifiers, it.operands, out=out, pred=pred)


@records("atom.cas", "atom.cas.b128")
def atom_cas(
    target: Place,
    compare: Reg | Number,
    given: Reg | Number,
    kind: ScalarType | None = None,
    *,
    sem: AtomicOrder | None = None,
    scope: Scope | None = None,
    space: AtomicSpace | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Write ``given`` if memory holds ``compare``; return the value it held. Records one ``atom.cas``.

    Args:
        target: address: a register, ``ptx.addr(...)`` or a shared-memory buffer.
        compare, given: registers of one type of 16, 32, 64 or (from sm_90 on) 128 bits, or numbers.
        kind: the type, if both are numbers.
        sem, scope, space, out, pred: as for :func:`atom`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-atom`.
    """
    trace = current()
    kind = the_type(kind) if kind is not None else _meet("cas", [compare, given])
    modifiers = present(sem, scope, space_of(target, space), "cas", bits_of(kind).name)
    operands = (address(target, trace), typed(compare, kind, trace), typed(given, kind, trace))
    return value(kind, "atom", modifiers, operands, out=out, pred=pred, hint="old")


@records("red", "red.add.noftz", "red.add.noftz.f32", "red.add.vec", "red.add.vec.noftz", "red.noftz.vec")
def red(
    op: ReductionOperation,
    target: Place,
    given: Reg | Number | Sequence[Reg],
    kind: ScalarType | None = None,
    *,
    sem: ReductionOrder | None = None,
    scope: Scope | None = None,
    space: AtomicSpace | None = None,
    noftz: bool = False,
    cache_hint: Reg | None = None,
    pred: Predicate = None,
) -> None:
    """Combine a value with memory, without a result. Records one ``red``.

    Args:
        op: as for :func:`atom`, without ``"exch"``.
        sem: ``"relaxed"`` (the default of PTX) or ``"release"``.
        target, given, kind, scope, space, noftz, cache_hint, pred: as for :func:`atom`.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-red`.
    """
    trace = current()
    it = _operation(op, target, given, kind, (sem, scope, space), noftz, cache_hint, _RED)
    trace.record("red", it.modifiers, it.operands, guard(pred, trace))
