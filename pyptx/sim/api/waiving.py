"""Takes the findings that waivers cover out of the reports of a run, and reports waivers that cover none."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.findings import RULES, Finding, Verdict
from ...core.waivers import Waiver, waived
from .report import Report

__all__ = ["apply_waivers"]


def apply_waivers(reports: Sequence[Report], waivers: Sequence[Waiver]) -> None:
    """Move waived findings of the launches of a stream to ``report.waived``.

    A waiver that covers no finding of any launch is itself a finding for review, in the last report. There is
    none if a launch was not run to its end, since the rest of the kernel might have had the finding, and none
    for a rule that only ``pyptx lint`` reports.
    """
    if not waivers:
        return
    for report in reports:
        report.findings, report.waived = waived(report.findings, waivers)
        for run in report.runs:
            run.findings, run.waived = waived(run.findings, waivers)
    used = {waiver for report in reports for _, waiver in report.waived}
    if any(report.verdict is Verdict.INCOMPLETE for report in reports):
        return
    reports[-1].findings += [
        Finding(RULES["unused-waiver"], f"no finding needs the waiver {waiver}", waiver.location)
        for waiver in dict.fromkeys(waivers)
        if waiver not in used and not RULES[waiver.rule].lint
    ]
