"""Descriptors of tcgen05: a number if Python knows all fields, a register if a field depends on an address.

:mod:`pyptx.layout` encodes and decodes the descriptors: :class:`~pyptx.layout.InstructionDescriptor`,
:class:`~pyptx.layout.Tcgen05SmemDescriptor`, :class:`~pyptx.layout.OperandTile` and
:class:`~pyptx.layout.ZeroColumnMask`.
"""

from __future__ import annotations

from typing import Any

from ....core.errors import OperandError, SpecError, TargetError
from ....core.types import ScalarType, b32, b64, u32, u64
from ....ir import Immediate, Operand
from ....layout import (
    SWIZZLE_PERIOD,
    TCGEN05_K_MAJOR_128B,
    InstructionDescriptor,
    OperandTile,
    Tcgen05SmemDescriptor,
    ZeroColumnMask,
)
from ....layout.tcgen05_instruction_descriptor import mma_kind
from ....layout.tcgen05_smem_descriptor import Major, check_operand_swizzle
from ...call_sites import here
from ...operands import operand
from ...registers import Reg, new_register, owned, result
from ...smem import Buffer
from ...trace import Trace, current
from ...types import as_whole
from ..descriptor_address import ADDRESS_BITS, ADDRESS_FIELD, advance, shared_address, with_address

__all__ = [
    "advance",
    "instruction_descriptor",
    "make_instr_desc_f16bf16_f32",
    "masked_descriptor",
    "smem_descriptor",
    "with_scale_ids",
    "zero_column_mask",
]

_INSTRUCTION = "tcgen05-instruction-descriptor"
_SMEM = "tcgen05-shared-memory-descriptor"
_ABSOLUTE = "tcgen05-leading-dimension-byte-offset-absolute-address"

_LEADING_FIELD = 16
#: Bit positions and width of the scale factor ids in a block-scaled instruction descriptor.
_SCALE_A_ID, _SCALE_B_ID, _SCALE_ID_BITS = 29, 4, 2


# --- the instruction ------------------------------------------------------------------------------


def _name(dtype: ScalarType | str) -> str:
    return dtype.name if isinstance(dtype, ScalarType) else dtype


def _only(what: str, kind: str, choices: Any) -> str:
    names = tuple(choices)
    if len(names) != 1:
        raise SpecError(
            f"{what} is not given and kind::{kind} has several types: expected one of {', '.join(names)}",
            see="tcgen05-kind-shapes",
        )
    return str(names[0])


def instruction_descriptor(
    *,
    m: int,
    n: int,
    kind: str = "f16",
    a_type: ScalarType | str | None = None,
    b_type: ScalarType | str | None = None,
    d_type: ScalarType | str | None = None,
    a_major: str = "K",
    b_major: str = "K",
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
    sparse: bool = False,
    sparsity_selector: int = 0,
    max_shift: int = 0,
    scale_type: ScalarType | str | None = None,
    scale_a_id: int = 0,
    scale_b_id: int = 0,
    block: int | None = None,
    k: int | None = None,
    cta_group: int | None = None,
    ws: bool = False,
    a_in_tensor_memory: bool = False,
) -> int:
    """Make the instruction descriptor of any kind of ``tcgen05.mma``, a number. Records nothing.

    :meth:`pyptx.layout.InstructionDescriptor.decode` decodes it.

    Args:
        m: rows of D; with ``cta_group=2``, rows of D of both CTAs of the pair.
        n: columns of D.
        kind: ``"f16"``, ``"tf32"``, ``"f8f6f4"``, ``"i8"``, ``"ti16"``, ``"mxf8f6f4"``, ``"mxf4"`` or
            ``"mxf4nvf4"``.
        a_type: type of A: f16, bf16 | tf32 | e4m3, e5m2, e2m3, e3m2, e2m1 | u8, s8; may be left out if the
            kind has only one.
        b_type: type of B; default: A's type.
        d_type: type of D: f32 (default if the kind has it), f16, s32.
        a_major, b_major: ``"K"``, or ``"MN"`` (the manual's "transpose").
        negate_a, negate_b: multiply by -A, -B.
        saturate: for i8: clamp D instead of wrapping.
        sparse: A is sparse, for ``mma_sp`` and ``mma_ws_sp``.
        sparsity_selector: selects the metadata columns to use, 0..3.
        max_shift: for ``mma_ws``: largest column shift of B, 0, 8, 16 or 32.
        scale_type: for block-scaled kinds: ue8m0, or ue4m3 (mxf4nvf4); may be left out if the kind has only
            one.
        scale_a_id, scale_b_id: for block-scaled kinds: first byte of the scales in their cells
            (:func:`with_scale_ids` for registers).
        block: for block-scaled kinds: number of elements of K with one scale, 16 or 32, to be checked.
        k: K of the instruction, to be checked; 96 selects the wide K of the mxf4 kinds (sm_103a).
        cta_group: 1 or 2; default: 2 for ``m=256``.
        ws: True for ``mma_ws``.
        a_in_tensor_memory: True if A lies in tensor memory.

    Raises:
        SpecError: a shape, type or option that the kind does not have; the message lists the allowed values.

    PTX ISA: `#tcgen05-instruction-descriptor`.
    """
    has = mma_kind(kind)
    a = _name(a_type) if a_type is not None else _only("a_type", kind, has.operands)
    if scale_type is None and has.scaled:
        scale_type = _only("scale_type", kind, has.scales)
    wide_k = k == 96
    descriptor = InstructionDescriptor(
        kind=kind,
        m=m,
        n=n,
        a_type=a,
        b_type=_name(b_type) if b_type is not None else a,
        d_type=_name(d_type) if d_type is not None else "f32" if "f32" in has.results else "s32",
        a_major=a_major,
        b_major=b_major,
        negate_a=negate_a,
        negate_b=negate_b,
        saturate=saturate,
        sparse=sparse,
        sparsity_selector=sparsity_selector,
        max_shift=max_shift,
        scale_type=None if scale_type is None else _name(scale_type),
        scale_a_id=scale_a_id,
        scale_b_id=scale_b_id,
        wide_k=wide_k,
        cta_group=cta_group if cta_group is not None else 2 if m == 256 else 1,
        ws=ws,
        a_in_tensor_memory=a_in_tensor_memory,
        block=block,
    )
    word = descriptor.encode()
    if k not in (None, descriptor.k):
        raise SpecError(
            f"k = {k} does not exist for kind::{kind}, {'sparse' if sparse else 'dense'}; "
            f"expected {descriptor.k}{' or 96' if has.k == 64 and not sparse else ''}",
            see="tcgen05-kind-shapes",
        )
    return word


def make_instr_desc_f16bf16_f32(
    m: int = 128,
    n: int = 256,
    ab_dtype: ScalarType | str = "bf16",
    *,
    a_major: str = "K",
    b_major: str = "K",
    cta_group: int | None = None,
) -> int:
    """Make the instruction descriptor of kind f16 with an f32 accumulator: a number, 0x08400490 by default.

    Records nothing.  :func:`instruction_descriptor` makes the descriptors of every kind.

    Args:
        m: rows of D; 256 is a pair of CTAs.
        n: columns of D.
        ab_dtype: type of A and B, ``"bf16"`` or ``"f16"``.
        a_major, b_major: ``"K"`` or ``"MN"``.
        cta_group: 1 or 2; default: 2 for ``m=256``.

    Raises:
        SpecError: a shape or type that the kind does not have.

    PTX ISA: `#tcgen05-instruction-descriptor`.
    """
    return instruction_descriptor(
        m=m, n=n, a_type=ab_dtype, a_major=a_major, b_major=b_major, cta_group=cta_group
    )


def with_scale_ids(idesc: Reg | int, *, a: Reg | int | None = None, b: Reg | int | None = None) -> Reg:
    """Change the scale factor ids of a block-scaled instruction descriptor; the result is a b32 register.

    Records a ``bfi.b32`` for each id that is given.

    Args:
        idesc: the descriptor, a 32-bit register or a number.
        a, b: first byte of the scales of A and B in their cells: 0..3, or a register.

    Raises:
        OperandError: no id, an id outside 0..3, or a descriptor that is not 32 bits wide.

    PTX ISA: `#tcgen05-mma-scale-factor-a`.
    """
    trace = current()
    see = "tcgen05-mma-scale-factor-a"
    ids = {position: value for position, value in ((_SCALE_A_ID, a), (_SCALE_B_ID, b)) if value is not None}
    if not ids:
        raise OperandError(f"a is {a!r} and b is {b!r}: expected at least one scale factor id", see=see)
    for value in ids.values():
        number = as_whole(value)
        if not isinstance(value, Reg) and (number is None or not 0 <= number < 1 << _SCALE_ID_BITS):
            raise OperandError(f"a scale factor id is {value!r}: expected 0..3, or a register", see=see)
    with trace.atomic():
        word = _word_of("idesc", idesc, 32, trace, _INSTRUCTION)
        for position, value in ids.items():
            field = (operand(value, trace), word, Immediate(position), Immediate(_SCALE_ID_BITS))
            found = result(trace, b32, "bfi", ("b32",), field, "idesc")
            word = found.operand
    return found


def _word_of(what: str, value: Reg | int, bits: int, trace: Trace, see: str) -> Operand:
    """Convert a descriptor to an operand: a register of ``bits`` bits, or a number that fits."""
    if isinstance(value, Reg) and value.type.bits == bits:
        return owned(value, trace).operand
    number = as_whole(value)
    if isinstance(value, Reg) or number is None or not 0 <= number < 1 << bits:
        raise OperandError(f"{what} is {value!r}: expected a {bits}-bit register or number", see=see)
    return Immediate(number)


# --- shared memory --------------------------------------------------------------------------------


def masked_descriptor(smem_addr: Reg | Buffer, const_bits: int = TCGEN05_K_MAJOR_128B) -> Reg:
    """Make a shared-memory descriptor, ``const_bits | (smem_addr & 0x3FFFF) >> 4``, in a b64 register.

    Records four instructions: ``shr.u32``, ``and.b32``, ``cvt.u64.u32``, ``or.b64``.  The mask drops the
    CTA's rank in its cluster, which bits 24 and up of a shared address hold.  :func:`smem_descriptor` derives
    the constant bits.

    Args:
        smem_addr: shared address of the operand, a u32 or b32 register, a multiple of 16.
        const_bits: all fields except the address; default: K-major, 128-byte swizzle, 1024 bytes between
            8-row groups.

    Raises:
        OperandError: ``const_bits`` has bits in the address field or beyond bit 63, or the address is not 32
            bits wide.

    PTX ISA: `#tcgen05-shared-memory-descriptor`.
    """
    trace = current()
    bits = as_whole(const_bits)
    if bits is None or not 0 <= bits < 1 << 64 or bits & ADDRESS_FIELD:
        raise OperandError(
            f"const_bits is {const_bits!r}: expected an integer of 64 bits with zeros in bits 0..13",
            see=_SMEM,
        )
    site, source = here()
    with trace.atomic():
        origin = shared_address("smem_addr", smem_addr, trace, see=_SMEM)
        return with_address(origin, bits, trace, source, site.name or "desc")


def _tile_of(buffer: Buffer, major: Major, swizzle: str | None) -> OperandTile:
    """Return the tile that fills ``buffer``."""
    if swizzle is not None and buffer.swizzle not in ("none", swizzle):
        raise OperandError(
            f"swizzle is {swizzle!r} and {buffer.name!r} has the swizzle {buffer.swizzle!r}: "
            "expected the same",
            see=_SMEM,
        )
    if len(buffer.shape) != 2 or buffer.stages is not None:
        stages = f" in {buffer.stages} stages" if buffer.stages is not None else ""
        raise OperandError(
            f"{buffer.name!r} has shape {buffer.shape}{stages}: expected two axes, "
            "(rows, K), or (K, rows) for major='MN'",
            hint="choose a stage, or describe the tile: smem_descriptor(x, OperandTile(rows, k, bits))",
            see=_SMEM,
        )
    across, along = buffer.shape
    rows, k = (across, along) if major == "K" else (along, across)
    return OperandTile(rows, k, buffer.dtype.nbytes * 8, major, swizzle or buffer.swizzle)


def _base_offset(source: Reg | Buffer, swizzle: str, given: int | None) -> int:
    """Return the base offset: derived if the buffer's place is known, else the given value, or 0."""
    offset = source.known_offset if isinstance(source, Buffer) else None
    if offset is None:
        return given or 0
    grain = 16 if swizzle == "none" else 128
    if offset % grain:
        raise OperandError(
            f"the buffer begins at byte {offset} of shared memory: with swizzle {swizzle!r} expected "
            f"a multiple of {grain}",
            hint=f"allocate it with swizzle={swizzle!r}, or align={grain}",
            see=_SMEM,
        )
    period = SWIZZLE_PERIOD[swizzle]
    due = 0 if swizzle == "none" or offset % period == 0 else offset >> 7 & 7
    if given is not None and given != due:
        raise OperandError(
            f"base_offset is {given} for a buffer at byte {offset} with swizzle {swizzle!r}: expected {due}",
            see=_SMEM,
        )
    return due


def smem_descriptor(
    source: Reg | Buffer,
    tile: OperandTile | None = None,
    *,
    major: Major = "K",
    swizzle: str | None = None,
    leading: int | None = None,
    stride: int | None = None,
    base_offset: int | None = None,
    leading_address: Reg | Buffer | None = None,
) -> Reg:
    """Make a shared-memory descriptor of an operand or of the source of :func:`cp`, in a b64 register.

    Records four instructions: ``shr.u32``, ``and.b32``, ``cvt.u64.u32``, ``or.b64``; with ``leading_address``
    three more: ``shr.u32``, ``cvt.u64.u32``, ``bfi.b64``.

    Leading and stride offset follow from a buffer of shape ``(rows, K)`` (``(K, rows)`` with ``major="MN"``),
    or from ``tile``.  Without either, pass ``leading`` and ``stride``.

    Args:
        source: the operand: a buffer, or a shared address, a 32-bit register.
        tile: how the operand is stored; it also gives ``major`` and ``swizzle``.
        major: ``"K"`` or ``"MN"``: the dimension whose neighbors are adjacent in memory.
        swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"`` or ``"128B_ATOM_32B"`` (MN-major tf32); default:
            the buffer's, or ``"128B"``.
        leading: leading dimension byte offset, a multiple of 16 up to 262128; default: from the tile, or 16
            if the hardware does not use it (K-major with a swizzle).
        stride: stride dimension byte offset, a multiple of 16 up to 262128; default: from the tile.
        base_offset: 0..7, if the swizzle pattern does not start at a multiple of its period (1024, 512 or
            256 bytes): ``(pattern start >> 7) & 7``; default: derived for buffers, 0 for registers.
        leading_address: for K = 96 on sm_103a: the shared address of the data that follows a row's 128 bytes,
            in place of the leading offset.

    Raises:
        OperandError: offsets that cannot be derived, or a buffer that is misaligned or has other axes.
        SpecError: a tile that does not fit its swizzle, or a value that does not fit its field.
        TargetError: ``leading_address`` for a target other than sm_103.

    PTX ISA: `#tcgen05-shared-memory-descriptor`.
    """
    trace = current()
    if tile is not None and (major, swizzle) not in (("K", None), (tile.major, tile.swizzle)):
        raise OperandError(
            f"major is {major!r} and swizzle is {swizzle!r} with a tile that has "
            f"{tile.major!r} and {tile.swizzle!r}: leave both out, the tile gives them",
            see=_SMEM,
        )
    if tile is None and isinstance(source, Buffer) and (leading is None or stride is None):
        tile = _tile_of(source, major, swizzle)
    if tile is not None:
        major, swizzle = tile.major, tile.swizzle
        leading = tile.leading_bytes if leading is None else leading
        stride = tile.stride_bytes if stride is None else stride
    if swizzle is None:
        swizzle = source.swizzle if isinstance(source, Buffer) else "128B"
    check_operand_swizzle(swizzle)
    if leading is None and major == "K" and swizzle != "none":
        leading = 16
    if leading is None or stride is None:
        raise OperandError(
            f"leading is {leading!r} and stride is {stride!r}: the source {source} is a register, "
            "so pass both offsets, or a tile",
            hint="pass OperandTile(rows, k, element_bits, major, swizzle)",
            see=_SMEM,
        )
    if leading_address is not None and trace.target.number != 103:
        raise TargetError(
            f"leading_address needs sm_103a, and the target is {trace.target}", see=f"{_ABSOLUTE}-restriction"
        )
    absolute = leading_address is not None
    offset = _base_offset(source, swizzle, base_offset)
    bits = Tcgen05SmemDescriptor(
        0, 0 if absolute else leading, stride, swizzle, offset, int(absolute)
    ).encode()
    site, location = here()
    with trace.atomic():
        origin = shared_address("source", source, trace, see=_SMEM)
        name = site.name or "desc"
        if leading_address is None:
            return with_address(origin, bits, trace, location, name)
        second = shared_address("leading_address", leading_address, trace, see=_SMEM)
        relative = with_address(origin, bits, trace, location, "relative").operand
        field = new_register(trace, u32, "leading", location).operand
        wide = new_register(trace, u64, "wide", location).operand
        found = new_register(trace, b64, name, location)
        place = (Immediate(_LEADING_FIELD), Immediate(ADDRESS_BITS))
        trace.record("shr", ("u32",), (field, second, Immediate(4)), source=location)
        trace.record("cvt", ("u64", "u32"), (wide, field), source=location)
        trace.record("bfi", ("b64",), (found.operand, wide, relative, *place), source=location)
    return found


def zero_column_mask(
    *,
    used: int = 1,
    skipped: int = 1,
    start: tuple[int, int, int, int] = (0, 0, 0, 0),
    skip_first: tuple[bool, bool, bool, bool] = (False, False, False, False),
    shift: int = 0,
    enabled: bool = True,
) -> int:
    """Make the zero-column mask descriptor of ``mma_ws``, a number. Records nothing.

    Runs of ``used`` columns of B alternate with runs of ``skipped`` columns, which count as zero.  N is split
    into 1, 2 or 4 parts for M = 128, 64 or 32; each part begins at its own place of this pattern.
    :class:`pyptx.layout.ZeroColumnMask` computes the columns that a descriptor makes zero.

    Args:
        used, skipped: lengths of the runs, 1..256.
        start: for each part, number of columns of the pattern before the part's first column, 0..255.
        skip_first: for each part, True if the pattern begins with a skipped run.
        shift: first column of B that is used, 0..32.
        enabled: False to make no column zero.

    Raises:
        SpecError: a value that does not fit its field.

    PTX ISA: `#tcgen05-zero-column-mask-descriptor`.
    """
    return ZeroColumnMask(used, skipped, start, skip_first, shift, enabled).encode()
