"""References of pages to lines of files: ``FILE:LINE`` and a piece of that line, which tests check and rewrite; and
excerpts, blocks of code that are parts of the file in their title.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

__all__ = ["EXCERPT", "REFERENCE", "is_part", "lines_of", "references", "renumber", "rows_without", "wrong"]

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = re.compile(r"`([\w/]+\.py):(\d+)` `([^`]+|``[^`]+``[^`]*)`(?=;| \|)")

EXCERPT = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def is_part(block: str, lines: list[str]) -> bool:
    """Whether these lines stand one after the other in a file, all indented by the same number of spaces."""
    wanted = block.rstrip("\n").split("\n")
    for first in range(len(lines) - len(wanted) + 1):
        found = "\n".join(lines[first : first + len(wanted)])
        if textwrap.dedent(found) == "\n".join(wanted):
            return True
    return False


def lines_of(name: str, folder: Path) -> list[str]:
    """The lines of a file; a name without a folder is in ``folder``."""
    return ((ROOT if "/" in name else folder) / name).read_text().split("\n")


def references(text: str) -> Iterator[tuple[str, int, str]]:
    """File, line and piece of each reference."""
    for name, number, snippet in REFERENCE.findall(text):
        yield name, int(number), snippet


def wrong(page: Path, folder: Path) -> list[str]:
    """The references whose line has another text."""
    return [
        f"{name}:{number}: {snippet}"
        for name, number, snippet in references(page.read_text())
        if number > len(lines_of(name, folder)) or snippet not in lines_of(name, folder)[number - 1]
    ]


def rows_without(page: Path, head: str) -> list[str]:
    """The rows of the tables with this head that have no reference."""
    found = []
    for part in page.read_text().split(head + "\n")[1:]:
        rows = part.split("\n\n", 1)[0].split("\n")[1:]
        found += [row for row in rows if row.startswith("|") and not REFERENCE.search(row)]
    return found


def renumber(page: Path, folder: Path) -> None:
    """Write the first line that has the quoted text into each reference of the page."""

    def right(match: re.Match[str]) -> str:
        name, _, snippet = match.groups()
        number = next((n for n, line in enumerate(lines_of(name, folder), 1) if snippet in line), None)
        if number is None:
            raise SystemExit(f"{page.name}: {name} has no line with {snippet!r}")
        return f"`{name}:{number}` `{snippet}`"

    page.write_text(REFERENCE.sub(right, page.read_text()))
