"""Near misses by what hardware chooses: results of atomics, clocks and masks that take detours, answers of waits."""

from __future__ import annotations

from collections.abc import Iterator

from .near_miss import BLACKWELL, NearMiss, near_miss

__all__ = ["choice_misses"]

_INIT = "@%p1 mbarrier.init.shared.b64 [bar], {};\nbar.sync 0;\n"
_ARRIVE = "@%p1 mbarrier.arrive.shared.b64 _, [bar];\n"


def _results() -> Iterator[NearMiss]:
    """Results of atomic operations that are used."""
    for operation in ("add", "exch", "min", "max", "and", "or", "xor", "inc", "dec"):
        kind = "b32" if operation in ("exch", "and", "or", "xor") else "u32"
        name = f"atom.relaxed.gpu.global.{operation}.{kind}"
        for use, code in {
            "stored": "st.global.u32 [%d2], %r1;\n",
            "branched": "setp.eq.u32 %p3, %r1, 0;\n@%p3 bra END;\nst.global.u32 [%d2], 1;\n",
        }.items():
            yield near_miss(
                f"result-{operation}-{use}",
                f"@!%p5 bra END;\n{name} %r1, [%a], %warp;\n{code}END:\n",
                threads=96,
            )
    yield near_miss(
        "result-cas",
        "@!%p5 bra END;\natom.global.cas.b32 %r1, [%a], 0, 1;\nst.global.u32 [%d2], %r1;\nEND:\n",
    )
    yield near_miss(
        "result-address",
        "@!%p5 bra END;\natom.global.add.u32 %r1, [%a], 1;\nmad.wide.u32 %d5, %r1, 4, %out;\n"
        "st.global.u32 [%d5], %warp;\nEND:\n",
    )
    yield near_miss(
        "result-shuffled",
        "@%p5 atom.global.add.u32 %r1, [%a], 1;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nst.global.u32 [%d2], %r2;\n",
    )
    yield near_miss(
        "result-of-shared",
        "@%p1 st.shared.u32 [room], 0;\nbar.sync 0;\natom.shared.add.u32 %r1, [room], 1;\nst.global.u32 [%d2], %r1;\n",
    )


def _detours() -> Iterator[NearMiss]:
    """Values that hardware chooses, which take a way through memory, lanes or barriers."""
    for name, take in {
        "clock": "mov.u32 %r1, %clock;",
        "timer": "mov.u32 %r1, %globaltimer_lo;",
        "smid": "mov.u32 %r1, %smid;",
        "warpid": "mov.u32 %r1, %warpid;",
        "activemask": "activemask.b32 %r1;",
    }.items():
        through = {
            "memory": "st.shared.u32 [room], %r1;\nbar.sync 0;\nld.shared.u32 %r2, [room];\n",
            "lanes": "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n",
            "vote": "and.b32 %r3, %r1, 4;\nsetp.ne.u32 %p3, %r3, 0;\nvote.sync.ballot.b32 %r2, %p3, -1;\n",
            "barrier": "and.b32 %r3, %r1, 4;\nsetp.ne.u32 %p3, %r3, 0;\nbar.red.popc.u32 %r2, 0, %p3;\n",
            "sum": "red.relaxed.gpu.global.add.u32 [%a], %r1;\nmov.u32 %r2, 0;\n",
        }
        for way, code in through.items():
            first = "@%p1 " if way == "memory" else ""
            body = f"{take}\n{first}{code}st.global.u32 [%d2], %r2;\n"
            yield near_miss(f"detour-{name}-{way}", body)


def _answers() -> Iterator[NearMiss]:
    """Answers of mbarriers that are used for more than to wait."""
    ask = "mbarrier.test_wait.parity.shared.b64 %p3, [bar], 0;\n"
    again = "mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;\n"
    begin = _INIT.format(1) + _ARRIVE
    store = "st.global.u32 [%d2], %r1;\n"
    yield near_miss("answer-stored", begin + ask + "selp.u32 %r1, 1, 0, %p3;\n" + store)
    yield near_miss("answer-voted", begin + ask + "vote.sync.ballot.b32 %r1, %p3, -1;\n" + store)
    yield near_miss("answer-guards", begin + ask + "mov.u32 %r1, 0;\n@%p3 mov.u32 %r1, 1;\n" + store)
    yield near_miss(
        "answer-addresses",
        begin
        + ask
        + "selp.u32 %r1, 64, 0, %p3;\ncvt.u64.u32 %d5, %r1;\nadd.u64 %d5, %d5, %a;\nst.global.u32 [%d5], 1;\n",
    )
    yield near_miss("peek-and-go", begin + ask + "@%p3 bra GOT;\nmov.u32 %r1, 1;\nGOT:\n" + store)
    yield near_miss(
        "peek-and-other-barrier",
        ".shared .align 8 .b64 second;\n"
        + "@%p1 mbarrier.init.shared.b64 [second], 1;\n"
        + begin
        + "@%p1 mbarrier.arrive.shared.b64 _, [second];\n"
        + ask
        + "@%p3 bra GOT;\nB:\nmbarrier.try_wait.parity.shared.b64 %p4, [second], 0;\n@!%p4 bra B;\nGOT:\n"
        + store.replace("%r1", "%thread"),
    )
    yield near_miss(
        "peek-and-work",
        begin
        + ask
        + "@%p3 bra GOT;\nst.global.u32 [%d2], 5;\nB:\n"
        + again
        + "@!%p4 bra B;\nGOT:\n"
        + "st.global.u32 [%a+128], 1;\n",
    )
    yield near_miss(
        "peek-and-count",
        begin
        + "mov.u32 %r1, 0;\n"
        + ask
        + "@%p3 bra GOT;\nadd.u32 %r1, %r1, 1;\nB:\n"
        + again
        + "@!%p4 bra B;\nGOT:\n"
        + store,
    )
    yield near_miss(
        "peek-other-parity",
        begin
        + ask
        + "@%p3 bra GOT;\nB:\nmbarrier.try_wait.parity.shared.b64 %p4, [bar], 1;\n@!%p4 bra B;\nGOT:\n"
        + store.replace("%r1", "%thread"),
    )
    yield near_miss(
        "retry-copied-and-kept",
        begin + "mov.u32 %r1, 7;\nB:\n" + again + "@%p4 bra GOT;\nmov.u32 %r1, 3;\nbra B;\nGOT:\n" + store,
    )
    for tries in (1, 2, 20):
        yield near_miss(
            f"retry-bounded-{tries}",
            begin
            + f"mov.u32 %r1, 0;\nB:\n{again}@%p4 bra GOT;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r1, {tries};\n"
            "@%p3 bra B;\nGOT:\n" + store.replace("%r1", "%thread"),
        )


def _objects() -> Iterator[NearMiss]:
    """Operations on barriers and other resources that may count elsewhere, and bytes that engines change."""
    yield near_miss(
        "drop-early",
        _INIT.format(2) + "setp.eq.u32 %p2, %thread, 32;\n@%p1 mbarrier.arrive_drop.shared.b64 _, [bar];\n"
        "@%p2 mbarrier.arrive.shared.b64 _, [bar];\n@%p2 mbarrier.arrive.shared.b64 _, [bar];\n",
    )
    for size in (16, 64):
        yield near_miss(
            f"expect-late-{size}",
            _INIT.format(1)
            + f"setp.eq.u32 %p2, %thread, 32;\n@%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {size};\n"
            f"@%p2 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], {size};\n" + _ARRIVE,
        )
    bulk = "cp.reduce.async.bulk.global.shared::cta.bulk_group.{}.u32 [%a], [room], 16;\n"
    group = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    begin = "@%p1 st.shared.v4.u32 [room], {%warp, %warp, %warp, %warp};\nfence.proxy.async;\nbar.sync 0;\n"
    for operation in ("add", "max"):
        yield near_miss(
            f"reduce-and-load-{operation}",
            begin + "@!%p1 bra OTHER;\n" + bulk.format(operation) + group + "bra END;\nOTHER:\n"
            "ld.relaxed.gpu.global.u32 %r1, [%a];\nst.global.u32 [%d2], %r1;\nEND:\n",
        )
        yield near_miss(
            f"reduce-and-poll-{operation}",
            begin
            + "setp.eq.u32 %p2, %thread, 32;\n@%p1 red.relaxed.gpu.global.add.u32 [%a], 1;\n@!%p1 bra OTHER;\n"
            + bulk.format(operation)
            + group
            + "bra END;\nOTHER:\n@!%p2 bra END;\nPOLL:\nld.acquire.gpu.global.u32 %r1, [%a];\n"
            "setp.lt.u32 %p3, %r1, 1;\n@%p3 bra POLL;\nEND:\n",
        )
    for warps in (2, 3, 4):
        yield near_miss(f"collision-{warps}", "@%p5 st.global.u32 [%out], %warp;\n", threads=32 * warps)
        yield near_miss(
            f"collision-parity-{warps}",
            "and.b32 %r1, %warp, 1;\n@%p5 st.shared.u32 [room], %r1;\nbar.sync 0;\nld.shared.u32 %r2, [room];\nst.global.u32 [%d2], %r2;\n",
            threads=32 * warps,
        )
        yield near_miss(
            f"collision-strong-{warps}", "@%p5 st.relaxed.gpu.global.u32 [%out], %warp;\n", threads=32 * warps
        )
    yield near_miss("collision-lanes", "st.global.u32 [%out], %lane;\n", threads=32)
    yield near_miss(
        "collision-team",
        "shr.u32 %r1, %thread, 1;\nmad.wide.u32 %d5, %r1, 4, %out;\nst.global.u32 [%d5], %thread;\n",
        threads=128,
    )
    yield near_miss(
        "collision-vector", "@%p5 st.global.v2.u32 [%out], {%warp, %warp};\n@%p1 st.global.u32 [%out+4], 9;\n"
    )
    take = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [room], 512;\n"
    free = "bar.warp.sync -1;\nld.shared.u32 %r2, [room];\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 512;\n"
    yield near_miss(
        "columns-across-a-barrier",
        take
        + "@%p1 red.release.gpu.global.add.u32 [%a], 1;\n@!%p1 bra END;\nPOLL:\nld.acquire.gpu.global.u32 %r1, [%a];\n"
        "setp.lt.u32 %p3, %r1, 2;\n@%p3 bra POLL;\nEND:\n" + free,
        grid=2,
        threads=32,
        arch=BLACKWELL,
    )


def choice_misses() -> Iterator[NearMiss]:
    """Yield all of them."""
    for family in (_results, _detours, _answers, _objects):
        yield from family()
