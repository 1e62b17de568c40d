"""The notation's expressions."""

from __future__ import annotations

import pytest

from pyptx.isa.notation import evaluate


@pytest.mark.parametrize(
    ("expression", "length"), [("4", 4), (".num*2", 32), (".dim-2", 3), (".shape.n/2", 4), (".absent", None)]
)
def test_lengths(expression: str, length: int | None) -> None:
    assert evaluate(expression, {"num": "x16", "dim": "5d", "shape": "m16n8k16"}) == length
