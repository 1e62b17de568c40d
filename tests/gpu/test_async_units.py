"""Asynchronous copies, barriers, clusters and changed tensor maps on a GPU: they do what their wrappers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, Layout, Tile, kernel, ptx, reg, smem
from pyptx.core.types import b64, b128, f32, u8, u32, u64
from tests.gpu.machines import on_gpu

pytestmark = pytest.mark.gpu

LANES = 32


def place(pointer: Any, index: Any, step: int) -> Any:
    """The address of element ``index`` of ``step`` bytes."""
    found = reg.scalar(u64)
    ptx.inst.mad.wide.u32(found, index, step, pointer)
    return found


def store(out: Any, index: int, value: Any) -> None:
    ptx.inst.st.global_.u32(ptx.addr(out.ptr, 4 * index), value)


def zero_filling() -> Kernel:
    @kernel(in_specs=(Tile(LANES, 4, u32),), out_specs=(Tile(LANES, 4, u32),), block=(LANES,), arch="sm_90a")
    def fill(X, out):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        rows = smem.alloc((LANES, 4), u32)
        row = rows.addr + tid * 16
        wanted = tid % 17
        skipped = tid == 20
        with ptx.if_(~skipped):
            ptx.cp.async_(row, place(X.ptr, tid, 16), 16, src_size=wanted, cache="cg")
        with ptx.if_(skipped):
            ptx.cp.async_(row, place(X.ptr, tid, 16), 16, ignore_src=skipped)
        ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(0)
        values = reg.array(u32, 4)
        ptx.inst.ld.shared.v4.u32(values, ptx.addr(row))
        ptx.inst.st.global_.v4.u32(ptx.addr(place(out.ptr, tid, 16)), values)

    return fill


def test_zero_fill() -> None:
    x = np.arange(LANES * 4, dtype=np.uint32).reshape(LANES, 4) + 0x01010101
    (found,) = on_gpu(zero_filling(), [x], [np.ones_like(x)])
    expected = x.copy().view(np.uint8)
    for lane in range(LANES):
        expected[lane, 0 if lane == 20 else lane % 17 :] = 0
    assert np.array_equal(found, expected.view(np.uint32))


def exchanging() -> Kernel:
    """Each CTA of a pair fills the other's shared memory in four ways, and waits for what it gets itself."""

    @kernel(out_specs=(Tile(2, 12, u32),), grid=(2,), block=(LANES,), cluster=(2, 1, 1), arch="sm_90a")
    def swap(out):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        rank = ptx.cluster.rank()
        other = rank ^ 1
        cells = smem.alloc(4, u32)
        source, target = smem.alloc(4, u32), smem.alloc(4, u32)
        bar = smem.alloc(1, b64)
        with ptx.if_(tid < 4):
            smem.store(cells.addr + tid * 4, rank * 10 + tid)
            smem.store(source.addr + tid * 4, rank * 1000 + tid)
        with ptx.if_(tid == 0):
            # One arrival of this CTA, one of the other.
            ptx.mbarrier.init(bar, 2)
            ptx.fence.mbarrier_init()
        ptx.bar.warp_sync()
        ptx.fence.proxy_async("shared::cta")
        ptx.cluster.sync()
        with ptx.if_(tid == 0):
            ptx.mbarrier.arrive_expect_tx(bar, 4 + 4 + 16)
            far = ptx.cluster.map(cells, other)
            there = ptx.cluster.map(bar, other)
            ptx.st_async(far, rank + 77, there)
            ptx.red_async(ptx.addr(far, 4), rank + 5, there, "add")
            ptx.cp.async_.bulk.store_cluster(ptx.cluster.map(target, other), source, 16, there)
            ptx.mbarrier.arrive(there, sem="release", scope="cluster", space="cluster")
            ptx.mbarrier.wait(bar, 0, 100, sem="acquire", scope="cluster")
            row = place(out.ptr, rank, 48)
            for i in range(4):
                ptx.inst.st.global_.u32(ptx.addr(row, 4 * i), smem.load(u32, cells.at(i)))
                ptx.inst.st.global_.u32(ptx.addr(row, 16 + 4 * i), smem.load(u32, target.at(i)))
            facts = (ptx.cluster.size(), ptx.cluster.getctarank(far), ptx.cluster.getctarank(cells), rank)
            for i, fact in enumerate(facts):
                ptx.inst.st.global_.u32(ptx.addr(row, 32 + 4 * i), fact)
        ptx.cluster.sync()

    return swap


def test_a_pair_of_ctas() -> None:
    (found,) = on_gpu(exchanging(), [], [np.zeros((2, 12), np.uint32)])
    for rank in (0, 1):
        other = 1 - rank
        cells = [other + 77, rank * 10 + 1 + other + 5, rank * 10 + 2, rank * 10 + 3]
        target = [other * 1000 + i for i in range(4)]
        assert found[rank].tolist() == [*cells, *target, 2, other, rank, rank]


def reducing() -> Kernel:
    @kernel(
        in_specs=(Tile(64, f32),), out_specs=(Tile(64, f32), Tile(64, f32)), block=(LANES,), arch="sm_90a"
    )
    def accumulate(X, total, copy):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        tile, bar = smem.alloc(64, f32), smem.alloc(1, b64)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar, 1)
            policy = ptx.cache.policy("evict_first")
            ptx.cp.async_.bulk.prefetch(X.ptr, 256)
            ptx.mbarrier.arrive_expect_tx(bar, tile.nbytes)
            ptx.cp.async_.bulk.load(tile, X.ptr, tile.nbytes, bar, cache_hint=policy)
            ptx.mbarrier.wait(bar, 0)
            ptx.cp.async_.bulk.reduce(total.ptr, tile, tile.nbytes, "add", f32)
            ptx.cp.async_.bulk.store(copy.ptr, tile, tile.nbytes)
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    return accumulate


def test_plain_bulk_copies() -> None:
    x = np.arange(64, dtype=np.float32)
    total, copy = on_gpu(reducing(), [x], [np.full(64, 0.5, np.float32), np.zeros(64, np.float32)])
    assert np.array_equal(total, x + 0.5)
    assert np.array_equal(copy, x)


def remapping() -> Kernel:
    """The map of A, changed to five rows of B's memory with NaN outside, loads a box."""

    @kernel(
        in_specs=(
            Tile(16, 64, f32, Layout.TMA_NONE, tma_box=(8, 32)),
            Tile(16, 64, f32),
        ),
        out_specs=(Tile(8, 32, f32), Tile(128, u8)),
        block=(LANES,),
        arch="sm_90a",
    )
    def reload(A, B, out, scratch):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        image = smem.alloc(128, align=128)
        tile, bar = smem.alloc((8, 32), f32, align=128), smem.alloc(1, b64)
        given = A.tma_desc()
        with ptx.if_(tid == 0):
            for at in range(0, 128, 16):
                piece = reg.scalar(b128)
                ptx.inst.ld.b128(piece, ptx.addr(given, at))
                ptx.inst.st.shared.b128(ptx.addr(image, at), piece)
            ptx.tensormap.replace_global_address(image, B.ptr)
            ptx.tensormap.replace_global_dim(image, 1, 5)
            ptx.tensormap.replace_fill_mode(image, "nan")
            ptx.mbarrier.init(bar, 1)
        ptx.bar.warp_sync()
        ptx.tensormap.cp_fenceproxy(scratch.ptr, image, "gpu")
        ptx.fence.proxy_tensormap_acquire(scratch.ptr, "gpu")
        with ptx.if_(tid == 0):
            ptx.mbarrier.arrive_expect_tx(bar, tile.nbytes)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=scratch.ptr, coord=(32, 2), mbar=bar)
        ptx.mbarrier.wait(bar, 0)
        for row in range(8):
            value = smem.load(f32, tile.addr + (row * 128 + tid * 4))
            ptx.inst.st.global_.f32(ptx.addr(place(out.ptr, tid, 4), row * 128), value)

    return reload


def test_a_changed_tensor_map() -> None:
    a, b = np.zeros((16, 64), np.float32), np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    loaded, _ = on_gpu(remapping(), [a, b], [np.zeros((8, 32), np.float32), np.zeros(128, np.uint8)])
    expected = np.full((8, 32), np.nan, np.float32)
    expected[:3] = b[2:5, 32:]
    assert np.array_equal(loaded, expected, equal_nan=True)


def counting() -> Kernel:
    @kernel(out_specs=(Tile(8, u32),), block=(64,), arch="sm_90a")
    def count(out):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        bar = smem.alloc(1, b64)
        first = tid == 0
        with ptx.if_(first):
            ptx.mbarrier.init(bar, 64)
        many = ptx.bar.red_popc(tid < 10)
        every = ptx.bar.red_and(tid < 64)
        some = ptx.bar.red_or(~(tid < 64), 1, 64)
        ptx.barrier.sync(2, 64)
        token = reg.scalar(b64)
        ptx.mbarrier.arrive(bar, state=token)
        ptx.mbarrier.wait(bar, state=token)
        # The second phase: all but the first thread leave for good, so the third takes one arrival.
        with ptx.if_(~first):
            ptx.mbarrier.arrive_drop(bar)
        with ptx.if_(first):
            ptx.mbarrier.arrive(bar)
            ptx.mbarrier.wait(bar, 1)
            ptx.mbarrier.arrive(bar, state=token)
            pending = ptx.mbarrier.pending_count(token)
            done = ptx.mbarrier.try_wait(bar, 0)
            store(out, 0, many)
            numbers = (every, some, done)
            for i, condition in enumerate(numbers, 1):
                number = reg.scalar(u32)
                ptx.inst.selp.u32(number, 1, 0, condition)
                store(out, i, number)
            store(out, 4, pending)

    return count


def test_barriers() -> None:
    (found,) = on_gpu(counting(), [], [np.zeros(8, np.uint32)])
    assert found[:5].tolist() == [10, 1, 0, 1, 1]
