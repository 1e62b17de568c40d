"""wmma: load and store fragments by rows or columns, and multiply them.

PTX does not define the layout of a fragment; this module uses the layout of an H200.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layout.wmma_fragments import FragmentOperand, wmma_fragment
from ..code.propagation import LOADED, stored
from ..code.semantic import Op, executes
from ..matrices.register_matrices import Gather, Scatter, full_warp, split
from ..matrices.warp_product import WarpProduct, planned
from ..memory.access import AccessKind
from ..numbers.multiply import (
    WHOLE,
    Kinds,
    multiply_bits,
    multiply_doubles,
    multiply_floats,
    multiply_integers,
)
from ..threads.warp import Split

Array = NDArray[Any]


class _Lines:
    """A matrix in memory, stored line by line; a line is a row or a column. Also holds its fragment."""

    def __init__(self, op: Op) -> None:
        fragment: FragmentOperand = op.traits
        layout = fragment.layout(op.chosen)
        by_rows = op.chosen["layout"] == "row"
        self.lines, self.length = (layout.rows, layout.columns) if by_rows else (layout.columns, layout.rows)
        self.turned, self.bits = not by_rows, layout.bits
        # A register whose elements are adjacent in memory is read or written in one access.
        self.align = max(4 if fragment.adjacent(op.chosen) else 0, layout.bits // 8)
        self.gather, self.scatter = Gather(layout), Scatter(layout)
        spec = next(spec for spec in op.binding.match.form.specs() if spec.name == "r")
        self.dtype = spec.scalar_types(op.chosen)[0].register_dtype
        self.vector = spec.length(op.chosen) is not None

    @property
    def nbytes(self) -> int:
        """Number of bytes of one line, which is a row or a column of the matrix."""
        return self.length * self.bits // 8

    def addresses(self, address: Array, stride: Any) -> Array:
        """Return the address of each line; all threads give the same address and stride."""
        elements = self.length if stride is None else int(np.ravel(stride)[0])
        return address[:1] + np.arange(self.lines) * (elements * self.bits // 8)


@executes(
    "wmma.load.a",
    "wmma.load.a.bits",
    undefined=LOADED,
    per="warp",
    collective="warp",
    traits=FragmentOperand("a", "atype"),
)
@executes(
    "wmma.load.b",
    "wmma.load.b.bits",
    undefined=LOADED,
    per="warp",
    collective="warp",
    traits=FragmentOperand("b", "btype"),
)
@executes(
    "wmma.load.c", undefined=LOADED, per="warp", collective="warp", traits=FragmentOperand("c", "ctype")
)
def load(s: Split, op: Op, lanes: Array, address: Array, stride: Any = None) -> Array:
    """Load a fragment from memory (PTX ISA #warp-level-matrix-instructions-wmma-ld)."""
    plan = planned(op, _Lines)
    data = np.empty((plan.lines, plan.nbytes), np.uint8)
    each, where = np.arange(plan.nbytes), plan.addresses(address, stride)
    readers = np.resize(lanes, plan.lines)
    for which, segment, offsets in s.access(
        AccessKind.READ, op, readers, where, plan.nbytes, align=plan.align
    ):
        data[which] = segment.data[offsets[:, None] + each]
    matrix = split(data, plan.bits).reshape(plan.lines, plan.length)
    result = plan.scatter(matrix.T if plan.turned else matrix).view(plan.dtype)
    return result if len(lanes) == result.shape[1] else result[:, lanes]


@executes(
    "wmma.store.d", undefined=stored("r"), per="warp", collective="warp", traits=FragmentOperand("d", "type")
)
def store(s: Split, op: Op, lanes: Array, address: Array, registers: Any, stride: Any = None) -> None:
    """Store a fragment to memory (PTX ISA #warp-level-matrix-instructions-wmma-st)."""
    plan = planned(op, _Lines)
    matrix = plan.gather(full_warp(registers, lanes))
    data = np.ascontiguousarray(matrix.T if plan.turned else matrix).view(np.uint8)
    each, where = np.arange(plan.nbytes), plan.addresses(address, stride)
    writers = np.resize(lanes, plan.lines)
    for which, segment, offsets in s.access(
        AccessKind.WRITE, op, writers, where, plan.nbytes, align=plan.align
    ):
        segment.data[offsets[:, None] + each] = data[which]


# --- products ---------------------------------------------------------------------------------------


def _product(op: Op, kinds: Kinds, multiply: Any) -> WarpProduct:
    shape = op.chosen["shape"]
    layouts = [wmma_fragment(operand, shape, getattr(kinds, operand)) for operand in "abcd"]
    return WarpProduct(op, layouts, kinds, multiply)


def _kinds(op: Op) -> Kinds:
    chosen = op.chosen
    # Products of halves name only the types of C and D.
    return Kinds(chosen.get("atype", "f16"), chosen.get("btype", "f16"), chosen["ctype"], chosen["dtype"])


def _floats(op: Op) -> WarpProduct:
    kinds = _kinds(op)
    # For tf32 the hardware sums over four columns of A at a time.
    groups = (slice(0, 4), slice(4, 8)) if kinds.a == "tf32" else WHOLE
    return _product(op, kinds, partial(multiply_floats, kinds, groups=groups))


@executes("wmma.mma.f16", "wmma.mma.alternate", per="warp", collective="warp")
def wmma_floats(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _floats)(lanes, a, b, c)


def _integers(op: Op) -> WarpProduct:
    kinds = _kinds(op)
    return _product(op, kinds, partial(multiply_integers, kinds, "satfinite" in op.chosen))


@executes("wmma.mma.i8", "wmma.mma.i4", per="warp", collective="warp")
def wmma_integers(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _integers)(lanes, a, b, c)


def _doubles(op: Op) -> WarpProduct:
    return _product(op, _kinds(op), partial(multiply_doubles, op.chosen.get("rnd", "rn")))


@executes("wmma.mma.f64", per="warp", collective="warp")
def wmma_doubles(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _doubles)(lanes, a, b, c)


def _bits(op: Op) -> WarpProduct:
    return _product(op, _kinds(op), partial(multiply_bits, op.chosen["op"]))


@executes("wmma.mma.b1", per="warp", collective="warp")
def wmma_bits(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _bits)(lanes, a, b, c)
