"""Hand-written programs with known verdicts: each rule, each entry of the table."""

from __future__ import annotations

import pytest

from tests.sanitizer.reference.cases import CASES, VERDICTS, Case
from tests.sanitizer.reference.edges import TABLE
from tests.sanitizer.reference.notation import parse
from tests.sanitizer.reference.reference import judge


def _rules(text: str, *off: str) -> set[str]:
    return {rule for rule, *_ in judge(parse(text), *off)}


@pytest.mark.sample(len(CASES))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.entry)
def test_each_entry_decides(case: Case) -> None:
    assert _rules(case.text) == set(case.rules.split())
    assert _rules(case.text, case.entry) == set(case.without.split())
    assert judge(parse(case.text)) != judge(parse(case.text), case.entry)


def test_each_entry_has_a_case() -> None:
    assert {case.entry for case in CASES} == set(TABLE)


@pytest.mark.sample(len(VERDICTS))
@pytest.mark.parametrize(("text", "rules"), [v[1:] for v in VERDICTS], ids=[v[0] for v in VERDICTS])
def test_verdicts(text: str, rules: str) -> None:
    assert _rules(text) == set(rules.split())


def test_a_finding_names_both_statements() -> None:
    assert judge(parse("st s | ld s")) == {("data-race", ((0, 0), 0), ((0, 1), 0))}


@pytest.mark.sample(2)
@pytest.mark.parametrize("apart", [False, True])
def test_scope_of_the_cluster(apart: bool) -> None:
    program = parse("st g; st flag .release.cluster =1 || poll flag .acquire.cluster =1; ld g")
    program.apart = apart
    assert {rule for rule, *_ in judge(program)} == ({"data-race"} if apart else set())
