"""tcgen05.ld and st in every shape, packed and reducing; tcgen05.cp and shift; exclusive allocation.

Where each register and each row lies is written again here from CUTLASS's copy_traits_sm100.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.build import Kernel
from tests.sim.tcgen05.stage import Cells, cells_of, perform, report_of
from tests.sim.tcgen05.test_kinds import packed
from tests.sim.tcgen05.test_mma import A_AT, SCHEDULES, operand
from tests.sim.tcgen05.test_tensor_memory import ALLOC, FRAGMENTS, FREE, REGISTERS, SETUP, dump, numbered

pytestmark = pytest.mark.one_in(2)

Array = NDArray[Any]

#: Columns between the halves of .16x32bx2 in these tests.
SPLIT = 40
PLACES: dict[str, Any] = {**FRAGMENTS, "16x32bx2": lambda t, i: (t % 16, i + SPLIT * (t >= 16))}
COUNTS = {**REGISTERS, "16x32bx2": 1}


def place(shape: str, t: int, i: int, part: int = 0, *, each: int = 1) -> tuple[int, int]:
    """Lane and column of part ``part`` of register i of thread t, each register covering ``each`` columns."""
    if shape == "16x32bx2":
        return t % 16, each * i + part + SPLIT * (t >= 16)
    lane, column = PLACES[shape](t, i)
    return lane, each * column + part


def ld(shape: str, num: int, options: str = "", registers: str = "r", more: str = "") -> str:
    count = COUNTS[shape] * num
    split = f", {SPLIT}" if shape == "16x32bx2" else ""
    return f"tcgen05.ld{more}.sync.aligned.{shape}.x{num}{options} {{{registers}0..{registers}{count - 1}}}, [tl]{split}\n"


CASES = [(shape, num) for shape in PLACES for num in (1, 2, 4, 8) if num * COUNTS[shape] <= 128]


@pytest.mark.parametrize("num", [1, 4, 32])
@pytest.mark.parametrize("upper", [0, 16])
def test_two_halves_at_a_distance(num: int, upper: int) -> None:
    load = f"add.u32 tl, tl, {upper << 16}\n" + ld("16x32bx2", num, ".b32")
    body = SETUP + ALLOC + numbered(128) + load + dump(num) + FREE
    kernel = Kernel(body.replace("{columns}", "128"), "out:u64")
    for schedule, seed in SCHEDULES:
        out = np.zeros((128, num), np.uint32)
        kernel.clean(out, block=128, schedule=schedule, seed=seed)
        for t in range(128):
            for i in range(num):
                lane, column = place("16x32bx2", t % 32, i)
                assert out[t, i] == 1000 * (lane + 32 * (t // 32) + upper) + column


@pytest.mark.parametrize(("shape", "num"), CASES)
def test_packed_loads(shape: str, num: int) -> None:
    """A register gets the low halves of two neighboring columns."""
    count = COUNTS[shape] * num
    body = SETUP + ALLOC + numbered(128) + ld(shape, num, ".pack::16b.b32") + dump(count) + FREE
    kernel = Kernel(body.replace("{columns}", "128"), "out:u64")
    out = np.zeros((128, count), np.uint32)
    schedule, seed = SCHEDULES[num.bit_length() % len(SCHEDULES)]
    kernel.clean(out, block=128, schedule=schedule, seed=seed)
    for t in range(128):
        for i in range(count):
            word = 0
            for part in (0, 1):
                lane, column = place(shape, t % 32, i, part, each=2)
                word |= (1000 * (lane + 32 * (t // 32)) + column & 0xFFFF) << 16 * part
            assert out[t, i] == word, (t, i)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shape", "num"), CASES)
@pytest.mark.parametrize("unpack", [False, True])
def test_stores(shape: str, num: int, unpack: bool) -> None:
    """Every shape touches its cells alone; unpacked, the halves of a register go to two neighboring columns."""
    count = COUNTS[shape] * num
    values = "\n".join(f"mad.lo.u32 r{i}, t, 70001, {1 << 24 | i * 257}" for i in range(count))
    split = f", {SPLIT}" if shape == "16x32bx2" else ""
    store = f"tcgen05.st.sync.aligned.{shape}.x{num}{'.unpack::16b' if unpack else ''}.b32 [tl]{split}, {{r0..r{count - 1}}}\n"
    store += "tcgen05.wait::st.sync.aligned\ntcgen05.ld.sync.aligned.32x32b.x128.b32 {r0..r127}, [tl]\n"
    body = SETUP + ALLOC + numbered(128) + values + "\n" + store + dump(128) + FREE
    kernel = Kernel(body.replace("{columns}", "128"), "out:u64")
    out = np.zeros((128, 128), np.uint32)
    schedule, seed = SCHEDULES[num.bit_length() % len(SCHEDULES)]
    kernel.clean(out, block=128, schedule=schedule, seed=seed)
    expected = 1000 * np.arange(128)[:, None] + np.arange(128)[None, :]
    for t in range(128):
        for i in range(count):
            word = t * 70001 + (1 << 24 | i * 257)
            for part in range(2 if unpack else 1):
                lane, column = place(shape, t % 32, i, part, each=2 if unpack else 1)
                expected[lane + 32 * (t // 32), column] = word >> 16 * part & 0xFFFF if unpack else word
    assert np.array_equal(out, expected)


def test_a_gap_between_two_halves_is_not_touched() -> None:
    """Columns between them may belong to nobody."""
    body = SETUP + ALLOC + numbered(32) + ld("16x32bx2", 2, ".b32").replace(f", {SPLIT}", ", 30")
    body += FREE
    Kernel(body.replace("{columns}", "32")).clean(block=128)
    outside = Kernel(body.replace("{columns}", "32").replace(", 30", ", 31"))
    found = outside.run(block=128).findings[0]
    assert found.rule.name == "tensor-memory" and "columns 31..32" in found.message


# --- reductions ---------------------------------------------------------------------------------------


def from_memory(num: int) -> str:
    """Cell (lane, column) := data[lane, column]."""
    loads = "\n".join(f"ld.global.b32 x{c}, [o+{4 * c}]" for c in range(64))
    store = "{" + ", ".join(f"x{c}" for c in range(64)) + "}"
    return f"mad.wide.u32 o, t, 256, data\n{loads}\ntcgen05.st.sync.aligned.32x32b.x64.b32 [tl], {store}\ntcgen05.wait::st.sync.aligned\n"


SPECIALS = np.array([0x7FC00000, 0xFFC00001, 0x80000000, 0, 0x7F800000, 0xFF800000, 0x3F800000], np.uint32)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
@pytest.mark.parametrize("kind", ["u32", "s32", "f32", "abs.f32", "NaN.f32", "abs.NaN.f32"])
@pytest.mark.parametrize("operation", ["min", "max"])
@pytest.mark.parametrize("num", [2, 16])
def test_reductions(shape: str, kind: str, operation: str, num: int) -> None:
    generator = np.random.default_rng(num)
    data = generator.integers(0, 1 << 32, (128, 64), dtype=np.uint32)
    if "f32" in kind:
        data = generator.standard_normal((128, 64)).astype(np.float32).view(np.uint32)
        rare = generator.random((128, 64)) < 0.15
        data[rare] = generator.choice(SPECIALS, int(rare.sum()))
        data[7] = 0x7FC00000
    split = f", {SPLIT}" if shape == "16x32bx2" else ""
    load = f"tcgen05.ld.red.sync.aligned.{shape}.x{num}.{operation}.{kind} {{r0..r{num - 1}}}, x0, [tl]{split}\nmov.b32 r{num}, x0\n"
    body = SETUP + ALLOC + from_memory(num) + load + dump(num + 1) + FREE
    kernel = Kernel(body.replace("{columns}", "64"), "data:u64 out:u64", target="sm_103a")
    out = np.zeros((128, num + 1), np.uint32)
    kernel.clean(data, out, block=128, schedule="late")
    for t in range(128):
        cells = []
        for i in range(num):
            lane, column = place(shape, t % 32, i)
            cells.append(int(data[lane + 32 * (t // 32), column]))
        assert out[t, :num].tolist() == cells
        assert out[t, num] == reduced(cells, kind, operation), (t, cells)


def reduced(cells: list[int], kind: str, operation: str) -> int:
    """The least or greatest of words; -0 is less than +0, a NaN loses, or with .NaN wins, as the canonical one."""
    choose = min if operation == "min" else max
    if kind == "u32":
        return choose(cells)
    if kind == "s32":
        return choose(c - (c >> 31 << 32) for c in cells) & 0xFFFFFFFF
    if "abs" in kind:
        cells = [c & 0x7FFFFFFF for c in cells]
    numbers = [c for c in cells if c & 0x7FFFFFFF <= 0x7F800000]
    if not numbers or ("NaN" in kind and len(numbers) < len(cells)):
        return 0x7FFFFFFF
    return choose(numbers, key=lambda c: c if c < 1 << 31 else -1 - (c & 0x7FFFFFFF))


# --- cp -----------------------------------------------------------------------------------------------

#: Rows of the tile, bytes of a row, and the row that lane l gets, by shape.
COPIES: dict[str, tuple[int, int, Any]] = {
    "128x256b": (128, 32, lambda lane: lane),
    "128x128b": (128, 16, lambda lane: lane),
    "64x128b.warpx2::02_13": (64, 16, lambda lane: lane % 64),
    "64x128b.warpx2::01_23": (64, 16, lambda lane: lane % 32 + 32 * (lane // 64)),
    "32x128b.warpx4": (32, 16, lambda lane: lane % 32),
    "4x256b": (8, 32, lambda lane: lane // 32 if lane % 32 == 0 else None),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", COPIES)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("pad", [0, 1])
def test_copies(shape: str, swizzle: str, pad: int) -> None:
    rows, width, row_of = COPIES[shape]
    data = np.random.default_rng(rows).integers(0, 256, (rows, width)).astype(np.uint8)
    source = operand(data, "byte", A_AT, swizzle, "K", pad)
    cells = cells_of()
    code = f"add.u32 n, tm, 77\ntcgen05.cp.cta_group::1.{shape} [n], a"
    schedule, seed = SCHEDULES[(rows + pad) % len(SCHEDULES)]
    out = perform(code, [source], cells, {"a": source.word}, schedule=schedule, seed=seed)
    put(cells, data, row_of, 77)
    assert np.array_equal(out, cells)


def put(cells: Cells, data: Array, row_of: Any, column: int) -> None:
    for lane in range(128):
        row = row_of(lane)
        if row is not None:
            words = np.ascontiguousarray(data[row]).view("<u4")
            cells[lane, column : column + len(words)] = words


@pytest.mark.parametrize("shape", COPIES)
@pytest.mark.parametrize("source", ["b4x16_p64", "b6x16_p32"])
def test_copies_that_widen_elements(shape: str, source: str) -> None:
    """Sixteen packed elements and padding become sixteen bytes as an MMA takes them: 00SEEM00, 00 and six bits."""
    rows, width, row_of = COPIES[shape]
    bits = int(source[1])
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (rows, width)).astype(np.uint8)
    tile = operand(packed(codes, bits, 16, 16 - 2 * bits), "byte", A_AT, "32B", "K", 0)
    name, _, multicast = shape.partition(".")
    cells = cells_of()
    code = f"tcgen05.cp.cta_group::1.{name}{'.' + multicast if multicast else ''}.b8x16.{source} [tm], a"
    out = perform(code, [tile], cells, {"a": tile.word})
    put(cells, codes << 2 if bits == 4 else codes, row_of, 0)
    assert np.array_equal(out, cells)


@pytest.mark.parametrize("lane", [0, 32, 96])
def test_shift(lane: int) -> None:
    """31 lanes get what the next one holds, in 8 columns; the last keeps its own."""
    cells = cells_of()
    out = perform(f"add.u32 n, tm, {40 + (lane << 16)}\ntcgen05.shift.cta_group::1.down [n]", [], cells, {})
    cells[lane : lane + 31, 40:48] = cells[lane + 1 : lane + 32, 40:48].copy()
    assert np.array_equal(out, cells)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "add.u32 n, tm, 0x80000\ntcgen05.shift.cta_group::1.down [n]",
            "expected a lane that is a multiple of 32",
        ),
        ("add.u32 n, tm, 250\ntcgen05.shift.cta_group::1.down [n]", "columns 250..257"),
        ("add.u32 n, tm, 250\ntcgen05.cp.cta_group::1.128x256b [n], a", "columns 250..257"),
        ("add.u32 n, tm, 0x10000\ntcgen05.cp.cta_group::1.128x128b [n], a", "lanes 1..128"),
    ],
)
def test_places_that_do_not_fit(code: str, said: str) -> None:
    source = operand(np.zeros((128, 32)), "byte", A_AT, "32B", "K", 0)
    report = report_of(code, [source], cells_of(), {"a": source.word})
    assert report.findings[0].rule.name == "tensor-memory" and said in report.findings[0].message, report


# --- exclusive allocation -------------------------------------------------------------------------------


def exclusive(body: str, **options: Any) -> Any:
    kernel = Kernel(SETUP + body, "out:u64")
    out = np.full(4, 0xFFFFFFFF, np.uint32)
    return kernel.run(out, block=64, **options), out


EXCLUSIVE = "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [bar], {columns}\nld.shared.u32 tm, [bar]\n"
RELEASE = "tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 tm, {columns}\n"


@pytest.mark.parametrize("columns", [32, 96, 352, 512])
def test_an_exclusive_allocation_has_any_multiple_of_32(columns: int) -> None:
    body = "@other bra END\n" + (EXCLUSIVE + "st.global.u32 [out], tm\n" + RELEASE).format(columns=columns)
    report, out = exclusive(body + "END:\nret")
    assert report.verdict == "clean" and out[0] == 0, report


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, ("random", 7)])
def test_an_exclusive_allocation_keeps_others_waiting(schedule: str, seed: int) -> None:
    """The second warp's allocation blocks until the first one's is freed."""
    body = f"""
    setp.eq.u32 p, t, 0
    @p mbarrier.init.shared::cta.b64 [bar+8], 32
    bar.sync 0
    @other bra SECOND
    {EXCLUSIVE.format(columns=96)}
    mbarrier.arrive.shared::cta.b64 _, [bar+8]
    mov.u32 n, 0
    DELAY:
    add.u32 n, n, 1
    setp.lt.u32 q, n, 30
    @q bra DELAY
    st.global.u32 [out], 1
    {RELEASE.format(columns=96)}
    ret
    SECOND:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar+8], 0
    @!q bra SECOND
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+16], 64
    ld.global.u32 n, [out]
    st.global.u32 [out+4], n
    ld.shared.u32 tm, [bar+16]
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64
    ret
    """
    # That an allocation waits for a dealloc orders no other memory: [out] is passed on by a race.
    report, out = exclusive(body, schedule=schedule, seed=seed, sanitize=False)
    assert report.verdict == "clean" and out[:2].tolist() == [1, 1], report


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (EXCLUSIVE.format(columns="n").replace("tcgen05", "mov.u32 n, 100\ntcgen05", 1), "a multiple of 32"),
        (EXCLUSIVE.format(columns=64) + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64", "allocated exclusively: 64"),
        (EXCLUSIVE.format(columns=64).replace(".exclusive", "") + RELEASE.format(columns=64), "dealloc.exclusive of 64"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_exclusive_columns(body: str, said: str) -> None:
    report, _ = exclusive("@other bra END\n" + body + "\nEND:\nret")
    assert said in report.findings[0].message, report
