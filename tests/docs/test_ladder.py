"""The page of the ladder: its table is what the kernels have, its line numbers are right.

``python -m tests.docs.test_ladder`` writes the line numbers anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyptx.toolchain import Tool
from tests.examples.loading import load_example

from . import named_lines

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/ladder.md"
LADDER = ROOT / "examples/blackwell/ladder"


def test_every_line_that_the_page_names() -> None:
    assert len(list(named_lines.references(PAGE.read_text()))) > 60
    wrong = named_lines.wrong(PAGE, LADDER)
    assert not wrong, "\n".join([*wrong, "python -m tests.docs.test_ladder writes the numbers anew"])


def test_every_row_of_the_claims_has_a_reference() -> None:
    head = "| the article | here | where |"
    assert head in PAGE.read_text()
    assert not named_lines.rows_without(PAGE, head)


@pytest.mark.full
def test_the_table_of_rungs(ptxas: Tool) -> None:
    """Registers depend on ptxas: within a few of what the page says, and equal with the version that it names."""
    table = load_example("blackwell/ladder/table.py")
    rows = [
        row.strip("| ").split(" | ")
        for row in PAGE.read_text().split("\n")
        if re.match(r"\| v\d[ab]? \|", row)
    ]
    shown = {row[0]: row[1:] for row in rows if len(row) == len(table.HEADS)}
    assert list(shown) == list(table.RUNGS)
    for name, cells in shown.items():
        _, *expected = table.row(name)
        assert cells[:-1] == expected[:-1], name
        slack = 0 if ptxas.version[:2] == (13, 5) else 24
        assert abs(int(cells[-1]) - int(expected[-1])) <= slack, name


if __name__ == "__main__":
    named_lines.renumber(PAGE, LADDER)
