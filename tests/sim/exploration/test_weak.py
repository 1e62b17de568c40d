"""``schedule="all"`` with weak reads: what a strong access chooses is a part of the interleaving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.sim import Report
from tests.sanitizer.unusual.running import run_unusual
from tests.sanitizer.unusual.unusuals import UNUSUAL
from tests.sim.build import Kernel

from .kernels import FLAG, GATHERED, LOCK
from .test_runs import Pickling
from .test_unusual import NAMES


def buffering(fence: str = "") -> Kernel:
    """Store buffering: word n is the flag of CTA n, word n + 2 what it has seen of the other one's."""
    return Kernel(f"""
.reg u32 c y
.reg u64 mine other offset
mov.u32 c, %ctaid.x
mul.wide.u32 offset, c, 4
add.u64 mine, out, offset
xor.b32 c, c, 1
mul.wide.u32 offset, c, 4
add.u64 other, out, offset
st.relaxed.gpu.global.u32 [mine], 1
{fence}
ld.relaxed.gpu.global.u32 y, [other]
st.global.u32 [mine+8], y
ret
""", "out:u64")  # fmt: skip


def explore(kernel: Kernel, *, grid: int = 2, **options: Any) -> Report:
    return kernel.run(np.zeros(8, np.uint32), grid=grid, block=1, schedule="all", **options)


def results(kernel: Kernel, report: Report, *, grid: int = 2) -> dict[str, list[int]]:
    """The words that the outcomes of a report leave, by the name of the interleaving."""
    assert report.exploration is not None and report.exploration.complete
    found = {}
    for name in report.exploration.outcomes:
        words = np.zeros(8, np.uint32)
        kernel.run(words, grid=grid, block=1, schedule=name)
        found[name] = words.tolist()
    return found


@pytest.mark.parametrize(("fence", "count"), [
    ("", 4), ("fence.acq_rel.gpu", 4), ("fence.sc.gpu", 3), ("membar.gl", 3), ("fence.sc.cta", 4),
])  # fmt: skip
def test_store_buffering(fence: str, count: int) -> None:
    kernel = buffering(fence)
    seen = {tuple(words[2:4]) for words in results(kernel, explore(kernel)).values()}
    assert seen >= {(0, 1), (1, 0), (1, 1)}
    assert len(seen) == count


def test_the_name_of_an_interleaving_says_which_write_was_read() -> None:
    kernel = buffering()
    (name,) = [name for name, words in results(kernel, explore(kernel)).items() if words[2:4] == [0, 0]]
    words = np.zeros(8, np.uint32)
    report = kernel.run(words, grid=2, block=1, schedule=name)
    assert report.schedule == name and words[:4].tolist() == [1, 1, 0, 0]
    with pytest.raises(SpecError, match="cannot follow it"):
        kernel.run(np.zeros(8, np.uint32), grid=2, block=1, schedule=name, sanitize=False)


def test_the_report_says_whether_there_were_weak_reads() -> None:
    assert "complete; with weak reads" in str(explore(buffering()))
    without = explore(buffering(), sanitize=False)
    assert "complete; interleavings only" in str(without)
    assert without.exploration is not None and not without.exploration.weak_reads
    assert len(without.exploration.outcomes) == 3


def test_an_exploration_resumes_and_runs_elsewhere(tmp_path: Path) -> None:
    kernel = buffering()
    whole = explore(kernel).exploration
    assert whole is not None and whole.runs > 3
    path = str(tmp_path / "explored.json")
    for _ in range(whole.runs):
        part = explore(kernel, max_runs=1, resume=path).exploration
    assert part is not None and part.complete
    elsewhere = explore(kernel, executor=Pickling()).exploration
    assert elsewhere is not None
    assert len(part.outcomes) == len(elsewhere.outcomes) == len(whole.outcomes) == 4
    assert part.interleavings == elsewhere.interleavings == whole.interleavings


SUMS = Kernel("""
.reg u32 c y z
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra READ
red.relaxed.gpu.global.add.u32 [out], c
red.relaxed.gpu.global.add.u32 [out+4], 1
ret
READ:
ld.relaxed.gpu.global.u32 y, [out+4]
ld.relaxed.gpu.global.u32 z, [out]
st.global.u32 [out+8], y
st.global.u32 [out+12], z
ret
""", "out:u64")  # fmt: skip


def test_sums_that_a_read_leaves_out_are_in_every_order() -> None:
    """Both CTAs have counted, and the reader has seen the sum of neither, either or both."""
    found = results(SUMS, explore(SUMS, grid=3), grid=3).values()
    assert {words[3] for words in found if words[2] == 2} == {0, 1, 2, 3}
    assert all(words[:2] == [3, 2] for words in found)


@pytest.mark.parametrize("kernel", [FLAG, GATHERED, LOCK], ids=["flag", "gathered", "lock"])
def test_loops_that_poll_have_no_more_interleavings(kernel: Kernel) -> None:
    with_weak, without = explore(kernel).exploration, explore(kernel, sanitize=False).exploration
    assert with_weak is not None and without is not None
    assert (with_weak.runs, with_weak.interleavings) == (without.runs, without.interleavings)


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("name", NAMES[::3])
def test_kernels_in_which_no_strong_read_competes_have_as_many_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    run = Report.__init__

    def note(report: Report, *given: Any, **more: Any) -> None:
        run(report, *given, **more)
        if report.exploration is not None:
            found.append((report.exploration.runs, report.exploration.interleavings))

    monkeypatch.setattr(Report, "__init__", note)
    for sanitize in (True, False):
        assert run_unusual(UNUSUAL[name], "all", sanitize=sanitize).right
    assert found[0] == found[-1] and len(set(found)) == 1


STALE = Kernel("""
.reg u32 c y z
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra SEND
st.relaxed.gpu.global.u32 [out+4], 1
POLL:
ld.relaxed.gpu.global.u32 y, [out]
setp.eq.u32 p, y, 0
@p bra POLL
st.global.u32 [out+8], y
ret
SEND:
st.relaxed.gpu.global.u32 [out], 1
st.relaxed.gpu.global.u32 [out], 2
ld.relaxed.gpu.global.u32 z, [out+4]
st.global.u32 [out+12], z
ret
""", "out:u64")  # fmt: skip


def test_a_loop_that_polls_may_end_with_an_older_value() -> None:
    """CTA 1 ends its loop with 1 or 2; also with 1 after CTA 0, which has written both, saw its store."""
    seen = {tuple(words[2:4]) for words in results(STALE, explore(STALE)).values()}
    assert seen == {(1, 0), (2, 0), (1, 1), (2, 1)}
