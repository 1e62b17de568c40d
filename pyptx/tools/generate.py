"""Writes all files that are generated from the instruction table and the catalog of findings.

``python -m pyptx.tools.generate`` writes docs/fidelity.md, docs/findings.md, docs/isa, the types of
``ptx.inst`` and the choices of string arguments; tests check that the files are up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .choices import choices_module
from .fidelity import fidelity_page
from .findings_page import findings_page
from .reference import reference_pages
from .stubs import stubs

__all__ = ["COMMAND", "GENERATED", "ROOT", "stale", "write"]

#: The command that updates stale files.
COMMAND = "python -m pyptx.tools.generate"
ROOT = Path(__file__).resolve().parents[2]

#: Path below the root -> a function that returns the text of the file, or the texts of a folder's files by
#: name.
GENERATED: dict[str, Callable[[], str | dict[str, str]]] = {
    "docs/fidelity.md": fidelity_page,
    "docs/findings.md": findings_page,
    "docs/isa": reference_pages,
    "pyptx/dsl/_instructions": stubs,
    "pyptx/dsl/choices.py": choices_module,
}


def _compare(path: str) -> dict[Path, str | None]:
    """Return, for each wrong file at ``path``, the right text, or None if the file should not exist."""
    made = GENERATED[path]()
    texts = {ROOT / path: made} if isinstance(made, str) else {ROOT / path / n: t for n, t in made.items()}
    there = {file for file in (ROOT / path).glob("*") if file.is_file()}
    wrong: dict[Path, str | None] = dict.fromkeys(sorted(there - texts.keys()))
    for file, text in texts.items():
        if not file.is_file() or file.read_text() != text:
            wrong[file] = text
    return wrong


def stale(path: str) -> list[str]:
    """Return the files at ``path``, a key of :data:`GENERATED`, that are wrong, missing or superfluous."""
    return [str(file.relative_to(ROOT)) for file in _compare(path)]


def write() -> None:
    """Bring every generated file up to date, and print the paths that changed."""
    for path in GENERATED:
        for file, text in _compare(path).items():
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            print(file.relative_to(ROOT))


if __name__ == "__main__":
    write()
