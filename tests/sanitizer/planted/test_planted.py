"""Each planted bug is reported with the line, with why, and with the remedy; the mended kernels are right."""

from __future__ import annotations

import inspect

import pytest

from .kernels import PLANTED

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", PLANTED)
def test_the_mended_kernel_is_right(name: str) -> None:
    planted = PLANTED[name]
    report = planted.build(False).simulate(*planted.inputs, reference=planted.expected, timeout=60)
    assert report.verdict in ("clean", "review"), str(report)
    assert {finding.rule.name for finding in report.findings} <= {"proxy-fence-open"}


@pytest.mark.parametrize("name", PLANTED)
def test_the_report_says_what_to_change(name: str) -> None:
    planted = PLANTED[name]
    report = planted.build(True).simulate(*planted.inputs, timeout=60)
    finding = report.findings[0]
    assert report.verdict == "error" and finding.rule.name == planted.rule, str(report)
    assert finding.advice.dsl == planted.remedy, str(finding)
    said = f"{finding.why}\n{finding.advice}"
    assert all(words in said for words in planted.words), said


@pytest.mark.parametrize("name", PLANTED)
def test_the_report_names_the_line_of_the_bug(name: str) -> None:
    """The line stands among the two accesses, in why, or in the advice."""
    planted = PLANTED[name]
    lines, _ = inspect.getsourcelines(inspect.getmodule(type(planted)))  # type: ignore[arg-type]
    marked = {f"kernels.py:{number}" for number, line in enumerate(lines, 1) if "# BUG" in line}
    report = planted.build(True).simulate(*planted.inputs, timeout=60)
    assert any(place in str(report.findings[0]) for place in marked), str(report)
