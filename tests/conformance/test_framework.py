"""The parts of the conformance tests: the generator, the operands, recordings, and what a comparison finds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pyptx.isa import check_module, form

from . import compare, recording
from .case import Bound, In, KernelCase, Number, Out, kernel
from .collect import kernel_cases, value_cases, value_chapters
from .compare import Difference, compare_kernel, compare_values, table
from .gpu import Machine
from .operands import specials, tuples
from .recording import Recording, Row, outputs_of, pack_outputs, pack_words, read, words_of
from .simulate import NotRun, simulate
from .undefined import RULES
from .values import ValueCase, available, batch
from .words import FORMATS, floats, splitmix64, uniform

pytestmark = pytest.mark.full

# --- words and operands -------------------------------------------------------------------------


def test_splitmix64_is_the_published_generator() -> None:
    # The first words of the reference implementation (Vigna, splitmix64.c) for the seed 1234567.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    step = 0x9E3779B97F4A7C15
    states = [(1234567 + n * step) % 2**64 for n in range(4)]

    def published(state: int) -> int:
        z = (state + step) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    assert [published(s) for s in states] == expected
    # Ours steps by its counter, and so begins each word at a state of its own.
    counters = np.array([0, 1, 5, 2**64 - 1], np.uint64)
    assert splitmix64(counters).tolist() == [published(int(c) * step % 2**64) for c in counters]


def test_streams_differ_by_name_and_not_by_length() -> None:
    assert (uniform("a", 10) == uniform("a", 20)[:10]).all()
    assert (uniform("a", 100) != uniform("b", 100)).all()
    assert uniform("a", 1000, 5).max() == 31


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "tf32"])
def test_floats_are_near_one(kind: str) -> None:
    words, f = floats("test", 500, kind, 3), FORMATS[kind]
    exponents = (words >> np.uint64(f.fraction + f.shift)) & np.uint64((1 << f.exponent) - 1)
    assert set(exponents.tolist()) == set(range(f.bias - 3, f.bias + 4))
    assert (words >> np.uint64(f.bits)).max() == 0
    assert (words & np.uint64((1 << f.shift) - 1)).max() == 0


def _value(word: int, kind: str) -> Fraction:
    f = FORMATS[kind]
    exponent = word >> f.fraction & ((1 << f.exponent) - 1)
    fraction = word & ((1 << f.fraction) - 1)
    digits = fraction | (bool(exponent) << f.fraction)
    return (
        Fraction(digits)
        * Fraction(2) ** (max(exponent, 1) - f.bias - f.fraction)
        * (-1) ** (word >> f.bits - 1)
    )


@pytest.mark.parametrize(
    ("source", "result"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f32"), ("f32", "e4m3")]
)
def test_conversions_get_ties(source: str, result: str) -> None:
    """Of 512 operands, dozens lie exactly midway between numbers of the result, subnormal ones among them."""
    infinity = ((1 << FORMATS[source].exponent) - 1) << FORMATS[source].fraction
    top = 1 << (FORMATS[source].bits - 1)
    form_ = FORMATS[result]
    normal = small = 0
    for word in tuples((source,), result, 512)[0].tolist():
        if not 0 < word % top < infinity:
            continue
        value = abs(_value(word, source))
        least = Fraction(2) ** form_.least
        if value >= Fraction(2) ** (form_.largest + 1):
            continue
        exponent = form_.least
        while Fraction(2) ** (exponent + 1) <= value:
            exponent += 1
        halves = value / Fraction(2) ** (exponent - form_.fraction) * 2
        if halves.denominator == 1 and halves % 2 == 1:
            normal += value >= least
            small += value < least
    assert normal >= 20 and small >= 10, (normal, small)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_sums_and_products_get_ties(kind: str) -> None:
    f = FORMATS[kind]
    infinity = ((1 << f.exponent) - 1) << f.fraction
    found = {"sum": 0, "product": 0, "tiny": 0}
    a, b, _ = tuples((kind, kind, kind), kind, 1024).tolist()
    for x, y in zip(a, b, strict=True):
        if (x % (1 << f.bits - 1)) >= infinity or (y % (1 << f.bits - 1)) >= infinity:
            continue
        for name, exact in (
            ("sum", _value(x, kind) + _value(y, kind)),
            ("product", _value(x, kind) * _value(y, kind)),
        ):
            if not exact:
                continue
            number = abs(exact)
            odd = number.numerator
            while odd % 2 == 0:
                odd //= 2
            found[name] += odd.bit_length() == f.fraction + 2
            found["tiny"] += number < Fraction(2) ** f.least
    assert found["sum"] >= 20 and found["product"] >= 20 and found["tiny"] >= 20, found


def test_special_values_meet_each_other() -> None:
    a, b, c = tuples(("f32", "f32", "f32"), "f32", 1024)
    infinity = np.uint64(0x7F800000)
    nan = [(w & np.uint64(0x7FFFFFFF)) > infinity for w in (a, b, c)]
    assert (nan[0] & nan[1]).sum() > 20 and (nan[0] & nan[1] & nan[2]).sum() > 10
    assert set(specials("f32").tolist()) <= set(a.tolist())
    assert ((a ^ b) == 1 << 31).sum() > 20  # what cancels


def test_operands_of_packs_are_tuples_lane_by_lane() -> None:
    single = tuples(("f16", "f16"), "f16", 256)
    packed = tuples(("f16x2", "f16x2"), "f16x2", 256)
    assert (packed & np.uint64(0xFFFF) == single).all()
    assert (packed >> np.uint64(16) == np.roll(single, 37, axis=1)).all()


def test_amounts_keep_to_what_is_defined() -> None:
    words = tuples(("b32", "byte", "lane", "offset", "bit"), "b32", 512)
    assert words[1].max() == 255 and words[2].max() == 31 and words[4].max() == 1
    assert set(words[3].astype(np.uint32).view(np.int32).tolist()) <= set(range(-33, 34))


# --- cases from the table -----------------------------------------------------------------------


@pytest.mark.full
def test_every_variant_has_a_case() -> None:
    for chapter in value_chapters():
        names = {case.match.name for case in value_cases(chapter)}
        for identifier in dict.fromkeys(case.form.id for case in value_cases(chapter)):
            assert {match.name for match in available(form(identifier))} <= names, identifier


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chapter", value_chapters())
def test_the_table_accepts_what_the_cases_write(chapter: str) -> None:
    cases = value_cases(chapter)
    for start in range(0, len(cases), 500):
        assert not check_module(batch(cases[start : start + 500]).module)


def _case(name: str, chapter: str) -> ValueCase:
    return next(case for case in value_cases(chapter) if case.match.name == name)


def test_results_land_in_their_own_rows() -> None:
    """Against Python's integers: operands are read from their places and results are stored in theirs."""
    group = [_case("add.u32", "integer"), _case("mul.wide.u16", "integer"), _case("addc.cc.u32", "extended")]
    (results,) = simulate(batch(group))
    a, b = (w.tolist() for w in group[0].operands())
    assert results[0].tolist() == [(x + y) % 2**32 for x, y in zip(a, b, strict=True)]
    a, b = (w.tolist() for w in group[1].operands())
    assert results[1].tolist() == [x * y for x, y in zip(a, b, strict=True)]
    a, b, carry = (w.tolist() for w in group[2].operands())
    sums = [x + y + z for x, y, z in zip(a, b, carry, strict=True)]
    assert results[2].tolist() == [s % 2**32 for s in sums]
    assert results[3].tolist() == [s >> 32 for s in sums]
    assert {0, 1} == set(carry) == set(results[3].tolist())


def test_division_by_zero_is_not_compared() -> None:
    case = _case("div.s16", "integer")
    undefined = RULES["div.int"].undefined(case.operands(), [16, 16])
    assert (undefined == (case.operands()[1] == 0)).all() and undefined.any()


# --- recordings and comparison ------------------------------------------------------------------


def test_words_survive_packing() -> None:
    case = next(c for c in value_cases("comparison") if c.widths == (1, 1))
    wide = next(c for c in value_cases("data_movement") if len(c.widths) == 4)
    for each in (case, wide, _case("mul.wide.s32", "integer")):
        words = np.stack([uniform(f"words {i}", each.count, bits) for i, bits in enumerate(each.widths)])
        assert (words_of(each, pack_words(each, words)) == words).all()


def test_a_recording_survives_its_file(tmp_path, monkeypatch) -> None:
    kept = Recording(
        Machine("a GPU", "1.2", "3.4"), "2001-02-03", {"x": Row(7, b"abc"), "y": Row(8, b"")}, {"z": "why"}
    )
    kept.write(tmp_path / "values" / "some.xz")
    assert read("values", "some", tmp_path) == kept
    assert read("kernels", "some", tmp_path) is None


def test_fingerprints_change_with_what_is_run() -> None:
    case = kernel_cases("control")[0]
    others = [
        replace(case, block=(32,)),
        replace(case, source=case.text.replace(", 3,", ", 5,")),
        replace(case, arguments=(Out(np.uint32, 64, initial=1),)),
        replace(case, arguments=(Out(np.uint32, 65),)),
        replace(case, arguments=(In(np.zeros(64, np.uint32)),)),
        replace(case, arguments=(Number(1, "u64"),)),
    ]
    assert len({case.fingerprint, *(other.fingerprint for other in others)}) == 7
    value = _case("add.u32", "integer")
    assert value.fingerprint != replace(value, lines=(*value.lines, "ret;")).fingerprint
    assert value.fingerprint != replace(value, kinds=("u32", "s32")).fingerprint


@pytest.fixture
def planted(monkeypatch):
    """Recordings in which one word of ``add.u32`` and of a kernel case is another."""
    integers, control = read("values", "integer"), read("kernels", "control")
    case, cased = _case("add.u32", "integer"), kernel_cases("control")[0]
    words = words_of(case, integers.rows[case.name].data)
    words[0, 5] ^= np.uint64(4)
    output = outputs_of(cased, control.rows[cased.name].data)[0].copy()
    output[3] += 1
    changed = {
        "integer": replace(
            integers, rows={**integers.rows, case.name: Row(case.fingerprint, pack_words(case, words))}
        ),
        "control": replace(
            control, rows={**control.rows, cased.name: Row(cased.fingerprint, pack_outputs(cased, [output]))}
        ),
    }
    monkeypatch.setattr(
        compare, "read", lambda sort, chapter: changed.get(chapter) or recording.read(sort, chapter)
    )
    return case, cased


def test_one_wrong_word_is_found_and_shown(planted) -> None:
    case, cased = planted
    for single in (False, True):
        (found,) = compare_values([case, _case("sub.u32", "integer")], single)
        assert (found.case, found.count, found.total) == (case.name, 1, 512)
        assert int(found.ours, 16) ^ int(found.theirs, 16) == 4
        a, b = (int(word, 16) for word in found.where.split(", "))
        assert [a, b] == case.operands()[:, 5].tolist() and (a + b) % 2**32 == int(found.ours, 16)
    (other,) = compare_kernel("control", cased)
    assert (other.where, other.count, other.total) == ("output 0 at [3]", 1, 64)
    assert int(other.theirs, 16) - int(other.ours, 16) == 1
    lines = table([found, other]).splitlines()
    assert lines[0].split() == ["case", "wrong", "operands", "or", "place", "ours", "theirs"]
    assert lines[1].startswith(case.name) and "1/512" in lines[1] and "1/64" in lines[2]


def test_what_is_not_recorded_or_stale_is_a_difference() -> None:
    case = kernel_cases("control")[0]
    (unknown,) = compare_kernel("control", replace(case, name="nobody recorded this"))
    (stale,) = compare_kernel("control", replace(case, grid=(2,)))
    assert (unknown.ours, stale.ours) == ("not recorded", "recorded of another kernel")
    value = _case("add.u32", "integer")
    (stale,) = compare_values([replace(value, lines=(*value.lines, "mov.u32 v0, 1;"))])
    assert stale.ours == "recorded of another kernel"


def test_a_case_that_does_not_run_costs_no_other() -> None:
    good = _case("add.u32", "integer")
    bad = replace(good, lines=("trap;",))
    (found,) = compare_values([bad, good])
    assert isinstance(found, Difference) and "trap" in found.ours
    case = KernelCase("endless", kernel("AGAIN: bra AGAIN;"), (Out(np.uint32, 1),))
    with pytest.raises(NotRun):
        simulate(case)


def test_bounds_are_in_units_of_the_last_place() -> None:
    def near(a: list[float], b: list[float], kind: str, dtype: type, bound: Bound) -> list[bool]:
        raw = np.dtype(f"u{np.dtype(dtype).itemsize}")
        words = [np.array(x, dtype).view(raw).astype(np.uint64) for x in (a, b)]
        return compare._within(words[0], words[1], kind, bound).tolist()

    one = 2.0**-23
    two = Bound("test", ulps=2)
    nan, infinity = float("nan"), float("inf")
    assert near([1 + 2 * one, 1 + 3 * one, 0.0, 1e-45], [1, 1, -0.0, -1e-45], "f32", np.float32, two) == [
        1,
        0,
        1,
        1,
    ]
    assert near([nan, infinity, infinity], [1, 3.4e38, infinity], "f32", np.float32, two) == [0, 0, 1]
    loose = Bound("test", absolute=0.5)
    assert near([1.5, 1.6, infinity], [1, 1, infinity], "f64", np.float64, loose) == [1, 0, 1]
    packed = np.array([0x3C003C01, 0x3C003C03], np.uint64)
    assert compare._within(packed, np.array([0x3C003C00] * 2, np.uint64), "f16x2", two).tolist() == [
        True,
        False,
    ]
    assert not compare._within(np.array([5], np.uint64), np.array([6], np.uint64), "u32", two).any()


def test_outputs_in_any_order_are_compared_as_multisets() -> None:
    case = KernelCase("x", kernel("ret;"), (Out(np.uint32, (2, 3), order="any"),))
    data = pack_outputs(case, [np.array([[3, 1, 2], [6, 5, 4]], np.uint32)])
    assert outputs_of(case, data)[0].tolist() == [[1, 2, 3], [4, 5, 6]]
