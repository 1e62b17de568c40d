"""Checks of modifiers that several chapters of the table use.

Each function gets the chosen modifiers by position, and returns a message that says why they are illegal, or
None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.types import TYPES
from .notation import Chosen

__all__ = [
    "ftz_f32",
    "multicast_needs_cluster",
    "type_of_operation",
    "vector_at_most_128_bits",
    "vector_bits",
]


def type_of_operation(chosen: Chosen, types: Mapping[str, Sequence[str]]) -> str | None:
    """Refuse a type that the chosen operation does not have; ``types`` lists the types of each operation."""
    operation, given = chosen["op"], chosen["type"]
    if given in types[operation]:
        return None
    return (
        f".{operation} does not exist for .{given}; expected {', '.join('.' + t for t in types[operation])}"
    )


def ftz_f32(chosen: Chosen) -> str | None:
    """Refuse .ftz for other types than .f32."""
    if "ftz" in chosen and chosen["type"] != "f32":
        return f".ftz is only allowed with .f32, not with .{chosen['type']}"
    return None


def vector_bits(chosen: Chosen) -> int:
    """Return the bits of all elements of an access: those of the type, times the length of the vector."""
    count = int(chosen["vec"][1:]) if "vec" in chosen else 1
    return count * TYPES[chosen["type"]].bits


def vector_at_most_128_bits(chosen: Chosen) -> str | None:
    """Refuse accesses of more than 128 bits."""
    if "type" not in chosen or vector_bits(chosen) <= 128:
        return None
    return f".{chosen['vec']}.{chosen['type']} is {vector_bits(chosen)} bits; a vector has at most 128"


def multicast_needs_cluster(chosen: Chosen) -> str | None:
    """Refuse a multicast to .shared::cta, which is the memory of this CTA only."""
    if chosen["dst"] == "shared::cta" and "multicast" in chosen:
        return f".{chosen['multicast']} requires the destination .shared::cluster, not .shared::cta"
    return None
