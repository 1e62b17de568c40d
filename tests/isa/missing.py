"""What the sources name and the table lacks: ``python -m tests.isa.missing``.

Each file of ``tests/isa/sources`` holds the facts of one source, a line per instruction: its mnemonic with the
words that are always there, and the modifiers that the source gives it.  Names in brackets stand for other
vocabulary: special registers, directives and the like.  ``reasons.txt`` says why some of it is not in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyptx.core.types import TYPES
from pyptx.ir.declarations import SPACES
from pyptx.isa import forms_of
from pyptx.isa.directives import ATTRIBUTES, DIRECTIVES, PRAGMAS
from pyptx.isa.special import SPECIAL_REGISTERS
from pyptx.isa.targets import KNOWN_TARGETS

SOURCES = Path(__file__).with_name("sources")
_REASONS = SOURCES / "reasons.txt"

#: Vocabulary other than instructions: where a source writes [it], the project keeps it.
_VOCABULARY: dict[str, Callable[[], set[str]]] = {
    "[special registers]": lambda: {name.partition(".")[0] for name in SPECIAL_REGISTERS},
    "[directives]": lambda: set(DIRECTIVES),
    "[attributes]": lambda: set(ATTRIBUTES),
    "[pragmas]": lambda: set(PRAGMAS),
    "[state spaces]": lambda: {space[1:] for space in SPACES} | {"reg"},
    "[fundamental types]": lambda: set(TYPES),
    "[targets]": lambda: set(KNOWN_TARGETS),
}


@dataclass(frozen=True, order=True)
class Fact:
    """``mnemonic`` exists, with ``modifier`` if that is not empty."""

    mnemonic: str
    modifier: str = ""

    def __str__(self) -> str:
        return f"{self.mnemonic} .{self.modifier}" if self.modifier else self.mnemonic


#: ``mnemonic: modifiers``; the mnemonic may hold ``::``.
_LINE = re.compile(r"(\[[^\]]*\]|\S+):(?: (.*))?")


def _facts(line: str) -> list[Fact]:
    match = _LINE.fullmatch(line)
    assert match is not None, f"{line!r} is not 'mnemonic: modifiers'"
    return [Fact(match[1]), *(Fact(match[1], modifier) for modifier in (match[2] or "").split())]


def read(path: Path) -> Iterator[Fact]:
    """The facts of one source."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield from _facts(line)


def reasons() -> dict[Fact, str]:
    """Facts that the table lacks on purpose, each with the reason above it in the file."""
    found: dict[Fact, str] = {}
    reason = ""
    for line in _REASONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            reason = line[2:]
        elif line and not line.startswith("#"):
            assert reason, f"{line!r} stands below no reason"
            whole, *parts = _facts(line)
            for fact in parts or [whole]:
                assert fact not in found, f"{fact} has two reasons"
                found[fact] = reason
    return found


@cache
def _words(opcode: str) -> tuple[frozenset[str], ...]:
    """The modifiers of every form of an opcode."""
    return tuple(
        frozenset(alternative.text for slot in form.slots() for alternative in slot.alternatives)
        for form in forms_of(opcode)
    )


def in_table(fact: Fact) -> bool:
    """Has some form the mnemonic's words and the modifier?"""
    if fact.mnemonic.startswith("["):
        return not fact.modifier or fact.modifier in _VOCABULARY[fact.mnemonic]()
    opcode, *words = fact.mnemonic.split(".")
    needed = {*words, fact.modifier} - {""}
    return any(needed <= form for form in _words(opcode))


def missing() -> dict[Fact, list[str]]:
    """Facts that are neither in the table nor among the reasons, and the sources that name them."""
    excused = reasons()
    found: dict[Fact, list[str]] = {}
    for path in sorted(SOURCES.glob("*.txt")):
        if path != _REASONS:
            for fact in read(path):
                whole = Fact(fact.mnemonic)
                if fact not in excused and whole not in excused and not in_table(fact):
                    found.setdefault(fact, []).append(path.stem)
    # Of a mnemonic that is missing altogether, its modifiers need not be listed.
    return {f: s for f, s in found.items() if not f.modifier or Fact(f.mnemonic) not in found}


def main() -> None:
    found = missing()
    for fact, sources in sorted(found.items()):
        print(f"{fact}   ({', '.join(sources)})")
    print(f"{len(found)} missing, {len(reasons())} left out with a reason")


if __name__ == "__main__":
    main()
