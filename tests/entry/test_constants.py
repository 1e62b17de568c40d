"""Which constants are the same one, and what a kernel's copies and pickles are."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.core.types import f32
from pyptx.dsl import Tile, TileParam, ptx
from pyptx.entry import kernel
from pyptx.entry.constants import exact


@dataclass(frozen=True)
class Options:
    factor: Any


VALUES: list[Any] = [
    1, True, 1.0, np.float32(1), np.int64(1), 0.0, -0.0, (1,), (1.0,), (True,), ((0.0,),), ((-0.0,),), frozenset({1}),
    frozenset({1.0}), Options(2), Options(2.0), "1", b"1", None, complex(0.0, -0.0), complex(0.0, 0.0), int,
]  # fmt: skip


def test_all_these_are_different_constants() -> None:
    assert len({exact(value) for value in VALUES}) == len(VALUES)
    assert [exact(value) for value in VALUES] == [exact(copy.deepcopy(value)) for value in VALUES]
    with pytest.raises(TypeError):
        hash(exact(([1],)))


@kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=1, block=32, arch="sm_90a")
def scaled(x: TileParam, y: TileParam, *, C: Any = 0.0, T: Any = (0,)) -> None:
    i = ptx.special.tid.x()
    factor = T[0] * 0.5 if isinstance(T[0], float) else T[0]
    ptx.store(y.at(i), ptx.load(f32, x.at(i)) * factor + C)


def test_constants_that_compare_equal_have_recordings_of_their_own() -> None:
    x = np.ones(32, np.float32)
    assert scaled(x, T=(2,))[0] == 2 and scaled(x, T=(2.0,))[0] == 1
    minus = np.full(32, -0.0, np.float32)
    assert not np.signbit(scaled(minus, T=(1,), C=0.0)[0]) and np.signbit(scaled(minus, T=(1,), C=-0.0)[0])


def test_a_dim_that_is_no_whole_number() -> None:
    scaled.ptx(N=50)
    with pytest.raises(SpecError, match=r"the dim N is 50\.0: expected a positive integer"):
        scaled.ptx(N=50.0)


def test_copies_and_pickles_are_the_kernel() -> None:
    assert copy.copy(scaled) is scaled and copy.deepcopy({"k": scaled})["k"] is scaled
    assert pickle.loads(pickle.dumps(scaled)) is scaled

    @kernel(arch="sm_90a")
    def local() -> None: ...

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)
