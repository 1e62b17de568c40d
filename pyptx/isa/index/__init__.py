"""The instruction table as it was read from its text: what a process decodes in place of reading the text.

Owns the rows of each chapter.  The module ``entries`` here is generated and has all of them;
``python -m pyptx.isa.index`` writes it anew, and a test compares it with the text.  A chapter whose file differs
from the one that its rows were made of is read from its text, which takes longer.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from zlib import crc32

from .encoding import Row

__all__ = ["checksum", "rows_of"]

_FORMS = Path(__file__).resolve().parent.parent / "forms"
_ENTRIES = f"{__package__}.entries"


def checksum(chapter: str) -> int | None:
    """Return the checksum of a chapter's file; None where only its bytecode is installed."""
    try:
        # A checkout may have other line ends than the file that the rows were made of.
        return crc32((_FORMS / f"{chapter}.py").read_bytes().replace(b"\r\n", b"\n"))
    except OSError:
        return None


def rows_of(chapter: str) -> dict[str, Row]:
    """Return the rows of a chapter by the ids of its forms, in table order.

    They come from the generated module if it is current, else from the text.

    Raises:
        NotationError: the module is not current, and the text does not follow the notation.
    """
    try:
        made, rows = import_module(_ENTRIES).CHAPTERS[chapter]
    except ModuleNotFoundError as error:
        if error.name != _ENTRIES:
            raise
    except KeyError:  # a new chapter
        pass
    else:
        if checksum(chapter) in (None, made):
            return {row[0]: row for row in rows}
    from .reading import read_rows

    return read_rows(chapter)
