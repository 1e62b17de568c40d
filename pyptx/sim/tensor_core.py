"""The numbers of tcgen05.mma: operands through their descriptors, D in tensor memory.

Products of 16-bit operands are exact in f32.  One instruction computes ``A @ B.T`` of its K = 16 (tf32:
8) in f32 in an unspecified order and adds it to D with one rounding; hardware cuts addends differently, so
results are *bounded*: within ``K * 2**-23 * (|A| @ |B|)`` of the exact sum over a whole reduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import PyptxError, UnsupportedError
from ..core.findings import RULES, Finding
from ..layout.instruction_descriptor import InstructionDescriptor
from ..layout.smem_descriptor import SmemDescriptor, tile_offsets
from ..layout.tensor_memory import unpack_address
from .memory import Actor, Fault

if TYPE_CHECKING:
    from .machine import CTA

__all__ = ["Mma", "read_operand"]

F32 = NDArray[np.float32]
_ELEMENT_BYTES = {"f16": 2, "tf32": 4}


def _descriptor_fault(cta: CTA, error: PyptxError, actor: Actor) -> Fault:
    if isinstance(error, UnsupportedError):
        return Fault(Finding(RULES["not-modelled"], error.message, actor.location, actor.who()))
    return cta.machine.fault("bad-descriptor", error.message, actor)


def read_operand(
    cta: CTA, word: int, rows: int, k: int, element: str, major: Any, nbytes: int, actor: Actor
) -> F32:
    """An operand tile ``f32[rows, k]`` from shared memory, as its descriptor lays it out."""
    try:
        descriptor = SmemDescriptor.decode(word)
        offsets = tile_offsets(descriptor, rows, k, nbytes, major)
    except PyptxError as error:
        raise _descriptor_fault(cta, error, actor) from None
    base = descriptor.address & ~1023
    low, high = _span(offsets)
    segment, offset = cta.machine.memory.access(
        "read",
        "shared",
        base + low,
        high - low + nbytes,
        actor,
        cta.reach,
        "async",
        align=1,
        check_written=False,
    )
    start = offset - low
    if segment.written is not None and not segment.written[offset : offset + high - low + nbytes].all():
        known = segment.written[start + offsets]
        if not known.all():
            position = start + int(offsets[tuple(np.argwhere(known == 0)[0])])
            cta.machine.memory.uninitialised(segment, position, nbytes, 0, actor)
    words = segment.words(nbytes)[(start // nbytes) + _indices(offsets, nbytes)]
    return _to_f32(words, element)


_SPANS: dict[int, tuple[Any, int, int]] = {}
_INDICES: dict[tuple[int, int], tuple[Any, NDArray[np.int64]]] = {}


def _span(offsets: NDArray[np.int64]) -> tuple[int, int]:
    """Smallest and largest offset, remembered for the cached arrays of :func:`tile_offsets`."""
    known = _SPANS.get(id(offsets))
    if known is None or known[0] is not offsets:
        known = _SPANS[id(offsets)] = (offsets, int(offsets.min()), int(offsets.max()))
    return known[1], known[2]


def _indices(offsets: NDArray[np.int64], nbytes: int) -> NDArray[np.int64]:
    known = _INDICES.get((id(offsets), nbytes))
    if known is None or known[0] is not offsets:
        known = _INDICES[id(offsets), nbytes] = (offsets, offsets // nbytes)
    return known[1]


def _to_f32(words: NDArray[Any], element: str) -> F32:
    if element == "bf16":
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "f16":
        return words.view(np.float16).astype(np.float32)
    # tf32 ignores the low 13 bits of the mantissa.
    return (words & np.uint32(0xFFFFE000)).view(np.float32)


#: OpenBLAS computes products of at most this many multiplications in the calling thread.  Waking its
#: threads costs more than an MMA, and far more where the cores are busy: 20 s, not 1 s, for 1024^3.
_SERIAL = 1 << 18


def _product(a: F32, b: F32) -> F32:
    """``a @ b.T``."""
    step = max(1, _SERIAL // a.size)
    if len(b) <= step:
        return a @ b.T
    return np.concatenate([a @ b[n : n + step].T for n in range(0, len(b), step)], axis=1)


class Mma:
    """One ``tcgen05.mma`` of cta_group::1 with A and B in shared memory."""

    __slots__ = ("a", "a_word", "accumulate", "b", "b_word", "cta", "d", "descriptor", "disabled", "scale")

    def __init__(
        self,
        cta: CTA,
        d: int,
        a_word: int,
        b_word: int,
        idesc: int,
        kind: str,
        accumulate: bool,
        disabled: tuple[int, ...] | None,
        scale: int,
        actor: Actor,
    ) -> None:
        self.cta, self.d, self.a_word, self.b_word = cta, d, a_word, b_word
        self.accumulate, self.disabled, self.scale = accumulate, disabled, scale
        try:
            self.descriptor = InstructionDescriptor.decode(idesc, kind)
        except PyptxError as error:
            raise _descriptor_fault(cta, error, actor) from None
        if kind not in _ELEMENT_BYTES or self.descriptor.sparse or self.descriptor.d_type != "f32":
            raise Fault(
                Finding(
                    RULES["not-modelled"],
                    f"tcgen05.mma kind::{kind} with D in {self.descriptor.d_type}"
                    f"{', sparse,' if self.descriptor.sparse else ''} is not modelled yet",
                    actor.location,
                    actor.who(),
                )
            )
        self.a: F32 | None = None
        self.b: F32 | None = None

    @property
    def accumulator(self) -> tuple[Any, ...]:
        """What makes two MMAs pipeline: same accumulator, shape and types."""
        d = self.descriptor
        return (self.d, d.m, d.n, d.kind, d.a_type, d.d_type)

    def read(self, actor: Actor) -> None:
        """Read A and B."""
        d = self.descriptor
        nbytes = _ELEMENT_BYTES[d.kind]
        self.a = read_operand(self.cta, self.a_word, d.m, d.k, d.a_type, d.a_major, nbytes, actor)
        self.b = read_operand(self.cta, self.b_word, d.n, d.k, d.b_type, d.b_major, nbytes, actor)

    def write(self, actor: Actor) -> None:
        """D = A @ B.T, plus D where it accumulates."""
        assert self.a is not None and self.b is not None
        d = self.descriptor
        # The operands are negated, not the product: a sum that cancels is +0 either way.
        product = _product(-self.a if d.negate_a != d.negate_b else self.a, self.b)
        self.a = self.b = None
        lane, column = unpack_address(self.d)
        tensor = self.cta.tensor
        where: Any
        if d.m == 128 and lane == 0:
            where = slice(0, 128)
        elif d.m == 64 and lane in (0, 16):
            # 16 lanes of each warp's 32.
            where = np.arange(64) % 16 + 32 * (np.arange(64) // 16) + lane
        else:
            raise self.cta.machine.fault(
                "tensor-memory", f"an accumulator of M = {d.m} cannot start at lane {lane}", actor
            )
        if self.disabled is not None:
            words = np.array(self.disabled, "<u4").view(np.uint8)
            lanes = np.arange(128)[where]
            enabled = np.unpackbits(words, bitorder="little")[lanes] == 0
            where, product = lanes[enabled], product[enabled]
            if not enabled.any():
                return
        at = (where, slice(column, column + d.n))
        cells = tensor.cells.view(np.float32)
        if self.accumulate:
            tensor.check("read", where, column, d.n, actor)
            old = cells[at]
            product = product + (old * np.float32(2.0**-self.scale) if self.scale else old)
        tensor.check("write", where, column, d.n, actor)
        cells[at] = product
