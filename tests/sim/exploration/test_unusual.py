"""Right kernels with unusual synchronization are right in every interleaving."""

from __future__ import annotations

import pytest

from tests.sanitizer.unusual.running import run_unusual
from tests.sanitizer.unusual.unusuals import UNUSUAL

pytestmark = pytest.mark.full

#: Kernels in which little competes, so that they are explored to the end.
NAMES = [
    "message by st.release and ld.acquire",
    "message by st.release.sys and ld.acquire.gpu",
    "message by relaxed operations between fences",
    "message by relaxed operations between one-way fences",
    "message by relaxed operations between fence.sc",
    "message by volatile operations and membar",
    "message from a fence to ld.acquire",
    "message from red.release to a polling atom.acquire",
    "message whose released flag the sender overwrites by st.relaxed",
    "message polled by ld.relaxed and acquired once",
    "message through the relaxed atomic of a third CTA",
    "message handed on by atom.acq_rel of two CTAs",
    "message over two flags of two CTAs",
    "message at scope cta handed on at scope gpu",
    "messages from warp to warp through flags in shared memory",
    "four senders that count by red.release",
    "three warps in a row, between them named barriers",
    "barriers of overlapping groups of warps",
    "lanes of one warp that meet at a barrier from two places",
    "warps that end before the barriers of the others",
    "two groups that take turns by arriving at each other's barrier",
    "barrier as an event that three warps announce and go on",
    "mbarrier that all threads poll by test_wait with their tokens",
    "box between two warps with a full and an empty mbarrier",
    "warps that drop out of an mbarrier one after the other",
    "memory of an mbarrier that becomes data and an mbarrier again",
    "relaxed mbarrier operations between fences",
    "words that a third warp reads after two mbarriers in a row",
    "ring of bulk loads whose readers fence before they give a stage back",
    "bulk stores from two buffers, each filled again when it was read",
    "bulk reductions of several CTAs into the same words",
    "one buffer for ordinary words and bulk loads in turn",
    "bulk load by an elected lane",
    "cp.async in groups, one ahead",
    "cp.async that arrive on an mbarrier with .noinc",
    "cp.async that arrive besides the threads that issued them",
    "words of cp.async that a bulk store takes",
    "ordinary stores of one CTA that another one loads in bulk",
    "bulk store of one CTA that another one reads by ordinary loads",
    "tensor map that one CTA edits and another one uses",
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_right_in_every_interleaving(name: str) -> None:
    result = run_unusual(UNUSUAL[name], "all")
    assert not result.errors, result.errors[0]
    assert result.ended and result.right, result.outputs
    assert "schedule-dependent" not in {finding.rule.name for finding in result.findings}
