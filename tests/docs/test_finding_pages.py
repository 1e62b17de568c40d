"""The pages of docs/findings: each has a kernel with the finding, what the report says, and the mended kernel.

``test_pages.py`` runs the kernels. Here the shown report is compared with what the kernel's run prints.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

from pyptx.core.findings import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/findings").glob("*.md"))
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Rules that only the sanitizer reports, and each of its other rules that is about the order of accesses.
SANITIZER = {
    "assumed-order",
    "cluster-lifetime",
    "data-race",
    "member-mask",
    "ordered-by-chance",
    "proxy-fence-missing",
    "proxy-fence-open",
    "register-pool",
    "relaxed-handover",
    "speculative-load",
    "store-collision",
    "tcgen05-fence-missing",
    "tcgen05-wait-missing",
}


def printed(page: Path) -> tuple[str, str]:
    """What the page shows as the report, and what its first kernel prints."""
    text = page.read_text()
    first, shown = list(_BLOCK.finditer(text))[:2]
    assert (first[1], shown[1]) == ("python", "text"), page
    linecache.checkcache(str(page))
    # The code has the lines of the page, so that findings name them.
    code = "\n" * text[: first.start(2)].count("\n") + first[2]
    output = io.StringIO()
    names: dict[str, Any] = {"__name__": "page"}
    with contextlib.redirect_stdout(output):
        exec(compile(code, str(page), "exec"), names)
    return shown[2], output.getvalue().replace(f"{ROOT}/", "")


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_report_is_what_the_kernel_prints(page: Path) -> None:
    shown, said = printed(page)
    assert shown == said
    assert f"[{page.stem}]" in said.splitlines()[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_rule(page: Path) -> None:
    rule, text = RULES[page.stem], page.read_text()
    assert text.startswith(f"# {rule.name}\n") and f"| {rule.severity} |" in text
    assert f"#{rule.anchor})" in text


def test_every_rule_of_the_sanitizer_has_a_page() -> None:
    assert {page.stem for page in PAGES} == SANITIZER
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert all(f"findings/{rule}.md" in navigation for rule in SANITIZER)
