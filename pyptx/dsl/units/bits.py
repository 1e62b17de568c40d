"""Bits and bytes of registers: logic, counting, fields, shifts over two registers, permutations.

Each function records exactly one instruction, whose result is a new register named after the author's
variable, or the register given as ``out=``; ``pred=`` guards it.  Numbers take the type of the registers.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.errors import OperandError
from ...core.types import TYPES, ScalarType
from ...core.types import pred as predicate
from ...ir import Immediate, Operand
from ..choices import LogicCombination, Permutation, ShiftDirection, ShiftMode
from ..emit import Predicate
from ..operands import operand
from ..records import records
from ..registers import NotPred, Number, Reg
from ..trace import current
from ..types import as_whole, bits_of
from .values import integer_modifier, meet, present, typed, value, value_pair

__all__ = [
    "bfe",
    "bfi",
    "bfind",
    "bmsk",
    "brev",
    "clz",
    "cnot",
    "fns",
    "lop3",
    "lop3_test",
    "popc",
    "prmt",
    "shf",
    "szext",
]

Value = Reg | Number
#: A truth table of three values, or a Python function that computes it.
Logic = Callable[[int, int, int], int] | int

_U32 = TYPES["u32"]
_LOP3 = "logic-and-shift-instructions-lop3"
_BMSK = "integer-arithmetic-instructions-bmsk"
_SZEXT = "integer-arithmetic-instructions-szext"
_SHF = "logic-and-shift-instructions-shf"
_PRMT = "data-movement-and-conversion-instructions-prmt"


def _record(
    kind: ScalarType,
    opcode: str,
    modifiers: tuple[str, ...],
    given: tuple[tuple[Value, ScalarType], ...],
    out: Reg | None,
    pred: Predicate,
) -> Reg:
    trace = current()
    operands = [typed(item, wanted, trace) for item, wanted in given]
    return value(kind, opcode, modifiers, operands, out=out, pred=pred)


def _of_bits(opcode: str, a: Reg, out: Reg | None, pred: Predicate, kind: ScalarType | None = None) -> Reg:
    given = meet(opcode, a)
    return _record(kind or given, opcode, (bits_of(given).name,), ((a, given),), out, pred)


def _bits32(name: str, see: str, *given: Value) -> ScalarType:
    """Return the common type of the values; raise :class:`OperandError` if the type does not have 32 bits."""
    kind = meet(name, *given)
    if kind.bits != 32:
        raise OperandError(f"ptx.{name} takes values of 32 bits, not .{kind}", see=see)
    return kind


@records("popc")
def popc(a: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Count the bits that are set in 32 or 64 bits; the result is a u32. Records one ``popc``.

    PTX ISA: `#integer-arithmetic-instructions-popc`.
    """
    return _of_bits("popc", a, out, pred, _U32)


@records("clz")
def clz(a: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Count the leading zeros of 32 or 64 bits; the result is a u32. Records one ``clz``.

    PTX ISA: `#integer-arithmetic-instructions-clz`.
    """
    return _of_bits("clz", a, out, pred, _U32)


@records("brev")
def brev(a: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Reverse the order of 32 or 64 bits. Records one ``brev``.

    PTX ISA: `#integer-arithmetic-instructions-brev`.
    """
    return _of_bits("brev", a, out, pred)


@records("cnot")
def cnot(a: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return 1 if all of 16, 32 or 64 bits are zero, otherwise 0. Records one ``cnot``.

    PTX ISA: `#logic-and-shift-instructions-cnot`.
    """
    return _of_bits("cnot", a, out, pred)


@records("bfind")
def bfind(a: Reg, *, shiftamt: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Find the highest bit that differs from the sign bit: its position as a u32, 0xFFFFFFFF if none differs.

    Records one ``bfind``.

    Args:
        a: 32- or 64-bit integer; untyped bits count as unsigned, with sign 0.
        shiftamt: return instead the left shift that moves this bit to the top.
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#integer-arithmetic-instructions-bfind`.
    """
    kind = meet("bfind", a)
    modifiers = present(shiftamt and "shiftamt", integer_modifier(kind))
    return _record(_U32, "bfind", modifiers, ((a, kind),), out, pred)


@records("fns")
def fns(mask: Value, base: Value, offset: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Find the ``offset``-th set bit of ``mask``, counted from bit ``base``. Records one ``fns``.

    Args:
        mask: 32 bits.
        base: position at which to begin, 0..31.
        offset: 1 is the first set bit from ``base`` upwards, -1 downwards; 0 tests bit ``base`` itself.
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#integer-arithmetic-instructions-fns`.
    """
    b32, s32 = TYPES["b32"], TYPES["s32"]
    given = ((mask, b32), (base, b32), (offset, s32))
    return _record(_U32, "fns", ("b32",), given, out, pred)


@records("bfe")
def bfe(a: Reg, position: Value, count: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Extract ``count`` bits from ``position`` on, extended with zeros or the sign. Records one ``bfe``.

    Args:
        a: 32- or 64-bit integer; untyped bits count as unsigned.
        position, count: 0..255.
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#integer-arithmetic-instructions-bfe`.
    """
    kind = meet("bfe", a)
    given = ((a, kind), (position, _U32), (count, _U32))
    return _record(kind, "bfe", (integer_modifier(kind),), given, out, pred)


@records("bfi")
def bfi(
    field: Value,
    into: Value,
    position: Value,
    count: Value,
    *,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Insert the low ``count`` bits of ``field`` into ``into`` at ``position``. Records one ``bfi``.

    Args:
        field, into: values of one type of 32 or 64 bits.
        position, count: 0..255.
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#integer-arithmetic-instructions-bfi`.
    """
    kind = meet("bfi", field, into)
    given = ((field, kind), (into, kind), (position, _U32), (count, _U32))
    return _record(kind, "bfi", (bits_of(kind).name,), given, out, pred)


@records("bmsk")
def bmsk(
    position: Value,
    count: Value,
    *,
    mode: ShiftMode = "clamp",
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Make a u32 with ``count`` ones from bit ``position`` on. Records one ``bmsk``.

    Args:
        position, count: u32.
        mode: numbers beyond 32 are clamped (``"clamp"``) or wrap around (``"wrap"``).
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#integer-arithmetic-instructions-bmsk`.
    """
    modifiers = (mode, "b32")
    return _record(_U32, "bmsk", modifiers, ((position, _U32), (count, _U32)), out, pred)


@records("szext")
def szext(
    a: Value, count: Value, *, mode: ShiftMode = "clamp", out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Extend the low ``count`` bits of ``a`` with zeros, or with the sign for s32. Records one ``szext``.

    Args:
        a: u32 or s32.
        count: u32.
        mode: a count beyond 32 is clamped (``"clamp"``) or wraps around (``"wrap"``).
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#integer-arithmetic-instructions-szext`.
    """
    kind = meet("szext", a)
    modifiers = (mode, integer_modifier(kind))
    return _record(kind, "szext", modifiers, ((a, kind), (count, _U32)), out, pred)


@records("shf")
def shf(
    low: Value,
    high: Value,
    amount: Value,
    *,
    direction: ShiftDirection,
    mode: ShiftMode = "wrap",
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Shift the 64 bits that ``high`` and ``low`` form, and return 32 of them. Records one ``shf``.

    Args:
        low, high: 32-bit registers of one type, or numbers; the same register twice is a rotation.
        amount: u32.
        direction: ``"l"`` shifts left and returns the upper half, ``"r"`` right and returns the lower half.
        mode: an amount beyond 32 wraps around (``"wrap"``) or counts as 32 (``"clamp"``).
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#logic-and-shift-instructions-shf`.
    """
    kind = _bits32("shf", _SHF, low, high)
    given = ((low, kind), (high, kind), (amount, _U32))
    return _record(kind, "shf", (direction, mode, "b32"), given, out, pred)


@records("prmt")
def prmt(
    a: Value,
    b: Value,
    selector: Value,
    *,
    mode: Permutation | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Select four of the eight bytes of ``a`` (0 to 3) and ``b`` (4 to 7). Records one ``prmt``.

    Args:
        a, b: 32-bit registers of one type, or numbers.
        selector: four digits of four bits, lowest byte first: the number of a byte; 8 more replicates the
            byte's sign bit. With a ``mode``, only the two lowest bits count.
        mode: ``"f4e"``, ``"b4e"`` (four bytes from the selected one, forward or backward), ``"rc8"``,
            ``"rc16"`` (replicate 8 or 16 bits), ``"ecl"``, ``"ecr"`` (edge clamp left or right).
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#data-movement-and-conversion-instructions-prmt`.
    """
    kind = _bits32("prmt", _PRMT, a, b)
    given = ((a, kind), (b, kind), (selector, _U32))
    return _record(kind, "prmt", present("b32", mode), given, out, pred)


def _table(logic: Logic) -> int:
    """Return the 8-bit truth table of the function ``logic``: bit 4a + 2b + c is ``logic(a, b, c)``."""
    if callable(logic):
        try:
            found = as_whole(logic(0xF0, 0xCC, 0xAA))
        except TypeError as fault:
            raise OperandError(
                f"logic is {logic!r}: expected a function of three integers ({fault})", see=_LOP3
            ) from fault
        if found is None:
            raise OperandError(
                "the function of lop3 did not return an integer: combine its three arguments with & | ^ ~",
                see=_LOP3,
            )
        return found & 0xFF
    number = as_whole(logic)
    if number is None or not 0 <= number <= 0xFF:
        raise OperandError(
            f"logic is {logic!r}: expected a function of three values, or a table 0..255", see=_LOP3
        )
    return number


def _three(a: Value, b: Value, c: Value, logic: Logic) -> tuple[ScalarType, tuple[Operand, ...]]:
    trace = current()
    kind = _bits32("lop3", _LOP3, a, b, c)
    return kind, (*(typed(item, kind, trace) for item in (a, b, c)), Immediate(_table(logic)))


@records("lop3")
def lop3(
    a: Value, b: Value, c: Value, logic: Logic, *, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Compute any logical function of three values of 32 bits. Records one ``lop3``.

    Args:
        a, b, c: 32-bit registers of one type, or numbers.
        logic: a function such as ``lambda a, b, c: (a & b) | ~c``, which is called once with 0xF0, 0xCC and
            0xAA; or the table 0..255 that such a call returns.
        out, pred: register to write (default: a new one), and the guard.

    PTX ISA: `#logic-and-shift-instructions-lop3`.
    """
    kind, operands = _three(a, b, c, logic)
    return value(kind, "lop3", ("b32",), operands, out=out, pred=pred)


@records("lop3.bool")
def lop3_test(
    a: Value,
    b: Value,
    c: Value,
    logic: Logic,
    combine: LogicCombination,
    other: Reg | NotPred | bool,
    *,
    pred: Predicate = None,
) -> tuple[Reg, Reg]:
    """Compute :func:`lop3`, test if any bit of the result is set, and combine the test with a predicate.

    Records one ``lop3`` with ``.or`` or ``.and``; returns the result and the predicate.

    Args:
        a, b, c, logic: as for :func:`lop3`.
        combine: ``"or"`` or ``"and"``.
        other: a predicate, ``~p``, or a Python bool (``"or"`` with False gives just the test).
        pred: guard.

    PTX ISA: `#logic-and-shift-instructions-lop3`.
    """
    kind, operands = _three(a, b, c, logic)
    tested = operand(int(other) if isinstance(other, bool) else other, current())
    return value_pair((kind, predicate), ("t", "p"), "lop3", (combine, "b32"), (*operands, tested), pred)
