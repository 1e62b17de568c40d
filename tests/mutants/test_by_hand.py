"""The bugs made by hand: each is named, and is one that the table of instructions accepts."""

from __future__ import annotations

import pytest

from pyptx import sim
from pyptx.ir import parse_module, print_module
from pyptx.isa import check_module

from .by_hand import BUGS, Bug
from .kernels import subject
from .running import limits, run_original


@pytest.mark.one_in(16)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_is_named(bug: Bug) -> None:
    report, _ = run_original(bug.kernel)
    found, _ = subject(bug.kernel).launch(sim.load(bug.module), **limits(report))
    named = {finding.rule.name for finding in found.findings if str(finding.severity) == bug.expected.kind}
    assert named & set(bug.expected.rules), str(found)


@pytest.mark.full
def test_texts_are_accepted() -> None:
    texts = [print_module(bug.module).text for bug in BUGS]
    assert not [fault.message for text in texts for fault in check_module(parse_module(text))]
    assert len({*texts, *(print_module(subject(bug.kernel).module).text for bug in BUGS)}) == len(BUGS) + len(
        {bug.kernel for bug in BUGS}
    )
