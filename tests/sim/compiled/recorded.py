"""The words that a GPU gave: where they are kept, and reading them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FOLDER", "about", "outputs"]

FOLDER = Path(__file__).parent / "recorded"


@cache
def about() -> dict[str, Any]:
    """GPU, driver and date; for each launch what identifies its inputs; what was printed, and how it failed."""
    found: dict[str, Any] = json.loads((FOLDER / "recorded.json").read_text())
    return found


@cache
def _words(arch: str) -> Any:
    return np.load(FOLDER / f"{arch}.npz")


def outputs(name: str, count: int) -> list[NDArray[Any]]:
    """The outputs of a launch, in the order of its arguments."""
    arch, _, short = name.partition("/")
    return [_words(arch)[f"{short}/{index}"] for index in range(count)]
