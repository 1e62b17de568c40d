"""What an asynchronous operation asks of the hardware, as numbers, for a machine that keeps time.

Instructions state it when they issue an operation (``AsyncOperation.work``). No step depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...core.records import dataclass

__all__ = ["LINE", "Copy", "Product", "ThreadCopy", "Work", "lines_of"]

#: Rows of D of one warp of a warpgroup, and warps of a warpgroup.
_QUARTER, _PARTS = 16, 4
#: Bytes of a line of global memory.
LINE = 128


@dataclass(frozen=True, slots=True)
class Product:
    """One instruction of the tensor core.

    Attributes:
        rows: rows of D that one multiprocessor computes, or one warp for ``wgmma``.
        columns: columns of D, N of the instruction.
        columns_read: rows of B that one multiprocessor reads from its shared memory.
        depth: bytes of a row of A that the instruction multiplies: 32 for each dense kind.
        ctas: CTAs that execute it together.
        a_in_shared: whether A comes from shared memory, not from tensor memory or registers.
        elements: elements of K.
        accumulates: whether it adds to D.
    """

    rows: int
    columns: int
    columns_read: int
    depth: int
    ctas: int
    a_in_shared: bool
    elements: int
    accumulates: bool = True

    @property
    def operand_bytes(self) -> float:
        """Bytes that the instruction reads from shared memory, in all CTAs that execute it."""
        # The four warps of a warpgroup read B together.
        b = self.columns_read / (_PARTS if self.rows == _QUARTER else 1)
        return (b + self.rows * self.a_in_shared) * self.depth * self.ctas


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy between global memory and shared memory, or within a cluster.

    Attributes:
        nbytes: bytes that one target gets.
        rows: rows of the box; 1 for bytes without a tensor map.
        source: what is read or written in global memory: the address of its array or bytes, and what tells
            which part it is. None within a cluster.
        targets: ranks of the CTAs of the cluster whose shared memory gets the bytes; empty for a store.
        loads: whether the bytes come from global memory.
        lines: lines of global memory that the copy touches, each as often as rows of the box lie in it.
        tensor_map: generic address of the tensor map; None for bytes without one.
    """

    nbytes: int
    rows: int
    source: tuple[int, Hashable] | None
    targets: tuple[int, ...]
    loads: bool
    lines: int = 0
    tensor_map: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadCopy:
    """Copies of a warp's threads from global to shared memory.

    Attributes:
        keeps: whether L1 keeps what they read.
    """

    keeps: bool


def lines_of(address: int, nbytes: int) -> int:
    """Return how many lines of global memory ``nbytes`` at ``address`` touch."""
    return (address % LINE + nbytes - 1) // LINE + 1 if nbytes else 0


Work = Product | Copy | ThreadCopy
