"""Pairs of CTAs: what of their work is ordered, whom commits signal, and how the CTAs of a pair end.

PTX ISA #tcgen05-memory-consistency-model, #tcgen05-cta-pair.  Each rule has a twin that breaks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tcgen05.stage import COMMIT_PAIR, Cells, perform_pair, played_pair
from tests.sim.tcgen05.test_kinds import f32, idesc
from tests.sim.tcgen05.test_mma import B_AT, SCHEDULES, operand
from tests.sim.tcgen05.test_pair import LONG, MMA, SYNC, alloc, free, fresh, operands_of, rules, run

pytestmark = pytest.mark.full

ALL = [("eager", 0), ("late", 0), ("starve:mma", 0), ("starve:cp", 0), *(("random", s) for s in range(24))]
FENCED = ("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")

# --- order ----------------------------------------------------------------------------------------


def ordered(code: str, cells: Cells, words: dict[str, int], both: Any, expected: Cells, kept: bool, **options: Any) -> bool:  # fmt: skip
    """Whether every schedule gives what is expected; eager must.  What is not ``kept`` races, and may take more seeds."""
    for schedule, seed in ALL[:10] if kept else ALL:
        out = perform_pair(code, both, cells, words, schedule=schedule, seed=seed, sanitize=kept, **options)
        if not np.array_equal(out, expected):
            assert schedule != "eager"
            return False
    return True


def products(m: int) -> tuple[Any, dict[str, int], Any]:
    generator = np.random.default_rng(m)
    left, right = generator.integers(-4, 5, (m, 16)), generator.integers(-4, 5, (32, 16))
    both, words = operands_of(left, right)
    return both, words | {"v": idesc(1, "f16", "f16", m, 32)}, (left @ right.T).astype(np.float64)


def test_mmas_into_one_accumulator_in_one_thread() -> None:
    both, words, product = products(256)
    cells = fresh()
    code = f"{MMA.format(flag='never')}\n{MMA.format(flag='always, 3')}\n{MMA.format(flag='always')}"
    expected = cells.copy()
    expected[:, :, :32] = f32(product * (2 + 1 / 8)).reshape(2, 128, 32)
    assert ordered(code, cells, words, both, expected, True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("between", "kept"),
    [(FENCED, True), (("", ""), False), (("", FENCED[1]), False), ((FENCED[0], ""), False)],
)
@pytest.mark.parametrize("issuer", [0, 1])
def test_mmas_of_both_ctas_into_one_accumulator(between: tuple[str, str], kept: bool, issuer: int) -> None:
    """The second thread is one of the peer: ordered by fences around a barrier of the cluster, by nothing less."""
    both, words, product = products(256)
    cells = fresh()
    expected = cells.copy()
    expected[:, :, :32] = f32(product * (1 + 1 / 8)).reshape(2, 128, 32)
    then = (*between, MMA.format(flag="always, 3"))
    assert (
        ordered(MMA.format(flag="never"), cells, words, both, expected, kept, issuer=issuer, then=then)
        is kept
    )


@pytest.mark.parametrize(("between", "kept"), [(FENCED, True), (("", ""), False)])
def test_a_copy_of_the_peers_thread(between: tuple[str, str], kept: bool) -> None:
    """A in tensor memory, that the other CTA's thread has copied there."""
    both, words, _ = products(256)
    generator = np.random.default_rng(5)
    tiles = generator.integers(-4, 5, (256, 16)).astype(np.float16)
    for mine, half in zip(both, np.split(tiles, 2), strict=True):
        # As bytes: two units of 16 a row, one behind the other.
        mine.append(operand(half.view(np.uint8), "byte", B_AT + 8192, "32B", "K", 0))
    words["c"] = both[0][-1].word
    cells = fresh()
    cells[:, :, 200:208] = 0
    copy = "add.u32 n, tm, 200\ntcgen05.cp.cta_group::2.128x256b [n], c"
    mma = "add.u32 n, tm, 200\ntcgen05.mma.cta_group::2.kind::f16 [d], [n], b, v, never"
    expected = cells.copy()
    expected[:, :, 200:208] = tiles.view("<u4").reshape(2, 128, 8)
    right = np.concatenate([mine[1].values for mine in both])
    expected[:, :, :32] = f32(tiles.astype(np.float64) @ right.T).reshape(2, 128, 32)
    assert ordered(copy, cells, words, both, expected, kept, then=(*between, mma)) is kept


# --- commits --------------------------------------------------------------------------------------

#: Who is signaled: each CTA notes whether its barrier completes phase 0.
SIGNALS = """
mbarrier.init.shared::cta.b64 [bar+{offset}], 1
{sync}
setp.ne.u32 q, rank, {issuer}
@q bra ISSUED
mov.u16 mask, {mask}
tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{how}
ISSUED:
{sync}
mbarrier.test_wait.parity.shared::cta.b64 q, [bar+{offset}], 0
selp.b32 n, 1, 0, q
mad.wide.u32 o, rank, 4, out
st.global.b32 [o], n
{sync}
"""
MULTICAST = ".multicast::cluster.b64 [bar+{offset}], mask"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("mask", "issuer"), [(0b1, 0), (0b10, 0), (0b1111, 2), (0b1010, 1), (0, 3)])
def test_a_multicast_commit_signals_the_ctas_of_its_mask(group: int, mask: int, issuer: int) -> None:
    """At the same offset of each; there is nothing to wait for, so that eager signals at once."""
    out = np.full(4, 7, np.uint32)
    body = SIGNALS.format(
        offset=8, sync=SYNC, issuer=issuer, mask=mask, group=group, how=MULTICAST.format(offset=8)
    )
    report = run(body, out, ctas=4, block=1)
    assert report.verdict == "clean", report
    assert out.tolist() == [mask >> rank & 1 for rank in range(4)]


@pytest.mark.parametrize(("address", "signaled"), [("bar+8", 0), ("theirs+8", 1)])
@pytest.mark.parametrize("group", [1, 2])
def test_a_commit_signals_the_barrier_that_it_names(address: str, signaled: int, group: int) -> None:
    """The own one, or by an address of .shared::cluster the peer's."""
    out = np.full(4, 7, np.uint32)
    body = SIGNALS.format(offset=8, sync=SYNC, issuer=0, mask=0, group=group, how=f".b64 [{address}]")
    assert run(body, out, ctas=2, block=1).verdict == "clean"
    assert out[:2].tolist() == [signaled == 0, signaled == 1]


def test_commits_that_reach_nobody() -> None:
    body = SIGNALS.format(offset=8, sync=SYNC, issuer=0, mask=0b100, group=2, how=MULTICAST.format(offset=8))
    report = run(body, ctas=2, block=1)
    assert rules(report)[0] == "out-of-bounds" and "no CTA has rank 2" in report.findings[0].message
    unset = body.replace(f"mbarrier.init.shared::cta.b64 [bar+8], 1\n{SYNC}", f"{SYNC}", 1).replace(
        "0b100", "2"
    )
    report = run(unset.replace("mov.u16 mask, 4", "mov.u16 mask, 2"), ctas=2, block=1)
    assert rules(report)[0] == "mbarrier-misuse", report


def test_a_commit_waits_for_the_pairs_work() -> None:
    """Both CTAs read D behind it, under every schedule; a commit without the multicast leaves the peer waiting."""
    both, words, product = products(256)
    cells = fresh()
    expected = cells.copy()
    expected[:, :, :32] = f32(product).reshape(2, 128, 32)
    for schedule, seed in ALL[:10]:
        out = perform_pair(MMA.format(flag="never"), both, cells, words, schedule=schedule, seed=seed)
        assert np.array_equal(out, expected)
    alone = (
        MMA.format(flag="never") + "\n" + COMMIT_PAIR.replace(".multicast::cluster", "").replace(", both", "")
    )
    report, _ = played_pair(alone + "\nbra ISSUED", both, cells, words)
    assert rules(report)[0] == "deadlock", report


# --- the end --------------------------------------------------------------------------------------

#: The even CTA's first thread multiplies for both, from memory that holds zeros.
WORK = """
.shared b8 mem[8192] 1024
.reg b64 zero desc
.reg b32 word
mov.u32 m, mem
mov.b64 zero, 0
mad.lo.u32 n, t, 64, m
st.shared.b64 [n], zero
""" + "".join(f"st.shared.b64 [n+{at}], zero\n" for at in range(8, 64, 8)) + """
setp.ne.u32 q, t, 0
@!q mbarrier.init.shared::cta.b64 [bar], 1
fence.proxy.async.shared::cta
"""  # fmt: skip


def ending(rest: str) -> str:
    """All of a CTA's 128 threads clear operands; warp 0 allocates; ``rest`` follows, with descriptors ready."""
    word = idesc(1, "f16", "f16", 256, 32)
    return (
        WORK
        + "@other bra ALLOCATED\n" + alloc(32)
        + "ALLOCATED:\n" + SYNC
        + "ld.shared.b32 tm, [bar+32]\nmov.b32 x0, tm\n"
        + f"shr.u32 n, m, 4\ncvt.u64.u32 desc, n\nor.b64 desc, desc, {1 << 46 | 8 << 32 | 8 << 16}\nmov.b32 word, {word}\n"
        + rest
    )  # fmt: skip


ISSUE = """
@other bra ISSUED
@odd bra ISSUED
elect.sync _|q, -1
@!q bra ISSUED
tcgen05.mma.cta_group::2.kind::f16 [x0], desc, desc, word, never
{commit}
ISSUED:
"""
COMMIT_BOTH = "mov.u16 mask, 3\n" + COMMIT_PAIR.replace("both", "mask")
WAIT = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0\n@!q bra WAIT\n"
LEAVE = "@other bra END\ntcgen05.fence::after_thread_sync\n" + free(32) + "END:\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_both_wait_before_they_end(schedule: str, seed: int) -> None:
    body = ending(ISSUE.format(commit=COMMIT_BOTH) + WAIT + SYNC + LEAVE)
    report = run(body, block=128, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report


@pytest.mark.parametrize(("who", "ended"), [("!odd", "(0, 0, 0)"), ("odd", "(1, 0, 0)")])
def test_a_cta_that_ends_before_the_pairs_product(who: str, ended: str) -> None:
    """Neither the issuer nor its peer may. Under eager the product is done, but nothing has told the CTA."""
    # Columns stay allocated, so that no CTA waits for the other: reported, too.
    body = ending(ISSUE.format(commit=COMMIT_BOTH) + f"@{who} bra GO\n{WAIT}GO:\n")
    report = run(body, block=128, schedule="late")
    found = [f for f in report.findings if f.rule.name == "exit-in-flight"]
    assert found, report
    wanted = f"CTA {ended} ended, and no wait ensured that tcgen05.mma.cta_group::2.kind::f16, issued by CTA (0, 0, 0)"
    assert any(wanted in f.message and f.message.endswith("was complete") for f in found)
    # A CTA has not seen the arrival at its own mbarrier.
    assert {"exit-in-flight", "commit-at-exit"} & set(rules(run(body, block=128)))


@pytest.mark.parametrize("kept", [True, False])
def test_a_cta_that_ends_before_a_signal_comes(kept: bool) -> None:
    """The even CTA's commit signals a barrier of the odd one, which waits for it, or does not."""
    body = f"""
    mbarrier.init.shared::cta.b64 [bar], 1
    {SYNC}
    @odd bra ODD
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [theirs]
    {SYNC}
    {LONG}
    bra END
    ODD:
    {SYNC}
    {WAIT if kept else ""}
    END:
    """
    for schedule, seed in SCHEDULES:
        report = run(body, block=1, schedule=schedule, seed=seed)
        if kept:
            assert report.verdict == "clean", report
        else:
            assert rules(report) == ["exit-in-flight"], report
            message = report.findings[0].message
            assert "CTA (1, 0, 0) ended" in message and "issued by CTA (0, 0, 0)" in message
            assert "had arrived at mbarrier" in message


def test_work_for_a_peer_that_has_exited() -> None:
    """The even CTA multiplies when the odd one has long ended."""
    body = ending("@odd bra END\n" + LONG + ISSUE.format(commit=COMMIT_BOTH) + "END:\n")
    report = run(body, block=128)
    assert "cta-pair" in rules(report), report
    assert "CTA (1, 0, 0), the peer of CTA (0, 0, 0), has exited" in str(report)


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_work_of_one_cta_that_nobody_waits_for(schedule: str) -> None:
    """The same rule without a pair: a product that may still read the memory of a CTA that is gone."""
    body = ending(ISSUE.format(commit="")).replace("cta_group::2", "cta_group::1")
    body = body.replace(str(idesc(1, "f16", "f16", 256, 32)), str(idesc(1, "f16", "f16", 128, 32)))
    report = run(body, block=128, schedule=schedule)
    assert "exit-in-flight" in rules(report), report


@pytest.mark.parametrize("kept", [True, False])
def test_a_commit_on_its_way_to_the_ctas_own_barrier(kept: bool) -> None:
    """The barrier is shared memory of a CTA that has ended: for review, since some compilers leave it so."""
    body = f"""
    mbarrier.init.shared::cta.b64 [bar], 1
    {SYNC}
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar]
    {WAIT if kept else ""}
    {SYNC}
    """
    for schedule, seed in SCHEDULES:
        report = run(body, block=1, schedule=schedule, seed=seed)
        if kept:
            assert report.verdict == "clean", report
        else:
            assert rules(report) == ["commit-at-exit"], report
            assert report.verdict == "review"
            assert "no wait ensured that tcgen05.commit" in report.findings[0].message
            assert "had arrived at mbarrier" in report.findings[0].message


@pytest.mark.parametrize("last", ["[later]", "[bar]"])
def test_the_last_commit_of_a_thread_tells_of_the_earlier_ones(last: str) -> None:
    """A thread's commits arrive in order: the CTA waits for the last one only."""
    body = f"""
    .shared b8 second[8] 8
    .reg b32 later
    mov.u32 later, second
    mbarrier.init.shared::cta.b64 [bar], 1
    mbarrier.init.shared::cta.b64 [later], 1
    {SYNC}
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar]
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [later]
    {WAIT.replace("[bar]", last)}
    {SYNC}
    """
    for schedule, seed in SCHEDULES:
        report = run(body, block=1, schedule=schedule, seed=seed)
        assert rules(report) == ([] if last == "[later]" else ["commit-at-exit"]), report
