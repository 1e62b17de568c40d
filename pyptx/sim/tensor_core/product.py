"""The numbers of tcgen05.mma: D = A*B + D, D in tensor memory.

Products of factors are exact in f32 (with block scales, in f64).  One instruction computes ``A @ B.T`` of
its K in an unspecified order and adds it to D with one rounding; hardware cuts addends differently, so
results are *bounded*: within ``K * 2**-23 * (|A| @ |B|)`` of the exact sum over a whole reduction.  Integers
are exact: no sum of their products exceeds the 24 bits of an f32.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import PyptxError
from ...layout.instruction_descriptor import InstructionDescriptor, mma_kind
from ...layout.tensor_memory import unpack_address
from ...layout.zero_column_mask import ZeroColumnMask
from ..memory import Actor, Fault
from ..numbers.products import round_to_f16
from ..numbers.single import NAN
from .operands import contained, descriptor_fault, not_modelled, read_shared
from .scaling import read_scales, scaled
from .sparsity import expanded, read_indices

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["Mma", "Operands"]

Array = NDArray[Any]

#: Bits of an element of A in tensor memory; other kinds have bytes.
_CONTAINERS = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}
#: Rows of D in the half-used lanes of layout F.
_HALF = np.arange(64) % 16 + 32 * (np.arange(64) // 16)

#: OpenBLAS computes products of at most this many multiplications in the calling thread.  Waking its
#: threads costs more than an MMA, and far more where the cores are busy: 20 s, not 1 s, for 1024^3.
_SERIAL = 1 << 18


def _product(a: Array, b: Array) -> Array:
    """``a @ b.T``."""
    step = max(1, _SERIAL // a.size)
    if len(b) <= step:
        return np.asarray(a @ b.T)
    return np.concatenate([a @ b[n : n + step].T for n in range(0, len(b), step)], axis=1)


@dataclass(frozen=True, slots=True)
class Operands:
    """What the instruction was given. Addresses of tensor memory, descriptors, and options.

    ``a`` is an address where ``a_in_tensor_memory``, else a descriptor; ``scales`` are the addresses of the
    scales of A and B and how many a row has; ``halvings`` is scale-input-d; ``disabled`` the mask of lanes.
    """

    d: int
    a: int
    b: int
    idesc: int
    accumulate: bool
    a_in_tensor_memory: bool = False
    ws: bool = False
    metadata: int | None = None
    scales: tuple[int, int, int] | None = None
    disabled: tuple[int, ...] | None = None
    halvings: int = 0
    zeros: int | None = None


class Mma:
    """One ``tcgen05.mma`` of cta_group::1."""

    __slots__ = ("cta", "descriptor", "first", "lane", "mask", "operands", "pairs", "where")

    def __init__(self, cta: CTA, kind: str, operands: Operands, actor: Actor) -> None:
        self.cta, self.operands = cta, operands
        o = operands
        if kind == "ti16":
            raise not_modelled("tcgen05.mma kind::ti16 is not modelled yet", actor)
        block = mma_kind(kind).k // o.scales[2] if o.scales is not None else None
        try:
            d = InstructionDescriptor.decode(
                o.idesc, kind, ws=o.ws, a_in_tensor_memory=o.a_in_tensor_memory, block=block
            )
            self.mask = (
                ZeroColumnMask.decode(o.zeros) if o.zeros is not None else ZeroColumnMask(enabled=False)
            )
        except PyptxError as error:
            raise descriptor_fault(cta, error, actor) from None
        self.descriptor = d
        if d.wide_k:
            raise not_modelled(f"tcgen05.mma kind::{kind} with K = 96 is not modelled yet", actor)
        if d.sparse != (o.metadata is not None):
            raise self._bad(
                f"the instruction descriptor says {'sparse' if d.sparse else 'dense'}, "
                f"the instruction is {'sparse' if o.metadata is not None else 'dense'}",
                actor,
            )
        if self.mask.shift > d.max_shift:
            raise self._bad(
                f"a shift of B's columns by {self.mask.shift}: the descriptor allows {d.max_shift}",
                actor,
            )
        self.lane, self.first = unpack_address(o.d)
        self.where = self._lanes(self.lane, "an accumulator", actor)
        #: Factors of the products that lie below each other in D's lanes.
        self.pairs: list[tuple[Array, Array]] = []

    def _bad(self, message: str, actor: Actor) -> Fault:
        return self.cta.machine.fault("bad-descriptor", message, actor)

    def _lanes(self, lane: int, what: str, actor: Actor) -> Any:
        """The lanes in which a matrix of M rows lies that begins at ``lane``."""
        m, ws = self.descriptor.m, self.operands.ws
        if lane == 0 and (m == 128 or ws):
            return slice(0, 128)
        if lane in (0, 16) and m == 64 and not ws:
            return _HALF + lane
        raise self.cta.machine.fault("tensor-memory", f"{what} of M = {m} cannot start at lane {lane}", actor)

    @property
    def accumulator(self) -> Hashable:
        """What makes two MMAs pipeline: same accumulator, shape and kind."""
        d = self.descriptor
        return (self.operands.d, d.m, d.n, d.k, d.kind, d.ws)

    # --- read -------------------------------------------------------------------------------------

    def read(self, actor: Actor) -> None:
        """Read A and B, and what says how to take them."""
        o, d = self.operands, self.descriptor
        a, b = self._a(actor), self._b(actor)
        if o.metadata is not None:
            a = self._expanded(a, o.metadata, actor)
        if d.negate_a != d.negate_b:
            # An operand is negated, not the product: a sum that cancels is +0 either way.
            a = -a
        if o.scales is not None:
            self.pairs = self._scaled(a[0], b, actor)
            return
        if self.mask.enabled:
            b[self.mask.zeros(d.m, d.n)] = 0
        parts = 128 // d.m if o.ws else 1
        if parts == 1:
            self.pairs = [(a[0], b)]
            return
        # D's columns lie in parts, one below the other, each with a row of A of its own.
        self.pairs = [(a[n % len(a)], part) for n, part in enumerate(np.split(b, parts))]

    def _a(self, actor: Actor) -> Array:
        """A ``[copies, m, k]`` as stored: half of K if it is sparse."""
        o, d = self.operands, self.descriptor
        k = d.k // 2 if d.sparse else d.k
        nibbles = mma_kind(d.kind).k == 64
        if not o.a_in_tensor_memory:
            return read_shared(self.cta, o.a, d.m, k, d.a_type, d.a_major, actor, nibbles=nibbles)[None]
        lane, first = unpack_address(o.a)
        self._aligned(lane, "A", actor)
        lanes = self._lanes(lane, "an A", actor)
        columns = k * _CONTAINERS.get(d.kind, 8) // 32
        tensor = self.cta.tensor
        tensor.check("read", lanes, first, columns, actor)
        values = contained(tensor.cells[lanes, first : first + columns], d.a_type, nibbles)
        return values.reshape(-1, d.m, k)

    def _b(self, actor: Actor) -> Array:
        o, d = self.operands, self.descriptor
        nibbles = mma_kind(d.kind).k == 64
        return read_shared(
            self.cta, o.b, d.n, d.k, d.b_type, d.b_major, actor, nibbles=nibbles, first=self.mask.shift
        )

    def _aligned(self, lane: int, what: str, actor: Actor) -> None:
        """#tcgen05-sparse-matrices-alignment-restriction, and layout F of A."""
        if self.descriptor.m == 64 and not self.operands.ws and lane != self.lane:
            raise self.cta.machine.fault(
                "tensor-memory",
                f"{what} begins at lane {lane}, D at {self.lane}: M = 64 needs the same",
                actor,
            )

    def _expanded(self, a: Array, metadata: int, actor: Actor) -> Array:
        d = self.descriptor
        self._aligned(unpack_address(metadata)[0], "the sparsity metadata", actor)
        indices = read_indices(self.cta, metadata, d.m, d.kind, d.sparsity_selector, self.operands.ws, actor)
        return expanded(a, indices, d.kind)

    def _scaled(self, a: Array, b: Array, actor: Actor) -> list[tuple[Array, Array]]:
        o, d = self.operands, self.descriptor
        assert o.scales is not None and d.scale_type is not None
        at_a, at_b, count = o.scales
        try:
            of_a = read_scales(self.cta, at_a, "A", d.m, count, d.scale_a_id, d.scale_type, actor)
            of_b = read_scales(self.cta, at_b, "B", d.n, count, d.scale_b_id, d.scale_type, actor)
        except PyptxError as error:
            raise descriptor_fault(self.cta, error, actor) from None
        same = all(np.array_equal(of, of[:1].repeat(4, 0), equal_nan=True) for of in (of_a, of_b))
        if same:
            return [(scaled(a, of_a[0]), scaled(b, of_b[0]))]
        # Somebody did not copy the scales to every quarter of the lanes: each computes with its own.
        rows = [slice(32 * q, 32 * q + 32) for q in range(4)]
        return [(scaled(a[r], of_a[q, r]), scaled(b, of_b[q])) for q, r in enumerate(rows)]

    # --- write ------------------------------------------------------------------------------------

    def write(self, actor: Actor) -> None:
        """D = A @ B.T, plus D where it accumulates."""
        o, tensor = self.operands, self.cta.tensor
        products = [_product(a, b) for a, b in self.pairs]
        self.pairs = []
        product = products[0] if len(products) == 1 else np.concatenate(products)
        where, columns = self.where, product.shape[1]
        if o.disabled is not None:
            words = np.array(o.disabled, "<u4").view(np.uint8)
            lanes = np.arange(128)[where]
            enabled = np.unpackbits(words, bitorder="little")[lanes] == 0
            where, product = lanes[enabled], product[enabled]
            if not enabled.any():
                return
        at = (where, slice(self.first, self.first + columns))
        if o.accumulate:
            tensor.check("read", where, self.first, columns, actor)
        result = self._sum(product, tensor.cells[at] if o.accumulate else None)
        tensor.check("write", where, self.first, columns, actor)
        tensor.cells[at] = result

    def _sum(self, product: Array, old: Array | None) -> Array:
        """Cells of D; a 16-bit D lies in the low half of its cells."""
        d = self.descriptor
        if d.d_type == "s32":
            total = product.astype(np.int64)
            if old is not None:
                total += old.view(np.int32)
            if d.saturate:
                total = total.clip(-(1 << 31), (1 << 31) - 1)
            return total.astype(np.uint32)
        if old is not None:
            before: Array = (
                old.astype(np.uint16).view(np.float16).astype(np.float32)
                if d.d_type == "f16"
                else old.view(np.float32)
            )
            halvings = self.operands.halvings
            product = product + (before * np.float32(2.0**-halvings) if halvings else before)
        if d.d_type == "f16":
            return round_to_f16(product).view(np.uint16).astype(np.uint32)
        result: Array = product.astype(np.float32, copy=False)
        nan = np.isnan(result)
        if np.count_nonzero(nan):
            result = np.where(nan, NAN, result)
        return result.view(np.uint32)
