"""The multiplications of the fifth-generation tensor cores: ``tcgen05.mma`` and its three variants.

The module has the manual's four instructions: :func:`mma`, :func:`mma_sp` (A sparse), :func:`mma_ws` (weight
stationary: B is kept in a collector buffer) and :func:`mma_ws_sp`.  The arguments select the form:

- A: a 64-bit register is a descriptor of shared memory, ``ptx.addr(a)`` an address in tensor memory.
- ``scale_a`` and ``scale_b`` select block scaling; the block-scaled kinds require both.
- the instruction descriptor may be a register, a number or an
  :class:`~pyptx.layout.InstructionDescriptor`. Unless it is a register, it is checked against the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.errors import OperandError
from ....core.tuples import NamedTuple
from ....layout.tcgen05_instruction_descriptor import KINDS, InstructionDescriptor, mma_kind
from ....layout.zero_column_mask import ZeroColumnMask
from ...emit import Predicate, checked
from ...operands import Addr, addr, guard, operand
from ...records import records
from ...register_arrays import RegArray
from ...registers import NotPred, Reg
from ...trace import current
from ...types import as_number, as_whole
from ..qualifiers import one_of
from ..values import present, register
from .arguments import group

__all__ = ["mma", "mma_sp", "mma_ws", "mma_ws_sp"]

Descriptor = Reg | int | InstructionDescriptor
Lanes = Sequence[Reg] | RegArray | None

_MMA = "tcgen05-mma-instructions-mma"
_INSTRUCTION = "tcgen05-instruction-descriptor"
_MASK = "tcgen05-zero-column-mask-descriptor"
_SCALES = "tcgen05-mma-scale-valid-comb-detail"
_USES = (None, "fill", "use", "lastuse", "discard")
_SCALED = tuple(kind for kind in KINDS if mma_kind(kind).scaled)
#: Values of ``scale_vec`` by kind; None if the kind has a default.
_SCALE_MODIFIERS: dict[str, tuple[str | None, ...]] = {
    "mxf8f6f4": (None, "1X", "block32"),
    "mxf4": (None, "2X", "block32"),
    "mxf4nvf4": ("2X", "4X", "block16", "block32"),
}
#: Number of elements of K with one scale, by ``scale_vec``.
_BLOCKS = {None: 32, "1X": 32, "2X": 32, "4X": 16, "block16": 16, "block32": 32}
#: sm_107 gives reserved bits of the instruction descriptor a meaning.
_NEWER = 107


# --- operands -------------------------------------------------------------------------------------


def _matrix_a(desc_a: Reg | Addr, see: str) -> tuple[Any, bool]:
    """Return A as an operand, and whether A lies in tensor memory."""
    if isinstance(desc_a, Addr):
        return desc_a, True
    hint = "A in tensor memory is an address: ptx.addr(a)"
    return register(
        "desc_a", desc_a, 64, "a shared-memory descriptor, .b64 or .u64", hint=hint, see=see
    ), False


def _enable(pred_operand: bool | Reg | NotPred, see: str) -> Any:
    if isinstance(pred_operand, (Reg, NotPred)):
        return pred_operand
    if as_number(pred_operand) not in (0, 1):
        raise OperandError(f"pred_operand is {pred_operand!r}: expected a bool or a predicate", see=see)
    return int(pred_operand)


def _idesc(given: Descriptor, **call: Any) -> tuple[Any, InstructionDescriptor | None]:
    """Return the instruction descriptor as an operand, and its fields if they are known.

    Known fields are checked against ``call``, the values that follow from the arguments.
    """
    if isinstance(given, InstructionDescriptor):
        for what, value in call.items():
            says = getattr(given, what)
            if says != value and not (what == "block" and says is None):
                raise OperandError(
                    f"the instruction descriptor has {what} = {says!r}, but this call has {what} = {value!r}",
                    see=_INSTRUCTION,
                )
        return given.encode(), given
    encoded = as_whole(given)
    if encoded is None or call["kind"] not in KINDS or current().target.number == _NEWER:
        return given, None
    sparse = call.pop("sparse")
    known = InstructionDescriptor.decode(encoded, **call)
    if known.sparse != sparse:
        raise OperandError(
            f"the instruction descriptor {encoded:#010x} has sparse = {known.sparse}, "
            f"but this call has sparse = {sparse}",
            see=_INSTRUCTION,
        )
    return encoded, known


def _collector(name: str, use: str | None, see: str) -> str | None:
    one_of(f"collector_{name}", use, _USES, see=see)
    return None if use is None else f"collector::{name}::{use}"


def _record(modifiers: Sequence[str | None], operands: Sequence[Any], pred: Predicate) -> None:
    """Record one instruction; ``~p`` among the operands is written as ``!p``."""
    trace = current()
    trace.record(
        "tcgen05", present(*modifiers), [operand(value, trace) for value in operands], guard(pred, trace)
    )


class _Scaling(NamedTuple):
    """The modifiers and operands of block scaling; empty for the kinds without scales."""

    modifiers: tuple[str, ...] = ()
    size: tuple[str, ...] = ()
    operands: tuple[Addr, ...] = ()
    #: Elements of K with one scale.
    block: int | None = None


def _scaling(
    kind: str,
    scale_a: Reg | Addr | None,
    scale_b: Reg | Addr | None,
    scale_vec: str | None,
    unscaled: dict[str, Any],
) -> _Scaling:
    """Check the arguments of block scaling; ``unscaled`` are arguments that exclude it."""
    if (scale_a is None) != (scale_b is None):
        raise OperandError(
            f"scale_a is {scale_a!s} and scale_b is {scale_b!s}: block scaling needs both", see=_SCALES
        )
    if kind not in _SCALED:
        for what, value in (("scale_a", scale_a), ("scale_vec", scale_vec)):
            if value is not None:
                raise OperandError(
                    f"{what} is {value!s} with kind {kind!r}, which has no scales: "
                    f"expected kind {' or '.join(map(repr, _SCALED))}",
                    see=_SCALES,
                )
        return _Scaling()
    if scale_a is None or scale_b is None:
        raise OperandError(
            f"kind {kind!r} is block-scaled: expected scale_a and scale_b, addresses in tensor memory",
            see=_SCALES,
        )
    for what, value in unscaled.items():
        if value is not None and value is not False:
            raise OperandError(
                f"{what} is {value!s} with the block-scaled kind {kind!r}, which does not take it", see=_MMA
            )
    scale_vec = None if scale_vec is None else scale_vec.removeprefix("scale_vec::")
    legal = _SCALE_MODIFIERS[kind]
    if scale_vec not in legal:
        raise OperandError(
            f"scale_vec is {scale_vec!r} with kind {kind!r}: expected one of {', '.join(map(repr, legal))}",
            see=_SCALES,
        )
    size = () if scale_vec is None else (f"scale_vec::{scale_vec}" if scale_vec[-1] == "X" else scale_vec,)
    return _Scaling(("block_scale",), size, (addr(scale_a), addr(scale_b)), _BLOCKS[scale_vec])


def _multiply(
    see: str,
    d_tmem: Reg | Addr,
    desc_a: Reg | Addr,
    desc_b: Reg,
    metadata: Reg | Addr | None,
    idesc: Descriptor,
    kind: str,
    pred_operand: bool | Reg | NotPred,
    cta_group: int,
    disable_output_lane: Lanes,
    scale_input_d: int | None,
    scale_a: Reg | Addr | None,
    scale_b: Reg | Addr | None,
    scale_vec: str | None,
    ashift: bool,
    collector_a: str | None,
    collector_b: str | None,
    lut: Reg | Addr | None,
    pred: Predicate,
) -> None:
    """Record ``tcgen05.mma`` or ``tcgen05.mma.sp``."""
    a, in_tensor_memory = _matrix_a(desc_a, see)
    unscaled = {"disable_output_lane": disable_output_lane, "scale_input_d": scale_input_d, "ashift": ashift}
    scaling = _scaling(kind, scale_a, scale_b, scale_vec, unscaled)
    if ashift and not in_tensor_memory:
        raise OperandError(
            f"ashift is {ashift!r}: expected A in tensor memory, not the shared-memory descriptor {desc_a}",
            hint="pass A as an address of tensor memory: ptx.addr(a)",
            see=see,
        )
    if ashift and collector_a in ("fill", "use"):
        raise OperandError(
            f"ashift is {ashift!r} and collector_a is {collector_a!r}: shifted rows are not kept, "
            "expected 'lastuse', 'discard' or None",
            see=see,
        )
    if lut is not None and kind not in ("f8f6f4", "mxf8f6f4"):
        raise OperandError(
            f"lut is {lut!s} with kind {kind!r}: expected kind 'f8f6f4' or 'mxf8f6f4'", see=see
        )
    encoded, known = _idesc(
        idesc,
        kind=kind,
        cta_group=cta_group,
        sparse=metadata is not None,
        a_in_tensor_memory=in_tensor_memory,
        block=scaling.block,
    )
    if ashift and known is not None and known.m == 64:
        raise OperandError(f"ashift is {ashift!r} with M = 64: expected M = 128 or 256", see=see)
    modifiers = [
        "mma",
        None if metadata is None else "sp",
        group(cta_group),
        f"kind::{kind}",
        *scaling.modifiers,
        None if lut is None else "decompress::lut::b",
        *scaling.size,
        "ashift" if ashift else None,
        _collector("a", collector_a, see),
        _collector("b", collector_b, see),
    ]
    operands: list[Any] = [addr(d_tmem), a, desc_b]
    operands += [addr(extra) for extra in (metadata, lut) if extra is not None]
    operands.append(encoded)
    if disable_output_lane is not None:
        operands.append(list(disable_output_lane))
    operands += [*scaling.operands, _enable(pred_operand, see)]
    if scale_input_d is not None:
        operands.append(checked("scale_input_d", scale_input_d, 0, 15, see=see))
    _record(modifiers, operands, pred)


# --- the instructions -----------------------------------------------------------------------------


@records(
    "tcgen05.mma.ss",
    "tcgen05.mma.ts",
    "tcgen05.mma.block_scale.ss",
    "tcgen05.mma.block_scale.ts",
    "tcgen05.mma.lut.ss",
    "tcgen05.mma.lut.ts",
    "tcgen05.mma.lut.block_scale.ss",
    "tcgen05.mma.lut.block_scale.ts",
)
def mma(
    d_tmem: Reg | Addr,
    desc_a: Reg | Addr,
    desc_b: Reg,
    idesc: Descriptor,
    kind: str = "f16",
    pred_operand: bool | Reg | NotPred = True,
    cta_group: int = 1,
    disable_output_lane: Lanes = None,
    scale_input_d: int | None = None,
    *,
    scale_a: Reg | Addr | None = None,
    scale_b: Reg | Addr | None = None,
    scale_vec: str | None = None,
    ashift: bool = False,
    collector_a: str | None = None,
    collector_b: str | None = None,
    lut: Reg | Addr | None = None,
    pred: Predicate = None,
) -> None:
    """Compute D = A * B + D, or A * B, asynchronously; one thread issues it. Records one ``tcgen05.mma``.

    Args:
        d_tmem: address of D in tensor memory.
        desc_a: shared-memory descriptor of A, a 64-bit register; or ``ptx.addr(a)``, its address in tensor
            memory.
        desc_b: shared-memory descriptor of B.
        idesc: instruction descriptor: a b32 register, a number (:func:`instruction_descriptor`) or an
            :class:`~pyptx.layout.InstructionDescriptor`.
        kind: ``"f16"`` (f16 and bf16 inputs), ``"tf32"``, ``"f8f6f4"``, ``"i8"`` (sm_100a, sm_110a) or
            ``"ti16"`` (sm_107f); block-scaled ``"mxf8f6f4"``, ``"mxf4"`` or ``"mxf4nvf4"``.
        pred_operand: True if D is an input: a bool or a predicate. False ignores the value of D, so D need
            not be zeroed.
        cta_group: 1, or 2 for a pair of CTAs.
        disable_output_lane: 4 b32 registers (8 for a pair); a set bit leaves that lane of D unchanged.
        scale_input_d: multiply D first by 2**-n, n in 0..15; for kinds f16 and tf32.
        scale_a, scale_b: for block-scaled kinds: addresses of the scale factors in tensor memory.
        scale_vec: number of elements of K with one scale, ``"block16"`` or ``"block32"``; or number of scales
            of one row, ``"1X"``, ``"2X"`` or ``"4X"``. mxf8f6f4: 1X, block32 (default); mxf4: 2X, block32
            (default); mxf4nvf4: 2X, 4X, block16, block32.
        ashift: for A in tensor memory: move its rows down by one; M 128 or 256.
        collector_a: use of the buffer that may keep A: ``"fill"``, ``"use"``, ``"lastuse"`` or
            ``"discard"`` (None means discard).
        collector_b: the same for B (sm_107f).
        lut: for kinds f8f6f4 and mxf8f6f4: address in tensor memory of a lookup table; B holds indices of 3
            bits into the table (sm_107f).
        pred: guard.

    Raises:
        OperandError: arguments that exclude each other; the message names both.
        SpecError: an instruction descriptor, given as a number, that the kind does not have.

    PTX ISA: `#tcgen05-mma-instructions-mma`.
    """
    _multiply(
        _MMA, d_tmem, desc_a, desc_b, None, idesc, kind, pred_operand, cta_group, disable_output_lane,
        scale_input_d, scale_a, scale_b, scale_vec, ashift, collector_a, collector_b, lut, pred,
    )  # fmt: skip


@records(
    "tcgen05.mma.sp.ss", "tcgen05.mma.sp.ts", "tcgen05.mma.sp.block_scale.ss", "tcgen05.mma.sp.block_scale.ts"
)
def mma_sp(
    d_tmem: Reg | Addr,
    desc_a: Reg | Addr,
    desc_b: Reg,
    metadata: Reg | Addr,
    idesc: Descriptor,
    kind: str = "f16",
    pred_operand: bool | Reg | NotPred = True,
    cta_group: int = 1,
    disable_output_lane: Lanes = None,
    scale_input_d: int | None = None,
    *,
    scale_a: Reg | Addr | None = None,
    scale_b: Reg | Addr | None = None,
    scale_vec: str | None = None,
    ashift: bool = False,
    collector_a: str | None = None,
    collector_b: str | None = None,
    pred: Predicate = None,
) -> None:
    """Multiply as :func:`mma`, with a sparse A: half of it is stored. Records one ``tcgen05.mma.sp``.

    Arguments and errors as for :func:`mma`, and:

    Args:
        metadata: address in tensor memory of the indices of A's stored elements.

    PTX ISA: `#tcgen05-mma-instructions-mma-sp`.
    """
    see = "tcgen05-mma-instructions-mma-sp"
    if not isinstance(metadata, (Reg, Addr)):
        raise OperandError(f"metadata is {metadata!r}: expected an address in tensor memory", see=see)
    _multiply(
        see, d_tmem, desc_a, desc_b, metadata, idesc, kind, pred_operand, cta_group, disable_output_lane,
        scale_input_d, scale_a, scale_b, scale_vec, ashift, collector_a, collector_b, None, pred,
    )  # fmt: skip


def _mask(given: Reg | int | ZeroColumnMask, known: InstructionDescriptor | None) -> Any:
    """Return the zero-column mask as an operand, checked against a known instruction descriptor."""
    if isinstance(given, Reg):
        return given
    if not isinstance(given, ZeroColumnMask):
        encoded = as_whole(given)
        if encoded is None:
            raise OperandError(
                f"zero_column_mask is {given!r}: expected a 64-bit register, a number or a ZeroColumnMask",
                see=_MASK,
            )
        given = ZeroColumnMask.decode(encoded)
    if known is not None:
        given.zeros(known.m, known.n)  # refuses a shift that M does not have
        if given.shift > known.max_shift:
            raise OperandError(
                f"the mask shifts columns by {given.shift}, and the instruction descriptor has "
                f"max_shift = {known.max_shift}",
                see=_MASK,
            )
    return given.encode()


def _stationary(
    see: str,
    d_tmem: Reg | Addr,
    desc_a: Reg | Addr,
    desc_b: Reg,
    metadata: Reg | Addr | None,
    idesc: Descriptor,
    kind: str,
    pred_operand: bool | Reg | NotPred,
    collector: str | None,
    buffer: int,
    zero_column_mask: Reg | int | ZeroColumnMask | None,
    pred: Predicate,
) -> None:
    """Record ``tcgen05.mma.ws`` or ``tcgen05.mma.ws.sp``."""
    a, in_tensor_memory = _matrix_a(desc_a, see)
    if kind in _SCALED:
        unscaled = ", ".join(repr(other) for other in KINDS if other not in _SCALED)
        raise OperandError(f"kind is {kind!r}, which is block-scaled: mma_ws takes only {unscaled}", see=see)
    one_of("buffer", buffer, (0, 1, 2, 3), see=see)
    if buffer and collector is None:
        raise OperandError(
            f"buffer is {buffer} and collector is None: expected its use, {', '.join(map(repr, _USES[1:]))}",
            see=see,
        )
    one_of("collector", collector, _USES, see=see)
    encoded, known = _idesc(
        idesc,
        kind=kind,
        cta_group=1,
        sparse=metadata is not None,
        ws=True,
        a_in_tensor_memory=in_tensor_memory,
    )
    modifiers = [
        "mma",
        "ws",
        None if metadata is None else "sp",
        "cta_group::1",
        f"kind::{kind}",
        None if collector is None else f"collector::b{buffer}::{collector}",
    ]
    operands: list[Any] = [addr(d_tmem), a, desc_b]
    operands += [addr(extra) for extra in (metadata,) if extra is not None]
    operands += [encoded, _enable(pred_operand, see)]
    if zero_column_mask is not None:
        operands.append(_mask(zero_column_mask, known))
    _record(modifiers, operands, pred)


@records("tcgen05.mma.ws.ss", "tcgen05.mma.ws.ts")
def mma_ws(
    d_tmem: Reg | Addr,
    desc_a: Reg | Addr,
    desc_b: Reg,
    idesc: Descriptor,
    kind: str = "f16",
    pred_operand: bool | Reg | NotPred = True,
    *,
    collector: str | None = None,
    buffer: int = 0,
    zero_column_mask: Reg | int | ZeroColumnMask | None = None,
    pred: Predicate = None,
) -> None:
    """Compute D = A * B + D, or A * B, with B kept in a collector buffer. Records one ``tcgen05.mma.ws``.

    Weight stationary: M is 32, 64 or 128, N 64, 128 or 256; for one CTA.  Arguments and errors as for
    :func:`mma`, and:

    Args:
        kind: ``"f16"``, ``"tf32"``, ``"f8f6f4"``, ``"i8"`` or ``"ti16"``.
        collector: use of the buffer that keeps B: ``"fill"``, ``"use"``, ``"lastuse"`` or ``"discard"``
            (None means discard).
        buffer: number of the buffer, 0..3.
        zero_column_mask: columns of B that count as zero: a 64-bit register, a number
            (:func:`zero_column_mask`) or a :class:`~pyptx.layout.ZeroColumnMask`.

    PTX ISA: `#tcgen05-mma-instructions-mma-ws`.
    """
    _stationary(
        "tcgen05-mma-instructions-mma-ws", d_tmem, desc_a, desc_b, None, idesc, kind, pred_operand,
        collector, buffer, zero_column_mask, pred,
    )  # fmt: skip


@records("tcgen05.mma.ws.sp.ss", "tcgen05.mma.ws.sp.ts")
def mma_ws_sp(
    d_tmem: Reg | Addr,
    desc_a: Reg | Addr,
    desc_b: Reg,
    metadata: Reg | Addr,
    idesc: Descriptor,
    kind: str = "f16",
    pred_operand: bool | Reg | NotPred = True,
    *,
    collector: str | None = None,
    buffer: int = 0,
    zero_column_mask: Reg | int | ZeroColumnMask | None = None,
    pred: Predicate = None,
) -> None:
    """Multiply as :func:`mma_ws` with a sparse A; N is 64 or 128. Records one ``tcgen05.mma.ws.sp``.

    ``metadata`` as for :func:`mma_sp`.

    PTX ISA: `#tcgen05-mma-instructions-mma-ws-sp`.
    """
    see = "tcgen05-mma-instructions-mma-ws-sp"
    if not isinstance(metadata, (Reg, Addr)):
        raise OperandError(f"metadata is {metadata!r}: expected an address in tensor memory", see=see)
    _stationary(
        see, d_tmem, desc_a, desc_b, metadata, idesc, kind, pred_operand, collector, buffer,
        zero_column_mask, pred,
    )  # fmt: skip
