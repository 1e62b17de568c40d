"""Epilogues: the accumulator arrives whole and rounded, whatever is late; each of their waits is needed."""

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
    PyptxError,
    ScalarType,
    SpecError,
    TensorMap,
    Tile,
    b32,
    bf16,
    e4m3,
    e5m2,
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
from pyptx.toolchain import Tool
from tests.dsl.helpers import in_kernel

pytestmark = pytest.mark.one_in(2)

SCHEDULES = [
    ("eager", 0),
    ("late", 0),
    *(("random", n) for n in range(3)),
    ("starve:tma", 0),
    ("starve:ld", 0),
]
NUMPY = {
    f32: np.float32,
    bf16: ml_dtypes.bfloat16,
    f16: np.float16,
    e4m3: ml_dtypes.float8_e4m3fn,
    e5m2: ml_dtypes.float8_e5m2,
}
SWIZZLES = {"none": Layout.TMA_NONE, "32B": Layout.TMA_32B, "64B": Layout.TMA_64B, "128B": Layout.TMA_128B}
LANES = 128


def through(
    columns: int,
    dtype: ScalarType,
    body: Callable[[Any, Any, Any, Any], None],
    box: tuple[int, int] | None,
    swizzle: str,
) -> Kernel:
    """X[128, columns] to tensor memory, then ``body(tmem, D, warp, row)`` writes it to D of another type."""
    tile = Tile(LANES, columns, dtype)
    if box is not None:
        tile = Tile(LANES, columns, dtype, SWIZZLES[swizzle], tma_box=box)
    allocated = max(32, 1 << (columns - 1).bit_length())

    @kernel(
        in_specs=(Tile(LANES, columns, f32),),
        out_specs=(tile,),
        block=(LANES,),
    )
    def copy(X, D):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        warp = tid >> 5
        slot = smem.alloc(1, b32)
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot, allocated)
        ptx.bar.sync(0)
        tmem = smem.load(b32, slot) + (warp << 21)
        source, row = reg.scalar(u64), reg.scalar(u64)
        ptx.inst.mad.wide.u32(source, tid, 4 * columns, X.ptr)
        if box is None:
            ptx.inst.mad.wide.u32(row, tid, dtype.nbytes * columns, D.ptr)
        value = reg.scalar(b32)
        for column in range(columns):
            ptx.inst.ld.global_.b32(value, ptx.addr(source, 4 * column))
            ptx.tcgen05.st(ptx.addr(tmem, column), [value])
        ptx.tcgen05.wait_st()
        body(tmem, D, warp, row)
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(smem.load(b32, slot), allocated)

    return copy


def direct(columns: int, dtype: ScalarType, chunk: int) -> Kernel:
    def body(tmem: Any, D: Any, warp: Any, row: Any) -> None:
        kit.tcgen05_epilogue.direct(tmem, row, columns, dtype=dtype, chunk=chunk)

    return through(columns, dtype, body, None, "none")


def through_shared(columns: int, dtype: ScalarType, chunk: int, swizzle: str, stages: int | None) -> Kernel:
    def body(tmem: Any, D: Any, warp: Any, row: Any) -> None:
        staging = smem.alloc((LANES, chunk), dtype, align=128, swizzle=swizzle, stages=stages)
        kit.tcgen05_epilogue.through_shared(
            tmem, staging, D.tma_desc(), (0, warp * 32), columns, first=warp * 32
        )

    return through(columns, dtype, body, (32, chunk), swizzle)


def wrong(copy: Kernel, schedule: str, seed: int, module: Module | None = None) -> str:
    """What is wrong with the copy of numbers of many magnitudes, halves and a NaN; empty if nothing."""
    columns, dtype = copy.options.specs[0].dims[1], copy.options.specs[1].dtype
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((LANES, columns)) * 2.0 ** rng.integers(-20, 14, (LANES, columns))).astype(
        np.float32
    )
    x.ravel()[:4] = [1.00390625, 1.01171875, 2.0**-149, np.nan]
    with np.errstate(over="ignore"):
        expected = x.astype(NUMPY[dtype])
    out = np.full((LANES, columns), 7, NUMPY[dtype])
    if module is None:
        report = copy.simulate(x, out=out, schedule=schedule, seed=seed, sanitize="strict")
    else:
        tile = copy.options.specs[1]
        arguments = [x, TensorMap.tiled(out, box=tile.tma_box, swizzle=tile.layout.swizzle)]
        report = sim.load(module).launch(grid=1, block=LANES, args=arguments, schedule=schedule, seed=seed)
    if report.verdict != "clean":
        return str(report)
    bits = {4: np.uint32, 2: np.uint16}[dtype.nbytes]
    number = ~np.isnan(expected.astype(np.float32))
    same = (
        np.array_equal(out.view(bits)[number], expected.view(bits)[number])
        and np.isnan(out.astype(np.float32)[~number]).all()
    )
    return "" if same else "values"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("columns", "dtype", "chunk"), [(32, f32, 32), (64, bf16, 16), (24, f16, 8), (12, f32, 4)]
)
def test_direct(columns: int, dtype: ScalarType, chunk: int, schedule: str, seed: int) -> None:
    assert not wrong(direct(columns, dtype, chunk), schedule, seed)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    ("columns", "dtype", "chunk", "swizzle", "stages"),
    [
        (64, f32, 32, "128B", 2),
        (96, f32, 32, "128B", None),
        (128, bf16, 64, "128B", 3),
        (64, f16, 32, "64B", 2),
        (48, bf16, 16, "32B", 2),
        (32, f32, 8, "none", 2),
    ],
)
def test_through_shared(
    columns: int, dtype: ScalarType, chunk: int, swizzle: str, stages: int | None, schedule: str, seed: int
) -> None:
    assert not wrong(through_shared(columns, dtype, chunk, swizzle, stages), schedule, seed)


def together(
    columns: int, dtype: ScalarType, chunk: int, swizzle: str, stages: int, calls: int = 1, boxes: int = 1
) -> Kernel:
    """Rows by a warpgroup, in several calls that go on with the ring of stages, and in several boxes."""

    def body(tmem: Any, D: Any, warp: Any, row: Any) -> None:
        staging = smem.alloc((LANES, chunk), dtype, align=128, swizzle=swizzle, stages=stages)
        store = kit.tcgen05_epilogue.WarpgroupStore(staging, D.tma_desc(), kit.warp_index())
        width, height = columns // calls, LANES // boxes
        for call in range(calls):
            store(tmem + call * width, [(call * width, i * height) for i in range(boxes)], width)
        store.settle()

    return through(columns, dtype, body, (LANES // boxes, chunk), swizzle)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("schedule", "seed"), [("late", 0), ("random", 1), ("starve:tma", 0)])
@pytest.mark.parametrize(
    ("columns", "dtype", "chunk", "swizzle", "stages", "calls", "boxes"),
    [
        (96, f16, 32, "64B", 2, 1, 1),
        (96, f32, 32, "128B", 1, 1, 2),
        (96, bf16, 16, "32B", 4, 2, 4),
        (40, f32, 8, "none", 3, 1, 1),
    ],
)
def test_a_warpgroup_s_store(
    columns: int,
    dtype: ScalarType,
    chunk: int,
    swizzle: str,
    stages: int,
    calls: int,
    boxes: int,
    schedule: str,
    seed: int,
) -> None:
    assert not wrong(together(columns, dtype, chunk, swizzle, stages, calls, boxes), schedule, seed)


@pytest.mark.full
@pytest.mark.parametrize("name", ["wait_group", "sync"])
def test_a_warpgroup_s_waits_are_needed(name: str) -> None:
    """Without the wait for the reads of earlier copies, or the barriers, some schedule shows other values."""
    copy = together(128, f32, 32, "128B", 2)
    broken = _without(
        copy.module(), lambda i: name in i.modifiers and (i.opcode != "bar" or len(i.operands) == 2)
    )
    assert any(wrong(copy, *which, module=broken) for which in SCHEDULES)


def _without(module: Module, drop: Callable[[Instruction], bool]) -> Module:
    function = module.functions[0]
    body = tuple(s for s in function.body if not (isinstance(s, Instruction) and drop(s)))
    assert len(body) < len(function.body)
    return replace(module, functions=(replace(function, body=body),))


@pytest.mark.full
def test_a_stage_is_not_overwritten_while_it_is_read() -> None:
    """Without the wait for the reads of earlier copies, some schedule shows another chunk's values."""
    copy = through_shared(128, f32, 32, "128B", 2)
    assert not any(wrong(copy, *which, module=copy.module()) for which in SCHEDULES)
    broken = _without(copy.module(), lambda i: "wait_group" in i.modifiers)
    assert any(wrong(copy, *which, module=broken) for which in SCHEDULES)


@pytest.mark.parametrize("dtype", [f32, bf16, f16])
def test_assembles_without_spills_or_warnings(dtype: ScalarType, ptxas: Tool) -> None:
    for copy in (direct(64, dtype, 64), through_shared(128, dtype, 64 // dtype.nbytes, "64B", 2)):
        assembly = copy.assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_the_swizzle_spreads_a_warp_over_all_banks() -> None:
    """The eight lanes that store together hit 32 different banks: each place of a 128-byte row once."""
    rows = np.arange(32) * 128
    for piece in range(8):
        place = (rows ^ ((rows >> 7 & 7) << 4)) ^ (16 * piece)
        for first in range(0, 32, 8):
            assert len({int(a) % 128 for a in place[first : first + 8]}) == 8


def test_how_many_instructions() -> None:
    def count(dtype: ScalarType, columns: int, chunk: int) -> int:
        names = [i.opcode for i in direct(columns, dtype, chunk).module().functions[0].instructions()]
        return names.count("st") + names.count("cvt")

    assert count(f32, 64, 32) == 64 // 4
    assert count(bf16, 64, 32) == 64 // 8 + 64 // 2


def test_refusals() -> None:
    def refused(call: Callable[[], object], *words: str) -> None:
        with pytest.raises(PyptxError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), caught.value

    def check() -> None:
        tmem, row = reg.scalar(u32), reg.scalar(u64)
        refused(lambda: kit.tcgen05_epilogue.direct(tmem, row, 64, dtype=u32), "f32, bf16, f16", "u32")
        direct = kit.tcgen05_epilogue.direct
        refused(lambda: direct(tmem, row, 64, chunk=48), "48", "1..128")
        refused(lambda: direct(tmem, row, 64, dtype=bf16, chunk=4), "chunk is 4", "8 columns")
        refused(lambda: direct(tmem, row, 98), "columns is 98", "multiple of 4")
        refused(lambda: direct(tmem, row, 0, chunk=64), "columns is 0")
        refused(lambda: direct(tmem, row, 64, align=2), "align is 2 for f32")
        refused(lambda: direct(tmem, row, 64, align=12), "align is 12")
        refused(lambda: direct(tmem, row, 64, dtype=e4m3, align=2), "align is 2 for e4m3")
        staging = smem.alloc((32, 32), f32, swizzle="128B", stages=2)
        through = kit.tcgen05_epilogue.through_shared
        refused(lambda: through(tmem, staging, row, (0, 0), 48), "columns is 48")  # type: ignore[arg-type]
        refused(
            lambda: through(tmem, staging, row, (0, 0), 96, drain=False),  # type: ignore[arg-type]
            "3 chunks are not a multiple of 2 stages",
        )
        refused(lambda: through(tmem, staging, row, (0,), 64), "2 to 5 coordinates")  # type: ignore[arg-type]
        group = kit.tcgen05_epilogue.WarpgroupStore
        refused(lambda: group(staging, row, tmem), "(128, chunk)")  # type: ignore[arg-type]
        thin = smem.alloc((LANES, 2), f32, stages=2)
        refused(lambda: group(thin, row, tmem), "chunk is 2 columns")  # type: ignore[arg-type]
        store = group(smem.alloc((LANES, 8), f32, stages=2), row, tmem)  # type: ignore[arg-type]
        refused(lambda: store(tmem, [(0, 0)], 20), "columns is 20", "the chunk, 8")
        refused(lambda: store(tmem, [(0, 0)] * 3, 16), "3 boxes")
        narrow = smem.alloc((16, 32), f32, swizzle="128B")
        with pytest.raises(SpecError, match="32 rows for each warp"):
            kit.tcgen05_epilogue.through_shared(tmem, narrow, row, (0, 0), 64)  # type: ignore[arg-type]

    in_kernel(check)
    with pytest.raises(PyptxError, match="the box"):
        # A box of more columns than the buffer has.
        def body(tmem: Any, D: Any, warp: Any, row: Any) -> None:
            staging = smem.alloc((LANES, 16), f32, align=128)
            kit.tcgen05_epilogue.through_shared(tmem, staging, D.tma_desc(), (0, 0), 64)

        through(64, f32, body, (32, 32), "none").ptx()


# --- any width and alignment, guards, functions of the author -------------------------------------


def _stored(
    columns: int, dtype: ScalarType, shape: tuple[int, int], store: Callable[..., None], **spec: Any
) -> tuple[np.ndarray, np.ndarray]:
    """X[128, columns], and the D of ``shape`` that ``store(tmem, D, warp, thread)`` has written of it.

    Where nothing was written D holds 77. The numbers are those that every type holds.
    """
    allocated = max(32, 1 << (columns - 1).bit_length())

    @kernel(in_specs=(Tile(LANES, columns, f32),), out_specs=(Tile(*shape, dtype, **spec),), block=LANES)
    def copy(X, D):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        warp = tid >> 5
        slot = smem.alloc(1, b32)
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot, allocated)
        ptx.bar.sync(0)
        tmem = smem.load(b32, slot) + (warp << 21)
        value = reg.scalar(b32)
        for column in range(columns):
            ptx.inst.ld.global_.b32(value, X.at(tid, column))
            ptx.tcgen05.st(ptx.addr(tmem, column), [value])
        ptx.tcgen05.wait_st()
        store(tmem, D, warp, tid)
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(smem.load(b32, slot), allocated)

    x = np.random.default_rng(columns).integers(-8, 9, (LANES, columns)).astype(np.float32)
    d = np.full(shape, 77, NUMPY[dtype])
    report = copy.simulate(x, out=d, schedule="late", sanitize="strict")
    assert report.verdict == "clean", str(report)
    return x, d.astype(np.float32)


@pytest.mark.parametrize(
    ("columns", "dtype", "align"),
    [(20, f32, 16), (37, f32, 4), (50, f16, 4), (33, bf16, 2), (38, bf16, 4), (44, e4m3, 4), (56, e5m2, 8)],
)
@pytest.mark.parametrize("chunk", [16, 32])
def test_any_width(columns: int, dtype: ScalarType, align: int, chunk: int) -> None:
    def store(tmem: Any, D: Any, warp: Any, thread: Any) -> None:
        row = D.at(thread, 0).base
        kit.tcgen05_epilogue.direct(tmem, row, columns, dtype=dtype, align=align, chunk=chunk)

    x, d = _stored(columns, dtype, (LANES, columns), store)
    assert np.array_equal(d, x)


@pytest.mark.parametrize(("rows", "limit"), [(128, 24), (100, 24), (3, 20), (100, 4), (1, 0), (77, -8)])
def test_guards(rows: int, limit: int) -> None:
    """Rows beyond ``inside`` and columns beyond ``limit`` are left as they were."""

    def store(tmem: Any, D: Any, warp: Any, thread: Any) -> None:
        left = reg.scalar(s32, init=limit)
        row = D.at(thread, 0).base
        kit.tcgen05_epilogue.direct(tmem, row, 24, inside=thread < rows, limit=left)

    x, d = _stored(24, f32, (LANES, 24), store)
    expected = np.full_like(d, 77)
    expected[:rows, : max(0, limit)] = x[:rows, : max(0, limit)]
    assert np.array_equal(d, expected)


@pytest.mark.parametrize("dtype", [f32, bf16, e4m3])
@pytest.mark.parametrize("staged", [False, True])
def test_the_author_s_functions(dtype: ScalarType, staged: bool) -> None:
    """``apply`` changes the registers before they are rounded; ``read`` follows each load."""
    columns, chunk = 64, 16
    loads: list[int] = []

    def apply(values: Any, column: int) -> None:
        for i, value in enumerate(values):
            ptx.inst.fma.rn.f32(value, value, -1.0, float((column + i) % 8))

    def store(tmem: Any, D: Any, warp: Any, thread: Any) -> None:
        if not staged:
            row = D.at(thread, 0).base
            kit.tcgen05_epilogue.direct(
                tmem, row, columns, dtype=dtype, chunk=chunk, apply=apply, read=loads.append
            )
            return
        staging = smem.alloc((LANES, chunk), dtype, align=128, stages=2)
        leader = ptx.warp.elect()
        for half in range(2):  # the second call writes stages that the engine may still read
            kit.tcgen05_epilogue.through_shared(
                tmem,
                staging,
                D.tma_desc(),
                (0, warp * 32 + half * LANES),
                columns,
                first=warp * 32,
                leader=leader,
                apply=apply,
                read=loads.append,
                drain=False,
            )
        kit.tcgen05_epilogue.settle(leader)

    spec = {"layout": Layout.TMA_NONE, "tma_box": (32, chunk)} if staged else {}
    x, d = _stored(columns, dtype, (2 * LANES if staged else LANES, columns), store, **spec)
    expected = np.arange(columns) % 8 - x
    assert np.array_equal(d, np.concatenate([expected, expected]) if staged else expected)
    assert loads == [16, 32, 48, 64] * (2 if staged else 1)


def test_types_of_eight_bits_clamp() -> None:
    """Beyond the largest number of e4m3 lie 448 and -448."""
    columns = 16

    def apply(values: Any, column: int) -> None:
        for value in values:
            ptx.inst.mul.rn.f32(value, value, 100.0)

    def store(tmem: Any, D: Any, warp: Any, thread: Any) -> None:
        kit.tcgen05_epilogue.direct(tmem, D.at(thread, 0).base, columns, dtype=e4m3, apply=apply)

    x, d = _stored(columns, e4m3, (LANES, columns), store)
    expected = np.clip(100 * x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(d, expected) and (np.abs(100 * x) > 448).any()
