"""How the findings of two judges are compared, and how programs are made small."""

from __future__ import annotations

import pytest

from pyptx.core.findings import RULES, Finding
from pyptx.core.source import SourceLocation
from pyptx.sim import Report
from tests.sanitizer.reference.compare import Comparison, Lines, named
from tests.sanitizer.reference.generate import generate
from tests.sanitizer.reference.legality import legal
from tests.sanitizer.reference.notation import parse
from tests.sanitizer.reference.printing import to_ptx
from tests.sanitizer.reference.reference import Judge
from tests.sanitizer.reference.shrinking import shrunk

pytestmark = pytest.mark.full

RACE, OTHER, FAR = ("data-race", 2, 3), ("data-race", 1, 3), ("proxy-fence-missing", 7, 9)


def _report(*findings: Finding) -> Report:
    return Report("k", "eager", list(findings), 0, 0, 0.0)


@pytest.mark.parametrize(
    ("expected", "found", "kind"),
    [
        ({RACE}, {RACE}, "agree"),
        ({RACE}, {RACE, OTHER}, "extra"),
        ({RACE, OTHER}, {RACE}, "agree"),
        ({RACE, FAR}, {RACE}, "missed"),
        ({RACE}, set(), "missed"),
    ],
)
def test_kinds_of_disagreement(expected: set[Lines], found: set[Lines], kind: str) -> None:
    assert Comparison(to_ptx(parse("st s")), expected, found, [], _report()).kind == kind


def test_the_findings_of_a_report() -> None:
    here, there = SourceLocation("k.ptx", 8), SourceLocation("k.ptx", 5)
    race = Finding(RULES["data-race"], "two accesses", here, other=(("the other access", there),))
    alone = Finding(
        RULES["cluster-lifetime"], "an access", here, other=(("the CTA's last instruction", there),)
    )
    deadlock = Finding(RULES["deadlock"], "all wait", here)
    found, others = named(_report(race, alone, deadlock))
    assert found == {("data-race", 5, 8), ("cluster-lifetime", 8, 8)}
    assert others == [str(deadlock)]


def _races(judge: Judge) -> bool:
    return any(rule == "data-race" for rule, *_ in judge.findings())


def test_a_program_is_made_small() -> None:
    """Without any of its statements the small program is illegal, or does not race."""
    judge = next(judge for judge in map(generate, range(100)) if _races(judge))
    small = shrunk(judge, _races)
    assert _races(small)
    assert len(list(small.program.statements())) < len(list(judge.program.statements()))
    for warp, position, statement in small.program.statements():
        if statement.lanes and not statement.loop:
            less = legal(small.program.without(warp, position))
            assert less is None or not _races(less)
