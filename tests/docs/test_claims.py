"""The tables of claims on the pages of Tilus, cuTile and the persistent GEMM: every row names a line of a file, which is as the page says.

``python -m tests.docs.test_claims`` writes the line numbers anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import named_lines

ROOT = Path(__file__).resolve().parents[2]
HEAD = "| the text | here | where |"
#: Page -> the folder of files that it names without one, and how many references it has at least.
PAGES = {
    ROOT / "docs/tilus.md": (ROOT / "examples/blackwell/tilus", 60),
    ROOT / "docs/cutile.md": (ROOT / "examples/blackwell/cutile", 30),
    ROOT / "docs/persistent_gemm.md": (ROOT / "examples/blackwell", 70),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_line_that_a_page_names(page: Path) -> None:
    folder, least = PAGES[page]
    assert len(list(named_lines.references(page.read_text()))) >= least
    wrong = named_lines.wrong(page, folder)
    assert not wrong, "\n".join([*wrong, "python -m tests.docs.test_claims writes the numbers anew"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_claim_has_a_reference(page: Path) -> None:
    assert HEAD in page.read_text()
    assert not named_lines.rows_without(page, HEAD)


def test_the_traffic_of_the_versions() -> None:
    """Rounds and bytes of the page's table follow from the tiles."""
    rows = re.findall(
        r"^\| (V\d) \| [^|]+ \| (\d+)x(\d+)x(\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+)% \| ([\d.]+) \| (\d+) \|",
        (ROOT / "docs/tilus.md").read_text(),
        re.MULTILINE,
    )
    assert [row[0] for row in rows] == ["V0", "V1", "V2", "V3", "V4", "V5", "V6"]
    for _, *numbers in rows:
        tm, tn, tk, tiles, rounds, most, loaded, rate = map(float, numbers)
        ctas = tm / 128
        assert tiles == 8192 / tm * 8192 / tn
        groups = 148 // ctas
        assert rounds == pytest.approx(tiles / groups, abs=0.005)
        assert most == pytest.approx(100 * tiles / groups / -(-tiles // groups), abs=0.05)
        slice_bytes = 2 * tk * (tm + tn)
        assert loaded == pytest.approx(tiles * 8192 / tk * slice_bytes / 1e9, abs=0.05)
        # A product of N = 256 takes 128 cycles and 16 of K; each CTA loads its share of the slice.
        assert rate == pytest.approx(slice_bytes / ctas / (tk / 16 * tn / 2), abs=0.5)


if __name__ == "__main__":
    for each, (where, _) in PAGES.items():
        named_lines.renumber(each, where)
