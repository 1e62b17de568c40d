"""Breakpoints: lines of Python or PTX, and labels, with conditions over registers."""

from __future__ import annotations

import re

import numpy as np

from ...core.errors import SpecError
from ...core.records import dataclass
from ...ir import Module
from .places import Listing, Place, in_file
from .values import evaluate

__all__ = ["Breakpoint", "parse_breakpoint"]

_WHERE = re.compile(r"(?:(?P<file>.+):)?(?P<line>\d+)$")


@dataclass(eq=False)
class Breakpoint:
    """Where to stop.

    Attributes:
        number: what ``delete`` takes.
        text: what the user wrote.
        file, line: a line of this file; ``ptx`` is the printed text.
        condition: an expression over registers, or empty; it holds if it is true in any executing lane.
        hits: how often the machine has stopped here.
    """

    number: int
    text: str
    file: str
    line: int
    condition: str = ""
    hits: int = 0

    def at(self, place: Place, listing: Listing) -> bool:
        """True if the instruction belongs to the line; a helper's instruction belongs to its callers' too."""
        if self.file == "ptx":
            return listing.line(place.instruction) == self.line
        source = place.source
        chain = () if source is None else source.chain
        return any(each.line == self.line and in_file(each, self.file) for each in chain)

    def holds(self, place: Place) -> bool:
        """True if there is no condition, or if it is true in a lane of the split.

        Raises:
            SpecError: the condition cannot be evaluated.
        """
        if not self.condition:
            return True
        value = np.broadcast_to(np.asarray(evaluate(self.condition, place.split)), 32)
        return bool(value[place.split.lanes].any())

    def __str__(self) -> str:
        return f"{self.number}: {self.text}, {self.hits} stops"


def parse_breakpoint(number: int, text: str, listing: Listing, module: Module, main: str) -> Breakpoint:
    """Return the breakpoint that ``text`` describes: ``WHERE [if CONDITION]``.

    Args:
        number: the breakpoint's number.
        text: ``12`` (a line of the kernel's file), ``file.py:12``, ``ptx:30``, or the name of a label.
        listing: the printed text.
        module: the module.
        main: the kernel's file.

    Raises:
        SpecError: no instruction has this line, or there is no such label.
    """
    where, _, condition = (part.strip() for part in text.partition(" if "))
    match = _WHERE.fullmatch(where)
    if match is None:
        if where not in listing.labels:
            known = ", ".join(listing.labels) or "none"
            raise SpecError(f"break {where}: expected a line, FILE:LINE, ptx:LINE, or a label of: {known}")
        file, line = "ptx", _after(listing, listing.labels[where])
    else:
        file, line = match["file"] or main, int(match["line"])
    if file == "ptx":
        known_lines = sorted(
            printed
            for function in module.functions
            for each in function.instructions()
            if (printed := listing.line(each)) is not None
        )
    else:
        known_lines = sorted(
            {
                source.line
                for function in module.functions
                for each in function.instructions()
                for source in (() if each.source is None else each.source.chain)
                if in_file(source, file)
            }
        )
    if line not in known_lines:
        near = [str(each) for each in known_lines if each >= line][:3] or [str(n) for n in known_lines[-3:]]
        raise SpecError(
            f"break {where}: no instruction has this line", hint=f"near it: {', '.join(near) or 'none'}"
        )
    return Breakpoint(number, text, file, line, condition)


def _after(listing: Listing, label: int) -> int:
    """Return the line of the first instruction behind a label."""
    line = label
    while line < len(listing.text) and listing.text[line - 1].strip().endswith(":"):
        line += 1
    return line
