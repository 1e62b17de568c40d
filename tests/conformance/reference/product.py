"""wgmma: operands taken apart byte by byte, their product in float64 or whole numbers.

Layouts from PTX ISA #asynchronous-warpgroup-level-matrix-instructions: descriptors in shared memory, fragments and
metadata in registers.  Sums: an H200 aligns all addends of one instruction to the largest and cuts them, for
fp8 far shorter; the bound is that, and the one rounding of D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .expected import Expected, decode

__all__ = ["DIGEST", "Operand", "Product"]

Numbers = NDArray[Any]

_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "b1": 1,
    "s32": 32,
}
_SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
#: What an addend may lose, as a part of the largest.
_CUT = {"e4m3": 2.0**-12, "e5m2": 2.0**-12}
_SHORT = 2.0**-24
#: Of D: where infinity begins, the step at one, the smallest step, and the smallest number that is not subnormal.
_LIMITS = {
    "f32": (2.0**128, 2.0**-22, 2.0**-149, 2.0**-126),
    "f16": (65520.0, 2.0**-10, 2.0**-24, 2.0**-14),
}
#: A digest of words: each times this, plus the next, in 32 bits.
DIGEST = 0x9E3779B1


@dataclass(frozen=True)
class Operand:
    """What a descriptor says; ``start`` counts from a multiple of 1024, as addresses do."""

    start: int
    leading: int
    stride: int
    swizzle: str
    base_offset: int
    major: str

    def addresses(self, rows: int, k: int, size: int) -> NDArray[np.int64]:
        """Of each element, ``[row, k]``; ``size`` bytes each."""
        span = _SPANS[self.swizzle]
        row, column = np.arange(rows)[:, None], np.arange(k)[None, :]
        # Along the dimension whose neighbors lie side by side, in bytes; across it in lines.
        along, across = (column * size, row) if self.major == "K" else (row * size, column)
        if span:
            linear = across % 8 * span + across // 8 * self.stride + along % span
            if self.major == "MN":
                linear = linear + along // span * self.leading
            else:
                assert k * size <= span, "K-major operands are no wider than the swizzle"
        else:
            eights, chunks = (self.stride, self.leading) if self.major == "K" else (self.leading, self.stride)
            linear = across % 8 * 16 + across // 8 * eights + along % 16 + along // 16 * chunks
        linear = linear + self.start
        lines = max(span // 16, 1)
        return np.asarray(linear ^ ((linear // 128 - self.base_offset) % lines) * 16)


def _numbers(codes: NDArray[Any], kind: str) -> Numbers:
    """Elements as numbers; ``codes`` are bytes, ``[..., bytes]``."""
    if kind == "b1":
        return np.unpackbits(codes, axis=-1, bitorder="little").astype(np.int64)
    if kind in ("s8", "u8", "s32"):
        dtype = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}[kind]
        return np.ascontiguousarray(codes).view(dtype).astype(np.int64)
    raw = np.ascontiguousarray(codes)
    if kind == "tf32":
        # The lower 13 bits do not count.
        raw = (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.uint8)
    return decode(raw, kind).reshape(*raw.shape[:-1], -1)


@dataclass(frozen=True, eq=False)
class Product:
    """One case: launches of one instruction, or of several into one accumulator.

    Attributes:
        kinds: types of D, A and B. n, k: of the shape.
        a, b: descriptors; A may be None, in registers.
        images: shared memory of each CTA, words. given: of each thread scale-d, A, metadata, D; words.
        scales: imm-scale of A and B. selector: of metadata, or None.
        steps: instructions, 32 bytes further along K each.
        exact: of each CTA, whether its sums are exact.
    """

    kinds: tuple[str, str, str]
    n: int
    k: int
    a: Operand | None
    b: Operand
    images: Sequence[NDArray[np.uint32]]
    given: NDArray[np.uint32]
    scales: tuple[int, int]
    selector: int | None
    steps: int
    saturates: bool
    exact: Sequence[bool]

    def expected(self) -> Expected:
        found = [self._one(number) for number in range(len(self.images))]
        if self.kinds[0] == "s32":
            return Expected(
                np.concatenate([values for values, _, _ in found]).astype(np.int32).view(np.uint32)
            )
        values, radius, unknown = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Expected(values, self.kinds[0], radius, unknown)

    def digest(self) -> Expected:
        """One word for each thread, of the words of a D that is exact."""
        assert all(self.exact)
        found = self.expected()
        words = found.values
        if found.kind:
            # Sums that are zero are +0.
            words = (
                (found.values + 0.0)
                .astype({"f32": np.float32, "f16": np.float16}[found.kind])
                .view(np.uint32)
            )
        total = np.zeros((len(self.images), 128), np.uint64)
        for column in words.reshape(len(self.images), 128, -1).transpose(2, 0, 1):
            total = (total * np.uint64(DIGEST) + column.astype(np.uint64)) & np.uint64(0xFFFFFFFF)
        return Expected(total.astype(np.uint32))

    # --- operands -------------------------------------------------------------------------------

    def _shared(self, number: int, operand: Operand, rows: int, k: int, kind: str, step: int) -> Numbers:
        size = max(_BITS[kind] // 8, 1)
        elements = k // 8 if kind == "b1" else k
        moved = Operand(operand.start + 32 * step, *_rest(operand))
        places = moved.addresses(rows, elements, size)[..., None] + np.arange(size)
        memory = np.ascontiguousarray(self.images[number]).view(np.uint8)
        return _numbers(memory[places].reshape(rows, -1), kind)

    def _registers(self, words: NDArray[np.uint32]) -> Numbers:
        """A from four words of each thread: two rows, two runs of 16 bytes, four threads side by side."""
        kind = self.kinds[1]
        k = self.k // 2 if self.selector is not None else self.k
        each = 32 // _BITS[kind]
        values = _numbers(np.ascontiguousarray(words).view(np.uint8).reshape(128, -1), kind).reshape(
            128, 4, each
        )
        matrix = np.zeros((64, k), values.dtype)
        for thread in range(128):
            row = thread // 32 * 16 + thread % 32 // 4
            for register in range(4):
                first = thread % 4 * each + register // 2 * 4 * each
                matrix[row + register % 2 * 8, first : first + each] = values[thread, register]
        return matrix

    def _whole(self, stored: Numbers, words: NDArray[np.uint32]) -> tuple[Numbers, NDArray[np.bool_]]:
        """A with the elements that the metadata leaves out, and which are not."""
        assert self.selector is not None
        bits = _BITS[self.kinds[1]]
        full, kept = np.zeros((64, self.k), stored.dtype), np.zeros((64, self.k), np.bool_)
        suppliers = 4 if bits == 8 else 2
        for thread in range(128):
            quad, lane = thread // 4 * 4, thread % 4
            if lane // suppliers != (0 if suppliers == 4 else self.selector):
                continue
            row, mine = thread // 32 * 16 + (quad % 32) // 4, lane % suppliers
            for nibble in range(8):
                index = int(words[thread]) >> 4 * nibble & 15
                if suppliers == 4:
                    at, chunk = row + mine % 2 * 8, mine // 2 * 8 + nibble
                else:
                    at, chunk = row + nibble // 4 * 8, mine * 4 + nibble % 4
                # The two indices of a tf32 element choose its halves, and here the same element.
                columns = (
                    [2 * chunk + index // 8]
                    if bits == 32
                    else [4 * chunk + index % 4, 4 * chunk + index // 4]
                )
                full[at, columns] = stored[at, len(columns) * chunk :][: len(columns)]
                kept[at, columns] = True
        return full, kept

    def _accumulator(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of each thread's elements of D, ``[thread, element]``."""
        thread, i = np.arange(128)[:, None], np.arange(self.n // 2)[None, :]
        row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
        return row, i // 4 * 8 + thread % 4 * 2 + i % 2

    # --- sums -----------------------------------------------------------------------------------

    def _one(self, number: int) -> tuple[Numbers, Numbers, Numbers]:
        kind_d, kind_a, kind_b = self.kinds
        words = self.given[number]
        in_registers, sparse = self.a is None, self.selector is not None
        accumulates = bool(words[0, 0])
        first = 1 + 4 * in_registers + sparse
        held = np.ascontiguousarray(words[:, first:]).view(np.uint8).reshape(128, -1)
        row, column = self._accumulator()
        zeros = np.zeros((64, self.n), np.int64 if kind_d == "s32" else np.float64)
        total, radius, unknown = zeros.copy(), np.zeros(zeros.shape), np.zeros(zeros.shape, np.bool_)
        total[row, column] = _numbers(held, kind_d)
        kept: Any = True
        for step in range(self.steps):
            if not accumulates:
                total, radius, unknown = zeros, np.zeros(zeros.shape), np.zeros(zeros.shape, np.bool_)
            if self.a is None:
                a = self._registers(words[:, 1:5])
            else:
                a = self._shared(number, self.a, 64, self.k // 2 if sparse else self.k, kind_a, step)
            if sparse:
                a, kept = self._whole(a, words[:, 5 if in_registers else 1])
            b = self._shared(number, self.b, self.n, self.k, kind_b, step)
            if kind_d == "s32":
                total = self._whole_numbers(total, a, b)
            else:
                total, more, near = self._floats(total, a, b, kept)
                radius, unknown = radius + more, unknown | near
        if self.exact[number]:
            radius = np.zeros_like(radius)
        return tuple(part[row, column].reshape(-1) for part in (total, radius, unknown))  # type: ignore[return-value]

    def _whole_numbers(self, total: Numbers, a: Numbers, b: Numbers) -> Numbers:
        found = total + a @ b.T
        if self.saturates:
            return np.clip(found, -(2**31), 2**31 - 1)
        return np.asarray((found + 2**31) % 2**32 - 2**31)

    def _floats(self, total: Numbers, a: Numbers, b: Numbers, kept: Any) -> tuple[Numbers, Numbers, Numbers]:
        """Sums, what each may be off, and where it cannot be told whether they are infinite."""
        limit, relative, least, normal = _LIMITS[self.kinds[0]]
        with np.errstate(invalid="ignore", over="ignore"):
            a, b = self.scales[0] * a, self.scales[1] * b
            products = np.where(np.broadcast_to(kept, a.shape)[:, None, :], a[:, None, :] * b[None, :, :], 0)
            addends = np.concatenate([products, total[..., None]], axis=-1)
            found = addends.sum(axis=-1)
            largest = np.where(np.isfinite(addends), np.abs(addends), 0).max(axis=-1)
            # A subnormal addend has the exponent of the smallest normal number.
            lost = addends.shape[-1] * _CUT.get(self.kinds[1], _SHORT) * np.maximum(largest, normal)
            finite = np.where(np.isfinite(found), np.abs(found), 0)
            radius = lost + relative * finite + least
            near = np.isfinite(found) & (np.abs(finite - limit) <= radius)
            found = np.where(np.isfinite(found) & (finite >= limit), np.copysign(np.inf, found), found)
        return found, radius, near


def _rest(operand: Operand) -> tuple[int, int, str, int, str]:
    return operand.leading, operand.stride, operand.swizzle, operand.base_offset, operand.major
