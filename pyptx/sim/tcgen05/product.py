"""The arithmetic of tcgen05.mma: D = A*B + D, with D in tensor memory.

Products of factors are exact in f32 (in f64 with block scales). One instruction computes ``A @ B.T`` over its
K in an unspecified order and adds the product to D with one rounding; several instructions that add to one
accumulator may share this rounding (:mod:`.deferred`). The hardware cuts addends differently, so results are
*bounded*: within ``K * 2**-23 * (|A| @ |B|)`` of the exact sum over a whole reduction. Integers are exact: no
sum of their products exceeds the 24 bits of an f32.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import PyptxError
from ...core.records import dataclass
from ...layout.tcgen05_instruction_descriptor import InstructionDescriptor, mma_kind
from ...layout.zero_column_mask import ZeroColumnMask
from ..engine.work import Product
from ..memory.access import AccessKind
from ..memory.segments import Actor, Fault
from ..numbers.products import round_to_f16
from ..numbers.single import canonical
from .addresses import cell_at
from .copies import shift_down
from .operands import contained, descriptor_fault, not_modeled, read_shared
from .scaling import read_scales, scaled
from .sparsity import expanded, read_indices
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["MmaOperation", "Operands"]

Array = NDArray[Any]

#: Kind -> bits of an element of A in tensor memory. Kinds that are not listed use 8 bits.
_CONTAINERS = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}
#: Lanes of the 64 rows of D in layout F, which uses half of the lanes.
_HALF = np.arange(64) % 16 + 32 * (np.arange(64) // 16)


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one tcgen05.mma: tensor-memory addresses, descriptors and options.

    ``a`` is an address if ``a_in_tensor_memory``, else a descriptor. ``scales`` holds the addresses of the
    scales of A and B, and the number of scales per row. ``halvings`` is scale-input-d. ``disabled`` is the
    disable-output-lane mask.
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


class MmaOperation:
    """One ``tcgen05.mma`` of one CTA, or of a pair of CTAs with the even rank first.

    Each CTA of a pair holds half of the rows of A and D, at the same addresses, and half of the columns of B
    in shared memory: ``BLayout`` and ``CLayout`` of CUTLASS ``cute/atom/mma_traits_sm100.hpp``.
    """

    __slots__ = (
        "ctas",
        "descriptor",
        "first",
        "held",
        "lane",
        "mask",
        "operands",
        "pairs",
        "parts",
        "where",
    )

    def __init__(self, ctas: tuple[CTA, ...], kind: str, operands: Operands, actor: Actor) -> None:
        self.ctas, self.operands = ctas, operands
        o = operands
        if kind == "ti16":
            raise not_modeled("tcgen05.mma kind::ti16 is not modeled yet", actor)
        block = mma_kind(kind).k // o.scales[2] if o.scales is not None else None
        try:
            d = InstructionDescriptor.decode(
                o.idesc,
                kind,
                cta_group=len(ctas),
                ws=o.ws,
                a_in_tensor_memory=o.a_in_tensor_memory,
                block=block,
            )
            self.mask = (
                ZeroColumnMask.decode(o.zeros) if o.zeros is not None else ZeroColumnMask(enabled=False)
            )
        except PyptxError as error:
            raise descriptor_fault(ctas[0], error, actor) from None
        self.descriptor = d
        if d.wide_k and ctas[0].grid.program.target.number < 103:
            raise self._bad("K = 96 (bit 31 of the instruction descriptor) needs sm_103a", actor)
        if d.wide_k and o.a_in_tensor_memory:
            raise not_modeled(
                f"tcgen05.mma kind::{kind}: K = 96 with A in tensor memory is not modeled yet", actor
            )
        if d.sparse != (o.metadata is not None):
            raise self._bad(
                f"the instruction descriptor is {'sparse' if d.sparse else 'dense'}, "
                f"but the instruction is {'sparse' if o.metadata is not None else 'dense'}",
                actor,
            )
        if self.mask.shift > d.max_shift:
            raise self._bad(
                f"the zero-column mask shifts B's columns by {self.mask.shift}; the instruction descriptor "
                f"allows at most {d.max_shift}",
                actor,
            )
        #: Number of rows of D in one CTA; ``parts`` is the number of parts of D's columns, which lie one
        #: below the other in the lanes.
        self.held = d.m // len(ctas)
        folded = o.ws or (len(ctas) == 2 and not d.sparse)
        self.parts = 128 // self.held if folded else 1
        self.lane, self.first = cell_at(ctas[0], o.d, actor)
        self.where = self._lanes(self.lane, "an accumulator", actor)
        #: For each CTA, the factors of the products that lie one below the other in D's lanes.
        self.pairs: list[list[tuple[Array, Array]]] = []

    def _bad(self, message: str, actor: Actor) -> Fault:
        return self.ctas[0].machine.fault("bad-descriptor", message, actor)

    def _lanes(self, lane: int, what: str, actor: Actor) -> Any:
        """Return the lanes of tensor memory that a matrix of M rows, beginning at ``lane``, occupies.

        Raises a fault if a matrix cannot begin there.
        """
        if lane == 0 and self.held * self.parts == 128:
            return slice(0, 128)
        if lane in (0, 16) and self._half:
            return _HALF + lane
        raise self.ctas[0].machine.fault(
            "tensor-memory", f"{what} of M = {self.descriptor.m} cannot start at lane {lane}", actor
        )

    @property
    def _half(self) -> bool:
        """True if D has 64 rows in each CTA, which use half of the 128 lanes: layouts F and C."""
        return self.held * self.parts == 64

    @property
    def accumulator(self) -> Hashable:
        """A key that is equal for two MMAs that execute in order: same accumulator, shape and kind."""
        d = self.descriptor
        return (self.operands.d, d.m, d.n, d.k, d.kind, d.ws)

    def asked(self) -> Product:
        """Return what the instruction asks of the tensor cores."""
        d, o = self.descriptor, self.operands
        return Product(
            rows=self.held,
            columns=d.n,
            columns_read=d.n // len(self.ctas),
            depth=48 if d.wide_k else 32,
            ctas=len(self.ctas),
            a_in_shared=not o.a_in_tensor_memory,
            elements=d.k,
            accumulates=o.accumulate,
        )

    # --- read -------------------------------------------------------------------------------------

    def read(self, actor: Actor) -> None:
        """Read A and B, and their metadata, scales and zero-column mask."""
        b = self._b(actor)
        if self.mask.enabled:
            b = b.copy()
            b[self.mask.zeros(self.descriptor.m, self.descriptor.n)] = 0
        self.pairs = [self._factors(cta, b, actor) for cta in self.ctas]

    def _factors(self, cta: CTA, b: Array, actor: Actor) -> list[tuple[Array, Array]]:
        """Return the matrices A and B that one CTA multiplies: one pair for each part of D's columns."""
        o, d = self.operands, self.descriptor
        a = self._a(cta, actor)
        if o.metadata is not None:
            a = self._expanded(cta, a, o.metadata, actor)
        if d.negate_a != d.negate_b:
            # Negate an operand, not the product: a sum that cancels is +0 with and without the negation.
            a = -a
        if o.scales is not None:
            return self._scaled(cta, a, b, actor)
        if self.parts == 1:
            return [(a[0], b)]
        # Each part of D's columns uses its own copy of A.
        return [(a[n % len(a)], part) for n, part in enumerate(np.split(b, self.parts))]

    def _a(self, cta: CTA, actor: Actor) -> Array:
        """Return the CTA's rows of A as stored, ``[copies, rows, k]``; for a sparse A, k is half of K."""
        o, d = self.operands, self.descriptor
        k = d.k // 2 if d.sparse else d.k
        nibbles = mma_kind(d.kind).k == 64
        if not o.a_in_tensor_memory:
            return read_shared(cta, o.a, self.held, k, d.a_type, d.a_major, actor, nibbles=nibbles)[None]
        lane, first = cell_at(cta, o.a, actor)
        self._aligned(lane, "A", actor)
        lanes = self._lanes(lane, "an A", actor)
        columns = k * _CONTAINERS.get(d.kind, 8) // 32
        tensor = cta.unit(TensorMemory)
        tensor.check(AccessKind.READ, lanes, first, columns, actor)
        values = contained(tensor.cells[lanes, first : first + columns], d.a_type, nibbles)
        return values.reshape(-1, self.held, k)

    def _b(self, actor: Actor) -> Array:
        o, d = self.operands, self.descriptor
        nibbles = mma_kind(d.kind).k == 64
        parts = [
            read_shared(
                cta,
                o.b,
                d.n // len(self.ctas),
                d.k,
                d.b_type,
                d.b_major,
                actor,
                nibbles=nibbles,
                first=self.mask.shift,
            )
            for cta in self.ctas
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _aligned(self, lane: int, what: str, actor: Actor) -> None:
        """Raise a fault if D uses half of the lanes and another matrix begins at another lane than D.

        PTX ISA #tcgen05-sparse-matrices-alignment-restriction, and layouts F and C of A.
        """
        if self._half and lane != self.lane:
            raise self.ctas[0].machine.fault(
                "tensor-memory",
                f"{what} begins at lane {lane} and D at lane {self.lane}: "
                f"with M = {self.descriptor.m} both must begin at the same lane",
                actor,
            )

    def _expanded(self, cta: CTA, a: Array, metadata: int, actor: Actor) -> Array:
        d = self.descriptor
        self._aligned(cell_at(cta, metadata, actor)[0], "the sparsity metadata", actor)
        return expanded(a, read_indices(cta, metadata, d, actor), d.kind)

    def _scaled(self, cta: CTA, a: Array, b: Array, actor: Actor) -> list[tuple[Array, Array]]:
        """Return the factors of each part of D's columns: ``a[copies, rows, k]`` and ``b``, scaled."""
        assert self.operands.scales is not None
        at_a, at_b, count = self.operands.scales
        if self.descriptor.wide_k:
            count = count * 3 // 2
        try:
            of_a = read_scales(cta, at_a, "A", count, self.descriptor, actor)
            of_b = read_scales(cta, at_b, "B", count, self.descriptor, actor)
        except PyptxError as error:
            raise descriptor_fault(cta, error, actor) from None
        # A new axis counts the parts of D's columns; each part lies in some of the quarters of the lanes.
        b = b.reshape(self.parts, -1, b.shape[-1])
        of_b = of_b.reshape(len(of_b), self.parts, -1, count)
        same = all(np.array_equal(of, of[:1].repeat(len(of), 0), equal_nan=True) for of in (of_a, of_b))
        if same:
            return [(scaled(a[p % len(a)], of_a[0]), scaled(b[p], of_b[0, p])) for p in range(self.parts)]
        # If the quarters of the lanes hold different scales, each quarter computes with its own scales.
        factors = []
        quarters = 4 // self.parts
        for q in range(4):
            p, r = q // quarters, slice(32 * (q % quarters), 32 * (q % quarters) + 32)
            factors.append((scaled(a[p % len(a), r], of_a[q, r]), scaled(b[p], of_b[q % quarters, p])))
        return factors

    def shift(self, actor: Actor) -> None:
        """Execute ``.ashift``: move the rows of A in tensor memory down, after the MMA has read A.

        Which rows move, and when, is from CUTLASS
        ``examples/python/CuTeDSL/experimental/primitives/tcgen05/1cta_mma_a_from_tmem.py``, seen on a B200.
        """
        if self.held * self.parts != 128 or self.parts > 1:
            raise self._bad(f".ashift with M = {self.descriptor.m}; each CTA must have 128 rows of A", actor)
        shift_down(self.ctas, self.operands.a, actor, quarters=4)

    # --- write ------------------------------------------------------------------------------------

    def write(self, actor: Actor) -> None:
        """Write D = A @ B.T, plus D if the instruction accumulates."""
        for number, (cta, pairs) in enumerate(zip(self.ctas, self.pairs, strict=True)):
            self._write(cta, number, pairs, actor)
        self.pairs = []

    def _write(self, cta: CTA, number: int, pairs: list[tuple[Array, Array]], actor: Actor) -> None:
        """Write the part of D that CTA ``number`` of the pair holds."""
        o, tensor = self.operands, cta.unit(TensorMemory)
        if self._only_adds(pairs):
            a, b = pairs[0]
            tensor.defer((self.lane, self.descriptor.m), self.where, self.first, a, b, o.accumulate, actor)
            return
        products = [a @ b.T for a, b in pairs]
        product = products[0] if len(products) == 1 else np.concatenate(products)
        where, columns = self.where, product.shape[1]
        if o.disabled is not None:
            words = np.array(o.disabled[4 * number : 4 * number + 4], "<u4").view(np.uint8)
            lanes = np.arange(128)[where]
            enabled = np.unpackbits(words, bitorder="little")[lanes] == 0
            where, product = lanes[enabled], product[enabled]
            if not enabled.any():
                return
        at = (where, slice(self.first, self.first + columns))
        if o.accumulate:
            tensor.check(AccessKind.READ, where, self.first, columns, actor)
        result = self._sum(product, tensor.cells[at] if o.accumulate else None)
        tensor.check(AccessKind.WRITE, where, self.first, columns, actor)
        tensor.cells[at] = result

    def _only_adds(self, pairs: list[tuple[Array, Array]]) -> bool:
        """True if the instruction only adds products to D in f32. The sum can then be deferred."""
        o = self.operands
        return (
            self.descriptor.d_type == "f32"
            and len(pairs) == 1
            and pairs[0][0].dtype == np.float32
            and o.disabled is None
            and not o.halvings
        )

    def _sum(self, product: Array, old: Array | None) -> Array:
        """Return the cells of D; a 16-bit D lies in the low half of each cell."""
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
        result: Array = canonical(product.astype(np.float32, copy=False))
        return result.view(np.uint32)
