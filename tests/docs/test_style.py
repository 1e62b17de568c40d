"""Docstrings, comments, messages and pages use the words of docs/style.md; ``words.txt`` lists those that they avoid."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = Path(__file__).with_name("words.txt")
#: Written by hand; what a program writes follows the text that the program has.
SOURCES = [
    *sorted((ROOT / "pyptx").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "units").glob("*.md")),
]
#: Quotes the words that it advises against.
EXCEPT = {ROOT / "docs" / "style.md"}
_TEXT = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@cache
def rules() -> list[tuple[re.Pattern[str], str]]:
    """The expressions and what to write instead."""
    found = []
    for line in WORDS.read_text().splitlines():
        if line and not line.startswith("#"):
            expression, _, advice = line.partition(" = ")
            found.append((re.compile(rf"\b(?:{expression})\b", re.IGNORECASE), advice))
    return found


def faults(text: str) -> Iterator[str]:
    """What is wrong with a text."""
    flat = re.sub(r"\s+(?:#:? )?", " ", text)
    for expression, advice in rules():
        for match in expression.finditer(flat):
            around = flat[max(0, match.start() - 30) : match.end() + 30]
            yield f"{match[0]!r} in ...{around}...: {advice}"


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Strings and runs of comments of a Python source, each with its line."""
    run: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if run and token.start[0] != last + 1:
                yield first, " ".join(run)
                run = []
            first = first if run else token.start[0]
            last = token.start[0]
            run.append(token.string.lstrip("#: "))
        elif token.type in _TEXT:
            yield token.start[0], token.string
    if run:
        yield first, " ".join(run)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sources(path: Path) -> None:
    found = [f"line {line}: {fault}" for line, text in texts(path.read_text()) for fault in faults(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "path", [page for page in PAGES if page not in EXCEPT], ids=lambda path: str(path.relative_to(ROOT))
)
def test_pages(path: Path) -> None:
    found = list(faults(path.read_text()))
    assert not found, "\n".join(found)


def test_a_forbidden_word_is_found() -> None:
    source = 'def f():\n    """What nobody\n    wrote."""\n    # it is held\n    # against a reference\n'
    assert [line for line, text in texts(source) for _ in faults(text)] == [2, 4]
    assert not list(faults("No thread wrote it."))


def test_the_style_page_shows_ten_pairs() -> None:
    page = (ROOT / "docs" / "style.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    pairs = [row for row in rows if row != ("before", "after")]
    assert len(pairs) == 10 and all(before != after and not list(faults(after)) for before, after in pairs)
