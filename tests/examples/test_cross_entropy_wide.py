"""Cross-entropy of rows that are wider than shared memory: every place of a part, type and gradient; special rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, ScalarType, bf16, f16, f32, s32, s64
from pyptx.toolchain import Tool

from .entropy_checks import check_rows_that_do_not_count
from .loading import load_example

entropy = load_example("hopper/cross_entropy.py")
wide = load_example("hopper/cross_entropy_wide.py")
#: Two CTAs with five rows, whose ring has fewer stages than a row has parts.
SMALL = {"threads": 64, "stages": 4, "ctas": 2}


def run(x: Any, target: Any, factor: Any, how: str | None = "output", **options: Any) -> tuple[Any, ...]:
    """Return gradient (None without), loss and lse; rows that are not overwritten stay as they are."""
    kernel = wide.build_wide(x.shape[1], dtype=entropy.type_of(x), gradient=how, **{**SMALL, **options})
    given = (target,) if how is None else (target, factor)
    after, *outputs = entropy.simulated(kernel, x, *given)
    assert how == "in place" or np.array_equal(after, x, equal_nan=True)
    gradient = {"in place": after, "output": outputs[0], None: None}[how]
    return gradient, *outputs[-2:]


@pytest.mark.one_in(9)
@pytest.mark.sample(1)
@pytest.mark.parametrize("how", entropy.GRADIENTS)
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("more", [{}, {"held": 5, "pieces": 1}, {"pieces": 1, "stages": 12}])
def test_rows(dtype: ScalarType, how: str | None, more: dict[str, int]) -> None:
    """The last part is ragged."""
    x, target, factor = entropy.make_inputs(5, 8400 // dtype.nbytes, dtype=dtype)
    assert entropy.worst_error(x, target, factor, *run(x, target, factor, how, **more)) <= 1


def test_every_target_of_a_part() -> None:
    V = 1032
    target = np.arange(0, V, 43)
    x, _, factor = entropy.make_inputs(len(target), V)
    options = {"threads": 32, "pieces": 1, "stages": 3, "held": 2}
    assert entropy.worst_error(x, target, factor, *run(x, target, factor, **options)) <= 1


@pytest.mark.parametrize("target_dtype", [s32, s64])
def test_rows_that_do_not_count(target_dtype: ScalarType) -> None:
    check_rows_that_do_not_count(4096, bf16, target_dtype, partial(run, target_dtype=target_dtype))


def test_special_numbers() -> None:
    x, target, factor = entropy.make_inputs(5, 2048, dtype=f32)
    x[0, 3], x[1, 5], x[2], x[3, 1:], x[4, 7] = np.nan, np.inf, -np.inf, -np.inf, 3e38
    target[:] = 0, 0, 0, 0, 7
    gradient, loss, _ = run(x, target, factor)
    with np.errstate(invalid="ignore"):
        exact = entropy.reference(x, target, factor)
    assert np.isnan(gradient[:3]).all() and np.isnan(loss[:3]).all()
    assert np.allclose(gradient[3:], exact[0][3:], rtol=1e-6)
    assert np.allclose(loss[3:], exact[1][3:], atol=1e-6)


def test_which_rows_are_wide() -> None:
    chosen = {V: wide.fits(V, bf16) for V in (32768, 50257, 65536, 128256, 151936, 202048)}
    assert [V for V, fits in chosen.items() if fits] == [128256]
    assert not wide.fits(128256, f32)


@pytest.mark.parametrize("options", [{"held": 0, "stages": 3}, {"held": 9}])
def test_what_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(PyptxError, match="in registers"):
        wide.build_wide(65536, **{"threads": 1024, **options})
    with pytest.raises(PyptxError, match="multiple of 16 bytes"):
        wide.build_wide(65537)


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("how", entropy.GRADIENTS)
@pytest.mark.parametrize("dtype", [bf16, f16, f32])
def test_assembles_without_spills(how: str | None, dtype: ScalarType, ptxas: Tool) -> None:
    for nbytes in (1 << 17, 256512, 278528):
        assembly = wide.build_wide(nbytes // dtype.nbytes, dtype=dtype, gradient=how).assemble(M=100)
        assert not assembly.spills and not assembly.warnings and not assembly.notes
