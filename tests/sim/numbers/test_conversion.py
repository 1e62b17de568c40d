"""Conversions by themselves: every variant on operands about the ties and limits of its result, and all codes.

:mod:`tests.sim.semantics.test_values` runs the same forms through the translator, on fewer operands.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx.core.types import TYPES, ScalarType
from pyptx.isa import Binding, all_forms, form
from pyptx.sim.code.semantic import Op, semantic_of
from pyptx.sim.numbers.formats import FORMATS, decoded, encode
from pyptx.sim.numbers.narrow import random_fields
from tests.isa.samples import instructions
from tests.sim.oracles import conversion as oracle_conversion
from tests.sim.oracles.conversion import EXPECTED, NARROW, narrow, narrow_four, read

#: The same formats in another library.
ML_DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}
ROWS = 120
FORMS = [f.id for f in all_forms() if f.opcode in ("cvt", "cvt.pack")]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As the machine runs them."""
    with np.errstate(all="ignore"):
        yield


def operation(binding: Binding) -> Op:
    meaning = semantic_of(binding.form_id)
    assert meaning is not None
    return Op(0, binding, meaning, None)


def operations(form_id: str) -> list[Op]:
    """One for every variant."""
    found = {b.match.name: b for b, _ in instructions(form(form_id)) if b.form_id == form_id}
    assert found, form_id
    return [operation(b) for b in found.values()]


def run(op: Op, *operands: Any) -> list[int]:
    """The words of the result."""
    function = op.semantic.function
    result = np.asarray(function(op, *operands) if op.semantic.wants_op else function(*operands))
    dest = next(s for s in op.binding.match.form.specs() if s.access == "w")
    (kind,) = dest.scalar_types(op.chosen)
    if result.dtype != kind.register_dtype:
        result = result.astype(kind.register_dtype)
    return result.view(f"u{result.itemsize}").astype(np.uint64).tolist()


def words(values: Sequence[int], kind: ScalarType) -> NDArray[Any]:
    return np.array(values, np.uint64).astype(f"u{kind.bits // 8}").view(kind.register_dtype)


# --- operands ---------------------------------------------------------------------------------


def f32s(draw: random.Random, count: int) -> list[int]:
    found = [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7FA00001, 0x7F800001, 0x7FFFFFFF]
    found += [0x7FBFFFFE, 0x3F800000, 0x477FEFFF, 0x477FF000, 0x7F7F7FFF, 0x7F7F8000, 0x43E00000, 0x43E80000]
    found += [word | 1 << 31 for word in found]
    while len(found) < count:
        if draw.random() < 0.25:
            found.append(draw.getrandbits(32))
            continue
        # A tie of some format, or one off.
        exponent = draw.choice((draw.randrange(100, 150), draw.randrange(120, 135), draw.randrange(255)))
        cut = draw.choice((13, 16, 19, 20, 21, 22))
        fraction = draw.getrandbits(23) >> cut << cut | draw.choice((0, 1 << (cut - 1)))
        word = (exponent << 23) + fraction + draw.choice((-1, 0, 1))
        found.append(word & 0x7FFFFFFF | draw.getrandbits(1) << 31)
    return found


def f64s(draw: random.Random, count: int) -> list[int]:
    found = [0, 1, 0x7FF << 52, 0x7FF8 << 48 | 5 << 30, 0x7FF4 << 48, (0x7FF << 52) + 1]
    found += [word | 1 << 63 for word in found]
    for word in f32s(draw, count - len(found)):
        if draw.random() < 0.2:
            found.append(draw.getrandbits(64))
            continue
        wide = int(np.uint32(word).view(np.float32).astype(np.float64).view(np.uint64))
        found.append((wide + draw.choice((-1, 0, 0, 1, 1 << 28, -(1 << 28), 1 << 10))) % (1 << 64))
    return found


def integers(draw: random.Random, bits: int, count: int) -> list[int]:
    top = 1 << (bits - 1)
    found = [0, 1, 2, 2 * top - 1, top, top - 1]
    while len(found) < count:
        width = draw.randrange(1, bits + 1)
        value = draw.getrandbits(width)
        cut = width - draw.choice((8, 11, 24, 53))
        if cut > 0 and draw.random() < 0.7:
            value = (value >> cut << cut) + draw.choice((0, 1 << (cut - 1))) + draw.choice((-1, 0, 1))
        found.append(draw.choice((value, value, -value)) % (2 * top))
    return found


def column(draw: random.Random, kind: ScalarType, count: int) -> list[int]:
    if kind.name == "f32":
        return f32s(draw, count)
    if kind.name == "f64":
        return f64s(draw, count)
    if kind.kind in "us":
        return integers(draw, kind.bits, count)
    special = [0, 0x8000, 0x7C00, 0x7C01, 0xFC00, 0x7F80, 0xFF81, 0x7FFF, 0x7F7F, 0x7BFF, 1, 0x8001]
    if kind.lanes == 2 and kind.bits == 32:
        halves = [draw.sample(special, 12) + [draw.getrandbits(16) for _ in range(count - 12)] for _ in "ab"]
        return [upper << 16 | lower for upper, lower in zip(*halves, strict=True)]
    found = [draw.getrandbits(kind.bits) for _ in range(count)]
    if kind.bits == 16:
        found[:12] = special
    return found


@pytest.mark.one_in(8)
@pytest.mark.parametrize("form_id", FORMS)
def test_every_variant(form_id: str) -> None:
    """Against the oracle; operands are left as they are, and lone ones give the same."""
    draw = random.Random(form_id)
    for op in operations(form_id):
        columns: list[list[int]] = []
        operands: list[Any] = []
        for spec in op.binding.match.form.specs():
            if spec.access == "w":
                continue
            if spec.name not in op.binding.specs:
                operands.append(None)
                continue
            (kind,) = spec.scalar_types(op.chosen)
            length = spec.length(op.chosen)
            found = [column(draw, kind, ROWS) for _ in range(length or 1)]
            if spec.name == "scale-factor":
                # Every other one is near one: 127.
                found = [[n if i % 2 else 0x7E81 >> 16 - kind.bits for i, n in enumerate(found[0])]]
            columns += found
            operands.append(np.stack([words(c, kind) for c in found]) if length else words(found[0], kind))
        before = [None if a is None else a.tobytes() for a in operands]
        got = run(op, *operands)
        assert [None if a is None else a.tobytes() for a in operands] == before, op.name
        for row, (value, *given) in enumerate(zip(got, *columns, strict=True)):
            if form_id == "cvt.f8x4.rs":
                wanted = narrow_four(op.chosen, tuple(given[:4]), given[4])
            else:
                wanted = EXPECTED[form_id](op.chosen, *given)
            assert value == wanted, f"{op.name}, row {row}, of {[hex(g) for g in given]}"
        lone = [None if a is None else a[..., 7:8] for a in operands]
        assert run(op, *lone) == got[7:8], op.name


def test_every_form_has_an_oracle() -> None:
    assert set(FORMS) == set(EXPECTED) | {"cvt.f8x4.rs"}


# --- all codes --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_value_of_every_code(name: str) -> None:
    values = decoded(name)
    if name in ML_DTYPES:
        codes = np.arange(len(values), dtype=np.uint16 if len(values) > 256 else np.uint8)
        theirs = codes.view(ML_DTYPES[name]).astype(np.float64)
        np.testing.assert_array_equal(values, theirs)
        number = ~np.isnan(values)
        np.testing.assert_array_equal(np.signbit(values)[number], np.signbit(theirs)[number])
    if name in ("f16", "bf16"):
        return
    for code, value in enumerate(values.tolist()):
        exact = oracle_conversion.decode(code, name)
        assert value == exact or (value != value and exact != exact), code


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [n for n in FORMATS if n not in ("f16", "bf16")])
@pytest.mark.parametrize("rnd", ["rn", "rz", "rm", "rp"])
def test_between_any_two_codes(name: str, rnd: str) -> None:
    """Each number of a format, the middle to the next, and what is beside these, in every rounding."""
    f = FORMATS[name]
    numbers = sorted({v for v in decoded(name).tolist() if abs(v) < np.inf})
    beyond = [2 * numbers[-1], 2.0**140, 2 * numbers[0] if f.signed else 0.0, np.inf, -np.inf]
    exact = [*numbers, *((a + b) / 2 for a, b in pairwise(numbers)), *beyond]
    beside = [np.nextafter(v, direction) for v in exact for direction in (-np.inf, np.inf)]
    values = np.array([*exact, *beside, 1e-300, -1e-300, 5e-324])
    for modifiers in ({"satfinite": ""}, {}):
        got = encode(values, f, rnd, saturate=bool(modifiers)).tolist()
        for value, code in zip(values.tolist(), got, strict=True):
            if rnd in ("rm", "rp") and name == "s2f6":
                continue  # no instruction asks for it
            number = Fraction(value) if abs(value) < np.inf else value
            minus = bool(np.signbit(value))
            wanted = narrow(number, minus, name, {"rnd": rnd, **modifiers})
            if name == "e5m2" and not modifiers and abs(value) > 57344:
                continue  # every conversion to e5m2 saturates
            assert code == wanted, (value, hex(code), hex(wanted))


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_all_halves_to_narrow(name: str, source: str) -> None:
    form_id = {"f16": "cvt.f8x2_from_f16x2", "bf16": "cvt.f8x2_from_bf16x2"}[source]
    form_id = form_id if name in ("e4m3", "e5m2") else "cvt.f6x2_from_pack"
    (op,) = (o for o in operations(form_id) if o.name == f"cvt.rn.satfinite.{name}x2.{source}x2")
    codes = np.arange(1 << 16, dtype=np.uint32)
    got = run(op, codes << np.uint32(16) | codes[::-1])
    stride = 4 if name == "e2m1" else 8
    chosen = {"rnd": "rn", "satfinite": ""}
    wanted = [narrow(*read(code, source), name, chosen) for code in range(1 << 16)]
    assert got == [a << stride | b for a, b in zip(wanted, wanted[::-1], strict=True)]


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize(
    "form_id",
    [
        "cvt.int_from_half",
        "cvt.int_from_bfloat",
        "cvt.f16_from_bf16",
        "cvt.bf16_from_f16",
        "cvt.widen16",
        "cvt.f16",
        "cvt.bf16",
    ],
)
def test_all_halves(form_id: str) -> None:
    """Every 16-bit float through the first variant, and every thirteenth through one of each rounding."""
    roundings: dict[str, Op] = {}
    for op in operations(form_id):
        rounding = [op.chosen.get(slot, "") for slot in ("irnd", "rnd", "atype")]
        roundings.setdefault(" ".join(rounding), op)
    for number, op in enumerate(roundings.values()):
        codes = list(range(0, 1 << 16, 13 if number else 1))
        spec = next(s for s in op.binding.match.form.specs() if s.access == "r")
        (kind,) = spec.scalar_types(op.chosen)
        assert run(op, words(codes, kind)) == [EXPECTED[form_id](op.chosen, code) for code in codes], op.name


# --- stochastic rounding ----------------------------------------------------------------------


def test_which_random_bits_are_whose() -> None:
    """Four operands each, as measured on sm_100a: which bits, and in which order."""
    assert [hex(int(f[0])) for f in random_fields(np.uint32(0x12345678), "e4m3")] == [
        "0x2c48",
        "0x1234",
        "0x1e6a",
        "0x5678",
    ]
    assert [hex(int(f[0])) for f in random_fields(np.uint32(0x12345678), "e2m1")] == [
        "0x6a48",
        "0x1256",
        "0x1e2c",
        "0x3478",
    ]


@pytest.mark.parametrize(("name", "value", "chance"), [("e4m3", 1.0 + 3 / 64, 0.375), ("e2m1", 2.25, 0.25)])
def test_random_bits_round_away_as_often_as_the_fraction_says(name: str, value: float, chance: float) -> None:
    values, bits = np.full(1 << 16, value), np.arange(1 << 16)
    low = narrow(Fraction(value), False, name, {"rnd": "rz", "satfinite": ""})
    codes = encode(values, FORMATS[name], "rs", saturate=True, random=bits)
    assert set(codes.tolist()) == {low, low + 1}
    assert np.count_nonzero(codes != low) == chance * (1 << 16)


# --- immediates and what an H200 was seen to do -------------------------------------------------


def test_an_immediate_is_one_operand_of_many() -> None:
    (op,) = (o for o in operations("cvt.pack16") if o.name == "cvt.rn.f16x2.f32")
    assert run(op, np.array([1, 2], np.float32), np.float32(0.5)) == [0x3C003800, 0x40003800]
    (op,) = (o for o in operations("cvt.f8x2") if o.name == "cvt.rn.satfinite.e4m3x2.f32")
    assert run(op, np.float32(1), np.array([2, 1e9], np.float32)) == [0x3840, 0x387E]


@pytest.mark.parametrize(
    ("form_id", "name", "given", "wanted"),
    [
        ("cvt.tf32.rna", "cvt.rna.tf32.f32", 0x7FBFFFFE, 0x7FBFE000),
        ("cvt.tf32.rna", "cvt.rna.tf32.f32", 0xFF800001, 0xFF800000),
        ("cvt.tf32.rna", "cvt.rna.satfinite.tf32.f32", 0x7FBFFFFE, 0x7FBFC000),
        ("cvt.f16_from_f32", "cvt.rp.ftz.f16.f32", 0x00000001, 0x0001),
        ("cvt.f16_from_f32", "cvt.rm.ftz.f16.f32", 0x80000001, 0x8001),
    ],
)
def test_as_measured_on_an_h200(form_id: str, name: str, given: int, wanted: int) -> None:
    (op,) = (o for o in operations(form_id) if o.name == name)
    assert run(op, words([given], TYPES["f32"])) == [wanted]


def test_the_oracle_knows_every_format() -> None:
    assert set(FORMATS) == set(NARROW) | {"s2f6"}
