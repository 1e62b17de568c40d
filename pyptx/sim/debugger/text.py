"""The state of the machine as text, for the prompt and for reprs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.events import Step

__all__ = ["lanes_text", "matrix_text", "register_lines", "step_text"]

#: Values in a line, and rows and columns of a matrix that are shown before it is shortened.
_PER_LINE, _ROWS, _COLUMNS = 8, 16, 16


def number_text(value: Any, kind: str) -> str:
    """Return one value as text; ``kind`` is that of its type."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if kind == "b":
        return f"{int(value):#x}"
    if kind == "f":
        return f"{float(value):.6g}"
    return str(int(value))


def lanes_text(mask: int) -> str:
    """Return the lanes of a mask as text: ``32 lanes``, ``lane 3``, ``lanes 0..15``, or the mask."""
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    if len(lanes) == 32:
        return "32 lanes"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes and lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]}..{lanes[-1]}"
    return f"lanes {mask:#010x}"


def register_lines(
    name: str, kind: str, values: NDArray[Any], undefined: NDArray[np.bool_], lanes: NDArray[np.intp]
) -> Iterator[str]:
    """Yield lines with a register's values in some lanes. ``?`` marks what was never written.

    ``kind`` is that of the register's type.
    """
    numbers = lanes.tolist()
    texts = ["?" if undefined[lane] else number_text(values[lane], kind) for lane in numbers]
    if len(set(texts)) == 1:
        yield f"{name} = {texts[0]}" + (" in all" if len(texts) > 1 else "")
        return
    yield f"{name} ="
    width = max(map(len, texts))
    if len(texts) < 32:
        yield "    " + "  ".join(f"{lane}: {text}" for lane, text in zip(numbers, texts, strict=True))
        return
    for first in range(0, 32, _PER_LINE):
        yield f"  {first:4d}: " + " ".join(text.rjust(width) for text in texts[first : first + _PER_LINE])


def matrix_text(values: NDArray[Any], written: NDArray[np.bool_], kind: str, corner: int = 0) -> list[str]:
    """Return a matrix as lines with the numbers of rows and columns; a long one is shortened.

    Args:
        values: the elements; an array of more than two axes is flattened to rows.
        written: which elements were written; others are shown as ``?``.
        kind: kind of the type.
        corner: number of the first column.
    """
    if values.ndim == 0:
        values, written = values.reshape(1, 1), written.reshape(1, 1)
    flat = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)
    flags = written.reshape(flat.shape)
    rows, columns = _chosen(flat.shape[0], _ROWS), _chosen(flat.shape[1], _COLUMNS)
    table = [["", *("..." if c is None else str(c + corner) for c in columns)]]
    for r in rows:
        if r is None:
            table.append(["..."])
            continue
        cells = [
            "..." if c is None else number_text(flat[r, c], kind) if flags[r, c] else "?" for c in columns
        ]
        table.append([str(r), *cells])
    widths = [max(len(row[n]) for row in table if n < len(row)) for n in range(len(columns) + 1)]
    return [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=False)).rstrip()
        for row in table
    ]


def _chosen(count: int, most: int) -> list[int | None]:
    """Return the numbers to show; None stands for those that are left out."""
    if count <= most:
        return list(range(count))
    half = most // 2
    return [*range(half), None, *range(count - half, count)]


def step_text(step: Step) -> str:
    """Return a step of an operation in flight as one line."""
    operation = step.operation
    size = f", {step.nbytes} bytes" if step.nbytes else ""
    state = "can happen" if step.ready else "waits for other steps"
    where = "" if operation.location is None else f" at {operation.location.short}"
    return (
        f"{step.serial}: {operation.engine} {step.kind.value} of {operation.name}{where}{size}, "
        f"issued by {operation.threads}: {state}"
    )
