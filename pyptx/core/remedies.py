"""What mends a kernel that has a finding: advice, its spelling in the DSL and in PTX, and an edit.

Each rule of the catalog has a remedy in general words.  A checker that knows more, such as which barrier the
first thread arrives at, gives its finding a :class:`Remedy` of its own.  Where one instruction is enough, the
remedy has an :class:`Edit`, which a program can apply.
"""

from __future__ import annotations

import enum

from .records import dataclass
from .source import SourceLocation

__all__ = ["Edit", "Place", "Remedy"]


class Place(enum.Enum):
    """Where an edit puts its instruction, relative to the instructions of a line."""

    BEFORE = "before"
    AFTER = "after"
    REPLACE = "replace"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Edit:
    """One instruction that goes in at a line.

    Attributes:
        ptx: the instruction as PTX text, with its semicolon.
        place: before or after the instructions of the line, or in place of the instruction there.
        location: the line.
        replaced: the text of the instruction that the new one replaces; empty unless it replaces one.
        origin: the line from which the instruction moves; None if it is a new one.
    """

    ptx: str
    place: Place
    location: SourceLocation
    replaced: str = ""
    origin: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What mends a kernel.

    Attributes:
        advice: what to do, in which threads and between which lines.
        dsl: the call in the DSL; empty if the advice is no call.
        ptx: the same in PTX.
        edit: the remedy as one instruction at a line, or None if one instruction is not enough.
    """

    advice: str
    dsl: str = ""
    ptx: str = ""
    edit: Edit | None = None

    def __str__(self) -> str:
        lines = [self.advice]
        if self.dsl:
            lines.append(f"DSL:  {self.dsl}")
        if self.ptx:
            lines.append(f"PTX:  {self.ptx}")
        return "\n".join(lines)
