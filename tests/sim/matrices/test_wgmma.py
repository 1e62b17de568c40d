"""wgmma, held against the layouts of the manual and exact sums; and what happens to kernels that break its rules.

That an H200 computes the same is the business of tests/conformance.
"""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import sim
from pyptx.ir import parse_module
from pyptx.sim import Report

pytestmark = pytest.mark.one_in(2)

SCHEDULES = ("eager", "late", "random")
THREAD = np.arange(128)
WARP, GROUP, IN_GROUP = THREAD // 32, THREAD % 32 // 4, THREAD % 4
BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "b1": 1,
    "f32": 32,
    "s32": 32,
}
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
}  # fmt: skip
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
CODE = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
#: Rows of a pattern that a row of the swizzle repeats after, and how many share one permutation.
SHARE = {"32B": 4, "64B": 2, "128B": 1}
#: Where B's area begins in the kernel's shared memory.
B = 16384
#: Bytes behind the areas, for threads that do not fill them evenly.
SLACK = 1024


# --- the manual's layouts -------------------------------------------------------------------------


def place_d(i: int) -> tuple[np.ndarray, np.ndarray]:
    return 16 * WARP + GROUP + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * IN_GROUP + i % 2


def place_a(i: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    each = 32 // bits
    register, part = divmod(i, each)
    return 16 * WARP + GROUP + 8 * (register % 2), each * IN_GROUP + part + 4 * each * (register // 2)


def fragment(matrix: np.ndarray, place: Any, bits: int) -> np.ndarray:
    """Codes of a matrix of 64 rows as registers, ``uint32[128, registers]``."""
    each = 32 // bits
    elements = np.stack([matrix[place(i)] for i in range(matrix.size // 128)], -1).astype(np.uint32)
    parts = elements.reshape(128, -1, each) << np.arange(0, 32, bits, dtype=np.uint32)
    return np.bitwise_or.reduce(parts, -1)


def matrix_of(registers: np.ndarray, n: int, kind: str) -> np.ndarray:
    """D from its registers."""
    elements = registers.view(DTYPES[kind])
    result = np.zeros((64, n), DTYPES[kind])
    for i in range(n // 2):
        result[place_d(i)] = elements[:, i]
    return result


def byte_of(row: int, byte: int, swizzle: str, major: str, leading: int, stride: int) -> int:
    """Where a byte lies: of row ``row``, ``byte`` bytes along K (K-major), or of k = ``row`` along M/N."""
    if swizzle == "none":
        along, across = (leading, stride) if major == "K" else (stride, leading)
        return row // 8 * across + byte // 16 * along + row % 8 * 16 + byte % 16
    span = SPAN[swizzle]
    chunk, within = divmod(byte % span, 16)
    chunk ^= row % 8 // SHARE[swizzle]
    outer = byte // span * leading if major == "MN" else 0
    return outer + row // 8 * stride + row % 8 * span + 16 * chunk + within


def stored(matrix: np.ndarray, bits: int, swizzle: str, major: str, leading: int, stride: int) -> np.ndarray:
    """An operand's codes ``[row, k]`` as 16 KiB of shared memory."""
    lines = matrix if major == "K" else matrix.T
    if bits == 1:
        rows = np.packbits(lines.astype(np.uint8), axis=1, bitorder="little")
    else:
        rows = np.ascontiguousarray(lines.astype(f"u{bits // 8}")).view(np.uint8)
    memory = np.zeros(B, np.uint8)
    for row, byte in np.ndindex(*rows.shape):
        memory[byte_of(row, byte, swizzle, major, leading, stride)] = rows[row, byte]
    return memory


def strides(swizzle: str, major: str, lines: int) -> tuple[int, int]:
    """Leading and stride byte offset of boxes of ``lines`` rows, one after the other."""
    span = SPAN[swizzle]
    if swizzle == "none" and major == "MN":
        return 8 * span, lines * span
    return lines * span, 8 * span


def descriptor_bits(swizzle: str, leading: int, stride: int) -> int:
    return leading // 16 << 16 | stride // 16 << 32 | CODE[swizzle] << 62


def codes(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "b1":
        return values.astype(np.uint64)
    encoded = np.asarray(values).astype(DTYPES[kind])
    return encoded.view(f"u{encoded.itemsize}").astype(np.uint64)


# --- one kernel -------------------------------------------------------------------------------------


def run(
    body: str,
    image: np.ndarray,
    given: np.ndarray,
    results: int,
    *,
    kind: str = "b32",
    schedule: str = "eager",
    seed: int = 0,
    threads: int = 128,
    ctas: int = 1,
    fill: str = "all",
) -> tuple[np.ndarray, Report]:
    """Run ``body`` in a cluster of ``ctas`` CTAs.

    Before it: ``image`` lies in shared memory, ``%g0..`` hold the thread's words of ``given``, ``%area`` is the
    descriptor address field of the image, ``%t`` the thread, ``%r30`` the CTA. After it ``%c0..`` are stored.
    """
    text = f"""
.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 given, .param .u64 out)
{{
.reg .pred %p<8>;
.reg .b32 %r<32>, %g<{max(given.shape[1], 1)}>, %t;
.reg .{kind} %c<{results}>, %e<{results}>;
.reg .b64 %d<32>, %area, %x, %y;
.shared .align 1024 .b8 area[{2 * B + SLACK}];
ld.param.u64 %d0, [image];
ld.param.u64 %d1, [given];
ld.param.u64 %d2, [out];
mov.u32 %t, %tid.x;
mov.u32 %r30, %ctaid.x;
mov.u32 %r0, area;
shl.b32 %r1, %t, 2;
add.u32 %r1, %r1, %r0;
mad.wide.u32 %d3, %t, 4, %d0;
mov.u32 %r2, 0;
FILL:
ld.global.b32 %r3, [%d3];
{"@%p7 " if fill == "none" else ""}st.shared.b32 [%r1], %r3;
add.u64 %d3, %d3, {4 * threads};
add.u32 %r1, %r1, {4 * threads};
add.u32 %r2, %r2, {4 * threads};
setp.lt.u32 %p0, %r2, {2 * B};
@%p0 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
mad.wide.u32 %d1, %t, {4 * given.shape[1]}, %d1;
{"".join(f"ld.global.b32 %g{i}, [%d1+{4 * i}];{chr(10)}" for i in range(given.shape[1]))}
bfe.u32 %r0, %r0, 4, 14;
cvt.u64.u32 %area, %r0;
{body}
mad.lo.u32 %r31, %r30, {threads}, %t;
mad.wide.u32 %d2, %r31, {4 * results}, %d2;
{"".join(f"st.global.b32 [%d2+{4 * i}], %c{i};{chr(10)}" for i in range(results))}
ret;
}}
"""
    if fill == "none":
        text = text.replace("FILL:\n", "setp.ne.u32 %p7, %r2, 0;\nFILL:\n", 1)
    out = np.zeros((ctas * threads, results), np.uint32)
    image = np.concatenate([image, np.zeros(SLACK, np.uint8)])
    report = sim.load(parse_module(text)).launch(
        "k",
        grid=ctas,
        block=threads,
        cluster=ctas,
        args=[image, given, out],
        schedule=schedule,
        seed=seed,
        timeout=60.0,
    )
    return out, report


def vector(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"


FENCE, COMMIT, WAIT = (
    f"wgmma.{name}.sync.aligned{number};\n"
    for name, number in (("fence", ""), ("commit_group", ""), ("wait_group", " 0"))
)


def sums_of(kind: str) -> str:
    return "s32" if kind in ("s8", "u8", "b1") else "f32"


def operand_values(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    low, high = {"b1": (0, 2), "u8": (0, 256), "s8": (-128, 128)}.get(kind, (-4, 5))
    return rng.integers(low, high, shape)


def product(
    rng: np.random.Generator,
    kinds: tuple[str, str],
    n: int,
    *,
    total: str = "",
    swizzles: tuple[str, str] = ("none", "none"),
    majors: tuple[str, str] = ("K", "K"),
    in_registers: bool = False,
    scales: tuple[int, int] = (1, 1),
    accumulate: bool = True,
    schedule: str = "eager",
) -> tuple[np.ndarray, np.ndarray]:
    """D of one instruction on small integers, and what it should be."""
    kind_a, kind_b = kinds
    total = total or sums_of(kind_a)
    bits = BITS[kind_a]
    k = 256 // bits
    left, right = operand_values(rng, (64, k), kind_a), operand_values(rng, (n, k), kind_b)
    before = rng.integers(-50, 50, (64, n))
    areas, words = [], []
    for matrix, kind, swizzle, major in zip((left, right), kinds, swizzles, majors, strict=True):
        lines = matrix.shape[0] if major == "K" else k
        distances = strides(swizzle, major, lines)
        areas.append(stored(codes(matrix, kind), bits, swizzle, major, *distances))
        words.append(descriptor_bits(swizzle, *distances))
    d = fragment(codes(before, total), place_d, BITS[total])
    a = fragment(codes(left, kind_a), lambda i: place_a(i, bits), bits)
    floats = kind_a not in ("s8", "u8", "b1")
    extra = f", {scales[0]}, {scales[1]}" if floats else ""
    if kind_a in ("f16", "bf16"):
        extra += ("" if in_registers else f", {int(majors[0] == 'MN')}") + f", {int(majors[1] == 'MN')}"
    suffix = ".and.popc" if kind_a == "b1" else ""
    count = d.shape[1]
    body = f"""
or.b64 %x, %area, {words[0]:#x};
add.u64 %y, %area, {B // 16};
or.b64 %y, %y, {words[1]:#x};
{"".join(f"mov.b32 %c{i}, %g{4 + i};{chr(10)}" for i in range(count))}
setp.eq.u32 %p1, 0, {int(not accumulate)};
{FENCE}
wgmma.mma_async.sync.aligned.m64n{n}k{k}.{total}.{kind_a}.{kind_b}{suffix} {vector("c", count)},
{vector("g", 4) if in_registers else "%x"}, %y, %p1{extra};
{COMMIT}{WAIT}
"""
    found, report = run(
        body, np.concatenate(areas), np.hstack([a, d]), count,
        kind="f32" if total == "f32" else "b32", schedule=schedule,
    )  # fmt: skip
    assert report.verdict == "clean", report
    expected = left @ right.T * scales[0] * scales[1] + (before if accumulate else 0)
    return matrix_of(found, n, total), expected


ORDERS = list(itertools.product(("K", "MN"), repeat=2))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("swizzle", SPAN)
@pytest.mark.parametrize("majors", ORDERS)
def test_orders_of_halves(swizzle: str, majors: tuple[str, str], schedule: str) -> None:
    rng = np.random.default_rng(1)
    other = "64B" if swizzle == "128B" else "128B"
    found, expected = product(
        rng, ("f16", "f16"), 64, swizzles=(swizzle, other), majors=majors, schedule=schedule
    )
    assert (found == expected).all()
    found, expected = product(
        rng, ("bf16", "bf16"), 64, swizzles=(other, swizzle), majors=majors, schedule=schedule
    )
    assert (found == expected).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("swizzle", SPAN)
@pytest.mark.parametrize(
    "kinds",
    [
        ("tf32", "tf32"),
        ("e4m3", "e5m2"),
        ("e5m2", "e4m3"),
        ("s8", "u8"),
        ("u8", "s8"),
        ("b1", "b1"),
        ("f16", "f16"),
    ],
)
def test_types(kinds: tuple[str, str], swizzle: str, in_registers: bool) -> None:
    found, expected = product(
        np.random.default_rng(2), kinds, 32, swizzles=("32B", swizzle), in_registers=in_registers
    )
    assert (found == expected).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n", range(8, 257, 8))
def test_every_n(n: int) -> None:
    found, expected = product(
        np.random.default_rng(n), ("f16", "f16"), n, total="f16", accumulate=n % 16 == 0
    )
    assert (found == expected).all()
    if n <= 24 or n % 16 == 0:
        found, expected = product(np.random.default_rng(n), ("u8", "u8"), n)
        assert (found == expected).all()


@pytest.mark.parametrize("scales", [(-1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("kinds", [("f16", "f16"), ("tf32", "tf32"), ("e5m2", "e5m2")])
def test_negated(kinds: tuple[str, str], scales: tuple[int, int]) -> None:
    found, expected = product(
        np.random.default_rng(3), kinds, 8, scales=scales, in_registers=kinds[0] == "tf32"
    )
    assert (found == expected).all()


# --- sparse -------------------------------------------------------------------------------------------


def chunk_places(kind: str, selector: int) -> list[list[tuple[int, int]] | None]:
    """(row, chunk) of each index of four bits in each thread's metadata; None: the thread is not asked."""
    places: list[list[tuple[int, int]] | None] = []
    for thread in range(128):
        row, own = 16 * (thread // 32) + thread % 32 // 4, thread % 4
        if BITS[kind] == 8:
            places.append([(row + 8 * (own % 2), 8 * (own // 2) + i) for i in range(8)])
        elif own // 2 != selector:
            places.append(None)
        else:
            places.append([(row + 8 * (i // 4), 4 * (own % 2) + i % 4) for i in range(8)])
    return places


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize(
    ("kind", "selector"),
    [("f16", 0), ("f16", 1), ("bf16", 0), ("tf32", 0), ("tf32", 1), ("e4m3", 0), ("s8", 0)],
)
def test_sparse(kind: str, selector: int, in_registers: bool) -> None:
    rng = np.random.default_rng(4)
    n, bits, total = 16, BITS[kind], sums_of(kind)
    k = 512 // bits
    chunk, kept = (2, 1) if kind == "tf32" else (4, 2)
    dense = np.zeros((64, k), np.int64)
    packed = np.zeros((64, k // 2), np.int64)
    index = np.zeros((64, k // chunk), np.uint32)
    for row, number in np.ndindex(64, k // chunk):
        chosen = sorted(rng.permutation(chunk)[:kept])
        values = operand_values(rng, (kept,), kind)
        dense[row, chunk * number + np.array(chosen)] = values
        packed[row, kept * number : kept * number + kept] = values
        index[row, number] = (0b0100, 0b1110)[chosen[0]] if kept == 1 else chosen[0] | chosen[1] << 2
    metadata = np.full((128, 1), 0xFFFFFFFF, np.uint32)
    for thread, places in enumerate(chunk_places(kind, selector)):
        if places is not None:
            metadata[thread, 0] = sum(int(index[place]) << 4 * i for i, place in enumerate(places))
    right = operand_values(rng, (n, k), kind)
    areas = [
        stored(codes(packed, kind), bits, "32B", "K", 16, 256),
        stored(codes(right, kind), bits, "64B", "K", 16, 512),
    ]
    a = fragment(codes(packed, kind), lambda i: place_a(i, bits), bits)
    extra = "" if total == "s32" else ", 1, 1"
    if bits == 16:
        extra += ", 0" if in_registers else ", 0, 0"
    body = f"""
or.b64 %x, %area, {descriptor_bits("32B", 16, 256):#x};
add.u64 %y, %area, {B // 16};
or.b64 %y, %y, {descriptor_bits("64B", 16, 512):#x};
setp.eq.u32 %p1, 0, 1;
{FENCE}
wgmma.mma_async.sp.sync.aligned.m64n{n}k{k}.{total}.{kind}.{kind} {vector("c", n // 2)},
{vector("g", 4) if in_registers else "%x"}, %y, %g4, {selector}, %p1{extra};
{COMMIT}{WAIT}
"""
    found, report = run(
        body, np.concatenate(areas), np.hstack([a, metadata]), n // 2, kind="f32" if total == "f32" else "b32"
    )
    assert report.verdict == "clean", report
    assert (matrix_of(found, n, total) == dense @ right.T).all()


# --- sums ---------------------------------------------------------------------------------------------


def first_sum(kind: str, total: str, factors: list[tuple[float, float]], before: float) -> float:
    """Row 0, column 0 of D where that row of A and column of B hold ``factors``."""
    bits = BITS[kind]
    k = 256 // bits
    left, right = np.zeros((64, k)), np.zeros((8, k))
    left[0, : len(factors)], right[0, : len(factors)] = zip(*factors, strict=True)
    areas = [stored(codes(matrix, kind), bits, "32B", "K", 16, 256) for matrix in (left, right)]
    extra = ", 0, 0" if bits == 16 else ""
    count = 2 if total == "f16" else 4
    old = np.zeros((64, 8))
    old[0, 0] = before
    body = f"""
or.b64 %x, %area, {descriptor_bits("32B", 16, 256):#x};
add.u64 %y, %x, {B // 16};
setp.eq.u32 %p1, 0, 0;
{"".join(f"mov.b32 %c{i}, %g{i};{chr(10)}" for i in range(count))}
{FENCE}
wgmma.mma_async.sync.aligned.m64n8k{k}.{total}.{kind}.{kind} {vector("c", count)}, %x, %y, %p1, 1, 1{extra};
{COMMIT}{WAIT}
"""
    given = fragment(codes(old, total), place_d, BITS[total])
    found, report = run(body, np.concatenate(areas), given, count, kind="f32" if total == "f32" else "b32")
    assert report.verdict == "clean", report
    return float(matrix_of(found, 8, total)[0, 0])


def test_addends_keep_25_bits_behind_the_largest() -> None:
    """Four addends of 2**-25 are 2**-23 together, one of them is cut with the sum; of 2**-26 nothing is left."""
    small, smaller = (2.0**-12, 2.0**-13), (2.0**-13, 2.0**-13)
    assert first_sum("f16", "f32", [(1, 1), *[small] * 4], 0) == 1 + 2.0**-23
    assert first_sum("f16", "f32", [(1, 1), small], 0) == 1
    assert first_sum("f16", "f32", [(1, 1), *[smaller] * 15], 0) == 1
    assert first_sum("f16", "f32", [small] * 4, -1) == -1 + 2.0**-23


def test_products_of_bytes_keep_13_bits() -> None:
    assert first_sum("e5m2", "f32", [(1, 1), (2.0**-6, 2.0**-7)], 0) == 1 + 2.0**-13
    assert first_sum("e5m2", "f32", [(1, 1), *[(2.0**-7, 2.0**-7)] * 20], 0) == 1
    assert first_sum("e4m3", "f32", [(2.0**-5, 2.0**-5)], 1 + 2.0**-20) == 1 + 2.0**-10
    assert first_sum("e5m2", "f16", [(1, 1), (2.0**-5, 2.0**-6), (2.0**-6, 2.0**-6)], 0) == 1 + 2.0**-10


# --- order ----------------------------------------------------------------------------------------------

#: B is K-major without swizzle: an identity in its first eight rows; A has ones.
_SMALL = descriptor_bits("none", 128, 256)


def small_operands() -> np.ndarray:
    left = stored(codes(np.ones((64, 16)), "f16"), 16, "none", "K", 128, 256)
    return np.concatenate([left, stored(codes(np.eye(8, 16), "f16"), 16, "none", "K", 128, 256)])


MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}, %x, %y, %p1, 1, 1, 0, 0;\n"
NARROWER = MMA.replace("k16.f32.f16.f16", "k8.f32.tf32.tf32").replace(", 0, 0;", ";")
OTHER = MMA.replace("%c", "%e")
PREPARE = f"""
or.b64 %x, %area, {_SMALL:#x};
add.u64 %y, %x, {B // 16};
setp.eq.u32 %p1, 0, 0;
setp.ne.u32 %p2, 0, 0;
mov.f32 %c0, 0f00000000;
mov.f32 %c1, %c0;
mov.f32 %c2, %c0;
mov.f32 %c3, %c0;
mov.f32 %e0, %c0;
mov.f32 %e1, %c0;
mov.f32 %e2, %c0;
mov.f32 %e3, %c0;
"""
NOTHING = np.zeros((128, 0), np.uint32)


def small(body: str, schedule: str = "eager", **how: Any) -> tuple[np.ndarray, Report]:
    found, report = run(PREPARE + body, small_operands(), how.pop("given", np.zeros((how.get("threads", 128), 0), np.uint32)), 4, kind="f32", schedule=schedule, **how)  # fmt: skip
    return found.view(np.float32), report


def rules(report: Report) -> set[str]:
    return {finding.rule.name for finding in report.findings}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "body",
    [
        FENCE + MMA + COMMIT + WAIT,
        FENCE + MMA + MMA + COMMIT + WAIT,
        FENCE + MMA + COMMIT + MMA + COMMIT + WAIT,
        # One shape, of two types.
        FENCE + MMA + MMA.replace("f16.f16", "bf16.bf16") + COMMIT + WAIT,
        # The older of two groups is over, its registers are free.
        FENCE
        + MMA
        + COMMIT
        + OTHER
        + COMMIT
        + "wgmma.wait_group.sync.aligned 1;\nadd.f32 %c0, %c0, %c1;\n"
        + WAIT,
        # A fence between an access and the operation.
        FENCE + MMA + COMMIT + WAIT + "add.f32 %c0, %c0, %c1;\n" + FENCE + MMA + COMMIT + WAIT,
        # An instruction whose guard holds nowhere touches nothing.
        FENCE + MMA + COMMIT + "@%p2 mov.f32 %c0, %c1;\n" + WAIT,
        # Nothing was issued.
        COMMIT + WAIT,
        "wgmma.wait_group.sync.aligned 7;\n",
    ],
)
def test_kernels_in_order(body: str, schedule: str) -> None:
    _, report = small(body, schedule)
    assert report.verdict == "clean", report


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (FENCE + MMA + COMMIT, "wgmma-register"),
        (FENCE + MMA + WAIT + COMMIT, "wgmma-register"),
        (FENCE + MMA + COMMIT + "wgmma.wait_group.sync.aligned 1;\n", "wgmma-register"),
        (FENCE + MMA + COMMIT + "mov.f32 %c2, %e0;\n" + WAIT, "wgmma-register"),
        (FENCE + MMA + COMMIT + "add.f32 %e0, %c3, %c3;\n" + WAIT, "wgmma-register"),
        (FENCE + MMA + MMA.replace("{%c0, %c1", "{%c1, %c0") + COMMIT + WAIT, "wgmma-register"),
        (FENCE + MMA + NARROWER + COMMIT + WAIT, "wgmma-register"),
        (MMA + COMMIT + WAIT, "wgmma-fence"),
        (FENCE + "mov.f32 %c2, %e0;\n" + MMA + COMMIT + WAIT, "wgmma-fence"),
        (FENCE + MMA + COMMIT + WAIT + "add.f32 %e0, %c3, %c3;\n" + MMA + COMMIT + WAIT, "wgmma-fence"),
    ],
)
def test_registers_out_of_order(body: str, rule: str, schedule: str) -> None:
    _, report = small(body, schedule)
    assert report.verdict == "review"
    assert rules(report) == {rule}
    (finding, *_) = report.findings
    assert finding.rule.anchor.endswith("wait-group" if rule == "wgmma-register" else "wgmma-fence")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_register_touched_too_early_has_the_result(schedule: str) -> None:
    """ptxas waits where the author did not; the kernel is wrong all the same."""
    found, report = small(FENCE + MMA + COMMIT, schedule)
    assert rules(report) == {"wgmma-register"}
    assert (found[0] == [1, 1, 1, 1]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_of_a_are_taken_until_the_wait(schedule: str) -> None:
    mma = MMA.replace("%x,", "{%g0, %g1, %g2, %g3},").replace(", 0, 0;", ", 0;")
    ones = np.full((128, 4), 0x3C003C00, np.uint32)
    found, report = small(FENCE + mma + COMMIT + WAIT + "mov.b32 %g1, 0;\n", schedule, given=ones)
    assert report.verdict == "clean", report
    assert (found[0] == [1, 1, 1, 1]).all()
    _, report = small(FENCE + mma + COMMIT + "mov.b32 %g1, 0;\n" + WAIT, schedule, given=ones)
    assert rules(report) == {"wgmma-register"}
    _, report = small(FENCE + "mov.b32 %g1, 0;\n" + mma + COMMIT + WAIT, schedule, given=ones)
    assert rules(report) == {"wgmma-fence"}


_OVERWRITE = """
mov.u32 %r5, area;
shl.b32 %r6, %t, 2;
add.u32 %r5, %r5, %r6;
mov.b32 %r7, 0x40004000;
st.shared.b32 [%r5], %r7;
st.shared.b32 [%r5+512], %r7;
st.shared.b32 [%r5+1024], %r7;
st.shared.b32 [%r5+1536], %r7;
"""


def test_operands_are_read_when_the_operation_happens() -> None:
    """A is overwritten (2 for 1) while it may be read: eager and late tell the kernel from the right one."""
    early = FENCE + MMA + COMMIT + "bar.sync 1;\n" + _OVERWRITE + WAIT
    assert (small(early, "eager")[0][0] == 1).all()
    assert (small(early, "late")[0][0] == 2).all()
    right = FENCE + MMA + COMMIT + WAIT + "bar.sync 1;\n" + _OVERWRITE
    for schedule in SCHEDULES:
        assert (small(right, schedule)[0][0] == 1).all()


@pytest.mark.parametrize("seed", range(4))
def test_one_lane_works_while_accumulators_are_written(seed: int) -> None:
    """Code of a single lane keeps registers in a list: what is written meanwhile is not lost."""
    alone = "setp.eq.u32 %p3, %t, 0;\n@!%p3 bra NEXT;\nmov.u32 %r9, 0;\nLOOP:\nadd.u32 %r9, %r9, 1;\n"
    alone += "setp.lt.u32 %p4, %r9, 40;\n@%p4 bra LOOP;\nNEXT:\n"
    found, report = small(FENCE + MMA + COMMIT + alone + WAIT, "random", seed=seed)
    assert report.verdict == "clean", report
    assert (found[:32] == 1).all()


def test_an_accumulator_that_is_not_read_may_be_undefined() -> None:
    for register, clean in (("%p2", True), ("%p1", False)):
        body = FENCE + MMA.replace("%p1", register).replace("%c", "%f") + COMMIT + WAIT
        _, report = small(".reg .f32 %f<4>;\n" + body + "mov.f32 %c0, %f0;\n")
        assert rules(report) == (set() if clean else {"undefined-register"}), report


# --- warpgroups and operands ------------------------------------------------------------------------------


def test_the_warps_must_agree() -> None:
    body = "shr.u32 %r8, %t, 5;\nsetp.eq.u32 %p3, %r8, 2;\n@%p3 add.u64 %y, %y, 8;\n"
    _, report = small(body + FENCE + MMA + COMMIT + WAIT)
    assert rules(report) == {"warpgroup"}
    _, report = small(body + FENCE + "@!%p3 bra A;\n" + MMA + "A:\n" + MMA + COMMIT + WAIT)
    assert rules(report) == {"warpgroup"}


@pytest.mark.parametrize(("threads", "first"), [(128, 1), (256, 2)])
def test_a_warpgroup_is_four_warps_from_a_multiple_of_four_on(threads: int, first: int) -> None:
    body = f"shr.u32 %r8, %t, 5;\nsub.u32 %r8, %r8, {first};\nsetp.ge.u32 %p3, %r8, 4;\n@%p3 bra END;\n"
    _, report = small(body + FENCE + MMA + COMMIT + WAIT + "END:\n", threads=threads)
    assert rules(report) == {"warpgroup"}


@pytest.mark.parametrize("threads", [32, 96, 192])
def test_a_cta_has_whole_warpgroups(threads: int) -> None:
    _, report = small(FENCE + MMA + COMMIT + WAIT, threads=threads)
    assert rules(report) == {"warpgroup"}


def test_the_second_warpgroup() -> None:
    body = "setp.lt.u32 %p3, %t, 128;\n@%p3 bra END;\n" + FENCE + MMA + COMMIT + WAIT + "END:\n"
    found, report = small(body, threads=256)
    assert report.verdict == "clean", report
    assert (found[:128] == 0).all() and (found[128:] == 1).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_descriptor_means_the_own_shared_memory(schedule: str) -> None:
    body = (
        "setp.ne.u32 %p3, %r30, 1;\n@%p3 bra NEXT;\n"
        + _OVERWRITE
        + "fence.proxy.async;\nNEXT:\nbar.sync 1;\n"
    )
    found, report = small(body + FENCE + MMA + COMMIT + WAIT, schedule, ctas=2)
    assert report.verdict == "clean", report
    assert (found[:128] == 1).all() and (found[128:] == 2).all()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("add.u64 %y, %y, 0x4000;\n", "bad-descriptor"),  # a reserved bit
        ("or.b64 %y, %y, 0x3000;\n", "out-of-bounds"),
        ("or.b64 %x, %x, 0x1000;\n", "out-of-bounds"),
    ],
)
def test_descriptors(change: str, rule: str) -> None:
    _, report = small(change + FENCE + MMA + COMMIT + WAIT)
    assert rules(report) == {rule}, report


def test_operands_that_nothing_wrote() -> None:
    _, report = small(FENCE + MMA + COMMIT + WAIT, fill="none")
    assert rules(report) == {"uninitialized-read"}


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_one_warp_waits_for_all_four(schedule: str) -> None:
    """After its wait, thread 0 overwrites B, which the other warps, who start later, read in the same operation."""
    late = "shr.u32 %r8, %t, 5;\nsetp.eq.u32 %p3, %r8, 0;\n@%p3 bra GO;\nnanosleep.u32 1000;\nGO:\n"
    spoil = """
    setp.eq.u32 %p3, %t, 0;
    mov.u32 %r5, area;
    mov.b32 %r7, 0x40004000;
    """ + "".join(f"@%p3 st.shared.b32 [%r5+{B + at}], %r7;\n" for at in range(0, 256, 4))
    found, report = small(late + FENCE + MMA + COMMIT + WAIT + spoil, schedule, seed=3)
    assert report.verdict == "clean", report
    assert (found == small(FENCE + MMA + COMMIT + WAIT)[0]).all()


def test_a_warp_that_never_issues_its_part_is_named() -> None:
    """The others wait for it; it waits for them at a barrier."""
    body = "shr.u32 %r8, %t, 5;\nsetp.eq.u32 %p3, %r8, 2;\n@%p3 bar.sync 1, 128;\n"
    _, report = small(body + FENCE + MMA + COMMIT + WAIT + "@!%p3 bar.sync 1, 128;\n")
    assert rules(report) == {"deadlock"}
    assert "which warps 2 of the warpgroup have not issued" in str(report)
