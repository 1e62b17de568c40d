"""mma and mma.sp: gather matrices from fragments, multiply them, and scatter the result.

Some forms have no instruction of their own on an H200, and ptxas expands them; this module does the same. A
product of 8-bit floats becomes two products of f16 that start from zero (over the lower two, then the upper
two of each four elements), and an addition of C; m8n8k4 of f16 becomes ordinary f32 arithmetic. Forms of
later targets follow published measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError
from ...ir import Immediate
from ...layout.fragments import block_scales, mma_fragment, mma_metadata, product_extents
from ..code.semantic import Bound, Op, executes
from ..matrices.kept_elements import KeptElements
from ..matrices.register_matrices import SelectedGather, full_warp
from ..matrices.warp_product import WarpProduct, planned
from ..numbers.multiply import (
    Groups,
    Kinds,
    multiply_bits,
    multiply_bytes,
    multiply_doubles,
    multiply_floats,
    multiply_integers,
    multiply_quarters,
    multiply_scaled,
)
from ..threads.warp import Split

Array = NDArray[Any]

_executes = partial(executes, per="warp", collective="warp", registers_only=True)


def _kinds(op: Op) -> Kinds:
    """Return the types of A, B, C and D that the modifiers name."""
    return Kinds(*(op.chosen[name] for name in ("atype", "btype", "ctype", "dtype")))


def _depth(op: Op) -> int:
    """Return K of the matrix product: the number of products in each sum."""
    return product_extents(op.chosen["shape"])[2]


def _product(op: Op, multiply: Callable[..., Array], *, sparse: bool = False) -> WarpProduct:
    kinds, chosen = _kinds(op), op.chosen
    shape = chosen["shape"]
    majors = {"a": chosen.get("alayout"), "b": chosen.get("blayout")}
    layouts = [
        mma_fragment(operand, shape, getattr(kinds, operand), sparse=sparse, major=majors.get(operand))
        for operand in "abcd"
    ]
    kept = None
    if sparse:
        selector = op.binding.operands["selector"]
        assert isinstance(selector, Immediate)
        metadata = mma_metadata(shape, kinds.a)
        kept = KeptElements(metadata, _depth(op), layouts[0].bits, int(selector.value))
    return WarpProduct(op, layouts, kinds, multiply, kept)


# --- dense ----------------------------------------------------------------------------------------


def _halves_of_fours(k: int) -> Groups:
    """Return the indices along K of the lower two of each four elements, and the indices of the upper two."""
    each = np.arange(k)
    return each[each % 4 < 2], each[each % 4 >= 2]


def _dense(op: Op) -> WarpProduct:
    kinds = _kinds(op)
    return _product(op, partial(multiply_floats, kinds))


@_executes("mma.f16", "mma.alternate")
def mma_floats(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _dense)(lanes, a, b, c)


def _quarters(op: Op) -> WarpProduct:
    return _product(op, partial(multiply_quarters, _kinds(op)))


@_executes("mma.f16.m8n8k4")
def mma_quarters(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _quarters)(lanes, a, b, c)


def _bytes(op: Op) -> WarpProduct:
    groups = _halves_of_fours(_depth(op))
    return _product(op, partial(multiply_bytes, _kinds(op), groups=groups))


@_executes("mma.f8")
def mma_f8(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _bytes)(lanes, a, b, c)


_ALIGNED = Bound(
    "from published models, which this project has not measured: the hardware cuts each addend to 2**-25 of "
    "the largest addend, and cuts the sum to f32"
)
_later = partial(_executes, fidelity="bounded", bound=_ALIGNED)


@_later("mma.f8f6f4")
def mma_narrow(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _dense)(lanes, a, b, c)


def _doubles(op: Op) -> WarpProduct:
    return _product(op, partial(multiply_doubles, op.chosen.get("rnd", "rn")))


@_executes("mma.f64", "mma.f64.m8n8k4")
def mma_f64(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _doubles)(lanes, a, b, c)


def _integers(op: Op) -> WarpProduct:
    return _product(op, partial(multiply_integers, _kinds(op), "satfinite" in op.chosen))


@_executes("mma.i8", "mma.i4")
def mma_integers(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _integers)(lanes, a, b, c)


def _bits(op: Op) -> WarpProduct:
    return _product(op, partial(multiply_bits, op.chosen["bitOp"]))


@_executes("mma.b1")
def mma_bits(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any) -> Array:
    return planned(op, _bits)(lanes, a, b, c)


# --- sparse -----------------------------------------------------------------------------------------


def _sparse(op: Op) -> WarpProduct:
    return _product(op, partial(multiply_floats, _kinds(op)), sparse=True)


_FLOATS = (
    "mma.sp.f16.m16n8k16",
    "mma.sp.f16.m16n8k32",
    "mma.sp.alternate",
    "mma.sp.alternate.pairs",
)


@_executes(*_FLOATS)
def mma_sp_floats(
    s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any, metadata: Any, selector: Any
) -> Array:
    return planned(op, _sparse)(lanes, a, b, c, metadata=metadata)


def _sparse_bytes(op: Op) -> WarpProduct:
    groups = _halves_of_fours(_depth(op) // 2)
    return _product(op, partial(multiply_bytes, _kinds(op), groups=groups), sparse=True)


@_executes("mma.sp.f8")
def mma_sp_f8(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any, metadata: Any, selector: Any) -> Array:
    return planned(op, _sparse_bytes)(lanes, a, b, c, metadata=metadata)


@_later("mma.sp.f8.f16", "mma.sp.f8f6f4")
def mma_sp_narrow(
    s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any, metadata: Any, selector: Any
) -> Array:
    return planned(op, _sparse)(lanes, a, b, c, metadata=metadata)


def _sparse_integers(op: Op) -> WarpProduct:
    multiply = partial(multiply_integers, _kinds(op), "satfinite" in op.chosen)
    return _product(op, multiply, sparse=True)


@_executes("mma.sp.integer", "mma.sp.integer.all")
def mma_sp_integers(
    s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any, metadata: Any, selector: Any
) -> Array:
    return planned(op, _sparse_integers)(lanes, a, b, c, metadata=metadata)


# --- with scales --------------------------------------------------------------------------------------

#: Scales per row, by ``.scale_vec``; without this modifier, the kind fixes their number.
_SCALES = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_SCALES_OF_KIND = {"kind::mxf8f6f4": 1, "kind::mxf4": 2}


class _Scaled:
    """A product with block scales of A and B; selectors name the threads and bytes that hold the scales."""

    def __init__(self, op: Op, *, sparse: bool) -> None:
        chosen = op.chosen
        named = chosen.get("scale_vec")
        self.count = _SCALES_OF_KIND[chosen["kind"]] if named is None else _SCALES[named]
        multiply = partial(multiply_scaled, _kinds(op), chosen["stype"])
        self.product = _product(op, multiply, sparse=sparse)
        self.gathers: dict[tuple[str, int], SelectedGather] = {}

    def scales(self, operand: str, lanes: Array, words: Any, select: Any) -> Array:
        """Return the raw bits of the scales of one operand, ``[count, rows of A or columns of B]``."""
        byte, thread = (int(np.ravel(part)[0]) for part in select)
        key = operand, thread
        if key not in self.gathers:
            layout = block_scales(operand, self.count)
            self.gathers[key] = SelectedGather(layout, thread, turned=operand == "a")
        return self.gathers[key](full_warp(words, lanes) >> np.uint32(8 * byte))

    def __call__(
        self, lanes: Array, a: Any, b: Any, c: Any, scales: tuple[Any, Any, Any, Any], metadata: Any = None
    ) -> Array:
        of_a, of_b = self.scales("a", lanes, *scales[:2]), self.scales("b", lanes, *scales[2:])
        return self.product(lanes, a, b, c, of_a, of_b, metadata=metadata)


def _scaled(op: Op) -> _Scaled:
    return _Scaled(op, sparse=False)


def _sparse_scaled(op: Op) -> _Scaled:
    return _Scaled(op, sparse=True)


def _execute_scaled(s: Split, product: _Scaled, *operands: Any) -> Array:
    try:
        return product(*operands)
    except SpecError as error:
        raise s.warp.cta.machine.fault("bad-descriptor", error.message, s) from None


@_later("mma.mxf8f6f4", "mma.mxf4", "mma.nvf4")
def mma_scaled(s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any, *scales: Any) -> Array:
    x, of_x, y, of_y = scales
    return _execute_scaled(s, planned(op, _scaled), lanes, a, b, c, (x, of_x, y, of_y))


@_later("mma.sp.mxf8f6f4", "mma.sp.mxf4", "mma.sp.nvf4")
def mma_sp_scaled(
    s: Split, op: Op, lanes: Array, a: Any, b: Any, c: Any, metadata: Any, selector: Any, *scales: Any
) -> Array:
    x, of_x, y, of_y = scales
    return _execute_scaled(s, planned(op, _sparse_scaled), lanes, a, b, c, (x, of_x, y, of_y), metadata)
