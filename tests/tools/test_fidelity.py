"""docs/fidelity.md is what the table and the simulator say today."""

from __future__ import annotations

from pathlib import Path

from pyptx.tools.fidelity import CONTROL, fidelity_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fidelity.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == fidelity_page(), "run: python -m pyptx.tools.fidelity > docs/fidelity.md"


def test_it_lists_what_is_not_modelled() -> None:
    rows = [line.split("|") for line in fidelity_page().splitlines() if line.startswith("| `")]
    fidelity = {row[1].strip(" `"): row[2].strip() for row in rows}
    assert fidelity["add.int"] == "exact"
    assert fidelity["tcgen05.mma.ss"] == "bounded"
    assert all(fidelity[form] == "exact" for form in CONTROL)
