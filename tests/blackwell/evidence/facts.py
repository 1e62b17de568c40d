"""One fact about a kernel: an instruction form that it has, or the fields of a descriptor or a tensor map.

Owns :class:`Fact`, its kinds, and the text of a fact in files and tables.  Two facts are the same if their kind and all
of their fields are; docs/evidence.md says for each kind which fields there are.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Fact", "Kind"]

_BETWEEN = "; "


class Kind(enum.Enum):
    """What a fact is about; the value stands in files."""

    FORM = "form"
    NUMBER = "number"
    MMA = "mma"
    OPERAND = "operand"
    COPY = "copy"

    __hash__ = object.__hash__


@dataclass(frozen=True)
class Fact:
    """One fact.

    Attributes:
        kind: what it is about.
        name: of the instruction, with its modifiers.
        fields: names and values, in a fixed order.
    """

    kind: Kind
    name: str
    fields: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, kind: Kind, name: str, **fields: object) -> Fact:
        """Return the fact with these fields; a field of None is left out."""
        return cls(kind, name, tuple((key, str(value)) for key, value in fields.items() if value is not None))

    @property
    def text(self) -> str:
        """Name and fields on one line."""
        return _BETWEEN.join((self.name, *(f"{key} {value}" for key, value in self.fields)))

    @classmethod
    def read(cls, kind: str, text: str) -> Fact:
        """Return the fact with this :attr:`text`."""
        name, *fields = text.split(_BETWEEN)
        return cls(Kind(kind), name, tuple(tuple(each.split(" ", 1)) for each in fields))  # type: ignore[misc]

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"

    def differences(self, other: Fact) -> list[str]:
        """Return what the other fact of the same kind has instead, one text for each field."""
        mine, theirs = dict(self.fields), dict(other.fields)
        found = [] if self.name == other.name else [other.name]
        for key in dict.fromkeys((*mine, *theirs)):
            if mine.get(key) != theirs.get(key):
                found.append(f"{key} {theirs.get(key, 'absent')}")
        return found
