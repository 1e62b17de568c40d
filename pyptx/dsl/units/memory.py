"""``ptx.load``, ``ptx.ldu`` and ``ptx.store``: every form of ``ld``, ``ldu`` and plain ``st``.

Each function records exactly one instruction.  The type of the access follows from the type of the value and
has its size: f16 is accessed as b16, bf16x2 as b32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ...core.errors import OperandError
from ...core.types import ScalarType
from ...ir import Operand
from ..choices import (
    L1Priority,
    L2Priority,
    LoadCache,
    LoadOrder,
    LoadSpace,
    Scope,
    StoreCache,
    StoreOrder,
    StoreSpace,
)
from ..emit import Predicate, emit
from ..operands import Addr, addr, address, operand
from ..records import records
from ..register_arrays import RegArray
from ..registers import Number, Reg
from ..smem import Buffer
from ..symbols import Sym
from ..trace import Trace, current
from ..types import as_number, encode_number, memory_type, the_type
from .qualifiers import hinted
from .values import Vector, present, value, values

__all__ = ["ldu", "load", "store"]

Place = Reg | Addr | Buffer | Sym

_LD = "data-movement-and-conversion-instructions-ld"
_ST = "data-movement-and-conversion-instructions-st"


def space_of(place: object, space: str | None) -> str | None:
    """Return the state space of an access: ``space``, or ``"shared"`` for a buffer if ``space`` is None."""
    return "shared" if space is None and isinstance(place, Buffer) else space


def cached(cache_hint: Reg | None, trace: Trace) -> tuple[str | None, tuple[Operand, ...]]:
    """Return the modifier and the operand for an L2 cache policy."""
    if cache_hint is not None and not isinstance(cache_hint, Reg):
        raise OperandError(
            f"cache_hint is {cache_hint!r}: expected a 64-bit register made by ptx.cache.policy",
            see="cache-eviction-priority-hints",
        )
    hint, registers = hinted(cache_hint)
    return hint, tuple(operand(register, trace) for register in registers)


def length(vector: Any, see: str) -> str | None:
    """Return the vector modifier for ``count`` values: ``v4`` for 4; None for a single value."""
    if vector not in (None, 2, 4, 8):
        raise OperandError(f"vector is {vector!r}: expected 2, 4 or 8", see=see)
    return None if vector is None else f"v{vector}"


def _level(number: int, priority: str | None) -> str | None:
    return None if priority is None else f"L{number}::{priority}"


def _ahead(nbytes: int | None) -> str | None:
    if nbytes is not None and nbytes not in (64, 128, 256):
        raise OperandError(f"prefetch is {nbytes!r}: expected 64, 128 or 256 bytes", see=_LD)
    return None if nbytes is None else f"L2::{nbytes}B"


@overload
def load(
    kind: ScalarType,
    source: Place,
    *,
    space: LoadSpace | None = ...,
    vector: None = ...,
    sem: LoadOrder | None = ...,
    scope: Scope | None = ...,
    weak: bool = ...,
    volatile: bool = ...,
    mmio: bool = ...,
    nc: bool = ...,
    readonly: bool = ...,
    unified: bool = ...,
    cache: LoadCache | None = ...,
    l1: L1Priority | None = ...,
    l2: L2Priority | None = ...,
    prefetch: int | None = ...,
    cache_hint: Reg | None = ...,
    out: Reg | None = ...,
    pred: Predicate = ...,
) -> Reg: ...


@overload
def load(
    kind: ScalarType,
    source: Place,
    *,
    space: LoadSpace | None = ...,
    vector: int,
    sem: LoadOrder | None = ...,
    scope: Scope | None = ...,
    weak: bool = ...,
    volatile: bool = ...,
    mmio: bool = ...,
    nc: bool = ...,
    readonly: bool = ...,
    unified: bool = ...,
    cache: LoadCache | None = ...,
    l1: L1Priority | None = ...,
    l2: L2Priority | None = ...,
    prefetch: int | None = ...,
    cache_hint: Reg | None = ...,
    out: Sequence[Reg | None] | None = ...,
    pred: Predicate = ...,
) -> RegArray: ...


@records(
    "ld",
    "ld.evict",
    "ld.v256",
    "ld.b128",
    "ld.evict.b128",
    "ld.cop.v256",
    "ld.unified",
    "ld.unified.b128",
    "ld.param.where",
    "ld.param.where.b128",
    "ld.param.func",
    "ld.param.func.b128",
    "ld.volatile",
    "ld.volatile.b128",
    "ld.volatile.v256",
    "ld.strong",
    "ld.strong.b128",
    "ld.strong.v256",
    "ld.mmio",
    "ld.mmio.b128",
    "ld.nc",
    "ld.nc.evict",
    "ld.nc.v256",
    "ld.nc.b128",
    "ld.readonly",
    "ld.readonly.v256",
    "ld.nc.evict.b128",
    "ld.nc.cop.v256",
)
def load(
    kind: ScalarType,
    source: Place,
    *,
    space: LoadSpace | None = None,
    vector: int | None = None,
    sem: LoadOrder | None = None,
    scope: Scope | None = None,
    weak: bool = False,
    volatile: bool = False,
    mmio: bool = False,
    nc: bool = False,
    readonly: bool = False,
    unified: bool = False,
    cache: LoadCache | None = None,
    l1: L1Priority | None = None,
    l2: L2Priority | None = None,
    prefetch: int | None = None,
    cache_hint: Reg | None = None,
    out: Reg | Sequence[Reg | None] | None = None,
    pred: Predicate = None,
) -> Reg | RegArray:
    """Load a value, or a vector of values. Records one ``ld``.

    Args:
        kind: type of each value.
        source: address: a register, ``ptx.addr(...)``, a shared-memory buffer or the name of a variable.
        space: ``"global"``, ``"shared"``, ``"shared::cta"``, ``"shared::cluster"``, ``"local"``, ``"const"``,
            ``"param"``, ``"param::entry"``, ``"param::func"``; None for a generic address (shared for a
            buffer, global with ``nc``).
        vector: 2, 4 or 8 values, at most 16 bytes, or exactly 32 bytes from sm_100 on.
        sem, scope: ``"relaxed"`` or ``"acquire"`` at ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.
        weak: write the default order explicitly.
        volatile: forbid the compiler to remove, repeat or move the load.
        mmio: make exactly one access; needs ``sem`` and scope ``"sys"``.
        nc: load through the non-coherent cache, from global memory that no thread writes during the kernel.
        readonly: load through the read-only proxy, from memory that no thread writes during the kernel.
        unified: ``source`` lies in a variable that is declared unified.
        cache: ``"ca"``, ``"cg"``, ``"cs"``, ``"lu"`` or ``"cv"``.
        l1: L1 priority ``"evict_normal"``, ``"evict_unchanged"``, ``"evict_first"``, ``"evict_last"`` or
            ``"no_allocate"``.
        l2: L2 priority ``"evict_normal"``, ``"evict_first"`` or ``"evict_last"``, for 32-byte vectors.
        prefetch: bring 64, 128 or 256 bytes into L2.
        cache_hint: L2 cache policy, a 64-bit register made by ``ptx.cache.policy``.
        out: registers to write, None for a value of a 32-byte vector that is not needed; default: new
            registers named after the variable that takes the result.
        pred: guard. Where it is false, new registers have no value.

    Raises:
        InstructionError: modifiers that exclude each other.
        OperandError: an address, a vector or registers that do not fit.

    PTX ISA: `#data-movement-and-conversion-instructions-ld`.
    """
    trace = current()
    stored = memory_type(the_type(kind)).name
    hint, policies = cached(cache_hint, trace)
    place = address(addr(source, suffix="unified") if unified else source, trace)
    modifiers = present(
        weak and "weak",
        volatile and "volatile",
        mmio and "mmio",
        sem,
        scope,
        "global" if nc and space is None else space_of(source, space),
        cache,
        nc and "nc",
        _level(1, l1),
        _level(2, l2),
        hint,
        _ahead(prefetch),
        length(vector, _LD),
        stored,
        readonly and "proxy::readonly",
    )
    return _loaded("ld", kind, vector, modifiers, (place, *policies), out, pred)


def _loaded(
    opcode: str,
    kind: ScalarType,
    vector: int | None,
    modifiers: tuple[str, ...],
    operands: tuple[Operand, ...],
    out: Reg | Sequence[Reg | None] | None,
    pred: Predicate,
) -> Reg | RegArray:
    if vector is None:
        if out is not None and not isinstance(out, Reg):
            raise OperandError(
                f"out is {out!r}: expected one register", hint="to load several values, pass vector="
            )
        return value(kind, opcode, modifiers, operands, out=out, pred=pred)
    if isinstance(out, Reg):
        raise OperandError(f"out is {out!r}: expected {vector} registers")
    return values(kind, vector, opcode, modifiers, operands, out=out, pred=pred)


@overload
def ldu(
    kind: ScalarType,
    source: Place,
    *,
    space: str | None = ...,
    vector: None = ...,
    out: Reg | None = ...,
    pred: Predicate = ...,
) -> Reg: ...


@overload
def ldu(
    kind: ScalarType,
    source: Place,
    *,
    space: str | None = ...,
    vector: int,
    out: Sequence[Reg | None] | None = ...,
    pred: Predicate = ...,
) -> RegArray: ...


@records("ldu", "ldu.b128")
def ldu(
    kind: ScalarType,
    source: Place,
    *,
    space: str | None = None,
    vector: int | None = None,
    out: Reg | Sequence[Reg | None] | None = None,
    pred: Predicate = None,
) -> Reg | RegArray:
    """Load read-only data whose address is the same in all lanes. Records one ``ldu``.

    Args:
        kind, source, vector, out, pred: as for :func:`load`.
        space: ``"global"``, or None for a generic address.

    PTX ISA: `#data-movement-and-conversion-instructions-ldu`.
    """
    trace = current()
    modifiers = present(space, length(vector, _LD), memory_type(the_type(kind)).name)
    return _loaded("ldu", kind, vector, modifiers, (address(source, trace),), out, pred)


@records(
    "st",
    "st.evict",
    "st.v256",
    "st.b128",
    "st.evict.b128",
    "st.cop.v256",
    "st.param",
    "st.param.b128",
    "st.volatile",
    "st.volatile.b128",
    "st.volatile.v256",
    "st.strong",
    "st.strong.b128",
    "st.strong.v256",
    "st.mmio",
    "st.mmio.b128",
)
def store(
    target: Place,
    given: Reg | Number | Vector | Sequence[Reg | Number | None],
    kind: ScalarType | None = None,
    *,
    space: StoreSpace | None = None,
    sem: StoreOrder | None = None,
    scope: Scope | None = None,
    weak: bool = False,
    volatile: bool = False,
    mmio: bool = False,
    cache: StoreCache | None = None,
    l1: L1Priority | None = None,
    l2: L2Priority | None = None,
    cache_hint: Reg | None = None,
    pred: Predicate = None,
) -> None:
    """Store a value, or a vector of values. Records one ``st``.

    Args:
        target: address: a register, ``ptx.addr(...)``, a shared-memory buffer or the name of a variable.
        given: a register or a number; 2, 4 or 8 of them for a vector of at most 16 bytes, or of exactly 32
            bytes from sm_100 on, where None leaves that value in memory unchanged.
        kind: type of each value; default: the type of the registers or of the buffer.
        space: ``"global"``, ``"shared"``, ``"shared::cta"``, ``"shared::cluster"``, ``"local"``, ``"param"``
            or ``"param::func"``; None for a generic address (shared for a buffer).
        sem, scope: ``"relaxed"`` or ``"release"`` at ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.
        weak, volatile, mmio, l1, l2, cache_hint, pred: as for :func:`load`.
        cache: ``"wb"``, ``"cg"``, ``"cs"`` or ``"wt"``.

    Raises:
        InstructionError: modifiers that exclude each other.
        OperandError: an address or values that do not fit, or numbers whose type is not known.

    PTX ISA: `#data-movement-and-conversion-instructions-st`.
    """
    trace = current()
    several = isinstance(given, (RegArray, list, tuple))
    items: list[Any] = list(given) if several else [given]  # type: ignore[arg-type]
    kind = _kind_stored(target, items, kind)
    hint, policies = cached(cache_hint, trace)
    modifiers = present(
        weak and "weak",
        volatile and "volatile",
        mmio and "mmio",
        sem,
        scope,
        space_of(target, space),
        cache,
        _level(1, l1),
        _level(2, l2),
        hint,
        length(len(items) if several else None, _ST),
        memory_type(kind).name,
    )
    encoded = [_stored(item, kind, several) for item in items]
    emit("st", modifiers, addr(target), encoded if several else encoded[0], *policies, pred=pred)


def _kind_stored(target: Place, items: list[Any], kind: ScalarType | None) -> ScalarType:
    if kind is not None:
        return the_type(kind)
    for item in items:
        if isinstance(item, Reg):
            return item.type
    if isinstance(target, Buffer):
        return target.dtype
    raise OperandError(
        f"the type of the store of {', '.join(map(repr, items))} is not known",
        hint="pass the type: ptx.store(address, 0, u32)",
        see=_ST,
    )


def _stored(item: Any, kind: ScalarType, several: bool) -> Any:
    if isinstance(item, Reg) or (item is None and several):
        return item
    number = as_number(item)
    if number is None:
        raise OperandError(f"{item!r} cannot be stored: expected a register or a number", see=_ST)
    return encode_number(number, kind)
