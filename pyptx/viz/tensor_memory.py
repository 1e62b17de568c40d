"""Figures of tensor memory: lanes of an accumulator, registers of a load, columns that are in use."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError
from ..layout import tensor_memory as layout
from ..layout.tensor_memory import COLUMNS, LANES
from .svg import Canvas, Figure

__all__ = ["accumulator", "fragment", "tensor_memory"]

_WARP = 32
_MOST_COLUMNS = 32  # of a fragment's figure
_PANEL = 320, 288  # pixels of 128 lanes


def accumulator(
    m: int = 128, n: int = 256, *, cta_group: int = 1, ws: bool = False, sparse: bool = False
) -> Figure:
    """Draw which rows and columns of the accumulator D lie in which lanes and columns of tensor memory.

    A panel is the tensor memory of one CTA: 128 lanes down, columns from the accumulator's first one to the
    right.  Its text says which part of D lies there.  Colors are the warps that can load the lanes: warp w
    has lanes ``32 * (w % 4)`` to ``+31``.  Lanes that D does not use are gray.

    Args:
        m, n, cta_group, ws, sparse: as for :func:`pyptx.layout.accumulator`.

    Raises:
        SpecError: :func:`pyptx.layout.accumulator` refuses the shape.

    PTX ISA: `#tcgen05-data-path-layout-organization`.
    """
    lane, column = layout.accumulator(m, n, cta_group=cta_group, ws=ws, sparse=sparse)
    options = (", .ws" if ws else "") + (", sparse A" if sparse else "")
    canvas = Canvas(
        f"The accumulator D of tcgen05.mma in tensor memory: "
        f"M = {m}, N = {n}, cta_group::{cta_group}{options}"
    )
    used = int(column.max()) + 1
    for rank in range(cta_group):
        x, y = 110 + rank * (_PANEL[0] + 150), 74
        _lanes(canvas, x, y, used, f"CTA {rank} of the pair" if cta_group == 2 else "")
        for rows, columns in _pieces(lane, column):
            _piece(canvas, x, y, used, rank, len(lane), lane, column, rows, columns)
    canvas.note(f"{used} columns of 32 bits. A color is what one warp can load. D does not use gray lanes.")
    return canvas.figure()


def _lanes(canvas: Canvas, x: float, y: float, columns: int, title: str) -> None:
    """Draw 128 empty lanes with the warps beside them."""
    width, height = _PANEL
    if title:
        canvas.text(x + width / 2, y - 32, title, anchor="middle", weight=600)
    canvas.text(x, y - 12, "column 0", size=10, dim=True)
    canvas.text(x + width, y - 12, f"column {columns - 1}", size=10, anchor="end", dim=True)
    canvas.cell(x, y, width, height, panel="lanes")
    for warp in range(LANES // _WARP):
        top = y + warp * height / 4
        canvas.text(x - 10, top + height / 8 - 8, f"warp {warp}", size=11, anchor="end")
        lanes = f"lanes {warp * _WARP}–{warp * _WARP + _WARP - 1}"
        canvas.text(x - 10, top + height / 8 + 8, lanes, size=10, anchor="end", dim=True)


def _runs(breaks: npt.NDArray[np.bool_]) -> list[range]:
    """Return the ranges of positions between breaks; ``breaks[i]`` lies between positions i and i + 1."""
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(breaks) + 1]
    return [range(first, last) for first, last in pairwise(edges)]


def _pieces(lane: npt.NDArray[np.int64], column: npt.NDArray[np.int64]) -> list[tuple[range, range]]:
    """Return the largest parts of D, rows and columns, that are rectangles in the lanes of one warp."""
    along_rows = (np.diff(lane, axis=0) != 1) | (np.diff(column, axis=0) != 0)
    along_rows |= lane[1:] % _WARP == 0
    along_columns = (np.diff(column, axis=1) != 1) | (np.diff(lane, axis=1) != 0)
    rows, columns = _runs(along_rows.any(axis=1)), _runs(along_columns.any(axis=0))
    return [(each, other) for each in rows for other in columns]


def _piece(
    canvas: Canvas,
    x: float,
    y: float,
    used: int,
    rank: int,
    held: int,
    lane: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
    rows: range,
    columns: range,
) -> None:
    first_lane, first_column = int(lane[rows[0], columns[0]]), int(column[rows[0], columns[0]])
    width, height = _PANEL[0] / used, _PANEL[1] / LANES
    text = f"rows {rows[0] + rank * held}–{rows[-1] + rank * held}"
    more = f"columns {columns[0]}–{columns[-1]}"
    tall, wide = len(rows) * height > 40, len(columns) * width > 200
    canvas.cell(
        x + first_column * width,
        y + first_lane * height,
        len(columns) * width,
        len(rows) * height,
        f"{text}, {more}" if wide else f"{text}\n{more}" if tall else text,
        color=first_lane // _WARP,
        tip=f"{text}, {more} of D: lanes {first_lane}–{first_lane + len(rows) - 1}",
        cta=rank,
        row=rows[0] + rank * held,
        rows=len(rows),
        n=columns[0],
        columns=len(columns),
        lane=first_lane,
        column=first_column,
    )


def fragment(shape: str = "32x32b", num: int = 8, half_split_offset: int | None = None) -> Figure:
    """Draw which register of which thread each cell of tensor memory goes to in ``tcgen05.ld``.

    Rows are lanes, from the first lane of the warp's quarter on; columns are those of the instruction's
    address and after.  The text of a cell is thread and register.  ``tcgen05.st`` has the same cells.

    Args:
        shape, num, half_split_offset: as for :func:`pyptx.layout.fragment`; at most 32 columns.

    Raises:
        SpecError: :func:`pyptx.layout.fragment` refuses the shape, or it has more than 32 columns.

    PTX ISA: `#tcgen05-data-movement-shape`.
    """
    lane, column = layout.fragment(shape, num, half_split_offset)
    columns, lanes = int(column.max()) + 1, int(lane.max()) + 1
    if columns > _MOST_COLUMNS:
        raise SpecError(f".{shape}.x{num} has {columns} columns: a figure shows at most {_MOST_COLUMNS}")
    canvas = Canvas(f"tcgen05.ld.{shape}.x{num}: thread and register of each cell of tensor memory")
    x, y, width, height = 60, 64, 58, 19
    for number in range(columns):
        canvas.text(x + (number + 0.5) * width, y - 12, str(number), size=10, anchor="middle", dim=True)
    canvas.text(x - 8, y - 12, "column", size=10, anchor="end", dim=True)
    for number in range(lanes):
        canvas.text(x - 8, y + (number + 0.5) * height, f"lane {number}", size=10, anchor="end", dim=True)
    for register, thread in np.ndindex(lane.shape):
        row, at = int(lane[register, thread]), int(column[register, thread])
        canvas.cell(
            x + at * width,
            y + row * height,
            width,
            height,
            f"t{thread} r{register}",
            color=thread,
            size=10,
            lane=row,
            column=at,
            thread=thread,
            register=register,
        )
    canvas.note(f"t is the thread of the warp, r its register. Each thread gets {len(lane)} registers.")
    return canvas.figure()


def tensor_memory(m: int = 128, n: int = 256, count: int = 2, *, cta_group: int = 1) -> Figure:
    """Draw the tensor memory of one CTA with ``count`` accumulators one after the other.

    All 128 lanes x 512 columns are drawn to scale.  The allocation is the smallest power of two from 32
    columns on that holds the accumulators.

    Args:
        m, n, cta_group: as for :func:`pyptx.layout.accumulator`.
        count: number of accumulators.

    Raises:
        SpecError: :func:`pyptx.layout.accumulator` refuses the shape, the count is below 1, or the
            accumulators do not fit 512 columns.
    """
    if count < 1:
        raise SpecError(f"count is {count}: expected at least one accumulator")
    lane, column = layout.accumulator(m, n, cta_group=cta_group)
    each = int(column.max()) + 1
    if each * count > COLUMNS:
        raise SpecError(f"{count} accumulators of {each} columns need {each * count} of {COLUMNS} columns")
    allocated = max(32, 1 << (each * count - 1).bit_length())
    canvas = Canvas(
        f"Tensor memory of a CTA: {count} accumulator{'s' * (count > 1)} of "
        f"M = {m}, N = {n}, cta_group::{cta_group}"
    )
    x, y, width, height = 110, 84, 768 / COLUMNS, 256 / LANES
    canvas.cell(x, y, COLUMNS * width, LANES * height, panel="lanes", columns=COLUMNS, lanes=LANES)
    for at in range(0, COLUMNS + 1, 64):
        canvas.line((x + at * width, y - 5), (x + at * width, y))
        canvas.text(x + at * width, y - 13, str(at), size=10, anchor="middle", dim=True)
    canvas.text(x, y - 34, f"columns of 32 bits; tcgen05.alloc of {allocated}", size=11)
    for warp in range(LANES // _WARP):
        middle = y + (warp + 0.5) * _WARP * height
        canvas.text(x - 10, middle - 8, f"warp {warp}", size=11, anchor="end")
        canvas.text(
            x - 10,
            middle + 8,
            f"lanes {warp * _WARP}–{warp * _WARP + _WARP - 1}",
            size=10,
            anchor="end",
            dim=True,
        )
    for number in range(count):
        for rows, columns in _pieces(lane, column):
            first = int(lane[rows[0], columns[0]])
            start = int(column[rows[0], columns[0]]) + number * each
            text = f"D{number}: rows {rows[0]}–{rows[-1]}"
            canvas.cell(
                x + start * width,
                y + first * height,
                len(columns) * width,
                len(rows) * height,
                text if len(columns) * width > 120 else f"D{number}",
                color=number,
                tip=f"{text}, columns {columns[0]}–{columns[-1]}",
                accumulator=number,
                lane=first,
                lanes=len(rows),
                column=start,
                columns=len(columns),
                allocated=allocated,
            )
    canvas.line((x, y + LANES * height + 8), (x + allocated * width, y + LANES * height + 8), bold=True)
    canvas.text(
        x,
        y + LANES * height + 22,
        f"allocated: {allocated} columns, {allocated * LANES * 4 // 1024} KiB",
        size=11,
    )
    canvas.note("A warp can load the lanes beside its name, and all columns. Gray cells hold no accumulator.")
    return canvas.figure()
