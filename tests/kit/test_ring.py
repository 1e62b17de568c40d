"""The pipeline ring: right data through it whatever is late, what it records, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyptx import (
    Layout,
    SharedMemoryError,
    SpecError,
    TensorMap,
    Tile,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    sim,
    smem,
    u32,
    u64,
)
from pyptx.entry import Kernel
from pyptx.ir import Immediate, Instruction
from tests.dsl.helpers import body_of, in_kernel, recorded

pytestmark = pytest.mark.smoke

SCHEDULES = [("eager", 0), ("late", 0), *(("random", n) for n in range(4)), ("starve:tma", 0)]
BOX = 32


def sums(tiles: int, stages: int, rounds: int = 1, at_once: int = 1) -> Kernel:
    """Warp 0 loads ``tiles`` boxes of X by TMA, warp 1 adds them up; ``rounds`` times through the same ring.

    Loops go ``at_once`` stages at a time.
    """

    @kernel(
        in_specs=(Tile(tiles * BOX, f32, Layout.TMA_NONE, tma_box=(BOX,)),),
        out_specs=(Tile(BOX, f32),),
        block=(64,),
        arch="sm_90a",
    )
    def total(X, out):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        ring = kit.Ring(stages, consumers=32)
        buffer = smem.alloc(BOX, f32, align=128, stages=stages)
        first_warp = tid < 32
        with ptx.if_(first_warp), ptx.if_(ptx.warp.elect()):
            ring.init()
        ptx.bar.sync(0)
        with ptx.if_(first_warp), ptx.if_(ptx.warp.elect()):
            producer = ring.producer()
            with ptx.for_(0, rounds), ptx.for_(0, tiles * BOX, BOX * at_once) as at:
                for i, slot in enumerate(producer.slots(at_once)):
                    ptx.mbarrier.arrive_expect_tx(slot.full, buffer.nbytes)
                    ptx.cp.async_.bulk.tensor_1d(
                        dst=buffer[slot.index], src=X.tma_desc(), coord=at + i * BOX, mbar=slot.full
                    )
            producer.drain()
        with ptx.else_():
            lane = tid & 31
            sum = reg.scalar(f32, init=0.0)
            consumer = ring.consumer()
            with ptx.for_(0, rounds * tiles, at_once):
                for slot in consumer.slots(at_once) if at_once > 1 else (consumer.acquire(),):
                    sum += smem.load(f32, buffer[slot.index].at(lane))
                    # TMA overwrites what this lane has read.
                    ptx.fence.proxy_async("shared::cta")
                    if at_once > 1:
                        ptx.mbarrier.arrive(slot.empty)
                    else:
                        consumer.release()
            place = reg.scalar(u64)
            ptx.inst.mad.wide.u32(place, lane, 4, out.ptr)
            ptx.inst.st.global_.f32(ptx.addr(place), sum)

    return total


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("tiles", "stages", "rounds", "at_once"),
    [
        (1, 1, 1, 1),
        (5, 1, 1, 1),
        (2, 4, 1, 1),
        (9, 4, 1, 1),
        (4, 3, 3, 1),
        (8, 2, 2, 1),
        (4, 4, 1, 4),  # one round
        (6, 3, 3, 3),
        (8, 2, 2, 2),
        (10, 4, 2, 2),  # half a round at a time, and rounds that begin in the middle
        (6, 6, 2, 3),
    ],
)
def test_what_goes_in_comes_out(
    tiles: int, stages: int, rounds: int, at_once: int, schedule: str, seed: int
) -> None:
    x = np.random.default_rng(tiles).integers(-8, 8, tiles * BOX).astype(np.float32)
    report = sums(tiles, stages, rounds, at_once).simulate(x, schedule=schedule, seed=seed)
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs[0], rounds * x.reshape(tiles, BOX).sum(0))


@pytest.mark.parametrize("dropped", ["wait for empty", "wait for full", "release"])
def test_each_half_of_the_protocol_is_needed(dropped: str) -> None:
    """The kernel without one of its waits or arrivals is wrong, or hangs, under some schedule."""
    tiles, stages = 9, 2
    module = sums(tiles, stages).module()
    function = module.functions[0]
    waits = [s for s in function.body if isinstance(s, Instruction) and "try_wait" in s.modifiers]
    arrivals = [
        s
        for s in function.body
        if isinstance(s, Instruction)
        and s.opcode == "mbarrier"
        and s.modifiers[0] == "arrive"
        and "expect_tx" not in s.modifiers
    ]
    victim = {"wait for empty": waits[0], "wait for full": waits[-1], "release": arrivals[0]}[dropped]
    # A wait that is always over, an arrival that does not happen.
    done = Instruction("mov", ("pred",), (victim.operands[0], Immediate(1)))
    instead = () if dropped == "release" else (done,)
    body = [s for statement in function.body for s in (instead if statement is victim else (statement,))]
    broken = replace(module, functions=(replace(function, body=tuple(body)),))
    x = np.arange(tiles * BOX, dtype=np.float32)
    right = []
    for schedule, seed in SCHEDULES:
        out = np.zeros(BOX, np.float32)
        arguments = [TensorMap.tiled(x, box=(BOX,)), out]
        report = sim.load(broken).launch(
            grid=1, block=64, args=arguments, schedule=schedule, seed=seed, max_steps=200_000
        )
        right.append(report.verdict == "clean" and np.array_equal(out, x.reshape(tiles, BOX).sum(0)))
    assert not all(right)


def test_what_it_records() -> None:
    def body() -> None:
        ring = kit.Ring(2, producers=3, consumers=5)
        ring.init()
        producer = ring.producer()
        slot = producer.acquire()
        assert slot.index is producer.stage
        ptx.mbarrier.arrive(slot.full)
        producer.advance()

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "add.u32 %empty, %smem_base, 16;",
        "mbarrier.init.shared::cta.b64 [%smem_base], 3;",
        "mbarrier.init.shared::cta.b64 [%empty], 5;",
        "mbarrier.init.shared::cta.b64 [%smem_base+8], 3;",
        "mbarrier.init.shared::cta.b64 [%empty+8], 5;",
        "mov.u32 %stage, 0;",
        "mov.u32 %phase, 1;",
        "mad.lo.u32 %full, %stage, 8, %smem_base;",
        "wait:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%full+16], %phase;",
        "@!%ready bra wait;",
        "mbarrier.arrive.shared::cta.b64 _, [%full];",
        "add.u32 %stage, %stage, 1;",
        "setp.eq.u32 %wrapped, %stage, 2;",
        "@%wrapped mov.u32 %stage, 0;",
        "@%wrapped xor.b32 %phase, %phase, 1;",
    ]


def test_a_round_has_constant_stages() -> None:
    def body() -> None:
        consumer = kit.Ring(2).consumer()
        for i, slot in enumerate(consumer.slots(2)):
            assert slot.index == i
            ptx.mbarrier.arrive(slot.empty)

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "mov.u32 %stage, 0;",
        "mov.u32 %phase, 0;",
        "wait:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%smem_base], %phase;",
        "@!%ready bra wait;",
        "mbarrier.arrive.shared::cta.b64 _, [%smem_base+16];",
        "wait_1:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready_1, [%smem_base+8], %phase;",
        "@!%ready_1 bra wait_1;",
        "mbarrier.arrive.shared::cta.b64 _, [%smem_base+24];",
        "xor.b32 %phase, %phase, 1;",
    ]


def test_stages_of_a_turn_share_their_arithmetic() -> None:
    def body() -> None:
        producer = kit.Ring(4).producer()
        for slot in producer.slots(2):
            ptx.mbarrier.arrive(slot.full)

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "mov.u32 %stage, 0;",
        "mov.u32 %phase, 1;",
        "mad.lo.u32 %full, %stage, 8, %smem_base;",
        "wait:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready, [%full+32], %phase;",
        "@!%ready bra wait;",
        "mbarrier.arrive.shared::cta.b64 _, [%full];",
        "add.u32 %t, %stage, 1;",
        "wait_1:",
        "mbarrier.try_wait.parity.shared::cta.b64 %ready_1, [%full+40], %phase;",
        "@!%ready_1 bra wait_1;",
        "mbarrier.arrive.shared::cta.b64 _, [%full+8];",
        "add.u32 %stage, %stage, 2;",
        "setp.eq.u32 %wrapped, %stage, 4;",
        "@%wrapped mov.u32 %stage, 0;",
        "@%wrapped xor.b32 %phase, %phase, 1;",
    ]


def test_one_slot_is_an_acquire_and_an_advance() -> None:
    def slots() -> None:
        for slot in kit.Ring(3).producer().slots():
            ptx.mbarrier.arrive(slot.full)

    def calls() -> None:
        producer = kit.Ring(3).producer()
        slot = producer.acquire()
        ptx.mbarrier.arrive(slot.full)
        producer.advance()

    assert body_of(slots) == body_of(calls)


def test_a_side_goes_either_stages_or_rounds() -> None:
    def check() -> None:
        producer = kit.Ring(4).producer()
        for count in (3, 0, 8, True):
            with pytest.raises(SpecError, match="divides the 4 stages"):
                next(producer.slots(count))
        list(producer.slots(4))
        producer.drain()  # a whole round, too
        list(producer.slots(4))
        with pytest.raises(SpecError, match="goes past 4 stages at a time, and here 1"):
            producer.advance()
        consumer = kit.Ring(4).consumer()
        consumer.release()
        with pytest.raises(SpecError, match="goes past 1 stages at a time, and here 4"):
            next(consumer.slots(4))

    in_kernel(check)


def test_the_leader_s_barrier() -> None:
    """Of a pair's CTAs the even one: its rank, in bits 24 and up of the address, is even."""

    def body() -> None:
        ring = kit.Ring(2)
        ring.slot(reg.scalar(u32, init=1)).leader_full()
        ring.slot(1).leader_full()
        ring.slot(0).leader_full()

    mask = 0xFEFFFFFF
    assert [line for line in body_of(body) if line.startswith(("and.", "add."))] == [
        f"and.b32 %leader, %full, {mask};",
        f"and.b32 %leader_1, %smem_base, {mask};",
        "add.u32 %t, %leader_1, 8;",
        f"and.b32 %leader_2, %smem_base, {mask};",
    ]


def test_a_ring_of_one_stage_only_turns_its_phase() -> None:
    def body() -> None:
        kit.Ring(1).consumer().advance()

    assert body_of(body)[-1] == "xor.b32 %phase, %phase, 1;"
    assert len(body_of(body)) == 3


def test_lines_are_the_author_s() -> None:
    def body() -> None:
        ring = kit.Ring(4)
        ring.init()  # the author's line

    instructions = [i for i in recorded(body).module.functions[0].instructions() if i.opcode == "mbarrier"]
    assert len(instructions) == 8
    assert all(i.source is not None and i.source.text.endswith("# the author's line") for i in instructions)


def test_refusals() -> None:
    def check() -> None:
        for arguments in (
            {"stages": 0},
            {"stages": 2.0},
            {"stages": 1, "producers": 0},
            {"stages": 1, "consumers": 1 << 20},
        ):
            with pytest.raises(SpecError, match="expected a number, 1.."):
                kit.Ring(**arguments)  # type: ignore[arg-type]
        with pytest.raises(SharedMemoryError):
            kit.Ring(1 << 16)

    in_kernel(check)


def test_a_stage_goes_back_to_another_cta_s_ring() -> None:
    def body() -> None:
        ring = kit.Ring(1, consumers=2)
        lane = ptx.special.laneid()
        ring.consumer().release(cta=lane, pred=lane < 2)

    assert body_of(body)[-5:] == [
        "setp.lt.u32 %p, %lane, 2;",
        "mad.lo.u32 %full, %stage, 8, %smem_base;",
        "@%p mapa.shared::cluster.u32 %there, %full, %lane;",
        "@%p mbarrier.arrive.shared::cluster.b64 _, [%there+16];",
        "xor.b32 %phase, %phase, 1;",
    ]


def test_a_ring_is_short_in_a_notebook() -> None:
    def check() -> None:
        ring = kit.Ring(4, consumers=32, name="k")
        assert repr(ring) == "<ring of 4 stages, k_full and k_empty: 1 and 32 arrivals>"

    in_kernel(check)


def test_the_hint_of_the_waits() -> None:
    def body() -> None:
        ring = kit.Ring(2, suspend_hint=5000)
        ring.producer().acquire()
        ring.consumer().acquire()

    waits = [line for line in body_of(body) if "try_wait" in line]
    assert len(waits) == 2 and all(line.endswith(", 5000;") for line in waits)


@pytest.mark.parametrize(("stages", "count"), [(3, 0), (3, 2), (3, 3), (3, 7), (4, 13), (1, 3)])
def test_skip_is_as_many_advances(stages: int, count: int) -> None:
    @kernel(out_specs=(Tile(4, 4, u32),), block=1, arch="sm_90a")
    def both(out):  # type: ignore[no-untyped-def]
        ring = kit.Ring(stages)
        skipping, stepping = ring.consumer(), ring.consumer()
        for row in range(4):
            skipping.skip(count)
            for _ in range(count):
                stepping.advance()
            for column, value in enumerate((skipping.stage, skipping.phase, stepping.stage, stepping.phase)):
                ptx.inst.st.global_.u32(out.at(row, column), value)

    found = both.simulate().outputs[0]
    assert np.array_equal(found[:, :2], found[:, 2:])


def test_refuses_to_skip_backwards() -> None:
    def check() -> None:
        with pytest.raises(SpecError, match="count is -1"):
            kit.Ring(2).consumer().skip(-1)

    in_kernel(check)
