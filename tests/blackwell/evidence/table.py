"""The committed table: each fact that kernels of others, or kernels that ran on a GPU, have, with some of these kernels.

``facts.tsv`` has the facts of kernels for Blackwell: kind, fact, and for each project the number of kernels and the name of
one.  ``h200.xz`` has the same for what ran on an H200, which is far more.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .facts import Fact

__all__ = ["Table", "Use"]

_FILE = Path(__file__).with_name("facts.tsv")
_HOPPER_FILE = Path(__file__).with_name("h200.xz")
#: The project whose facts are in the other file.
_HOPPER = "h200"


@dataclass(frozen=True)
class Use:
    """The kernels of one project that have a fact.

    Attributes:
        project: key of :data:`~tests.blackwell.evidence.references.REFERENCES`.
        count: how many there are.
        kernel: name of one of them.
    """

    project: str
    count: int
    kernel: str

    def __str__(self) -> str:
        return f"{self.project}={self.count}:{self.kernel}"

    @classmethod
    def read(cls, text: str) -> Use:
        """Return the use with this text."""
        project, _, rest = text.partition("=")
        count, _, kernel = rest.partition(":")
        return cls(project, int(count), kernel)


@dataclass(frozen=True)
class Table:
    """Facts with their uses."""

    uses: Mapping[Fact, tuple[Use, ...]]

    @classmethod
    def of(cls, kernels: Mapping[Fact, Mapping[str, set[str]]]) -> Table:
        """Return the table of the kernels of each project that have each fact."""
        return cls(
            {
                fact: tuple(
                    Use(project, len(names), min(names)) for project, names in sorted(projects.items())
                )
                for fact, projects in kernels.items()
            }
        )

    def write(self) -> None:
        """Write the committed files."""
        _FILE.write_text(self._text(lambda use: use.project != _HOPPER), encoding="utf-8")
        hopper = self._text(lambda use: use.project == _HOPPER).encode()
        _HOPPER_FILE.write_bytes(lzma.compress(hopper, preset=9))

    def _text(self, wanted: Callable[[Use], bool]) -> str:
        lines = []
        for fact, uses in self.uses.items():
            chosen = [str(use) for use in uses if wanted(use)]
            if chosen:
                lines.append("\t".join((fact.kind.value, fact.text, *chosen)) + "\n")
        return "".join(sorted(lines))

    @staticmethod
    @cache
    def committed() -> Table:
        """Return the committed table."""
        found: dict[Fact, tuple[Use, ...]] = {}
        for text in (_FILE.read_text(encoding="utf-8"), lzma.decompress(_HOPPER_FILE.read_bytes()).decode()):
            for line in text.splitlines():
                kind, fact, *uses = line.split("\t")
                key = Fact.read(kind, fact)
                found[key] = (*found.get(key, ()), *map(Use.read, uses))
        return Table(found)
