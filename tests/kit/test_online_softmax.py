"""The softmax by blocks: against float64 in every mode, its polynomials, special values, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, f32, kernel, kit, ptx, reg, smem
from tests.dsl.helpers import body_of, in_kernel

ROWS, BLOCK, DIM = 64, 32, 8
SCALE = 0.7


def over_blocks(
    blocks: int,
    *,
    masked: bool = False,
    pin: bool = False,
    reset: bool = False,
    register: bool = False,
    **options: Any,
) -> Kernel:
    """Softmax of X[64, 32 * blocks]; O[i, j] counts block b as ``2 ** b``; O is divided by the sums."""

    @kernel(
        in_specs=(Tile(ROWS, BLOCK * blocks, f32),),
        out_specs=(Tile(ROWS, BLOCK * blocks, f32), Tile(ROWS, DIM, f32), Tile(ROWS, f32)),
        block=128,
        arch="sm_90a",
    )
    def softmax(X, P, O, LSE):  # type: ignore[no-untyped-def]  # noqa: E741
        s, o = ptx.wgmma.accumulator(n=BLOCK), ptx.wgmma.accumulator(n=DIM)
        scratch = smem.alloc(1, f32)
        scale = reg.scalar(f32, init=SCALE) if register else SCALE
        state = kit.OnlineSoftmax(s, scale=scale, **options)
        origin = s.origin()
        if reset:
            state.reset()
        for number in range(blocks):
            places = [
                (origin.row + s.row(i), origin.column + (s.column(i) + BLOCK * number))
                for i in range(s.elements)
            ]
            for value, place in zip(s, places, strict=True):
                ptx.inst.ld.global_.f32(value, X.at(*place))
            state.block(first=number == 0 and not reset, masked=masked)
            if pin:
                state.pin(scratch.addr)
            if number:
                state.rescale(o)
            for value in o:
                if number:
                    ptx.inst.add.rn.f32(value, value, 2.0**number)
                else:
                    ptx.inst.mov.f32(value, 1.0)
            for value, place in zip(s, places, strict=True):
                ptx.inst.st.global_.f32(P.at(*place), value)
        lse = state.finish(o)
        for i, value in enumerate(o):
            ptx.inst.st.global_.f32(O.at(origin.row + o.row(i), origin.column + o.column(i)), value)
        for number, value in enumerate(lse):
            ptx.inst.st.global_.f32(LSE.at(origin.row + 8 * number), value)

    return softmax


def scores(blocks: int) -> np.ndarray:
    """Rows whose maximum is in the first block, in the last, or moves by a little in each."""
    x = np.random.default_rng(blocks).standard_normal((ROWS, BLOCK * blocks)).astype(np.float32) * 4
    x[1::3] += np.repeat(np.arange(blocks), BLOCK) * 9
    x[2::3] -= np.repeat(np.arange(blocks), BLOCK) * 9
    return x


def log_sum(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64) * SCALE
    top = wide.max(1)
    return np.asarray(top + np.log(np.exp(wide - top[:, None]).sum(1)))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"masked": True},
    {"masked": True, "reset": True},
    {"offset": 8.0},
    {"offset": 4.0, "lazy": 4.0, "register": True},
    {"masked": True, "reset": True, "register": True},
    {"lazy": 8.0},
    {"lazy": 8.0, "masked": True, "pin": True},
    {"polynomials": 16, "degree": 5, "ways": 1},
    {"polynomials": 6, "degree": 4, "lazy": 0.0},
    {"polynomials": 1},
]


@pytest.mark.sample(11)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("blocks", [3])
def test_sums_and_exponentials(blocks: int, options: dict[str, Any]) -> None:
    x = scores(blocks)
    report = over_blocks(blocks, **options).simulate(x, sanitize="strict")
    assert report.verdict == "clean", str(report)
    p, o, lse = (value.astype(np.float64) for value in report.outputs)
    # A polynomial of degree n has a relative error of 2**-13 (3), 2**-17.6 (4), 2**-22 (5).
    # The product of scale and score is rounded, an absolute error of the exponent.
    relative = 2.0**-21 + 2.0**-23 * float(abs(x).max()) * SCALE * math.log2(math.e)
    if options.get("polynomials"):
        relative += {3: 2.0**-12.9, 4: 2.0**-17.5, 5: 2.0**-21}[options.get("degree", 3)]
    wide = x.astype(np.float64)
    exact = log_sum(x)
    assert np.all(abs(lse - exact) <= relative + 2.0**-22 * abs(exact))
    # Exponentials of a block are relative to a maximum that lazy leaves up to 2**lazy below the true one.
    running = np.maximum.accumulate(wide.reshape(ROWS, blocks, BLOCK).max(2), axis=1).repeat(BLOCK, 1)
    lowest = np.exp(SCALE * (wide - running)) * 2.0 ** options.get("offset", 0.0)
    assert np.all(p >= lowest * (1 - relative) - 2.0**-124)
    assert np.all(p <= lowest * 2.0 ** options.get("lazy", 0.0) * (1 + relative) + 2.0**-124)
    if options.get("lazy"):
        assert p.max() > 1.5
    # What every block added to O has been scaled by the moves of the maximum since.
    reached = p.reshape(ROWS, blocks, BLOCK).sum(2)
    weight = np.exp(SCALE * wide).reshape(ROWS, blocks, BLOCK).sum(2) / reached
    expected = (weight * 2.0 ** np.arange(blocks)).sum(1) / np.exp(exact)
    assert np.allclose(o, expected[:, None], rtol=4 * relative, atol=2.0**-120)


@pytest.mark.parametrize("options", [{}, {"lazy": 8.0}, {"polynomials": 8}, {"polynomials": 16}], ids=str)
def test_special_values(options: dict[str, Any]) -> None:
    x = scores(2)
    x[0, 5] = np.nan
    x[1, BLOCK + 9] = np.inf
    x[2, 3] = -np.inf
    x[3] = -np.inf
    _, o, lse = over_blocks(2, **options).simulate(x).outputs
    assert np.isnan(lse[[0, 1, 3]]).all() and np.isnan(o[[0, 1, 3]]).all()
    rest = np.delete(np.arange(ROWS), [0, 1, 3])
    assert np.all(abs(lse[rest] - log_sum(x[rest])) <= 2.0**-12)


@pytest.mark.parametrize("lazy", [None, 8.0])
def test_masked_elements(lazy: float | None) -> None:
    x = scores(3)
    x[0] = -np.inf
    x[1, : 2 * BLOCK] = -np.inf
    x[2, BLOCK:] = -np.inf
    p, o, lse = over_blocks(3, masked=True, lazy=lazy).simulate(x).outputs
    assert lse[0] == -np.inf and not o[0].any() and not p[0].any()
    assert not p[1, : 2 * BLOCK].any() and not p[2, BLOCK:].any()
    assert np.all(abs(lse[1:] - log_sum(x[1:])) <= 2.0**-18)


@pytest.mark.parametrize("degree", [3, 4, 5])
def test_polynomials_have_the_stated_error(degree: int) -> None:
    x = np.linspace(-0.5, 0.5, 100_001)
    found = np.polynomial.polynomial.polyval(x, kit.exp2_coefficients(degree))
    worst = np.max(abs(found / 2.0**x - 1))
    assert {3: 2.0**-13.0, 4: 2.0**-17.6, 5: 2.0**-22.0}[degree] >= worst > 2.0**-23


@pytest.mark.parametrize("degree", [3, 5])
def test_polynomials_over_the_range(degree: int) -> None:
    count = 4096

    @kernel(in_specs=(Tile(count, f32),), out_specs=(Tile(count, f32),), grid=count // 128, block=128)
    def power(X, Y):  # type: ignore[no-untyped-def]
        i = ptx.special.ctaid.x() * 128 + ptx.special.tid.x()
        value = reg.scalar(f32)
        ptx.inst.ld.global_.f32(value, X.at(i))
        kit.exp2_polynomial(value, degree)
        ptx.inst.st.global_.f32(Y.at(i), value)

    x = np.random.default_rng(degree).uniform(-140, 126, count).astype(np.float32)
    x[:6] = [0, -0.5, 0.5, -125, -np.inf, 126.5]
    (y,) = power.simulate(x).outputs
    exact = 2.0 ** np.maximum(x.astype(np.float64), -125)
    assert np.all(abs(y / exact - 1) <= {3: 2.0**-12.9, 5: 2.0**-21}[degree])
    assert y[0] == 1 or abs(y[0] - 1) < 2.0**-12


def test_what_it_records() -> None:
    """One FFMA, one ex2, one maximum and one addition for each element, and no more than the state beside."""

    def body() -> None:
        s = ptx.wgmma.accumulator(n=64)
        for value in s:
            ptx.inst.mov.f32(value, 1.0)
        state = kit.OnlineSoftmax(s, scale=1.0)
        state.block(first=True)
        marks.append(None)
        state.block()

    marks: list[None] = []
    lines = body_of(body, arch="sm_90a")
    opcodes = [line.split()[0] for line in lines]
    elements = 32
    assert opcodes.count("ex2.approx.ftz.f32") == 2 * elements + 2
    assert opcodes.count("fma.rn.f32") == 2 * elements + 2
    # The first block combines 15 pairs in each row; the second has the maximum before as well.
    assert opcodes.count("max.f32") == 2 * (15 + 16) + 2 * 4
    assert opcodes.count("add.rn.f32") == 2 * 2 * 15


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": 1.0, "lazy": 17.0}, "lazy is 17.0"),
        ({"scale": 1.0, "polynomials": 17}, "polynomials is 17"),
        ({"scale": 1.0, "degree": 2}, "degree is 2"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    def body() -> None:
        with pytest.raises(SpecError, match=words):
            kit.OnlineSoftmax(ptx.wgmma.accumulator(n=64), **options)

    in_kernel(body, arch="sm_90a")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kit.OnlineSoftmax(ptx.wgmma.accumulator(n=64)[:8], scale=1.0), "whole f32 accumulator"),
        (lambda: kit.exp2_polynomial(reg.scalar(f32), 6), "degree is 6"),
        (lambda: kit.exp2_polynomial(ptx.special.tid.x()), "f32 register"),
    ],
)
def test_other_operands_are_refused(call: Callable[[], object], words: str) -> None:
    def body() -> None:
        with pytest.raises(SpecError, match=words):
            call()

    in_kernel(body, arch="sm_90a")
