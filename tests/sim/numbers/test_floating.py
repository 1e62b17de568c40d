"""Floating-point arithmetic where it is delicate: exponents far out, ties, zeros, NaNs; and what an H200 gave.

:mod:`tests.sim.semantics.test_values` runs every variant of every form; here are operands that it does not reach, straight
into the arithmetic, against the fractions of :mod:`tests.sim.oracles.floating`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx.sim.numbers import double, half, single
from pyptx.sim.numbers.extremes import extreme
from pyptx.sim.numbers.rounding import ArithmeticMode
from tests.sim.build import Kernel
from tests.sim.oracles.floating import EXPECTED
from tests.sim.oracles.words import BF16, F16, F32, F64, Format, Nan

pytestmark = pytest.mark.one_in(2)

MODES = ("rn", "rz", "rm", "rp")


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """As the machine calls semantics."""
    with np.errstate(all="ignore"):
        yield


def random_bits(f: Format, generator: random.Random, around: int) -> int:
    """A number with an exponent about ``around`` (biased), and many zeros or ones in its fraction."""
    fraction = f.precision - 1
    largest = (1 << (f.bits - f.precision)) - 2
    exponent = min(max(around + generator.choice((0, 0, 1, -1, 2, -24, 25, -53, 54)), 0), largest)
    kept = generator.randrange(fraction + 1)
    low = generator.getrandbits(fraction) >> kept << kept
    if generator.random() < 0.3:
        low ^= (1 << kept) - 1
    return generator.getrandbits(1) << (f.bits - 1) | exponent << fraction | low


def operands(f: Format, count: int, seed: str, rows: int = 3000) -> list[list[int]]:
    """Columns of operands whose sums and products lie in all parts of the range: tiny, ordinary, huge."""
    generator = random.Random(seed)
    top = (1 << (f.bits - f.precision)) - 1
    centers = (0, 1, top // 4, top // 2, top // 2 + f.precision, 3 * top // 4, top - 1)
    found = []
    for _ in range(rows):
        first = generator.choice(centers)
        second = generator.choice((first, top // 2, top - first, *centers))
        # The third about the product of the two.
        around = (first, second, first + second - top // 2)
        found.append([random_bits(f, generator, around[i]) for i in range(count)])
    return [list(column) for column in zip(*found, strict=True)]


def compare(
    form: str, chosen: dict[str, str], columns: list[list[int]], results: np.ndarray[Any, Any], bits: int
) -> None:
    words = results.view(f"u{bits // 8}").tolist()
    for *raw, word in zip(*columns, words, strict=True):
        wanted = EXPECTED[form](chosen, *raw)
        same = word in wanted if isinstance(wanted, Nan) else word == wanted
        assert same, f"{form} {chosen} of {[hex(r) for r in raw]}: {word:#x}, expected {wanted}"


F64_FORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add.f64": (2, double.add),
    "sub.f64": (2, double.subtract),
    "mul.f64": (2, double.multiply),
    "div.f64": (2, double.divide),
    "fma.f64": (3, double.fma),
    "sqrt.f64": (1, double.sqrt),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize("form", F64_FORMS)
def test_f64_over_the_whole_range(form: str, rnd: str) -> None:
    count, function = F64_FORMS[form]
    columns = operands(F64, count, f"{form} {rnd}")
    arrays = [np.array(column, np.uint64).view(np.float64) for column in columns]
    compare(form, {"rnd": rnd}, columns, function(rnd, *arrays), 64)


F32_FORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add.f32": (2, single.add),
    "mul.f32": (2, single.multiply),
    "div.f32": (2, single.divide),
    "fma.f32": (3, single.fma),
    "sqrt.f32": (1, single.sqrt),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("ftz", [False, True])
@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize("form", F32_FORMS)
def test_f32_over_the_whole_range(form: str, rnd: str, ftz: bool) -> None:
    """In rows of a warp, so that the quick ways are taken as well as the others."""
    count, function = F32_FORMS[form]
    columns = operands(F32, count, f"{form} {rnd} {ftz}", 3200)
    arrays = [np.array(column, np.uint32).view(np.float32) for column in columns]
    rows = [
        function(ArithmeticMode(rnd, ftz, False), *(a[i : i + 32] for a in arrays))
        for i in range(0, 3200, 32)
    ]
    chosen = {"rnd": rnd, "ftz": "ftz"} if ftz else {"rnd": rnd}
    compare(form, chosen, columns, np.concatenate(rows), 32)


def test_f32_fused_ties_are_decided_by_what_a_double_loses() -> None:
    """The product is halfway between two f32; an addend below the last bit of a double decides."""
    product = (0x3F800800, 0x3F800800)  # (1 + 2**-12)**2
    for addend, wanted in ((0x00000001, 0x3F801001), (0x80000001, 0x3F801000), (0x00000000, 0x3F801000)):
        values = [np.array([raw] * 32, np.uint32).view(np.float32) for raw in (*product, addend)]
        result = single.fma(ArithmeticMode("rn", False, False), *values).view(np.uint32)
        assert result.tolist() == [wanted] * 32


HALF_FORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, half.add),
    "mul": (2, half.multiply),
    "fma": (3, half.fma),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind, ftz", [("f16", False), ("f16", True), ("bf16", False)])
@pytest.mark.parametrize("form", HALF_FORMS)
def test_halves_over_the_whole_range(form: str, kind: str, ftz: bool) -> None:
    count, function = HALF_FORMS[form]
    columns = operands(F16 if kind == "f16" else BF16, count, f"{form} {kind} {ftz}", 8000)
    arrays = [np.array(column, np.uint16).view(half.dtype_of(kind)) for column in columns]
    rows = [function(*(a[i : i + 32] for a in arrays), ftz) for i in range(0, 8000, 32)]
    chosen = {"type": kind, "ftz": "ftz"} if ftz else {"type": kind}
    compare(f"{form}.{'half' if kind == 'f16' else 'bfloat'}", chosen, columns, np.concatenate(rows), 16)


def test_numbers_alone_and_mixed_with_arrays() -> None:
    """Immediates are numbers without a dimension."""
    one, tiny = np.float32(1), np.float32(2.0**-140)
    row = np.array([1, 2.0**-140, -3, np.nan] * 8, np.float32)
    for ftz in (False, True):
        mode = ArithmeticMode("rn", ftz, False)
        least = np.float32(0 if ftz else 2.0**-140)
        assert single.multiply(mode, one, tiny) == least
        assert single.multiply(mode, row, one)[:3].tolist() == [1, least, -3]
        assert single.add(mode, tiny, row)[:3].tolist() == [1, least + least, -3]
        assert single.fma(mode, row, one, tiny)[:3].tolist() == [1, least + least, -3]
    assert double.fma("rn", np.float64(3), np.float64(2), np.array([1.0, 2.0])).tolist() == [7, 8]


def test_what_ftz_looks_at() -> None:
    """Numbers up to the least normal one, but no zero: rows of zeros take the short way."""
    least = np.float32(2.0**-126)
    above = np.nextafter(least, np.float32(1))
    row = np.array([0.0, -0.0, 2.0**-149, -(2.0**-149), least, -least, above, 1, np.inf, np.nan], np.float32)
    assert [single._delicate(np.array([x]), np.array([x])) // 2 for x in row] == [
        0,
        0,
        1,
        1,
        1,
        1,
        0,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("kind, loud", [("f4", 0xFFA00001), ("f8", 0xFFF4 << 48), ("f2", 0xFD01)])
def test_a_signaling_nan_loses_in_rows_of_any_length(kind: str, loud: int) -> None:
    for length in (1, 3, 16, 33):
        nan = np.full(length, loud, f"u{kind[1]}").view(kind)
        number = np.full(length, -3, kind)
        for largest in (False, True):
            assert (extreme(largest, False, nan, number) == -3).all()
            assert (extreme(largest, False, number, nan) == -3).all()
            assert np.isnan(extreme(largest, True, number, nan)).all()
            assert np.isnan(extreme(largest, False, nan, nan)).all()


# --- what an H200 gave ------------------------------------------------------------------------


def words(instruction: str, destination: str, *sources: tuple[str, int]) -> int:
    """One instruction on registers with these raw bits, in a kernel."""
    lines = [f".reg {kind} r{i}" for i, (kind, _) in enumerate(sources)]
    lines += [f".reg {destination} d"]
    at = 0
    data = b""
    for i, (kind, raw) in enumerate(sources):
        size = int(kind[1:]) // 8
        lines.append(f"ld.global.{kind} r{i}, [input+{at}]")
        data += struct.pack("<Q", raw)
        at += 8
        assert raw >> (8 * size) == 0
    lines.append(f"{instruction} d, {', '.join(f'r{i}' for i in range(len(sources)))}")
    lines += [f"st.global.{destination} [output], d", "ret"]
    output = np.zeros(1, np.uint64)
    kernel = Kernel("\n".join(lines), "input:u64 output:u64", target="sm_90a")
    kernel.clean(np.frombuffer(data, np.uint64).copy(), output, block=1)
    return int(output[0])


QUIET, LOUD, OTHER = 0x7FF8000000000005, 0xFFF0000000000001, 0x7FF800000000000A
ONE64 = 0x3FF0000000000000


@pytest.mark.parametrize(
    "instruction, operands, wanted",
    [
        # The NaN of an operand stays, with its sign, and becomes quiet. Which: b before c before a, but in
        # division, which is a subroutine, a.
        ("add.f64", (QUIET, LOUD), 0xFFF8000000000001),
        ("add.f64", (QUIET, ONE64), QUIET),
        ("sub.f64", (ONE64, LOUD), 0xFFF8000000000001),
        ("mul.f64", (OTHER, QUIET), QUIET),
        ("fma.rn.f64", (QUIET, OTHER, LOUD), OTHER),
        ("fma.rn.f64", (QUIET, ONE64, LOUD), 0xFFF8000000000001),
        ("fma.rn.f64", (QUIET, ONE64, ONE64), QUIET),
        ("div.rn.f64", (OTHER, QUIET), OTHER),
        ("min.f64", (OTHER, LOUD), 0xFFF8000000000001),
        ("max.f64", (OTHER, ONE64), ONE64),
        ("neg.f64", (LOUD,), 0xFFF8000000000001),
        ("abs.f64", (LOUD,), 0xFFF8000000000001),
        ("sqrt.rn.f64", (0xBFF0000000000000,), 0xFFF8000000000000),
        ("sub.f64", (0x7FF0000000000000, 0x7FF0000000000000), 0xFFF8000000000000),
        # Functions of the upper half have a NaN of their own; a payload in the lower half is not seen.
        ("rcp.approx.ftz.f64", (0xFFF8000000000000,), 0x7FFFFFFF00000000),
        ("rcp.approx.ftz.f64", (0x7FF0000000000001,), 0),
        ("rsqrt.approx.ftz.f64", (0xBFF0000000000000,), 0x7FFFFFFF00000000),
    ],
)
def test_nan_of_f64(instruction: str, operands: tuple[int, ...], wanted: int) -> None:
    assert words(instruction, "b64", *(("b64", raw) for raw in operands)) == wanted


@pytest.mark.parametrize(
    "instruction, operands, wanted",
    [
        ("add.f32", (0xFFC12345, 0), 0x7FFFFFFF),
        ("neg.f32", (0x7FC00000,), 0x7FFFFFFF),
        ("abs.f32", (0xFFC00000,), 0x7FFFFFFF),
        ("add.sat.f32", (0x7FC00000, 0), 0),
        ("mul.sat.f32", (0x80000000, 0x3F800000), 0),
        ("min.f32", (0x80000000, 0), 0x80000000),
        ("max.f32", (0x80000000, 0), 0),
        ("max.f32", (0x7FC00000, 0xBF800000), 0xBF800000),
        # A NaN has no sign to give, a number takes that of a NaN as well.
        ("min.xorsign.abs.f32", (0x7FFFFFFF, 0xFFC00005), 0x7FFFFFFF),
        ("min.NaN.xorsign.abs.f32", (0xCE5382B5, 0x7FA2BF05), 0x7FFFFFFF),
        ("copysign.f32", (0x80000000, 0x7FC12345), 0xFFC12345),
        # A product rounded up to the least normal number was subnormal, if 24 bits can tell.
        ("mul.ftz.f32", (0x00800000, 0x3F7FFFFF), 0),
        ("mul.f32", (0x00800000, 0x3F7FFFFF), 0x00800000),
        ("mul.ftz.f32", (0x00800001, 0x3F7FFFFE), 0x00800000),
    ],
)
def test_words_of_f32(instruction: str, operands: tuple[int, ...], wanted: int) -> None:
    assert words(instruction, "b32", *(("b32", raw) for raw in operands)) == wanted


@pytest.mark.parametrize(
    "instruction, operands, wanted",
    [
        ("neg.f16", (0x7C01,), 0x7FFF),
        ("abs.bf16", (0xFF81,), 0x7FFF),
        ("fma.rn.relu.f16", (0x8000, 0x3C00, 0x8000), 0),
        ("fma.rn.relu.f16", (0xFE00, 0x3C00, 0x3C00), 0x7FFF),
        ("fma.rn.sat.f16", (0xFE00, 0x3C00, 0x3C00), 0),
        # One NaN, of either sign, stands for an element out of bounds, if it is a factor.
        ("fma.rn.oob.f16", (0x7FF7, 0x3C00, 0x3C00), 0),
        ("fma.rn.oob.bf16", (0x3F80, 0xFFF7, 0x3F80), 0),
        ("fma.rn.oob.f16", (0x3C00, 0x3C00, 0x7FF7), 0x7FFF),
        ("fma.rn.oob.f16", (0x7FFF, 0x3C00, 0x3C00), 0x7FFF),
        ("min.NaN.xorsign.abs.bf16", (0x7FC0, 0xC040), 0x7FFF),
        # These are cut off, not rounded.
        ("ex2.approx.f16", (0xBED0,), 0x34E9),
        ("tanh.approx.bf16", (0x3F80,), 0x3F42),
        ("ex2.approx.ftz.bf16", (0xC300,), 0),
    ],
)
def test_words_of_halves(instruction: str, operands: tuple[int, ...], wanted: int) -> None:
    assert words(instruction, "b16", *(("b16", raw) for raw in operands)) == wanted


INFINITY, MINUS, NAN32 = 0x7F800000, 0xFF800000, 0x7FFFFFFF


@pytest.mark.parametrize(
    "function, results",
    [
        # Of minus infinity, -1, -0, 0, infinity, a NaN; None where a value is only near.
        ("rcp.approx.f32", (0x80000000, 0xBF800000, MINUS, INFINITY, 0, NAN32)),
        ("sqrt.approx.f32", (NAN32, NAN32, 0x80000000, 0, INFINITY, NAN32)),
        ("rsqrt.approx.f32", (NAN32, NAN32, MINUS, INFINITY, 0, NAN32)),
        ("sin.approx.f32", (NAN32, None, 0x80000000, 0, NAN32, NAN32)),
        ("cos.approx.f32", (NAN32, None, 0x3F800000, 0x3F800000, NAN32, NAN32)),
        ("lg2.approx.f32", (NAN32, NAN32, MINUS, MINUS, INFINITY, NAN32)),
        ("ex2.approx.f32", (0, 0x3F000000, 0x3F800000, 0x3F800000, INFINITY, NAN32)),
        ("tanh.approx.f32", (0xBF800000, None, 0x80000000, 0, 0x3F800000, NAN32)),
    ],
)
def test_special_values_of_approximations(function: str, results: tuple[int | None, ...]) -> None:
    arguments = (MINUS, 0xBF800000, 0x80000000, 0, INFINITY, 0xFFC00001)
    for argument, wanted in zip(arguments, results, strict=True):
        found = words(function, "b32", ("b32", argument))
        assert wanted is None or found == wanted, (hex(argument), hex(found))


def test_fast_division_by_huge_numbers() -> None:
    """Beyond 2**126 ``.approx`` gives zero, or NaN for infinity; ``.full`` divides."""
    huge = 0x7F000000  # 2**127
    assert words("div.approx.f32", "b32", ("b32", 0x7F000000), ("b32", huge)) == 0
    assert words("div.approx.f32", "b32", ("b32", INFINITY), ("b32", huge)) == NAN32
    assert words("div.full.f32", "b32", ("b32", 0x7F000000), ("b32", huge)) == 0x3F800000


def test_what_testp_calls_normal() -> None:
    """Zeros are normal, not subnormal (#floating-point-instructions-testp)."""
    for value, normal, subnormal in ((0x80000000, 1, 0), (1, 0, 1), (0x00800000, 1, 0), (INFINITY, 0, 0)):
        text = """
            .reg b32 x n s
            .reg pred p q
            ld.global.b32 x, [input]
            testp.normal.f32 p, x
            testp.subnormal.f32 q, x
            selp.b32 n, 1, 0, p
            selp.b32 s, 1, 0, q
            st.global.b32 [output], n
            st.global.b32 [output+4], s
            ret
        """
        output = np.zeros(2, np.uint32)
        kernel = Kernel(text, "input:u64 output:u64", target="sm_90a")
        kernel.clean(np.array([value], np.uint32), output, block=1)
        assert output.tolist() == [normal, subnormal]
