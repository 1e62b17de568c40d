"""Divides the text of an instruction-table chapter into entries, and finds the clauses that entries share.

A chapter may begin with a head: clauses that apply to all of its entries. A family of instructions within the
chapter may begin with a head of its own. Entries that differ only in the opcode may have one text under
several headers. This module does not read the clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..core.records import dataclass
from .notation import NotationError

__all__ = ["OPCODE", "Entry", "split_chapter"]

#: Stands for the opcode in the text of an entry with several headers, and in the ``see`` clause of a head.
OPCODE = "<opcode>"

_FAMILY = re.compile(r"family +([\w.:\-]+)")
#: Where a header, a family or its end begins.
_PIECE = re.compile(r"\n(?=\[|family|end[ \t]*(?:\n|\Z))")
_HEADER = re.compile(r"\[([\w.:\-]+)\]")


@dataclass(frozen=True, slots=True)
class Entry:
    """The text of one table entry, and the shared clauses of its family and its chapter."""

    text: str
    heads: tuple[str, ...]


@dataclass
class _Block:
    """The header lines of one or several table entries, and the one text that these entries share."""

    headers: list[str]
    family: str | None
    text: str


def split_chapter(text: str) -> dict[str, Entry]:
    """Return the table entries of a chapter by id, in the order of the text.

    Raises:
        NotationError: an id that occurs twice, a family without a name or entries, several headers for a text
            without ``<opcode>`` or with equal opcodes.
    """
    blocks, heads = _blocks(text)
    entries: dict[str, Entry] = {}
    for block in blocks:
        own = () if block.family is None else (heads[block.family],)
        for identifier, entry in _entries(block):
            if identifier in entries:
                raise NotationError(f"there are two entries [{identifier}]")
            entries[identifier] = Entry(entry, (*own, heads[""]))
    for name in heads.keys() - {""} - {block.family for block in blocks}:
        raise NotationError(f"family {name} has no entries")
    return entries


def _blocks(text: str) -> tuple[list[_Block], dict[str, str]]:
    """Return the chapter's blocks, and the shared clauses by family name ("": those of the whole chapter)."""
    blocks: list[_Block] = []
    first, *pieces = _PIECE.split(f"\n{text}")
    heads = {"": first}
    family: str | None = None
    for piece in pieces:
        line, _, rest = piece.partition("\n")
        if line.startswith("["):
            if blocks and blocks[-1].family == family and not blocks[-1].text.strip():
                blocks[-1].headers.append(line)
                blocks[-1].text = rest
            else:
                blocks.append(_Block([line], family, rest))
        elif match := _FAMILY.fullmatch(line.rstrip()):
            family = match[1]
            if family in heads:
                raise NotationError(f"there are two instruction families named {family}")
            heads[family] = rest
        elif line.startswith("family"):
            raise NotationError(f"expected 'family NAME', got {line!r}")
        else:
            if family is None:
                raise NotationError("'end' closes no instruction family: expected 'family NAME' before it")
            family = None
            for loose in rest.splitlines():
                if loose.strip() and not loose.startswith("#"):
                    raise NotationError(
                        f"expected an entry or an instruction family after 'end', got {loose!r}"
                    )
    return blocks, heads


def _entries(block: _Block) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each table entry that the block stands for."""
    body = block.text.rstrip("\n")
    names = []
    for header in block.headers:
        match = _HEADER.match(header)
        if match is None:
            raise NotationError(f'the header of a form is {header!r}: expected [id] "summary"')
        names.append(match[1])
    opcodes = [name.partition(".")[0] for name in names]
    shared = len(names) > 1
    if shared != (OPCODE in body):
        raise NotationError(f"[{'], ['.join(names)}]: a text has {OPCODE} exactly if it has several headers")
    if shared and len(set(opcodes)) < len(opcodes):
        raise NotationError(f"[{'], ['.join(names)}]: entries with one text must have different opcodes")
    for name, header, opcode in zip(names, block.headers, opcodes, strict=True):
        yield name, f"{header}\n{body.replace(OPCODE, opcode)}\n"
