"""Blocks of code whose title is a file are parts of that file."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import named_lines

ROOT = Path(__file__).resolve().parents[2]
#: Page -> the folder of files that its titles name without one.
FOLDERS = {
    "docs/blackwell.md": "examples/blackwell",
    "docs/ladder.md": "examples/blackwell/ladder",
    "docs/persistent_gemm.md": "examples/blackwell",
}
EXCERPTS = [
    pytest.param(name, block, folder, id=f"{Path(page).stem}-{name}")
    for page, folder in FOLDERS.items()
    for name, block in named_lines.EXCERPT.findall((ROOT / page).read_text())
]


def test_every_page_with_excerpts_is_here() -> None:
    found = {
        str(page.relative_to(ROOT))
        for page in (ROOT / "docs").rglob("*.md")
        if named_lines.EXCERPT.search(page.read_text())
    }
    assert found == set(FOLDERS)


@pytest.mark.parametrize(("name", "block", "folder"), EXCERPTS)
def test_excerpts_are_parts_of_the_files(name: str, block: str, folder: str) -> None:
    lines = named_lines.lines_of(name, ROOT / folder)
    assert named_lines.is_part(block, lines), f"{name} has no such lines:\n{block}"


def test_another_text_is_no_part() -> None:
    lines = ["def f():", "    x = 1", "", "    return x"]
    assert named_lines.is_part("x = 1\n\nreturn x\n", lines)
    assert not named_lines.is_part("x = 2\n", lines) and not named_lines.is_part("x = 1\nreturn x\n", lines)
