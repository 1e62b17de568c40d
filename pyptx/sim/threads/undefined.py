"""Undefined bits: which bits of registers come from memory that nothing wrote, and from which loads.

Owns :class:`UndefinedBits`, the flags of the registers of one activation, which exist only while there are
any; and :class:`Origins`, the loads that read unwritten memory, with the findings about them. A load is an
error if an instruction uses its undefined bits; if none does, it is for review.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...core.source import SourceLocation
from ..code.emitter import CLASS_BITS
from ..code.semantic import RegisterPlace
from ..memory.access import StateSpace
from ..memory.segments import Segment

if TYPE_CHECKING:
    from ..engine.accounts import LaunchAccount

__all__ = ["ALL_BITS", "Origin", "Origins", "UndefinedBits", "UnwrittenLoad"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]

#: Number of executions of one load that are told apart.
_MOST = 1000
#: All bits of a register, by class; a register of 128 bits has two words.
ALL_BITS = {cls: np.uint64((1 << min(bits, 64)) - 1) for cls, bits in CLASS_BITS.items()}


class UnwrittenLoad(Exception):
    """Raised where code that does not follow undefined bits is about to load them.

    Nothing has changed yet: the instruction then executes again, in code that follows undefined bits.
    """


class _Row:
    """Flags of one register: its undefined bits in each thread, and the origin of them."""

    __slots__ = ("bits", "origins")

    def __init__(self, cls: str, columns: int) -> None:
        self.bits = np.zeros((columns, 2) if cls == "128" else columns, np.uint64)
        self.origins = np.zeros(columns, np.int64)


class UndefinedBits:
    """The undefined bits of the registers of one activation of a function; empty if all are defined.

    Registers are named by the index of their place, threads by their column.
    """

    __slots__ = ("columns", "rows")

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: dict[int, _Row] = {}

    def __bool__(self) -> bool:
        return bool(self.rows)

    def in_threads(self, span: slice) -> bool:
        """True if a register of these threads has undefined bits."""
        return any(row.bits[span].any() for row in self.rows.values())

    def flags(self, index: int, span: slice) -> Mask | None:
        """Return which threads have undefined bits in a register, or None if none has."""
        row = self.rows.get(index)
        if row is None:
            return None
        flags: Mask = row.bits[span] != 0
        return flags if flags.ndim == 1 else np.logical_or.reduce(flags, axis=1)

    def bits(self, index: int, span: slice) -> Array | None:
        """Return the undefined bits of a register in each thread, or None if all bits are defined."""
        row = self.rows.get(index)
        return None if row is None else row.bits[span]

    def origins(self, index: int, span: slice) -> Array:
        """Return the origin of a register's undefined bits in each thread. There must be such bits."""
        return self.rows[index].origins[span]

    def define(self, index: int, span: slice, lanes: Mask) -> None:
        """Record that a register has no undefined bits in these threads."""
        row = self.rows.get(index)
        if row is not None:
            row.bits[span][lanes] = 0
            if not row.bits.any():
                del self.rows[index]

    def set(self, place: RegisterPlace, span: slice, lanes: Mask, bits: Array, origins: Array) -> None:
        """Record the undefined bits of a register in these threads; ``bits`` may be 0 in some of them."""
        if not bits[lanes].any():
            self.define(place.index, span, lanes)
            return
        row = self.rows.get(place.index)
        if row is None:
            row = self.rows[place.index] = _Row(place.cls, self.columns)
        row.bits[span][lanes] = bits[lanes]
        row.origins[span][lanes] = origins[lanes]


@dataclass(slots=True)
class Origin:
    """One execution of a load that read unwritten bytes.

    Attributes:
        instruction: identifies the instruction.
        location: its line.
        thread: returns the name of the thread at a position among those that loaded.
        account: the launch.
        size, element: bytes that each thread loaded, and bytes of each element of them.
        partial: True if the load was of several elements, and some element was wholly written.
        segments, offsets: for each thread, what it read, and at which offset.
        missing: flags of the bytes that nothing wrote, ``[thread, byte]``.
    """

    instruction: object
    location: SourceLocation | None
    thread: Callable[[int], str]
    account: LaunchAccount
    size: int
    element: int
    partial: bool
    segments: Sequence[Segment]
    offsets: Array
    missing: Mask

    def finding(
        self, rule: str, number: int, other: tuple[tuple[str, SourceLocation | None], ...]
    ) -> Finding:
        """Return the finding about element ``number``, counted through all elements of all threads."""
        position, element = divmod(number, self.size // self.element)
        missing = self.missing[position]
        inside = missing[element * self.element :][: self.element]
        first = int(np.argmax(inside)) + element * self.element if inside.any() else int(np.argmax(missing))
        segment, at = self.segments[position], int(self.offsets[position]) + first
        return Finding(
            RULES[rule],
            f"read of {self.size} bytes in {segment.name}: byte {segment.base + at:#x} "
            f"(offset {at}) was never written{segment.place(at)}",
            self.location,
            self.thread(position),
            other,
        )


class Origins:
    """The loads of one run that read unwritten bytes. Element by element, they have numbers from 1 on."""

    def __init__(self, report: Callable[[Finding, LaunchAccount], None]) -> None:
        self._report = report
        self._firsts: list[int] = []
        self._all: list[Origin] = []
        self._next = 1
        #: Launch and instruction -> how often it loaded, and the numbers of the last load's elements.
        self._known: dict[tuple[int, object], tuple[int, Array]] = {}
        #: Launches and instructions whose undefined bits an instruction has used.
        self._used: set[tuple[int, object]] = set()

    def add(self, origin: Origin) -> Array:
        """Store a load, and return the number of each element, ``[thread, element]``.

        An element whose bytes an instruction wrote with undefined bits keeps the origin of these bits.
        """
        elements = origin.size // origin.element
        origin.missing = origin.missing.copy()
        undefined = origin.missing.reshape(len(origin.offsets), elements, origin.element)
        older = np.zeros((len(origin.offsets), elements), np.int64)
        first = np.argmax(undefined, axis=2) + origin.element * np.arange(elements)
        for position, segment in enumerate(origin.segments):
            if segment.origins is not None:
                older[position] = segment.origins[origin.offsets[position] + first[position]]
        older[~undefined.any(axis=2)] = 0
        undefined[older > 0] = False
        if not origin.missing.any():
            return older
        return np.where(older > 0, older, self._numbered(origin, older.shape))

    def _numbered(self, origin: Origin, shape: tuple[int, ...]) -> Array:
        key = (origin.account.number, origin.instruction)
        count, last = self._known.get(key, (0, None))
        if count >= _MOST and last is not None and last.shape == shape:
            return last
        self._firsts.append(self._next)
        self._all.append(origin)
        numbers = self._next + np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
        self._next += numbers.size
        self._known[key] = count + 1, numbers
        return numbers

    def used(self, number: int, how: str, location: SourceLocation | None) -> None:
        """Report the use of undefined bits of element ``number``; the first use of each load counts."""
        place = bisect_right(self._firsts, number) - 1
        origin = self._all[place]
        key = (origin.account.number, origin.instruction)
        if key not in self._used:
            self._used.add(key)
            number -= self._firsts[place]
            self._report(origin.finding("uninitialized-read", number, ((how, location),)), origin.account)

    def report_unused(self) -> None:
        """Report the loads whose undefined bits no instruction has used.

        Loads of local memory are left out: compilers load whole variables, and drop what they do not need.
        """
        for origin in self._all:
            if (origin.account.number, origin.instruction) not in self._used:
                elements = origin.size // origin.element
                position = int(np.argmax(origin.missing.any(axis=1)))
                if origin.segments[position].space is StateSpace.LOCAL:
                    continue
                element = int(np.argmax(origin.missing[position])) // origin.element
                rule = "padding-read" if origin.partial else "undefined-load"
                self._report(origin.finding(rule, position * elements + element, ()), origin.account)
        self._all.clear()
        self._firsts.clear()
