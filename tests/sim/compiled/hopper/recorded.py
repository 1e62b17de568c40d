"""The words that a GPU gave: where they are kept, and reading them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .launches import HERE

__all__ = ["FOLDER", "about", "outputs"]

FOLDER = HERE / "recorded"


@cache
def about() -> dict[str, Any]:
    """GPU, driver and date; for each launch what identifies text and inputs."""
    found: dict[str, Any] = json.loads((FOLDER / "recorded.json").read_text())
    return found


@cache
def _words() -> Any:
    return np.load(FOLDER / "words.npz")


def outputs(name: str, count: int) -> list[NDArray[Any]]:
    """The outputs of a launch, in the order of its arguments."""
    return [_words()[f"{name}/{index}"] for index in range(count)]
