"""``ptx.cvt`` and other conversions: between types, and between generic addresses and state spaces.

Each function records exactly one instruction.  Its result is a new register of the target type, named after
the author's variable, or the register given as ``out=``; ``pred=`` guards the instruction.  A conversion that
rounds needs ``rounding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.types import TYPES, ScalarType
from ...core.types import pred as predicate
from ...ir import Operand, Vector
from ...isa.table import orders
from ..choices import PackedInteger, Space
from ..emit import Predicate
from ..operands import operand
from ..records import records
from ..registers import Number, Reg, owned
from ..trace import Trace, current
from ..types import the_type
from .values import meet, present, typed, value

__all__ = ["cvt", "cvt_pack", "cvt_x2", "cvt_x4", "cvta", "cvta_to", "isspacep"]

_CVT = "data-movement-and-conversion-instructions-cvt"
_PACK = "data-movement-and-conversion-instructions-cvt-pack"
_CVTA = "data-movement-and-conversion-instructions-cvta"


def _source(given: Any, trace: Trace) -> tuple[Operand, ScalarType]:
    """Return the register to convert as an operand, and its type."""
    if not isinstance(given, Reg):
        raise OperandError(
            f"{given!r} cannot be converted: expected a register",
            hint="put a number into a register first: reg.scalar(type, init=...)",
            see=_CVT,
        )
    if given.type.kind in "bp":
        what = "a predicate" if given.type is predicate else f"untyped bits (.{given.type})"
        remedy = (
            "ptx.selp(1, 0, p)"
            if given.type is predicate
            else f"view the bits as a number first: x.view(u{given.type.bits})"
        )
        raise OperandError(f"{given} is {what} and cannot be converted", hint=remedy, see=_CVT)
    return owned(given, trace).operand, given.type


def _scaling(scale: Reg | None, trace: Trace) -> tuple[str | None, tuple[Operand, ...]]:
    """Return the modifier and the operand of scale factors: 8 bits hold one for both values, 16 bits two."""
    if scale is None:
        return None, ()
    if getattr(getattr(scale, "type", None), "bits", 0) not in (8, 16):
        raise OperandError(
            f"scale is {scale!r}: expected a 16-bit register of two ue8m0, or an 8-bit register of one",
            see=_CVT,
        )
    return f"scaled::n{scale.type.bits // 8}::ue8m0", (operand(scale, trace),)


def _bits_of_chance(rbits: Reg | None, trace: Trace) -> tuple[Operand, ...]:
    return () if rbits is None else (operand(rbits, trace),)


def _record(
    to: ScalarType,
    modifiers: tuple[str, ...],
    of: ScalarType,
    operands: tuple[Operand, ...],
    out: Reg | None,
    pred: Predicate,
    storage: ScalarType | None = None,
) -> Reg:
    """Record one ``cvt``, with the modifiers in the order of its form."""
    types = (to.name, of.name)
    given = (*modifiers, *types)
    spelled = next((order for order in orders("cvt", given) if order[-2:] == types), given)
    return value(to, "cvt", spelled, operands, out=out, pred=pred, storage=storage)


@records(
    "cvt.int",
    "cvt.float_from_int",
    "cvt.int_from_float",
    "cvt.narrow16",
    "cvt.widen16",
    "cvt.float_from_int.sat",
    "cvt.half_from_int",
    "cvt.bfloat_from_int",
    "cvt.bfloat_from_byte",
    "cvt.int_from_float.sat",
    "cvt.int_from_half",
    "cvt.int_from_bfloat",
    "cvt.byte_from_bfloat",
    "cvt.f32",
    "cvt.f64",
    "cvt.f32_from_f64",
    "cvt.f64_from_f32",
    "cvt.f16",
    "cvt.bf16",
    "cvt.f16_from_bf16",
    "cvt.bf16_from_f16",
    "cvt.f16_from_f64",
    "cvt.bf16_from_f64",
    "cvt.f64_from_f16",
    "cvt.f64_from_bf16",
    "cvt.f32_from_f16.sat",
    "cvt.f32_from_bf16.rnd",
    "cvt.f32_from_bf16.ftz",
    "cvt.narrow16.directed",
    "cvt.f16_from_f32",
    "cvt.bf16_from_f32.ftz",
    "cvt.narrow16.relu",
    "cvt.tf32.rna",
    "cvt.tf32",
    "cvt.f8x2_from_f16x2",
    "cvt.f16x2_from_f8x2",
    "cvt.f16x2_from_f6x2",
    "cvt.ue8m0x2_from_bf16x2",
    "cvt.bf16x2_from_ue8m0x2",
    "cvt.f8x2_from_bf16x2",
    "cvt.f6x2_from_pack",
    "cvt.bf16x2_from_f8x2",
    "cvt.s2f6x2_from_bf16x2",
    "cvt.bf16x2_from_s2f6x2",
    "cvt.half.pzo",
    "cvt.narrow8_from_pack",
    "cvt.ue5m3x2_from_pack",
    "cvt.f16x2_from_ue5m3x2",
    "cvt.bf16x2_from_ue5m3x2",
)
def cvt(
    given: Reg,
    to: ScalarType,
    *,
    rounding: str | None = None,
    ftz: bool = False,
    sat: bool = False,
    satfinite: bool = False,
    relu: bool = False,
    pzo: bool = False,
    scale: Reg | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Convert ``given``, a number or each number of a pack, to type ``to``. Records one ``cvt``.

    Args:
        given: register to convert, of an integer or float type or a pack (f16x2, bf16x2, e4m3x2 ...).
        to: type of the result; a pack for a pack. bf16 to an 8-bit integer gives an 8-bit register.
        rounding: to a narrower float ``"rn"``, ``"rz"``, ``"rm"``, ``"rp"`` (tf32 also ``"rna"``); to an
            integer or an integral float ``"rni"``, ``"rzi"``, ``"rmi"``, ``"rpi"``; None for an exact
            conversion.
        ftz: flush subnormal f32 to zero.
        sat: clamp integers to the range of the type, floats to 0..1.
        satfinite: clamp to the largest number instead of infinity; the 8-, 6- and 4-bit formats require it.
        relu: replace negative results, and -0, by zero.
        pzo: replace a result of -0 by 0 (sm_107).
        scale: powers of two that multiply or divide, depending on the form: a 16-bit register of two ue8m0
            (bf16x2 from 8 bits and fewer, s2f6x2), or an 8-bit register of one (sm_107).
        out: register to write; default: a new one, named after the variable that takes the result.
        pred: guard.

    Raises:
        InstructionError: no such conversion, or modifiers that the conversion does not have.
        OperandError: ``given`` is not a register, or holds untyped bits.

    PTX ISA: `#data-movement-and-conversion-instructions-cvt`.
    """
    trace = current()
    source, of = _source(given, trace)
    factor, scales = _scaling(scale, trace)
    modifiers = _modifiers(rounding, ftz, sat, satfinite, relu, pzo, factor)
    narrow = of.name == "bf16" and the_type(to).bits == 8
    return _record(the_type(to), modifiers, of, (source, *scales), out, pred, TYPES["b8"] if narrow else None)


def _modifiers(
    rounding: str | None,
    ftz: bool = False,
    sat: bool = False,
    satfinite: bool = False,
    relu: bool = False,
    pzo: bool = False,
    factor: str | None = None,
) -> tuple[str, ...]:
    return present(
        rounding,
        ftz and "ftz",
        sat and "sat",
        satfinite and "satfinite",
        relu and "relu",
        pzo and "pzo",
        factor,
    )


@records(
    "cvt.pack16",
    "cvt.pack16.relu",
    "cvt.pack16.rs",
    "cvt.f8x2",
    "cvt.f6x2",
    "cvt.ue8m0x2",
    "cvt.s2f6x2",
    "cvt.pack16.pzo",
    "cvt.narrow8",
    "cvt.ue5m3x2",
)
def cvt_x2(
    low: Reg | Number,
    high: Reg | Number,
    to: ScalarType,
    *,
    rounding: str = "rn",
    satfinite: bool = False,
    relu: bool = False,
    pzo: bool = False,
    rbits: Reg | None = None,
    scale: Reg | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Convert two f32 to one pack, with ``low`` in the lower part. Records one ``cvt``.

    Watch out: in the PTX instruction, the upper value comes first.

    Args:
        low, high: f32.
        to: f16x2 or bf16x2 (from sm_80 on), e4m3x2, e5m2x2 (sm_89), e2m3x2, e3m2x2, e2m1x2, ue8m0x2
            (sm_100f and other family targets), s2f6x2, ue5m3x2.
        rounding: ``"rn"``, ``"rz"``, ``"rp"`` (ue8m0x2), or ``"rs"``: stochastic, with ``rbits``.
        satfinite, relu, pzo, scale, out, pred: as for :func:`cvt`.
        rbits: 32 random bits, a b32 register, for ``"rs"``.

    PTX ISA: `#data-movement-and-conversion-instructions-cvt`.
    """
    trace, f32 = current(), TYPES["f32"]
    if (rbits is not None) != (rounding == "rs"):
        raise OperandError(
            f"rounding is {rounding!r} and rbits is {rbits!r}: only rounding='rs' takes and needs rbits",
            see=_CVT,
        )
    factor, scales = _scaling(scale, trace)
    operands = (
        typed(high, f32, trace),
        typed(low, f32, trace),
        *_bits_of_chance(rbits, trace),
        *scales,
    )
    modifiers = _modifiers(rounding, satfinite=satfinite, relu=relu, pzo=pzo, factor=factor)
    return _record(the_type(to), modifiers, f32, operands, out, pred)


@records("cvt.f8x4.rs")
def cvt_x4(
    given: Sequence[Reg | Number],
    to: ScalarType,
    rbits: Reg,
    *,
    relu: bool = False,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Convert four f32 to one pack with stochastic rounding; ``given[0]`` is lowest. Records one ``cvt.rs``.

    Watch out: in the PTX instruction, the uppermost value comes first.  It clamps to the largest number
    (``.satfinite``).

    Args:
        given: four f32.
        to: e4m3x4, e5m2x4, e2m3x4, e3m2x4 or e2m1x4.
        rbits: 32 random bits, a b32 register.
        relu, out, pred: as for :func:`cvt`.

    PTX ISA: `#data-movement-and-conversion-instructions-cvt`.
    """
    trace, f32 = current(), TYPES["f32"]
    if len(given) != 4:
        raise OperandError(f"ptx.cvt_x4 of {len(given)} values: expected 4", see=_CVT)
    elements: list[Any] = [typed(item, f32, trace) for item in reversed(list(given))]
    operands = (Vector(tuple(elements)), operand(rbits, trace))
    modifiers = _modifiers("rs", satfinite=True, relu=relu)
    return _record(the_type(to), modifiers, f32, operands, out, pred)


@records("cvt.pack", "cvt.pack.insert")
def cvt_pack(
    low: Reg | Number,
    high: Reg | Number,
    to: PackedInteger,
    *,
    below: Reg | Number | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Clamp two s32 to a narrower type and put both into a u32. Records one ``cvt.pack.sat``.

    Watch out: in the PTX instruction, the upper value comes first.

    Args:
        low, high: s32.
        to: type of each: ``"u16"`` or ``"s16"``; with ``below`` ``"u8"``, ``"s8"``, ``"u4"``, ``"s4"``,
            ``"u2"``, ``"s2"``.
        below: 32 bits that are shifted left by the width of both results, which take the lowest bits.
        out, pred: as for :func:`cvt`.

    PTX ISA: `#data-movement-and-conversion-instructions-cvt-pack`.
    """
    trace, s32 = current(), TYPES["s32"]
    if below is not None and TYPES.get(to, s32).bits == 16:
        raise OperandError(
            f"below is {below!r}: two .{to} fill the result, so there is no room for it",
            hint="leave below= out, or choose a narrower type with to=",
            see=_PACK,
        )
    rest = () if below is None else (typed(below, TYPES["b32"], trace),)
    operands = (typed(high, s32, trace), typed(low, s32, trace), *rest)
    modifiers = present("pack", "sat", to, "s32", None if below is None else "b32")
    return value(TYPES["u32"], "cvt", modifiers, operands, out=out, pred=pred)


def _place(name: str, given: Reg, space: str) -> tuple[Operand, ...]:
    """Return the register of an address in the state space ``space`` as an operand."""
    meet(name, given)
    return (operand(given, current()),)


def _address(
    opcode: str, modifiers: tuple[str, ...], given: Reg, space: str, out: Reg | None, pred: Predicate
) -> Reg:
    operands = _place(opcode, given, space)
    return value(TYPES["u64"], opcode, (*modifiers, "u64"), operands, out=out, pred=pred, hint="address")


@records("cvta")
def cvta(given: Reg, space: Space, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Convert an address in ``space`` to a generic address. Records one ``cvta``.

    Args:
        given: 64-bit address; extend a 32-bit address of shared memory first, with ``ptx.cvt(x, u64)``.
        space: ``"global"``, ``"shared"``, ``"shared::cta"``, ``"shared::cluster"``, ``"local"``, ``"const"``,
            ``"param"`` or ``"param::entry"``.
        out, pred: as for :func:`cvt`.

    PTX ISA: `#data-movement-and-conversion-instructions-cvta`.
    """
    return _address("cvta", (space,), given, space, out, pred)


@records("cvta.to")
def cvta_to(given: Reg, space: Space, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Convert a generic address to an address in ``space``. Records one ``cvta.to``.

    The arguments are those of :func:`cvta`.

    PTX ISA: `#data-movement-and-conversion-instructions-cvta`.
    """
    return _address("cvta", ("to", space), given, space, out, pred)


@records("isspacep")
def isspacep(given: Reg, space: Space, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return a predicate: true if a generic address points into ``space``. Records one ``isspacep``.

    The arguments are those of :func:`cvta`.

    PTX ISA: `#data-movement-and-conversion-instructions-isspacep`.
    """
    operands = _place("isspacep", given, space)
    return value(predicate, "isspacep", (space,), operands, out=out, pred=pred, hint="p")
