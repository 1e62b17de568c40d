"""Figures of tiles: block tiling, tile orders with what a first wave reads, and data of a pair of CTAs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from ..core.errors import SpecError
from ..core.types import u32
from ..dsl import Reg, Tile, ptx
from ..entry import kernel
from ..kit import tile_order as orders
from ..layout import tensor_memory as layout
from .svg import Canvas, Figure

__all__ = ["block_tiling", "pair", "tile_order"]

_MOST_TILES = 256

Order = Callable[[Reg, int, int, int], tuple[Reg, Reg]]

_ORDERS: dict[str, Order] = {
    "row_major": lambda tile, m, n, group: orders.row_major(tile, m, n),
    "snake": lambda tile, m, n, group: orders.snake(tile, m, n),
    "grouped": lambda tile, m, n, group: orders.grouped(tile, m, n, group),
    "boustrophedon": lambda tile, m, n, group: orders.boustrophedon(tile, m, n, group),
    "hilbert": lambda tile, m, n, group: orders.hilbert(tile, m, n),
    "swizzle_2d": lambda tile, m, n, group: orders.swizzle_2d_from_bid(m, n, 1, 1, group, tile),
}


def _simulated(order: Order, tiles_m: int, tiles_n: int, group: int) -> list[tuple[int, int]]:
    """Return (row, column) of each tile as a recorded kernel of one CTA for each tile computes them."""

    @kernel(
        out_specs=(Tile(tiles_m * tiles_n, 2, u32),), grid=(tiles_m * tiles_n,), block=(1,), arch="sm_90a"
    )
    def visited(out):  # type: ignore[no-untyped-def]
        tile = ptx.special.ctaid.x()
        row, column = order(tile, tiles_m, tiles_n, group)
        ptx.inst.st.global_.v2.b32(out.at(tile, 0), [row, column])

    (places,) = visited.simulate().outputs
    return [(int(row), int(column)) for row, column in places]


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise SpecError(f"{name} is {value!r}: expected a positive number")


def tile_order(
    names: Sequence[str] | str = ("row_major", "swizzle_2d"),
    tiles_m: int = 4,
    tiles_n: int = 4,
    tiles_k: int = 4,
    wave: int = 4,
    group: int = 2,
) -> Figure:
    """Draw the order in which CTAs compute tiles of C, and the blocks of A and B that the first wave reads.

    One panel for each order: A on the left, B above, C with the number of the CTA in each tile.  The tiles of
    the first ``wave`` CTAs are colored, and so are the blocks of A and B that they read.  The orders are
    those of :mod:`pyptx.kit.tile_order`, recorded as a kernel and simulated.

    Args:
        names: ``"row_major"``, ``"snake"``, ``"grouped"``, ``"boustrophedon"``, ``"hilbert"`` or
            ``"swizzle_2d"``; one name or several.
        tiles_m, tiles_n: tiles of C; at most 256 in all.
        tiles_k: blocks of a row of A, and of a column of B.
        wave: CTAs that run at the same time.
        group: rows of tiles in a band, for the orders that have bands.

    Raises:
        SpecError: there is no such order, a number is not positive, or there are too many tiles.
    """
    chosen = [names] if isinstance(names, str) else list(names)
    _positive(tiles_m=tiles_m, tiles_n=tiles_n, tiles_k=tiles_k, wave=wave, group=group)
    unknown = [name for name in chosen if name not in _ORDERS]
    if unknown or not chosen:
        raise SpecError(f"there is no tile order {unknown}: expected names of {', '.join(_ORDERS)}")
    if tiles_m * tiles_n > _MOST_TILES:
        raise SpecError(f"{tiles_m} x {tiles_n} tiles: a figure shows at most {_MOST_TILES}")
    canvas = Canvas(f"Order of {tiles_m} x {tiles_n} tiles of C, and what a first wave of {wave} CTAs reads")
    size = 40 if max(tiles_m, tiles_n) <= 8 else 26
    for number, name in enumerate(chosen):
        visited = _simulated(_ORDERS[name], tiles_m, tiles_n, group)
        has_group = "group" in inspect.signature(getattr(orders, name)).parameters or name == "swizzle_2d"
        title = f"{name}, bands of {group}" if has_group else name
        x = 10 + number * ((tiles_k + tiles_n) * size + 90)
        canvas.text(x, 46, title, weight=600, size=13)
        with canvas.group(order=name):
            _order_panel(canvas, x, 54, size, visited, (tiles_m, tiles_n, tiles_k), wave)
    return canvas.figure()


def _order_panel(
    canvas: Canvas,
    x: float,
    y: float,
    size: float,
    visited: Sequence[tuple[int, int]],
    tiles: tuple[int, int, int],
    wave: int,
) -> None:
    tiles_m, tiles_n, tiles_k = tiles
    first = visited[:wave]
    rows, columns = {row for row, _ in first}, {column for _, column in first}
    right, below = x + tiles_k * size + 18, y + 24 + tiles_k * size + 18
    canvas.text(x + tiles_k * size / 2, below - 12, "A", anchor="middle", weight=600)
    canvas.text(right - 10, y + 24 + tiles_k * size / 2, "B", anchor="middle", weight=600)
    for row in range(tiles_m):
        for k in range(tiles_k):
            color = 1 if row in rows else None
            canvas.cell(
                x + k * size, below + row * size, size, size, color=color, matrix="A", row=row, k=k,
                read=int(row in rows),
            )  # fmt: skip
    for k in range(tiles_k):
        for column in range(tiles_n):
            color = 2 if column in columns else None
            canvas.cell(
                right + column * size, y + 24 + k * size, size, size, color=color, matrix="B", k=k,
                column=column, read=int(column in columns),
            )  # fmt: skip
    for index, (row, column) in enumerate(visited):
        canvas.cell(
            right + column * size,
            below + row * size,
            size,
            size,
            str(index),
            color=0 if index < wave else None,
            size=12 if size > 30 else 10,
            matrix="C",
            row=row,
            column=column,
            index=index,
            wave=index // wave,
        )
    a, b = len(rows) * tiles_k, len(columns) * tiles_k
    canvas.text(
        x,
        below + tiles_m * size + 20,
        f"first wave reads {a} blocks of A + {b} of B = {a + b}",
        size=12,
        weight=600,
    )


def block_tiling(
    M: int = 512, N: int = 768, K: int = 512, tile: Sequence[int] = (128, 256, 64), at: Sequence[int] = (1, 1)
) -> Figure:
    """Draw the tiles of a GEMM, and the rows of A and columns of B that one tile of C needs.

    Args:
        M, N, K: extents of the product C[M, N] = A[M, K] B[K, N].
        tile: rows and columns of a tile of C, and the part of K that one step of the main loop multiplies.
        at: row and column of the tile that is shown, in tiles.

    Raises:
        SpecError: an extent is not positive, the tile is outside C, or there are more than 256 tiles.
    """
    if (len(tile), len(at)) != (3, 2):
        raise SpecError(f"tile = {tuple(tile)}, at = {tuple(at)}: expected three extents and two indices")
    block_m, block_n, block_k = tile
    _positive(M=M, N=N, K=K, block_m=block_m, block_n=block_n, block_k=block_k)
    rows, columns, steps = orders.cdiv(M, block_m), orders.cdiv(N, block_n), orders.cdiv(K, block_k)
    if rows * columns > _MOST_TILES or steps > 64:
        raise SpecError(
            f"{rows} x {columns} tiles, {steps} steps: a figure shows {_MOST_TILES} and 64 at most"
        )
    if not (0 <= at[0] < rows and 0 <= at[1] < columns):
        raise SpecError(f"at = {tuple(at)} is outside the {rows} x {columns} tiles")
    canvas = Canvas(
        f"Block tiling: {M} x {N} x {K}, tiles of {block_m} x {block_n}, steps of {block_k} along K"
    )
    scale = 300 / max(M, N, K)
    x, y, gap = 60, 60, 40
    right, below = x + K * scale + gap, y + K * scale + gap
    canvas.text(x + K * scale / 2, below - 14, f"A: M = {M}, K = {K}", anchor="middle", weight=600)
    canvas.text(right + N * scale / 2, y - 14, f"B: K = {K}, N = {N}", anchor="middle", weight=600)
    canvas.text(right + N * scale / 2, below - 14, f"C: M = {M}, N = {N}", anchor="middle", weight=600)
    for step in range(steps):
        k, deep = step * block_k, min(block_k, K - step * block_k)
        for row in range(rows):
            m, high = row * block_m, min(block_m, M - row * block_m)
            canvas.cell(
                x + k * scale, below + m * scale, deep * scale, high * scale,
                str(step) if row == at[0] else "", size=10, color=1 if row == at[0] else None,
                matrix="A", row=row, step=step, m=m, k=k, rows=high, columns=deep, read=int(row == at[0]),
            )  # fmt: skip
        for column in range(columns):
            n, wide = column * block_n, min(block_n, N - column * block_n)
            canvas.cell(
                right + n * scale, y + k * scale, wide * scale, deep * scale,
                str(step) if column == at[1] else "", size=10, color=2 if column == at[1] else None,
                matrix="B", column=column, step=step, n=n, k=k, rows=deep, columns=wide,
                read=int(column == at[1]),
            )  # fmt: skip
    for row in range(rows):
        for column in range(columns):
            m, n = row * block_m, column * block_n
            high, wide = min(block_m, M - m), min(block_n, N - n)
            shown = (row, column) == tuple(at)
            canvas.cell(
                right + n * scale, below + m * scale, wide * scale, high * scale,
                f"{row}, {column}", color=0 if shown else None,
                matrix="C", row=row, column=column, m=m, n=n, rows=high, columns=wide, read=int(shown),
            )  # fmt: skip
    canvas.note(
        f"A CTA computes one tile of C in {steps} steps. In each it loads the blocks of A and B that have",
        "the step's number, and adds their product to the accumulator.",
    )
    return canvas.figure()


def pair(m: int = 256, n: int = 256, k: int = 64) -> Figure:
    """Draw which CTA of a pair loads and holds what for ``tcgen05.mma.cta_group::2``.

    Each CTA loads half of the rows of A and half of the columns of B, and holds the rows of D that
    :func:`pyptx.layout.accumulator` gives it.

    Args:
        m, n: shape of the instruction.
        k: extent of a stage along K.

    Raises:
        SpecError: :func:`pyptx.layout.accumulator` refuses the shape, or K is not positive.

    PTX ISA: `#tcgen05-cta-pair`.
    """
    _positive(k=k)
    lane, column = layout.accumulator(m, n, cta_group=2)
    held, lanes, cells = len(lane), int(lane.max()) + 1, int(column.max()) + 1
    canvas = Canvas(f"A product of a pair of CTAs: M = {m}, N = {n}, K = {k} for each stage")
    scale, deep = 300 / max(m, n), 96.0
    x, y = 70, 64
    right, below = x + deep + 50, y + deep + 50
    canvas.text(x + deep / 2, below - 14, f"A, K = {k}", anchor="middle", weight=600)
    canvas.text(right + n * scale / 2, y - 14, f"B, K = {k}", anchor="middle", weight=600)
    canvas.text(right + n * scale / 2, below - 14, "D, in tensor memory", anchor="middle", weight=600)
    half = n // 2
    for rank in range(2):
        first = rank * held
        top = below + first * scale
        canvas.cell(
            x, top, deep, held * scale, f"CTA {rank}\nrows\n{first}–{first + held - 1}", color=rank, size=12,
            matrix="A", cta=rank, row=first, rows=held,
        )  # fmt: skip
        canvas.cell(
            right + rank * half * scale, y, half * scale, deep,
            f"CTA {rank}\ncolumns {rank * half}–{rank * half + half - 1}", color=rank, size=12,
            matrix="B", cta=rank, column=rank * half, columns=half,
        )  # fmt: skip
        canvas.cell(
            right, top, n * scale, held * scale,
            f"CTA {rank}: rows {first}–{first + held - 1}\n{lanes} lanes x {cells} columns",
            color=rank, size=12, matrix="D", cta=rank, row=first, rows=held, columns=n,
            lanes=lanes, cells=cells,
        )  # fmt: skip
    canvas.note(
        "Each CTA loads its part of A and of B into its own shared memory. One thread of CTA 0 issues the",
        "product for both; each tensor core reads both parts of B, and writes the rows of D of its own CTA.",
    )
    return canvas.figure()
