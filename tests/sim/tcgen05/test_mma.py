"""tcgen05.mma: products in every layout and shape, element by element, and its options and descriptors.

Operands are small integers, so that every product is exact in f32 and must come out to the bit.  The bytes of
A and B in shared memory are placed by loops written from the manual's canonical layouts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx.layout import InstructionDescriptor, Tcgen05SmemDescriptor
from pyptx.sim import Report
from tests.sim.build import Kernel

pytestmark = pytest.mark.smoke

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("starve:mma", 0), ("starve:st", 0)]

#: Shared address of the operands' memory, and its size.
BASE, SIZE = 0x400, 36864
A_AT, B_AT = BASE, BASE + 20480
POISON = 0x7F7F7F7F
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
MASK = {"none": 0, "32B": 1, "64B": 3, "128B": 7}
CODE = {"none": 0, "128B": 2, "64B": 4, "32B": 6}
DTYPE: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "byte": np.uint8}


def text(columns: int, mma: str = "MMA", *, before: str = "", after: str = "") -> str:
    """Copy the image to shared memory, poison ``columns`` columns, run the MMAs in one thread, dump the columns."""
    copies = "\n".join(
        f"ld.global.v4.b32 {{x0, x1, x2, x3}}, [i+{2048 * n}]\nst.shared.v4.b32 [s+{2048 * n}], {{x0, x1, x2, x3}}"
        for n in range(SIZE // 2048)
    )
    width = min(columns, 128)
    fill = "{" + ", ".join(["poison"] * width) + "}"
    pieces = range(0, columns, width)
    fills = "\n".join(
        f"add.u32 tc, tl, {c}\ntcgen05.st.sync.aligned.32x32b.x{width}.b32 [tc], {fill}" for c in pieces
    )
    dumps = "\n".join(
        f"add.u32 tc, tl, {c}\ntcgen05.ld.sync.aligned.32x32b.x{width}.b32 {{r0..r{width - 1}}}, [tc]\n"
        + "\n".join(
            f"st.global.v4.b32 [o+{4 * (c + n)}], {{r{n}, r{n + 1}, r{n + 2}, r{n + 3}}}"
            for n in range(0, width, 4)
        )
        for c in pieces
    )
    return f"""
    .shared b8 mem[{SIZE}] 1024
    .shared b8 slot[16] 8
    .reg b32 x0 x1 x2 x3 poison d r0..r{width - 1}
    .reg u32 t s warp bar n tm tl tc
    .reg u64 i o
    .reg pred first q accumulate never always
    mov.u32 t, %tid.x
    mov.u32 s, mem
    mad.lo.u32 s, t, 16, s
    mad.wide.u32 i, t, 16, image
    mov.u32 bar, slot
    shr.u32 warp, t, 5
    {copies}
    setp.ne.u32 first, warp, 0
    setp.ne.u32 accumulate, enable, 0
    setp.ne.u32 never, warp, warp
    setp.eq.u32 always, warp, warp
    @first bra ALLOCATED
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+8], {columns}
    elect.sync _|q, -1
    @q mbarrier.init.shared::cta.b64 [bar], 1
    ALLOCATED:
    fence.proxy.async.shared::cta
    bar.sync 0
    ld.shared.b32 tm, [bar+8]
    shl.b32 tl, warp, 21
    add.u32 tl, tl, tm
    mov.b32 poison, {POISON}
    {fills}
    tcgen05.wait::st.sync.aligned
    tcgen05.fence::before_thread_sync
    bar.sync 0
    tcgen05.fence::after_thread_sync
    @first bra ISSUED
    elect.sync _|q, -1
    @!q bra ISSUED
    add.u32 d, tm, dcol
    {before}
    {mma}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]
    {after}
    ISSUED:
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0
    @!q bra WAIT
    tcgen05.fence::after_thread_sync
    mad.wide.u32 o, t, {4 * columns}, out
    {dumps}
    tcgen05.wait::ld.sync.aligned
    bar.sync 0
    @first bra END
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, {columns}
    END:
    ret
    """


PARAMS = "image:u64 out:u64 adesc:u64 bdesc:u64 idesc:u32 enable:u32 dcol:u32"
MMA = "tcgen05.mma.cta_group::1.kind::KIND [d], adesc, bdesc, idesc, accumulate"


def offset(mode: str, major: str, row: int, k: int, size: int, leading: int, stride: int) -> int:
    """Unswizzled byte offset of an element from the operand's start, by the canonical layouts."""
    span = SPAN[mode]
    if major == "K":
        byte = k * size
        inner = byte if mode != "none" else byte // 16 * leading + byte % 16
        return row % 8 * span + row // 8 * stride + inner
    byte = row * size
    if mode == "none":
        return byte % 16 + byte // 16 * stride + k % 8 * 16 + k // 8 * leading
    return byte % span + byte // span * leading + k % 8 * span + k // 8 * stride


@dataclass
class Operand:
    """A matrix and how it lies in shared memory."""

    values: NDArray[Any]
    element: str
    address: int
    swizzle: str
    major: str
    leading: int
    stride: int
    base_offset: int = 0

    def put(self, image: NDArray[np.uint8]) -> None:
        data = self.values.astype(DTYPE[self.element])
        size = data.dtype.itemsize
        for row, line in enumerate(data):
            for k, value in enumerate(line):
                a = self.address + offset(self.swizzle, self.major, row, k, size, self.leading, self.stride)
                a ^= (((a >> 7) - self.base_offset) & MASK[self.swizzle]) << 4
                image[a - BASE : a - BASE + size] = np.frombuffer(value.tobytes(), np.uint8)

    @property
    def word(self) -> int:
        """The descriptor, from the manual's bit table."""
        return (
            (self.address & 0x3FFFF) >> 4
            | self.leading >> 4 << 16
            | self.stride >> 4 << 32
            | 1 << 46
            | self.base_offset << 49
            | CODE[self.swizzle] << 61
        )


def operand(values: NDArray[Any], element: str, address: int, swizzle: str, major: str, pad: int) -> Operand:
    """The operand in a dense layout, or with gaps between its groups."""
    rows, k = values.shape
    span = SPAN[swizzle]
    if major == "K":
        stride = 8 * span + 256 * pad
        leading = rows // 8 * stride if swizzle == "none" else 16
    elif swizzle == "none":
        leading = 128 + 64 * pad  # to the next 8 of K
        stride = k // 8 * leading
    else:
        stride = 8 * span  # to the next 8 of K
        leading = k // 8 * stride + 1024 * pad
    return Operand(values, element, address, swizzle, major, leading, stride)


@dataclass
class Problem:
    """One MMA: D = A B^T of small integers."""

    kind: str
    m: int
    n: int
    a_type: str
    b_type: str
    a: Operand = field(repr=False)
    b: Operand = field(repr=False)
    flags: dict[str, bool] = field(default_factory=dict)
    column: int = 0

    @property
    def idesc(self) -> int:
        types = {"f16": 0, "bf16": 1, "tf32": 2}
        return (
            1 << 4
            | types[self.a_type] << 7
            | types[self.b_type] << 10
            | self.flags.get("negate_a", False) << 13
            | self.flags.get("negate_b", False) << 14
            | (self.a.major == "MN") << 15
            | (self.b.major == "MN") << 16
            | self.n >> 3 << 17
            | self.m >> 4 << 24
        )

    def image(self) -> NDArray[np.uint8]:
        image = np.zeros(SIZE, np.uint8)
        self.a.put(image)
        self.b.put(image)
        return image

    @property
    def product(self) -> NDArray[np.float32]:
        sign = -1 if self.flags.get("negate_a", False) != self.flags.get("negate_b", False) else 1
        return (sign * (self.a.values.astype(np.int64) @ self.b.values.astype(np.int64).T)).astype(np.float32)

    def lane(self, row: int) -> int:
        return row if self.m == 128 else row % 16 + 32 * (row // 16)

    def expected(self, columns: int, product: NDArray[np.float32] | None = None) -> NDArray[np.uint32]:
        """All lanes and columns, untouched ones poisoned."""
        cells = np.full((128, columns), POISON, np.uint32)
        product = self.product if product is None else product
        for row in range(self.m):
            cells[self.lane(row), self.column : self.column + self.n] = product[row].view(np.uint32)
        return cells


def problem(
    kind: str, m: int, n: int, swizzles: tuple[str, str], majors: tuple[str, str], seed: int, pad: int = 0
) -> Problem:
    generator = np.random.default_rng(seed)
    k = 8 if kind == "tf32" else 16
    types = (
        ("tf32", "tf32")
        if kind == "tf32"
        else [("bf16", "bf16"), ("f16", "f16"), ("bf16", "f16"), ("f16", "bf16")][seed % 4]
    )
    a = operand(generator.integers(-8, 9, (m, k)), types[0], A_AT, swizzles[0], majors[0], pad)
    b = operand(generator.integers(-8, 9, (n, k)), types[1], B_AT, swizzles[1], majors[1], pad)
    return Problem(kind, m, n, *types, a, b)


@cache
def kernel_of(columns: int, mma: str) -> Kernel:
    return Kernel(text(columns, mma), PARAMS)


def run(
    p: Problem, columns: int, *, mma: str = MMA, enable: int = 0, schedule: str = "eager", seed: int = 0
) -> Any:
    """(report, cells[lane, column]) of one MMA."""
    out = np.zeros((128, columns), np.uint32)
    report = kernel_of(columns, mma.replace("KIND", p.kind)).run(
        p.image(), out, p.a.word, p.b.word, p.idesc, enable, p.column, block=128, schedule=schedule, seed=seed
    )
    return report, out


def clean(p: Problem, columns: int, **options: Any) -> NDArray[np.uint32]:
    report, out = run(p, columns, **options)
    assert report.verdict == "clean", report
    return out


def columns_for(n: int) -> int:
    return next(c for c in (32, 64, 128, 256, 512) if c >= n)


# --- products ---------------------------------------------------------------------------------

CASES = [
    (kind, swizzle, major)
    for kind in ("f16", "tf32")
    for swizzle in SPAN
    for major in ("KK", "KM", "MK", "MM")
    if kind == "f16" or major == "KK"
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "swizzle", "majors"), CASES)
@pytest.mark.parametrize("m", [64, 128])
def test_products(kind: str, swizzle: str, majors: str, m: int) -> None:
    """Every swizzle and major-ness of each operand, dense and with gaps; N a multiple of the swizzle's width."""
    names = {"K": "K", "M": "MN"}
    for number, (schedule, seed) in enumerate(SCHEDULES[:2]):
        p = problem(
            kind, m, 64, (swizzle, swizzle), (names[majors[0]], names[majors[1]]), number + 3 * m, pad=number
        )
        out = clean(p, 64, schedule=schedule, seed=seed)
        assert np.array_equal(out, p.expected(64))


def test_operands_of_different_layouts() -> None:
    generator = random.Random(0)
    for seed in range(12):
        swizzles = (generator.choice(list(SPAN)), generator.choice(list(SPAN)))
        majors = (generator.choice(("K", "MN")), generator.choice(("K", "MN")))
        p = problem("f16", generator.choice((64, 128)), 64, swizzles, majors, seed, pad=seed % 2)
        schedule, number = SCHEDULES[seed % len(SCHEDULES)]
        assert np.array_equal(clean(p, 64, schedule=schedule, seed=number), p.expected(64)), (
            swizzles,
            majors,
        )


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("m", "n"), [(64, 8), (64, 24), (64, 256), (128, 8), (128, 24), (128, 48), (128, 256), (128, 240)]
)
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_shapes_at_their_limits(m: int, n: int, kind: str) -> None:
    p = problem(kind, m, n, ("128B", "32B"), ("K", "K"), m + n)
    columns = columns_for(n)
    assert np.array_equal(clean(p, columns), p.expected(columns))
    if columns > n:
        shifted = replace(p, column=columns - n)
        assert np.array_equal(clean(shifted, columns), shifted.expected(columns))


@pytest.mark.parametrize(("m", "n"), [(64, 4), (64, 0), (128, 4), (64, 264), (32, 64), (256, 64), (96, 64)])
def test_shapes_that_do_not_exist(m: int, n: int) -> None:
    p = problem("f16", 128, 64, ("128B", "128B"), ("K", "K"), 0)
    report, _ = run(replace(p, m=m, n=n), 64)
    assert [f.rule.name for f in report.findings] == ["bad-descriptor"], report


def test_the_second_half_of_the_lanes_with_64_rows() -> None:
    """An accumulator of 64 rows may start at lane 16."""
    p = problem("f16", 64, 32, ("128B", "128B"), ("K", "K"), 5)
    code = "add.u32 d, d, 0x100000\n" + MMA
    out = clean(p, 32, mma=code)
    assert np.array_equal(np.roll(out, -16, axis=0)[:112], p.expected(32)[:112])
    assert set(out[:16].ravel().tolist()) == {POISON}


@pytest.mark.parametrize(("m", "lane"), [(128, 16), (128, 1), (64, 8), (64, 32)])
def test_accumulators_start_at_certain_lanes(m: int, lane: int) -> None:
    p = problem("f16", m, 32, ("128B", "128B"), ("K", "K"), 5)
    report, _ = run(p, 32, mma=f"add.u32 d, d, {lane << 16}\n" + MMA)
    assert [f.rule.name for f in report.findings] == ["tensor-memory"], report
    assert f"cannot start at lane {lane}" in report.findings[0].message


@pytest.mark.parametrize("lane", [128, 256])
def test_lanes_count_modulo_128(lane: int) -> None:
    """As kernels verified on a B200 have it; for review, since the manual has 128 lanes."""
    p = problem("f16", 64, 32, ("128B", "128B"), ("K", "K"), 5)
    report, out = run(p, 32, mma=f"add.u32 d, d, {lane << 16}\n" + MMA)
    assert [f.rule.name for f in report.findings] == ["tensor-memory-lane"], report
    assert report.verdict == "review"
    assert np.array_equal(out, p.expected(32))


def test_a_tile_off_the_pattern_boundary_needs_its_base_offset() -> None:
    """The pattern starts where the tile does, at 256 bytes past a multiple of 1024."""
    p = problem("f16", 128, 64, ("128B", "128B"), ("K", "K"), 1)
    p.a.address += 256
    p.a.base_offset = 2
    assert np.array_equal(clean(p, 64), p.expected(64))
    # Without the base offset the pattern is that of the absolute address: other bytes.
    wrong = replace(p, a=replace(p.a, base_offset=0))
    report, out = run(wrong, 64)
    assert np.array_equal(out, wrong.expected(64)) and report.verdict == "clean"
    mixed = replace(p, a=replace(p.a))
    mixed.a.base_offset = 0
    image = p.image()
    kernel = kernel_of(64, MMA.replace("KIND", "f16"))
    kernel.run(image, out, mixed.a.word, p.b.word, p.idesc, 0, 0, block=128)
    assert not np.array_equal(out, p.expected(64))


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_four_steps_along_a_row_of_128_bytes(kind: str, schedule: str, seed: int) -> None:
    """+2 in the descriptor is 32 bytes, one instruction's K; the first step does not accumulate."""
    generator = np.random.default_rng(seed)
    k = 32 if kind == "tf32" else 64
    a = operand(
        generator.integers(-8, 9, (128, k)), "tf32" if kind == "tf32" else "bf16", A_AT, "128B", "K", 0
    )
    b = operand(
        generator.integers(-8, 9, (64, k)), "tf32" if kind == "tf32" else "bf16", B_AT, "128B", "K", 0
    )
    p = Problem(kind, 128, 64, a.element, b.element, a, b)
    step = "tcgen05.mma.cta_group::1.kind::KIND [d], adesc, bdesc, idesc, "
    advance = "\nadd.u64 adesc, adesc, 2\nadd.u64 bdesc, bdesc, 2\n"
    code = step + "never" + (advance + step + "always") * 3
    assert np.array_equal(clean(p, 64, mma=code, schedule=schedule, seed=seed), p.expected(64))


def test_tf32_ignores_the_low_bits_of_the_mantissa() -> None:
    p = problem("tf32", 64, 8, ("128B", "128B"), ("K", "K"), 0)
    p.a.values[...] = 0
    p.b.values[...] = 0
    image = p.image()
    words = image.view(np.uint32)
    # A[0, 0] = 1 + 2**-10 (the last bit that counts) + 2**-11 (the first that does not); B[0, 0] = 1.
    words[(A_AT - BASE) // 4] = 0x3F800000 + (1 << 13) + (1 << 12)
    words[(B_AT - BASE) // 4] = 0x3F800000 + 0xFFF
    out = np.zeros((128, 32), np.uint32)
    kernel = Kernel(text(32, MMA.replace("KIND", "tf32")), PARAMS)
    kernel.clean(image, out, p.a.word, p.b.word, p.idesc, 0, 0, block=128)
    assert out[0, 0] == 0x3F800000 + (1 << 13)


def test_special_values() -> None:
    """Infinities, NaN, subnormals and the largest f16 go through products unharmed."""
    values = np.array([np.inf, np.nan, 65504, 2.0**-24, -0.0, 1, 1, 1], np.float64)
    p = problem("f16", 64, 8, ("128B", "128B"), ("K", "K"), 1)
    p.a.values = np.zeros((64, 16))
    p.b.values = np.zeros((8, 16))
    for row, value in enumerate(values):
        p.a.values[row, 0] = value
    p.b.values[:, 0] = 1
    p.b.values[1, 0] = 65504
    out = clean(p, 32).view(np.float32)[: len(values), :2]
    with np.errstate(all="ignore"):
        expected = (values[:, None] * np.array([1, 65504.0])).astype(np.float32)
    assert np.array_equal(out, expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_random_reals_within_the_bound(kind: str) -> None:
    """|error| <= K * 2**-23 * (|A| |B|) against float64."""
    generator = np.random.default_rng(3)
    p = problem(kind, 128, 64, ("128B", "128B"), ("K", "K"), 0)
    k = p.a.values.shape[1]
    a = generator.standard_normal((128, k)).astype(DTYPE[p.a_type])
    b = generator.standard_normal((64, k)).astype(DTYPE[p.b_type])
    if kind == "tf32":
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    p.a.values, p.b.values = a, b
    got = clean(p, 64).view(np.float32).astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    bound = k * 2.0**-23 * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T)
    assert (np.abs(got - exact) <= bound).all()
    assert np.abs(got).max() > 1


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize("negate_a", [False, True])
@pytest.mark.parametrize("negate_b", [False, True])
def test_negation(negate_a: bool, negate_b: bool) -> None:
    p = problem("f16", 128, 32, ("64B", "64B"), ("K", "K"), 4)
    p.flags = {"negate_a": negate_a, "negate_b": negate_b}
    assert np.array_equal(clean(p, 32), p.expected(32))


TWICE = MMA.replace("accumulate", "never") + "\n" + MMA


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scale", [None, 0, 1, 4, 15])
@pytest.mark.parametrize("enable", [0, 1])
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_accumulation_and_its_scale(scale: int | None, enable: int, kind: str) -> None:
    """The second of two MMAs adds the first result times 2**-scale, or nothing."""
    p = problem(kind, 128, 32, ("128B", "128B"), ("K", "K"), 4)
    mma = TWICE + (f", {scale}" if scale is not None else "")
    once = p.product.astype(np.float64)
    total = (once + enable * once * 2.0 ** -(scale or 0)).astype(np.float32)
    for schedule, seed in SCHEDULES:
        out = clean(p, 32, mma=mma, enable=enable, schedule=schedule, seed=seed)
        assert np.array_equal(out, p.expected(32, total)), schedule


@pytest.mark.parametrize("flag", ["0", "1", "never", "always"])
def test_what_enables_d(flag: str) -> None:
    """An immediate or a register."""
    p = problem("f16", 64, 16, ("128B", "128B"), ("K", "K"), 4)
    out = clean(p, 32, mma=MMA.replace("accumulate", "never") + "\n" + MMA.replace("accumulate", flag))
    assert np.array_equal(out, p.expected(32, p.product * (2 if flag in ("1", "always") else 1)))


@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("enable", [0, 1])
def test_disabled_lanes_keep_what_they_had(m: int, enable: int) -> None:
    """A set bit leaves its lane of tensor memory alone; bit 0 of the first word is lane 0."""
    p = problem("f16", m, 32, ("128B", "128B"), ("K", "K"), 9)
    words = [0x00000005, 0xFFFF0000, 0x80000001, 0x12345678]
    vector = "{" + ", ".join(f"x{i}" for i in range(4)) + "}"
    setup = "\n".join(f"mov.b32 x{i}, {word}" for i, word in enumerate(words))
    mma = setup + "\n" + MMA.replace("accumulate", "never") + "\n"
    mma += MMA.replace("accumulate", f"{vector}, accumulate")
    first = p.product
    second = first * (1 + enable)
    expected = p.expected(32, first)
    for row in range(m):
        lane = p.lane(row)
        if not words[lane // 32] >> (lane % 32) & 1:
            expected[lane, :32] = second[row].view(np.uint32)
    assert np.array_equal(clean(p, 32, mma=mma, enable=enable), expected)
    # Alone, over poison: the disabled lanes keep it.
    alone = setup + "\n" + MMA.replace("accumulate", f"{vector}, never")
    expected = p.expected(32)
    for lane in range(128):
        if words[lane // 32] >> (lane % 32) & 1:
            expected[lane] = POISON
    assert np.array_equal(clean(p, 32, mma=alone), expected)


# --- descriptors ------------------------------------------------------------------------------


def faulty(p: Problem, **words: int) -> Report:
    kernel = kernel_of(64, MMA.replace("KIND", p.kind))
    values = {"a": p.a.word, "b": p.b.word, "i": p.idesc, **words}
    out = np.zeros((128, 64), np.uint32)
    return kernel.run(p.image(), out, values["a"], values["b"], values["i"], 0, 0, block=128)


def test_descriptors_agree_with_the_layout_module() -> None:
    for swizzle in SPAN:
        p = problem("f16", 128, 64, (swizzle, swizzle), ("K", "MN"), 1, pad=1)
        for o in (p.a, p.b):
            assert Tcgen05SmemDescriptor(o.address, o.leading, o.stride, o.swizzle).encode() == o.word
        idesc = InstructionDescriptor("f16", 128, 64, p.a_type, p.b_type, "f32", "K", "MN").encode()
        assert p.idesc == idesc


@pytest.mark.parametrize(("change", "rule"), [
    (lambda p: {"a": p.a.word & ~(7 << 46)}, "bad-descriptor"),
    (lambda p: {"b": p.b.word | 2 << 46}, "bad-descriptor"),
    (lambda p: {"a": p.a.word | 1 << 14}, "bad-descriptor"),
    (lambda p: {"b": p.b.word & ~(7 << 61) | 3 << 61}, "bad-descriptor"),
    (lambda p: {"a": p.a.word & ~(7 << 61) | 1 << 61}, "not-modeled"),
    (lambda p: {"a": p.a.word | 1 << 52}, "not-modeled"),
    (lambda p: {"i": p.idesc | 1 << 6}, "bad-descriptor"),
    (lambda p: {"i": p.idesc | 2 << 7}, "bad-descriptor"),
    (lambda p: {"i": p.idesc | 3 << 4}, "bad-descriptor"),
    (lambda p: {"i": p.idesc | 1 << 2}, "bad-descriptor"),
    (lambda p: {"i": p.idesc | 1 << 3}, "bad-descriptor"),
    (lambda p: {"a": p.a.word & ~0x3FFF | 0x3FF0}, "out-of-bounds"),
    (lambda p: {"a": p.a.word & ~0x3FFF | 0x20}, "out-of-bounds"),
    (lambda p: {"b": p.b.word & ~(0x3FFF << 32) | 0x3FC << 32}, "out-of-bounds"),
])  # fmt: skip
def test_descriptors_that_describe_nothing(change: Any, rule: str) -> None:
    p = problem("f16", 128, 64, ("128B", "128B"), ("K", "K"), 0)
    report = faulty(p, **change(p))
    assert [f.rule.name for f in report.findings] == [rule], report
    found = report.findings[0]
    assert found.location is not None
    assert (
        "tcgen05.mma" in kernel_of(64, MMA.replace("KIND", "f16")).text.splitlines()[found.location.line - 1]
    )


def test_tf32_has_no_mn_major_operands() -> None:
    p = problem("tf32", 64, 64, ("128B", "128B"), ("K", "K"), 0)
    report = faulty(p, i=p.idesc | 1 << 15)
    assert [f.rule.name for f in report.findings] == ["bad-descriptor"]


def test_operands_that_nothing_wrote() -> None:
    """Only the bytes of the operand count: a gap between its groups may stay unwritten."""
    p = problem("f16", 64, 16, ("128B", "128B"), ("K", "K"), 0, pad=3)
    code = text(32, MMA.replace("KIND", "f16"))
    # Leave B's part of the image out.
    left_out = [f"+{2048 * n}]" for n in range((B_AT - BASE) // 2048, SIZE // 2048)]
    kept = "\n".join(line for line in code.splitlines() if not any(part in line for part in left_out))
    kernel = Kernel(kept, PARAMS)
    out = np.zeros((128, 32), np.uint32)
    report = kernel.run(p.image(), out, p.a.word, p.b.word, p.idesc, 0, 0, block=128)
    (found,) = report.findings
    assert found.rule.name == "uninitialized-read"
    assert f"offset {B_AT - BASE})" in found.message
    assert found.location is not None and "tcgen05.mma" in kept.splitlines()[found.location.line - 1]
