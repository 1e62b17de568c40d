"""Elements of rows: every count and type is loaded, converted and stored, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyptx import Kernel, ScalarType, SpecError, Tile, bf16, e4m3, e5m2, f16, f32, kernel, kit, ptx, reg, u8
from pyptx.core.types import b32
from pyptx.kit.row_values import check_elements, set_words
from tests.dsl.helpers import in_kernel

LANES = 32


def copies(count: int, dtype: ScalarType, out: ScalarType, *, fill: float | None = None) -> Kernel:
    """Each lane takes ``count`` elements of X to Y; with ``fill``, lanes from 16 on have none."""

    @kernel(
        in_specs=(Tile(LANES * count, dtype),),
        out_specs=(Tile(LANES * count, out),),
        block=LANES,
        arch="sm_90a",
    )
    def copy(X, Y):  # type: ignore[no-untyped-def]
        lane = ptx.special.laneid()
        inside = None if fill is None else lane < LANES // 2
        words = kit.load_words(X.at(lane * count), count, dtype, inside=inside, fill=fill or 0.0)
        values = kit.from_f32(kit.to_f32(words, dtype), out)
        kit.store_words(Y.at(lane * count), values, nbytes=count * out.nbytes)

    return copy


def rounded(x: np.ndarray, out: ScalarType) -> np.ndarray:
    """Numbers in a type: the 8-bit ones have no infinity here, larger numbers become the largest."""
    wide = x.astype(np.float32)
    if out.nbytes == 1:
        most = {e4m3: 448.0, e5m2: 57344.0}[out]
        wide = np.clip(wide, -most, most)
    return wide.astype(out.dtype)


@pytest.mark.sample(6)
@pytest.mark.parametrize("out", [f32, f16, bf16, e4m3, e5m2])
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_every_count_and_type(count: int, dtype: ScalarType, out: ScalarType) -> None:
    x = (np.random.default_rng(count).standard_normal(LANES * count) * 100).astype(dtype.dtype)
    x[:2] = 0, -1000
    report = copies(count, dtype, out).simulate(x)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    expected = rounded(x, out)
    assert np.array_equal(report.outputs[0].view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("fill", [0.0, float("-inf")])
@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_elements_outside_are_filled(dtype: ScalarType, fill: float) -> None:
    for count in (1, 2, 8):
        x = np.ones(LANES * count, dtype.dtype)
        (y,) = copies(count, dtype, dtype, fill=fill).simulate(x).outputs
        assert (y[: len(y) // 2] == 1).all() and (y[len(y) // 2 :].astype(np.float32) == fill).all()


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_every_number_of_16_bits_is_converted_exactly(dtype: ScalarType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.dtype)
    kernel = copies(8, dtype, f32)
    for first in range(0, len(x), LANES * 8 * 16):
        part = x[first : first + LANES * 8]
        (y,) = kernel.simulate(part).outputs
        assert np.array_equal(y, part.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (lambda: check_elements(u8), "expected f32, f16, bf16"),
        (lambda: kit.to_f32(reg.array(b32, 1), e4m3), "expected f32, f16, bf16"),
        (lambda: kit.from_f32(reg.array(f32, 2), u8), "expected f32, f16, bf16, e4m3, e5m2"),
        (lambda: set_words(reg.array(b32, 1), f32, 1.0), "minus infinity"),
        (lambda: kit.load_words(ptx.addr(reg.scalar(f32)), 1, e4m3), "in pairs"),
    ],
)
def test_what_is_refused(check: Callable[[], object], word: str) -> None:
    def body() -> None:
        with pytest.raises(SpecError) as caught:
            check()
        assert word in str(caught.value)

    in_kernel(body, arch="sm_90a")
