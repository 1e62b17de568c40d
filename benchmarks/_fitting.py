"""Reading published tables, and fitting positive parameters to them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the complete rows of a CSV file; lines of comments and failed builds have no second column."""
    with open(folder / name, newline="") as file:
        return [
            row
            for row in csv.DictReader(file)
            if None not in row.values() and not next(iter(row.values())).startswith("#")
        ]


def fit(
    loss: Callable[[np.ndarray], float], start: Sequence[float], rounds: int = 3, steps: int = 700
) -> np.ndarray:
    """Return positive parameters that make `loss` small, by Nelder and Mead's method in their logarithms."""
    origin = np.log(np.asarray(start, float))
    for number in range(rounds):
        origin = _descend(lambda x: loss(np.exp(x)), origin, 0.25 if number % 2 == 0 else -0.15, steps)
    return np.exp(origin)


def _descend(loss: Callable[[np.ndarray], float], origin: np.ndarray, size: float, steps: int) -> np.ndarray:
    corners = [origin, *(origin + size * axis for axis in np.eye(len(origin)))]
    values = [loss(corner) for corner in corners]
    for _ in range(steps):
        order = np.argsort(values)
        corners, values = [corners[i] for i in order], [values[i] for i in order]
        center = np.mean(corners[:-1], axis=0)
        tried = center + (center - corners[-1])
        value = loss(tried)
        if value < values[0]:
            further = center + 2 * (center - corners[-1])
            corners[-1], values[-1] = min(
                ((tried, value), (further, loss(further))), key=lambda pair: pair[1]
            )
        elif value < values[-2]:
            corners[-1], values[-1] = tried, value
        else:
            nearer = center + (corners[-1] - center) / 2
            if (value := loss(nearer)) < values[-1]:
                corners[-1], values[-1] = nearer, value
            else:
                corners = [corners[0], *((corners[0] + corner) / 2 for corner in corners[1:])]
                values = [values[0], *map(loss, corners[1:])]
    return corners[int(np.argmin(values))]
