"""wgmma: where operands of every type lie, in every swizzle and order, at every place of the pattern, for many N.

Operands are small integers (of integer types any), so that the sums are exact and each element tells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from pyptx.isa import Match

from ..case import KernelCase
from ..fragments import FLOATS, matches, width
from .wgmma import SPANS, Area, Mode, boxes, extents, kinds_of, product_of

_EXACT: tuple[Mode, ...] = (("integers", "integers", 1),)
_ANY: tuple[Mode, ...] = (("any", "edge", 1),)

#: A variant of each pair of types of A and B, by the middle of the form's name; sparse has all but b1.
_PAIRS = {
    "f16": ("f16", "f16"), "bf16": ("bf16", "bf16"), "tf32": ("tf32", "tf32"), "e4m3": ("e4m3", "e5m2"),
    "e5m2": ("e5m2", "e4m3"), "s8": ("s8", "u8"), "u8": ("u8", "s8"), "b1": ("b1", "b1"),
}  # fmt: skip
_FAMILIES = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "tf32",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "s8": "int",
    "u8": "int",
    "b1": "b1",
}


def _variant(kind: str, n: int, where: str = "ss", d: str | None = None, *, sparse: bool = False) -> Match:
    family = f"wgmma.mma_async.{'sp.' if sparse else ''}{_FAMILIES[kind]}.{where}"
    sums = d or ("f32" if kind in FLOATS else "s32")
    return next(
        match
        for match in matches(family)
        if kinds_of(match) == (sums, *_PAIRS[kind])
        and extents(match)[0] == n
        and "satfinite" not in match.chosen
    )


def _lengths(kind: str, where: str, *, sparse: bool) -> list[int]:
    """Every N that these types have."""
    family = f"wgmma.mma_async.{'sp.' if sparse else ''}{_FAMILIES[kind]}.{where}"
    found = {extents(match)[0] for match in matches(family) if kinds_of(match)[1:] == _PAIRS[kind]}
    return sorted(found)


def _modes(kind: str) -> tuple[Mode, ...]:
    return _EXACT if kind in FLOATS else _ANY


def _turned(kind: str) -> bool:
    """Whether operands of this type may be MN-major."""
    return width(kind) == 16


def _extent(match: Match, *, sparse: bool) -> tuple[int, int, int]:
    """N, elements of K of A as stored, and of B."""
    n, k = extents(match)
    return n, k // 2 if sparse else k, k


#: Counts the cases of many that are alike: one of eight is compared every time.
_alike = itertools.count()


def _quick() -> bool:
    return next(_alike) % 8 == 0


def _swizzled() -> Iterator[KernelCase]:
    """Each type, dense and sparse, A in memory and in registers, with each swizzle of A and another one of B."""
    names = list(SPANS)
    for kind in _PAIRS:
        for sparse in (False, True) if kind != "b1" else (False,):
            for where in ("ss", "rs"):
                match = _variant(kind, 8, where, sparse=sparse)
                n, stored, k = _extent(match, sparse=sparse)
                size = width(kind)
                for at, first in enumerate(names if where == "ss" else ["none"]):
                    for second in names[at + 1 :] + names[:at] if where == "ss" else names:
                        # What a swizzle spans holds K: twice as much of B where A is sparse.
                        if second != "none" and k * size // 8 > SPANS[second]:
                            continue
                        yield product_of(
                            match, _modes(kind), f"{first} {second}",
                            a=boxes(64, stored, size, first), b=boxes(n, k, size, second), long=not _quick(),
                        )  # fmt: skip


def _majors() -> Iterator[KernelCase]:
    """Operands along M and N, of more boxes than one, dense and sparse."""
    for kind, d in (("f16", "f16"), ("bf16", "f32")):
        for number, swizzle in enumerate(SPANS):
            for sparse in (False, True):
                n = (40, 72, 136, 104)[number]
                if swizzle != "none":
                    # Whole boxes: of 16, 32 or 64 elements.
                    n = max(n // (SPANS[swizzle] // 2), 1) * (SPANS[swizzle] // 2)
                match = _variant(kind, n, "ss", d, sparse=sparse)
                n, stored, k = _extent(match, sparse=sparse)
                orders = (("MN", "MN"),) if sparse else (("MN", "K"), ("K", "MN"), ("MN", "MN"))
                for x, y in orders:
                    yield product_of(
                        match, _EXACT, f"{swizzle} {x} {y}", trans=(int(x == "MN"), int(y == "MN")),
                        digest=True, long=not _quick(),
                        a=boxes(64, stored, 16, swizzle, x), b=boxes(n, k, 16, swizzle, y),
                    )  # fmt: skip
                in_registers = _variant(kind, n, "rs", d, sparse=sparse)
                yield product_of(
                    in_registers, _EXACT, f"{swizzle} {n} MN", trans=(0, 1), b=boxes(n, k, 16, swizzle, "MN"),
                    digest=True, long=not _quick(),
                )  # fmt: skip


def _starts() -> Iterator[KernelCase]:
    """Patterns that begin at each line, said and not said by the base offset, for A and for B."""
    for kind, swizzle in (("f16", "128B"), ("e4m3", "64B"), ("tf32", "32B"), ("s8", "128B"), ("b1", "64B")):
        match = _variant(kind, 8)
        n, _, k = _extent(match, sparse=False)
        size = width(kind)
        for start in range(1, 8):
            moved = boxes(n, k, size, swizzle, base=128 * start)
            said = replace(moved, descriptor=replace(moved.descriptor, base_offset=start))
            other = boxes(64, k, size, swizzle, base=128 * start)
            # The areas that operands take begin at multiples of 1024.
            other = Area(other.descriptor, other.nbytes + 128 * start)
            for label, b in (("said", said), ("not said", moved)):
                yield product_of(
                    match, _modes(kind), f"line {start} of {swizzle} {label}", a=other, b=b, long=not _quick()
                )


def _steps() -> Iterator[KernelCase]:
    """Four steps of K through rows of 128 bytes, for each type, sparse too."""
    for kind in _PAIRS:
        for sparse in (False, True) if kind != "b1" else (False,):
            match = _variant(kind, 32, sparse=sparse)
            n, stored, k = _extent(match, sparse=sparse)
            size = width(kind)
            steps = 2 if sparse else 4
            yield product_of(
                match, _modes(kind), f"{steps} steps of integers", steps=steps,
                a=boxes(64, stored, size, "128B"), b=boxes(n, k, size, "128B"),
            )  # fmt: skip


def _widths() -> Iterator[KernelCase]:
    """N up to the largest, of each type, sparse too, A in memory and in registers; every N where both are in memory."""
    for kind in _PAIRS:
        for sparse in (False, True) if kind != "b1" else (False,):
            for where in ("ss", "rs"):
                # Half of the types that may be have D of f16.
                d = "f16" if kind in ("f16", "e5m2") else None
                every = _lengths(kind, where, sparse=sparse)
                for n in every if where == "ss" and not sparse else (48, 112, 192, 256):
                    match = _variant(kind, n, where, d, sparse=sparse)
                    n, stored, k = _extent(match, sparse=sparse)
                    size = width(kind)
                    yield product_of(
                        match, _modes(kind), f"width {n}", digest=True, long=n not in (48, 112),
                        a=boxes(64, stored, size, "128B"), b=boxes(n, k, size, "128B"),
                    )  # fmt: skip


CASES = [*_swizzled(), *_majors(), *_starts(), *_steps(), *_widths()]
