"""Kernels that break one condition of the claim each, and for each the kernel that keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from pyptx import sim
from tests.conformance.case import ARCH, kernel

__all__ = ["CONDITIONS", "Condition"]

_BLACKWELL = "sm_100a"


@dataclass(frozen=True)
class Condition:
    """One condition of the claim.

    Attributes:
        broken: the body of the kernel that breaks it.
        competes: part of what the report then lists.
        kept: the body of the kernel that keeps the condition and claims every schedule; empty if there is none.
        registers: declarations of both.
        assumes: part of what the report of the kept kernel assumes.
    """

    broken: str
    competes: str
    kept: str = ""
    registers: str = ""
    grid: int = 1
    threads: int = 64
    cluster: int = 1
    arch: str = ARCH
    directives: str = ""
    assumes: str = ""
    shared: int = 0
    sizes: tuple[int, int] = field(default=(256, 256))

    def run(self, body: str, **how: Any) -> sim.Report:
        """Run one of the two kernels."""
        text = kernel(
            body, "a:u64 out:u64", registers=self.registers, arch=self.arch, directives=self.directives
        ).text()
        arrays = [np.zeros(size, np.uint32) for size in self.sizes]
        return _loaded(text).launch(
            grid=self.grid,
            block=self.threads,
            cluster=self.cluster,
            dynamic_smem=self.shared,
            args=arrays,
            max_steps=100_000,
            **how,
        )


@cache
def _loaded(text: str) -> sim.LoadedModule:
    return sim.load(text)


_ROOM = ".shared .align 16 .b8 room[512]; .shared .align 8 .b64 bar; .shared .align 8 .b64 other;"
_ADDRESSES = """
mad.wide.u32 %d1, %index, 4, %a;
mad.wide.u32 %d2, %index, 4, %out;
setp.eq.u32 %p1, %thread, 0;
setp.eq.u32 %p2, %thread, 32;
setp.eq.u32 %p5, %lane, 0;
setp.eq.u32 %p6, %warp, 0;
"""


def _init(count: int) -> str:
    return f"{_ADDRESSES}@%p1 mbarrier.init.shared.b64 [bar], {count};\nbar.sync 0;\n"


def _wait(label: str, parity: int | str, guard: str = "") -> str:
    """A wait for one parity; with a guard, other threads skip it."""
    skip = f"@!{guard} bra {label}_END;\n" if guard else ""
    return (
        f"{skip}{label}:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], {parity};\n@!%p3 bra {label};\n"
        f"{label}_END:\n"
    )


_ARRIVE_1 = "@%p1 mbarrier.arrive.shared.b64 _, [bar];\n"
_ARRIVE_2 = "@%p2 mbarrier.arrive.shared.b64 _, [bar];\n"
_STORE = "st.global.u32 [%d2], %thread;\n"
_COUNT = "atom.global.add.u32 %r1, [%a], 1;\n"
_POLL = "POLL:\nld.acquire.gpu.global.u32 %r2, [%a];\nsetp.lt.u32 %p3, %r2, {n};\n@%p3 bra POLL;\n"
_BYTES = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n"
_DONE = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n"

CONDITIONS: dict[str, Condition] = {
    # --- (a) each pair of accesses is ordered ---------------------------------------------------
    "a race": Condition(
        _ADDRESSES + "@%p1 st.global.u32 [%a], 1;\n@%p2 st.global.u32 [%a], 2;\n",
        "finding data-race",
        _ADDRESSES + "@%p1 st.global.u32 [%a], 1;\nbar.sync 0;\n@%p2 st.global.u32 [%a], 2;\n",
    ),
    "warps that store to one address, and the last one leaves what was there": Condition(
        _ADDRESSES
        + "@%p5 st.shared.u32 [room], 0;\nbar.sync 0;\nand.b32 %r1, %warp, 1;\n@%p5 st.shared.u32 [room], %r1;\n"
        + "bar.sync 0;\nld.shared.u32 %r2, [room];\nst.global.u32 [%d2], %r2;\n",
        "finding data-race",
        _ADDRESSES
        + "@%p1 st.shared.u32 [room], 0;\nbar.sync 0;\nand.b32 %r1, %warp, 0;\n@%p5 st.shared.u32 [room], %r1;\n"
        + "bar.sync 0;\nld.shared.u32 %r2, [room];\nst.global.u32 [%d2], %r2;\n",
        _ROOM,
        threads=96,
    ),
    "lanes of several warps that store to one address": Condition(
        _ADDRESSES
        + "shr.u32 %r1, %thread, 1;\nmad.wide.u32 %d5, %r1, 4, %out;\nst.global.u32 [%d5], %thread;\n",
        "finding store-collision",
        _ADDRESSES + "shr.u32 %r1, %thread, 1;\nmad.wide.u32 %d5, %r1, 4, %out;\nst.global.u32 [%d5], %r1;\n",
        threads=128,
    ),
    "data behind a later value of a flag than the one that ends the loop": Condition(
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@%p1 st.global.u32 [%a+64], 7;\n"
        + "@%p1 st.release.gpu.global.u32 [%a], 2;\n@!%p2 bra END;\n"
        + _POLL.format(n=1)
        + "ld.global.u32 %r1, [%a+64];\nst.global.u32 [%d2], %r1;\nEND:\n",
        "finding data-race",
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@%p1 st.global.u32 [%a+64], 7;\n"
        + "@%p1 st.release.gpu.global.u32 [%a], 2;\n@!%p2 bra END;\n"
        + _POLL.format(n=2)
        + "ld.global.u32 %r1, [%a+64];\nst.global.u32 [%d2], %r1;\nEND:\n",
    ),
    # --- (b) phases -----------------------------------------------------------------------------
    "an arrival that may count in the next phase": Condition(
        _init(1) + _ARRIVE_1 + _ARRIVE_2,
        "nothing orders it after the end of the phase before",
        _init(2) + _ARRIVE_1 + _ARRIVE_2,
        _ROOM,
    ),
    "arrivals of two threads in two phases": Condition(
        _init(1) + _ARRIVE_1 + _ARRIVE_1 + _ARRIVE_2,
        "nothing orders it after the end of the phase before",
        _init(1) + _ARRIVE_1 + _ARRIVE_1 + "bar.sync 0;\n" + _ARRIVE_2 + _wait("A", 0, "%p2"),
        _ROOM,
    ),
    "a wait that may be lapped": Condition(
        _init(1) + _ARRIVE_1 + _wait("A", 0) + _ARRIVE_1,
        "the next phase may end before the wait looks",
        _init(1) + _ARRIVE_1 + _wait("A", 0) + "bar.sync 0;\n" + _ARRIVE_1,
        _ROOM,
    ),
    "a wait of a fresh mbarrier that an arrival may overtake": Condition(
        _init(1) + _wait("A", 1, "%p2") + _ARRIVE_1,
        "the next phase may end before the wait looks",
        _init(1) + _wait("A", 1, "%p2") + "bar.sync 0;\n" + _ARRIVE_1,
        _ROOM,
    ),
    "a wait for a phase that may not have begun": Condition(
        # Warp 1 asks for phase 1 while phase 0 may still be open: the parity is that of the phase before.
        _init(1)
        + "@!%p6 bra SECOND;\n"
        + _ARRIVE_1
        + _wait("A", 0)
        + _ARRIVE_1
        + "bra END;\nSECOND:\nmov.u32 %r9, 0;\nSPIN:\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p4, %r9, 4000;\n"
        + "@%p4 bra SPIN;\n"
        + _wait("B", 1)
        + "END:\n",
        "the wait",
        _init(1) + _ARRIVE_1 + _wait("A", 0) + "bar.sync 0;\n" + _ARRIVE_1 + _wait("B", 1),
        _ROOM,
    ),
    "bytes that are expected too late": Condition(
        _init(1) + f"@!%p1 bra SKIP;\n{_BYTES}{_DONE}SKIP:\n" + _ARRIVE_2 + _wait("A", 0),
        "no arrival of the same phase comes after",
        _init(1) + f"@!%p1 bra SKIP;\n{_BYTES}{_DONE}SKIP:\nbar.sync 0;\n" + _ARRIVE_2 + _wait("A", 0),
        _ROOM,
    ),
    "cp.async that asks for one more arrival too late": Condition(
        _init(1)
        + "@%p2 cp.async.ca.shared.global [room], [%a], 4;\n"
        + "@%p2 cp.async.mbarrier.arrive.shared::cta.b64 [bar];\n"
        + _ARRIVE_1
        + _wait("A", 0),
        "no arrival of the same phase comes after",
        _init(2)
        + "@%p2 cp.async.ca.shared.global [room], [%a], 4;\n"
        + "@%p2 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];\n"
        + _ARRIVE_1
        + _wait("A", 0),
        _ROOM,
    ),
    "an arrival that may complete a phase although it must not": Condition(
        _init(2) + "@%p2 mbarrier.arrive.noComplete.shared.b64 %d5, [bar], 1;\n" + _ARRIVE_1 + _wait("A", 0),
        "no arrival of the same phase comes after",
        _init(2)
        + "@%p2 mbarrier.arrive.noComplete.shared.b64 %d5, [bar], 1;\nbar.sync 0;\n"
        + _ARRIVE_1
        + _wait("A", 0),
        _ROOM,
    ),
    "more bytes at once than an mbarrier can expect": Condition(
        _init(3)
        + "mov.u32 %r7, 600000;\n"
        + "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], %r7;\n"
        + "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], %r7;\n"
        + "bar.sync 0;\n"
        + "@%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], %r7;\n"
        + "@%p2 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], %r7;\n"
        + "bar.sync 0;\n@%p1 mbarrier.arrive.shared.b64 _, [bar], 3;\n"
        + _wait("A", 0),
        "more bytes in one phase than the tx-count can hold",
        registers=_ROOM,
    ),
    "one named barrier of two groups": Condition(
        _ADDRESSES + "bar.sync 1, 64;\n",
        "bar.arrive on bar: nothing orders it after the end of the phase before",
        _ADDRESSES + "shr.u32 %r1, %warp, 1;\nadd.u32 %r1, %r1, 1;\nbar.sync %r1, 64;\n",
        threads=128,
    ),
    # --- (b) memory -----------------------------------------------------------------------------
    "a flag": Condition(
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@!%p2 bra END;\nld.acquire.gpu.global.u32 %r1, [%a];\n"
        + "st.global.u32 [%d2], %r1;\nEND:\n",
        "the order of accesses to the same bytes",
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\nbar.sync 0;\n@!%p2 bra END;\n"
        + "ld.acquire.gpu.global.u32 %r1, [%a];\nst.global.u32 [%d2], %r1;\nEND:\n",
    ),
    "a flag that is looked at once": Condition(
        _ADDRESSES
        + "@%p1 st.global.u32 [%a+64], 7;\n@%p1 st.release.gpu.global.u32 [%a], 1;\n@!%p2 bra END;\n"
        + "ld.acquire.gpu.global.u32 %r2, [%a];\nsetp.lt.u32 %p3, %r2, 1;\n@%p3 bra END;\n"
        + "ld.global.u32 %r1, [%a+64];\nst.global.u32 [%d2], %r1;\nEND:\n",
        "the order of accesses to the same bytes",
        _ADDRESSES
        + "@%p1 st.global.u32 [%a+64], 7;\n@%p1 st.release.gpu.global.u32 [%a], 1;\n@!%p2 bra END;\n"
        + _POLL.format(n=1)
        + "ld.global.u32 %r1, [%a+64];\nst.global.u32 [%d2], %r1;\nEND:\n",
    ),
    "a loop that ends before all have counted": Condition(
        _ADDRESSES
        + "@%p5 red.release.gpu.global.add.u32 [%a], 1;\n@!%p1 bra END;\n"
        + _POLL.format(n=2)
        + "END:\n",
        "ld.acquire.gpu.global.u32: the order of accesses to the same bytes",
        _ADDRESSES
        + "@%p5 red.release.gpu.global.add.u32 [%a], 1;\n@!%p1 bra END;\n"
        + _POLL.format(n=3)
        + "END:\n",
        threads=96,
    ),
    "a flag whose value is read although it may change": Condition(
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@%p1 st.release.gpu.global.u32 [%a], 2;\n@!%p2 bra END;\n"
        + _POLL.format(n=1)
        + "st.global.u32 [%d2], %r2;\nEND:\n",
        "ld.acquire.gpu.global.u32: the order of accesses to the same bytes",
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@%p1 st.release.gpu.global.u32 [%a], 2;\n@!%p2 bra END;\n"
        + _POLL.format(n=2)
        + "st.global.u32 [%d2], %r2;\nEND:\n",
    ),
    "a flag that is taken back": Condition(
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@%p1 st.relaxed.gpu.global.u32 [%a], 0;\n@!%p2 bra END;\n"
        + _POLL.format(n=1)
        + "END:\n",
        "",
        _ADDRESSES
        + "@%p1 st.release.gpu.global.u32 [%a], 1;\n@!%p2 bra END;\n"
        + _POLL.format(n=1)
        + "END:\nbar.sync 0;\n@%p1 st.relaxed.gpu.global.u32 [%a], 0;\n",
    ),
    "an addition that acquires by chance": Condition(
        _ADDRESSES
        + "@%p1 st.global.u32 [%a+64], 7;\n@%p5 atom.acq_rel.gpu.global.add.u32 %r1, [%a], 1;\n"
        + "@%p2 ld.global.u32 %r2, [%a+64];\n@%p2 st.global.u32 [%d2], %r2;\n",
        "finding data-race",
        _ADDRESSES
        + "@%p1 st.global.u32 [%a+64], 7;\n@%p5 red.release.gpu.global.add.u32 [%a], 1;\n"
        + "bar.sync 0;\n@%p2 ld.global.u32 %r2, [%a+64];\n@%p2 st.global.u32 [%d2], %r2;\n",
    ),
    "a counter of tiles": Condition(
        _ADDRESSES + f"@!%p5 bra END;\n{_COUNT}st.global.u32 [%d2], %r1;\nEND:\n",
        "atom.global.add.u32: the order of accesses to the same bytes",
        _ADDRESSES + "red.global.add.u32 [%a], 1;\n",
    ),
    "a counter that lanes of one warp use": Condition(
        _ADDRESSES + f"{_COUNT}st.global.u32 [%d2], %r1;\n",
        "atom.global.add.u32: the order of accesses to the same bytes",
        _ADDRESSES + _COUNT,
        threads=32,
    ),
    "a sum and a minimum": Condition(
        _ADDRESSES + "@%p1 red.global.add.u32 [%a], 1;\n@%p2 red.global.min.u32 [%a], 5;\n",
        "the order of accesses to the same bytes",
        _ADDRESSES + "@%p1 red.global.add.u32 [%a], 1;\nbar.sync 0;\n@%p2 red.global.min.u32 [%a], 5;\n",
    ),
    "a sum that a thread looks at": Condition(
        _ADDRESSES
        + "red.global.add.u32 [%a], 1;\n@!%p1 bra END;\nld.relaxed.gpu.global.u32 %r1, [%a];\n"
        + "st.global.u32 [%out], %r1;\nEND:\n",
        "the order of accesses to the same bytes",
        _ADDRESSES
        + "red.global.add.u32 [%a], 1;\nbar.sync 0;\n@!%p1 bra END;\nld.relaxed.gpu.global.u32 %r1, [%a];\n"
        + "st.global.u32 [%out], %r1;\nEND:\n",
    ),
    "a vector beside one of its elements": Condition(
        _ADDRESSES
        + "@%p1 st.relaxed.gpu.global.v2.u32 [%a], {%lane, %warp};\n@!%p2 bra END;\n"
        + "ld.relaxed.gpu.global.u32 %r1, [%a+4];\nst.global.u32 [%out], %r1;\nEND:\n",
        "the order of accesses to the same bytes",
        _ADDRESSES
        + "@%p1 st.relaxed.gpu.global.v2.u32 [%a], {%lane, %warp};\nbar.sync 0;\n@!%p2 bra END;\n"
        + "ld.relaxed.gpu.global.u32 %r1, [%a+4];\nst.global.u32 [%out], %r1;\nEND:\n",
    ),
    "a sum of floating-point numbers that is read": Condition(
        _ADDRESSES
        + "mov.f32 %f1, 0f3DCCCCCD;\nred.global.add.f32 [%a], %f1;\nbar.sync 0;\n@!%p1 bra END;\n"
        + "ld.global.f32 %f2, [%a];\nst.global.f32 [%out], %f2;\nEND:\n",
        "read of a sum of floating-point numbers in open order",
        _ADDRESSES + "mov.f32 %f1, 0f3DCCCCCD;\nred.global.add.f32 [%a], %f1;\n",
        assumes="floating-point numbers",
    ),
    "bulk reductions of two operations": Condition(
        _ADDRESSES
        + "mad.lo.u32 %r1, %warp, 16, 0;\nmov.u32 %r2, room;\nadd.u32 %r2, %r2, %r1;\n"
        + "@%p5 st.shared.v4.u32 [%r2], {%warp, %warp, %warp, %warp};\n@%p5 fence.proxy.async;\n"
        + "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [%r2], 16;\n"
        + "@%p2 cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32 [%a], [%r2], 16;\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
        "the order of operations on the same bytes",
        _ADDRESSES
        + "mad.lo.u32 %r1, %warp, 16, 0;\nmov.u32 %r2, room;\nadd.u32 %r2, %r2, %r1;\n"
        + "@%p5 st.shared.v4.u32 [%r2], {%warp, %warp, %warp, %warp};\n@%p5 fence.proxy.async;\n"
        + "@%p5 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [%r2], 16;\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
        _ROOM,
    ),
    "a lock": Condition(
        _ADDRESSES
        + "@!%p5 bra END;\nTRY:\natom.acquire.gpu.global.cas.b32 %r1, [%a], 0, 1;\n"
        + "setp.ne.u32 %p3, %r1, 0;\n@%p3 bra TRY;\nst.global.u32 [%out], %warp;\n"
        + "st.release.gpu.global.u32 [%a], 0;\nEND:\n",
        "the order of accesses to the same bytes",
        _ADDRESSES + "@!%p5 bra END;\nst.global.u32 [%d2], %warp;\nEND:\n",
    ),
    # --- (c) what hardware chooses --------------------------------------------------------------
    "a clock that is stored": Condition(
        _ADDRESSES + "mov.u32 %r1, %clock;\nst.global.u32 [%d2], %r1;\n",
        "%clock: hardware chooses its result",
        _ADDRESSES + "mov.u32 %r1, %clock;\n" + _STORE,
    ),
    "a timer that decides": Condition(
        _ADDRESSES
        + "mov.u64 %d5, %globaltimer;\nand.b64 %d5, %d5, 1;\nsetp.eq.u64 %p4, %d5, 0;\n@%p4 bra END;\n"
        + "mov.u32 %r1, 1;\nEND:\n"
        + _STORE,
        "%globaltimer: hardware chooses its result",
        _ADDRESSES + _STORE,
    ),
    "the multiprocessor as an address": Condition(
        _ADDRESSES + "mov.u32 %r1, %smid;\nmad.wide.u32 %d5, %r1, 4, %out;\n@%p1 st.global.u32 [%d5], 1;\n",
        "%smid: hardware chooses its result",
        _ADDRESSES
        + "mov.u32 %r1, %ctaid.x;\nmad.wide.u32 %d5, %r1, 4, %out;\n@%p1 st.global.u32 [%d5], 1;\n",
        grid=2,
    ),
    "the mask of active lanes": Condition(
        _ADDRESSES + "activemask.b32 %r1;\nst.global.u32 [%d2], %r1;\n",
        "activemask.b32: hardware chooses its result",
        _ADDRESSES + "vote.sync.ballot.b32 %r1, %p5, -1;\nst.global.u32 [%d2], %r1;\n",
    ),
    "a clock through a shuffle": Condition(
        _ADDRESSES
        + "mov.u32 %r1, %clock;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nadd.u32 %r3, %r2, 1;\n"
        + "st.global.u32 [%d2], %r3;\n",
        "%clock: hardware chooses its result",
        _ADDRESSES + "shfl.sync.idx.b32 %r2, %thread, 0, 31, -1;\nst.global.u32 [%d2], %r2;\n",
    ),
    "tries that are counted": Condition(
        _init(1)
        + _ARRIVE_1
        + "mov.u32 %r9, 0;\nA:\nadd.u32 %r9, %r9, 1;\n"
        + "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra A;\nst.global.u32 [%d2], %r9;\n",
        "hardware chooses its result",
        _init(1) + _ARRIVE_1 + _wait("A", 0) + _STORE,
        _ROOM,
    ),
    "an answer that is stored": Condition(
        _init(1)
        + _ARRIVE_1
        + "mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\nselp.u32 %r1, 1, 0, %p3;\n"
        + "st.global.u32 [%d2], %r1;\n",
        "hardware chooses its result",
        _init(1)
        + _ARRIVE_1
        + "A:\nmbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\n@%p3 bra B;\nbra A;\nB:\n"
        + _STORE,
        _ROOM,
    ),
    "an answer that is copied before the loop tests it": Condition(
        _init(1)
        + _ARRIVE_1
        + "mov.u32 %r1, 9;\nA:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\nselp.u32 %r2, 1, 0, %p3;\n"
        + "setp.ne.u32 %p4, %r2, 0;\n@%p4 bra B;\nmov.u32 %r1, 8;\nbra A;\nB:\nst.global.u32 [%d2], %r1;\n",
        "hardware chooses its result",
        _init(1)
        + _ARRIVE_1
        + "A:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\nselp.u32 %r2, 1, 0, %p3;\n"
        + "setp.ne.u32 %p4, %r2, 0;\n@%p4 bra B;\nbra A;\nB:\nst.global.u32 [%d2], %r2;\n",
        _ROOM,
    ),
    "a question before the loop": Condition(
        _init(1)
        + _ARRIVE_1
        + "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\nselp.u32 %r2, 1, 0, %p3;\n"
        + "setp.eq.u32 %p4, %r2, 1;\n@%p4 bra B;\n"
        + _wait("A", 0)
        + "B:\nst.global.u32 [%d2], %r2;\n",
        "hardware chooses its result",
        _init(1)
        + _ARRIVE_1
        + "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\nselp.u32 %r2, 1, 0, %p3;\n"
        + "setp.eq.u32 %p4, %r2, 1;\n@%p4 bra B;\n"
        + _wait("A", 0)
        + "B:\nst.global.u32 [%d2], %thread;\n",
        _ROOM,
    ),
    "a question before the loop for another phase": Condition(
        _init(1)
        + _ARRIVE_1
        + "mov.u32 %r1, 0;\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], %r1;\n@%p3 bra B;\nmov.u32 %r1, 1;\n"
        + _wait("A", "%r1")
        + "B:\nst.global.u32 [%d2], %thread;\n",
        "hardware chooses its result",
        _init(1)
        + _ARRIVE_1
        + "mov.u32 %r1, 0;\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], %r1;\n@%p3 bra B;\nmov.u32 %r2, 1;\n"
        + _wait("A", "%r1")
        + "B:\nst.global.u32 [%d2], %thread;\n",
        _ROOM,
    ),
    "the count in the state of an mbarrier": Condition(
        _init(64)
        + "mbarrier.arrive.shared.b64 %d5, [bar];\nmbarrier.pending_count.b64 %r1, %d5;\n"
        + "st.global.u32 [%d2], %r1;\n",
        "hardware chooses its result",
        _init(64)
        + "mbarrier.arrive.shared.b64 %d5, [bar];\nmov.b64 %d6, %d5;\n"
        + "A:\nmbarrier.try_wait.shared.b64 %p3, [bar], %d6;\n@!%p3 bra A;\n"
        + _STORE,
        _ROOM,
    ),
    "stores of several lanes to one address": Condition(
        _ADDRESSES + "@%p6 st.global.u32 [%out], %lane;\n",
        "finding store-collision",
        _ADDRESSES + "@%p6 st.global.u32 [%d2], %lane;\n",
    ),
    "clusters that a CTA cancels": Condition(
        _init(1)
        + "@!%p1 bra END;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
        + "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [room], [bar];\n"
        + _wait("A", 0)
        + "END:\n",
        "which clusters it cancels",
        registers=_ROOM,
        grid=2,
        arch=_BLACKWELL,
    ),
    # --- (d) resources --------------------------------------------------------------------------
    "two warps that allocate tensor memory": Condition(
        _ADDRESSES
        + "mov.u32 %r1, room;\nmad.lo.u32 %r1, %warp, 16, %r1;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\n"
        + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;\n",
        "tcgen05.alloc: nothing orders it after another one of the CTA",
        _ADDRESSES
        + "mov.u32 %r1, room;\nmad.lo.u32 %r1, %warp, 16, %r1;\n@!%p6 bra WAIT;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\nWAIT:\nbar.sync 0;\n"
        + "@%p6 bra GOT;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\nGOT:\n"
        + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\nbar.sync 0;\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;\n",
        registers=_ROOM,
        arch=_BLACKWELL,
    ),
    "a column that is stored": Condition(
        _ADDRESSES
        + "mov.u32 %r1, room;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\n"
        + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\nst.global.u32 [%d2], %r2;\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;\n",
        "tcgen05.alloc: hardware chooses its result",
        _ADDRESSES
        + "mov.u32 %r1, room;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\n"
        + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\nadd.u32 %r3, %r2, 4;\n"
        + "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%lane};\ntcgen05.wait::st.sync.aligned;\n"
        + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3];\ntcgen05.wait::ld.sync.aligned;\n"
        + "bar.warp.sync -1;\n@%p5 st.shared.u32 [%r1], 5;\nbar.warp.sync -1;\nld.shared.u32 %r5, [%r1];\nadd.u32 %r4, %r4, %r5;\n"
        + "st.global.u32 [%d2], %r4;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;\n",
        registers=_ROOM,
        arch=_BLACKWELL,
        grid=2,
        threads=32,
    ),
    "CTAs that hold columns while they wait for more": Condition(
        _ADDRESSES
        + "mov.u32 %r1, room;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+16], 256;\n"
        + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\nld.shared.u32 %r3, [%r1+16];\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 256;\n",
        "tcgen05.alloc: CTAs that may share a multiprocessor",
        _ADDRESSES
        + "mov.u32 %r1, room;\n"
        + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;\n"
        + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 512;\n",
        registers=_ROOM,
        arch=_BLACKWELL,
        grid=2,
        threads=32,
    ),
    "registers that are given back after some were taken": Condition(
        _ADDRESSES
        + "setp.lt.u32 %p4, %warp, 4;\n@%p4 bra FIRST;\nsetmaxnreg.dec.sync.aligned.u32 40;\n"
        + "bar.sync 0;\nbra END;\nFIRST:\n"
        + "setmaxnreg.inc.sync.aligned.u32 136;\nbar.sync 0;\nsetmaxnreg.dec.sync.aligned.u32 88;\nEND:\n",
        "setmaxnreg.dec behind a setmaxnreg.inc",
        _ADDRESSES
        + "setp.lt.u32 %p4, %warp, 4;\n@%p4 bra FIRST;\nsetmaxnreg.dec.sync.aligned.u32 40;\n"
        + "bar.sync 0;\nbra END;\nFIRST:\n"
        + "setmaxnreg.inc.sync.aligned.u32 136;\nbar.sync 0;\nEND:\n",
        threads=256,
        directives=".maxnreg 88",
    ),
    "a barrier of the grid whose clusters do not all fit": Condition(
        # CTA i waits for CTA i - 1: the simulator starts them in this order, and hardware need not.
        _ADDRESSES
        + "mov.u32 %r1, %ctaid.x;\n@!%p1 bra END;\n"
        + "POLL:\nld.acquire.gpu.global.u32 %r2, [%a];\nsetp.ne.u32 %p3, %r2, %r1;\n@%p3 bra POLL;\n"
        + "red.release.gpu.global.add.u32 [%a], 1;\nEND:\nst.global.u32 [%d2], %thread;\n",
        "CTAs of different clusters wait for each other, and not all 140 fit",
        _ADDRESSES + _STORE,
        grid=140,
        threads=32,
        shared=200_000,
        sizes=(256, 140 * 32),
    ),
    "a barrier of the grid whose count is read": Condition(
        _ADDRESSES
        + f"bar.sync 0;\n@!%p1 bra END;\n{_COUNT}{_POLL.format(n=2)}st.global.u32 [%d2], %r1;\nEND:\nbar.sync 0;\n",
        "atom.global.add.u32: the order of accesses to the same bytes",
        _ADDRESSES + f"bar.sync 0;\n@!%p1 bra END;\n{_COUNT}{_POLL.format(n=2)}END:\nbar.sync 0;\n{_STORE}",
        grid=2,
        assumes="all 2 CTAs of the launch run at once",
    ),
    # --- (e) the run ----------------------------------------------------------------------------
    "bytes that nothing wrote": Condition(
        _ADDRESSES + "ld.shared.u32 %r1, [room];\nst.global.u32 [%d2], %r1;\n",
        "finding uninitialized-read",
        _ADDRESSES
        + "st.shared.u32 [room], 1;\nbar.sync 0;\nld.shared.u32 %r1, [room];\nst.global.u32 [%d2], %r1;\n",
        _ROOM,
    ),
    "a run without an end": Condition(
        _ADDRESSES
        + "mov.u32 %r1, 0;\nA:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p4, %r1, 1000000;\n@%p4 bra A;\n"
        + _STORE,
        "finding step-limit",
        _ADDRESSES + _STORE,
    ),
}
