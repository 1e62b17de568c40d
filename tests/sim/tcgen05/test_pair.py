"""Pairs of CTAs: tensor memory that both allocate together, copies and shifts in both.

PTX ISA #tcgen05-issue-granularity.  Each rule has a twin that breaks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.sim import Report
from pyptx.sim.tcgen05.tensor_memory import TensorStorage, find_room
from tests.sim.build import Kernel
from tests.sim.tcgen05.stage import Cells, cells_of, perform_pair, played_pair
from tests.sim.tcgen05.test_kinds import idesc
from tests.sim.tcgen05.test_mma import A_AT, B_AT, SCHEDULES, Operand, operand
from tests.sim.tcgen05.test_tensor_memory import SETUP

BEGIN = (
    SETUP
    + """
.reg u32 rank peer theirs
.reg u16 mask
.reg pred odd never
mov.u32 rank, %cluster_ctarank
xor.b32 peer, rank, 1
mapa.shared::cluster.u32 theirs, bar, peer
and.b32 n, rank, 1
setp.eq.u32 odd, n, 1
setp.ne.u32 never, n, n
"""
)
ALLOC = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [bar+{at}], {columns}\n"
FREE = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 {address}, {columns}\n"
SYNC = "barrier.cluster.arrive.aligned\nbarrier.cluster.wait.aligned\n"
#: Something that takes long.
LONG = "mov.u32 n, 0\nLONG:\nadd.u32 n, n, 1\nsetp.lt.u32 q, n, 5000\n@q bra LONG\n"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned\n"


def alloc(columns: int, at: int = 32) -> str:
    return ALLOC.format(columns=columns, at=at) + f"ld.shared.b32 tm, [bar+{at}]\n"


def free(columns: int, address: str = "tm") -> str:
    return FREE.format(columns=columns, address=address)


def run(
    body: str, *args: Any, params: str = "out:u64", ctas: int = 2, block: int = 32, **options: Any
) -> Report:
    kernel = Kernel(BEGIN + body + "\nret", params)
    args = args or (np.zeros(64, np.uint32),)
    return kernel.run(*args, grid=ctas, cluster=ctas, block=block, max_steps=200_000, **options)


def rules(report: Report) -> list[str]:
    return [f.rule.name for f in report.findings]


# --- allocation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_the_same_columns_in_both(schedule: str, seed: int) -> None:
    """Each CTA finds the address at the same offset of its own shared memory."""
    body = (
        alloc(64, 32) + "mov.b32 m, tm\n" + alloc(32, 36)
        + "mad.wide.u32 o, rank, 16, out\nst.global.b32 [o], m\nst.global.b32 [o+4], tm\n"
        + RELINQUISH + free(64, "m") + free(32)
    )  # fmt: skip
    out = np.full((4, 4), 7, np.uint32)
    report = run(body, out, ctas=4, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report
    assert out.tolist() == [[0, 64, 7, 7]] * 4


def test_a_run_of_columns_that_is_free_in_both() -> None:
    first, second = TensorStorage(), TensorStorage()
    owner: Any = None
    assert find_room([first, second], 128) == 0
    first.take(0, 64, False, owner)
    second.take(128, 128, False, owner)
    assert find_room([first], 128) == 128
    assert find_room([second], 128) == 0
    assert find_room([first, second], 128) == 256
    assert find_room([first, second], 64) == 64
    assert find_room([first, second], 512) is None
    second.release(128)
    assert find_room([first, second], 128) == 128


HANDOVER = """
mbarrier.init.shared::cta.b64 [bar], 1
{sync}
@odd bra WAIT
{even}
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [theirs]
bra REST
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0
@!q bra WAIT
{odd}
REST:
"""


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("what", ["alloc", "dealloc", "relinquish_alloc_permit"])
def test_both_wait_for_each_other(what: str, schedule: str, seed: int) -> None:
    """The odd CTA comes when the even one is through: the manual calls that a hang that need not happen."""
    early, late = {"alloc": ("", alloc(32)), "dealloc": (alloc(32), free(32)), "relinquish_alloc_permit": (alloc(32), RELINQUISH)}[what]  # fmt: skip
    body = early + HANDOVER.format(sync=SYNC, even=late, odd=late)
    report = run(body, block=1, schedule=schedule, seed=seed)
    assert rules(report)[0] == "deadlock", report
    assert f"waits at tcgen05.{what}.cta_group::2" in report.findings[0].message
    assert "for the peer CTA (1, 0, 0)\n" in report.findings[0].message + "\n"


@pytest.mark.parametrize(
    ("even", "odd", "words"),
    [
        (alloc(64), alloc(32), ("64 columns", "32 columns")),
        (alloc(32, 32), alloc(32, 36), ("offset", "must be the same")),
        (
            alloc(64) + alloc(32, 36) + free(32),
            alloc(64) + alloc(32, 36) + "mov.u32 tm, 0\n" + free(64),
            ("dealloc", "of 32 columns at 0x40", "of 64 columns at 0x0"),
        ),
    ],
)
def test_both_must_give_the_same(even: str, odd: str, words: tuple[str, ...]) -> None:
    for schedule, seed in SCHEDULES[:4]:
        report = run(f"@odd bra ODD\n{even}\nbra REST\nODD:\n{odd}\nREST:", schedule=schedule, seed=seed)
        assert rules(report)[0] == "cta-pair", report
        assert all(word in report.findings[0].message for word in words), report


def test_both_must_execute_the_same() -> None:
    """An alloc is no match for a dealloc: each waits for the other's."""
    body = alloc(32) + "@odd bra ODD\n" + free(32) + "bra END\nODD:\n" + alloc(32) + "END:\n"
    report = run(body)
    assert rules(report)[0] == "deadlock", report
    assert "tcgen05.dealloc" in str(report) and "tcgen05.alloc" in str(report)


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_one_warp_waits_for_room_that_another_makes(schedule: str, seed: int) -> None:
    """In both CTAs: an alloc that waits for room holds up no dealloc."""
    body = f"""
    @other bra OTHER
    {alloc(512)}
    bar.sync 0
    {alloc(512, 36)}
    {free(512)}
    bra END
    OTHER:
    bar.sync 0
    {LONG}
    ld.shared.b32 tm, [bar+32]
    {free(512)}
    END:
    """
    report = run(body, block=64, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report


def test_the_address_goes_to_the_own_shared_memory() -> None:
    report = run(ALLOC.format(at=32, columns=32).replace("[bar+32]", "[theirs+32]"))
    assert rules(report) == ["out-of-bounds"], report
    assert "is not in the shared memory of CTA (0, 0, 0)" in report.findings[0].message


def test_one_warp_of_each_at_a_time() -> None:
    report = run("@odd bra REST\n" + alloc(32) + "REST:\n" + SYNC, block=64)
    assert rules(report)[0] == "cta-pair", report
    assert "one warp of each CTA" in report.findings[0].message


def test_a_peer_that_has_exited() -> None:
    """Before it is asked, and while it is waited for."""
    for schedule, seed in SCHEDULES:
        report = run("@odd bra END\n" + alloc(32) + "END:", schedule=schedule, seed=seed)
        found = report.findings[0]
        assert found.rule.name in ("cta-pair", "deadlock"), report
        assert "has exited" in found.message, report


@pytest.mark.parametrize(("ctas", "rank"), [(1, 0), (3, 2)])
def test_a_cta_without_a_peer(ctas: int, rank: int) -> None:
    report = run(alloc(32) + free(32), ctas=ctas)
    assert rules(report) == ["cta-pair"], report
    assert f"of rank {rank} has no peer in a cluster of {ctas}" in report.findings[0].message


@pytest.mark.parametrize("first", [1, 2])
def test_one_group_in_a_kernel(first: int) -> None:
    body = alloc(32).replace("group::2", f"group::{first}")
    body += free(32).replace("group::2", f"group::{3 - first}")
    report = run(body)
    assert rules(report)[0] == "cta-pair", report
    assert "must name the same cta_group" in report.findings[0].message


def test_one_group_in_both_ctas() -> None:
    one = alloc(32).replace("group::2", "group::1")
    body = f"@odd bra ODD\n{alloc(32)}\nbra END\nODD:\n{one}\nEND:"
    for schedule, seed in SCHEDULES[:4]:
        report = run(body, schedule=schedule, seed=seed)
        assert "cta-pair" in rules(report), report
        assert "must name the same cta_group" in str(report)


def test_what_is_not_freed_and_what_comes_after_the_permit() -> None:
    assert rules(run(alloc(32))) == ["tensor-memory"]
    assert "after relinquish" in str(run(RELINQUISH + alloc(32)))
    assert "may not be larger" in str(run(alloc(32) + alloc(64)))
    assert rules(run(alloc(64) + free(32))) == ["tensor-memory"]


def test_a_product_outside_the_columns_of_both() -> None:
    """The finding says whose tensor memory it is."""
    left, right = np.ones((256, 16)), np.ones((32, 16))
    both, words = operands_of(left, right)
    code = "add.u32 d, tm, 240\n" + MMA.format(flag="never")
    report, _ = played_pair(code, both, fresh(), words | {"v": idesc(1, "f16", "f16", 256, 32)})
    assert rules(report)[0] == "tensor-memory"
    assert "of CTA (0, 0, 0)" in report.findings[0].message


@pytest.mark.parametrize("value", ["31", "480", "512", "0x7f0000", "0xffffffff"])
@pytest.mark.parametrize(
    "text",
    [
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 n, 32",
        "@q tcgen05.cp.cta_group::2.128x256b [n], desc",
        "@q tcgen05.shift.cta_group::2.down [n]",
        "@q tcgen05.mma.cta_group::2.kind::f16 [x0], desc, desc, x1, never",
        "@q tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [n]",
    ],
)
def test_wild_operands(text: str, value: str) -> None:
    """An error that names a rule, and no exception."""
    body = f"""
    .reg b64 desc
    {alloc(32)}
    mov.b64 desc, {1 << 46 | 8 << 32 | 8 << 16 | 0x40}
    mov.u32 n, {value}
    mov.b32 x0, {value}
    mov.b32 x1, {idesc(1, "f16", "f16", 256, 32)}
    setp.eq.u32 q, t, 0
    {text}
    {SYNC}
    """
    report = run(body)
    assert report.verdict == "error", report
    assert set(rules(report)) <= {"tensor-memory", "tensor-memory-lane", "out-of-bounds", "misaligned", "mbarrier-misuse", "uninitialized-read", "exit-in-flight"}  # fmt: skip


# --- copies and shifts ----------------------------------------------------------------------------

MMA = "tcgen05.mma.cta_group::2.kind::f16 [d], a, b, v, {flag}"


def fresh() -> Cells:
    return np.stack([cells_of(3), cells_of(4)])


def operands_of(left: Any, right: Any) -> tuple[tuple[list[Operand], list[Operand]], dict[str, int]]:
    both: tuple[list[Operand], list[Operand]] = ([], [])
    words = {}
    for name, values, at in (("a", left, A_AT), ("b", right, B_AT)):
        for mine, half in zip(both, np.split(values, 2), strict=True):
            mine.append(operand(half, "f16", at, "128B", "K", 0))
            words[name] = mine[-1].word
    return both, words


@pytest.mark.one_in(2)
@pytest.mark.parametrize("issuer", [0, 1])
@pytest.mark.parametrize(
    ("shape", "rows"), [("128x128b", range(128)), ("32x128b.warpx4", [r % 32 for r in range(128)])]
)
def test_a_copy_into_both(shape: str, rows: Any, issuer: int) -> None:
    """Each CTA's tensor memory from its own shared memory."""
    tiles = np.random.default_rng(1).integers(0, 256, (2, 128, 16)).astype(np.uint8)
    both = tuple([operand(tile, "byte", A_AT, "none", "K", 0)] for tile in tiles)
    cells = fresh()
    for schedule, seed in SCHEDULES[:3]:
        out = perform_pair(
            f"add.u32 n, tm, 8\ntcgen05.cp.cta_group::2.{shape} [n], a",
            both, cells, {"a": both[0][0].word}, issuer=issuer, schedule=schedule, seed=seed,
        )  # fmt: skip
        expected = cells.copy()
        for cta in range(2):
            expected[cta, :, 8:12] = tiles[cta][list(rows)].view("<u4")
        assert np.array_equal(out, expected)


@pytest.mark.full
def test_a_shift_in_both() -> None:
    cells = fresh()
    out = perform_pair(
        "add.u32 n, tm, 2097160\ntcgen05.shift.cta_group::2.down [n]", ([], []), cells, {}, issuer=1
    )
    expected = cells.copy()
    expected[:, 32:63, 8:16] = cells[:, 33:64, 8:16]
    assert np.array_equal(out, expected)
