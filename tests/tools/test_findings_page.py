"""docs/findings.md: the catalog, complete. test_generate.py holds the page up to date."""

from __future__ import annotations

from pyptx.core.findings import RULES, Verdict
from pyptx.tools.findings_page import findings_page


def test_every_rule_is_listed_once_under_its_severity() -> None:
    severity, listed = "", {}
    for line in findings_page().splitlines():
        if line.startswith("## "):
            severity = line.removeprefix("## ")
        elif line.startswith(("| `", "| [`")):
            name = line.split("`")[1]
            assert name not in listed
            listed[name] = severity
    assert listed == {rule.name: str(rule.severity) for rule in RULES.values()}


def test_a_row_says_what_to_do_and_where_the_rule_stands() -> None:
    row = next(line for line in findings_page().splitlines() if line.startswith("| `mbarrier-reinit`"))
    rule = RULES["mbarrier-reinit"]
    assert rule.severity is Verdict.REVIEW
    assert rule.summary in row and rule.remedy in row and f"#{rule.anchor})" in row
