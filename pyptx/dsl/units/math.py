"""Arithmetic with options that operators do not have, and functions of one number.

Each function records exactly one instruction.  Its result is a new register named after the author's
variable, or the register given as ``out=``; ``pred=`` guards the instruction (a new register has no value
where the guard is false).  The type is the type of the registers; numbers take that type, and untyped bits
count as unsigned where the sign makes no difference.  Floats are rounded to nearest even (``"rn"``) unless
``rounding`` is ``"rz"``, ``"rm"`` or ``"rp"``, because ptxas may fuse a multiply and an add without rounding.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ...core.types import TYPES, ScalarType
from ...core.types import pred as predicate
from ..choices import FloatTest, Half
from ..emit import Predicate
from ..records import records
from ..registers import Number, Reg
from ..trace import current
from .qualifiers import one_of
from .values import integer_modifier, meet, present, typed, value

__all__ = [
    "abs",
    "add",
    "copysign",
    "cos",
    "div",
    "dp2a",
    "dp4a",
    "ex2",
    "fma",
    "lg2",
    "mad",
    "max",
    "min",
    "mul",
    "neg",
    "rcp",
    "rsqrt",
    "sad",
    "sin",
    "sqrt",
    "sub",
    "tanh",
    "testp",
]

Value = Reg | Number

_DP2A = "integer-arithmetic-instructions-dp2a"
_MUL = "integer-arithmetic-instructions-mul"


def _is_mixed(a: Value, c: Value) -> bool:
    """True if ``a`` is f16 or bf16 and ``c`` is f32."""
    return (
        isinstance(a, Reg) and a.type.name in ("f16", "bf16") and isinstance(c, Reg) and c.type.name == "f32"
    )


def _record(
    opcode: str,
    modifiers: tuple[str | bool | None, ...],
    given: tuple[Value, ...],
    kind: ScalarType,
    out: Reg | None,
    pred: Predicate,
) -> Reg:
    """Record one instruction whose operands, result and last modifier have the type ``kind``."""
    trace = current()
    operands = [typed(item, kind, trace) for item in given]
    return value(kind, opcode, present(*modifiers, integer_modifier(kind)), operands, out=out, pred=pred)


def _has_sign(name: str, kind: ScalarType) -> None:
    """Raise :class:`OperandError` for untyped bits, because the sign changes the result."""
    if kind.kind == "b":
        raise OperandError(
            f"ptx.{name} depends on the sign, and .{kind} has none",
            hint=f"choose unsigned or signed: x.view(u{kind.bits}) or x.view(s{kind.bits})",
        )


def _sum(
    opcode: str,
    a: Value,
    b: Value,
    rounding: str | None,
    ftz: bool,
    sat: bool,
    out: Reg | None,
    pred: Predicate,
) -> Reg:
    flags = (ftz and "ftz", sat and "sat")
    if _is_mixed(a, b):
        assert isinstance(a, Reg)
        trace, f32 = current(), TYPES["f32"]
        modifiers = present(rounding or "rn", *flags, "f32", a.type.name)
        return value(
            f32, opcode, modifiers, (typed(a, a.type, trace), typed(b, f32, trace)), out=out, pred=pred
        )
    kind = meet(opcode, a, b)
    return _record(opcode, (_rounded(kind, rounding), *flags), (a, b), kind, out, pred)


def _rounded(kind: ScalarType, rounding: str | None) -> str | None:
    return "rn" if rounding is None and kind.is_float else rounding


@records(
    "add.int",
    "add.packed16",
    "add.sat.u32",
    "add.packed16.sat",
    "add.packed8",
    "add.f32",
    "add.f64",
    "add.f32x2",
    "add.half",
    "add.bfloat",
    "add.mixed",
)
def add(
    a: Value,
    b: Value,
    *,
    rounding: str | None = None,
    ftz: bool = False,
    sat: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute ``a + b``. Records one ``add``.

    Args:
        a, b: integers, floats or packs (f16x2, bf16x2, f32x2, u16x2, s16x2) of one type; from sm_100 on also
            an f16 or bf16 ``a`` and an f32 ``b``, with an f32 result.
        rounding: for floats: ``"rn"`` (default), ``"rz"``, ``"rm"``, ``"rp"``.
        ftz: flush subnormal inputs and results of f32 and f16 to zero.
        sat: clamp s32 to its range, floats to 0..1.
        out: register to write; default: a new one.
        pred: guard.

    Raises:
        InstructionError: an option that the type does not have.
        OperandError: types that do not mix, or a number that does not fit.

    PTX ISA: `#floating-point-instructions-add`.
    """
    return _sum("add", a, b, rounding, ftz, sat, out, pred)


@records("sub.int", "sub.packed8", "sub.f32", "sub.f64", "sub.f32x2", "sub.half", "sub.bfloat", "sub.mixed")
def sub(
    a: Value,
    b: Value,
    *,
    rounding: str | None = None,
    ftz: bool = False,
    sat: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute ``a - b``. Records one ``sub``. The arguments are those of :func:`add`.

    PTX ISA: `#floating-point-instructions-sub`.
    """
    return _sum("sub", a, b, rounding, ftz, sat, out, pred)


def _half(opcode: str, kind: ScalarType, half: str | None) -> str | None:
    """Return the half of a product that the result keeps, as a modifier; None for floats."""
    if kind.is_float:
        if half is not None:
            raise OperandError(
                f"ptx.{opcode}: half is {half!r} with .{kind}: only products of integers have halves",
                see=_MUL,
            )
        return None
    kept: str = one_of("half", half or "lo", ("lo", "hi", "wide"), see=_MUL)
    if kept != "lo":
        _has_sign(opcode, kind)
    return kept


def _twice(kind: ScalarType) -> ScalarType:
    """Return the integer type of twice the width, which holds all bits of a product."""
    modifier = integer_modifier(kind)
    wide = TYPES.get(f"{modifier[0]}{2 * kind.bits}")
    if wide is None or kind.lanes > 1:
        raise OperandError(f"half='wide' takes 16- or 32-bit integers, not .{kind}", see=_MUL)
    return wide


@records("mul.int", "mul.wide", "mul.f32", "mul.f64", "mul.f32x2", "mul.half", "mul.bfloat")
def mul(
    a: Value,
    b: Value,
    *,
    half: str | None = None,
    rounding: str | None = None,
    ftz: bool = False,
    sat: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute ``a * b``. Records one ``mul``.

    Args:
        a, b: integers, floats or packs (f16x2, bf16x2, f32x2) of one type.
        half: for integers: ``"lo"`` (default), ``"hi"``, or ``"wide"`` for a result of twice the width.
        rounding, ftz, sat, out, pred: as for :func:`add`.

    PTX ISA: `#floating-point-instructions-mul`, `#integer-arithmetic-instructions-mul`.
    """
    kind = meet("mul", a, b)
    kept = _half("mul", kind, half)
    modifiers = (kept, _rounded(kind, rounding), ftz and "ftz", sat and "sat")
    if kept != "wide":
        return _record("mul", modifiers, (a, b), kind, out, pred)
    trace = current()
    operands = [typed(item, kind, trace) for item in (a, b)]
    spelled = present(*modifiers, integer_modifier(kind))
    return value(_twice(kind), "mul", spelled, operands, out=out, pred=pred)


@records("mad.int", "mad.wide", "mad.sat")
def mad(
    a: Value,
    b: Value,
    c: Value,
    *,
    half: str | None = None,
    sat: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute ``a * b + c`` of integers. Records one ``mad``; for floats use :func:`fma`.

    Args:
        a, b, c: integers of one type; ``c`` has twice the width with ``half="wide"``.
        half: part of the product that is added: ``"lo"`` (default), ``"hi"`` or ``"wide"``.
        sat: clamp to the range of s32, with ``half="hi"``.
        out, pred: as for :func:`add`.

    PTX ISA: `#integer-arithmetic-instructions-mad`.
    """
    wide = half == "wide"
    kind = meet("mad", a, b) if wide else meet("mad", a, b, c)
    if kind.is_float:
        raise OperandError(f"ptx.mad takes integers, not .{kind}", hint="for floats use ptx.fma(a, b, c)")
    modifiers = (_half("mad", kind, half), sat and "sat")
    if not wide:
        return _record("mad", modifiers, (a, b, c), kind, out, pred)
    trace, total = current(), _twice(kind)
    operands = (typed(a, kind, trace), typed(b, kind, trace), typed(c, total, trace))
    return value(total, "mad", present(*modifiers, integer_modifier(kind)), operands, out=out, pred=pred)


@records("fma.f32", "fma.f64", "fma.f32x2", "fma.half", "fma.bfloat", "fma.mixed")
def fma(
    a: Value,
    b: Value,
    c: Value,
    *,
    rounding: str | None = None,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    oob: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute ``a * b + c`` of floats with one rounding. Records one ``fma``.

    Args:
        a, b, c: f16, bf16, f32, f64 or packs of one type (bf16 and bf16x2 from sm_80, f32x2 from sm_100 on);
            from sm_100 on also f16 or bf16 ``a`` and ``b`` with an f32 ``c``, with an f32 result.
        rounding, ftz, sat, out, pred: as for :func:`add`; 16-bit floats have only ``"rn"``.
        relu: replace negative results of 16-bit floats by zero.
        oob: return zero if an input is the out-of-bounds NaN, from sm_90 on.

    PTX ISA: `#floating-point-instructions-fma`.
    """
    trace = current()
    flags = (ftz and "ftz", oob and "oob", sat and "sat", relu and "relu")
    if _is_mixed(a, c):
        factors, f32 = meet("fma", a, b), TYPES["f32"]
        operands = (typed(a, factors, trace), typed(b, factors, trace), typed(c, f32, trace))
        modifiers = present(rounding or "rn", *flags, "f32", factors.name)
        return value(f32, "fma", modifiers, operands, out=out, pred=pred)
    kind = meet("fma", a, b, c)
    return _record("fma", (rounding or "rn", *flags), (a, b, c), kind, out, pred)


@records("div.int", "div.f32", "div.f64", "div.f32.fast")
def div(
    a: Value,
    b: Value,
    *,
    rounding: str | None = None,
    ftz: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Compute ``a / b``; integers truncate toward zero. Records one ``div``.

    Args:
        a, b: integers, f32 or f64 of one type.
        rounding: for floats: ``"rn"`` (default), ``"rz"``, ``"rm"``, ``"rp"``; for f32 also ``"approx"`` (2
            ulp for a divisor of 2**-126 to 2**126) and ``"full"`` (2 ulp everywhere).
        ftz, out, pred: as for :func:`add`.

    PTX ISA: `#floating-point-instructions-div`.
    """
    kind = meet("div", a, b)
    _has_sign("div", kind)
    return _record("div", (_rounded(kind, rounding), ftz and "ftz"), (a, b), kind, out, pred)


@records("sad")
def sad(a: Value, b: Value, c: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``c + |a - b|`` of integers. Records one ``sad``.

    PTX ISA: `#integer-arithmetic-instructions-sad`.
    """
    kind = meet("sad", a, b, c)
    _has_sign("sad", kind)
    return _record("sad", (), (a, b, c), kind, out, pred)


def _extreme(
    opcode: str,
    given: tuple[Value, ...],
    flags: tuple[str | bool, ...],
    out: Reg | None,
    pred: Predicate,
) -> Reg:
    kind = meet(opcode, *given)
    _has_sign(opcode, kind)
    return _record(opcode, flags, given, kind, out, pred)


@records(
    "min.int",
    "min.relu_s32",
    "min.packed16",
    "min.packed8",
    "min.f32",
    "min3.f32",
    "min.f64",
    "min.half",
    "min.bfloat",
)
def min(
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    ftz: bool = False,
    nan: bool = False,
    magnitude: bool = False,
    xorsign: bool = False,
    relu: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Return the smaller of two values, or (f32, from sm_100 on) the smallest of three. Records one ``min``.

    Args:
        a, b, c: integers, floats or packs (f16x2, bf16x2, u16x2, s16x2) of one type.
        ftz: as for :func:`add`.
        nan: return NaN if an input is NaN. Without it, the number is returned if the other input is NaN.
        magnitude: compare absolute values; with two inputs it requires ``xorsign``.
        xorsign: the result's sign is the exclusive or of the inputs' signs, from sm_86 on.
        relu: replace negative results of s32 and s16x2 by zero, from sm_90 on.
        out, pred: as for :func:`add`.

    PTX ISA: `#floating-point-instructions-min`, `#integer-arithmetic-instructions-min`.
    """
    given = (a, b) if c is None else (a, b, c)
    flags = _flags(ftz, nan, magnitude, xorsign, relu)
    return _extreme("min", given, flags, out, pred)


@records(
    "max.int",
    "max.relu_s32",
    "max.packed16",
    "max.packed8",
    "max.f32",
    "max3.f32",
    "max.f64",
    "max.half",
    "max.bfloat",
)
def max(
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    ftz: bool = False,
    nan: bool = False,
    magnitude: bool = False,
    xorsign: bool = False,
    relu: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Return the larger of two values, or (f32, from sm_100 on) the largest of three. Records one ``max``.

    The arguments are those of :func:`min`.

    PTX ISA: `#floating-point-instructions-max`, `#integer-arithmetic-instructions-max`.
    """
    given = (a, b) if c is None else (a, b, c)
    flags = _flags(ftz, nan, magnitude, xorsign, relu)
    return _extreme("max", given, flags, out, pred)


def _flags(ftz: bool, nan: bool, magnitude: bool, xorsign: bool, relu: bool) -> tuple[str | bool, ...]:
    return (
        ftz and "ftz",
        nan and "NaN",
        xorsign and "xorsign",
        magnitude and "abs",
        relu and "relu",
    )


@records("abs.int", "abs.float", "abs.half", "abs.bfloat")
def abs(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``|a|`` of a signed integer, a float or a pack of 16-bit floats. Records one ``abs``.

    PTX ISA: `#floating-point-instructions-abs`, `#integer-arithmetic-instructions-abs`.
    """
    return _record("abs", (ftz and "ftz",), (a,), meet("abs", a), out, pred)


@records("neg.int", "neg.packed8", "neg.float", "neg.half", "neg.bfloat")
def neg(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Compute ``-a`` of a signed integer, a float or a pack of 16-bit floats. Records one ``neg``.

    PTX ISA: `#floating-point-instructions-neg`, `#integer-arithmetic-instructions-neg`.
    """
    return _record("neg", (ftz and "ftz",), (a,), meet("neg", a), out, pred)


@records("copysign")
def copysign(magnitude: Value, sign: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Combine the magnitude of one f32 or f64 with the sign of another. Records one ``copysign``.

    Watch out: in the PTX instruction, the sign comes first.

    PTX ISA: `#floating-point-instructions-copysign`.
    """
    return _record("copysign", (), (sign, magnitude), meet("copysign", magnitude, sign), out, pred)


@records("testp")
def testp(a: Reg, test: FloatTest, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return a predicate: true if an f32 or f64 belongs to the class ``test``. Records one ``testp``.

    Args:
        a: the number.
        test: ``"finite"``, ``"infinite"``, ``"number"``, ``"notanumber"``, ``"normal"`` or ``"subnormal"``.
        out, pred: as for :func:`add`.

    PTX ISA: `#floating-point-instructions-testp`.
    """
    kind = meet("testp", a)
    operands = (typed(a, kind, current()),)
    return value(predicate, "testp", (test, kind.name), operands, out=out, pred=pred, hint="p")


# --- functions of one float -----------------------------------------------------------------------


def _function(opcode: str, how: str, a: Reg, ftz: bool, out: Reg | None, pred: Predicate) -> Reg:
    return _record(opcode, (how, ftz and "ftz"), (a,), meet(opcode, a), out, pred)


@records("rcp.f32", "rcp.approx.f32", "rcp.f64", "rcp.approx.f64")
def rcp(
    a: Reg, *, rounding: str = "rn", ftz: bool = False, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Compute ``1 / a``. Records one ``rcp``.

    Args:
        a: f32 or f64.
        rounding: ``"rn"``, ``"rz"``, ``"rm"``, ``"rp"``, or ``"approx"`` (1 ulp for f32; coarse for f64,
            which requires ``ftz``).
        ftz: flush subnormal inputs and results to zero.
        out, pred: as for :func:`add`.

    PTX ISA: `#floating-point-instructions-rcp`.
    """
    return _function("rcp", rounding, a, ftz, out, pred)


@records("sqrt.f32", "sqrt.approx.f32", "sqrt.f64")
def sqrt(
    a: Reg, *, rounding: str = "rn", ftz: bool = False, out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Compute the square root of an f32 or f64. Records one ``sqrt``.

    The arguments are those of :func:`rcp`; ``"approx"`` exists for f32 only.

    PTX ISA: `#floating-point-instructions-sqrt`.
    """
    return _function("sqrt", rounding, a, ftz, out, pred)


@records("rsqrt.f32", "rsqrt.f64")
def rsqrt(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Approximate ``1 / sqrt(a)`` of an f32 or f64. Records one ``rsqrt.approx``.

    With ``ftz`` only the upper 32 bits of an f64 are used.

    PTX ISA: `#floating-point-instructions-rsqrt`.
    """
    return _function("rsqrt", "approx", a, ftz, out, pred)


@records("sin.f32")
def sin(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Approximate the sine of an f32 in radians. Records one ``sin.approx``.

    PTX ISA: `#floating-point-instructions-sin`.
    """
    return _function("sin", "approx", a, ftz, out, pred)


@records("cos.f32")
def cos(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Approximate the cosine of an f32 in radians. Records one ``cos.approx``.

    PTX ISA: `#floating-point-instructions-cos`.
    """
    return _function("cos", "approx", a, ftz, out, pred)


@records("lg2.f32")
def lg2(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Approximate the logarithm to base 2 of an f32. Records one ``lg2.approx``.

    PTX ISA: `#floating-point-instructions-lg2`.
    """
    return _function("lg2", "approx", a, ftz, out, pred)


@records("ex2.f32", "ex2.half", "ex2.bfloat")
def ex2(a: Reg, *, ftz: bool = False, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Approximate 2 to the power of an f32, f16, bf16, f16x2 or bf16x2. Records one ``ex2.approx``.

    bf16 and bf16x2 need sm_90 and require ``ftz``.

    PTX ISA: `#floating-point-instructions-ex2`.
    """
    return _function("ex2", "approx", a, ftz, out, pred)


@records("tanh.f32", "tanh.half")
def tanh(a: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Approximate the hyperbolic tangent of an f32, f16, bf16, f16x2 or bf16x2.

    Records one ``tanh.approx``.

    PTX ISA: `#floating-point-instructions-tanh`.
    """
    return _function("tanh", "approx", a, False, out, pred)


# --- dot products ---------------------------------------------------------------------------------


def _dot(opcode: str, half: str | None, a: Reg, b: Reg, c: Value, out: Reg | None, pred: Predicate) -> Reg:
    trace = current()
    factors = (meet(opcode, a), meet(opcode, b))
    signed = any(kind.kind == "s" for kind in factors)
    kind = TYPES["s32" if signed else "u32"]
    operands = (typed(a, factors[0], trace), typed(b, factors[1], trace), typed(c, kind, trace))
    modifiers = present(half, *(integer_modifier(factor) for factor in factors))
    return value(kind, opcode, modifiers, operands, out=out, pred=pred)


@records("dp4a")
def dp4a(a: Reg, b: Reg, c: Value, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Add to ``c`` the products of the four bytes of ``a`` with those of ``b``. Records one ``dp4a``.

    Args:
        a, b: four bytes each, signed in an s32 register, unsigned in a u32 register.
        c: 32-bit integer; the result is s32 if ``a`` or ``b`` is s32, else u32.
        out, pred: as for :func:`add`.

    PTX ISA: `#integer-arithmetic-instructions-dp4a`.
    """
    return _dot("dp4a", None, a, b, c, out, pred)


@records("dp2a")
def dp2a(
    a: Reg, b: Reg, c: Value, *, half: Half = "lo", out: Reg | None = None, pred: Predicate = None
) -> Reg:
    """Add to ``c`` the products of the two halves of ``a`` with two bytes of ``b``. Records one ``dp2a``.

    Args:
        a: two 16-bit integers, signed in an s32 register, unsigned in a u32 register.
        b: four bytes, signed or unsigned as ``a``; ``half`` selects the lower two, ``"lo"``, or the upper
            two, ``"hi"``.
        c, out, pred: as for :func:`dp4a`.

    PTX ISA: `#integer-arithmetic-instructions-dp2a`.
    """
    return _dot("dp2a", half, a, b, c, out, pred)
