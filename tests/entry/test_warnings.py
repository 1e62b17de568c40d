"""A plain call in the simulator: findings for review are warnings at the line that calls."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxWarning, Tile, kernel, ptx, reg, u32


@kernel(out_specs=[Tile(1, u32)])
def undefined(out: Any) -> None:
    x, y = reg.scalar(u32), reg.scalar(u32)
    ptx.inst.add.u32(y, x, 1)  # nothing wrote x
    ptx.inst.st.global_.u32(ptx.addr(out.ptr), 7)


@kernel(out_specs=[Tile(1, u32)])
def clean(out: Any) -> None:
    ptx.inst.st.global_.u32(ptx.addr(out.ptr), 7)


def test_a_finding_for_review_is_a_warning_at_the_call() -> None:
    with pytest.warns(
        PyptxWarning, match=r"undefined in the simulator: review: \[undefined-register\]"
    ) as caught:
        assert undefined() == np.array([7], np.uint32)
    (warning,) = caught
    assert warning.filename == __file__
    with open(__file__) as source:
        assert "assert undefined() ==" in source.readlines()[warning.lineno - 1]
    assert "ptx.inst.add.u32(y, x, 1)" in str(warning.message)


def test_once_for_a_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            undefined()
        undefined()
    assert [warning.category for warning in caught] == [PyptxWarning] * 2
    assert caught[0].lineno != caught[1].lineno


def test_no_finding_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clean()


def test_a_warning_may_be_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PyptxWarning)
        with pytest.raises(PyptxWarning):
            undefined()
