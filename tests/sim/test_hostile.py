"""Hostile PTX ends in a finding or at a limit: never in another exception, never in a run without an end."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import PyptxError, SimulationError, SpecError
from pyptx.core.findings import RULES, Verdict
from pyptx.sim import Report
from tests.sim.kernels.hostile import Case
from tests.sim.kernels.hostile_units import CASES
from tests.sim.kernels.mutate import mutated

from .compiled.cases import CASES as COMPILED
from .compiled.cases import run_of
from .compiled.check import passed

#: One lane, a warp, and warps in any order: the three forms of generated code, and splits apart from teams.
_LAUNCHES: list[dict[str, Any]] = [
    {"block": 1},
    {"block": 32},
    {"block": 96},
    {"block": 64, "schedule": "random", "seed": 3},
    {"block": 32, "schedule": "late"},
]
_MUTANTS = 100


def run(case: Case, options: dict[str, Any]) -> Report:
    options = {"grid": 1, "max_steps": case.steps, **options, **case.launch}
    return sim.load(case.text).launch("k", args=[np.zeros(1024, np.uint32)], sanitize=False, **options)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.rules is not None])
def test_hostile(name: str) -> None:
    case = CASES[name]
    assert case.rules is not None
    for options in _LAUNCHES:
        report = run(case, options)
        first = report.findings[0].rule.name if report.findings else ""
        assert first in (case.rules or ("",)), f"{options}: {report}"
        assert report.steps <= case.steps + 64 * 400


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.rules is None])
def test_hostile_addresses(name: str) -> None:
    """Where an address is legal depends on the layout: a finding says what is wrong, or there is none."""
    for options in _LAUNCHES[:3]:
        report = run(CASES[name], options)
        assert {finding.rule.name for finding in report.findings} <= RULES.keys()
        assert all(finding.message for finding in report.findings)


def test_the_table_knows_its_rules() -> None:
    assert {rule for case in CASES.values() for rule in case.rules or ()} - {""} <= RULES.keys()


# --- what does not load ---------------------------------------------------------------------------

_HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "garbage",
        _HEAD + ".visible .entry k(",
        _HEAD + ".visible .entry k() { bra NOWHERE; }",
        _HEAD + ".visible .entry k() { .reg .b32 %r; add.u32 %r, %r, %undeclared; }",
        _HEAD + ".visible .entry k() { .reg .b32 %r; add.f64 %r, %r, %r; }",
        _HEAD + ".visible .entry k() { .reg .b32 %r; frobnicate.u32 %r, %r; }",
        _HEAD + ".visible .entry k() { call nobody; ret; }",
        _HEAD + ".global .b8 huge[1099511627776];\n.visible .entry k() { ret; }",
        _HEAD + ".const .b8 huge[1099511627776];\n.visible .entry k() { ret; }",
        _HEAD + ".visible .entry k() { .shared .b8 huge[1073741824]; .reg .b32 %r; mov.u32 %r, huge; ret; }",
        _HEAD + ".visible .entry k(.param .b8 huge[1099511627776]) { ret; }",
        _HEAD + ".global .b8 negative[-4];\n.visible .entry k() { ret; }",
        _HEAD + ".global .u64 g = nobody;\n.visible .entry k() { ret; }",
        _HEAD + ".visible .entry k() { L: L: bra L; }",
    ],
)
def test_refused(text: str) -> None:
    """An error of ours when it is loaded or launched, or a report that is not clean."""
    try:
        report = sim.load(text).launch(grid=1, block=32, max_steps=100)
    except PyptxError as error:
        assert str(error)
    else:
        assert report.verdict in ("error", "incomplete"), report


@pytest.mark.parametrize(
    "options",
    [
        {"grid": 0},
        {"grid": -1},
        {"grid": (1, 1, 1, 1)},
        {"block": 0},
        {"block": 1025},
        {"block": (1024, 1024, 64)},
        {"block": -32},
        {"dynamic_smem": -1},
        {"dynamic_smem": 1 << 20},
        {"dynamic_smem": 1 << 62},
        {"cluster": 0},
        {"schedule": "never"},
        {"args": []},
        {"args": [1, 2]},
        {"args": [1 << 64]},
        {"args": ["text"]},
        {"args": [None]},
        {"args": [1.5]},
    ],
)
def test_launches_refused(options: dict[str, Any]) -> None:
    module = sim.load(_HEAD + ".visible .entry k(.param .u64 p) { ret; }")
    with pytest.raises((SpecError, SimulationError)):
        module.launch(**{"grid": 1, "block": 32, "args": [0], **options})


# --- compiled code with an accident ---------------------------------------------------------------


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(_MUTANTS))
def test_mutated(seed: int) -> None:
    """Statements lost, doubled and turned, other registers, numbers, guards and targets."""
    draw = random.Random(seed)
    original = run_of(draw.choice(sorted(COMPILED)))
    text = mutated(original.text, draw)
    try:
        report = sim.load(text).launch(
            original.entry,
            grid=original.grid,
            block=original.block,
            dynamic_smem=original.dynamic_smem,
            args=[passed(argument) for argument in original.arguments],
            schedule=draw.choice(["eager", "late", "random"]),
            seed=seed,
            max_steps=1000,
        )
    except PyptxError as error:
        assert str(error)
    else:
        assert report.verdict in set(Verdict)
        assert str(report)
