"""The families of litmus tests, each with all mixes of orders, scopes, fences and places of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from .program import Fence, Litmus, Load, Operation, Store, Update

__all__ = ["FAMILIES", "members"]

#: Threads as words: ``Wx1`` writes 1 to x, ``Rx`` reads x, ``Ux`` adds 1 to x. Then locations whose last value counts.
_SHAPES: dict[str, tuple[str, str]] = {
    "MP": ("Wx1 Wy1 | Ry Rx", ""),
    "SB": ("Wx1 Ry | Wy1 Rx", ""),
    "LB": ("Rx Wy1 | Ry Wx1", ""),
    "S": ("Wx2 Wy1 | Ry Wx1", "x"),
    "R": ("Wx1 Wy1 | Wy2 Rx", "y"),
    "2+2W": ("Wx1 Wy2 | Wy1 Wx2", "xy"),
    "CoRR": ("Wx1 | Rx Rx", ""),
    "CoWW": ("Wx1 Wx2 | Rx", "x"),
    "CoWR": ("Wx1 Rx | Wx2", "x"),
    "CoRW": ("Rx Wx1 | Wx2 Rx", "x"),
    "WRC": ("Wx1 | Rx Wy1 | Ry Rx", ""),
    "ISA2": ("Wx1 Wy1 | Ry Wz1 | Rz Rx", ""),
    "IRIW": ("Wx1 | Wy1 | Rx Ry | Ry Rx", ""),
    "MP-RMW": ("Wx1 Wy1 | Uy | Ry Rx", ""),
}
FAMILIES = tuple(_SHAPES)

_LOADS = ("weak", "relaxed", "acquire")
_STORES = ("weak", "relaxed", "release")
_UPDATES = ("relaxed", "acq_rel")
_SHORT = {"weak": "w", "relaxed": "rlx", "acquire": "acq", "release": "rel", "acq_rel": "ar", "sc": "sc"}


def _orders(word: str) -> tuple[str, ...]:
    return {"R": _LOADS, "W": _STORES, "U": _UPDATES}[word[0]]


def _operation(word: str, order: str, scope: str) -> Operation:
    if word[0] == "R":
        return Load(word[1], order, scope)
    return Store(word[1], int(word[2]), order, scope) if word[0] == "W" else Update(word[1], order, scope)


def _places(threads: int) -> dict[str, tuple[int, ...]]:
    """Which threads share a CTA: none, all, and of three or more all but the last."""
    places = {"apart": tuple(range(threads)), "together": (0,) * threads}
    if threads > 2:
        places["split"] = (*(0,) * (threads - 1), 1)
    return places


def _scopes(threads: int) -> dict[str, tuple[str, ...]]:
    """Scope of each thread's operations."""
    return {
        "gpu": ("gpu",) * threads,
        "cta": ("cta",) * threads,
        "mixed": (*("cta",) * (threads - 1), "gpu"),
    }


def _with_fences(threads: list[list[str]]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Orders of all operations and a fence, or none, of each thread: fences only where all operations are alike."""
    words = [word for thread in threads for word in thread]
    for orders in product(*map(_orders, words)):
        yield orders, ("",) * len(threads)
    kinds = [("", "acq_rel", "sc") if len(thread) > 1 else ("",) for thread in threads]
    for order in ("weak", "relaxed"):
        alike = tuple(order if order in _orders(word) else "relaxed" for word in words)
        for fences in product(*kinds):
            if any(fences):
                yield alike, fences


def _threads(
    threads: list[list[str]], orders: tuple[str, ...], fences: tuple[str, ...], scopes: tuple[str, ...]
) -> tuple[tuple[Operation, ...], ...]:
    given = iter(orders)
    made = []
    for words, fence, scope in zip(threads, fences, scopes, strict=True):
        operations = [_operation(word, next(given), scope) for word in words]
        if fence:
            operations.insert(1, Fence(fence, scope))
        made.append(tuple(operations))
    return tuple(made)


def _spelled(threads: tuple[tuple[Operation, ...], ...]) -> str:
    def word(operation: Operation) -> str:
        short = _SHORT[operation.order]
        return f"F{short}" if isinstance(operation, Fence) else short

    return " | ".join(" ".join(map(word, thread)) for thread in threads)


@cache
def members(family: str) -> tuple[Litmus, ...]:
    """All tests of a family. Tests without a strong operation exist once, not once for each scope."""
    shape, finals = _SHAPES[family]
    threads = [part.split() for part in shape.split("|")]
    found: dict[tuple[object, ...], Litmus] = {}
    for (place, ctas), (scope, scopes) in product(
        _places(len(threads)).items(), _scopes(len(threads)).items()
    ):
        for orders, fences in _with_fences(threads):
            made = _threads(threads, orders, fences, scopes)
            weak = all(operation.order == "weak" for thread in made for operation in thread)
            key = (ctas, orders, fences, "" if weak else scopes)
            name = f"{family} {place} {'' if weak else scope + ' '}{_spelled(made)}"
            found.setdefault(key, Litmus(name, made, ctas, tuple(finals)))
    return tuple(found.values())
