"""Where undefined bits come from: loads and copies that read unwritten memory, and the findings about them.

Such a load is an error if an instruction uses its undefined bits; if none does, it is for review. Owns
:class:`Origins`, all of them in one run, and :class:`LoadedBytes`, what one load of memory read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.source import SourceLocation
from ..engine.accounts import LaunchAccount
from ..memory.access import StateSpace
from ..memory.segments import Segment

__all__ = ["COMPUTED", "LoadedBytes", "Origin", "Origins"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]

#: Number of executions of one load that are told apart.
_MOST = 1000
#: Bit of the number of an origin: the undefined value was computed, not only copied.
COMPUTED = 1 << 62


@dataclass(frozen=True, slots=True)
class Origin:
    """One execution of a load or copy that read unwritten bytes.

    Attributes:
        instruction: identifies the instruction.
        location: its line.
        account: the launch.
        describe: returns the message and the thread for a finding about one element.
        partial: says whether the thread that read an element also read written bytes.
        unused: the rule that the load breaks if no instruction uses its undefined bits, or "" for none.
        first: the number of the element that is then reported.
    """

    instruction: object
    location: SourceLocation | None
    account: LaunchAccount
    describe: Callable[[int], tuple[str, str]]
    partial: Callable[[int], bool]
    unused: str
    first: int

    @property
    def key(self) -> tuple[int, object]:
        """The launch and the instruction: one finding is about all loads of an instruction."""
        return self.account.number, self.instruction

    def finding(
        self, rule: str, element: int, other: tuple[tuple[str, SourceLocation | None], ...] = ()
    ) -> Finding:
        """Return the finding about one element."""
        message, thread = self.describe(element)
        return Finding(RULES[rule], message, self.location, thread, other)


class Origins:
    """The loads of one run that read unwritten bytes. Their elements have numbers from 1 on."""

    def __init__(self, report: Callable[[Finding, LaunchAccount], None]) -> None:
        self._report = report
        self._firsts: list[int] = []
        self._all: list[Origin] = []
        self._next = 1
        #: Launch and instruction -> how often it loaded; number of the last load's first element, and how
        #: many the load has.
        self._known: dict[tuple[int, object], tuple[int, int, int]] = {}
        #: Launches and instructions whose undefined bits an instruction has used.
        self._used: set[tuple[int, object]] = set()

    def add(self, origin: Origin, elements: int) -> int:
        """Store a load of some elements, and return the number of the first; the others follow."""
        count, first, size = self._known.get(origin.key, (0, 0, 0))
        if count < _MOST or size != elements:
            first = self._next
            self._firsts.append(first)
            self._all.append(origin)
            self._next += elements
            self._known[origin.key] = count + 1, first, elements
        return first

    def _find(self, number: int) -> tuple[Origin, int]:
        """Return the load that element ``number`` is of, and the element's number in the load."""
        number &= ~COMPUTED
        place = bisect_right(self._firsts, number) - 1
        return self._all[place], number - self._firsts[place]

    def partial(self, number: int) -> bool:
        """True if a value is a copy of an element, and its thread also read written bytes with the element.

        This is so for the padding of a structure.
        """
        origin, element = self._find(number)
        return not number & COMPUTED and origin.partial(element)

    def used(self, number: int, how: str, location: SourceLocation | None) -> None:
        """Report the use of undefined bits of element ``number``; the first use of each load counts."""
        origin, element = self._find(number)
        if origin.key not in self._used:
            self._used.add(origin.key)
            found = origin.finding("uninitialized-read", element, ((how, location),))
            self._report(found, origin.account)

    def report_unused(self) -> None:
        """Report the loads whose undefined bits no instruction has used."""
        for origin in self._all:
            if origin.unused and origin.key not in self._used:
                self._report(origin.finding(origin.unused, origin.first), origin.account)
        self._all.clear()
        self._firsts.clear()


class LoadedBytes:
    """What one load read: for each thread, ``size`` bytes of a segment, in elements of ``element`` bytes.

    ``missing`` flags the unwritten bytes, ``[thread, byte]``; ``thread`` returns the name of the thread at a
    position.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        offsets: Array,
        missing: Mask,
        element: int,
        thread: Callable[[int], str],
    ) -> None:
        self.segments, self.offsets = segments, offsets
        self.count, self.size = missing.shape
        self.element, self.thread = element, thread
        self.undefined: Mask = missing.reshape(self.count, -1, element)
        self.parts: Mask = np.logical_or.reduce(self.undefined, axis=2)
        #: True if the load read written elements as well as unwritten ones.
        self.partial = bool((self.parts.any(axis=1) & ~self.parts.all(axis=1)).any())
        #: For a copy: whether it read written bytes, too. ``missing`` then flags only unwritten bytes.
        self.padding: bool | None = None
        #: The first unwritten byte of each element.
        self._firsts = np.argmax(self.undefined, axis=2) + element * np.arange(self.parts.shape[1])

    def numbers(
        self, origins: Origins, instruction: object, location: SourceLocation | None, account: LaunchAccount
    ) -> Array:
        """Store the load, and return the number of each element's origin, ``[thread, element]``.

        An element whose bytes an instruction wrote with undefined bits keeps the origin of these bits.
        """
        numbers = np.zeros(self.parts.shape, np.int64)
        for position, segment in enumerate(self.segments):
            if segment.origins is not None:
                numbers[position] = segment.origins[self.offsets[position] + self._firsts[position]]
        numbers[~self.parts] = 0
        own = self.parts & (numbers == 0)
        if own.any():
            first = int(np.argmax(own.reshape(-1)))
            origin = Origin(
                instruction, location, account, self.describe, self._mixed, self._rule(first), first
            )
            start = origins.add(origin, own.size)
            numbers = np.where(own, start + np.arange(own.size).reshape(own.shape), numbers)
        return numbers

    def _mixed(self, number: int) -> bool:
        if self.padding is not None:
            return self.padding
        return not bool(self.undefined[number // self.parts.shape[1]].all())

    def _rule(self, first: int) -> str:
        """Return the rule that the load breaks if nothing uses it.

        Loads of local memory break none: compilers load whole variables, and drop what they do not need.
        """
        position = first // self.parts.shape[1]
        if self.segments[position].space is StateSpace.LOCAL:
            return ""
        return "padding-read" if self.partial else "undefined-load"

    def describe(self, number: int) -> tuple[str, str]:
        """Return the message and the thread for a finding about element ``number``."""
        position, element = divmod(number, self.parts.shape[1])
        segment, at = self.segments[position], int(self.offsets[position] + self._firsts[position, element])
        message = (
            f"read of {self.size} bytes in {segment.name}: byte {segment.base + at:#x} "
            f"(offset {at}) was never written{segment.place(at)}"
        )
        return message, self.thread(position)
