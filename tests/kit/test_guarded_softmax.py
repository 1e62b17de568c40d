"""The softmax whose maximum stays while sums are small: against float64, masks, special values, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, bf16, f32, kernel, kit, ptx, reg
from tests.dsl.helpers import body_of, in_kernel

ROWS, KEYS, DIM = 64, 32, 8
SCALE = 0.7


def over_parts(
    parts: int, *, masked: tuple[bool, ...] = (), register: bool = False, **options: Any
) -> Kernel:
    """P of X[64, 32 * parts]; O[i, j] adds ``2 ** n`` for part n, scaled with it, and is divided by the sums.

    ``masked`` says of each part, from the first one on, whether elements may be masked; ``register`` that the
    scale is in one, and O is to be multiplied by 3.
    """
    masked += (False,) * (parts - len(masked))

    @kernel(
        in_specs=(Tile(ROWS, KEYS * parts, f32),),
        out_specs=(Tile(ROWS, KEYS * parts, bf16), Tile(ROWS, DIM, f32), Tile(ROWS, f32)),
        block=128,
        arch="sm_90a",
    )
    def softmax(X, P, O, LSE):  # type: ignore[no-untyped-def]  # noqa: E741
        s, o = ptx.wgmma.accumulator(n=KEYS), ptx.wgmma.accumulator(n=DIM)
        p = [ptx.wgmma.fragment(bf16) for _ in range(KEYS // 16)]
        factor = reg.scalar(f32, init=3.0) if register else None
        state = kit.GuardedSoftmax(scale=reg.scalar(f32, init=SCALE) if register else SCALE, **options)
        origin = s.origin()
        state.reset()
        for value in o:
            ptx.inst.mov.f32(value, 0.0)
        for number in range(parts):
            places = [
                (origin.row + s.row(i), origin.column + (s.column(i) + KEYS * number))
                for i in range(s.elements)
            ]
            for value, place in zip(s, places, strict=True):
                ptx.inst.ld.global_.f32(value, X.at(*place))
            known = ptx.special.tid.x() < (1 << 10 if number or masked[0] else 0)
            state.part(s, p, o, masked=masked[number], known=known, settle=lambda: None)
            for value in o:
                ptx.inst.add.rn.f32(value, value, 2.0**number)
            for word, place in zip((word for part in p for word in part), places[::2], strict=True):
                ptx.inst.st.global_.b32(P.at(*place), word)
        lse = state.finish(o, factor=factor)
        for i, value in enumerate(o):
            ptx.inst.st.global_.f32(O.at(origin.row + o.row(i), origin.column + o.column(i)), value)
        for number, value in enumerate(lse):
            ptx.inst.st.global_.f32(LSE.at(origin.row + 8 * number), value)

    return softmax


def scores(parts: int) -> np.ndarray:
    """Rows whose maximum is in the first part, in the last, or moves by a little in each."""
    x = np.random.default_rng(parts).standard_normal((ROWS, KEYS * parts)).astype(np.float32) * 4
    x[1::3] += np.repeat(np.arange(parts), KEYS) * 9
    x[2::3] -= np.repeat(np.arange(parts), KEYS) * 9
    x[4] += np.repeat(np.arange(parts), KEYS) * 300  # 2 ** x is infinite beside the maximum before
    return x


def log_sum(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64) * SCALE
    top = wide.max(1)
    return np.asarray(top + np.log(np.exp(wide - top[:, None]).sum(1)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit": 0.0},
        {"limit": 15.0, "ways": 1},
        {"masked": (True,)},
        {"masked": (False, True, True)},
        {"limit": 3.5, "offset": 4.0, "register": True},
    ],
    ids=str,
)
def test_sums_and_exponentials(options: dict[str, Any]) -> None:
    parts = 4
    x = scores(parts)
    report = over_parts(parts, **options).simulate(x, sanitize="strict")
    assert report.verdict == "clean", str(report)
    p, o, lse = (value.astype(np.float64) for value in report.outputs)
    relative = 2.0**-20 + 2.0**-22 * float(abs(x).max()) * SCALE * math.log2(math.e)
    exact = log_sum(x)
    assert np.all(abs(lse - exact) <= relative + 2.0**-22 * abs(exact))
    # No exponential is above the limit, nor, where a maximum has moved, above 1, both times 2 ** offset.
    offset, register = options.get("offset", 0.0), options.get("register", False)
    assert p.max() <= 2.0 ** (options.get("limit", 8.0) + offset)
    assert (p.reshape(ROWS, parts, KEYS)[4].max(1) == 2.0**offset).all()
    # What every part added to O has been scaled by the moves of the maximum since.
    wide = x.astype(np.float64)
    reached = p.reshape(ROWS, parts, KEYS).sum(2)
    weight = np.exp(SCALE * (wide - wide.max(1)[:, None])).reshape(ROWS, parts, KEYS).sum(2)
    present = weight > 1e-20
    factor = np.divide(weight, reached, where=present, out=np.zeros_like(weight))
    expected = (factor * 2.0 ** np.arange(parts)).sum(1) / np.exp(exact - SCALE * wide.max(1))
    assert np.allclose(
        o, (3 if register else 1) * expected[:, None], rtol=2.0**-8 + 4 * relative, atol=2.0**-60
    )


def test_it_takes_the_maximum_only_where_it_must_move() -> None:
    """Scores that all parts have alike: one maximum for each row, the first part's."""
    x = np.tile(np.random.default_rng(0).standard_normal((ROWS, KEYS)).astype(np.float32), 3)
    p, _, _ = over_parts(3).simulate(x).outputs
    assert (p[:, :KEYS] == p[:, KEYS : 2 * KEYS]).all() and p.max() == 1
    x[:, -1] = x[:, :KEYS].max(1) + 5  # less than 2 ** 8 above
    p, _, lse = over_parts(3).simulate(x).outputs
    assert (p[:, -1].astype(float) > 16).all()
    assert np.all(abs(lse - log_sum(x)) <= 2.0**-18)


def test_a_row_does_not_depend_on_its_neighbors() -> None:
    x = np.random.default_rng(0).standard_normal((ROWS, 3 * KEYS)).astype(np.float32)
    kernel = over_parts(3)
    plain = kernel.simulate(x).outputs
    x[5, KEYS:] += 100
    for before, after in zip(plain, kernel.simulate(x).outputs, strict=True):
        equal = (before == after).reshape(ROWS, -1).all(1)
        assert equal[:5].all() and not equal[5] and equal[6:].all()


@pytest.mark.parametrize("masked", [(), (True, True)])
def test_special_values(masked: tuple[bool, ...]) -> None:
    x = scores(2)
    x[0, 5] = np.nan
    x[1, KEYS + 9] = np.inf
    x[2, 3] = -np.inf
    x[3] = np.nan if masked else -np.inf
    _, o, lse = over_parts(2, masked=masked).simulate(x).outputs
    assert np.isnan(lse[[0, 1, 3]]).all() and np.isnan(o[[0, 1, 3]]).all()
    rest = np.delete(np.arange(ROWS), [0, 1, 3])
    assert np.all(abs(lse[rest] - log_sum(x[rest])) <= 2.0**-12)


@pytest.mark.full
def test_masked_elements() -> None:
    x = scores(3)
    x[0] = -np.inf
    x[1, : 2 * KEYS] = -np.inf
    x[2, KEYS:] = -np.inf
    p, o, lse = over_parts(3, masked=(True, True, True)).simulate(x).outputs
    assert lse[0] == -np.inf and not o[0].any() and not p[0].any()
    assert not p[1, : 2 * KEYS].any() and not p[2, KEYS:].any()
    assert np.all(abs(lse[1:] - log_sum(x[1:])) <= 2.0**-12)
    # A row that has seen only masked keys has no maximum when a part without masks comes.
    x[0, -1] = 3
    x[0, 2 * KEYS : -1] = -200
    _, _, lse = over_parts(3, masked=(True, True)).simulate(x).outputs
    assert abs(lse[0] - 3 * SCALE) <= 2.0**-18


def test_what_it_records() -> None:
    """One FFMA, one ex2 and one addition for each element where no maximum moves, and no maximum there."""

    def body() -> None:
        s, o = ptx.wgmma.accumulator(n=64), ptx.wgmma.accumulator(n=DIM)
        p = [ptx.wgmma.fragment(bf16) for _ in range(4)]
        for value in (*s, *o):
            ptx.inst.mov.f32(value, 1.0)
        state = kit.GuardedSoftmax(scale=1.0, ways=1)
        state.reset()
        state.part(s, p, o, known=ptx.special.tid.x() < 5, settle=lambda: None)

    opcodes = [line.split()[0] for line in body_of(body, arch="sm_90a")]
    vote = next(i for i, opcode in enumerate(opcodes) if opcode.startswith("vote"))
    fast = opcodes[:vote]
    assert fast.count("ex2.approx.ftz.f32") == fast.count("fma.rn.f32") == 32
    assert fast.count("add.rn.f32") == 30 and "max.f32" not in fast


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": 1, "limit": 16}, "limit is 16"),
        ({"scale": 1, "limit": -1}, "limit is -1"),
        ({"scale": 1, "limit": 12, "offset": 4}, "offset 4"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    def body() -> None:
        with pytest.raises(SpecError, match=words):
            kit.GuardedSoftmax(**options)

    in_kernel(body, arch="sm_90a")


def test_other_accumulators_are_refused() -> None:
    def body() -> None:
        s, o = ptx.wgmma.accumulator(n=32), ptx.wgmma.accumulator(n=DIM)
        state = kit.GuardedSoftmax(scale=1.0)
        with pytest.raises(SpecError, match="whole f32 accumulator"):
            state.part(s[:8], [], o, known=reg.scalar(f32) < 1, settle=lambda: None)

    in_kernel(body, arch="sm_90a")
