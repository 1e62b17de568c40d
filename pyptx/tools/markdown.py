"""Markdown of the generated pages: escaped text, code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["code", "prose", "table"]


def prose(text: str) -> str:
    """Escape the characters of ``text`` that Markdown reads as markup; the result may stand in a table."""
    return re.sub(r"([\\`*<\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def code(text: str) -> str:
    """Format ``text`` as code in the cell of a table, where a pipe must be escaped even inside code."""
    return f"`{text}`".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table. The cells must be Markdown already."""
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
