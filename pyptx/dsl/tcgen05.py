"""``ptx.tcgen05``: the fifth-generation tensor cores and tensor memory.

PTX ISA: `#tcgen05-family-instructions`.

Every function that records anything records exactly one instruction, except :func:`masked_descriptor`.
Tensor memory has 128 lanes and 512 columns of 32 bits; an address holds the lane in bits 31..16 and the
column in bits 15..0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import OperandError
from ..core.types import ScalarType, b64, u32, u64
from ..ir import Immediate, Register
from ..layout import K_MAJOR_128B_CONST, InstructionDescriptor
from .emit import Predicate, checked, emit
from .operands import Addr, addr, operand
from .operators import new_register
from .registers import NotPred, Reg, RegArray
from .sites import here
from .smem import Buffer
from .trace import current
from .types import as_number, as_whole

__all__ = [
    "alloc",
    "commit",
    "dealloc",
    "fence_after_thread_sync",
    "fence_before_thread_sync",
    "ld",
    "make_instr_desc_f16bf16_f32",
    "masked_descriptor",
    "mma",
    "relinquish_alloc_permit",
    "st",
    "wait_ld",
    "wait_st",
]

_ALLOC = "tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit"
_MMA = "tcgen05-mma-instructions-mma"
_COLUMNS = (32, 64, 128, 256, 512)


def _group(cta_group: int) -> str:
    if cta_group not in (1, 2) or isinstance(cta_group, bool):
        raise OperandError(f"cta_group is {cta_group!r}: expected 1 or 2", see="tcgen05-cta-pair")
    return f"cta_group::{cta_group}"


def _columns(ncols: Reg | int) -> Reg | int:
    if not isinstance(ncols, Reg) and ncols not in _COLUMNS:
        raise OperandError(
            f"{ncols!r} columns of tensor memory: expected a power of two, {_COLUMNS[0]}..{_COLUMNS[-1]}",
            see=_ALLOC,
        )
    return ncols


# --- allocation -----------------------------------------------------------------------------------


def alloc(slot: Reg | Addr | Buffer, ncols: Reg | int, cta_group: int = 1, *, pred: Predicate = None) -> None:
    """Allocate columns of tensor memory; their address is written to ``slot``. Records one ``tcgen05.alloc``.

    Executed by one whole warp. Blocks until there is room.

    Args:
        slot: 4 bytes of shared memory.
        ncols: a power of two, 32..512.
        cta_group: 1, or 2 for a pair of CTAs.
        pred: guard.

    Raises:
        OperandError: another number of columns.

    PTX ISA: `#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit`.
    """
    modifiers = ("alloc", _group(cta_group), "sync", "aligned", "shared::cta", "b32")
    emit("tcgen05", modifiers, addr(slot), _columns(ncols), pred=pred)


def dealloc(taddr: Reg, ncols: Reg | int, cta_group: int = 1, *, pred: Predicate = None) -> None:
    """Free columns of tensor memory. Records one ``tcgen05.dealloc``.

    Executed by one whole warp, after every access to them is known to be complete. Everything allocated must
    be freed before the kernel ends.  Arguments and errors as for :func:`alloc`.
    """
    modifiers = ("dealloc", _group(cta_group), "sync", "aligned", "b32")
    emit("tcgen05", modifiers, taddr, _columns(ncols), pred=pred)


def relinquish_alloc_permit(cta_group: int = 1, *, pred: Predicate = None) -> None:
    """Give up the right to allocate, for the CTA. Records one ``tcgen05.relinquish_alloc_permit``."""
    emit("tcgen05", ("relinquish_alloc_permit", _group(cta_group), "sync", "aligned"), pred=pred)


# --- multiplication -------------------------------------------------------------------------------


def mma(
    d_tmem: Reg | Addr,
    desc_a: Reg,
    desc_b: Reg,
    idesc: Reg | int,
    kind: str = "f16",
    pred_operand: bool | Reg | NotPred = True,
    cta_group: int = 1,
    disable_output_lane: Sequence[Reg] | RegArray | None = None,
    scale_input_d: int | None = None,
    *,
    pred: Predicate = None,
) -> None:
    """D = A * B + D, or A * B; asynchronous, issued by one thread. Records one ``tcgen05.mma``.

    Args:
        d_tmem: address of D in tensor memory.
        desc_a, desc_b: shared-memory descriptors, 64-bit registers.
        idesc: instruction descriptor, a b32 register or a number.
        kind: ``"f16"`` (f16 and bf16 inputs), ``"tf32"``, ``"f8f6f4"``, ``"i8"`` or ``"ti16"``.
        pred_operand: whether D is an input: a bool or a predicate. False ignores what D holds, so nothing
            need be zeroed.
        cta_group: 1, or 2 for a pair of CTAs.
        disable_output_lane: 4 b32 registers (8 for a pair); a set bit leaves that lane of D untouched.
        scale_input_d: D is first multiplied by 2**-n, 0..15; kinds f16 and tf32.
        pred: guard. (``~p`` as ``pred_operand`` adds one ``not.pred``.)

    PTX ISA: `#tcgen05-mma-instructions-mma`.
    """
    enable: Any = pred_operand
    if not isinstance(pred_operand, (Reg, NotPred)):
        if as_number(pred_operand) not in (0, 1):
            raise OperandError(f"pred_operand is {pred_operand!r}: expected a bool or a predicate", see=_MMA)
        enable = int(pred_operand)
    operands: list[Any] = [addr(d_tmem), desc_a, desc_b, idesc]
    if disable_output_lane is not None:
        operands.append(list(disable_output_lane))
    operands.append(enable)
    if scale_input_d is not None:
        operands.append(checked("scale_input_d", scale_input_d, 0, 15, see=_MMA))
    emit("tcgen05", ("mma", _group(cta_group), f"kind::{kind}"), *operands, pred=pred)


def commit(
    mbar: Reg | Addr | Buffer,
    space: str | None = "cluster",
    multicast: Reg | None = None,
    cta_group: int = 1,
    *,
    pred: Predicate = None,
) -> None:
    """One arrival on ``mbar`` when this thread's earlier mma, cp and shift have completed.

    Records one ``tcgen05.commit``.  It covers the executing thread's operations only: issue mma and commit
    from the same lane.

    Args:
        mbar: the barrier: a shared address with ``space="cluster"``, a generic 64-bit one with None.
        space: ``"cluster"`` or None.
        multicast: mask of the cluster's CTAs whose barrier at the same offset is signalled, a 16-bit
            register.
        cta_group: 1, or 2 for a pair of CTAs.
        pred: guard.

    Raises:
        OperandError: an address of the wrong width for the space, a mask that is no register.

    PTX ISA: `#tcgen05-instructions-tcgen05-commit`.
    """
    see = "tcgen05-instructions-tcgen05-commit"
    if space not in (None, "cluster", "shared::cluster"):
        raise OperandError(f"space is {space!r}: expected 'cluster', or None for a generic address", see=see)
    target = addr(mbar)
    if space is None and target.base.type.bits != 64:
        raise OperandError(
            f"without a space commit takes a generic 64-bit address, "
            f"and {target.base} is .{target.base.type}",
            hint='a shared address goes with space="cluster"',
            see=see,
        )
    operands: list[Any] = [target]
    if multicast is not None:
        operands.append(multicast)
    modifiers = (
        "commit",
        _group(cta_group),
        "mbarrier::arrive::one",
        None if space is None else "shared::cluster",
        None if multicast is None else "multicast::cluster",
        "b64",
    )
    emit("tcgen05", modifiers, *operands, pred=pred)


# --- registers and tensor memory ------------------------------------------------------------------


def _b32(dtype: ScalarType | str, what: str) -> str:
    name = dtype.name if isinstance(dtype, ScalarType) else str(dtype).lstrip(".")
    if name != "b32":
        raise OperandError(
            f"{what} moves 32-bit cells, dtype 'b32', not {name!r}",
            hint="view the registers as another type afterwards: out[i].view(f32)",
            see=f"tcgen05-instructions-{what.replace('.', '-')}",
        )
    return name


def _vector(regs: Reg | Sequence[Reg] | RegArray) -> list[Reg]:
    return [regs] if isinstance(regs, Reg) else list(regs)


def ld(
    regs: Reg | Sequence[Reg] | RegArray,
    taddr: Reg | Addr,
    shape: str = "32x32b",
    count: int | None = None,
    dtype: ScalarType | str = "b32",
    pack: bool = False,
    *,
    pred: Predicate = None,
) -> None:
    """Load from tensor memory into registers; asynchronous. Records one ``tcgen05.ld.sync.aligned``.

    Executed by a whole warp ``w``, which reaches lanes ``32*(w%4)`` to ``+31``; the address is the same in
    all lanes.  Using the registers needs no wait; overwriting the tensor memory does (:func:`wait_ld`).

    Args:
        regs: destinations, as many as ``shape`` and ``count`` give (``count`` for 32x32b and 16x64b, twice
            that for 16x128b, four times for 16x256b).
        taddr: address in tensor memory.
        shape: ``"32x32b"``, ``"16x64b"``, ``"16x128b"`` or ``"16x256b"``.
        count: the repetition ``.xN``, a power of two; default: what fits the number of registers.
        dtype: ``"b32"``.
        pack: put two 16-bit columns into one register.
        pred: guard.

    Raises:
        OperandError: another number of registers than the shape has.

    PTX ISA: `#tcgen05-instructions-tcgen05-ld`.
    """
    vector = _vector(regs)
    modifiers = (
        "ld",
        "sync",
        "aligned",
        shape,
        _repetition(shape, count, vector),
        "pack::16b" if pack else None,
    )
    emit("tcgen05", (*modifiers, _b32(dtype, "tcgen05.ld")), vector, addr(taddr), pred=pred)


def st(
    taddr: Reg | Addr,
    regs: Reg | Sequence[Reg] | RegArray,
    shape: str = "32x32b",
    count: int | None = None,
    dtype: ScalarType | str = "b32",
    unpack: bool = False,
    *,
    pred: Predicate = None,
) -> None:
    """Store registers to tensor memory; asynchronous. Records one ``tcgen05.st.sync.aligned``.

    Arguments and errors as for :func:`ld`; ``unpack`` spreads a register over two 16-bit columns.

    PTX ISA: `#tcgen05-instructions-tcgen05-st`.
    """
    vector = _vector(regs)
    modifiers = (
        "st",
        "sync",
        "aligned",
        shape,
        _repetition(shape, count, vector),
        "unpack::16b" if unpack else None,
    )
    emit("tcgen05", (*modifiers, _b32(dtype, "tcgen05.st")), addr(taddr), vector, pred=pred)


def _repetition(shape: str, count: int | None, vector: Sequence[Reg]) -> str:
    if count is None:
        count = len(vector) // {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    return f"x{count}"


def wait_ld(*, pred: Predicate = None) -> None:
    """Wait until this thread's earlier ``ld`` have read tensor memory. Records one ``tcgen05.wait::ld``.

    PTX ISA: `#tcgen05-instructions-tcgen05-wait`.
    """
    emit("tcgen05", ("wait::ld", "sync", "aligned"), pred=pred)


def wait_st(*, pred: Predicate = None) -> None:
    """Wait until this thread's earlier ``st`` have written tensor memory.

    Records one ``tcgen05.wait::st``.
    """
    emit("tcgen05", ("wait::st", "sync", "aligned"), pred=pred)


def fence_before_thread_sync(*, pred: Predicate = None) -> None:
    """Order earlier tcgen05 operations before a following thread synchronisation.

    Records one ``tcgen05.fence::before_thread_sync``.  PTX ISA: `#tcgen05-instructions-tcgen05-fence`.
    """
    emit("tcgen05", ("fence::before_thread_sync",), pred=pred)


def fence_after_thread_sync(*, pred: Predicate = None) -> None:
    """Order later tcgen05 operations after an earlier thread synchronisation.

    Records one ``tcgen05.fence::after_thread_sync``.  PTX ISA: `#tcgen05-instructions-tcgen05-fence`.
    """
    emit("tcgen05", ("fence::after_thread_sync",), pred=pred)


# --- descriptors ----------------------------------------------------------------------------------


def make_instr_desc_f16bf16_f32(
    m: int = 128,
    n: int = 256,
    ab_dtype: ScalarType | str = "bf16",
    *,
    a_major: str = "K",
    b_major: str = "K",
    cta_group: int | None = None,
) -> int:
    """The instruction descriptor of kind f16 with an f32 accumulator: a number, 0x08400490 by default.

    Records nothing.

    Args:
        m: rows of D; 256 is a pair of CTAs.
        n: columns of D.
        ab_dtype: ``"bf16"`` or ``"f16"``, of A and B.
        a_major, b_major: ``"K"`` or ``"MN"``.
        cta_group: 1 or 2; default: 2 for ``m=256``.

    Raises:
        SpecError: a shape or type that the kind does not have.

    PTX ISA: `#tcgen05-instruction-descriptor`.
    """
    name = ab_dtype.name if isinstance(ab_dtype, ScalarType) else ab_dtype
    return InstructionDescriptor(
        kind="f16",
        m=m,
        n=n,
        a_type=name,
        b_type=name,
        d_type="f32",
        a_major=a_major,
        b_major=b_major,
        cta_group=cta_group if cta_group is not None else 2 if m == 256 else 1,
    ).encode()


#: Bits of a shared-memory descriptor that hold the address.
_ADDRESS_FIELD = 0x3FFF


def masked_descriptor(smem_addr: Reg | Buffer, const_bits: int = K_MAJOR_128B_CONST) -> Reg:
    """A shared-memory descriptor: ``const_bits | (smem_addr & 0x3FFFF) >> 4``, a b64 register.

    Records four instructions: ``shr.u32``, ``and.b32``, ``cvt.u64.u32``, ``or.b64``.  The mask drops the
    CTA's rank in its cluster, which bits 24 and up of a shared address hold.

    Args:
        smem_addr: shared address of the operand, a u32 or b32 register, a multiple of 16.
        const_bits: everything but the address; default: K-major, 128-byte swizzle, 1024 bytes between 8-row
            groups.

    Raises:
        OperandError: constant bits in the address field or beyond 64 bits, an address that is not 32 bits
            wide.

    PTX ISA: `#tcgen05-shared-memory-descriptor`.
    """
    trace = current()
    see = "tcgen05-shared-memory-descriptor"
    bits = as_whole(const_bits)
    if bits is None or not 0 <= bits < 1 << 64 or bits & _ADDRESS_FIELD:
        raise OperandError(
            f"const_bits is {const_bits!r}: expected 64 bits with bits 0..13 clear, for the address", see=see
        )
    site, source = here()
    with trace.atomic():
        origin = operand(smem_addr.addr if isinstance(smem_addr, Buffer) else smem_addr, trace)
        if not isinstance(origin, Register) or origin.type.bits != 32:
            raise OperandError(
                f"smem_addr is {smem_addr!r}: expected a 32-bit register with a shared address", see=see
            )
        field = new_register(trace, u32, "address", source).operand
        wide = new_register(trace, u64, "wide", source).operand
        descriptor = new_register(trace, b64, site.name or "desc", source)
        trace.record("shr", ("u32",), (field, origin, Immediate(4)), source=source)
        trace.record("and", ("b32",), (field, field, Immediate(_ADDRESS_FIELD)), source=source)
        trace.record("cvt", ("u64", "u32"), (wide, field), source=source)
        trace.record("or", ("b64",), (descriptor.operand, wide, Immediate(bits)), source=source)
    return descriptor
