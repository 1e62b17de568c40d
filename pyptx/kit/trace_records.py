"""The buffer of a :class:`~pyptx.kit.trace.Trace`: the words of its headers and records.

Owns the layout of the buffer. The header of a warp has 16 words: a magic number, ``%smid``, the CTA's number
in the grid and the warp's number in the CTA; ``%clock64`` and ``%globaltimer`` at the beginning; the same at
the end; the number of records and 1 if the warp has ended. A record has 4 words: the lower 32 bits of the
clock; its next 16 bits and the kind and number of the mark; the record's number from 1; a value.
"""

from __future__ import annotations

from ..core.records import dataclass
from ..core.source import SourceLocation

__all__ = ["BEGIN", "END", "HEADER_WORDS", "INSTANT", "MAGIC", "MAX_NAMES", "RECORD_WORDS", "MarkName"]

HEADER_WORDS, RECORD_WORDS = 16, 4
#: First word of a warp that has started.
MAGIC = 0x70747831
#: Kinds of a record: its two lowest bits beside the number of the name.
INSTANT, BEGIN, END = 0, 1, 2
#: Number of names: 14 bits.
MAX_NAMES = 1 << 14


@dataclass(frozen=True, slots=True)
class MarkName:
    """The name of a mark, whether its value is a stage, and its line."""

    name: str
    is_stage: bool
    location: SourceLocation
