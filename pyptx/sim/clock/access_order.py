"""What the compiler has made of the accesses to memory of a function: when they are issued, and how wide.

Owns :class:`AccessOrder`, which the costs of blocks have. PTX says in which order values come and go; machine
code has loads in front of what they do not need, one wide access for several, and unrolled loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from ...core.records import dataclass

__all__ = ["NO_ORDER", "AccessOrder", "LoadsAhead", "MergedAccess"]


class MergedAccess(Protocol):
    """A machine instruction that accesses memory for several statements."""

    @property
    def statement(self) -> int:
        """The statement that stands for all: the first that loads, or the last that stores."""

    @property
    def width(self) -> int:
        """Bytes of a lane, which lie at a multiple of it."""


class LoadsAhead(Protocol):
    """Loads of one statement that are issued in earlier rounds of an unrolled loop."""

    @property
    def rounds(self) -> Sequence[int]:
        """For each copy of the round, how many rounds before it the load is issued."""

    @property
    def part(self) -> float:
        """Machine instructions of an execution, at most 1."""

    @property
    def width(self) -> int:
        """Bytes of such an instruction."""


@dataclass(frozen=True, slots=True)
class AccessOrder:
    """The order of the accesses of a function, by the numbers of its statements.

    Attributes:
        passed: for each statement that later loads pass, the last of them.
        merged: for each statement whose access is part of a wider one, that one.
        ahead: for each load that is issued in earlier rounds of an unrolled loop, when.
        local: whether the machine code keeps local variables in memory.
    """

    passed: Mapping[int, int] = field(default_factory=dict)
    merged: Mapping[int, MergedAccess] = field(default_factory=dict)
    ahead: Mapping[int, LoadsAhead] = field(default_factory=dict)
    local: bool = True


#: That of a function whose code is PTX's.
NO_ORDER = AccessOrder()
