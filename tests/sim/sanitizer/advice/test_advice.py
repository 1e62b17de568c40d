"""What findings say about the twins: why two accesses are not ordered, and what mends the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.core.remedies import Place
from tests.sanitizer.twins.corpus import TWINS
from tests.sim.build import Kernel

#: A twin; words of why its accesses are not ordered; the remedy in the DSL and a part of the one in PTX.
CASES = [
    ("copy-not-waited-for", "signals bar", "ptx.mbarrier.wait(bar, 0)", "WAIT: mbarrier.try_wait.parity"),
    ("arrival-relaxed", "is relaxed", 'sem="release"', "mbarrier.arrive.release.cta"),
    ("wait-relaxed", "is relaxed", 'sem="acquire"', "mbarrier.try_wait.parity.acquire"),
    ("one-lane-arrives-for-all", "its own thread only", "ptx.warp.sync()", "bar.warp.sync"),
    ("arrival-before-the-store", "before the access", "ptx.mbarrier.arrive(bar)", "mbarrier.arrive"),
    (
        "count-of-one-fewer",
        "had parity 0, so it was for phase 0 of bar",
        "ptx.mbarrier.wait(bar, 1)",
        "WAIT: mbarrier.try_wait",
    ),
    (
        "store-behind-the-fence",
        "no fence between the proxies",
        'ptx.fence.proxy_async("shared::cta")',
        "fence.proxy.async.shared::cta;",
    ),
    (
        "scales-not-committed",
        "does not wait for the tcgen05.cp",
        "ptx.tcgen05.commit(empty)",
        "tcgen05.commit.cta_group::1",
    ),
    (
        "accumulator-overwritten-under-loads",
        "does not wait for its load",
        "ptx.tcgen05.wait_ld()",
        "tcgen05.wait::ld",
    ),
    (
        "fence-after-the-wait",
        "after_thread_sync",
        "ptx.tcgen05.fence_after_thread_sync()",
        "tcgen05.fence::after_thread_sync;",
    ),
    (
        "fence-before-the-arrival",
        "before_thread_sync",
        "ptx.tcgen05.fence_before_thread_sync()",
        "tcgen05.fence::before_thread_sync;",
    ),
    ("flag-stored-relaxed", "is no release", 'ptx.fence.acq_rel("gpu")', "fence.acq_rel.gpu;"),
    ("flag-loaded-relaxed", "is no acquire", 'ptx.fence.acq_rel("gpu")', "fence.acq_rel.gpu;"),
    ("dependent-reads-too-early", "second launch", "ptx.griddepcontrol.wait()", "griddepcontrol.wait;"),
    (
        "published-after-read-alone",
        "the reads of the cp.async.bulk alone",
        "ptx.cp.async_.bulk.wait_group(0)",
        "cp.async.bulk.wait_group 0;",
    ),
    (
        "exit-before-the-copy-has-read",
        "no wait_group covers the cp.async.bulk",
        "ptx.cp.async_.bulk.wait_group(0)",
        "cp.async.bulk.wait_group 0;",
    ),
    ("bulk-load-at-the-end", "signals phase 0 of bar", "ptx.mbarrier.wait(bar, 0)", "mbarrier.try_wait"),
    ("phase-not-flipped", "has parity 0, so it is for phase 2", "ptx.mbarrier.wait(bar, 1)", "try_wait"),
    ("bytes-expected-too-many", "expects 16 bytes more", "ptx.mbarrier.arrive_expect_tx(bar, nbytes)", "bar"),
    ("bytes-expected-too-few", "expects 16 bytes fewer", "ptx.mbarrier.arrive_expect_tx(bar, nbytes)", "bar"),
    ("count-of-one-more", "has 1 of the 2 arrivals", "ptx.mbarrier.init(bar, 1)", "mbarrier.init"),
    ("wait-on-a-fresh-parity", "it waited for no arrival at bar", "ptx.mbarrier.wait(bar, 0)", "try_wait"),
    ("mask-of-a-shuffle", "", "mask=0xffffffff", "0xffffffff"),
    ("registers-never-free", "", "ptx.setmaxnreg.inc(136)", "setmaxnreg.inc.sync.aligned.u32 136;"),
    ("accumulator-read-in-flight", "", "ptx.wgmma.wait_group(0)", "wgmma.wait_group.sync.aligned 0;"),
    ("accumulator-set-without-a-fence", "", "ptx.wgmma.fence()", "wgmma.fence.sync.aligned;"),
    ("wait-asked-once", "", "ptx.mbarrier.wait(mbar, parity)", "@!p bra WAIT;"),
    ("atomic-at-cta-scope", "the scope of the strong access", 'scope="gpu"', ".gpu"),
    ("barrier-between-warps", "no synchronization leads", "ptx.bar.sync(0)", "bar.sync 0;"),
    ("lanes-without-a-barrier", "no synchronization leads", "ptx.warp.sync()", "bar.warp.sync"),
]


@pytest.mark.parametrize(("name", "why", "dsl", "ptx"), CASES, ids=[case[0] for case in CASES])
def test_the_remedy_fits_the_pair(name: str, why: str, dsl: str, ptx: str) -> None:
    findings = TWINS[name].run("wrong").findings
    found = [(f.why, f.advice.dsl, f.advice.ptx) for f in findings]
    assert any(why in a and dsl == b and ptx in c for a, b, c in found), "\n".join(map(str, findings))


def test_a_stage_of_a_ring_has_its_index() -> None:
    findings = TWINS["ring-written-without-a-wait"].run("wrong").findings
    assert "of bars[0]" in findings[0].why and "for bars[0]" in findings[0].advice.advice


def test_an_edit_names_line_and_place() -> None:
    twin = TWINS["store-behind-the-fence"]
    (finding,) = twin.run("wrong").findings
    edit = finding.advice.edit
    assert edit is not None and edit.place is Place.BEFORE and edit.ptx == "fence.proxy.async.shared::cta;"
    text = twin.text("wrong").splitlines()
    assert "bar" in text[edit.location.line - 1]


def test_nothing_is_said_of_commits_that_are_forgotten() -> None:
    """A CTA's last 192 events are kept: of an operation before them no text says that no commit follows."""
    text = """
        .shared b8 tile[16] 16
        .reg u32 t i
        .reg pred p
        mov.u32 t, tile
        st.shared.u32 [t], 1
        st.shared.u32 [t+4], 1
        st.shared.u32 [t+8], 1
        st.shared.u32 [t+12], 1
        fence.proxy.async.shared::cta
        cp.async.bulk.global.shared::cta.bulk_group [out], [t], 16
        cp.async.bulk.commit_group
        mov.u32 i, 0
        LOOP:
        bar.sync 0
        add.u32 i, i, 1
        setp.lt.u32 p, i, MANY
        @p bra LOOP
        cp.async.bulk.wait_group 1
        ret
        """
    out = np.zeros(4, np.uint32)
    whys = {}
    for many in (1, 300):
        report = Kernel(text.replace("MANY", str(many)), "out:u64").run(out, block=1, schedule="late")
        (finding,) = [f for f in report.findings if f.rule.name == "exit-in-flight"]
        whys[many] = finding.why
        assert "wait for" in finding.advice.advice
    assert "leaves out the newest 1 groups" in whys[1] and whys[300] == ""
