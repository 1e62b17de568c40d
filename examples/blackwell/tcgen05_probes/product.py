"""The kernel of most probes of mma: one CTA, one tile, TMA -> mma -> tensor memory -> registers -> D.

::

    all warps        write FILL to every cell                          (cells that mma does not write keep
    FILL) one thread       wait for A and B; one mma per step of K; commit   (the commit signals `done`) all
    warps        wait for `done`; copy every cell to global memory

The probes differ in the instruction descriptor, in the tiles, and in the instructions that multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyptx import InstructionDescriptor, OperandTile, b32, bf16, f16, f32, ptx, u8

from .matrices import encoded, lanes_of, placed
from .stage import (
    Case,
    Operand,
    Stage,
    barrier,
    begin,
    cells,
    completed,
    end,
    fill,
    hand_over,
    launched,
    load,
    load_cells,
    multiply,
    operand,
    store_cells,
)

__all__ = ["product", "tile_of"]

#: Element type -> the type that TMA moves. Other element types move as bytes.
_MOVED = {"f16": f16, "bf16": bf16, "tf32": f32}

Issue = Callable[[Stage, Operand, Operand], None]
Store = Callable[[Stage, Any], None]


def tile_of(rows: int, k: int, element: str, major: str = "K", swizzle: str = "128B", pairs: bool = False):
    """Return the tile of a matrix, and the type with which TMA moves its elements."""
    moved = _MOVED.get(element, u8)
    return OperandTile(rows, k, 4 if pairs else 8 * moved.nbytes, major, swizzle), moved


def product(
    label: str,
    idesc: InstructionDescriptor,
    left: np.ndarray,
    right: np.ndarray,
    *,
    swizzles: tuple[str, str] = ("128B", "128B"),
    expected: np.ndarray | None = None,
    bound: Any = 0.0,
    before: np.ndarray | None = None,
    issue: Issue | None = None,
    store: Store = store_cells,
) -> Case:
    """Return the case of the product ``left[M, K] @ right[N, K].T``.

    Args:
        label: name of the case.
        idesc: the instruction descriptor.
        left, right: the numbers of A and B.
        swizzles: the swizzles of A and B in shared memory.
        expected: the expected cells. By default, the product in the lanes of D, and FILL in all other cells.
        bound: the largest allowed error of the product.
        before: the initial values of the cells, instead of FILL.
        issue: records the multiplication. The default is :func:`.stage.multiply`.
        store: records the copy of the cells to the output, which has as many columns as ``expected``.
    """
    pairs = idesc.kind in ("mxf4", "mxf4nvf4")
    tile_a, moved_a = tile_of(*left.shape, idesc.a_type, idesc.a_major, swizzles[0], pairs)
    tile_b, moved_b = tile_of(*right.shape, idesc.b_type, idesc.b_major, swizzles[1], pairs)
    columns = max(32, 1 << (idesc.n - 1).bit_length())
    inputs = [operand(tile_a, moved_a), operand(tile_b, moved_b)]
    arrays = [
        encoded(left, idesc.a_type, major=idesc.a_major, pairs=pairs),
        encoded(right, idesc.b_type, major=idesc.b_major, pairs=pairs),
    ]
    if before is None:
        body = _overwriting
    else:
        body = _accumulating
        inputs.append(cells(before.shape[1], f32 if before.dtype == np.float32 else b32))
        arrays.append(before)
    if expected is None:
        expected = placed(left @ right.T)
    out = cells(expected.shape[1], b32 if idesc.d_type in ("f16", "s32") else f32)
    path = _Path(tile_a, tile_b, columns, issue or _plain(idesc), store)
    kernel = launched(*inputs, out=out)(body(path))
    limits = np.zeros(expected.shape)  # cells that mma does not write must keep their values exactly
    limits[lanes_of(idesc.m), : idesc.n] = bound
    return Case(label, kernel, tuple(arrays), expected, limits)


def _plain(idesc: InstructionDescriptor) -> Issue:
    return lambda t, a, b: multiply(t.base, a, b, idesc)


@dataclass(frozen=True)
class _Path:
    """The kernel's steps for one tile: its operands, its columns, and how to multiply and store."""

    tile_a: OperandTile
    tile_b: OperandTile
    columns: int
    issue: Issue
    store: Store

    def record(self, A: Any, B: Any, D: Any, prepare: Callable[[Stage], None]) -> None:
        loaded, done = barrier(), barrier()
        t = begin(self.columns, loaded, done)
        a, b = Operand(self.tile_a, A), Operand(self.tile_b, B)
        prepare(t)
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            self.issue(t, a, b)
            ptx.tcgen05.commit(done)
        completed(done)
        self.store(t, D)
        end(t)


def _overwriting(path: _Path) -> Callable[..., None]:
    def kernel(A, B, D):
        path.record(A, B, D, fill)

    return kernel


def _accumulating(path: _Path) -> Callable[..., None]:
    def kernel(A, B, C, D):
        path.record(A, B, D, lambda t: load_cells(t, C))

    return kernel
