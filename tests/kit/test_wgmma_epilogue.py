"""Epilogues of wgmma: the accumulator arrives whole and rounded, whatever is late; each wait is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import (
    Kernel,
    Layout,
    ScalarType,
    SpecError,
    TensorMap,
    Tile,
    bf16,
    f16,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    s32,
    sim,
    smem,
    u32,
    u64,
)
from pyptx.ir import Instruction, Module
from tests.dsl.helpers import body_of, in_kernel

epilogue = kit.wgmma_epilogue
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("starve:tma", 0)]
NUMPY = {f32: np.float32, bf16: ml_dtypes.bfloat16, f16: np.float16}
GROUPS = 2  # warpgroups, one above the other
ROWS = 64 * GROUPS


def filled(columns: int, dtype: ScalarType, tile: Tile, body: Callable[[Any, Any, Any], None]) -> Kernel:
    """X[ROWS, columns] into the accumulators of two warpgroups, each thread what the PTX ISA says is its
    own; then ``body(acc, D, warp)`` writes D, twice."""

    @kernel(
        in_specs=(Tile(ROWS, columns, f32),),
        out_specs=(tile,),
        block=(2 * ROWS,),
        arch="sm_90a",
        extern_smem=True,
    )
    def store(X, D):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        warp, lane = tid >> 5, tid & 31
        acc = ptx.wgmma.accumulator(n=columns)
        # Row 16 w + t / 4 (+ 8), columns 8 j + 2 (t % 4) and the next.
        corner = reg.scalar(u64)
        ptx.inst.mad.wide.u32(corner, warp * 16 + (lane >> 2), 4 * columns, X.ptr)
        ptx.inst.mad.wide.u32(corner, lane & 3, 8, corner)
        for j in range(columns // 8):
            for half in range(2):
                pair = [acc[4 * j + 2 * half], acc[4 * j + 2 * half + 1]]
                ptx.inst.ld.global_.v2.f32(pair, ptx.addr(corner, 32 * j + half * 32 * columns))
        body(acc, D, warp)

    return store


def direct(columns: int, dtype: ScalarType) -> Kernel:
    def body(acc: Any, D: Any, warp: Any) -> None:
        corner = reg.scalar(u64)
        ptx.inst.mad.wide.u32(corner, (warp >> 2) * 64, columns * dtype.nbytes, D.ptr)
        epilogue.direct(acc, corner, columns * dtype.nbytes, dtype=dtype)

    return filled(columns, dtype, Tile(ROWS, columns, dtype), body)


def through_shared(columns: int, dtype: ScalarType, stages: int, times: int = 2) -> Kernel:
    chunk = 128 // dtype.nbytes
    tile = Tile(times * ROWS, columns, dtype, Layout.TMA_128B, tma_box=(epilogue.ROWS, chunk))

    def body(acc: Any, D: Any, warp: Any) -> None:
        staging = smem.alloc((epilogue.ROWS * 4 * GROUPS, chunk), dtype, swizzle="128B", stages=stages)
        leader = ptx.warp.elect()
        with ptx.for_(0, times * ROWS, ROWS) as first:  # as a persistent kernel does
            corner = (0, (warp >> 2) * 64 + first)
            epilogue.through_shared(acc, staging, D.tma_desc(), corner, warp=warp, leader=leader)
        epilogue.settle(leader)

    return filled(columns, dtype, tile, body)


def wrong(store: Kernel, schedule: str, seed: int, module: Module | None = None) -> str:
    """What is wrong with numbers of many magnitudes, halves and a NaN; empty if nothing."""
    columns, tile = store.options.specs[0].dims[1], store.options.specs[1]
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((ROWS, columns)) * 2.0 ** rng.integers(-20, 14, (ROWS, columns))).astype(
        np.float32
    )
    x.ravel()[:4] = [1.00390625, 1.01171875, 2.0**-149, np.nan]
    with np.errstate(over="ignore"):
        expected = np.tile(x.astype(NUMPY[tile.dtype]), (tile.dims[0] // ROWS, 1))
    out = np.full((tile.dims[0], columns), 7, NUMPY[tile.dtype])
    if module is None:
        report = store.simulate(x, out=out, schedule=schedule, seed=seed, sanitize="strict")
    else:
        arguments = [x, TensorMap.tiled(out, box=tile.tma_box, swizzle="128B")]
        report = sim.load(module).launch(
            grid=1, block=2 * ROWS, dynamic_smem=200_000, args=arguments, schedule=schedule, seed=seed
        )
    if report.verdict != "clean":
        return str(report)
    bits = {4: np.uint32, 2: np.uint16}[tile.dtype.nbytes]
    number = ~np.isnan(expected.astype(np.float32))
    same = (
        np.array_equal(out.view(bits)[number], expected.view(bits)[number])
        and np.isnan(out.astype(np.float32)[~number]).all()
    )
    return "" if same else "values"


@pytest.mark.parametrize(("columns", "dtype"), [(64, f32), (24, bf16), (8, f16)])
def test_direct(columns: int, dtype: ScalarType) -> None:
    store = direct(columns, dtype)
    assert not wrong(store, "eager", 0)
    assert not wrong(store, "random", 1)


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (9, 24), (64, 10), (0, 24), (20, 40)])
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_direct_stores_only_the_given_rows_and_columns(rows: int, columns: int, dtype: ScalarType) -> None:
    width = 24

    def body(acc: Any, D: Any, warp: Any) -> None:
        corner = reg.scalar(u64)
        ptx.inst.mad.wide.u32(corner, (warp >> 2) * 64, width * dtype.nbytes, D.ptr)
        # The second warpgroup has 64 rows fewer to store: none.
        left = reg.scalar(u32, init=rows) - (warp >> 2) * 64
        epilogue.direct(acc, corner, width * dtype.nbytes, dtype=dtype, rows=left, columns=columns)

    store = filled(width, dtype, Tile(ROWS, width, dtype), body)
    x = np.random.default_rng(0).standard_normal((ROWS, width)).astype(np.float32)
    out = np.full((ROWS, width), 7, NUMPY[dtype])
    store.simulate(x, out=out)
    expected = np.full_like(out, 7)
    expected[:rows, :columns] = x[:rows, :columns].astype(NUMPY[dtype])
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    ("swizzle", "columns", "dtype"), [("64B", 96, bf16), ("32B", 48, f16), ("64B", 48, f32)]
)
def test_narrow_boxes(swizzle: str, columns: int, dtype: ScalarType) -> None:
    chunk = int(swizzle[:-1]) // dtype.nbytes
    layout = {"64B": Layout.TMA_64B, "32B": Layout.TMA_32B}[swizzle]
    tile = Tile(ROWS, columns, dtype, layout, tma_box=(epilogue.ROWS, chunk))

    def body(acc: Any, D: Any, warp: Any) -> None:
        staging = smem.alloc((ROWS, chunk), dtype, swizzle=swizzle, stages=3)
        leader = ptx.warp.elect()
        epilogue.through_shared(acc, staging, D.tma_desc(), (0, (warp >> 2) * 64), warp=warp, leader=leader)
        epilogue.settle(leader)

    store = filled(columns, dtype, tile, body)
    x = np.random.default_rng(0).standard_normal((ROWS, columns)).astype(np.float32)
    report = store.simulate(x, schedule="late", sanitize="strict")
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs[0], x.astype(NUMPY[dtype]))


@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("dtype", [bf16, f16])
def test_packed_sums_outlive_the_accumulator(dtype: ScalarType, schedule: str) -> None:
    tile = Tile(ROWS, 128, dtype, Layout.TMA_128B, tma_box=(epilogue.ROWS, 64))

    def body(acc: Any, D: Any, warp: Any) -> None:
        staging = smem.alloc((ROWS, 64), dtype, swizzle="128B", stages=1)
        leader = ptx.warp.elect()
        packed = epilogue.Packed(128, dtype)
        packed.take(acc)
        for value in acc:
            value.set(0.0)
        corner = (0, (warp >> 2) * 64)
        epilogue.through_shared(packed, staging, D.tma_desc(), corner, warp=warp, leader=leader)
        epilogue.settle(leader)

    x = np.random.default_rng(0).standard_normal((ROWS, 128)).astype(np.float32)
    report = filled(128, dtype, tile, body).simulate(x, schedule=schedule, sanitize="strict")
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs[0], x.astype(NUMPY[dtype]))


@pytest.mark.parametrize("columns", [120, 104, 96, 72])
@pytest.mark.parametrize("is_fewer", [True, False])
def test_the_last_box_of_fewer_columns_ends_where_they_end(is_fewer: bool, columns: int) -> None:
    tile = Tile(ROWS, 128, bf16, Layout.TMA_128B, tma_box=(epilogue.ROWS, 64))

    def body(acc: Any, D: Any, warp: Any) -> None:
        staging = smem.alloc((ROWS, 64), bf16, swizzle="128B", stages=2)
        leader = ptx.warp.elect()
        packed = epilogue.Packed(128, bf16)
        taken = ptx.wgmma.accumulator(n=columns) if is_fewer else acc
        if is_fewer:
            for value, given in zip(taken, acc[: len(taken)], strict=True):
                value.set(given)
        packed.take(taken)
        which = warp < 64 if is_fewer else warp >= 64
        corner = (0, (warp >> 2) * 64)
        epilogue.through_shared(
            packed, staging, D.tma_desc(), corner, warp=warp, leader=leader, fewer=(which, columns)
        )
        epilogue.settle(leader)

    x = np.random.default_rng(0).standard_normal((ROWS, 128)).astype(np.float32)
    d = np.full((ROWS, 128), 7, NUMPY[bf16])
    report = filled(128, bf16, tile, body).simulate(x, out=d, schedule="late", sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    written = columns if is_fewer else 128
    assert np.array_equal(d[:, :written], x.astype(NUMPY[bf16])[:, :written])
    assert (d[:, written:] == 7).all()


def test_packed_refusals() -> None:
    def check() -> None:
        with pytest.raises(SpecError, match="in bf16 or f16"):
            epilogue.Packed(128, f32)
        packed = epilogue.Packed(64, bf16)
        with pytest.raises(SpecError, match="128 columns: expected 64"):
            packed.take(ptx.wgmma.accumulator(n=128))
        staging = smem.alloc((64, 64), f16, swizzle="128B", stages=1)
        with pytest.raises(SpecError, match="expected the same type"):
            epilogue.through_shared(packed, staging, reg.scalar(u64), (0, 0), warp=0, leader=ptx.warp.elect())
        wide, which = epilogue.Packed(128, f16), ptx.special.tid.x() < 64
        for given, columns in ((wide, 64), (wide, 128), (wide, 100), (ptx.wgmma.accumulator(n=128), 96)):
            with pytest.raises(SpecError, match=f"fewer columns are {columns}"):
                epilogue.through_shared(
                    given,
                    staging,
                    reg.scalar(u64),
                    (0, 0),
                    warp=0,
                    leader=ptx.warp.elect(),
                    fewer=(which, columns),
                )

    in_kernel(check, arch="sm_90a", extern_smem=True)


def test_apply_gets_rows_and_columns() -> None:
    tile = Tile(ROWS, 64, f32, Layout.TMA_128B, tma_box=(epilogue.ROWS, 32))

    def numbers(values: Any, row: Any, column: Any) -> None:
        for i, value in enumerate(values):
            ptx.inst.cvt.rn.f32.u32(value, (row + 8 * (i >> 1)) * 1024 + (column + (i & 1)))

    def body(acc: Any, D: Any, warp: Any) -> None:
        staging = smem.alloc((ROWS, 32), f32, swizzle="128B", stages=2)
        leader = ptx.warp.elect()
        corner = (0, (warp >> 2) * 64)
        epilogue.through_shared(acc, staging, D.tma_desc(), corner, warp=warp, leader=leader, apply=numbers)
        epilogue.settle(leader)

    report = filled(64, f32, tile, body).simulate(np.zeros((ROWS, 64), np.float32), sanitize="strict")
    assert report.verdict == "clean", str(report)
    rows, columns = np.mgrid[:ROWS, :64]
    assert np.array_equal(report.outputs[0], (rows * 1024 + columns).astype(np.float32))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(("columns", "dtype", "stages"), [(128, f32, 2), (128, bf16, 2), (64, f16, 1)])
def test_through_shared(columns: int, dtype: ScalarType, stages: int, schedule: str, seed: int) -> None:
    assert not wrong(through_shared(columns, dtype, stages), schedule, seed)


def test_through_shared_to_a_map_of_more_dimensions() -> None:
    """The rows of D are two batches of 64 positions of a head, as attention stores them."""
    columns, dtype = 64, bf16
    tile = Tile(ROWS, columns, dtype)
    boxes = Tile(
        ROWS,
        columns,
        dtype,
        Layout.TMA_128B,
        tma_box=(1, epilogue.ROWS, 64),
        tma_shape=(ROWS // 64, 64, columns),
        tma_strides=(64 * columns * 2, columns * 2, 2),
    )
    assert boxes.dims == tile.dims

    def body(acc: Any, D: Any, warp: Any) -> None:
        staging = smem.alloc((epilogue.ROWS * 4 * GROUPS, 64), dtype, swizzle="128B", stages=1)
        leader = ptx.warp.elect()
        epilogue.through_shared(
            acc,
            staging,
            D.tma_desc(),
            (0, (warp >> 2) * 64),
            warp=warp,
            leader=leader,
            beyond=lambda row: (row & 63, row >> 6),
        )
        epilogue.settle(leader)

    assert not wrong(filled(columns, dtype, boxes, body), "late", 0)


def _drop(module: Module, opcode: str, *words: str) -> Module:
    """The module without its instructions of this opcode with these modifiers (at least one)."""
    function = module.functions[0]
    body = tuple(
        s
        for s in function.body
        if not (isinstance(s, Instruction) and s.opcode == opcode and set(words) <= set(s.modifiers))
    )
    assert len(body) < len(function.body)
    return replace(module, functions=(replace(function, body=body),))


def test_the_wait_until_read_is_needed() -> None:
    """Without it, some schedule overwrites a box that the engine has not read."""
    store = through_shared(128, bf16, 1)
    module = _drop(store.module(), "cp", "wait_group", "read")
    assert any(wrong(store, schedule, seed, module) for schedule, seed in SCHEDULES)


def test_what_it_records() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(n=8)
        epilogue.direct(acc, reg.scalar(u64, init=0), 64, dtype=bf16)

    recorded = [line for line in body_of(body) if not line.startswith("mov.u64")]
    assert len(recorded) == 8 + 3 + 2 * 2
    assert recorded[-4:] == [
        "cvt.rn.bf16x2.f32 %packed, %acc1, %acc0;",
        "st.global.b32 [%upper], %packed;",
        "cvt.rn.bf16x2.f32 %packed_1, %acc3, %acc2;",
        "st.global.b32 [%lower], %packed_1;",
    ]


def test_refusals() -> None:
    def check() -> None:
        warp, leader = ptx.special.tid.x() >> 5, ptx.warp.elect()
        acc = ptx.wgmma.accumulator(n=64)
        place = reg.scalar(u64, init=0)
        for bad, words in (
            (acc[:8], "expected a whole f32 accumulator"),
            (ptx.wgmma.accumulator(n=64, dtype=s32), "expected a whole f32 accumulator"),
            (ptx.mma.fragment("d", "m16n8k16", f32), "expected a whole f32 accumulator"),
        ):
            with pytest.raises(SpecError, match=words):
                epilogue.direct(bad, place, 256)
        with pytest.raises(SpecError, match="can write f32, bf16, f16, not"):
            epilogue.direct(acc, place, 256, dtype=s32)
        tile = smem.alloc((128, 64), bf16, swizzle="128B")
        for staging in (
            tile,
            smem.alloc((128, 64), bf16, stages=2),
            smem.alloc((120, 64), bf16, swizzle="128B", stages=2),
            smem.alloc((128, 32), bf16, swizzle="128B", stages=2),
        ):
            with pytest.raises(SpecError, match="expected stages of 16 rows of 64 bf16 for each warp"):
                epilogue.through_shared(acc, staging, place, (0, 0), warp=warp, leader=leader)  # type: ignore[arg-type]
        narrow = ptx.wgmma.accumulator(n=48)
        staging = smem.alloc((128, 64), bf16, swizzle="128B", stages=1)
        with pytest.raises(SpecError, match="48 columns: expected a multiple of 64"):
            epilogue.through_shared(narrow, staging, place, (0, 0), warp=warp, leader=leader)  # type: ignore[arg-type]
        odd = ptx.wgmma.accumulator(n=192)
        staging = smem.alloc((128, 64), bf16, swizzle="128B", stages=2)
        with pytest.raises(
            SpecError, match="3 boxes are not a multiple of 2 stages: the next call would write a stage"
        ):
            epilogue.through_shared(odd, staging, place, (0, 0), warp=warp, leader=leader)  # type: ignore[arg-type]

    in_kernel(check)
