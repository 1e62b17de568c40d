"""mbarrier: states and their bits, drops, arrivals that must not complete, transactions, layouts, multicast.

The bits of states were measured on an H200; the counts are those of a model in Python.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyptx.core.findings import Finding
from tests.sim.build import Kernel

HEAD = """
.shared b8 bar[64] 8
.reg u32 t b x y n
.reg u64 o state other g wide
.reg b8 report
.reg pred p q lead
mov.u32 t, %tid.x
mov.u32 b, bar
setp.eq.u32 lead, t, 0
mad.wide.u32 o, t, 8, out
"""


def kernel(lines: list[str], **options: Any) -> Kernel:
    return Kernel(HEAD + "\n".join(lines) + "\nret", "out:u64", **options)


def found(lines: list[str], threads: int = 1) -> Finding:
    (finding,) = kernel(lines).run(np.zeros((64, threads), np.uint64), block=threads).findings
    return finding


def kept(threads: int, *blocks: list[str]) -> tuple[list[str], int]:
    """Lines that run the blocks and keep ``state`` after each: a row of the output per block."""
    lines: list[str] = []
    for number, block in enumerate(blocks):
        lines += [*block, f"st.global.u64 [o+{8 * threads * number}], state"]
    return lines, len(blocks)


def states(threads: int, *blocks: list[str], setup: list[str] | None = None) -> np.ndarray:
    lines, rows = kept(threads, *blocks)
    out = np.zeros((rows, threads), np.uint64)
    kernel([*(setup or []), *lines]).clean(out, block=threads)
    return out


@dataclass
class Model:
    """What the manual says an object counts, and the state that an H200 gives."""

    expected: int
    phase: int = 0
    tx: int = 0

    def __post_init__(self) -> None:
        self.pending = self.expected

    def state(self) -> int:
        upper = self.phase % 2 << 31 | (2**20 - self.pending) % 2**20 << 11 | (-self.tx % 2**21) >> 11
        return upper << 32

    def settle(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.expected


# --- one thread -------------------------------------------------------------------------------


def test_states_are_those_of_an_h200() -> None:
    """Seven arrivals, of which the fourth step completes the phase; words as recorded."""
    got = states(
        1,
        ["mbarrier.arrive.shared.b64 state, [b]"],
        ["mbarrier.arrive.shared.b64 state, [b], 2"],
        ["mbarrier.arrive.noComplete.shared.b64 state, [b], 3"],
        ["mbarrier.arrive.shared.b64 state, [b]"],
        ["mbarrier.arrive.expect_tx.shared.b64 state, [b], 1048575"],
        ["mbarrier.arrive_drop.shared.b64 state, [b]"],
        ["mbarrier.arrive_drop.shared.b64 state, [b], 2"],
        ["mbarrier.arrive_drop.noComplete.shared.b64 state, [b], 1"],
        setup=["mbarrier.init.shared.b64 [b], 7"],
    )
    assert got[:, 0].tolist() == [
        0x7FFFC80000000000, 0x7FFFD00000000000, 0x7FFFE00000000001, 0x7FFFF80000000000,
        0xFFFFC80000000000, 0xFFFFD20000000000, 0xFFFFDA0000000000, 0xFFFFEA0000000001,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_random_operations_of_one_thread(seed: int) -> None:
    """States, pending counts and answers of waits against the model, over many phases."""
    generator = random.Random(seed)
    model = Model(generator.randrange(20, 60))
    lines = [f"mbarrier.init.shared.b64 [b], {model.expected}"]
    expected: list[int] = []
    states_of_phase: dict[int, str] = {}

    def keep(register: str, value: int) -> None:
        lines.append(f"st.global.u64 [o+{8 * len(expected)}], {register}")
        expected.append(value)

    for _ in range(60):
        kind = generator.choice(
            ("arrive", "arrive", "noComplete", "drop", "expect", "complete", "both", "ask")
        )
        if kind in ("arrive", "noComplete", "drop", "both") and model.pending == 0:
            kind = "expect" if model.tx < 0 else "complete"
        before = model.state()
        if kind == "ask":
            for parity in (0, 1):
                lines += [f"mbarrier.test_wait.parity.shared.b64 p, [b], {parity}", "selp.u64 wide, 1, 0, p"]
                keep("wide", int(model.phase % 2 != parity))
            if model.phase in states_of_phase or model.phase - 1 in states_of_phase:
                asked = model.phase if model.phase in states_of_phase else model.phase - 1
                lines += [
                    f"mov.u64 other, {states_of_phase[asked]}",
                    "mbarrier.test_wait.shared.b64 p, [b], other",
                ]
                lines.append("selp.u64 wide, 1, 0, p")
                keep("wide", int(asked < model.phase))
            continue
        if kind in ("expect", "complete"):
            amount = generator.choice((1, 16, 4096, 100000))
            if model.pending == 0:
                amount = abs(model.tx)
            lines.append(f"mbarrier.{kind}_tx.relaxed.cta.shared::cta.b64 [b], {amount}")
            model.tx += amount if kind == "expect" else -amount
            model.settle()
            continue
        count = generator.randrange(1, min(model.pending, 6) + 1)
        if kind == "noComplete" and count == model.pending and model.tx == 0:
            continue
        states_of_phase[model.phase] = str(before)
        if kind == "noComplete":
            lines.append(f"mbarrier.arrive.noComplete.shared.b64 state, [b], {count}")
            keep("state", before | 1)
            lines += ["mbarrier.pending_count.b64 x, state", "cvt.u64.u32 wide, x"]
            keep("wide", model.pending)
        elif kind == "both":
            count = 1
            lines.append("mbarrier.arrive.expect_tx.shared.b64 state, [b], 48")
            keep("state", before)
            model.tx += 48
        elif kind == "drop" and model.expected > 15:
            lines.append(f"mbarrier.arrive_drop.shared.b64 state, [b], {count}")
            keep("state", before)
            model.expected -= count
        else:
            lines.append(f"mbarrier.arrive.shared.b64 state, [b], {count}")
            keep("state", before)
        model.pending -= count
        model.settle()
    out = np.zeros(len(expected), np.uint64)
    kernel(lines).clean(out, block=1)
    assert out.tolist() == expected


def test_pending_count_of_any_bits() -> None:
    for bits in (0, 2**64 - 1, 1 << 43, 1 << 62, 0x123456789ABCDEF0):
        lines = [f"mov.u64 state, {bits}", "mbarrier.pending_count.b64 x, state", "cvt.u64.u32 state, x"]
        assert states(1, lines)[0, 0] == 2**20 - (bits >> 43 & 0xFFFFF)


# --- warps ------------------------------------------------------------------------------------

TWO = ["@lead mbarrier.init.shared.b64 [b], 900", "@lead mbarrier.init.shared.b64 [b+8], 700", "bar.sync 0"]
ODD = ["and.b32 y, t, 1", "setp.eq.u32 p, y, 1", "mad.lo.u32 y, y, 8, b", "add.u32 n, t, 1"]


def upper(pending: int) -> int:
    return (2**20 - pending) << 43


@pytest.mark.parametrize("operation", ["arrive", "arrive_drop"])
def test_the_lanes_of_an_arrival_get_one_state(operation: str) -> None:
    for operand, counts in (("", [1] * 32), (", 3", [3] * 32), (", n", list(range(1, 33)))):
        lines = [*TWO, *ODD, "mov.u64 state, 5"]
        one, later, guarded, both = states(
            32,
            [f"mbarrier.{operation}.shared.b64 state, [b]{operand}"],
            ["bar.warp.sync 0xffffffff", "mbarrier.arrive.shared.b64 state, [b]"],
            [
                "bar.warp.sync 0xffffffff",
                "mov.u64 state, 5",
                f"@p mbarrier.{operation}.shared.b64 state, [b+8], 2",
            ],
            ["bar.warp.sync 0xffffffff", "mbarrier.arrive.shared.b64 state, [y], n"],
            setup=lines,
        )
        assert one.tolist() == [upper(900)] * 32
        left = 900 - sum(counts)
        assert later.tolist() == [upper(left)] * 32
        assert guarded.tolist() == [upper(700) if t % 2 else 5 for t in range(32)]
        assert both.tolist() == [upper(668 if t % 2 else left - 32) for t in range(32)]


@pytest.mark.parametrize("operation", ["arrive", "arrive_drop"])
def test_each_lane_that_must_not_complete_has_its_state(operation: str) -> None:
    """The lower half is the mask of the lanes that do the same to the same object."""
    for operand, counts in (("3", [3] * 32), ("n", list(range(1, 33)))):
        instruction = f"mbarrier.{operation}.noComplete.shared.b64 state, [y], {operand}"
        (got,) = states(32, [instruction], setup=[*TWO, *ODD])
        pending, expected = [900, 700], []
        for t in range(32):
            mask = (0x55555555 << t % 2) if operand == "3" else 1 << t
            expected.append(upper(pending[t % 2]) | mask)
            pending[t % 2] -= counts[t]
        assert got.tolist() == expected


def test_warps_arrive_one_after_the_other() -> None:
    for schedule, seed in (("eager", 0), ("random", 1), ("random", 2)):
        lines, _ = kept(128, ["mbarrier.arrive.noComplete.shared.b64 state, [b], 2"])
        out = np.zeros((1, 128), np.uint64)
        kernel([*TWO, *lines]).clean(out, block=128, schedule=schedule, seed=seed)
        assert sorted(out[0].tolist()) == sorted(upper(900 - 2 * i) | 0xFFFFFFFF for i in range(128))


# --- waits ------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "wait", ["try_wait", "try_wait.phase_type::primary", "test_wait", "test_wait.phase_type::primary"]
)
@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("late", 0), *(("random", s) for s in range(4))]
)
def test_every_thread_waits_with_its_state(wait: str, schedule: str, seed: int) -> None:
    """Five phases of 96 threads; each stores before it arrives and reads its neighbor's word after."""
    text = (
        HEAD.replace("bar[64]", "bar[1024]")
        + """
        @lead mbarrier.init.shared.b64 [b], 96
        bar.sync 0
        mov.u32 n, 0
        mov.u32 y, 0
        PHASE:
        mad.lo.u32 x, t, 4, b
        mad.lo.u32 g32, n, 100, t
        st.shared.u32 [x+8], g32
        mbarrier.arrive.shared.b64 state, [b]
        WAIT:
        mbarrier.{wait}.shared.b64 p, [b], state
        @!p bra WAIT
        xor.b32 x, t, 31
        mad.lo.u32 x, x, 4, b
        ld.shared.u32 g32, [x+8]
        mad.lo.u32 y, y, 3, g32
        mbarrier.arrive.shared.b64 state, [b]
        AGAIN:
        mbarrier.{wait}.shared.b64 p, [b], state
        @!p bra AGAIN
        add.u32 n, n, 1
        setp.lt.u32 p, n, 5
        @p bra PHASE
        cvt.u64.u32 state, y
        st.global.u64 [o], state
        ret
        """.replace("{wait}", wait)
    )
    out = np.zeros(96, np.uint64)
    Kernel(text.replace(".reg u32 t b", ".reg u32 g32 t b"), "out:u64").clean(
        out, block=96, schedule=schedule, seed=seed
    )
    for t in range(96):
        total = 0
        for n in range(5):
            total = total * 3 + n * 100 + (t ^ 31) & 0xFFFFFFFF
        assert out[t] == total


def test_a_phase_that_nobody_completes_hangs_and_names_the_object() -> None:
    lines = ["mbarrier.init.shared.b64 [b], 2", "mbarrier.arrive.shared.b64 state, [b]", "WAIT:"]
    lines += ["mbarrier.try_wait.shared.b64 p, [b], state", "@!p bra WAIT"]
    finding = found(lines)
    assert finding.rule.name == "deadlock" and "1 of 2 arrivals pending" in finding.message


# --- layouts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [0, 1])
def test_layouts_and_reports(layout: int) -> None:
    """Both phases of an object complete together, and nothing is reported, where no operation reports."""
    lines = [f"mbarrier.init.layout::v{layout}.shared.b64 [b], 1", "mov.u64 state, 0"]
    expected = []
    for asked in (0, 1):
        lines += [f"mbarrier.check_layout.layout::v{asked}.shared.b64 p, [b]", "selp.u64 wide, 1, 0, p"]
        lines.append(f"st.global.u64 [o+{8 * len(expected)}], wide")
        expected.append(int(asked == layout))
    for phase in range(3):
        lines.append("mbarrier.arrive.shared.b64 state, [b]")
        for kind in ("test_wait", "try_wait"):
            for asked, operand in (("phase_type::primary", "state"), ("parity.phase_type::primary", str(phase % 2)),
                                   ("parity.phase_type::conditional", str(phase % 2)),
                                   ("parity.phase_type::conditional", str(1 - phase % 2))):  # fmt: skip
                lines += [f"mbarrier.{kind}.{asked}.shared.b64 p, [b], {operand}", "selp.u64 wide, 1, 0, p"]
                lines.append(f"st.global.u64 [o+{8 * len(expected)}], wide")
                expected.append(int(operand in ("state", str(phase % 2))))
            for asked, operand in (
                ("phase_type::primary", "state"),
                ("parity.phase_type::primary", str(phase % 2)),
            ):
                lines += ["setp.eq.u32 q, t, t", "mov.u32 n, 77", "cvt.u8.u32 report, n"]
                lines += [f"mbarrier.{kind}.{asked}.shared.b64 p|q, report, [b], {operand}"]
                lines += ["selp.u64 wide, 2, 0, p", "selp.u64 other, 1, 0, q", "or.b64 wide, wide, other"]
                lines += ["cvt.u64.u8 other, report", "mad.lo.u64 wide, other, 4, wide"]
                lines.append(f"st.global.u64 [o+{8 * len(expected)}], wide")
                expected.append(2)
    out = np.full(len(expected), 99, np.uint64)
    kernel(lines).clean(out, block=1)
    assert out.tolist() == expected


# --- the CTA's own object through instructions for clusters -----------------------------------


def test_remote_and_multicast_forms_reach_the_own_cta() -> None:
    lines = [
        "@lead mbarrier.init.shared.b64 [b], 400",
        "bar.sync 0",
        "mov.u32 n, 1",
        "mbarrier.arrive.shared::cluster.b64 _, [b], 2",
        "mbarrier.arrive_drop.shared::cluster.b64 _, [b]",
        "mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 _, [b], 3, n",
        "mbarrier.arrive_drop.shared::cluster.multicast::cluster::32b.b64 _, [b], n",
        "mbarrier.arrive.expect_tx.shared::cluster.multicast::cluster::32b.b64 _, [b], 4096, n",
        "mbarrier.expect_tx.shared::cluster.multicast::cluster::32b.b64 [b], 4096, n",
        "mbarrier.complete_tx.shared::cluster.multicast::cluster::32b.b64 [b], 4096, n",
        "mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 _, [b], 3, 0",
        "bar.sync 0",
    ]
    rows, _ = kept(32, ["mbarrier.arrive.shared.b64 state, [b]"])
    out = np.zeros((1, 32), np.uint64)
    kernel([*lines, *rows], target="sm_107a").clean(out, block=32)
    left = 400 - 32 * (2 + 1 + 3 + 1 + 1)
    assert out.tolist() == [[upper(left) | (-4096 * 32 % 2**21) >> 11 << 32] * 32]


def test_another_cta_is_out_of_reach() -> None:
    lines = ["mbarrier.init.shared.b64 [b], 4"]
    lines += ["mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 _, [b], 2"]
    (finding,) = kernel(lines, target="sm_107a").run(np.zeros(1, np.uint64), block=1).findings
    assert finding.rule.name == "out-of-bounds"


@pytest.mark.parametrize("bit", [1, 30, 31])
def test_every_bit_of_a_mask_names_a_cta(bit: int) -> None:
    lines = ["mbarrier.init.shared.b64 [b], 4", f"mov.u32 n, {1 << bit}"]
    lines += ["mbarrier.arrive.shared::cluster.multicast::cluster::32b.b64 _, [b], n"]
    (finding,) = kernel(lines, target="sm_107a").run(np.zeros(1, np.uint64), block=1).findings
    assert finding.rule.name == "out-of-bounds" and f"no CTA of rank {bit}" in finding.message


MEET = ["barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"]


@pytest.mark.parametrize(
    ("operation", "counts"),
    [
        ("arrive.shared::cluster.multicast::cluster::32b.b64 _, [b], x, n", range(1, 33)),
        ("arrive.shared::cluster.multicast::cluster::32b.b64 _, [b], 3, n", [3] * 32),
        ("arrive.expect_tx.shared::cluster.multicast::cluster::32b.b64 _, [b], 0, n", [1] * 32),
    ],
)
def test_each_lane_has_a_mask_of_its_own(operation: str, counts: list[int]) -> None:
    """Lane t of the first CTA arrives at the objects of the CTAs of mask t % 4."""
    lines = [
        "@lead mbarrier.init.shared.b64 [b], 900",
        "bar.sync 0",
        *MEET,
        "mov.u32 y, %cluster_ctarank",
        "setp.eq.u32 p, y, 0",
        "and.b32 n, t, 3",
        "add.u32 x, t, 1",
        f"@p mbarrier.{operation}",
        *MEET,
        "mad.lo.u32 x, y, 32, t",
        "mad.wide.u32 o, x, 8, out",
        "mbarrier.arrive.shared.b64 state, [b]",
        "st.global.u64 [o], state",
    ]
    out = np.zeros((2, 32), np.uint64)
    kernel(lines, target="sm_107a").clean(out, block=32, grid=2, cluster=2)
    for rank in range(2):
        arrived = sum(count for t, count in enumerate(counts) if t >> rank & 1)
        assert out[rank].tolist() == [upper(900 - arrived)] * 32


@pytest.mark.parametrize("first", ["eager", "late", "random"])
def test_lanes_that_ask_of_several_objects_do_not_park(first: str) -> None:
    """A wait for different phases answers at once: true for the lanes whose phase is complete."""
    ask = ["mbarrier.try_wait.parity.shared.b64 p, [y], 0", "selp.u64 state, 1, 0, p"]
    blocks = [
        ["mov.u64 state, 5", *ask],
        ["@lead mbarrier.arrive.shared.b64 _, [b+8], 700", "bar.warp.sync 0xffffffff", *ask],
        ["@lead mbarrier.arrive.shared.b64 _, [b], 900", "bar.warp.sync 0xffffffff", *ask],
    ]
    lines, rows = kept(32, *blocks)
    out = np.full((rows, 32), 9, np.uint64)
    kernel([*TWO, *ODD, *lines]).clean(out, block=32, schedule=first)
    neither, odd, both = out.tolist()
    assert neither == [0] * 32
    if first != "random":  # which may answer no where the phase is complete
        assert odd == [t % 2 for t in range(32)] and both == [1] * 32


# --- misuse -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("arrive.noComplete.shared.b64 state, [b], 3", "arrive.noComplete.shared.b64 state, [b], 4", "complete the phase"),
        ("arrive_drop.noComplete.shared.b64 state, [b], 3", "arrive_drop.noComplete.shared.b64 state, [b], 4", "complete"),
        ("arrive.shared.b64 state, [b], 4", "arrive.shared.b64 state, [b], 5", "only 4 are pending"),
        ("arrive_drop.shared.b64 state, [b], 4", "arrive_drop.shared.b64 state, [b], 5", "5 arrival(s) dropped"),
        ("arrive.shared.b64 state, [b], n", "arrive.shared.b64 state, [b], t", "0 arrival(s)"),
        ("expect_tx.relaxed.cta.shared.b64 [b], 1048575", "expect_tx.relaxed.cta.shared.b64 [b], 1048576", "the tx-count"),
        ("complete_tx.relaxed.cta.shared.b64 [b], 1048575", "complete_tx.relaxed.cta.shared.b64 [b], 1048576", "the tx-count"),
        ("arrive.shared.b64 wide, [b]\nmbarrier.test_wait.shared.b64 p, [b], wide\n@p exit", "test_wait.shared.b64 p, [b+8], wide", "no mbarrier was initialized"),
    ],
)  # fmt: skip
def test_limits(good: str, bad: str, says: str) -> None:
    setup = ["mbarrier.init.shared.b64 [b], 4", "mov.u32 n, 2", "mov.u64 wide, 0"]
    kernel([*setup, f"mbarrier.{good}"]).clean(np.zeros(1, np.uint64), block=1)
    finding = found([*setup, f"mbarrier.{bad}"])
    assert finding.rule.name == "mbarrier-misuse" and says in finding.message


def test_dropping_everybody_leaves_an_object_that_nobody_arrives_at() -> None:
    lines = ["mbarrier.init.shared.b64 [b], 2", "mbarrier.arrive_drop.shared.b64 state, [b], 2"]
    got = states(1, ["mbarrier.test_wait.shared.b64 p, [b], state", "selp.u64 state, 1, 0, p"], setup=lines)
    assert got[0, 0] == 1
    assert "only 0 are pending" in found([*lines, "mbarrier.arrive.shared.b64 state, [b]"]).message


# --- states of other objects and phases, answers that nothing reads --------------------------------

ARRIVE = "mbarrier.arrive.shared.b64 state, [b]"
ASK = "mbarrier.test_wait.shared.b64 p, [{}], state\nselp.u64 wide, 1, 0, p"


def asked(lines: list[str], threads: int = 1) -> list[str]:
    report = kernel(lines).run(np.zeros((64, threads), np.uint64), block=threads)
    return [finding.rule.name for finding in report.findings]


@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
def test_a_state_of_another_object(wait: str) -> None:
    """The two differ in their counts, which a state shows."""
    both = ["mbarrier.init.shared.b64 [b], 2", "mbarrier.init.shared.b64 [b+8], 3", ARRIVE]
    right = ASK.format("b").replace("test_wait", wait)
    if wait == "test_wait":
        assert asked([*both, right]) == []
    assert asked([*both, "mbarrier.arrive.shared.b64 _, [b]", right]) == []
    done = ["mbarrier.arrive.shared.b64 _, [b+8], 3"]
    assert asked([*both, *done, ASK.format("b+8").replace("test_wait", wait)]) == ["mbarrier-state"]


@pytest.mark.parametrize(
    ("later", "rules"), [(0, []), (1, []), (2, ["mbarrier-state"]), (3, ["mbarrier-state"])]
)
@pytest.mark.parametrize("arrival", [ARRIVE, "mbarrier.arrive.expect_tx.shared.b64 state, [b], 0"])
def test_a_state_of_an_earlier_phase(later: int, rules: list[str], arrival: str) -> None:
    """Of the current phase and of the one before. Later phases wait for bytes, so that states do not repeat."""
    lines = ["mbarrier.init.shared.b64 [b], 2", arrival]
    if later:
        lines.append("mbarrier.arrive.shared.b64 _, [b]")
    for _ in range(1, later):
        lines += [
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 4096",
            "mbarrier.arrive.shared.b64 _, [b], 2",
            "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [b], 4096",
        ]
    assert asked([*lines, ASK.format("b")]) == rules


def test_states_of_noComplete_and_of_whole_warps() -> None:
    lines = ["@lead mbarrier.init.shared.b64 [b], 128", "bar.sync 0"]
    assert asked([*lines, "mbarrier.arrive.noComplete.shared.b64 state, [b], 2", ASK.format("b")], 32) == []
    assert asked([*lines, "mbarrier.arrive.shared.b64 state, [b], 3", ASK.format("b")], 32) == []
    assert asked([*lines, ARRIVE, "add.u64 state, state, 0x100000000000", ASK.format("b")], 32) == [
        "mbarrier-state"
    ]


@pytest.mark.parametrize(("after", "used"), [
    ("", False),
    ("setp.eq.u32 p, x, 0\n@p mov.u32 x, 1", False),
    ("@p setp.eq.u32 p, x, 0", True),
    ("selp.u32 x, 1, 0, p", True),
    ("@!p bra WAIT", True),
    ("bra NEXT\nNEXT:\n@p mov.u32 x, 1", True),
    ("@lead bra NEXT\nmov.pred p, q\nNEXT:\n@p mov.u32 x, 1", True),
    ("@p bra NEXT\nNEXT:\nmov.u32 x, 1", False),
    ("@p bra NEXT\nbra LAST\nNEXT:\nbra LAST\nmov.u32 x, 2\nLAST:\nmov.u32 x, 1", False),
    ("@p bra NEXT\nmov.u32 x, 2\nNEXT:\nmov.u32 x, 1", True),
    ("@p bra NEXT\nret\nNEXT:", True),
])  # fmt: skip
@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
@pytest.mark.parametrize("threads", [1, 32])
def test_an_answer_that_no_instruction_reads(after: str, used: bool, wait: str, threads: int) -> None:
    lines = ["mov.u32 x, 0", "setp.ne.u32 q, t, 0", "@lead mbarrier.init.shared.b64 [b], 1", "bar.sync 0",
             f"WAIT:\nmbarrier.{wait}.parity.shared.b64 p, [b], 1", after]  # fmt: skip
    assert asked(lines, threads) == ([] if used else ["unused-wait"])
