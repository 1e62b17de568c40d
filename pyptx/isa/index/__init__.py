"""The instruction table as it was read from its text: what a process decodes in place of reading the text.

Here each chapter of the table has a module of the same name, which is generated and holds constants alone.
``python -m pyptx.isa.index`` writes these modules anew; a test compares them with the text.  A chapter whose
file differs from the one that its module was made of is read from its text, which takes longer.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from zlib import crc32

from .encoding import Encoded

__all__ = ["checksum", "entries_of"]

_FORMS = Path(__file__).resolve().parent.parent / "forms"


def checksum(chapter: str) -> int | None:
    """Return the checksum of a chapter's file; None where only its bytecode is installed."""
    try:
        # A checkout may have other line ends than the file that the module was made of.
        return crc32((_FORMS / f"{chapter}.py").read_bytes().replace(b"\r\n", b"\n"))
    except OSError:
        return None


def entries_of(chapter: str) -> dict[str, Encoded]:
    """Return the entries of a chapter by id, in table order.

    They come from the chapter's module if that is current, else from the text.

    Raises:
        NotationError: the module is not current, and the text does not follow the notation.
    """
    module = f"{__package__}.{chapter}"
    try:
        index = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    else:
        if checksum(chapter) in (None, index.CHECKSUM):
            return {entry[0]: entry for entry in index.ENTRIES}
    from .reading import read_entries

    return read_entries(chapter)
