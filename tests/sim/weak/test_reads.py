"""``schedule="weak"``: strong accesses choose among the writes that the memory model allows."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import SpecError
from tests.sanitizer.litmus.families import members
from tests.sanitizer.litmus.model import allowed
from tests.sanitizer.litmus.program import Fence, Litmus, Load, Operation, Store, Update
from tests.sanitizer.litmus.running import simulate_many
from tests.sanitizer.unusual.running import run_unusual
from tests.sanitizer.unusual.unusuals import UNUSUAL
from tests.sim.build import Kernel
from tests.sim.exploration.kernels import FLAG

pytestmark = pytest.mark.full

SEEDS = range(24)


def litmus(*threads: tuple[Operation, ...], finals: str = "") -> Litmus:
    return Litmus("test", threads, tuple(range(len(threads))), tuple(finals))


def buffering(*fences: Operation) -> Litmus:
    """Store buffering: both threads store, then load what the other one stores."""
    return litmus((Store("x", 1), *fences, Load("y")), (Store("y", 1), *fences, Load("x")))


def message(store: str, load: str) -> Litmus:
    return litmus((Store("x", 1), Store("y", 1, store)), (Load("y", load), Load("x")))


def outcomes(test: Litmus, schedule: str = "weak") -> set[tuple[int, ...]]:
    return {outcome for outcome, _ in simulate_many(test, schedule, SEEDS)}


@pytest.mark.parametrize(("test", "seen"), [
    (buffering(), True), (buffering(Fence("acq_rel")), True), (buffering(Fence("sc")), False),
], ids=["no fence", "fence.acq_rel", "fence.sc"])  # fmt: skip
def test_stores_are_buffered_but_for_fences_of_kind_sc(test: Litmus, seen: bool) -> None:
    assert ((0, 0) in outcomes(test)) == seen


@pytest.mark.parametrize(("store", "load", "seen"), [
    ("relaxed", "relaxed", True), ("release", "relaxed", True), ("relaxed", "acquire", True),
    ("release", "acquire", False),
])  # fmt: skip
def test_a_message_is_stale_unless_it_is_released_and_acquired(store: str, load: str, seen: bool) -> None:
    assert ((1, 0) in outcomes(message(store, load))) == seen


def test_other_schedules_show_the_last_write_only() -> None:
    assert (0, 0) not in outcomes(buffering(), "random")
    assert (1, 0) not in outcomes(message("relaxed", "relaxed"), "random")


def test_a_thread_never_reads_an_older_write_than_before() -> None:
    test = litmus((Store("x", 1), Store("x", 2)), (Load("x"), Load("x")))
    found = outcomes(test)
    assert all(first <= second for first, second in found)
    assert (0, 0) in found


def test_writes_come_in_another_order_than_they_were_issued() -> None:
    test = litmus((Store("x", 1), Store("y", 2)), (Store("y", 1), Store("x", 2)), finals="xy")
    assert (1, 1) in outcomes(test)
    assert (1, 1) not in outcomes(test, "random")


def test_nothing_comes_between_an_atomic_operation_and_what_it_reads() -> None:
    """If the update reads the store, the last value is 6; if it comes first, the store ends with 5."""
    test = litmus((Store("x", 5),), (Update("x"), Load("x")), finals="x")
    assert outcomes(test) <= allowed(test)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", ["SB", "2+2W", "IRIW", "CoRR", "MP-RMW"])
def test_outcomes_are_those_of_the_model(family: str) -> None:
    tests = members(family)
    for test in tests[1 :: len(tests) // 4]:
        assert {one for one, _ in simulate_many(test, "weak", range(6))} <= allowed(test), test.name


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(UNUSUAL)[::6])
def test_right_kernels_stay_right(name: str) -> None:
    for seed in (1, 2):
        result = run_unusual(UNUSUAL[name], f"weak:{seed}")
        assert not result.errors and result.ended and result.right, (seed, result.findings)


POLLED = Kernel("""
.reg u32 c y
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra SEND
POLL:
ld.relaxed.gpu.global.u32 y, [out]
setp.ne.u32 p, y, 3
@p bra POLL
atom.relaxed.gpu.global.add.u32 y, [out+4], 1
ret
SEND:
st.relaxed.gpu.global.u32 [out], 1
st.relaxed.gpu.global.u32 [out], 2
st.relaxed.gpu.global.u32 [out], 3
ret
""", "out:u64")  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_a_loop_that_polls_sees_each_last_write_some_time(seed: int) -> None:
    out = np.zeros(4, np.uint32)
    report = POLLED.run(out, grid=3, block=1, schedule="weak", seed=seed)
    assert report.verdict in ("clean", "review"), report
    assert out[:2].tolist() == [3, 2]


VECTOR = Kernel("""
.reg u32 c y0..y3
.reg pred p
mov.u32 c, %ctaid.x
setp.eq.u32 p, c, 0
@p bra SEND
ld.relaxed.gpu.global.v4.u32 {y0, y1, y2, y3}, [out]
ld.relaxed.gpu.global.v4.u32 {y0, y1, y2, y3}, [out]
st.global.v4.u32 [out+16], {y0, y1, y2, y3}
ret
SEND:
st.relaxed.gpu.global.v4.u32 [out], {c, c, c, c}
st.relaxed.gpu.global.u32 [out], 7
st.relaxed.gpu.global.u32 [out+8], 9
ret
""", "out:u64")  # fmt: skip


def test_each_element_of_a_vector_is_a_word_of_its_own() -> None:
    found = set()
    for seed in SEEDS:
        out = np.arange(8, dtype=np.uint32) + 100
        VECTOR.run(out, grid=2, block=1, schedule="weak", seed=seed)
        assert out[:4].tolist() == [7, 0, 9, 0]
        found.add(tuple(out[4:].tolist()))
    for number, values in enumerate(zip(*found, strict=True)):
        assert set(values) <= {100 + number, 0, (7, 0, 9, 0)[number]}
    # The later store is seen without the earlier one.
    assert any(one[2] == 9 and one[0] != 7 for one in found)


def test_a_kernel_without_races_runs_as_under_random() -> None:
    for seed in range(4):
        found = []
        for schedule in ("random", "weak"):
            out = np.zeros(4, np.uint32)
            report = FLAG.run(out, grid=2, block=1, schedule=schedule, seed=seed)
            assert report.verdict == "clean"
            found.append(out.tolist())
        assert found[0] == found[1] == [1, 7, 7, 0]


def test_a_report_names_the_schedule_with_its_seed() -> None:
    report = POLLED.run(np.zeros(4, np.uint32), grid=2, block=1, schedule="weak", seed=5)
    assert report.schedule == "weak (seed 5)"


def test_weak_reads_need_the_sanitizer() -> None:
    with pytest.raises(SpecError, match="schedule is 'weak' and sanitize is False"):
        POLLED.run(np.zeros(4, np.uint32), grid=2, block=1, schedule="weak", sanitize=False)


ONE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 out)
{
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    st.relaxed.gpu.global.u32 [%out], 1;
    ret;
}
"""


def test_assert_clean_takes_a_seed() -> None:
    loaded = sim.load(ONE)
    sim.assert_clean(loaded, np.zeros(4, np.uint32), schedules=("weak:3",), grid=1, block=1)
    with pytest.raises(SpecError, match="'weak:x' has the seed 'x'"):
        sim.assert_clean(loaded, np.zeros(4, np.uint32), schedules=("weak:x",), grid=1, block=1)
