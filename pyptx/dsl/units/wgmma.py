"""``ptx.wgmma``: matrix products of a warpgroup, B (and A) in shared memory, D in registers; Hopper.

PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions`.  Only sm_90a has them.  All 128 threads of a
warpgroup execute each instruction together: four warps, the first of which has a number divisible by four.

    acc = ptx.wgmma.accumulator(m=64, n=256, dtype=f32)
    a, b = ptx.wgmma.descriptor(tile_a), ptx.wgmma.descriptor(tile_b)
    ptx.wgmma.fence()
    ptx.wgmma.mma_async(acc, a, b, atype=bf16)
    ptx.wgmma.commit_group()
    ptx.wgmma.wait_group(0)

Every function records at most one instruction, except :func:`descriptor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.types import ScalarType, f32
from ...layout import (
    SWIZZLE_BYTES,
    OperandTile,
    WgmmaDescriptor,
    box_strides,
    wgmma_fragment,
    wgmma_metadata,
)
from ..call_sites import here
from ..emit import Predicate, emit
from ..operands import guard, operand
from ..records import records
from ..register_arrays import RegArray
from ..registers import NotPred, Reg
from ..smem import Buffer
from ..trace import current
from ..types import as_number, as_whole
from .descriptor_address import advance, shared_address, with_address
from .fragments import Fragment, declare, type_name
from .places import check_place
from .qualifiers import one_of
from .values import present

__all__ = [
    "accumulator",
    "advance",
    "commit_group",
    "descriptor",
    "fence",
    "fragment",
    "mma_async",
    "wait_group",
]

_PREFIX = "asynchronous-warpgroup-level-matrix-instructions-wgmma"
_MMA = f"{_PREFIX}-mma-async"
_DESCRIPTOR = "asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor"

#: Element types whose products are summed in s32.
_INTEGERS = ("s8", "u8", "b1")


# --- order and completion -------------------------------------------------------------------------


@records("wgmma.fence")
def fence(*, pred: Predicate = None) -> None:
    """Order earlier accesses to registers, and ordinary writes, before the mma_async that follow.

    Records one ``wgmma.fence.sync.aligned``.  It is needed before the first mma_async, and after each access
    to the accumulator or to the fragment of A; not between mma_async of the same shape into one accumulator.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions-wgmma-fence`.
    """
    emit("wgmma", ("fence", "sync", "aligned"), pred=pred)


@records("wgmma.commit_group")
def commit_group(*, pred: Predicate = None) -> None:
    """Commit the warp's mma_async that are in no group yet as one group. Records one ``wgmma.commit_group``.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group`.
    """
    emit("wgmma", ("commit_group", "sync", "aligned"), pred=pred)


@records("wgmma.wait_group")
def wait_group(n: int = 0, *, pred: Predicate = None) -> None:
    """Wait until at most ``n`` of the newest groups are pending. Records one ``wgmma.wait_group``.

    Before the wait, no thread may access the accumulator or overwrite A and B in shared memory.

    Args:
        n: number of groups that may stay pending; 0 waits for all groups.
        pred: guard.

    Raises:
        OperandError: ``n`` is negative or not an integer.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group`.
    """
    groups = as_whole(n)
    if groups is None or not 0 <= groups < 1 << 32:
        raise OperandError(
            f"wait_group({n!r}): expected a number of groups, 0..{(1 << 32) - 1}", see=f"{_PREFIX}-wait-group"
        )
    emit("wgmma", ("wait_group", "sync", "aligned"), groups, pred=pred)


# --- fragments ------------------------------------------------------------------------------------


def accumulator(
    m: int = 64, n: int = 256, dtype: ScalarType | str = f32, *, name: str | None = None
) -> Fragment:
    """Declare the registers of D: ``n/2``, or ``n/4`` f16x2 for f16. Records nothing.

    The registers have no value yet: begin with ``mma_async(..., scale_d=False)``.

    Args:
        m: 64.
        n: columns, a multiple of 8 up to 256 (for s32 8, 16, 24 or a multiple of 16).
        dtype: ``f32``, ``f16`` or ``s32``.
        name: stem of the names; default: the Python variable that the result is bound to.

    Raises:
        OperandError: another ``m``.
        SpecError: columns or a type that D does not have.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-register-fragment`.
    """
    if m != 64:
        raise OperandError(f"m is {m!r}: expected 64, the rows of a warpgroup's product", see=_MMA)
    element = type_name(dtype)
    return declare(wgmma_fragment("d", element, n), "d", f"m64n{n}", element, name=name)


def fragment(dtype: ScalarType | str, *, sparse: bool = False, name: str | None = None) -> Fragment:
    """Declare the registers of A: four, each of which holds 32 bits of a row. Records nothing.

    Args:
        dtype: type of the elements: f16, bf16, tf32, e4m3, e5m2, s8, u8 or ``"b1"``.
        sparse: for a product with ``metadata``; the registers hold half of its K.
        name: stem of the names; default: the Python variable that the result is bound to.

    Raises:
        SpecError: a type that A does not have.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-register-fragment`.
    """
    element = type_name(dtype)
    return declare(wgmma_fragment("a", element), "a", "m64", element, sparse=sparse, name=name)


# --- multiplication -------------------------------------------------------------------------------


@records(
    "wgmma.mma_async.f16.ss",
    "wgmma.mma_async.f16.rs",
    "wgmma.mma_async.tf32.ss",
    "wgmma.mma_async.tf32.rs",
    "wgmma.mma_async.fp8.ss",
    "wgmma.mma_async.fp8.rs",
    "wgmma.mma_async.int.ss",
    "wgmma.mma_async.int.rs",
    "wgmma.mma_async.b1.ss",
    "wgmma.mma_async.b1.rs",
    "wgmma.mma_async.sp.f16.ss",
    "wgmma.mma_async.sp.f16.rs",
    "wgmma.mma_async.sp.tf32.ss",
    "wgmma.mma_async.sp.tf32.rs",
    "wgmma.mma_async.sp.fp8.ss",
    "wgmma.mma_async.sp.fp8.rs",
    "wgmma.mma_async.sp.int.ss",
    "wgmma.mma_async.sp.int.rs",
)
def mma_async(
    d: Fragment | RegArray | Sequence[Reg],
    a: Reg | Fragment | RegArray | Sequence[Reg],
    b: Reg,
    *,
    n: int | None = None,
    dtype: ScalarType | str | None = None,
    atype: ScalarType | str | None = None,
    btype: ScalarType | str | None = None,
    scale_d: bool | Reg | NotPred = True,
    scale_a: int = 1,
    scale_b: int = 1,
    trans_a: bool = False,
    trans_b: bool = False,
    satfinite: bool = False,
    metadata: Reg | None = None,
    selector: int | None = None,
    pred: Predicate = None,
) -> None:
    """Compute D = A*B + D, or A*B, asynchronously. Records one ``wgmma.mma_async...``.

    K follows from the type: 16 elements of 16 bits, 8 of tf32, 32 of 8 bits, 256 of one; twice that with
    ``metadata``.

    Args:
        d: the accumulator, which is also the destination.
        a: a 64-bit descriptor, or four registers.
        b: a 64-bit descriptor.
        n, dtype: columns and type of D, if ``d`` is not a fragment; ``n`` defaults to the columns
            that its registers hold.
        atype, btype: types of A and B; default: the type of A's fragment, and the same type for both.
        scale_d: True if D is an addend: a bool or a predicate (or ``~p``). False ignores the value of D.
        scale_a, scale_b: -1 negates A or B; for floats.
        trans_a, trans_b: A or B is MN-major in shared memory; for f16 and bf16.
        satfinite: integer sums clamp instead of wrapping.
        metadata: a b32 register with the indices of A's kept elements; A then holds half of K. See
            :func:`pyptx.layout.wgmma_metadata`.
        selector: selects the threads of each four that supply the metadata: 0 (default) or 1 (not for 8-bit
            types).
        pred: guard.

    Raises:
        OperandError: operands of another size, or a scale or transposition that the types do not have.
        SpecError: a shape or type that does not exist.
        InstructionError: types that cannot be multiplied with each other.
        TargetError: a target other than sm_90a.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async`.
    """
    element_a, element_b = _multiplicands(a, atype, btype, metadata is not None)
    columns, total = _accumulated(d, n, None if dtype is None else type_name(dtype), element_a)
    vector = None if isinstance(a, Reg) else list(a)
    layout = wgmma_fragment("a", element_a)
    if vector is not None and len(vector) != layout.registers:
        raise OperandError(
            f"a has {len(vector)} registers: expected {layout.registers}, or a descriptor", see=_MMA
        )
    trace = current()
    condition = guard(pred, trace)
    values: list[Any] = [list(d), a if vector is None else vector, b]
    values += _supplied(element_a, metadata, selector)
    if not isinstance(scale_d, (Reg, NotPred)) and as_number(scale_d) not in (0, 1):
        raise OperandError(f"scale_d is {scale_d!r}: expected a bool or a predicate", see=_MMA)
    values.append(scale_d if isinstance(scale_d, (Reg, NotPred)) else int(scale_d))
    values += _signs(element_a, scale_a, scale_b)
    values += _transpositions(element_a, vector is not None, trans_a, trans_b)
    modifiers = present(
        "mma_async",
        None if metadata is None else "sp",
        "sync",
        "aligned",
        f"m64n{columns}k{layout.columns * (1 if metadata is None else 2)}",
        "satfinite" if satfinite else None,
        total,
        element_a,
        element_b,
        *(("and", "popc") if element_a == "b1" else ()),
    )
    trace.record("wgmma", modifiers, [operand(value, trace) for value in values], condition)


def _multiplicands(
    a: Reg | Fragment | RegArray | Sequence[Reg],
    atype: ScalarType | str | None,
    btype: ScalarType | str | None,
    sparse: bool,
) -> tuple[str, str]:
    """Return the types of A and B, from the arguments and A's fragment; raise an error if they disagree."""
    given_a = None if atype is None else type_name(atype)
    given_b = None if btype is None else type_name(btype)
    if isinstance(a, Fragment):
        if a.operand != "a" or a.layout.thread_count != 128 or not a.whole or a.sparse != sparse:
            raise OperandError(
                f"a is {a!r}{' of a sparse product' if a.sparse else ''}: expected a whole fragment of "
                f"ptx.wgmma.fragment(..., sparse={sparse})",
                see=_MMA,
            )
        if given_a not in (None, a.dtype):
            raise OperandError(f"atype is {given_a!r} and A is {a!r}: expected the same", see=_MMA)
        given_a = a.dtype
    given_a, given_b = given_a or given_b, given_b or given_a
    if given_a is None or given_b is None:
        raise OperandError("the types of A and B are not known", hint="pass atype=bf16", see=_MMA)
    return given_a, given_b


def _accumulated(
    d: Fragment | RegArray | Sequence[Reg], n: int | None, dtype: str | None, atype: str
) -> tuple[int, str]:
    """Return N and the type of D, from the arguments and D's fragment; raise an error if they disagree."""
    if isinstance(d, Fragment):
        if d.operand != "d" or d.layout.thread_count != 128 or not d.whole:
            raise OperandError(
                f"d is {d!r}: expected a whole accumulator of ptx.wgmma.accumulator(...)", see=_MMA
            )
        if n not in (None, d.layout.columns) or dtype not in (None, d.dtype):
            raise OperandError(f"n is {n!r}, dtype is {dtype!r} and D is {d!r}: expected the same", see=_MMA)
        return d.layout.columns, d.dtype
    if isinstance(d, Reg):
        raise OperandError(f"d is {d!r}: expected an accumulator, a vector of registers", see=_MMA)
    total = dtype or ("s32" if atype in _INTEGERS else "f32")
    columns = len(d) * (4 if total == "f16" else 2) if n is None else n
    count = wgmma_fragment("d", total, columns).registers
    if len(d) != count:
        raise OperandError(
            f"d has {len(d)} registers: expected {count} for n = {columns} in {total}", see=_MMA
        )
    return columns, total


def _supplied(atype: str, metadata: Reg | None, selector: int | None) -> list[Any]:
    """Return the operands that only a sparse product has: metadata, and the selector of its threads."""
    see = f"{_MMA}-sp"
    if metadata is None:
        if selector is not None:
            raise OperandError(f"selector is {selector!r} without metadata: expected None", see=see)
        return []
    if not isinstance(metadata, Reg):
        raise OperandError(f"metadata is {metadata!r}: expected a b32 register", see=see)
    choices = tuple(range(4 // wgmma_metadata(atype).suppliers))
    return [metadata, one_of("selector", 0 if selector is None else selector, choices, see=see)]


def _signs(atype: str, scale_a: int, scale_b: int) -> list[int]:
    """Return the operands that negate A and B, which only products of floats have."""
    if atype in _INTEGERS:
        if (scale_a, scale_b) != (1, 1):
            raise OperandError(
                f"scale_a is {scale_a!r} and scale_b is {scale_b!r} with {atype}: expected 1, as only "
                "floats are negated",
                see=_MMA,
            )
        return []
    return [
        one_of(what, value, (1, -1), see=_MMA) for what, value in (("scale_a", scale_a), ("scale_b", scale_b))
    ]


def _transpositions(atype: str, in_registers: bool, trans_a: bool, trans_b: bool) -> list[int]:
    """Return the operands that mean MN-major, which only 16-bit types in shared memory have."""
    halves = atype in ("f16", "bf16")
    if (trans_a or trans_b) and (not halves or (trans_a and in_registers)):
        raise OperandError(
            f"trans_a is {trans_a!r} and trans_b is {trans_b!r} with A of {atype} in "
            f"{'registers' if in_registers else 'shared memory'}: expected False; f16 and bf16 from shared "
            "memory alone may be MN-major",
            see=_MMA,
        )
    if not halves:
        return []
    return [int(trans_b)] if in_registers else [int(trans_a), int(trans_b)]


# --- descriptors ----------------------------------------------------------------------------------


def descriptor(
    source: Buffer | Reg,
    tile: OperandTile | None = None,
    *,
    swizzle: str | None = None,
    major: str | None = None,
    leading: int | None = None,
    stride: int | None = None,
    base_offset: int = 0,
) -> Reg:
    """Make the matrix descriptor of an operand in shared memory, a b64 register.

    Records four instructions: ``shr.u32``, ``and.b32``, ``cvt.u64.u32``, ``or.b64``.  The mask drops the bits
    that do not fit the field: the CTA's rank in its cluster, which bits 24 and up of a shared address hold.
    (The address of a stage or row that a register chose may need one ``add`` before.)  For the next K step of
    a K-major operand, :func:`advance` by 32 bytes within the row.

    Args:
        source: the operand: a buffer of shape ([boxes,] rows, elements), whose rows are those of TMA boxes
            along K (K-major) or along M or N (MN-major); or its shared address, a 32-bit register.
        tile: how the operand is stored, if the buffer's shape does not determine it.
        swizzle: ``"none"``, ``"32B"``, ``"64B"`` or ``"128B"``; default: the tile's, else the buffer's.
        major: ``"K"`` or ``"MN"``: the dimension whose neighbors are adjacent in memory; default: the
            tile's, else ``"K"``. For MN-major operands pass ``trans_a`` or ``trans_b`` to :func:`mma_async`.
        leading, stride: the distances in bytes, see :class:`pyptx.layout.WgmmaDescriptor`; default: those of
            the tile or of the buffer's boxes; for a register, those of a K-major operand with a swizzle.
        base_offset: 0..7, if the swizzle's pattern does not start at a multiple of its period; default: 0.

    Raises:
        OperandError: a swizzle or distances that are neither given nor implied, a swizzle or order that
            differs from the buffer's or the tile's, a buffer that is misaligned, an address that is not 32
            bits wide.
        SpecError: rows that are not as wide as the swizzle, distances that do not fit.
        UnsupportedError: a swizzle that wgmma does not have.

    PTX ISA: `#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor`.
    """
    mode = _agreed("swizzle", swizzle, source, tile)
    if mode is None:
        raise OperandError(
            f"the swizzle of the operand at {source!r} is not known",
            hint='pass swizzle="128B", or the buffer',
            see=_DESCRIPTOR,
        )
    order = one_of("major", _agreed("major", major, None, tile) or "K", ("K", "MN"), see=_DESCRIPTOR)
    check_place("the operand", source, None, 16, see=_DESCRIPTOR)
    if leading is None or stride is None:
        if tile is None:
            found = _strides(source, mode, order)
        else:
            found = tile.leading_bytes, tile.stride_bytes
        leading = found[0] if leading is None else leading
        stride = found[1] if stride is None else stride
    constant = WgmmaDescriptor(0, leading, stride, mode, base_offset).encode()
    trace = current()
    site, where = here()
    with trace.atomic():
        origin = shared_address("source", source, trace, see=_DESCRIPTOR)
        return with_address(origin, constant, trace, where, site.name or "desc")


def _agreed(
    what: str, given: str | None, source: Buffer | Reg | None, tile: OperandTile | None
) -> str | None:
    """Return the value that argument, buffer and tile give; raise an error if they disagree."""
    found, origin = given, what
    for name, value in (("the buffer", source), ("the tile", tile)):
        said = getattr(value, what, None)
        if found is None:
            found, origin = said, f"that of {name}"
        elif said is not None and said != found:
            raise OperandError(
                f"{origin} is {found!r} and that of {name} is {said!r}: expected the same", see=_DESCRIPTOR
            )
    return found


def _strides(source: Buffer | Reg, swizzle: str, major: str) -> tuple[int, int]:
    """Return the leading and stride distances that the shape of a buffer implies."""
    if isinstance(source, Buffer):
        if source.stages is None and len(source.shape) in (2, 3):
            rows, elements = source.shape[-2:]
            return box_strides(rows, elements * source.dtype.nbytes, swizzle, major)  # type: ignore[arg-type]
        what = f"{source.name!r} of shape {source.shape}"
    else:
        if major == "K" and swizzle in SWIZZLE_BYTES and swizzle != "none":
            return box_strides(8, SWIZZLE_BYTES[swizzle], swizzle, "K")
        what = f"the operand at {source!r} ({major}-major, swizzle {swizzle!r})"
    raise OperandError(
        f"the distances in {what} are not known: expected leading and stride, in bytes",
        hint="or a buffer whose last two axes are the rows and elements of a TMA box",
        see=_DESCRIPTOR,
    )
