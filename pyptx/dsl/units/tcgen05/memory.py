"""Tensor memory: allocation, addresses, loads into registers and stores from registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.errors import OperandError
from ....core.types import ScalarType
from ....ir import Immediate
from ....layout.tensor_memory import COLUMNS, LANES
from ...choices import CtaSpace, Extremum
from ...emit import Predicate, checked, emit
from ...operands import Addr, addr
from ...records import records
from ...register_arrays import RegArray
from ...registers import Reg, owned, result
from ...smem import Buffer
from ...trace import current
from ...types import as_whole
from ..qualifiers import one_of, shared_space, type_modifier
from ..values import register
from .arguments import group

__all__ = [
    "address",
    "alloc",
    "dealloc",
    "ld",
    "ld_red",
    "ld_red_spcompress",
    "ld_spcompress",
    "relinquish_alloc_permit",
    "st",
    "wait_ld",
    "wait_st",
]

Registers = Reg | Sequence[Reg] | RegArray

_ALLOC = "tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit"
_LD = "tcgen05-instructions-tcgen05-ld"
_ADDRESSES = "tensor-memory-addressing"
_COLUMNS = (32, 64, 128, 256, 512)
_EXCLUSIVE_COLUMNS = tuple(range(32, 577, 32))
#: Registers of one repetition.
_REGISTERS = {"16x128b": 2, "16x256b": 4}
_HALVES = "16x32bx2"


# --- allocation -----------------------------------------------------------------------------------


def _columns(ncols: Reg | int, exclusive: bool) -> Reg | int:
    legal = _EXCLUSIVE_COLUMNS if exclusive else _COLUMNS
    if not isinstance(ncols, Reg) and ncols not in legal:
        rule = "a multiple of 32" if exclusive else "a power of two"
        raise OperandError(
            f"{ncols!r} columns of tensor memory: expected {rule}, {legal[0]}..{legal[-1]}", see=_ALLOC
        )
    return ncols


@records("tcgen05.alloc", "tcgen05.alloc.exclusive")
def alloc(
    slot: Reg | Addr | Buffer,
    ncols: Reg | int,
    cta_group: int = 1,
    *,
    exclusive: bool = False,
    space: CtaSpace | None = "cta",
    pred: Predicate = None,
) -> None:
    """Allocate columns of tensor memory; ``slot`` receives their address. Records one ``tcgen05.alloc``.

    One whole warp executes it. The warp waits until enough columns are free.

    Args:
        slot: 4 bytes of shared memory.
        ncols: a power of two, 32..512; exclusive: a multiple of 32, 32..576 (more than 512: sm_107).
        cta_group: 1, or 2 for a pair of CTAs.
        exclusive: allocate while no other allocation exists; the CTA keeps the permit to allocate until it
            frees the columns (``tcgen05.alloc.exclusive``, PTX 9.4).
        space: ``"cta"``, or None for a generic 64-bit address.
        pred: guard.

    Raises:
        OperandError: another number of columns.

    PTX ISA: `#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit`.
    """
    modifiers = (
        "alloc",
        "exclusive" if exclusive else None,
        group(cta_group),
        "sync",
        "aligned",
        shared_space(space, ("cta", None), see=_ALLOC),
        "b32",
    )
    emit("tcgen05", modifiers, addr(slot), _columns(ncols, exclusive), pred=pred)


@records("tcgen05.dealloc", "tcgen05.dealloc.exclusive")
def dealloc(
    taddr: Reg,
    ncols: Reg | int,
    cta_group: int = 1,
    *,
    exclusive: bool = False,
    pred: Predicate = None,
) -> None:
    """Free columns of tensor memory. Records one ``tcgen05.dealloc``.

    One whole warp executes it, after every access to the columns is known to be complete. All columns must be
    freed before the kernel ends.  Arguments and errors as for :func:`alloc`; columns that were allocated with
    ``exclusive`` are freed with ``exclusive``.

    PTX ISA: `#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit`.
    """
    modifiers = (
        "dealloc",
        "exclusive" if exclusive else None,
        group(cta_group),
        "sync",
        "aligned",
        "b32",
    )
    emit("tcgen05", modifiers, taddr, _columns(ncols, exclusive), pred=pred)


@records("tcgen05.relinquish_alloc_permit")
def relinquish_alloc_permit(cta_group: int = 1, *, pred: Predicate = None) -> None:
    """Give up the CTA's right to allocate. Records one ``tcgen05.relinquish_alloc_permit``.

    PTX ISA: `#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit`.
    """
    emit("tcgen05", ("relinquish_alloc_permit", group(cta_group), "sync", "aligned"), pred=pred)


def address(base: Reg, lane: Reg | int = 0, column: Reg | int = 0) -> Reg:
    """Compute the address ``lane`` lanes and ``column`` columns after ``base``; it has the type of ``base``.

    Records up to three instructions: ``add.u32`` for the numbers (none if both are 0), ``mad.lo.u32`` for a
    register ``lane`` and ``add.u32`` for a register ``column``.

    Args:
        base: address in tensor memory, a 32-bit register.
        lane: 0..127, or a register.
        column: 0..511, or a register.

    Raises:
        OperandError: a base that is not a 32-bit register, or a number outside the range.

    PTX ISA: `#tensor-memory-addressing`.
    """
    trace = current()
    register("base", base, 32, "a 32-bit register", see=_ADDRESSES)
    checked("lane", lane, 0, LANES - 1, see=_ADDRESSES)
    checked("column", column, 0, COLUMNS - 1, see=_ADDRESSES)
    with trace.atomic():
        found = owned(base, trace)
        kind = found.type
        if isinstance(lane, Reg):
            operands = (owned(lane, trace).operand, Immediate(1 << 16), found.operand)
            found = result(trace, kind, "mad", ("lo", "u32"), operands, "taddr")
        if isinstance(column, Reg):
            both = (found.operand, owned(column, trace).operand)
            found = result(trace, kind, "add", ("u32",), both, "taddr")
        constant = ((as_whole(lane) or 0) << 16) + (as_whole(column) or 0)
        if constant:
            found = result(trace, kind, "add", ("u32",), (found.operand, Immediate(constant)), "taddr")
    return found


# --- loads and stores -----------------------------------------------------------------------------


def _b32(dtype: ScalarType | str, what: str) -> str:
    name = dtype.name if isinstance(dtype, ScalarType) else str(dtype).lstrip(".")
    if name != "b32":
        raise OperandError(
            f"{what} moves 32-bit cells, dtype 'b32', not {name!r}",
            hint="view the registers as another type afterwards: out[i].view(f32)",
            see=f"tcgen05-instructions-{what.replace('.', '-')}",
        )
    return name


def _vector(regs: Registers) -> list[Any]:
    return [regs] if isinstance(regs, Reg) else list(regs)


def _destinations(*groups: Registers) -> list[list[Any]]:
    """Return the vectors of destination registers; raise an error if a register occurs twice."""
    vectors = [_vector(regs) for regs in groups]
    seen: set[str] = set()
    for written in (r for vector in vectors for r in vector if isinstance(r, Reg)):
        if written.name in seen:
            raise OperandError(
                f"{written} is a destination twice: a load writes distinct registers",
                hint="reg.array(b32, n) makes n distinct registers",
                see=_LD,
            )
        seen.add(written.name)
    return vectors


def _repetition(shape: str, count: int | None, registers: int) -> str:
    if count is None:
        count = registers // _REGISTERS.get(shape, 1)
    return f"x{count}"


def _half_split(shape: str, half_split: int | None, see: str) -> tuple[int, ...]:
    """Return the operand ``immHalfSplitoff``, which only the shape ``16x32bx2`` has."""
    if (shape == _HALVES) != (half_split is not None):
        raise OperandError(
            f"half_split is {half_split!r} with shape {shape!r}: "
            f"{_HALVES!r} takes the number of columns between its halves, no other shape does",
            see=see,
        )
    if half_split is None:
        return ()
    number = as_whole(half_split)
    if number is None or not 0 <= number < COLUMNS:
        raise OperandError(f"half_split is {half_split!r}: expected a number, 0..{COLUMNS - 1}", see=see)
    return (number,)


@records(
    "tcgen05.ld.32x32b",
    "tcgen05.ld.16x64b",
    "tcgen05.ld.16x128b",
    "tcgen05.ld.16x256b",
    "tcgen05.ld.16x32bx2",
)
def ld(
    regs: Registers,
    taddr: Reg | Addr,
    shape: str = "32x32b",
    count: int | None = None,
    dtype: ScalarType | str = "b32",
    pack: bool = False,
    *,
    half_split: int | None = None,
    pred: Predicate = None,
) -> None:
    """Load from tensor memory into registers, asynchronously. Records one ``tcgen05.ld.sync.aligned``.

    A whole warp executes it. Warp ``w`` can access lanes ``32*(w%4)`` to ``+31``; the address is the same in
    all lanes.  A use of the registers needs no wait; overwriting the tensor memory does (:func:`wait_ld`).

    Args:
        regs: destinations, as many as ``shape`` and ``count`` need (``count`` for 32x32b, 16x64b and
            16x32bx2, twice that for 16x128b, four times for 16x256b).
        taddr: address in tensor memory.
        shape: ``"32x32b"``, ``"16x64b"``, ``"16x128b"``, ``"16x256b"`` or ``"16x32bx2"``.
        count: the repetition ``.xN``, a power of two; default: derived from the number of registers.
        dtype: ``"b32"``.
        pack: put two 16-bit columns into one register.
        half_split: for 16x32bx2: number of columns from the first half to the second, 0..511.
        pred: guard.

    Raises:
        OperandError: a number of registers that does not fit the shape, or a register twice.

    PTX ISA: `#tcgen05-instructions-tcgen05-ld`.
    """
    (vector,) = _destinations(regs)
    modifiers = (
        "ld",
        "sync",
        "aligned",
        shape,
        _repetition(shape, count, len(vector)),
        "pack::16b" if pack else None,
        _b32(dtype, "tcgen05.ld"),
    )
    split = _half_split(shape, half_split, _LD)
    emit("tcgen05", modifiers, vector, addr(taddr), *split, pred=pred)


def _reduction(op: str, shapes: Sequence[str], shape: str, options: dict[str, bool]) -> tuple[str, ...]:
    """Check the shape of a reduction, and return those modifiers of ``options`` that are True."""
    one_of("shape", shape, shapes, see=_LD)
    return tuple(modifier for modifier, given in options.items() if given)


@records("tcgen05.ld.red.32x32b", "tcgen05.ld.red.16x32bx2")
def ld_red(
    regs: Registers,
    reduced: Reg,
    taddr: Reg | Addr,
    op: Extremum,
    shape: str = "32x32b",
    count: int | None = None,
    dtype: ScalarType | str = "f32",
    *,
    abs: bool = False,
    nan: bool = False,
    half_split: int | None = None,
    pred: Predicate = None,
) -> None:
    """Load as :func:`ld`, and find the least or greatest value of each row. Records one ``tcgen05.ld.red``.

    Only sm_103f, sm_107f and sm_110f have it.

    Args:
        regs: destinations, ``count`` of them.
        reduced: receives the thread's least or greatest value.
        taddr: address in tensor memory.
        op: ``"min"`` or ``"max"``.
        shape: ``"32x32b"`` or ``"16x32bx2"``.
        count: the repetition ``.xN``, 2 to 128; default: the number of registers.
        dtype: type as which the cells are compared: ``"f32"``, ``"u32"`` or ``"s32"``.
        abs: compare absolute values; for f32.
        nan: return NaN if any value is NaN; for f32.
        half_split: for 16x32bx2: number of columns from the first half to the second, 0..511.
        pred: guard.

    Raises:
        OperandError: an option that does not exist, ``abs`` or ``nan`` with integers, or a register twice.

    PTX ISA: `#tcgen05-instructions-tcgen05-ld`.
    """
    kind = type_modifier(dtype, ("f32", "u32", "s32"), see=_LD)
    if kind != "f32" and (abs or nan):
        raise OperandError(
            f"abs is {abs!r} and nan is {nan!r} with dtype {kind!r}: both are for 'f32' only", see=_LD
        )
    options = _reduction(op, ("32x32b", _HALVES), shape, {"abs": abs, "NaN": nan})
    vector, _ = _destinations(regs, reduced)
    modifiers = (
        "ld",
        "red",
        "sync",
        "aligned",
        shape,
        _repetition(shape, count, len(vector)),
        op,
        *options,
        kind,
    )
    split = _half_split(shape, half_split, _LD)
    emit("tcgen05", modifiers, vector, reduced, addr(taddr), *split, pred=pred)


@records("tcgen05.ld.spcompress")
def ld_spcompress(
    metadata: Registers,
    values: Registers,
    taddr: Reg | Addr,
    op: Extremum,
    count: int | None = None,
    *,
    abs: bool = False,
    pred: Predicate = None,
) -> None:
    """Load from tensor memory, and keep two of every four f32 values. Records one ``tcgen05.ld.spcompress``.

    Each thread loads ``count`` cells of its own row; ``metadata`` receives the indices of the values kept.
    Only sm_107a has it.

    Args:
        metadata: 1 register, 2 for ``count`` 64, 4 for 128.
        values: destinations, ``count / 2`` of them.
        taddr: address in tensor memory.
        op: ``"max"`` keeps the greatest values, ``"min"`` the least.
        count: the repetition ``.xN``, 4 to 128; default: derived from the number of registers.
        abs: compare absolute values.
        pred: guard.

    Raises:
        OperandError: an option that does not exist, a wrong number of registers, or a register twice.

    PTX ISA: `#tcgen05-instructions-tcgen05-ld`.
    """
    _compressed("spcompress", metadata, values, None, taddr, op, count, {"abs": abs}, pred)


@records("tcgen05.ld.red.spcompress")
def ld_red_spcompress(
    metadata: Registers,
    values: Registers,
    reduced: Reg,
    taddr: Reg | Addr,
    op: Extremum,
    count: int | None = None,
    *,
    abs: bool = False,
    nan: bool = False,
    pred: Predicate = None,
) -> None:
    """Load as :func:`ld_spcompress`, and find the least or greatest value of the row.

    Records one ``tcgen05.ld.red.spcompress``.  Arguments and errors as for :func:`ld_spcompress`, and:

    Args:
        reduced: receives the thread's least or greatest value.
        nan: ``reduced`` becomes NaN if any value is NaN.

    PTX ISA: `#tcgen05-instructions-tcgen05-ld`.
    """
    _compressed("red.spcompress", metadata, values, reduced, taddr, op, count, {"abs": abs, "NaN": nan}, pred)


def _compressed(
    name: str,
    metadata: Registers,
    values: Registers,
    reduced: Reg | None,
    taddr: Reg | Addr,
    op: str,
    count: int | None,
    options: dict[str, bool],
    pred: Predicate,
) -> None:
    given = _reduction(op, ("32x32b",), "32x32b", options)
    scalars: list[Any] = [] if reduced is None else [reduced]
    kept, chosen, *_ = _destinations(metadata, values, *scalars)
    repetition = f"x{2 * len(chosen) if count is None else count}"
    modifiers = (
        *("ld", *name.split("."), "sync", "aligned", "32x32b", repetition, op, "sp::2:4"),
        *given,
        *("f32", "b2"),
    )
    emit("tcgen05", modifiers, kept, chosen, *scalars, addr(taddr), pred=pred)


@records(
    "tcgen05.st.32x32b",
    "tcgen05.st.16x64b",
    "tcgen05.st.16x128b",
    "tcgen05.st.16x256b",
    "tcgen05.st.16x32bx2",
)
def st(
    taddr: Reg | Addr,
    regs: Registers,
    shape: str = "32x32b",
    count: int | None = None,
    dtype: ScalarType | str = "b32",
    unpack: bool = False,
    *,
    half_split: int | None = None,
    pred: Predicate = None,
) -> None:
    """Store registers to tensor memory, asynchronously. Records one ``tcgen05.st.sync.aligned``.

    Arguments and errors as for :func:`ld`; ``unpack`` splits each register into two 16-bit columns.

    PTX ISA: `#tcgen05-instructions-tcgen05-st`.
    """
    vector = _vector(regs)
    modifiers = (
        "st",
        "sync",
        "aligned",
        shape,
        _repetition(shape, count, len(vector)),
        "unpack::16b" if unpack else None,
        _b32(dtype, "tcgen05.st"),
    )
    split = _half_split(shape, half_split, "tcgen05-instructions-tcgen05-st")
    emit("tcgen05", modifiers, addr(taddr), *split, vector, pred=pred)


@records("tcgen05.wait")
def wait_ld(*, pred: Predicate = None) -> None:
    """Wait until this thread's earlier ``ld`` have read tensor memory. Records one ``tcgen05.wait::ld``.

    PTX ISA: `#tcgen05-instructions-tcgen05-wait`.
    """
    emit("tcgen05", ("wait::ld", "sync", "aligned"), pred=pred)


@records("tcgen05.wait")
def wait_st(*, pred: Predicate = None) -> None:
    """Wait until this thread's earlier ``st`` have written tensor memory.

    Records one ``tcgen05.wait::st``.  PTX ISA: `#tcgen05-instructions-tcgen05-wait`.
    """
    emit("tcgen05", ("wait::st", "sync", "aligned"), pred=pred)
