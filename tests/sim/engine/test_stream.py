"""The stream of events: exact footprints, threads, order edges that no schedule changes, synchronization, lives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import SpecError
from pyptx.core.source import SourceLocation
from pyptx.layout import TensorMap
from pyptx.sim import Observer, Recorder, read_recording
from pyptx.sim.engine.events import AsyncOperation, Step
from pyptx.sim.engine.stream import Fence, GroupKind, Life, LifeKind, Sync, SyncKind
from pyptx.sim.memory.access import Access, AccessKind, MemoryOrder, Proxy, Scope
from tests.examples.loading import load_example

_HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


class _Log(Observer):
    """Keeps what tests look at."""

    def __init__(self) -> None:
        self.accesses: list[tuple[str, str, list[int], int, list[int] | None, str, str, str]] = []
        self.syncs: list[Sync] = []
        self.fences: list[Fence] = []
        self.lives: list[tuple[str, LifeKind, Any]] = []
        self.issued: list[tuple[str, list[str]]] = []
        self.steps: list[Step] = []
        self.happened: list[int] = []
        self.order: list[str] = []

    def access(self, access: Access) -> None:
        starts = access.footprint.starts.tolist()
        threads = None if access.threads is None else access.threads.tolist()
        how = access.proxy, access.semantics, access.scope
        self.accesses.append(
            (access.kind.value, access.space.value, starts, access.footprint.size, threads, *how)
        )
        self.order.append(f"{access.kind.value} {access.space.value}")

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        self.issued.append((operation.name, [step.kind.value for step in steps]))
        self.steps += steps

    def happens(self, step: Step) -> None:
        self.happened.append(step.serial)
        self.order.append(f"happens {step.kind.value}")

    def sync(self, sync: Sync) -> None:
        self.syncs.append(sync)

    def fence(self, fence: Fence) -> None:
        self.fences.append(fence)

    def begin(self, life: Life) -> None:
        self.lives.append(("begin", life.kind, life.key))

    def end(self, life: Life) -> None:
        self.lives.append(("end", life.kind, life.key))

    def of(self, kind: str, space: str) -> list[Any]:
        return [each for each in self.accesses if each[:2] == (kind, space)]

    def kinds(self, *wanted: SyncKind) -> list[Sync]:
        return [sync for sync in self.syncs if not wanted or sync.kind in wanted]


def observed(body: str, params: str, *args: Any, block: int = 32, shared: str = "", **how: Any) -> _Log:
    """Launch an entry of PTX; what its machine told."""
    log = _Log()
    text = f"{_HEADER}.visible .entry k({params})\n{{\n.reg .b32 r<9>; .reg .b64 d<9>; .reg .pred p<3>;\n{shared}\n{body}\nret;\n}}\n"
    report = sim.load(text).launch(
        "k", grid=how.pop("grid", 1), block=block, args=args, observers=[log], **how
    )
    assert report.verdict in ("clean", "review"), str(report)
    return log


_POINTER = "ld.param.u64 d0, [a]; mov.u32 r0, %tid.x; mad.wide.u32 d1, r0, 8, d0;"


def test_threads_keep_their_numbers_and_bytes() -> None:
    array = np.zeros(128, np.uint32)
    log = observed(
        f"{_POINTER} setp.ge.u32 p0, r0, 40; @p0 st.global.u32 [d1], r0;", ".param .u64 a", array, block=44
    )
    (access,) = log.of("write", "global")
    assert access[2] == [8 * thread for thread in range(40, 44)]
    assert access[3] == 4
    assert access[4] == [40, 41, 42, 43]


def test_an_atomic_is_one_access_whatever_it_changes() -> None:
    array = np.full(64, 7, np.uint32)
    log = observed(
        f"{_POINTER} atom.acq_rel.cta.global.cas.b32 r1, [d1], r0, 9;", ".param .u64 a", array, block=8
    )
    assert [access[0] for access in log.accesses if access[1] == "global"] == ["rmw"]
    assert log.of("rmw", "global")[0][5:] == (Proxy.GENERIC, MemoryOrder.ACQ_REL, Scope.CTA)
    assert array[14] == 9 and np.count_nonzero(array == 7) == 63


def test_a_vector_with_a_sink_touches_what_it_stores() -> None:
    array = np.zeros(64, np.uint32)
    body = "ld.param.u64 d0, [a]; st.global.v8.b32 [d0], {1, _, 3, 4, _, _, _, 8};"
    text = f"{_HEADER.replace('sm_90a', 'sm_100a')}.visible .entry k(.param .u64 a)\n{{\n.reg .b64 d<2>;\n{body}\nret;\n}}\n"
    for block in (1, 32):
        log = _Log()
        sim.load(text).launch("k", grid=1, block=block, args=[array], observers=[log])
        assert [(a[2], a[3]) for a in log.of("write", "global")] == [
            ([at] * block, 4) for at in (0, 8, 12, 28)
        ]


_COPY = """
mov.u32 r1, tile; mov.u32 r2, bar; ld.param.u64 d0, [a];
mov.u32 r3, %tid.x; setp.ne.u32 p0, r3, 0; @p0 bra WAIT;
mbarrier.init.shared.b64 [r2], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 d2, [r2], 512;
mov.b64 d3, map; cvta.param.u64 d3, d3;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r1], [d3, {0, 0}], [r2];
WAIT:
bar.sync 0;
AGAIN:
mbarrier.try_wait.parity.shared.b64 p1, [r2], 0;
@!p1 bra AGAIN;
"""
_TILE = ".shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 bar;"


def _copied(schedule: str = "eager", **how: Any) -> _Log:
    array = np.arange(256, dtype=np.float32).reshape(16, 16)
    tensor = TensorMap.tiled(array, box=(8, 16), swizzle="64B")
    params = ".param .u64 a, .param .align 64 .b8 map[128]"
    return observed(_COPY, params, array, tensor, shared=_TILE, schedule=schedule, **how)


def test_a_tensor_copy_touches_its_rows_and_not_their_hull() -> None:
    log = _copied()
    (read,) = [access for access in log.of("read", "global") if access[4] is None]
    assert sorted(read[2]) == [64 * row for row in range(8)] and read[3] == 64
    (write,) = [access for access in log.of("write", "shared") if access[4] is None]
    assert write[3] == 16 and len(set(write[2])) == 32 and write[5] is Proxy.ASYNC
    first = min(write[2])
    assert sorted(start - first for start in write[2]) == [16 * unit for unit in range(32)]


def test_a_masked_store_touches_the_bytes_of_its_mask() -> None:
    array = np.zeros(64, np.uint8)
    body = """
    ld.param.u64 d0, [a]; mov.u32 r1, tile; mov.b16 h, 0x8001;
    st.shared.v4.b32 [r1], {1, 2, 3, 4}; fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [d0], [r1], 16, h;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    text = f"{_HEADER.replace('sm_90a', 'sm_100a')}.visible .entry k(.param .u64 a)\n{{\n.reg .b32 r<3>; .reg .b64 d<2>; .reg .b16 h;\n.shared .align 16 .b8 tile[16];\n{body}\nret;\n}}\n"
    log = _Log()
    report = sim.load(text).launch("k", grid=1, block=1, args=[array], observers=[log])
    assert report.verdict == "clean", str(report)
    (write,) = [access for access in log.of("write", "global") if access[4] is None]
    assert (write[2], write[3]) == ([0, 15], 1)
    commit, wait = log.kinds(SyncKind.GROUP_COMMIT, SyncKind.GROUP_WAIT)
    assert commit.object is GroupKind.BULK and wait.object is GroupKind.BULK and wait.amount == 0
    assert [fence.name for fence in log.fences] == ["fence.proxy.async.shared::cta"]


def test_operations_steps_and_their_edges() -> None:
    log = _copied()
    ((name, steps),) = log.issued
    assert name.startswith("cp.async.bulk.tensor.2d") and steps == ["read", "write", "signal"]
    assert [step.edges for step in log.steps] == [(), (0,), (1,)]
    assert log.happened == [0, 1, 2]
    at = log.order.index("happens read")
    assert log.order[at : at + 4] == ["happens read", "read global", "happens write", "write shared"]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_an_mbarriers_story(schedule: str) -> None:
    log = _copied(schedule, block=64)
    expect, arrive = log.kinds(SyncKind.MBARRIER_EXPECT_TX, SyncKind.MBARRIER_ARRIVE)
    assert (expect.amount, expect.semantics, arrive.amount, arrive.semantics) == (
        512,
        MemoryOrder.RELAXED,
        1,
        MemoryOrder.RELEASE,
    )
    assert arrive.threads.tolist() == [0] and arrive.cta == (0, 0)
    (complete,) = log.kinds(SyncKind.MBARRIER_COMPLETE_TX)
    assert (complete.amount, complete.steps, complete.threads.size) == (512, (2,), 0)
    waits = log.kinds(SyncKind.MBARRIER_WAIT)
    assert sorted(np.concatenate([wait.threads for wait in waits]).tolist()) == list(range(64))
    assert {wait.semantics for wait in waits} == {MemoryOrder.ACQUIRE} and {wait.phase for wait in waits} == {
        0
    }
    assert len({sync.object for sync in (expect, arrive, complete, *waits)}) == 1


def test_named_barriers_count_rounds() -> None:
    log = observed("bar.sync 1; bar.sync 1; bar.warp.sync 0xffffffff;", ".param .u64 a", 0, block=64)
    arrivals, leaves = log.kinds(SyncKind.BAR_ARRIVE), log.kinds(SyncKind.BAR_WAIT)
    assert sorted(sync.phase for sync in arrivals) == [0, 0, 1, 1] == sorted(sync.phase for sync in leaves)
    assert {sync.object for sync in arrivals + leaves} == {(0, 0, 1)}
    last = max(log.syncs.index(sync) for sync in arrivals if sync.phase == 0)
    assert all(log.syncs.index(sync) > last for sync in leaves if sync.phase == 0)
    warps = log.kinds(SyncKind.WARP_ARRIVE, SyncKind.WARP_WAIT)
    assert sorted((sync.kind.value, sync.object[2]) for sync in warps) == [  # type: ignore[index]
        ("bar.warp.arrive", 0),
        ("bar.warp.arrive", 1),
        ("bar.warp.wait", 0),
        ("bar.warp.wait", 1),
    ]


def test_cluster_barriers_keep_their_order() -> None:
    body = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    log = observed(body, ".param .u64 a", 0, block=32, grid=2, cluster=2)
    arrivals, leaves = log.kinds(SyncKind.CLUSTER_ARRIVE), log.kinds(SyncKind.CLUSTER_WAIT)
    assert {sync.semantics for sync in arrivals} == {MemoryOrder.RELAXED}
    assert {sync.semantics for sync in leaves} == {MemoryOrder.ACQUIRE}
    assert sorted(sync.cta for sync in leaves) == [(0, 0), (0, 1)]
    assert {sync.object for sync in arrivals + leaves} == {(0, 0)}


_CP_ASYNC = """
ld.param.u64 d0, [a]; mov.u32 r0, %tid.x; mad.wide.u32 d1, r0, 16, d0; mov.u32 r1, tile; mad.lo.u32 r1, r0, 16, r1;
cp.async.ca.shared.global [r1], [d1], 16; cp.async.commit_group;
cp.async.ca.shared.global [r1+512], [d1], 16; cp.async.commit_group;
cp.async.wait_group 1; cp.async.wait_all;
"""


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_groups_of_copies(schedule: str) -> None:
    array = np.arange(128, dtype=np.uint32)
    log = observed(
        _CP_ASYNC, ".param .u64 a", array, shared=".shared .align 16 .b8 tile[1024];", schedule=schedule
    )
    groups = log.kinds(SyncKind.GROUP_COMMIT, SyncKind.GROUP_WAIT)
    assert [(sync.kind, sync.amount) for sync in groups] == [
        (SyncKind.GROUP_COMMIT, 0),
        (SyncKind.GROUP_COMMIT, 0),
        (SyncKind.GROUP_WAIT, 1),
        (SyncKind.GROUP_COMMIT, 0),
        (SyncKind.GROUP_WAIT, 0),
    ]
    assert {sync.object for sync in groups} == {GroupKind.CP_ASYNC}


def test_lives_of_a_launch_its_ctas_and_its_arrays() -> None:
    array = np.zeros(64, np.uint32)
    log = observed(_POINTER, ".param .u64 a", array, grid=2)
    assert [life[:2] for life in log.lives] == [
        ("begin", LifeKind.SEGMENT),
        ("begin", LifeKind.GRID),
        ("begin", LifeKind.CTA),
        ("begin", LifeKind.CTA),
        ("end", LifeKind.CTA),
        ("end", LifeKind.CTA),
        ("end", LifeKind.GRID),
    ]
    assert {life[2] for life in log.lives if life[1] is LifeKind.CTA} == {(0, 0), (0, 1)}


# --- the recorder ---------------------------------------------------------------------------------------


def _tables(schedule: str) -> Any:
    array = np.arange(256, dtype=np.float32).reshape(16, 16)
    recorder = Recorder()
    tensor = TensorMap.tiled(array, box=(8, 16), swizzle="64B")
    text = f"{_HEADER}.visible .entry k(.param .u64 a, .param .align 64 .b8 map[128])\n{{\n.reg .b32 r<9>; .reg .b64 d<9>; .reg .pred p<3>;\n{_TILE}\n{_COPY}\nret;\n}}\n"
    sim.load(text).launch(
        "k", grid=1, block=32, args=[array, tensor], observers=[recorder], schedule=schedule
    )
    return recorder


def test_a_recording_survives_its_file(tmp_path: Path) -> None:
    recorder = _tables("eager")
    recorder.save(tmp_path / "run.npz")
    again, tables = read_recording(tmp_path / "run.npz"), recorder.tables()
    assert set(again) == set(tables)
    for name, table in tables.items():
        np.testing.assert_array_equal(again[name], table)
    strings = tables["strings"]
    assert {str(strings[row]) for row in tables["sync"]["kind"]} >= {
        "mbarrier.arrive",
        "mbarrier.wait",
        "bar.wait",
    }
    access = tables["access"]
    assert tables["starts"].size == access["count"].sum()


def test_equal_runs_have_equal_digests_and_others_do_not() -> None:
    assert _tables("eager").digest() == _tables("eager").digest()
    assert _tables("eager").digest() != _tables("late").digest()


def test_edges_are_the_isas_under_every_schedule() -> None:
    eager, late = _tables("eager").tables(), _tables("late").tables()
    np.testing.assert_array_equal(eager["edge"], late["edge"])
    np.testing.assert_array_equal(eager["step"], late["step"])


def test_the_machine_does_the_same_unobserved() -> None:
    array = np.arange(256, dtype=np.float32).reshape(16, 16)
    recorded = _tables("random")
    tensor = TensorMap.tiled(array, box=(8, 16), swizzle="64B")
    text = f"{_HEADER}.visible .entry k(.param .u64 a, .param .align 64 .b8 map[128])\n{{\n.reg .b32 r<9>; .reg .b64 d<9>; .reg .pred p<3>;\n{_TILE}\n{_COPY}\nret;\n}}\n"
    report = sim.load(text).launch("k", grid=1, block=32, args=[array, tensor], schedule="random")
    assert report.events == len(recorded.tables()["happens"])


def test_an_access_kind_says_whether_it_writes() -> None:
    assert [kind for kind in AccessKind if not kind.writes] == [AccessKind.READ, AccessKind.PROBE]


def test_locations_are_lines_of_the_text() -> None:
    log = _copied()
    assert all(isinstance(sync.location, SourceLocation) for sync in log.syncs)


def test_edges_of_a_tensor_core_pipeline_do_not_depend_on_the_schedule() -> None:
    """Under eager every step has happened before the next is issued, under late hardly any."""
    kernel = load_example("blackwell/gemm_highperf_blackwell.py").build_gemm(128, 256, 192)
    a, b = (np.ones((rows, 192), kernel.options.specs[0].dtype.dtype) for rows in (128, 256))
    edges = []
    for schedule in ("eager", "late"):
        recorder = Recorder()
        assert kernel.simulate(a, b, schedule=schedule, observers=[recorder]).verdict == "clean"
        tables = recorder.tables()
        names = tables["strings"][tables["issue"]["name"]][
            np.searchsorted(tables["issue"]["operation"], tables["step"]["operation"])
        ]
        mma = tables["step"]["serial"][
            np.char.startswith(names, "tcgen05.mma") | np.char.startswith(names, "tcgen05.commit")
        ]
        inside = np.isin(tables["edge"]["before"], mma) & np.isin(tables["edge"]["after"], mma)
        edges.append(int(inside.sum()))
    assert edges[0] == edges[1] > 24


@pytest.mark.parametrize("observers", [None, Recorder, [print], "x"])
def test_what_is_no_observer_is_refused(observers: Any) -> None:
    text = f"{_HEADER}.visible .entry k()\n{{\nret;\n}}\n"
    with pytest.raises(SpecError, match="expected a list of sim.Observer objects"):
        sim.load(text).launch("k", grid=1, block=1, observers=observers)
