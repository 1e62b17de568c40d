"""What a prediction of a row of ``hopper.py`` is given: shapes, and contents where these decide the time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from _deepgemm import Problem
from _rows import Row

from pyptx.dsl import Tile

__all__ = ["inputs_of"]


def inputs_of(row: Row, kernel: Any, dims: Any) -> list[Any]:
    """Return the inputs of a row's kernel: their shapes, and contents where these decide what threads do."""
    found: list[Any] = []
    specs = kernel.options.specs[: kernel.options.inputs]
    for name, spec in zip(kernel.options.names, specs, strict=False):
        shape = spec.shape(dict(dims))
        if name == "sizes":
            found.append(_sizes_of(row))
        elif name == "lengths":
            found.append(np.full(shape, specs[1].shape({})[1], np.int32))
        elif row.group.startswith("attention-hd"):
            # Scores decide where sums are rescaled, which normal numbers make as rare as it is.
            found.append(_normal(spec, len(found)))
        else:
            found.append(shape)
    return found


def _sizes_of(row: Row) -> np.ndarray:
    """Return the group sizes of a row of grouped products, as its kernel takes them."""
    ours = row.ours
    assert isinstance(ours, partial)
    given = ours.args[0]
    if isinstance(given, Problem):
        sizes = np.asarray(given.sizes, np.int32)
        return sizes if given.kind == "masked" else sizes.cumsum(dtype=np.int32)
    return np.asarray(given, np.int32).cumsum(dtype=np.int32)


def _normal(spec: Tile, seed: int) -> np.ndarray:
    """Return normally distributed numbers of a tensor's shape and type: one block of them, repeated."""
    shape = spec.shape({})
    some = np.random.default_rng(seed).standard_normal(1 << 16, np.float32).astype(spec.dtype.dtype)
    return np.resize(some, shape)
