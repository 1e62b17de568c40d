"""One product of a warp, for mma and wmma: gathers fragments, computes D = A*B + C, and scatters D.

:mod:`pyptx.sim.numbers.multiply` has the arithmetic; :mod:`.register_matrices` gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...layout.fragments import FragmentLayout
from ..code.semantic import Op
from ..numbers.multiply import Kinds
from .register_matrices import Gather, Scatter, full_warp

__all__ = ["WarpProduct", "planned"]

Array = NDArray[Any]
Plan = TypeVar("Plan")


class _Codes:
    """Extracts elements of A or B from their bytes: a 4-bit float lies in the middle bits of its byte."""

    def __init__(self, kind: str, bits: int) -> None:
        self.shift, self.mask = 0, 0
        if bits == 8 and kind == "e2m1":
            self.shift, self.mask = 2, 15
        elif kind in ("e3m2", "e2m3"):
            self.mask = 63

    def __call__(self, codes: Array) -> Array:
        return (codes >> np.uint8(self.shift)) & np.uint8(self.mask) if self.mask else codes


class WarpProduct:
    """The plan of one product instruction; calling it computes D.

    Args:
        layouts: fragments of A, B, C and D.
        kinds: types of A, B, C and D.
        multiply: ``multiply(a [k, m], b [k, n], c [m, n], ...)``, codes in and out.
        kept: for a sparse product: computes, from the metadata and B, the elements of B that the stored
            elements of each row of A multiply, ``[stored, m, n]``.
    """

    def __init__(
        self,
        op: Op,
        layouts: Iterable[FragmentLayout],
        kinds: Kinds,
        multiply: Callable[..., Array],
        kept: Callable[[Array, Array], Array] | None = None,
    ) -> None:
        a, b, c, d = layouts
        self.a, self.b, self.c, self.d = Gather(a, turned=True), Gather(b), Gather(c), Scatter(d)
        self.codes_a, self.codes_b = _Codes(kinds.a, a.bits), _Codes(kinds.b, b.bits)
        spec = next(spec for spec in op.binding.match.form.specs() if spec.name == "d")
        self.dtype = spec.scalar_types(op.chosen)[0].register_dtype
        self.multiply, self.kept = multiply, kept

    def __call__(self, lanes: Array, a: Any, b: Any, c: Any, *scales: Array, metadata: Any = None) -> Array:
        x = self.codes_a(self.a(full_warp(a, lanes)))
        y = self.codes_b(self.b(full_warp(b, lanes)))
        if self.kept is not None:
            y = self.kept(full_warp(metadata, lanes), y)
        result = self.d(self.multiply(x, y, self.c(full_warp(c, lanes)), *scales)).view(self.dtype)
        return result if len(lanes) == result.shape[1] else result[:, lanes]


def planned(op: Op, make: Callable[[Op], Plan]) -> Plan:
    """Return ``make(op)``, which is called once for each instruction."""
    plan: Plan | None = op.cache.get(make)
    if plan is None:
        plan = op.cache[make] = make(op)
    return plan
