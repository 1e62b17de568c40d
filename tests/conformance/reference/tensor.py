"""Tensor copies: which elements of a tensor, where in shared memory, what stands for those outside.

From PTX ISA #tensor-tiled-mode, #tensor-im2col-mode and #tensor-swizzling-modes, element by element.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TensorBox", "walk"]

Bytes = NDArray[np.uint8]

#: Chunks of 16 bytes that a swizzle permutes within its span.
_CHUNKS = {"none": 1, "32B": 2, "64B": 4, "128B": 8}


def walk(
    shape: tuple[int, ...],
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    steps: tuple[int, ...],
    start: tuple[int, ...],
    pixels: int,
) -> Iterator[tuple[int, ...]]:
    """Positions of the filter's base, N first; ``shape`` and ``start`` are (N, ..., W).

    Recursively: an axis goes from its start to the end of the box, then from the lower corner; the axes inside
    begin at theirs only the first time.
    """
    ends = [extent - 1 + high for extent, high in zip(shape[1:], upper, strict=True)]

    def inside(axis: int, begin: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if axis == len(ends):
            yield ()
            return
        for at in range(begin[axis], ends[axis] + 1, steps[axis]):
            for rest in inside(axis + 1, begin if at == begin[axis] and begin is not lower else lower):
                yield (at, *rest)

    def images() -> Iterator[tuple[int, ...]]:
        for place in inside(0, start[1:]):
            yield (start[0], *place)
        for image in itertools.count(start[0] + 1):
            for place in inside(0, lower):
                yield (image, *place)

    return itertools.islice(images(), pixels)


def _tf32(raw: Bytes) -> Bytes:
    """The nearest of 10 fraction bits, ties to even; an H200 makes the largest word of a NaN."""
    with np.errstate(invalid="ignore"):  # NaNs that signal
        numbers = raw.view(np.float32).astype(np.float64)
    fraction, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 0))
    # Subnormal numbers are as far apart as the smallest normal ones.
    step = np.ldexp(1.0, np.maximum(exponent, -125) - 11)
    nearest = np.where(np.isfinite(numbers), np.rint(np.ldexp(fraction, exponent) / step) * step, numbers)
    with np.errstate(over="ignore"):
        words = np.copysign(nearest.astype(np.float32), numbers.astype(np.float32))
    return np.where(np.isnan(numbers), np.uint32(0x7FFFE000), words.view(np.uint32)).view(np.uint8)


class TensorBox:
    """One copy: a box at ``coordinates`` (innermost first), or with ``pixels`` among the options im2col's.

    Args:
        shape: of the tensor. size: bytes of its elements.
        options: what the map says besides, as for :meth:`pyptx.layout.TensorMap.tiled` or ``im2col``.
        at: shared address, from a multiple of 1024 on.
    """

    def __init__(
        self,
        shape: Sequence[int],
        size: int,
        options: dict[str, Any],
        coordinates: Sequence[int],
        offsets: Sequence[int] = (),
        at: int = 0,
    ) -> None:
        self.shape, self.size, self.options, self.at = tuple(shape), size, options, at
        first = coordinates[::-1]
        steps = tuple(options.get("element_strides", (1,) * len(first)))
        if "pixels" in options:
            bases = walk(
                self.shape[:-1], tuple(options["lower"]), tuple(options["upper"]), steps[1:-1], tuple(first[:-1]),
                options["pixels"],
            )  # fmt: skip
            shift = (0, *offsets[::-1]) if offsets else (0,) * (len(first) - 1)
            self.inner = options["channels"]
            rows = [tuple(b + s for b, s in zip(base, shift, strict=True)) for base in bases]
        else:
            box = options["box"]
            self.inner = box[-1]
            counts = [-(-length // step) for length, step in zip(box, steps, strict=True)]
            rows = [
                tuple(f + i * step for f, i, step in zip(first, place, steps, strict=False))
                for place in itertools.product(*map(range, counts[:-1]))
            ]
        #: Index of every element, innermost running fastest, and whether the tensor has it.
        outer = np.repeat(np.array(rows, np.int64).reshape(len(rows), -1), self.inner, axis=0)
        along = np.tile(first[-1] + np.arange(self.inner), len(rows))
        self.index = np.hstack([outer, along[:, None]])
        self.inside = np.all((self.index >= 0) & (self.index < np.array(self.shape)), axis=1)

    @property
    def nbytes(self) -> int:
        return len(self.index) * self.size

    @property
    def places(self) -> NDArray[np.int64]:
        """The shared address of every byte, from the multiple of 1024 on."""
        chunks = _CHUNKS[self.options.get("swizzle", "none")]
        row = self.inner * self.size
        # Rows that are shorter than the span of a swizzle begin a span apart (measured on an H200).
        pitch = row if chunks == 1 else 16 * chunks
        byte = np.arange(self.nbytes)
        linear = self.at + byte // row * pitch + byte % row
        # Line r of the pattern, 128 bytes each, has chunk c of each span at c XOR (r modulo the span's chunks).
        line, chunk = linear // 128, linear // 16 % 8
        moved = chunk // chunks * chunks + (chunk % chunks ^ line % chunks)
        return np.asarray(line * 128 + moved * 16 + linear % 16)

    def loaded(self, tensor: NDArray[Any], room: Bytes) -> None:
        """Put the box into ``room``, as a load does."""
        data = np.zeros((len(self.index), self.size), np.uint8)
        if self.options.get("oob_fill") == "nan":
            # An H200 repeats these 16 bits in an element of any width.
            data.reshape(-1).view(np.uint16)[:] = 0x7FF7
        inside = np.ascontiguousarray(tensor.reshape(self.shape)[tuple(self.index[self.inside].T)])
        raw = inside.view(np.uint8)
        if str(self.options.get("element", "")).startswith("tf32"):
            raw = _tf32(raw)
        data[self.inside] = raw.reshape(-1, self.size)
        room[self.places] = data.reshape(-1)

    def stored(
        self,
        room: Bytes,
        tensor: NDArray[Any],
        combine: Callable[..., Any] | None = None,
        into: NDArray[Any] | None = None,
    ) -> None:
        """Put the box of ``room`` into the tensor, or combine it with what is there (``into`` another array)."""
        data = room[self.places].view(tensor.dtype)[self.inside]
        where = tuple(self.index[self.inside].T)
        (tensor if into is None else into)[where] = data if combine is None else combine(tensor[where], data)
