"""The address field of matrix descriptors, which wgmma and tcgen05 have in common.

Owns the instructions that insert a shared address, which is known when the kernel runs, into a descriptor
whose other fields are known when the kernel is recorded, and the instruction that moves the address on.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ...core.source import SourceLocation
from ...core.types import b64, u32, u64
from ...ir import Immediate, Operand, Register
from ..operands import operand
from ..records import records
from ..registers import Reg, new_register, owned, result
from ..smem import Buffer
from ..trace import Trace, current
from ..types import as_whole
from .values import register

__all__ = ["ADDRESS_BITS", "ADDRESS_FIELD", "advance", "shared_address", "with_address"]

#: Bits of a descriptor that hold the address, in units of 16 bytes.
ADDRESS_BITS = 14
ADDRESS_FIELD = (1 << ADDRESS_BITS) - 1


def shared_address(what: str, value: Reg | Buffer, trace: Trace, *, see: str) -> Register:
    """Return a register that holds the shared address ``value``.

    Raises:
        OperandError: ``value`` is neither a buffer nor a 32-bit register.
    """
    found = operand(value.addr if isinstance(value, Buffer) else value, trace)
    if not isinstance(found, Register) or found.type.bits != 32:
        raise OperandError(
            f"{what} is {value!r}: expected a buffer, or a 32-bit register with a shared address", see=see
        )
    return found


def with_address(origin: Operand, bits: int, trace: Trace, source: SourceLocation | None, name: str) -> Reg:
    """Compute ``bits | (origin & 0x3FFFF) >> 4`` into a new b64 register.

    Records four instructions: ``shr.u32``, ``and.b32``, ``cvt.u64.u32``, ``or.b64``.  The mask drops the
    CTA's rank in its cluster, which bits 24 and up of a shared address hold.
    """
    field = new_register(trace, u32, "address", source).operand
    wide = new_register(trace, u64, "wide", source).operand
    descriptor = new_register(trace, b64, name, source)
    trace.record("shr", ("u32",), (field, origin, Immediate(4)), source=source)
    trace.record("and", ("b32",), (field, field, Immediate(ADDRESS_FIELD)), source=source)
    trace.record("cvt", ("u64", "u32"), (wide, field), source=source)
    trace.record("or", ("b64",), (descriptor.operand, wide, Immediate(bits)), source=source)
    return descriptor


@records("add.int")
def advance(desc: Reg, nbytes: int) -> Reg:
    """Advance a shared-memory descriptor by ``nbytes``; the result is a b64 register.

    Records one ``add.u64``.  :meth:`pyptx.layout.OperandTile.k_offset` returns the bytes to an element of K:
    32 for each step within a swizzled row.

    Watch out: the address has 18 bits; a larger sum changes the fields next to it.

    Args:
        desc: the descriptor, a 64-bit register.
        nbytes: a multiple of 16 below 2**18, or the negative of one.

    Raises:
        OperandError: another number, or a descriptor that is not 64 bits wide.

    PTX ISA: `#tcgen05-shared-memory-descriptor`.
    """
    trace = current()
    number = as_whole(nbytes)
    if number is None or number % 16 or abs(number) >> 18:
        raise OperandError(
            f"nbytes is {nbytes!r}: expected a multiple of 16 between -2**18 and 2**18",
            hint="to add a register, add it in units of 16 bytes: desc + (offset >> 4), both 64 bits wide",
            see="tcgen05-shared-memory-descriptor",
        )
    register("desc", desc, 64, "a 64-bit register", see="tcgen05-shared-memory-descriptor")
    step = (number >> 4) & (1 << 64) - 1
    return result(trace, b64, "add", ("u64",), (owned(desc, trace).operand, Immediate(step)), "desc")
