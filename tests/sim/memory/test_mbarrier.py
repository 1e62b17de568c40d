"""mbarrier: phases, counts and bytes against a model, waits of threads and warps, misuse."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from pyptx.layout import TensorMap
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding
from tests.sim.threads.test_divergence import in_few_steps

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("random", 3), ("starve:tma", 0)]
LIMIT = (1 << 20) - 1

HEAD = """
.shared b8 bar[64] 8
.shared b8 tile[1024] 128
.reg u32 t b d x y i
.reg u64 o state g
.reg pred p q lead
mov.u32 t, %tid.x
mov.u32 b, bar
mov.u32 d, tile
setp.eq.u32 lead, t, 0
"""


@dataclass
class Model:
    """The object as the manual describes it."""

    expected: int
    pending: int = 0
    tx: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        self.pending = self.expected

    def expect(self, count: int) -> None:
        self.tx += count

    def arrive(self, count: int = 1) -> None:
        self.pending -= count
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.expected

    def waited(self, parity: int) -> bool:
        """The phase that this parity names is the one before the current one."""
        return (self.phase - 1) % 2 == parity


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("space", [".shared::cta", ".shared", ""])
def test_arrivals_against_the_model(seed: int, space: str) -> None:
    """One thread drives a barrier at random, through a shared or a generic address, and asks after each step."""
    generator = random.Random(seed)
    model = Model(generator.choice((1, 2, 3, 7)))
    at = "[b+8]" if space else "[g+8]"
    lines = [HEAD, "mov.u64 g, bar", "cvta.shared.u64 g, g", "mov.u64 o, out"]
    lines += [f"mbarrier.init{space}.b64 {at}, {model.expected}"]
    expected: list[int] = []
    for _ in range(40):
        what = generator.choice(("arrive", "arrive", "state", "count", "expect"))
        if what == "arrive":
            lines.append(f"mbarrier.arrive{space}.b64 _, {at}")
            model.arrive()
        elif what == "state":
            lines.append(f"mbarrier.arrive.release.cta{space}.b64 state, {at}")
            model.arrive()
        elif what == "count":
            count = generator.randint(1, model.pending)
            lines += [f"mov.u32 x, {count}", f"mbarrier.arrive{space}.b64 _, {at}, x"]
            model.arrive(count)
        elif what == "expect":
            # Zero bytes are always there.
            lines.append(f"mbarrier.arrive.expect_tx{space}.b64 _, {at}, 0")
            model.expect(0)
            model.arrive()
        for parity in (0, 1):
            lines += [
                f"mbarrier.test_wait.parity{space}.b64 q, {at}, {parity}",
                "selp.u32 x, 1, 0, q",
                f"st.global.u32 [o+{4 * len(expected)}], x",
            ]
            expected.append(int(model.waited(parity)))
    lines += [f"mbarrier.inval{space}.b64 {at}", "ret"]
    out = np.full(len(expected), 9, np.uint32)
    Kernel("\n".join(lines), "out:u64").clean(out, block=1)
    assert out.tolist() == expected
    assert 0 in expected and 1 in expected


def test_parity_of_a_fresh_barrier() -> None:
    """Parity 1 is true at once, parity 0 is not: for threads and for whole warps."""
    text = (
        HEAD
        + """
    @lead mbarrier.init.shared::cta.b64 [b], 1
    bar.sync 0
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 1
    selp.u32 x, 1, 0, q
    mbarrier.test_wait.parity.shared::cta.b64 q, [b], 0
    selp.u32 y, 2, 0, q
    or.b32 x, x, y
    mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 q, [b], 1
    selp.u32 y, 4, 0, q
    or.b32 x, x, y
    mad.wide.u32 o, t, 4, out
    st.global.u32 [o], x
    ret
    """
    )
    for threads in (32, 9, 1):
        out = np.zeros(32, np.uint32)
        Kernel(text, "out:u64").clean(out, block=threads)
        assert out[:threads].tolist() == [5] * threads


# --- bytes ------------------------------------------------------------------------------------

LOAD = "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [d+{at}], [map, {{{x}}}], [b]"


def load(at: int = 0, x: int = 0) -> str:
    return LOAD.format(at=at, x=x)


def launch(
    body: str, *, schedule: str = "eager", seed: int = 0, threads: int = 32, sanitize: bool = True
) -> np.ndarray:
    out = np.zeros(1024, np.uint32)
    source = TensorMap.tiled(np.arange(256, dtype=np.uint32), box=(32,))
    kernel = Kernel(HEAD + body, "map:map out:u64")
    kernel.clean(source, out, block=threads, schedule=schedule, seed=seed, sanitize=sanitize)
    return out


WAIT = """
{name}:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], {parity}
@!q bra {name}
"""

STORE = """
mad.wide.u32 o, t, 4, out
mad.lo.u32 x, t, 4, d
ld.shared.u32 x, [x{off}]
st.global.u32 [o{off}], x
"""


@pytest.mark.parametrize("order", ["expect first", "load first", "separate expect", "split expects"])
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_bytes_complete_a_phase(order: str, schedule: str, seed: int) -> None:
    """128 bytes a load; they may come before they are expected, as long as an arrival is pending."""
    steps = {
        "expect first": f"@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 256\n@lead {load()}\n@lead {load(128, 32)}",
        "load first": f"@lead {load()}\n@lead {load(128, 32)}\n@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 256",
        "separate expect": f"@lead {load()}\n@lead mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 256\n@lead {load(128, 32)}\n"
        "@lead mbarrier.arrive.shared::cta.b64 _, [b]",
        "split expects": f"@lead mbarrier.expect_tx.shared::cta.b64 [b], 128\n@lead {load()}\n@lead {load(128, 32)}\n"
        "@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 128",
    }[order]  # fmt: skip
    body = "@lead mbarrier.init.shared::cta.b64 [b], 1\nbar.sync 0\n" + steps
    body += WAIT.format(name="W", parity=0) + STORE.format(off="") + STORE.format(off="+128") + "ret"
    out = launch(body, schedule=schedule, seed=seed)
    assert out[:64].tolist() == list(range(64))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_phases_alternate(schedule: str, seed: int) -> None:
    """Five loads through one slot, a phase each; the parity flips every time."""
    body = f"""
    @lead mbarrier.init.shared::cta.b64 [b], 1
    bar.sync 0
    mov.u32 i, 0
    mov.u32 y, 0
    LOOP:
    mul.lo.u32 x, i, 32
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 128
    @lead {load().replace("{0}", "{x}")}
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], y
    @!q bra W
    xor.b32 y, y, 1
    mad.lo.u32 x, i, 32, t
    mad.wide.u32 o, x, 4, out
    mad.lo.u32 x, t, 4, d
    ld.shared.u32 x, [x]
    st.global.u32 [o], x
    fence.proxy.async.shared::cta
    bar.sync 0
    add.u32 i, i, 1
    setp.lt.u32 p, i, 5
    @p bra LOOP
    ret
    """
    assert launch(body, schedule=schedule, seed=seed)[:160].tolist() == list(range(160))


HANGING = (
    HEAD
    + """
@lead mbarrier.init.shared::cta.b64 [b], {count}
bar.sync 0
@lead {arrive}
@lead {load}
W:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0 // wait
@!q bra W
ret
"""
)


@pytest.mark.parametrize(("count", "arrive", "said"), [
    (1, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 144", "tx-count 16: 16 announced bytes never arrive"),
    (1, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 112",
     "0 of 1 arrivals pending, tx-count -16: 16 bytes arrived that no expect_tx announced"),
    (1, "mbarrier.expect_tx.shared::cta.b64 [b], 128", "1 of 1 arrivals pending, tx-count 0"),
    (2, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 128", "1 of 2 arrivals pending, tx-count 0"),
])  # fmt: skip
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_bytes_and_arrivals_that_do_not_add_up(
    count: int, arrive: str, said: str, schedule: str, seed: int
) -> None:
    """Each is reported within a second, with the barrier's state and the lines that made and await it."""
    kernel = Kernel(HANGING.format(count=count, arrive=arrive, load=load()), "map:map")
    source = TensorMap.tiled(np.arange(256, dtype=np.uint32), box=(32,))
    report = in_few_steps(kernel, source, schedule=schedule, seed=seed)
    (found,) = report.findings
    assert found.rule.name == "deadlock"
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("wait")


# --- waiting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("threads", [32, 10])
def test_lanes_that_wait_for_different_barriers(schedule: str, seed: int, threads: int) -> None:
    """Odd lanes wait for one barrier, even ones for another, and for different parities."""
    body = f"""
    @lead mbarrier.init.shared::cta.b64 [b], 1
    @lead mbarrier.init.shared::cta.b64 [b+8], 1
    setp.eq.u32 p, t, {threads}
    bar.sync 0
    mov.u32 i, 0
    @p bra ARRIVE
    and.b32 x, t, 1
    mad.lo.u32 y, x, 8, b
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [y], x
    @!q bra W
    mad.wide.u32 o, t, 4, out
    add.u32 i, t, 100
    st.global.u32 [o], i
    ret
    ARRIVE:
    add.u32 i, i, 1
    setp.lt.u32 q, i, 20
    @q bra ARRIVE
    mbarrier.arrive.shared::cta.b64 _, [b]
    ret
    """
    out = launch(body, schedule=schedule, seed=seed, threads=threads + 1)
    assert out[:threads].tolist() == [100 + t for t in range(threads)]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_wait_under_a_guard(schedule: str, seed: int) -> None:
    """Lanes that the guard leaves out keep what they had."""
    body = """
    @lead mbarrier.init.shared::cta.b64 [b], 32
    bar.sync 0
    mbarrier.arrive.shared::cta.b64 _, [b]
    setp.lt.u32 p, t, 5
    setp.eq.u32 q, t, 7
    W:
    @p mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    mov.u32 x, 3
    @!p bra OUT
    @!q bra W
    OUT:
    selp.u32 x, 1, 2, q
    mad.wide.u32 o, t, 4, out
    st.global.u32 [o], x
    ret
    """
    out = launch(body, schedule=schedule, seed=seed)
    assert out[:32].tolist() == [1] * 5 + [2, 2, 1] + [2] * 24


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", s) for s in range(4, 12))])
def test_producer_and_consumer_warps(schedule: str, seed: int) -> None:
    """A ring of two slots, full and empty barriers, ten items; the producer waits with the flipped parity."""
    body = """
    .reg u32 warp slot phase full item
    shr.u32 warp, t, 5
    @lead mbarrier.init.shared::cta.b64 [b], 32
    @lead mbarrier.init.shared::cta.b64 [b+8], 32
    @lead mbarrier.init.shared::cta.b64 [b+16], 32
    @lead mbarrier.init.shared::cta.b64 [b+24], 32
    bar.sync 0
    and.b32 i, t, 31
    setp.ne.u32 p, warp, 0
    mov.u32 item, 0
    @p bra CONSUME
    PRODUCE:
    and.b32 slot, item, 1
    shr.u32 phase, item, 1
    and.b32 phase, phase, 1
    xor.b32 phase, phase, 1
    mad.lo.u32 full, slot, 8, b
    WP:
    mbarrier.try_wait.parity.shared::cta.b64 q, [full+16], phase
    @!q bra WP
    mad.lo.u32 x, slot, 32, i
    mad.lo.u32 x, x, 4, d
    mad.lo.u32 y, item, 100, i
    st.shared.u32 [x], y
    mbarrier.arrive.shared::cta.b64 _, [full]
    add.u32 item, item, 1
    setp.lt.u32 q, item, 10
    @q bra PRODUCE
    ret
    CONSUME:
    and.b32 slot, item, 1
    shr.u32 phase, item, 1
    and.b32 phase, phase, 1
    mad.lo.u32 full, slot, 8, b
    WC:
    mbarrier.try_wait.parity.shared::cta.b64 q, [full], phase
    @!q bra WC
    xor.b32 y, i, 31
    mad.lo.u32 x, slot, 32, y
    mad.lo.u32 x, x, 4, d
    ld.shared.u32 y, [x]
    mbarrier.arrive.shared::cta.b64 _, [full+16]
    mad.lo.u32 x, item, 32, i
    mad.wide.u32 o, x, 4, out
    st.global.u32 [o], y
    add.u32 item, item, 1
    setp.lt.u32 q, item, 10
    @q bra CONSUME
    ret
    """
    out = launch(body, schedule=schedule, seed=seed, threads=64)
    assert out[:320].tolist() == [100 * item + (i ^ 31) for item in range(10) for i in range(32)]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_phase_that_flips_on_while_a_warp_waits(schedule: str, seed: int) -> None:
    """Three phases complete while a warp waits for the first: it goes on, for phase 2 has the same parity.

    In which phase the wait counts is chance.
    """
    body = """
    setp.ge.u32 p, t, 32
    @lead mbarrier.init.shared::cta.b64 [b], 1
    bar.sync 0
    @p bra WAIT
    @lead mbarrier.arrive.shared::cta.b64 _, [b]
    @lead mbarrier.arrive.shared::cta.b64 _, [b]
    @lead mbarrier.arrive.shared::cta.b64 _, [b]
    ret
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q bra WAIT
    mad.wide.u32 o, t, 4, out
    st.global.u32 [o], 6
    ret
    """
    out = launch(body, schedule=schedule, seed=seed, threads=64, sanitize=False)
    assert out[32:64].tolist() == [6] * 32


@pytest.mark.full
def test_a_wait_may_say_not_yet() -> None:
    """Under random schedules try_wait sometimes answers false; a loop around it still ends."""
    body = """
    @lead mbarrier.init.shared::cta.b64 [b], 1
    bar.sync 0
    mov.u32 i, 0
    setp.ge.u32 p, t, 32
    @p bra WAIT
    LOOP:
    add.u32 i, i, 1
    setp.lt.u32 q, i, 400
    @q bra LOOP
    @lead mbarrier.arrive.shared::cta.b64 _, [b]
    ret
    WAIT:
    add.u32 i, i, 1
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0, 1000
    @!q bra WAIT
    st.global.u32 [out], i
    ret
    """
    assert launch(body, threads=64)[0] == 1
    tries = [int(launch(body, threads=64, schedule="random", seed=seed)[0]) for seed in range(300)]
    assert min(tries) == 1 and max(tries) > 1


def test_a_wait_that_gives_up_lets_its_thread_do_something_else() -> None:
    """The arrival comes from the waiting thread itself, after a false: waits may time out."""
    body = """
    @lead mbarrier.init.shared::cta.b64 [b], 1
    bar.sync 0
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q mbarrier.arrive.shared::cta.b64 _, [b]
    mbarrier.test_wait.parity.shared::cta.b64 p, [b], 0
    selp.u32 x, 1, 0, p
    selp.u32 y, 2, 0, q
    or.b32 x, x, y
    st.global.u32 [out], x
    ret
    """
    for schedule, seed in SCHEDULES:
        assert launch(body, schedule=schedule, seed=seed, threads=1)[0] == 1


# --- life and misuse --------------------------------------------------------------------------


def test_a_barrier_that_is_made_anew() -> None:
    body = """
    mbarrier.init.shared::cta.b64 [b], 3
    mbarrier.arrive.shared::cta.b64 _, [b], 2
    mbarrier.inval.shared::cta.b64 [b]
    st.shared.u64 [b], 0
    mbarrier.init.shared::cta.b64 [b], 2
    mbarrier.arrive.shared::cta.b64 _, [b], 2
    mbarrier.test_wait.parity.shared::cta.b64 q, [b], 0
    selp.u32 x, 1, 0, q
    mbarrier.inval.shared::cta.b64 [b]
    mbarrier.init.shared::cta.b64 [b], 1
    mbarrier.test_wait.parity.shared::cta.b64 q, [b], 0
    selp.u32 y, 2, 0, q
    or.b32 x, x, y
    st.global.u32 [out], x
    ret
    """
    assert launch(body, threads=1)[0] == 1


def test_init_over_a_live_barrier_is_for_review() -> None:
    kernel = Kernel(
        HEAD + "mbarrier.init.shared::cta.b64 [b], 1\nmbarrier.init.shared::cta.b64 [b], 2 // again\nret"
    )
    report = kernel.run(block=1)
    assert report.verdict == "review"
    (found,) = report.findings
    assert found.rule.name == "mbarrier-reinit"
    assert found.location is not None and found.location.line == kernel.line("again")


def test_ordinary_stores_must_spare_a_live_barrier() -> None:
    """One whose phase has begun; one at rest ends with the store, and can be initialized anew."""
    for at, hit in (("b+16", True), ("b+20", True), ("b+12", False), ("b+24", False)):
        for begun, rule in (
            ("", "mbarrier-overwritten"),
            ("mbarrier.arrive.shared::cta.b64 _, [b+16]", "mbarrier-misuse"),
            ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b+16], 16", "mbarrier-misuse"),
        ):
            kernel = Kernel(
                HEAD + f"mbarrier.init.shared::cta.b64 [b+16], 2\n{begun}\nst.shared.u32 [{at}], 0 // store\n"
                "mbarrier.init.shared::cta.b64 [b], 1\nret"
            )
            report = kernel.run(block=1)
            if hit:
                found = finding(report, rule, "error" if begun else "review")
                assert found.location is not None and found.location.line == kernel.line("store")
            else:
                assert report.verdict == "clean", (at, str(report))


def test_an_overwritten_barrier_is_no_more() -> None:
    init, store = "mbarrier.init.shared::cta.b64 [b], 1\n", "st.shared.u64 [b], 0\n"
    again = Kernel(HEAD + init + store + init + "mbarrier.arrive.shared::cta.b64 _, [b]\nret").run(block=1)
    assert {found.rule.name for found in again.findings} == {"mbarrier-overwritten"}
    gone = Kernel(HEAD + init + store + "mbarrier.arrive.shared::cta.b64 _, [b]\nret").run(block=1)
    assert "no mbarrier was initialized" in gone.findings[-1].message


def test_only_the_lowest_bit_of_a_parity_counts() -> None:
    """Measured on an H200; compilers pass -1."""
    lines = [HEAD, "mbarrier.init.shared::cta.b64 [b], 1", "mov.u32 x, {}"]
    for wait in ("test_wait", "try_wait"):
        for value, complete in ((-1, True), (3, True), (1 << 31, False), (2, False)):
            text = "\n".join(lines).format(value & 0xFFFFFFFF)
            text += f"\nmbarrier.{wait}.parity.shared::cta.b64 q, [b], x\nselp.u32 x, 1, 0, q\nst.global.u32 [out], x\nret"
            out = np.full(1, 7, np.uint32)
            Kernel(text, "out:u64").clean(out, block=1)
            assert out[0] == complete, (wait, value)


def test_eight_bytes_of_a_barrier_are_initialized_by_init() -> None:
    """``inval`` ends the object's life, not what was written."""
    body = "mbarrier.init.shared::cta.b64 [b], 1\nmbarrier.inval.shared::cta.b64 [b]\nld.shared.u64 o, [b]\n"
    kernel = Kernel(HEAD + body + "ld.shared.u64 o, [b+8] // next\nret")
    found = finding(kernel.run(block=1), "undefined-load", "review")
    assert found.location is not None and found.location.line == kernel.line("next")


MISUSE = {
    "count 0": ("mov.u32 x, 0\nmbarrier.init.shared::cta.b64 [b], x // bad", "count 0; expected 1..1048575"),
    "count 2**20": (
        f"mov.u32 x, {LIMIT + 1}\nmbarrier.init.shared::cta.b64 [b], x // bad",
        "count 1048576; expected 1..1048575",
    ),
    "never initialized": ("mbarrier.arrive.shared::cta.b64 _, [b] // bad", "no mbarrier was initialized"),
    "wait never initialized": (
        "mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0 // bad",
        "no mbarrier was initialized",
    ),
    "beside": (
        "mbarrier.init.shared::cta.b64 [b], 1\nmbarrier.arrive.shared::cta.b64 _, [b+8] // bad",
        "no mbarrier was initialized at shared address 0x408",
    ),
    "after inval": (
        "mbarrier.init.shared::cta.b64 [b], 1\nmbarrier.inval.shared::cta.b64 [b]\n"
        "mbarrier.test_wait.parity.shared::cta.b64 q, [b], 0 // bad",
        "no mbarrier was initialized",
    ),
    "inval twice": (
        "mbarrier.init.shared::cta.b64 [b], 1\nmbarrier.inval.shared::cta.b64 [b]\n"
        "mbarrier.inval.shared::cta.b64 [b] // bad",
        "no mbarrier was initialized",
    ),
    "too many at once": (
        "mbarrier.init.shared::cta.b64 [b], 2\nmbarrier.arrive.shared::cta.b64 _, [b], 3 // bad",
        "3 arrival(s) on mbarrier",
    ),
    "tx-count": (
        f"mbarrier.init.shared::cta.b64 [b], 2\nmbarrier.expect_tx.shared::cta.b64 [b], {LIMIT}\n"
        "mbarrier.expect_tx.shared::cta.b64 [b], 1 // bad",
        "leaves the range -1048575..1048575",
    ),
}


@pytest.mark.parametrize("case", MISUSE)
@pytest.mark.parametrize("threads", [32, 1])
def test_misuse(case: str, threads: int) -> None:
    body, said = MISUSE[case]
    # In a full warp one lane misuses it, behind a guard.
    guarded = "\n".join(f"@lead {line}" for line in body.split("\n")) if threads > 1 else body
    kernel = Kernel(HEAD + guarded + "\nret")
    found = finding(kernel.run(block=threads), "mbarrier-misuse")
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("bad")
    assert found.thread == "CTA (0, 0, 0) warp 0 lane 0"


def test_one_arrival_too_many_in_a_phase_that_waits_for_bytes() -> None:
    """Pending is zero, the bytes are not there: no further arrival fits this phase."""
    kernel = Kernel(
        HEAD
        + """
        mbarrier.init.shared::cta.b64 [b], 1 // init
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 64
        mbarrier.arrive.shared::cta.b64 _, [b] // bad
        ret
        """
    )
    found = finding(kernel.run(block=1), "mbarrier-misuse")
    assert "only 0 are pending in this phase" in found.message
    assert found.location is not None and found.location.line == kernel.line("bad")
    ((note, location),) = found.other
    assert note == "initialized" and location is not None and location.line == kernel.line("init")


ARRIVALS = {
    "arrive": "mbarrier.arrive.shared::cta.b64 _, [b]",
    "state": "mbarrier.arrive.shared::cta.b64 state, [b]",
    "bytes": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 0",
    "remote": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [b]",
    "cp.async": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [b]",
}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("count", [1, 16, 31, 33])
def test_the_lanes_of_one_arrival_count_in_one_phase(arrival: str, count: int) -> None:
    """An H200 ends each of these kernels with an error; by the ISA the rest would count in the next phase."""
    first = ARRIVALS["arrive"] + "\n" if count > 32 else ""
    kernel = Kernel(
        f"{HEAD}@lead mbarrier.init.shared::cta.b64 [b], {count}\nbar.sync 0\n{first}{ARRIVALS[arrival]} // bad\nret"
    )
    found = finding(kernel.run(), "mbarrier-misuse")
    assert "lanes 0..31" in found.thread and "32 arrival(s)" in found.message
    assert f"only {count % 32} are pending in this phase, and hardware counts the 32 lanes" in found.message
    assert found.location is not None and found.location.line == kernel.line("bad")


def test_lanes_that_arrive_one_after_another_go_on_in_the_next_phase() -> None:
    """Thirty-one arrivals complete the phase, and the last one counts in the next. As on an H200."""
    text = HEAD + "@lead mbarrier.init.shared::cta.b64 [b], 31\nbar.sync 0\n"
    text += "setp.lt.u32 p, t, 31\n@p mbarrier.arrive.shared::cta.b64 _, [b]\n"
    text += "@!p mbarrier.arrive.shared::cta.b64 _, [b]\nret"
    # The order of the lanes is chance: the sanitizer says so.
    Kernel(text).clean(block=32, sanitize=False)


@pytest.mark.parametrize(
    ("offset", "rule"), [(4, "misaligned"), (1 << 16, "out-of-bounds"), (-0x400, "out-of-bounds")]
)
def test_barriers_lie_aligned_in_shared_memory(offset: int, rule: str) -> None:
    for body in (
        "mbarrier.init.shared::cta.b64 [x], 1",
        "mbarrier.try_wait.parity.shared::cta.b64 q, [x], 1",
    ):
        kernel = Kernel(HEAD + f"add.u32 x, b, {offset}\n{body} // bad\nret")
        found = finding(kernel.run(block=1), rule)
        assert found.location is not None and found.location.line == kernel.line("bad")


# --- reads of an object -------------------------------------------------------------------------

TWO_OBJECTS = "mbarrier.init.shared::cta.b64 [b+16], 1\nmbarrier.init.shared::cta.b64 [b+32], 1\n"


@pytest.mark.parametrize(("read", "hit"), [
    ("ld.shared.u64 o, [b+16]", True), ("ld.shared.u32 x, [b+20]", True), ("ld.shared.u8 x, [b+39]", True),
    ("ld.shared.u64 o, [b+24]", False), ("ld.shared.u32 x, [b+12]", False), ("ld.shared.u64 o, [b+40]", False),
    ("ld.shared.v2.u64 {o, g}, [b+32]", True),
])  # fmt: skip
@pytest.mark.parametrize("threads", [1, 32])
def test_an_ordinary_read_of_a_live_object(read: str, hit: bool, threads: int) -> None:
    fill = "\n".join(f"st.shared.u64 [b+{at}], 0" for at in range(0, 64, 8))
    text = f"{HEAD}{fill}\nbar.sync 0\n@!lead bra GO\n{TWO_OBJECTS}GO:\nbar.sync 0\n{read} // read\nret"
    kernel = Kernel(text)
    report = kernel.run(block=threads)
    if not hit:
        assert report.verdict == "clean", report
        return
    found = report.findings[0]
    assert found.rule.name == "mbarrier-read" and report.verdict == "review", report
    assert "in the live mbarrier" in found.message and found.other[0][0] == "initialized"
    assert found.location is not None and found.location.line == kernel.line("read")


def test_a_bulk_copy_that_takes_an_object_along() -> None:
    body = """
    st.shared.u64 [b], 0
    mbarrier.init.shared::cta.b64 [b+8], 1
    fence.proxy.async.shared::cta
    cp.async.bulk.global.shared::cta.bulk_group [out], [b], 16
    cp.async.bulk.commit_group
    cp.async.bulk.wait_group 0
    ret
    """
    kernel = Kernel(HEAD.replace("bar[64] 8", "bar[64] 16") + body, "out:u64")
    finding(kernel.run(np.zeros(2, np.uint64), block=1), "mbarrier-read", "review")
