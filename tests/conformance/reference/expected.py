"""What an output must hold: words, or numbers within a distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = ["Expected", "decode"]

_DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def decode(words: NDArray[Any], kind: str) -> NDArray[np.float64]:
    """The floats that some memory holds, flat."""
    raw = np.ascontiguousarray(words).reshape(-1).view(np.uint8)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        return np.asarray(raw.view(_DTYPES[kind]).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Expected:
    """One output of a case.

    Attributes:
        values: words of the output's width; or, with a ``kind``, what its floats are, ``float64``, flat.
        kind: the floats that the output holds. A NaN is any NaN, and the sign of a zero is not looked at.
        radius: how far each of them may be.
        open: where it may be anything: a sum too near to the largest number to say whether it is infinite.
    """

    values: NDArray[Any]
    kind: str = ""
    radius: NDArray[np.float64] | float = 0.0
    open: NDArray[np.bool_] | None = None

    def agrees(self, output: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the output's words, or of its floats, are as they must be; flat."""
        if not self.kind:
            words = np.ascontiguousarray(output).reshape(-1)
            return np.asarray(
                words.view(f"u{words.itemsize}") == self.values.reshape(-1).view(f"u{words.itemsize}")
            )
        found = decode(output, self.kind)
        with np.errstate(invalid="ignore"):
            near = np.abs(found - self.values) <= self.radius
        good = (found == self.values) | near | (np.isnan(found) & np.isnan(self.values))
        return np.asarray(good if self.open is None else good | self.open)
