"""What a prediction of a row of ``hopper.py`` is given: shapes, and contents where these decide the time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from _deepgemm import Problem
from _rows import Row

__all__ = ["contents_of", "inputs_of"]


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


def contents_of(row: Row) -> str:
    """Return what the arrays of a row hold that are given as shapes.

    Scores of attention decide where sums are rescaled. Zeros rescale them once, as normal numbers nearly do.
    """
    return "zeros" if row.group.startswith("attention") else "unknown"
