"""The figure of a tensor map: the tensor, its boxes, and the arguments that the driver encodes."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import SpecError, UnsupportedError
from ..layout.tensor_map import TensorMap
from .svg import Canvas, Figure

__all__ = ["tensor_map"]

_MOST_BOXES = 400
_PIXELS = 300


def tensor_map(map: TensorMap, coordinates: Sequence[int] = ()) -> Figure:
    """Draw the tensor of a tiled tensor map, its boxes, and the box that one copy moves.

    The tensor of two or three dims is drawn to scale, a third (outermost) dim as slices side by side, with
    the boxes that begin at multiples of the box's extents.  The box at ``coordinates`` is colored blue; its
    part outside of the tensor, which a load fills, yellow.  Below are the arguments of
    ``cuTensorMapEncodeTiled``, in its order, the innermost dim first.

    Args:
        map: a tiled map of two or three dims, without element strides.
        coordinates: of the box's first element, the innermost dim first as in the instruction; by default
            zeros.

    Raises:
        UnsupportedError: the map has another rank, element strides, or is an im2col map.
        SpecError: not one coordinate for each dim, a box that does not touch the tensor, or more than 400
            boxes.

    PTX ISA: `#tensor-tensormap`.
    """
    rank = len(map.shape)
    if rank not in (2, 3) or map.upper or set(map.element_strides) != {1}:
        raise UnsupportedError(
            f"a figure of {map}: only tiled maps of two or three dims without element strides are drawn"
        )
    at = tuple(coordinates)[::-1] or (0,) * rank
    if len(at) != rank:
        raise SpecError(f"coordinates = {tuple(coordinates)}: expected {rank}, the innermost dim first")
    ranges = [(begin, begin + extent) for begin, extent in zip(at, map.box, strict=True)]
    if any(end <= 0 or begin >= extent for (begin, end), extent in zip(ranges, map.shape, strict=True)):
        raise SpecError(f"the box {map.box} at {at} does not touch the tensor of shape {map.shape}")
    slices = map.shape[0] if rank == 3 else 1
    rows, columns = map.shape[-2:]
    counts = [-(-extent // box) for extent, box in zip((rows, columns), map.box[-2:], strict=True)]
    if slices * counts[0] * counts[1] > _MOST_BOXES:
        raise SpecError(f"{slices * counts[0] * counts[1]} boxes: a figure shows at most {_MOST_BOXES}")
    canvas = Canvas(f"Tensor map of {map.shape} {map.type} in boxes of {map.box}")
    scale = _PIXELS / max(rows, columns)
    x, y = 50.0, 66.0
    for number in range(slices):
        left = x + number * (columns * scale + 70)
        inside = rank == 2 or ranges[0][0] <= number < ranges[0][1]
        _slice(canvas, left, y, scale, map, ranges[-2:] if inside else None, number if rank == 3 else -1)
    arguments = map.driver_arguments()
    below = canvas.bottom + 30
    lines = {
        "globalDim": ", ".join(_texts(arguments.dims)),
        "globalStrides": ", ".join(_texts(arguments.strides)) + " bytes",
        "boxDim": ", ".join(_texts(arguments.box)),
        "swizzle": map.swizzle,
        "coordinates": ", ".join(_texts(at[::-1])),
    }
    for number, (name, value) in enumerate(lines.items()):
        with canvas.group(argument=name, value=value):
            canvas.text(x, below + 19 * number, name, dim=True)
            canvas.text(x + 120, below + 19 * number, value)
    canvas.note("The innermost dim comes first; it has no stride, since its elements are adjacent.")
    return canvas.figure()


def _texts(values: Sequence[int]) -> list[str]:
    """Return numbers as texts."""
    return [str(value) for value in values]


def _slice(
    canvas: Canvas,
    x: float,
    y: float,
    scale: float,
    map: TensorMap,
    box: Sequence[tuple[int, int]] | None,
    number: int,
) -> None:
    """Draw one slice of the tensor with its boxes; ``box`` has the rows and columns of the copy's box."""
    rows, columns = map.shape[-2:]
    high, wide = map.box[-2:]
    axis = len(map.shape) - 2
    title = f"{columns} (dim 0)" + (f", slice {number}" if number >= 0 else "")
    canvas.text(x + columns * scale / 2, y - 16, title, anchor="middle", size=11)
    canvas.text(
        x - 14,
        y + rows * scale / 2,
        f"{rows} (dim 1, stride {map.strides[axis]} bytes)",
        anchor="middle",
        size=11,
        up=True,
    )
    for row in range(0, rows, high):
        for column in range(0, columns, wide):
            canvas.cell(
                x + column * scale, y + row * scale, min(wide, columns - column) * scale,
                min(high, rows - row) * scale, slice=number, row=row, column=column,
                rows=min(high, rows - row), columns=min(wide, columns - column),
            )  # fmt: skip
    if box is None:
        return
    (top, bottom), (left, right) = box
    outside = top < 0 or left < 0 or bottom > rows or right > columns
    if outside:
        canvas.cell(
            x + left * scale, y + top * scale, (right - left) * scale, (bottom - top) * scale, color=6,
            tip=f"outside of the tensor: a load writes {map.oob_fill}", box="whole", slice=number,
        )  # fmt: skip
    top, bottom, left, right = max(top, 0), min(bottom, rows), max(left, 0), min(right, columns)
    canvas.cell(
        x + left * scale, y + top * scale, (right - left) * scale, (bottom - top) * scale,
        f"{bottom - top} x {right - left}", color=0, bold=True, box="inside", slice=number,
        row=top, column=left, rows=bottom - top, columns=right - left,
    )  # fmt: skip
