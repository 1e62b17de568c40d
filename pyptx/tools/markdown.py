"""Text as Markdown: what the generated pages share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["code", "prose", "table"]


def prose(text: str) -> str:
    """``text`` with what Markdown would read as markup escaped; safe in the cell of a table."""
    return re.sub(r"([\\`*<\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def code(text: str) -> str:
    """``text`` as code in the cell of a table. There a pipe is escaped even inside code."""
    return f"`{text}`".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table whose cells are Markdown already."""
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
