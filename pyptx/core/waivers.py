"""Waivers: findings that the author has looked at and accepts, by rule and line, each with a reason."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .errors import SpecError
from .records import dataclass
from .source import SourceLocation

if TYPE_CHECKING:
    from .findings import Finding

__all__ = ["Waiver", "check_waiver", "waived"]


@dataclass(frozen=True, slots=True)
class Waiver:
    """The author accepts findings of one rule at one line.

    Attributes:
        rule: name of the rule.
        file: the file: an absolute path, the end of one (``ring.py``), or a name such as ``<stdin>``.
        line: the line of one of the accesses, or of a call that leads to it.
        reason: why the finding is accepted.
        last: the last line, for a waiver of several lines; 0 for one line.
    """

    rule: str
    file: str
    line: int
    reason: str
    last: int = 0

    def __str__(self) -> str:
        return f"[{self.rule}] at {os.path.basename(self.file)}:{self.line}: {self.reason}"

    @property
    def location(self) -> SourceLocation:
        """The (first) line."""
        return SourceLocation(self.file, self.line)

    def covers(self, finding: Finding) -> bool:
        """True if the finding is of the rule, and one of its places is at the line."""
        if finding.rule.name != self.rule:
            return False
        places = [finding.location, *(place for _, place in finding.other)]
        return any(self._holds(line) for place in places if place is not None for line in place.chain)

    def _holds(self, place: SourceLocation) -> bool:
        same = place.file == self.file or place.file.endswith(os.sep + self.file)
        return same and self.line <= place.line <= max(self.line, self.last)


def check_waiver(waiver: object) -> Waiver:
    """Return the waiver. Raise :class:`SpecError` if its rule does not exist, or if it has no reason."""
    if not isinstance(waiver, Waiver):
        raise SpecError(
            f"a waiver is {waiver!r}: expected a sim.Waiver",
            hint='sim.Waiver("store-collision", "kernel.py", 12, "all lanes store the same value")',
        )
    from .findings import RULES

    if waiver.rule not in RULES:
        near = difflib.get_close_matches(waiver.rule, RULES, 1)
        raise SpecError(
            f"a waiver names the rule {waiver.rule!r}, which does not exist",
            hint=f"did you mean {near[0]!r}?" if near else "docs/findings.md lists the rules",
        )
    if not str(waiver.reason).strip():
        raise SpecError(f"the waiver of {waiver.rule} at line {waiver.line} has no reason: say why")
    return waiver


def waived(
    findings: Iterable[Finding], waivers: Sequence[Waiver]
) -> tuple[list[Finding], list[tuple[Finding, Waiver]]]:
    """Return the findings that no waiver covers, and the others, each with the first waiver that does."""
    left: list[Finding] = []
    accepted: list[tuple[Finding, Waiver]] = []
    for finding in findings:
        waiver = next((one for one in waivers if one.covers(finding)), None)
        if waiver is None:
            left.append(finding)
        else:
            accepted.append((finding, waiver))
    return left, accepted
