"""What the compiler has made of the accesses to memory of a function: when they are issued, and how wide.

PTX says in which order values come and go; machine code has loads in front of what they do not need, one wide
access for several, and unrolled loops. Statements are named by their numbers in the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..core.records import dataclass

__all__ = ["NO_ORDER", "AccessOrder", "Ahead", "Awaited", "Merged", "Spill"]

#: For each copy of a load, the loads and their copies for which a warp waits before it issues that one.
Awaited = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """A machine instruction that accesses memory for several statements.

    Attributes:
        statement: the one that stands for all: the first that loads, or the last that stores.
        width: bytes of a lane, which lie at a multiple of it.
    """

    statement: int
    width: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """Loads of one statement that are issued in earlier rounds of an unrolled loop.

    Attributes:
        rounds: for each copy of the round, how many rounds before it the load is issued.
        part: machine instructions of an execution, at most 1.
        width: bytes of a lane of such an instruction.
    """

    rounds: tuple[int, ...]
    part: float
    width: int


@dataclass(frozen=True, slots=True)
class Spill:
    """A machine instruction that keeps registers of a thread in local memory, or brings them back.

    Attributes:
        words: the words of the thread's stack that it accesses, by number.
        stores: whether it stores them.
        every: it is issued in one of so many executions of its statement: ptxas has made copies.
        turn: in which of them.
    """

    words: range
    stores: bool
    every: int
    turn: int


@dataclass(frozen=True, slots=True)
class AccessOrder:
    """The order of the accesses of a function, by the numbers of its statements.

    Attributes:
        passed: for each statement that later loads pass, the last of them.
        merged: for each statement whose access is part of a wider one, that one.
        ahead: for each load that is issued in earlier rounds of an unrolled loop, when.
        awaited: for each load in front of which a warp waits for others, and for each of these, which ones.
        sunk: for statements that machine code has in front of loads, and PTX behind them, these loads.
        local: whether the machine code keeps local variables in memory.
        spills: for each statement, the registers that its machine code keeps in local memory.
        refilled: the statements whose machine code waits for registers that come from there.
    """

    passed: Mapping[int, int] = field(default_factory=dict)
    merged: Mapping[int, Merged] = field(default_factory=dict)
    ahead: Mapping[int, Ahead] = field(default_factory=dict)
    awaited: Mapping[int, Awaited] = field(default_factory=dict)
    sunk: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    local: bool = True
    spills: Mapping[int, tuple[Spill, ...]] = field(default_factory=dict)
    refilled: frozenset[int] = frozenset()


#: That of a function whose code is PTX's.
NO_ORDER = AccessOrder()
