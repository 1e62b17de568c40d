"""What a prediction of a row of ``hopper.py`` is given: shapes, and contents where these decide the time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from _deepgemm import Problem
from _hopper_training import FACTOR
from _rows import Row

from pyptx import Tile

__all__ = ["contents_of", "inputs_of"]


def inputs_of(row: Row, kernel: Any, dims: Any) -> list[Any]:
    """Return the inputs of a row's kernel: their shapes, and contents where these decide what threads do."""
    specs = dict(zip(kernel.options.names, kernel.options.specs[: kernel.options.inputs], strict=False))
    shapes = {name: spec.shape(dict(dims)) for name, spec in specs.items() if isinstance(spec, Tile)}
    return [FACTOR if name == "factor" else _input_of(row, name, shapes) for name in specs]


def _input_of(row: Row, name: str, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Return the array of a row's input, or only its shape if any contents take as long."""
    if name == "sizes":
        return _sizes_of(row)
    if name == "lengths":
        return np.full(shapes[name], shapes["K"][1], np.int32)
    if name == "target":
        return np.random.default_rng(0).integers(0, shapes["X"][1], shapes[name])
    return shapes[name]


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
