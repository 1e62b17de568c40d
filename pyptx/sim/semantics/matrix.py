"""ldmatrix, stmatrix and movmatrix: move matrices between rows in shared memory and a warp's registers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layout.fragments import matrix_fragment
from ..code.propagation import LOADED, copied, stored
from ..code.semantic import Op, executes
from ..matrices.register_matrices import Gather, Scatter, full_warp
from ..memory.access import AccessKind
from ..threads.warp import Split

Array = NDArray[Any]

#: Format in memory -> bits of a packed element (a row packs its 16 elements into its first bytes), and
#: whether the elements are sign-extended.
_PACKED = {"b4x16_p64": (4, False), "b6x16_p32": (6, False), "s4": (4, True)}


class _Rows:
    """The matrices of one instruction: number and size of their rows, and the registers that hold them."""

    def __init__(self, op: Op) -> None:
        chosen = op.chosen
        num = int(chosen["num"][1:])
        layout = matrix_fragment(chosen["shape"], num, trans="trans" in chosen)
        self.rows, self.bits = layout.rows * num, layout.bits
        self.form = (num, layout.rows, layout.columns) if num > 1 else (layout.rows, layout.columns)
        self.packed, self.signed = _PACKED[chosen["src_fmt"]] if "src_fmt" in chosen else (0, False)
        #: Bytes of a row that the instruction accesses; ``align`` is the alignment of a row's address.
        self.nbytes = layout.columns * (self.packed or self.bits) // 8
        self.align = 8 if self.signed else 16
        self.gather, self.scatter = Gather(layout), Scatter(layout)


def _rows(op: Op) -> _Rows:
    found: _Rows | None = op.cache.get(_Rows)
    if found is None:
        found = op.cache[_Rows] = _Rows(op)
    return found


def _unpacked(data: Array, bits: int, signed: bool) -> Array:
    """Return rows of 16 packed elements, first element in the low bits, with one byte per element."""
    stream = np.unpackbits(data, axis=1, bitorder="little").reshape(len(data), 16, bits)
    values = np.packbits(stream, axis=2, bitorder="little")[:, :, 0]
    if signed:
        values = (values ^ np.uint8(8)) - np.uint8(8)
    return values


@executes(
    "ldmatrix",
    "ldmatrix.m16n16",
    "ldmatrix.m16n16.unpack",
    "ldmatrix.m8n16.unpack",
    "ldmatrix.m8n16.extend",
    per="warp",
    collective="warp",
    undefined=LOADED,
)
def ldmatrix(s: Split, op: Op, lanes: Array, address: Array) -> Array:
    """Load matrices from shared memory (PTX ISA #warp-level-matrix-instructions-ldmatrix)."""
    rows = _rows(op)
    given = lanes < rows.rows
    acting, where = (lanes, address) if given.all() else (lanes[given], address[given])
    s.acting = acting
    data = np.zeros((rows.rows, rows.nbytes), np.uint8)
    each = np.arange(rows.nbytes)
    for which, segment, offsets in s.access(
        AccessKind.READ, op, acting, where, rows.nbytes, align=rows.align
    ):
        data[acting[which]] = segment.data[offsets[:, None] + each]
    codes = _unpacked(data, rows.packed, rows.signed) if rows.packed else data.view(f"u{rows.bits // 8}")
    result = rows.scatter(codes.reshape(rows.form))
    return result if len(lanes) == result.shape[1] else result[:, lanes]


@executes("stmatrix", "stmatrix.m16n8", undefined=stored("r"), per="warp", collective="warp")
def stmatrix(s: Split, op: Op, lanes: Array, address: Array, registers: Any) -> None:
    """Store matrices to shared memory (PTX ISA #warp-level-matrix-instructions-stmatrix)."""
    rows = _rows(op)
    codes = rows.gather(full_warp(registers, lanes)).reshape(rows.rows, -1)
    data = np.ascontiguousarray(codes).view(np.uint8)
    given = lanes < rows.rows
    acting, where = (lanes, address) if given.all() else (lanes[given], address[given])
    s.acting = acting
    each = np.arange(rows.nbytes)
    for which, segment, offsets in s.access(
        AccessKind.WRITE, op, acting, where, rows.nbytes, align=rows.align
    ):
        segment.data[offsets[:, None] + each] = data[acting[which]]


_TURN = partial(matrix_fragment, "m8n8", 1)


@executes("movmatrix", undefined=copied("a"), per="warp", collective="warp")
def movmatrix(s: Split, op: Op, lanes: Array, a: Any) -> Array:
    """Transpose a matrix in registers (PTX ISA #warp-level-matrix-instructions-movmatrix)."""
    both = op.cache.get("both")
    if both is None:
        both = op.cache["both"] = Gather(_TURN()), Scatter(_TURN(trans=True))
    gather, scatter = both
    return np.asarray(scatter(gather(full_warp(a, lanes)))[0, lanes])
