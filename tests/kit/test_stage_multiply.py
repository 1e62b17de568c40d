"""The products of a stage: what is recorded, and that a stage of every kind, major and swizzle is multiplied right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import (
    Kernel,
    Layout,
    ScalarType,
    SpecError,
    Tile,
    b32,
    b64,
    bf16,
    f16,
    f32,
    kernel,
    kit,
    ptx,
    reg,
    smem,
    u32,
)
from pyptx.core.types import TYPES, e4m3, e5m2, tf32
from pyptx.toolchain import Tool
from tests.dsl.helpers import body_of, in_kernel

s8, s32 = TYPES["s8"], TYPES["s32"]
M, N = 128, 48
LAYOUTS = {"32B": (Layout.TMA_32B, 32), "64B": (Layout.TMA_64B, 64), "128B": (Layout.TMA_128B, 128)}
LAYOUTS["128B_ATOM_32B"] = (Layout.TMA_128B_ATOM_32B, 128)
NUMPY = {
    bf16: ml_dtypes.bfloat16,
    f16: np.float16,
    f32: np.float32,
    e4m3: ml_dtypes.float8_e4m3fn,
    e5m2: ml_dtypes.float8_e5m2,
    s8: np.int8,
}


def _operand(rows: int, k: int, dtype: ScalarType, major: str, swizzle: str) -> tuple[Tile, tuple[int, int]]:
    """The spec of a matrix with ``k`` elements of K, and the boxes' number and extent along memory."""
    layout, span = LAYOUTS[swizzle]
    width = span // dtype.nbytes
    if major == "K":
        return Tile(rows, k, dtype, layout, tma_box=(rows, width)), (k // width, rows)
    return Tile(k, rows, dtype, layout, tma_box=(k, width)), (rows // width, k)


def product(
    k: int,
    *,
    kind: str = "f16",
    a: ScalarType = bf16,
    b: ScalarType | None = None,
    a_type: ScalarType | None = None,
    a_major: str = "K",
    b_major: str = "K",
    swizzle: str | tuple[str, str] = "128B",
    stage: int | str = 1,
    n: int = N,
    parts: int = 1,
    arch: str = "sm_100a",
) -> Kernel:
    """D[128, n] = A @ B.T, with all of K in one stage, the second of two."""
    b = b or a
    out = s32 if kind == "i8" else f32
    swizzles = (swizzle, swizzle) if isinstance(swizzle, str) else swizzle
    specs = [_operand(M, k, a, a_major, swizzles[0]), _operand(n, k, b, b_major, swizzles[1])]

    @kernel(in_specs=[spec for spec, _ in specs], out_specs=(Tile(M, n, out),), block=128, arch=arch)
    def one(A, B, D):  # type: ignore[no-untyped-def]
        warp = ptx.warp.shfl_idx(ptx.special.tid.x() >> 5, 0)
        tiles = [
            smem.alloc((count * rows, spec.tma_box[1]), spec.dtype, swizzle=spec.layout.swizzle, stages=2)
            for spec, (count, rows) in specs
        ]
        loaded, done, slot = smem.alloc(1, b64), smem.alloc(1, b64), smem.alloc(1, b32)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(loaded, 1)
            ptx.mbarrier.init(done, 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(warp == 1):
            ptx.tcgen05.alloc(slot, 128)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, slot)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.arrive_expect_tx(loaded, tiles[0].nbytes + tiles[1].nbytes)
            for tile, tensor, (spec, (count, rows)) in zip(tiles, (A, B), specs, strict=True):
                for box in range(count):
                    ptx.cp.async_.bulk.tensor_2d(
                        dst=tile[1].rows(box * rows, rows),
                        src=tensor.tma_desc(),
                        coord=(box * spec.tma_box[1], 0),
                        mbar=loaded,
                    )
            multiply = kit.StageMultiply(
                *tiles,
                m=M,
                n=n,
                k=k,
                kind=kind,
                a_type=a_type,
                b_type=a_type,
                a_major=a_major,
                b_major=b_major,
                parts=parts,
            )
            ptx.mbarrier.wait(loaded, 0)
            number = reg.scalar(u32, init=stage) if isinstance(stage, str) else stage
            multiply(tmem, number, accumulate=False)
            ptx.tcgen05.commit(done)
        ptx.warp.sync()
        ptx.mbarrier.wait(done, 0)
        ptx.tcgen05.fence_after_thread_sync()
        row = D.at(ptx.special.tid.x(), 0)
        words = reg.array(b32, n)
        for column in range(0, n, 16):
            ptx.tcgen05.ld(words[column : column + 16], ptx.addr(tmem + (warp << 21), column), count=16)
        ptx.tcgen05.wait_ld()
        for column in range(0, n, 4):
            ptx.inst.st.global_.v4.b32(
                ptx.addr(row.base, row.offset + 4 * column), words[column : column + 4]
            )
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 1):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, 128)

    return one


TF32 = {"kind": "tf32", "a": f32, "a_type": tf32}
CASES: list[dict[str, Any]] = [
    {"k": 64},
    {"k": 64, "n": 96, "parts": 3},
    {"k": 128, "n": 64, "parts": 4, "kind": "f8f6f4", "a": e4m3},
    {"k": 128, "a": f16},
    {"k": 64, "swizzle": "64B"},
    {"k": 32, "swizzle": "32B"},
    {"k": 32, **TF32},
    {"k": 128, "kind": "f8f6f4", "a": e4m3},
    {"k": 256, "kind": "f8f6f4", "a": e5m2, "b": e4m3, "n": 32},
    {"k": 128, "kind": "i8", "a": s8},
    {"k": 64, "a_major": "MN", "n": 64},
    {"k": 64, "b_major": "MN", "n": 64},
    {"k": 48, "a_major": "MN", "b_major": "MN", "n": 64, "a": f16},
    {"k": 32, "a_major": "MN", "b_major": "MN", "n": 96, "swizzle": "64B"},
    {"k": 64, "kind": "f8f6f4", "a": e4m3, "a_major": "MN", "b_major": "MN", "n": 128},
    {"k": 40, "a_major": "MN", "b_major": "MN", "n": 96, "swizzle": "128B_ATOM_32B", **TF32},
    {"k": 32, "a_major": "MN", "n": 64, "swizzle": ("128B_ATOM_32B", "128B"), **TF32},
    {"k": 64, "b_major": "MN", "n": 64, "swizzle": ("64B", "128B_ATOM_32B"), **TF32},
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_products_of_every_kind(case: dict[str, Any]) -> None:
    """Small integers, whose products and sums every type holds exactly."""
    one = product(**case)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, spec.dims).astype(NUMPY[spec.dtype]) for spec in one.options.specs[:2]]
    wide = [x.astype(np.float64) for x in arrays]
    a = wide[0].T if case.get("a_major") == "MN" else wide[0]
    b = wide[1].T if case.get("b_major") == "MN" else wide[1]
    report = one.simulate(*arrays, schedule="late", sanitize="strict")
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs[0].astype(np.float64), a @ b.T)


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_every_kind_assembles(case: dict[str, Any], ptxas: Tool) -> None:
    for arch in ("sm_100a", "sm_103a"):
        if (arch, case.get("kind")) == ("sm_103a", "i8"):
            continue  # sm_103a has no kind::i8
        assembly = product(**case, arch=arch).assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes


def test_what_it_records() -> None:
    def body() -> None:
        a = smem.alloc((128, 64), bf16, swizzle="128B", stages=3)
        b = smem.alloc((64, 64), bf16, swizzle="128B", stages=3)
        multiply = kit.StageMultiply(a, b, m=128, n=64, k=64)
        assert multiply.idesc == 0x08100490 and multiply.steps == 4
        multiply(reg.scalar(b32, init=0), reg.scalar(u32, init=2), accumulate=False)

    opcodes = [line.split()[0] for line in body_of(body)]
    at = opcodes.index("mad.lo.u32")
    assert opcodes[at:] == [
        *["mad.lo.u32", "mov.b64"] * 2,
        *["add.u64"] * 3,  # A's descriptors
        "tcgen05.mma.cta_group::1.kind::f16",
        *["add.u64", "tcgen05.mma.cta_group::1.kind::f16"] * 3,
    ]
    assert opcodes.count("shr.u32") == opcodes.count("or.b64") == 2
    assert (
        opcodes.count("mov.b64") == 4
    )  # each descriptor of stage 0 is taken apart, each of the stage put together
    mmas = [line for line in body_of(body) if "mma" in line]
    assert mmas[0].endswith("0;") and all(line.endswith("1;") for line in mmas[1:])


def test_another_descriptor() -> None:
    """Tiles with fewer columns: the same products, with an instruction descriptor of their own."""

    def body() -> None:
        a = smem.alloc((128, 64), bf16, swizzle="128B", stages=2)
        b = smem.alloc((64, 64), bf16, swizzle="128B", stages=2)
        multiply = kit.StageMultiply(a, b, m=128, n=64, k=64)
        chosen = reg.scalar(b32)
        multiply(reg.scalar(b32), 1, idesc=chosen)

    products = [line for line in body_of(body, arch="sm_100a") if "tcgen05.mma" in line]
    assert len(products) == 4 and all(", %chosen, 1;" in line for line in products)


def test_refusals() -> None:
    def check() -> None:
        a = smem.alloc((128, 64), bf16, swizzle="128B", stages=2)
        b = smem.alloc((64, 64), bf16, swizzle="128B", stages=2)
        for options, words in (
            ({"k": 72}, "multiple of 16"),
            ({"k": 128}, "16384 bytes, but 128 rows of 128 elements"),
            ({"m": 256, "cta_group": 2}, "b is"),
            ({"n": 512}, "512"),
            ({"parts": 3}, "divides the 64 columns"),
            ({"parts": 0}, "parts is 0"),
            ({"parts": 2, "b_major": "MN"}, "as wide as its swizzle"),
        ):
            with pytest.raises(SpecError, match=words):
                kit.StageMultiply(a, b, **{"m": 128, "n": 64, "k": 64, **options})  # type: ignore[arg-type]

    in_kernel(check)


def test_parts_record_what_precedes_them() -> None:
    parts: list[int] = []

    def body() -> None:
        a = smem.alloc((128, 64), bf16, swizzle="128B", stages=3)
        b = smem.alloc((64, 64), bf16, swizzle="128B", stages=3)
        multiply = kit.StageMultiply(a, b, m=128, n=64, k=64, parts=2)
        multiply(reg.scalar(b32, init=0), 0, before=parts.append)

    lines = body_of(body)
    assert parts == [0, 1]
    places = [line.split("[")[1].split("]")[0] for line in lines if "tcgen05.mma" in line]
    assert places[0] == places[3] != places[4] == places[7]
