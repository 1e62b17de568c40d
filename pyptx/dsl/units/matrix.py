"""``ptx.ldmatrix``, ``ptx.stmatrix``, ``ptx.movmatrix``: matrices between shared memory and fragments.

PTX ISA: `#warp-level-matrix-instructions-ldmatrix`.  A whole warp executes each instruction; each function
records exactly one.  :func:`pyptx.layout.matrix_fragment` maps elements to lanes and registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import OperandError
from ...ir import Register
from ...layout import matrix_fragment
from ..choices import SharedSpace
from ..emit import Predicate, emit
from ..operands import Addr, addr, operand
from ..records import records
from ..register_arrays import RegArray
from ..registers import Reg
from ..smem import Buffer
from ..trace import current
from .places import check_place
from .qualifiers import one_of, shared_space
from .values import value

__all__ = ["ldmatrix", "movmatrix", "stmatrix"]

_LD = "warp-level-matrix-instructions-ldmatrix"
_ST = "warp-level-matrix-instructions-stmatrix"
_MOV = "warp-level-matrix-instructions-movmatrix"

#: Shapes of ldmatrix and their source formats; None is for elements that are not unpacked.
_LOADS: dict[str, tuple[str | None, ...]] = {
    "m8n8": (None,),
    "m16n16": (None, "b6x16_p32", "b4x16_p64"),
    "m8n16": ("b6x16_p32", "b4x16_p64", "s4"),
}
_STORES = ("m8n8", "m16n8")
#: Shapes that are always transposed.
_TRANSPOSED = ("m16n16", "m16n8")

Registers = Reg | Sequence[Reg] | RegArray


def _prepared(
    place: Reg | Addr | Buffer,
    regs: Registers,
    shape: str,
    num: int | None,
    trans: bool | None,
    see: str,
) -> tuple[list[Reg], str, str | None]:
    """Check the arguments of a matrix load or store; return registers, ``xN``, and ``trans`` or None."""
    vector = [regs] if isinstance(regs, Reg) else list(regs)
    turned = shape in _TRANSPOSED
    if trans is None:
        trans = turned
    elif shape != "m8n8" and bool(trans) != turned:
        raise OperandError(
            f"trans is {trans!r} with shape {shape!r}: expected {turned}, as this shape always has",
            see=see,
        )
    each = matrix_fragment(shape, trans=bool(trans)).registers
    if num is None:
        num = len(vector) // each
    needed = matrix_fragment(shape, num, trans=bool(trans)).registers
    if len(vector) != needed:
        raise OperandError(
            f"{len(vector)} registers for {num} matrices of shape {shape}: expected {needed}", see=see
        )
    check_place("the matrix in", place, None, 16, see=see)
    return vector, f"x{num}", "trans" if trans else None


@records(
    "ldmatrix", "ldmatrix.m16n16", "ldmatrix.m16n16.unpack", "ldmatrix.m8n16.unpack", "ldmatrix.m8n16.extend"
)
def ldmatrix(
    regs: Registers,
    rows: Reg | Addr | Buffer,
    *,
    shape: str = "m8n8",
    num: int | None = None,
    trans: bool | None = None,
    source: str | None = None,
    space: SharedSpace | None = "shared",
    pred: Predicate = None,
) -> None:
    """Load matrices from shared memory into fragments. Records one ``ldmatrix...``.

    Each lane gives the address of one row of 16 bytes: lane ``8*i + r`` (``16*i + r`` for m16n16) gives row
    ``r`` of matrix ``i``. A of ``m16n8k16`` consists of four matrices (``shape="m8n8"``, ``num=4``): rows
    0..7 and 8..15 of K columns 0..7, then the same rows of K columns 8..15.

    Args:
        regs: 32-bit destinations: ``num`` of them, twice as many for m16n16. They may be a fragment.
        rows: address of this lane's row, a multiple of 16 bytes.
        shape: ``"m8n8"`` (16-bit elements), ``"m16n16"`` (bytes, or elements unpacked into bytes) or
            ``"m8n16"`` (elements unpacked into bytes).
        num: number of matrices, 1, 2 or 4 (m16n16: 1 or 2); default: derived from the number of registers.
        trans: give each lane elements of a column instead of a row. Always so for m16n16, never for m8n16.
        source: format of packed elements in memory, which are unpacked into bytes: ``"b6x16_p32"`` or
            ``"b4x16_p64"`` (16 elements of 6 or 4 bits, padded to 16 bytes), or ``"s4"`` (m8n16, extended to
            s8).
        space: ``"shared"``, ``"cta"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: a combination that does not exist, a wrong number of registers, or an address that is
            known to be misaligned.
        SpecError: a number of matrices that does not exist.
        TargetError: m16n16 and m8n16 need sm_100f or sm_120f; ``"s4"`` has sm_90a too.

    PTX ISA: `#warp-level-matrix-instructions-ldmatrix`.
    """
    one_of("shape", shape, tuple(_LOADS), see=_LD)
    one_of(f"source with shape {shape!r}", source, _LOADS[shape], see=_LD)
    vector, repeat, turned = _prepared(rows, regs, shape, num, trans, _LD)
    if source is None:
        types: tuple[str, ...] = ("b16",) if shape == "m8n8" else ("b8",)
    else:
        types = ("s8", "s4") if source == "s4" else ("b8x16", source)
    where = shared_space(space, ("shared", "cta", None), see=_LD)
    modifiers = ("sync", "aligned", shape, repeat, turned, where, *types)
    emit("ldmatrix", modifiers, vector, addr(rows), pred=pred)


@records("stmatrix", "stmatrix.m16n8")
def stmatrix(
    rows: Reg | Addr | Buffer,
    regs: Registers,
    *,
    shape: str = "m8n8",
    num: int | None = None,
    trans: bool | None = None,
    space: SharedSpace | None = "shared",
    pred: Predicate = None,
) -> None:
    """Store fragments to matrices in shared memory. Records one ``stmatrix...``.

    Row ``r`` of matrix ``i`` goes to the address of lane ``8*i + r``. The halves of a row of D of
    ``m16n8k16``, packed to 16 bits, are two matrices m8n8.

    Args:
        rows: address of this lane's row of 16 bytes, a multiple of 16 bytes.
        regs: 32-bit sources, one for each matrix.
        shape: ``"m8n8"`` (16-bit elements) or ``"m16n8"`` (bytes: 8 rows of 16 in memory).
        num: number of matrices, 1, 2 or 4; default: the number of registers.
        trans: each lane holds elements of a column instead of a row. Always so for m16n8.
        space: ``"shared"``, ``"cta"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: as for :func:`ldmatrix`.
        SpecError: a number of matrices that does not exist.
        TargetError: before sm_90; m16n8 needs sm_100f or sm_120f.

    PTX ISA: `#warp-level-matrix-instructions-stmatrix`.
    """
    one_of("shape", shape, _STORES, see=_ST)
    vector, repeat, turned = _prepared(rows, regs, shape, num, trans, _ST)
    where = shared_space(space, ("shared", "cta", None), see=_ST)
    modifiers = ("sync", "aligned", shape, repeat, turned, where, "b16" if shape == "m8n8" else "b8")
    emit("stmatrix", modifiers, addr(rows), vector, pred=pred)


@records("movmatrix")
def movmatrix(a: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Transpose an 8x8 matrix of 16-bit elements in registers. Records one ``movmatrix.sync.aligned``.

    Args:
        a: the matrix by rows, as ``ldmatrix`` loads it: 32 bits in each lane.
        out: the destination; default: a new register of ``a``'s type.
        pred: guard.

    Raises:
        OperandError: a register of another width.

    PTX ISA: `#warp-level-matrix-instructions-movmatrix`.
    """
    trace = current()
    given = operand(a, trace)
    if not isinstance(given, Register) or given.type.bits != 32:
        raise OperandError(f"movmatrix transposes 32-bit registers, not {a!r}", see=_MOV)
    modifiers = ("sync", "aligned", "m8n8", "trans", "b16")
    return value(a.type, "movmatrix", modifiers, (given,), out=out, pred=pred)
