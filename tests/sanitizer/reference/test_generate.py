"""Random programs: legal, assembled by ptxas, running in the simulator, and of the right mixture."""

from __future__ import annotations

import functools

import pytest

from pyptx.core.findings import Verdict
from pyptx.toolchain.find import find_ptxas
from pyptx.toolchain.ptxas import check_text
from tests.sanitizer.reference.census import Census, census
from tests.sanitizer.reference.compare import launch
from tests.sanitizer.reference.edges import TABLE
from tests.sanitizer.reference.generate import generate
from tests.sanitizer.reference.legality import legal
from tests.sanitizer.reference.notation import parse
from tests.sanitizer.reference.printing import to_ptx

pytestmark = pytest.mark.full

PROGRAMS = 300
#: Of 10,000 programs every kind of edge decides at least 200; so few of these are enough to see that it does.
_FEWEST = 2


@functools.cache
def _census() -> Census:
    return census(range(PROGRAMS))


def test_some_programs_race_and_some_do_not() -> None:
    assert 0.3 * PROGRAMS <= _census().racing <= 0.7 * PROGRAMS
    assert set(_census().rules) == {
        "data-race",
        "proxy-fence-missing",
        "proxy-fence-open",
        "relaxed-handover",
        "cluster-lifetime",
        "store-collision",
    }


def test_every_kind_of_edge_decides() -> None:
    edges = [name for name, entry in TABLE.items() if entry.kind == "edge"]
    assert {name: _census().decisive[name] for name in edges if _census().decisive[name] < _FEWEST} == {}


def test_a_seed_is_a_program() -> None:
    assert to_ptx(generate(5).program).text == to_ptx(generate(5).program).text
    assert to_ptx(generate(5).program).text != to_ptx(generate(6).program).text


def test_ptxas_takes_the_text() -> None:
    ptxas = find_ptxas()
    for seed in range(0, 90, 3):
        report = check_text(to_ptx(generate(seed).program).text, ptxas=ptxas)
        assert report.ok and not report.warnings, (seed, report)


def test_programs_end_in_the_simulator() -> None:
    for seed in range(20):
        judge = generate(seed)
        report = launch(judge.program, to_ptx(judge.program))
        assert report.verdict != Verdict.INCOMPLETE, (seed, report)
        assert not [f for f in report.findings if "deadlock" in str(f.rule)], (seed, report)


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier.wait !bar",
        "mbarrier.arrive !bar; mbarrier.arrive !bar; mbarrier.wait !bar",
        "mbarrier.arrive !bar | mbarrier.wait !bar; mbarrier.arrive !bar; mbarrier.wait !bar #1; mbarrier.arrive !bar"
        " | mbarrier.wait !bar",
        "poll flag .acquire.gpu =1",
        "st flag .relaxed.gpu =1; st flag .relaxed.gpu =2 | poll flag .relaxed.gpu =1",
        "bar.sync #1 %64 |",
        "cluster.wait",
    ],
)
def test_what_does_not_always_end_is_refused(text: str) -> None:
    assert legal(parse(text)) is None


def test_what_ends_is_taken() -> None:
    assert legal(parse("mbarrier.arrive !bar | mbarrier.wait !bar")) is not None
