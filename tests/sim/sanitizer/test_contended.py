"""Words to which many threads add: the sanitizer's work grows with the number of operations, not with its square."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.sim.sanitizer.value_sets import ValueSets

HISTOGRAM = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry histogram(.param .u64 data, .param .u64 counts)
{
    .reg .b32 %t, %cta, %v;
    .reg .b64 %data, %counts, %at;
    ld.param.u64 %data, [data];
    ld.param.u64 %counts, [counts];
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mad.lo.u32 %t, %cta, 64, %t;
    mul.wide.u32 %at, %t, 4;
    add.u64 %at, %data, %at;
    ld.global.u32 %v, [%at];
    mul.wide.u32 %at, %v, 4;
    add.u64 %at, %counts, %at;
    red.global.add.u32 [%at], 1;
    ret;
}
"""


def members_read(ctas: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many members of sets a run looks at."""
    read = 0
    members = ValueSets.members

    def counting(self: ValueSets, number: int) -> list[int]:
        nonlocal read
        found = members(self, number)
        read += len(found)
        return found

    data = np.random.default_rng(0).integers(0, 16, 64 * ctas).astype(np.uint32)
    counts = np.zeros(16, np.uint32)
    with monkeypatch.context() as patch:
        patch.setattr(ValueSets, "members", counting)
        report = sim.load(HISTOGRAM).launch(grid=ctas, block=64, args=[data, counts])
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(counts, np.bincount(data, minlength=16))
    return read


def test_the_work_of_a_histogram_grows_with_its_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = members_read(10, monkeypatch), members_read(40, monkeypatch)
    assert many <= 6 * few
