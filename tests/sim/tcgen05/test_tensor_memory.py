"""Tensor memory: allocation, fragments of loads and stores, what waits cover, and who is ordered with whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.sim import Report
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding
from tests.sim.tcgen05.test_mma import PARAMS, SCHEDULES, Problem, clean, problem, run, text
from tests.sim.threads.test_divergence import in_few_steps

pytestmark = pytest.mark.one_in(2)

# --- fragments --------------------------------------------------------------------------------

#: Lane and column (from the instruction's address) of register i of thread t, from CUTLASS's copy traits.
FRAGMENTS: dict[str, Any] = {
    "32x32b": lambda t, i: (t, i),
    "16x64b": lambda t, i: (t // 4 + 8 * (t & 1), 2 * i + ((t >> 1) & 1)),
    "16x128b": lambda t, i: (t // 4 + 8 * (i & 1), 4 * (i // 2) + t % 4),
    "16x256b": lambda t, i: (t // 4 + 8 * ((i >> 1) & 1), 8 * (i // 4) + 2 * (t % 4) + (i & 1)),
}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
LARGEST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32}

SETUP = """
.shared b8 slot[64] 8
.reg b32 x0..x127 r0..r127
.reg u32 t lane warp bar tm tl n m
.reg u64 o
.reg pred other q p
mov.u32 t, %tid.x
and.b32 lane, t, 31
shr.u32 warp, t, 5
setp.ne.u32 other, warp, 0
mov.u32 bar, slot
"""
ALLOC = """
@other bra ALLOCATED
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], {columns}
ALLOCATED:
bar.sync 0
ld.shared.b32 tm, [bar]
and.b32 tl, warp, 3
shl.b32 tl, tl, 21
add.u32 tl, tl, tm
"""
FREE = """
tcgen05.wait::ld.sync.aligned
tcgen05.fence::before_thread_sync
bar.sync 0
tcgen05.fence::after_thread_sync
@other bra END
tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, {columns}
END:
ret
"""


def numbered(columns: int) -> str:
    """Cell (lane, column) := 1000 * lane + column, over the first columns of an allocation."""
    lines = ["and.b32 n, t, 127", "mul.lo.u32 n, n, 1000"]
    for start in range(0, columns, 128):
        width = min(128, columns - start)
        lines += [f"add.u32 x{c}, n, {start + c}" for c in range(width)]
        lines += [
            f"add.u32 m, tl, {start}",
            f"tcgen05.st.sync.aligned.32x32b.x{width}.b32 [m], {{x0..x{width - 1}}}",
        ]
    return "\n".join([*lines, "tcgen05.wait::st.sync.aligned"]) + "\n"


def dump(count: int) -> str:
    lines = [f"mad.wide.u32 o, t, {4 * count}, out"]
    return "\n".join([*lines, *(f"st.global.b32 [o+{4 * i}], r{i}" for i in range(count))]) + "\n"


def cases() -> list[Any]:
    found = []
    for shape, largest in LARGEST.items():
        num = 1
        while num <= largest:
            found.append(pytest.param(shape, num, id=f"{shape}.x{num}"))
            num *= 2
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shape", "num"), cases())
def test_loads_of_every_shape(shape: str, num: int) -> None:
    """All four warps, each its quarter of the lanes; narrow shapes also in the upper half of it."""
    count = REGISTERS[shape] * num
    fragment = FRAGMENTS[shape]
    width = 1 + max(fragment(t, i)[1] for t in range(32) for i in range(count))
    for number, (first, upper) in enumerate([(0, 0), (512 - width if width < 512 else 0, 16)]):
        if upper and shape == "32x32b":
            upper = 0
        load = f"add.u32 tl, tl, {first + (upper << 16)}\ntcgen05.ld.sync.aligned.{shape}.x{num}.b32 {{r0..r{count - 1}}}, [tl]\n"
        body = SETUP + ALLOC + numbered(512) + load + dump(count) + FREE
        kernel = Kernel(body.replace("{columns}", "512"), "out:u64")
        out = np.zeros((128, count), np.uint32)
        schedule, seed = SCHEDULES[(num.bit_length() + number) % len(SCHEDULES)]
        kernel.clean(out, block=128, schedule=schedule, seed=seed)
        for t in range(128):
            for i in range(count):
                lane, column = fragment(t % 32, i)
                lane += 32 * (t // 32) + upper
                assert out[t, i] == 1000 * lane + first + column, (t, i)


@pytest.mark.parametrize("num", [2, 4, 32])
def test_stores_touch_their_cells_alone(num: int) -> None:
    """Registers in any order, and an immediate beside them."""
    names = [f"x{(7 * i + 3) % num}" if i else "77" for i in range(num)]
    body = SETUP + ALLOC + numbered(128) + f"""
    add.u32 n, tl, 5
    tcgen05.st.sync.aligned.32x32b.x{num}.b32 [n], {{{", ".join(names)}}}
    tcgen05.wait::st.sync.aligned
    tcgen05.ld.sync.aligned.32x32b.x64.b32 {{r0..r63}}, [tl]
    """ + dump(64) + FREE  # fmt: skip
    kernel = Kernel(body.replace("{columns}", "128"), "out:u64")
    for schedule, seed in SCHEDULES:
        out = np.zeros((128, 64), np.uint32)
        kernel.clean(out, block=128, schedule=schedule, seed=seed)
        for t in range(128):
            expected = [1000 * t + c for c in range(64)]
            expected[5 : 5 + num] = [77] + [1000 * t + (7 * i + 3) % num for i in range(1, num)]
            assert out[t].tolist() == expected


def test_loads_into_scattered_registers() -> None:
    names = [f"r{(5 * i) % 16}" for i in range(16)]
    body = (
        SETUP
        + ALLOC
        + numbered(32)
        + f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{', '.join(names)}}}, [tl]\n"
    )
    kernel = Kernel((body + dump(16) + FREE).replace("{columns}", "32"), "out:u64")
    for schedule, seed in SCHEDULES:
        out = np.zeros((128, 16), np.uint32)
        kernel.clean(out, block=128, schedule=schedule, seed=seed)
        for t in range(128):
            assert [out[t, (5 * i) % 16] for i in range(16)] == [1000 * t + i for i in range(16)]


@pytest.mark.parametrize("threads", [128, 104, 97, 40, 33, 20, 1])
def test_partial_warps(threads: int) -> None:
    """A warp of few threads, even of one, stores and loads its threads' cells."""
    body = (
        SETUP
        + ALLOC
        + numbered(32)
        + "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0..r3}, [tl]\n"
        + dump(4)
        + FREE
    )
    kernel = Kernel(body.replace("{columns}", "32"), "out:u64")
    for schedule, seed in SCHEDULES:
        out = np.zeros((128, 4), np.uint32)
        kernel.clean(out, block=threads, schedule=schedule, seed=seed)
        assert out[:threads].tolist() == [[1000 * t + c for c in range(4)] for t in range(threads)]


@pytest.mark.parametrize("guard", ["@p ", "@!p "])
def test_a_load_that_a_uniform_guard_leaves_out(guard: str) -> None:
    body = SETUP + ALLOC + numbered(32) + "mov.b32 r0, 5\nmov.b32 r1, 6\nsetp.eq.u32 p, warp, 9\n"
    body += guard + "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0..r1}, [tl]\n" + dump(2) + FREE
    kernel = Kernel(body.replace("{columns}", "32"), "out:u64")
    for schedule, seed in SCHEDULES:
        out = np.zeros((128, 2), np.uint32)
        kernel.clean(out, block=128, schedule=schedule, seed=seed)
        expected = [[5, 6]] * 128 if guard == "@p " else [[1000 * t, 1000 * t + 1] for t in range(128)]
        assert out.tolist() == expected


# --- registers that a load writes ---------------------------------------------------------------

USES = {
    "read": "add.u32 r0, r0, 1\nadd.u32 r1, r1, 2",
    "read in a branch": "setp.lt.u32 p, lane, 16\n@p bra LOW\nadd.u32 r0, r0, 1\nadd.u32 r1, r1, 2\nbra JOIN\n"
    "LOW:\nadd.u32 r0, r0, 1\nadd.u32 r1, r1, 2\nJOIN:",
    "read lane by lane": "mov.u32 n, 0\nTURN:\nsetp.ne.u32 p, n, lane\n@p bra NEXT\nadd.u32 r0, r0, 1\n"
    "add.u32 r1, r1, 2\nNEXT:\nadd.u32 n, n, 1\nsetp.lt.u32 q, n, 32\n@q bra TURN",
    "after a lane was alone": "setp.ne.u32 p, lane, 3\n@p bra JOIN\nadd.u32 n, n, 1\nJOIN:\nadd.u32 r0, r0, 1\nadd.u32 r1, r1, 2",
    "read under a guard": "setp.lt.u32 p, lane, 16\n@p add.u32 r0, r0, 1\n@!p add.u32 r0, r0, 1\nadd.u32 r1, r1, 2",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", s) for s in range(3, 9))])
def test_loaded_registers_are_right_without_a_wait(use: str, schedule: str, seed: int) -> None:
    body = (
        SETUP
        + ALLOC
        + numbered(32)
        + "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0..r1}, [tl]\n"
        + USES[use]
        + "\n"
    )
    kernel = Kernel((body + dump(2) + FREE).replace("{columns}", "32"), "out:u64")
    out = np.zeros((128, 2), np.uint32)
    kernel.clean(out, block=128, schedule=schedule, seed=seed)
    assert out.tolist() == [[1000 * t + 1, 1000 * t + 3] for t in range(128)]


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", s) for s in range(3, 9))])
def test_a_register_written_after_a_load_keeps_its_value(schedule: str, seed: int) -> None:
    body = SETUP + ALLOC + numbered(32) + """
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0..r1}, [tl]
    mov.b32 r1, 7
    setp.ne.u32 p, lane, 3
    @p bra JOIN
    mov.b32 r0, 8
    JOIN:
    """ + dump(2) + FREE  # fmt: skip
    out = np.zeros((128, 2), np.uint32)
    Kernel(body.replace("{columns}", "32"), "out:u64").clean(out, block=128, schedule=schedule, seed=seed)
    assert out.tolist() == [[8 if t % 32 == 3 else 1000 * t, 7] for t in range(128)]


#: The accumulator is handed back right after the load: an elected lane arrives, another warp overwrites it.
HAND_BACK = """
setp.eq.u32 p, t, 0
@p mbarrier.init.shared::cta.b64 [bar+8], 1
bar.sync 0
setp.ne.u32 p, warp, 0
@p bra OVERWRITE
tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0..r1}, [tl]
WAIT
tcgen05.fence::before_thread_sync
elect.sync _|q, -1
ARRIVE
add.u32 r0, r0, 1
bra OUT
OVERWRITE:
setp.ne.u32 p, warp, 4
@p bra OUT
W:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar+8], 0
@!q bra W
tcgen05.fence::after_thread_sync
mov.u32 n, 9
tcgen05.st.sync.aligned.32x32b.x2.b32 [tm], {n, n}
tcgen05.wait::st.sync.aligned
OUT:
"""
ARRIVALS = {
    "in a branch": "@!q bra DONE\nmbarrier.arrive.shared::cta.b64 _, [bar+8]\nDONE:\nbar.sync 1, 32",
    "under a guard": "@q mbarrier.arrive.shared::cta.b64 _, [bar+8]\nbar.sync 1, 32",
}


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("waits", [True, False])
def test_an_accumulator_handed_back_before_the_load_has_read_it(arrival: str, waits: bool) -> None:
    """Without wait::ld the load may read what comes after: late, and held back, it does."""
    text = HAND_BACK.replace("ARRIVE", ARRIVALS[arrival])
    text = text.replace("WAIT", "tcgen05.wait::ld.sync.aligned" if waits else "")
    # The loading warp looks at its registers only after the other has overwritten the cells.
    text = text.replace("add.u32 r0, r0, 1", "bar.sync 2, 64\nadd.u32 r0, r0, 1").replace("OUT:\n", "", 0)
    text = text.replace(
        "tcgen05.wait::st.sync.aligned\nOUT:", "tcgen05.wait::st.sync.aligned\nbar.sync 2, 64\nOUT:"
    )
    # Warp 4 reaches the lanes of warp 0.
    first = "setp.eq.u32 p, warp, 4\n@p bra NUMBERED\n" + numbered(32) + "NUMBERED:\n"
    body = SETUP + ALLOC + first + text + "@other bra SKIP\n" + dump(2) + "SKIP:\n" + FREE
    kernel = Kernel(body.replace("{columns}", "32"), "out:u64")
    right = [[1000 * t + 1, 1000 * t + 1] for t in range(32)]
    for schedule, seed in (("eager", 0), ("late", 0), ("starve:ld", 0)):
        out = np.zeros((160, 2), np.uint32)
        kernel.clean(out, block=160, schedule=schedule, seed=seed, sanitize=waits)
        if waits or schedule == "eager":
            assert out[:32].tolist() == right, schedule
        else:
            assert out[:32].tolist() == [[10, 9]] * 32, schedule


def test_a_load_is_not_ordered_after_a_store_without_a_wait() -> None:
    body = SETUP + ALLOC + numbered(32).replace("tcgen05.wait::st.sync.aligned", "WAIT")
    body += "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [tl]\n" + dump(1) + FREE
    waiting = Kernel(
        body.replace("{columns}", "32").replace("WAIT", "tcgen05.wait::st.sync.aligned"), "out:u64"
    )
    hasty = Kernel(body.replace("{columns}", "32").replace("WAIT", ""), "out:u64", racy=True)
    right = [[1000 * t] for t in range(128)]
    for schedule in ("eager", "late", "starve:st"):
        out = np.zeros((128, 1), np.uint32)
        waiting.clean(out, block=128, schedule=schedule)
        assert out.tolist() == right
        report = hasty.run(out, block=128, schedule=schedule)
        if schedule == "eager":
            assert report.verdict == "clean" and out.tolist() == right
        else:
            # The stores come so late that their columns are freed by then.
            assert {f.rule.name for f in report.findings} == {"uninitialized-read", "tensor-memory"}, schedule


# --- allocation -------------------------------------------------------------------------------


def allocations(body: str, *, threads: int = 128, **options: Any) -> tuple[Kernel, Report, np.ndarray]:
    kernel = Kernel(SETUP + body, "out:u64")
    out = np.full(64, 0xFFFFFFFF, np.uint32)
    return kernel, kernel.run(out, block=threads, **options), out


def test_allocations_are_disjoint_and_end_with_the_kernel() -> None:
    body = "@other bra END\n"
    sizes = [256, 128, 64, 32, 32]
    for i, size in enumerate(sizes):
        body += f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+{4 * i}], {size}\n"
        body += f"ld.shared.u32 n, [bar+{4 * i}]\nst.global.u32 [out+{4 * i}], n\n"
    for i, size in enumerate(sizes):
        body += f"ld.shared.u32 tm, [bar+{4 * i}]\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, {size}\n"
    _, report, out = allocations(body + "END:\nret")
    assert report.verdict == "clean", report
    cells = [set(range(start, start + size)) for start, size in zip(out.tolist(), sizes, strict=False)]
    assert set().union(*cells) == set(range(512))
    assert sum(map(len, cells)) == 512


@pytest.mark.parametrize("space", [".shared::cta", ""])
def test_the_address_goes_through_a_shared_or_a_generic_pointer(space: str) -> None:
    body = f"""
    mov.u64 o, slot
    cvta.shared.u64 o, o
    tcgen05.alloc.cta_group::1.sync.aligned{space}.b32 [{"bar" if space else "o"}+4], 32
    ld.shared.u32 tm, [bar+4]
    st.global.u32 [out], tm
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32
    ret
    """
    for threads in (32, 1):
        _, report, out = allocations(body, threads=threads)
        assert report.verdict == "clean", report
        assert out[0] == 0


BLOCKING = """
setp.eq.u32 p, t, 0
@p mbarrier.init.shared::cta.b64 [bar+8], 32
bar.sync 0
setp.eq.u32 p, warp, 1
@p bra SECOND
setp.eq.u32 p, warp, 2
@p bra THIRD
@other bra END
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], 512
ld.shared.u32 tm, [bar]
mbarrier.arrive.shared::cta.b64 _, [bar+8]
mov.u32 n, 0
DELAY:
add.u32 n, n, 1
setp.lt.u32 q, n, 30
@q bra DELAY
st.global.u32 [out], 1
tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 512
ret
SECOND:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar+8], 0
@!q bra SECOND
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+16], 512
ld.global.u32 n, [out]
st.global.u32 [out+4], n
ld.shared.u32 tm, [bar+16]
tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 512
ret
THIRD:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar+8], 0
@!q bra THIRD
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+24], 512
ld.global.u32 n, [out]
st.global.u32 [out+8], n
ld.shared.u32 tm, [bar+24]
tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 512
END:
ret
"""


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", s) for s in range(3, 9))])
@pytest.mark.parametrize("threads", [64, 96])
def test_allocation_blocks_until_there_is_room(threads: int, schedule: str, seed: int) -> None:
    """One warp, then two, wait for all of tensor memory; only one can have it at a time."""
    # That an allocation waits for a dealloc orders no other memory: [out] is passed on by a race.
    _, report, out = allocations(BLOCKING, threads=threads, schedule=schedule, seed=seed, sanitize=False)
    assert report.verdict == "clean", report
    assert out[: threads // 32].tolist() == [1] * (threads // 32)


def test_allocation_that_never_gets_room() -> None:
    kernel = Kernel(
        SETUP
        + """
        @other bra END
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], 512
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+4], 256 // blocks
        END:
        ret
        """
    )
    for schedule, seed in SCHEDULES:
        report = in_few_steps(kernel, block=64, schedule=schedule, seed=seed)
        found = report.findings[0]
        assert found.rule.name == "deadlock"
        assert "waits for 256 columns of tensor memory; allocated: 512 at 0 of CTA (0, 0, 0)" in found.message
        assert found.location is not None and found.location.line == kernel.line("blocks")


MISUSE = {
    "after relinquish": (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+4], 32 // bad",
        "alloc after relinquish",
    ),
    "a size that is no power of two": (
        "mov.u32 n, 96\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+4], n // bad",
        "alloc of 96 columns",
    ),
    "too small": (
        "mov.u32 n, 16\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+4], n // bad",
        "of 16",
    ),
    "too large": (
        "mov.u32 n, 1024\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+4], n // bad",
        "of 1024",
    ),
    "more than before": (
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+4], 64 // bad",
        "alloc of 64 columns after one of 32",
    ),
    "freeing another size": (
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64 // bad",
        "dealloc of 64 columns at 0x0",
    ),
    "freeing another place": (
        "add.u32 n, tm, 32\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 n, 32 // bad",
        "dealloc of 32 columns at 0x20",
    ),
    "freeing a lane": (
        "add.u32 n, tm, 0x100000\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 n, 32 // bad",
        "at 0x100000",
    ),
    "freeing twice": (
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32 // bad",
        "allocated: nothing",
    ),
    "another warp's lanes": (
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [m] // bad",
        "warp 0 can access only lanes 0..31",
    ),
    "over the quarter's end": (
        "add.u32 n, tm, 0x10000\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [n] // bad",
        "warp 0 can access only lanes 0..31",
    ),
    "over the quarter's end with 16 lanes": (
        "add.u32 n, tm, 0x110000\ntcgen05.ld.sync.aligned.16x64b.x1.b32 {r0}, [n] // bad",
        "warp 0 can access only lanes 0..31",
    ),
    "a store to another warp's lanes": (
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [m], {n} // bad",
        "warp 0 can access only lanes 0..31",
    ),
    "beyond the last column": (
        "add.u32 n, tm, 511\ntcgen05.st.sync.aligned.32x32b.x2.b32 [n], {n, n} // bad",
        "columns 511..512",
    ),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse(case: str) -> None:
    body, said = MISUSE[case]
    prepare = "@other bra END\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], 32\nld.shared.u32 tm, [bar]\n"
    prepare += "add.u32 m, tm, 0x200000\nmov.u32 n, 0\n"
    kernel, report, _ = allocations(prepare + body + "\nEND:\nret", threads=64)
    assert report.verdict == "error"
    found = report.findings[0]
    assert found.rule.name == "tensor-memory", report
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("bad")


def test_relinquishing_allows_freeing() -> None:
    body = """
    @other bra END
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], 32
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned
    ld.shared.u32 tm, [bar]
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32
    END:
    ret
    """
    assert allocations(body)[1].verdict == "clean"


def test_columns_that_are_never_freed() -> None:
    """Reported once, at the line that allocated them; the kernel's results stand."""
    kernel = Kernel(
        SETUP
        + """
        @other bra END
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar], 64 // kept
        st.relaxed.gpu.global.u32 [out], 3
        END:
        ret
        """,
        "out:u64",
    )
    out = np.zeros(1, np.uint32)
    found = finding(kernel.run(out, block=64, grid=3), "tensor-memory")
    assert "64 columns of tensor memory at 0x0 were never freed" in found.message
    assert found.location is not None and found.location.line == kernel.line("kept")
    assert out[0] == 3


def test_columns_outside_the_allocation() -> None:
    body = (
        SETUP + ALLOC + numbered(32) + "tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0..r1}, [n] // bad\n" + FREE
    )
    kernel = Kernel(body.replace("[n]", "[m]").replace("{columns}", "32").replace(
        "tcgen05.ld", "add.u32 m, tl, 31\ntcgen05.ld"))  # fmt: skip
    report = kernel.run(block=128)
    assert report.findings[0].rule.name == "tensor-memory"
    assert "columns 31..32; allocated: columns 0..31" in report.findings[0].message


def test_what_was_freed_counts_as_never_written() -> None:
    once = (
        ALLOC
        + numbered(32)
        + "bar.sync 0\n@other bra F{n}\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32\nF{n}:\nbar.sync 0\n"
    )
    again = (
        ALLOC.replace("ALLOCATED", "AGAIN") + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [tl] // stale\n"
    )
    body = SETUP + once.replace("{n}", "0") + again + FREE
    kernel = Kernel(body.replace("{columns}", "32"))
    found = finding(kernel.run(block=128), "undefined-load", "review")
    assert found.location is not None and found.location.line == kernel.line("stale")
    assert "lane 0, column 0: never written" in found.message or "column 0: never written" in found.message


def test_lanes_must_agree_on_the_address() -> None:
    body = SETUP + ALLOC + numbered(32) + "and.b32 n, lane, 1\nadd.u32 n, n, tl\n"
    body += "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [n] // bad\n" + FREE
    kernel = Kernel(body.replace("{columns}", "32"))
    found = finding(kernel.run(block=128), "divergent-collective")
    assert "not the same in all lanes" in found.message


def test_collectives_in_divergent_code() -> None:
    body = SETUP + ALLOC + numbered(32) + """
    setp.lt.u32 p, lane, 5
    @p bra LOW
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [tl]
    bra JOIN
    LOW:
    tcgen05.wait::ld.sync.aligned
    JOIN:
    """ + FREE  # fmt: skip
    report = in_few_steps(Kernel(body.replace("{columns}", "32")), block=32)
    assert report.findings[0].rule.name == "divergent-collective"


# --- what is ordered, and what a commit covers ------------------------------------------------

OVERWRITE = """
mov.b32 x0, 0
st.shared.v4.b32 [s], {x0, x0, x0, x0}
fence.proxy.async.shared::cta
"""


def values(p: Problem, report: Report, out: Any) -> bool:
    return bool(np.array_equal(out, p.expected(32)))


@pytest.mark.parametrize(
    ("schedule", "right"), [("eager", True), ("late", False), ("starve:mma", False), ("starve:tma", True)]
)
def test_operands_are_read_when_the_mma_runs(schedule: str, right: bool) -> None:
    """A kernel that overwrites A right after issuing: what it gets depends on the schedule."""
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    p.a.values[0] = 3
    kernel = Kernel(
        text(32, "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, accumulate\n" + OVERWRITE),
        PARAMS,
        racy=True,
    )
    out = np.zeros((128, 32), np.uint32)
    kernel.clean(p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0, block=128, schedule=schedule)
    wrong = Problem(p.kind, p.m, p.n, p.a_type, p.b_type, p.a, p.b)
    wrong.a.values = p.a.values.copy()
    if not right:
        # Lane 0 cleared its 16 bytes: A[0, 0:8].
        wrong.a.values[0, :8] = 0
    assert np.array_equal(out, wrong.expected(32))


@pytest.mark.parametrize("seed", range(10))
def test_operands_are_read_before_or_after_under_random_schedules(seed: int) -> None:
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    delay = "mov.u32 n, 0\nDELAY:\nadd.u32 n, n, 1\nsetp.lt.u32 q, n, 20\n@q bra DELAY\n"
    kernel = Kernel(
        text(
            32,
            "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, accumulate\n" + delay + OVERWRITE,
        ),
        PARAMS,
        racy=True,
    )
    out = np.zeros((128, 32), np.uint32)
    kernel.clean(p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0, block=128, schedule="random", seed=seed)
    before = p.expected(32)
    p.a.values[0, :8] = 0
    assert out.tobytes() in (before.tobytes(), p.expected(32).tobytes())


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", s) for s in range(3, 12))])
def test_mmas_into_one_accumulator_keep_their_order(schedule: str, seed: int) -> None:
    """D = P, then D = P + D / 8, then D = P + D: any other order gives another sum."""
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    mma = "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, "
    code = f"{mma}never\n{mma}always, 3\n{mma}always"
    total = p.product * np.float32(2 + 1 / 8)
    assert np.array_equal(clean(p, 32, mma=code, schedule=schedule, seed=seed), p.expected(32, total))


@pytest.mark.parametrize(("schedule", "right"), [("eager", True), ("late", False), ("starve:mma", False)])
def test_a_commit_covers_its_own_thread_alone(schedule: str, right: bool) -> None:
    """Lane 0 issues the MMA, lane 1 commits: the barrier completes before D is there."""
    code = text(32, "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, accumulate")
    code = code.replace(
        "elect.sync _|q, -1\n    @!q bra ISSUED",
        "add.u32 d, tm, dcol\n    setp.gt.u32 q, t, 1\n    @q bra ISSUED\n    setp.eq.u32 q, t, 0",
    )
    code = code.replace("    tcgen05.mma", "    @q tcgen05.mma").replace(
        "    tcgen05.commit", "    @!q tcgen05.commit"
    )
    kernel = Kernel(code, PARAMS, racy=True)
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    out = np.zeros((128, 32), np.uint32)
    report = kernel.run(p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0, block=128, schedule=schedule)
    assert np.array_equal(out, p.expected(32)) is right
    if right:
        # The product was in time, but the wait has not ensured it.
        assert [f.rule.name for f in report.findings] == ["exit-in-flight"]
        assert "tcgen05.mma.cta_group::1.kind::f16, issued by" in report.findings[0].message
    else:
        # The product comes when its columns are freed already.
        assert {f.rule.name for f in report.findings} == {"tensor-memory", "exit-in-flight"}
        assert set(out.ravel().tolist()) == {0x7F7F7F7F}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_a_commit_covers_all_earlier_mmas_of_its_thread(schedule: str, seed: int) -> None:
    """Two accumulators, one commit."""
    mma = "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, accumulate"
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    out = clean(p, 64, mma=f"{mma}\nadd.u32 d, d, 32\n{mma}", schedule=schedule, seed=seed)
    assert np.array_equal(out[:, :32], p.expected(32))
    assert np.array_equal(out[:, 32:], p.expected(32))


@pytest.mark.parametrize("space", [".shared::cluster", ""])
def test_a_commit_without_mmas_arrives_at_once(space: str) -> None:
    code = text(32, "mov.u64 i, slot\ncvta.shared.u64 i, i", after="")
    code = code.replace("one.shared::cluster.b64 [bar]", f"one{space}.b64 [{'bar' if space else 'i'}]")
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    out = np.zeros((128, 32), np.uint32)
    for schedule, seed in SCHEDULES:
        Kernel(code, PARAMS).clean(
            p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0, block=128, schedule=schedule, seed=seed
        )
        assert set(out.ravel().tolist()) == {0x7F7F7F7F}


def test_a_missing_commit_is_a_deadlock() -> None:
    code = text(32, "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, accumulate")
    code = "\n".join(line for line in code.splitlines() if "tcgen05.commit" not in line)
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    for schedule, seed in SCHEDULES:
        out = np.zeros((128, 32), np.uint32)
        report = in_few_steps(
            Kernel(code, PARAMS), p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0,
            block=128, schedule=schedule, seed=seed,
        )  # fmt: skip
        assert "1 of 1 arrivals pending" in report.findings[0].message


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_an_accumulator_that_nothing_wrote(schedule: str) -> None:
    """enable-input-d reads D; lanes that are disabled neither read nor write."""
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    code = text(32, "tcgen05.mma.cta_group::1.kind::f16 [d], adesc, bdesc, idesc, MASK always")
    code = code.replace(code[code.index("add.u32 tc, tl, 0") : code.index("tcgen05.wait::st")], "")
    words = "x0, x1, x2, x3"
    masked = code.replace("MASK", f"{{{words}}},").replace(
        "    add.u32 d, tm, dcol",
        "    mov.b32 x0, -1\nmov.b32 x1, -1\nmov.b32 x2, -1\nmov.b32 x3, -1\nadd.u32 d, tm, dcol",
    )
    rules = []
    for source in (code.replace("MASK", ""), masked):
        out = np.zeros((128, 32), np.uint32)
        report = Kernel(source, PARAMS).run(
            p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0, block=128, schedule=schedule
        )
        lines = source.splitlines()
        rules.append(
            [lines[f.location.line - 1].split()[0] for f in report.findings if f.location is not None]
        )
    # Once by the MMA; with every lane disabled not by the MMA, but by the load of what it left out.
    assert rules == [["tcgen05.mma.cta_group::1.kind::f16"], ["tcgen05.ld.sync.aligned.32x32b.x32.b32"]]


def test_an_accumulator_outside_its_allocation() -> None:
    p = problem("f16", 128, 32, ("128B", "128B"), ("K", "K"), 4)
    p.column = 16
    report, _ = run(p, 32)
    assert report.findings[0].rule.name == "tensor-memory"
    assert "write of lanes 0..127, columns 16..47; allocated: columns 0..31" in report.findings[0].message


@pytest.mark.parametrize("lane", [0, 16])
def test_a_warp_reaches_its_own_quarter_whatever_the_address_names(lane: int) -> None:
    """All warps store and load through the address of the first quarter: each has its own cells; for review."""
    shape = "16x64b" if lane else "32x32b"
    body = f"""
    {ALLOC.format(columns=32)}
    add.u32 n, tm, {lane << 16}
    mul.lo.u32 r0, warp, 100
    add.u32 r0, r0, lane
    tcgen05.st.sync.aligned.{shape}.x1.b32 [n], {{r0}}
    tcgen05.wait::st.sync.aligned
    bar.sync 0
    add.u32 n, tl, {lane << 16}
    tcgen05.ld.sync.aligned.{shape}.x1.b32 {{r1}}, [n]
    tcgen05.wait::ld.sync.aligned
    mul.wide.u32 o, t, 4
    add.u64 o, o, out
    st.global.u32 [o], r1
    {FREE.format(columns=32)}
    """
    kernel = Kernel(SETUP + body, "out:u64")
    out = np.full(128, 0xFFFFFFFF, np.uint32)
    report = kernel.run(out, block=128)
    assert out.tolist() == [100 * warp + number for warp in range(4) for number in range(32)]
    assert {finding.rule.name for finding in report.findings} == {"tensor-memory-lane"}, str(report)
    assert report.verdict == "review"
