"""Compares the outputs of candidates with each other, to find those that compute something else.

Owns the groups of equal outputs, which are kept in files so that a new worker process knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.types import from_dtype

__all__ = ["agree", "group_of"]

#: Error that candidates may have, by the bytes of a float: a share of the element, or of the root mean square
#: of the output if that is more. Sums in another order differ; tiles that are missing differ more.
_TOLERANCE = {1: 0.25, 2: 0.05, 4: 1e-3, 8: 1e-9}


def agree(got: Any, wanted: Any) -> bool:
    """True if two outputs are those of the same computation: integers equal, floats about equal."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    type = from_dtype(got.dtype)
    if type is None or type.kind != "f":
        return bool(np.array_equal(got.view(np.uint8), wanted.view(np.uint8)))
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    a, b = a[finite], b[finite]
    mean_square = float(np.sqrt(np.mean(b * b))) if b.size else 0.0
    allowed = _TOLERANCE[type.nbytes] * np.maximum(np.abs(b), mean_square)
    return bool((np.abs(a - b) <= allowed).all())


def group_of(outputs: Sequence[Any], folder: Path) -> int:
    """Return the number of the group of candidates that have these outputs.

    The first outputs of a group are kept in ``folder``.
    """
    number = 0
    while (folder / f"group{number}-count").exists():
        count = int((folder / f"group{number}-count").read_text())
        kept = [np.fromfile(folder / f"group{number}-{n}.bin", np.uint8) for n in range(count)]
        if count == len(outputs) and all(
            raw.nbytes == output.nbytes and agree(output, raw.view(output.dtype))
            for raw, output in zip(kept, outputs, strict=True)
        ):
            return number
        number += 1
    for n, output in enumerate(outputs):
        output.view(np.uint8).tofile(folder / f"group{number}-{n}.bin")
    (folder / f"group{number}-count").write_text(str(len(outputs)))
    return number
