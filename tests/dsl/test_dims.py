"""Shapes of parameters, and which dims a recording has read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import f32, u64
from pyptx.dsl import Tile, TileParam, ptx, reg
from pyptx.dsl.dims import Dims, Shape
from pyptx.dsl.recording import record

DIMS = {"M": 6, "N": 4}


@pytest.mark.parametrize(
    ("use", "read"),
    [
        (len, ""),
        (lambda s: s[0], "M"),
        (lambda s: s[-1], "N"),
        (lambda s: s[1], ""),
        (lambda s: s[1:], "N"),
        (lambda s: s[:1], "M"),
        (lambda s: s[1:2], ""),
        (tuple, "MN"),
        (list, "MN"),
        (lambda s: [*s], "MN"),
        (repr, "MN"),
        (lambda s: f"{s}", "MN"),
        (lambda s: "{} {} {}".format(*s), "MN"),
        (hash, "MN"),
        (lambda s: s == (6, 2, 4), "MN"),
        (lambda s: s != (6, 2, 4), "MN"),
        (lambda s: s + (1,), "MN"),  # noqa: RUF005
        (lambda s: (1, *s), "MN"),
        (lambda s: (1,) + s, "MN"),  # noqa: RUF005
        (lambda s: s.index(4), "MN"),
        (lambda s: 6 in s, "M"),
        (lambda s: max(s), "MN"),
        (lambda s: dict(zip("abc", s, strict=True)), "MN"),
        (lambda s: np.zeros(s).shape, "MN"),
        (lambda s: np.prod(s), "MN"),
        (lambda s: list(reversed(s)), "MN"),
    ],
)
def test_every_use_is_noticed(use: Callable[[Any], Any], read: str) -> None:
    dims = Dims(DIMS)
    given, expected = use(Shape(("M", 2, "N"), dims)), use((6, 2, 4))
    assert given == expected
    assert dims.read == set(read)


def test_dims_are_a_mapping() -> None:
    dims = Dims(DIMS)
    assert "M" in dims and list(dims) == ["M", "N"] and len(dims) == 2 and not dims.read
    assert dims["N"] == 4 and dims.read == {"N"}
    assert {**dims} == DIMS and dims.read == {"M", "N"}
    with pytest.raises(KeyError):
        dims["K"]
    assert dims.read == {"M", "N"}


def element(A: TileParam, *indices: Any) -> None:
    x = reg.scalar(f32)
    ptx.inst.ld.global_.f32(x, A.at(*indices))


BODIES: dict[str, tuple[Callable[[TileParam], None], str]] = {
    "nothing": (lambda A: None, ""),
    "the pointer": (lambda A: ptx.inst.mov.u64(reg.scalar(u64), A.ptr), ""),
    "an element by registers": (lambda A: element(A, ptx.special.ctaid.x(), ptx.special.tid.x()), "N"),
    "an element by numbers": (lambda A: element(A, 1, 2), "MN"),
    "a loop over the rows": (
        lambda A: [element(A, ptx.special.tid.x(), 0) for _ in range(A.shape[0])][:0],
        "MN",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_a_body_reads(name: str) -> None:
    body, read = BODIES[name]
    dims = Dims(DIMS)
    record(lambda A: (body(A), None)[1], ["A"], [Tile("M", "N", f32)], entry="k", arch="sm_90a", dims=dims)
    assert dims.read == set(read)


def test_an_index_outside_the_dim_reads_it() -> None:
    dims = Dims(DIMS)
    with pytest.raises(OperandError, match=r"expected 0..5"):
        record(lambda A: element(A, 6, 0), ["A"], [Tile("M", "N", f32)], entry="k", arch="sm_90a", dims=dims)
    assert "M" in dims.read
