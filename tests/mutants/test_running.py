"""How a run is classified, on findings made by hand; one mutant that is run."""

from __future__ import annotations

import pytest

from pyptx.core.findings import RULES, Finding, Rule
from pyptx.core.source import SourceLocation

from .expected import Expectation
from .mutants import mutants
from .running import Outcome, classify, run_mutant, run_original, schedule_options
from .tables import best, by_operator, census

_RACE = RULES["data-race"]
_BUG = Expectation("error", ("data-race", "deadlock"), "memory-consistency-model")
_LETTER = Expectation("review", ("wgmma-fence",), "memory-consistency-model", "compilers omit it")
#: The mutated line, and those that access memory.
_LINE, _ACCESSES = 7, frozenset({20, 30})


def _at(line: int) -> SourceLocation:
    return SourceLocation("<ptx>", line)


def _finding(rule: Rule, line: int, *others: int) -> Finding:
    return Finding(rule, "", _at(line), other=tuple(("other", _at(o)) for o in others))


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("findings", "right", "expected", "how"),
    [
        ([_finding(_RACE, _LINE)], True, _BUG, "named"),
        ([_finding(_RACE, 20)], False, _BUG, "named"),
        ([_finding(_RACE, 99, 30)], True, _BUG, "named"),
        ([_finding(_RACE, 99, 98)], True, _BUG, "otherwise"),
        ([_finding(RULES["deadlock"], _LINE)], True, _BUG, "named"),
        ([_finding(RULES["trap"], _LINE)], False, _BUG, "otherwise"),
        ([_finding(RULES["step-limit"], _LINE)], False, _BUG, "otherwise"),
        ([_finding(RULES["wgmma-fence"], _LINE)], True, _LETTER, "named"),
        ([], False, _BUG, "values"),
        ([], True, _BUG, "unseen"),
    ],
)
def test_classification(findings: list[Finding], right: bool, expected: Expectation, how: str) -> None:
    assert classify(findings, right, expected, _LINE, _ACCESSES).how == how


def test_a_finding_for_review_does_not_name_a_bug() -> None:
    bug = Expectation("error", ("copy-never-waited",), "memory-consistency-model")
    finding = _finding(RULES["copy-never-waited"], _LINE)
    assert classify([finding], True, bug, _LINE, _ACCESSES).how == "otherwise"


def test_findings_of_the_original_do_not_count() -> None:
    known = frozenset({("data-race", _LINE)})
    assert classify([_finding(_RACE, _LINE)], True, _BUG, _LINE, _ACCESSES, known).how == "unseen"
    assert classify([_finding(_RACE, 20)], True, _BUG, _LINE, _ACCESSES, known).how == "named"


def test_schedules_by_name() -> None:
    assert schedule_options("random:3") == {"schedule": "random", "seed": 3}
    assert schedule_options("eager") == {"schedule": "eager", "seed": 0}
    assert schedule_options("starve:tma") == {"schedule": "starve:tma"}


def test_a_lost_arrival_is_named() -> None:
    """A mutant that every machine must see, at the line of a wait."""
    (lost,) = mutants(["tma-copy"], ["arrive-deleted"])
    report, _ = run_original("tma-copy")
    outcome = run_mutant(lost, "eager", report)
    assert outcome.how == "named" and outcome.found[0].startswith("deadlock (error)")


def test_the_best_schedule_counts() -> None:
    """A mutant is seen as well as under the schedule that sees it best, and nothing leaves the denominator."""
    first, second, *_ = mutants(["message"])
    records = [
        (first, "eager", Outcome("unseen")),
        (first, "late", Outcome("values", False)),
        (second, "eager", Outcome("named")),
        (second, "late", Outcome("otherwise")),
    ]
    assert [how for _, how in best(records)] == ["values", "named"]
    assert "| **all** | error | 2 | 1 | 0 | 0 | 1 | 0 |" in by_operator(records)
    assert "| all | 2 | 0 | 0 | 2 |" in census([first, second])
