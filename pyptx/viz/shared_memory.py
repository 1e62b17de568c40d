"""Figures of shared memory: the swizzles, and the core matrices of an operand with LBO and SBO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import SpecError, UnsupportedError
from ..layout.operand_tile import OperandTile
from ..layout.swizzle import COPY_SWIZZLES
from ..layout.swizzle import swizzle as swizzled
from ..layout.tcgen05_smem_descriptor import Tcgen05SmemDescriptor, element_addresses
from .svg import Canvas, Figure

__all__ = ["core_matrices", "swizzle"]

_LINE, _CHUNK = 128, 16  # bytes of all banks; bytes that stay together
_WIDTH, _HEIGHT = 42, 24  # pixels of a chunk
#: A multiple of every swizzle's period: adding it to a stride leaves the XOR of an address as it is.
_PROBE = 1 << 13


def swizzle(modes: Sequence[str] | str = ("32B", "64B", "128B")) -> Figure:
    """Draw which 16-byte chunk of a tile lies where in shared memory, for each swizzle mode.

    A tile whose rows are as wide as the swizzle starts at a 1024-byte boundary.  The figure has the first
    eight lines of 128 bytes, each all 32 banks.  A cell is a place in shared memory; its text is the row and
    the chunk of the tile that lie there.

    Args:
        modes: names of :data:`pyptx.layout.COPY_SWIZZLES`, one panel each.

    Raises:
        SpecError, UnsupportedError: :func:`pyptx.layout.swizzle` refuses a mode.
        UnsupportedError: the mode also exchanges halves of 16 bytes.

    PTX ISA: `#tensor-swizzling-modes`.
    """
    names = [modes] if isinstance(modes, str) else list(modes)
    if not names:
        raise SpecError("modes is empty: give one swizzle mode or several, such as '128B'")
    address = np.arange(0, 8 * _LINE, dtype=np.int64)
    tables = {mode: swizzled(address, mode) for mode in names}
    canvas = Canvas("Swizzles of shared memory: row.chunk of the tile that lies in each 16 bytes")
    for number, (mode, table) in enumerate(tables.items()):
        starts = table[::_CHUNK]
        if (table.reshape(-1, _CHUNK) != starts[:, None] + np.arange(_CHUNK)).any():
            raise UnsupportedError(
                f"swizzle mode {mode!r} exchanges halves of 16 bytes: no figure shows it yet"
            )
        _swizzle_panel(canvas, 54 + number * (8 * _WIDTH + 84), 66, mode, starts)
    canvas.note(
        "A line is 128 bytes; a column is four banks of 4 bytes. Colors are the chunks of a row:",
        "reading one chunk of eight rows takes as many of the columns as have its color.",
    )
    return canvas.figure()


def _swizzle_panel(
    canvas: Canvas, x: float, y: float, mode: str, starts: npt.NDArray[np.integer[Any]]
) -> None:
    span = COPY_SWIZZLES[mode] or _CHUNK
    canvas.text(x, y - 38, f"{mode}: rows of {span} bytes" if mode != "none" else "none", weight=600)
    for column in range(_LINE // _CHUNK):
        first = column * _CHUNK // 4
        canvas.text(
            x + (column + 0.5) * _WIDTH, y - 12, f"{first}–{first + 3}", size=10, anchor="middle", dim=True
        )
    canvas.text(x - 8, y - 12, "banks", size=10, anchor="end", dim=True)
    # A swizzle is its own inverse, so the chunk that lies at a place is the swizzle of the place.
    for place, source in enumerate(starts.tolist()):
        line, column = divmod(place, _LINE // _CHUNK)
        if column == 0:
            canvas.text(
                x - 8, y + (line + 0.5) * _HEIGHT, f"+{line * _LINE}", size=10, anchor="end", dim=True
            )
        row, chunk = source // span, source % span // _CHUNK
        canvas.cell(
            x + column * _WIDTH,
            y + line * _HEIGHT,
            _WIDTH,
            _HEIGHT,
            f"{row}.{chunk}",
            color=chunk,
            tip=f"byte {place * _CHUNK}: row {row}, chunk {chunk}",
            mode=mode,
            address=place * _CHUNK,
            row=row,
            chunk=chunk,
        )


def core_matrices(
    rows: int = 32, k: int = 32, element_bits: int = 16, major: str = "K", swizzle: str = "none"
) -> Figure:
    """Draw an operand of ``tcgen05.mma`` or ``wgmma`` as core matrices, and where its chunks lie.

    A core matrix is 8 rows of 16 bytes: 8 rows of M or N with 16 bytes of K (K-major), or 8 columns of K with
    16 bytes of M or N (MN-major).  On the left is the operand with the offset of each core matrix's first
    element; arrows lead to the core matrices that LBO and SBO lead to.  On the right are the first sixteen
    lines of 128 bytes of shared memory, with the core matrix and its row in each 16 bytes.

    Args:
        rows, k, element_bits, major, swizzle: as for :class:`pyptx.OperandTile`, whose descriptor is drawn.
            At most 16 core matrices along each dimension.

    Raises:
        SpecError, UnsupportedError: :class:`pyptx.OperandTile` refuses the tile.
        SpecError: the tile is too large for a figure.

    PTX ISA: `#tcgen05-canonical-layouts`, `#tcgen05-strides`.
    """
    if major not in ("K", "MN"):
        raise SpecError(f"major = {major!r} is neither 'K' nor 'MN'")
    tile = OperandTile(rows, k, element_bits, major, swizzle)  # type: ignore[arg-type]
    places = _chunk_addresses(tile)
    matrices = places[:, :, 0]
    down, across = matrices.shape
    if max(down, across) > 16:
        raise SpecError(
            f"the tile has {down} x {across} core matrices: a figure shows at most 16 along each dimension"
        )
    part = "row" if major == "K" else "column of K"
    which = "a K-major" if major == "K" else "an MN-major"
    canvas = Canvas(
        f"Core matrices of {which} operand, {rows} rows x K = {k} of {element_bits} bits, swizzle {swizzle}"
    )
    width, height, x, y = 62, 34, 70, 84
    per_cell = (8, 128 // element_bits) if major == "K" else (128 // element_bits, 8)
    canvas.text(x + across * width / 2, y - 34, "K", anchor="middle", weight=600)
    canvas.text(x - 60, y + down * height / 2, "M or N", anchor="middle", weight=600, up=True)
    for j in range(across):
        canvas.text(x + (j + 0.5) * width, y - 14, str(j * per_cell[1]), size=10, anchor="middle", dim=True)
    for i in range(down):
        canvas.text(x - 8, y + (i + 0.5) * height, str(i * per_cell[0]), size=10, anchor="end", dim=True)
        for j in range(across):
            offset = int(matrices[i, j])
            canvas.cell(
                x + j * width,
                y + i * height,
                width,
                height,
                f"+{offset}",
                color=_color(i, j),
                tip=f"core matrix at row {i * per_cell[0]}, K {j * per_cell[1]}: byte {offset}",
                matrix=i * across + j,
                down=i,
                across=j,
                offset=offset,
            )
    below = y + down * height
    notes = []
    for name, value, target in _steps(tile):
        if target is None:
            notes.append(f"{name} is not used")
            continue
        notes.append(f"{name} = {value} bytes")
        start = (x + width / 2, y + height / 2)
        end = (x + (target[1] + 0.5) * width, y + (target[0] + 0.5) * height)
        start, end = _shifted(start, end)
        canvas.line(start, end, arrow=True, stride=name, bytes=value, down=target[0], across=target[1])
        if target[0]:
            canvas.text(x - 28, (start[1] + end[1]) / 2, name, anchor="end", size=11, weight=600)
        else:
            canvas.text((start[0] + end[0]) / 2, y - 14, name, anchor="middle", size=11, weight=600)
    for number, line in enumerate(notes):
        canvas.text(x, below + 22 + 18 * number, line)
    _memory_panel(canvas, x + across * width + 110, y, places, across, part)
    canvas.note(
        "Left: the offset in bytes of each core matrix's first element. Right: what lies in each 16 bytes of",
        f"shared memory: number of the core matrix, {part} in it. Core matrices are numbered along K first.",
    )
    return canvas.figure()


def _color(down: int, across: int) -> int:
    """Return a color for a core matrix that its neighbors do not have."""
    return 3 * down + across


def _shifted(
    start: tuple[float, float], end: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Move a line to the upper or left side of its cells, beside their labels."""
    if start[1] == end[1]:
        return (start[0], start[1] - 11), (end[0], end[1] - 11)
    return (start[0] - 25, start[1]), (end[0] - 25, end[1])


def _descriptor(
    tile: OperandTile, address: int = 0, leading: int = 0, stride: int = 0
) -> Tcgen05SmemDescriptor:
    return Tcgen05SmemDescriptor(
        address, tile.leading_bytes + leading, tile.stride_bytes + stride, tile.swizzle
    )


def _chunk_addresses(tile: OperandTile, leading: int = 0, stride: int = 0) -> npt.NDArray[np.int64]:
    """Return the offset of each row of each core matrix, ``[matrices along M, matrices along K, 8]``.

    ``leading`` and ``stride`` are added to the descriptor's offsets.
    """
    # Elements of 4 bits lie like half as many of 8.
    bits = max(tile.element_bits, 8)
    k, nbytes = tile.k * tile.element_bits // bits, bits // 8
    # With a swizzle, a descriptor of a K-major tile reaches as far as the swizzle is wide.
    step = k if tile.major == "MN" or tile.swizzle == "none" else tile.span // nbytes
    addresses = np.concatenate(
        [
            element_addresses(
                _descriptor(tile, tile.k_offset(first * bits // tile.element_bits), leading, stride),
                tile.rows,
                step,
                nbytes,
                tile.major,
            )
            for first in range(0, k, step)
        ],
        axis=1,
    )
    per = _CHUNK // nbytes
    if tile.major == "K":
        return addresses[:, ::per].reshape(tile.rows // 8, 8, k // per).transpose(0, 2, 1)
    return addresses[::per, :].reshape(tile.rows // per, k // 8, 8)


def _steps(tile: OperandTile) -> list[tuple[str, int, tuple[int, int] | None]]:
    """Return name, bytes and target of LBO and SBO: the core matrix that each leads to from the first one.

    The target is the first core matrix that moves by as many bytes as are added to the field; None if no
    core matrix does.
    """
    base = _chunk_addresses(tile)[:, :, 0]
    found: list[tuple[str, int, tuple[int, int] | None]] = []
    for name, value, moved in (
        ("LBO", tile.leading_bytes, _chunk_addresses(tile, leading=_PROBE)),
        ("SBO", tile.stride_bytes, _chunk_addresses(tile, stride=_PROBE)),
    ):
        hits = np.argwhere(moved[:, :, 0] - base == _PROBE)
        found.append((name, value, (int(hits[0][0]), int(hits[0][1])) if len(hits) else None))
    return found


def _memory_panel(
    canvas: Canvas, x: float, y: float, places: npt.NDArray[np.int64], across: int, part: str
) -> None:
    lines = min(16, -(-int(places.max() + _CHUNK) // _LINE))
    canvas.text(x, y - 34, "shared memory, lines of 128 bytes", weight=600)
    held = {int(place): where for where, place in np.ndenumerate(places)}
    for line in range(lines):
        canvas.text(x - 8, y + (line + 0.5) * _HEIGHT, f"+{line * _LINE}", size=10, anchor="end", dim=True)
        for column in range(_LINE // _CHUNK):
            address = line * _LINE + column * _CHUNK
            where = held.get(address)
            number = None if where is None else where[0] * across + where[1]
            canvas.cell(
                x + column * _WIDTH,
                y + line * _HEIGHT,
                _WIDTH,
                _HEIGHT,
                "" if where is None else f"{number}.{where[2]}",
                color=None if where is None else _color(*where[:2]),
                tip="" if where is None else f"byte {address}: core matrix {number}, {part} {where[2]}",
                address=address,
                holds="" if where is None else number,
                part="" if where is None else where[2],
            )
