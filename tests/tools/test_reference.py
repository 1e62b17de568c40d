"""The reference pages as Markdown: complete, well-formed, and no longer than the table is."""

from __future__ import annotations

import re

import pytest

from pyptx.isa import all_forms
from pyptx.isa.table import chapter_of
from pyptx.tools.markdown import code, prose, table
from pyptx.tools.reference import reference_pages


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


def cells(line: str) -> int:
    """Cells of a table's line: pipes that are not escaped end them."""
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.full
def test_every_form_has_a_section(pages: dict[str, str]) -> None:
    for form in all_forms():
        page = pages[f"{chapter_of(form.id)}.md"]
        assert page.count(f"\n## {form.id}\n") == 1
    assert all(f"]({name})" in pages["index.md"] for name in pages if name != "index.md")


@pytest.mark.full
def test_links_have_their_anchor_on_the_page(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
        anchors = [re.sub(r"[^\w-]", "", heading.lower()) for heading in headings]
        assert len(set(anchors)) == len(anchors), name
        assert set(re.findall(r"\]\(#([^)]*)\)", page)) == set(anchors), name


@pytest.mark.full
def test_tables_are_rectangular(pages: dict[str, str]) -> None:
    for page in pages.values():
        for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
            lines = block.splitlines()
            assert {cells(line) for line in lines} == {cells(lines[0])}, lines[0]


@pytest.mark.full
def test_what_a_page_says_of_a_form(pages: dict[str, str]) -> None:
    _, _, section = pages["mbarrier.md"].partition("\n## mbarrier.try_wait.parity\n")
    section = section.partition("\n## ")[0]
    assert "mbarrier.try_wait.parity{.sem.scope}{.space}.b64 waitComplete, [addr], phaseParity" in section
    assert "ptx.inst.mbarrier.try_wait.parity.b64(waitComplete, ptx.addr(addr), phaseParity)" in section
    assert (
        "| `.sem` | optional, with .scope | `.acquire` (PTX 8.0), `.relaxed` (PTX 8.6; sm_90+) |" in section
    )
    assert "| `waitComplete` | written | register | `pred` |  |" in section
    assert "Needs PTX 7.8; sm_90+." in section
    assert "Recorded by `ptx.mbarrier.try_wait`." in section
    assert "Simulator: exact. Variants: 15." in section


@pytest.mark.full
def test_pipes_are_escaped_and_sets_stand_for_variants(pages: dict[str, str]) -> None:
    assert r"| `p{\|q}` | written |" in pages["comparison.md"]
    # ld.strong has 30,096 variants.
    assert len(pages["data_movement.md"]) < 100_000


def test_markdown() -> None:
    assert prose("a*b|c, _ and [x] < `y`, cta_group") == r"a\*b\|c, \_ and \[x\] \< \`y\`, cta_group"
    assert code("d|p") == r"`d\|p`"
    assert table(("a", "b"), [("1", "")]) == ["| a | b |", "|---|---|", "| 1 |  |"]
