"""Tensor copies of boxes: element strides, swizzles of larger atoms, packed elements, four rows, reductions.

Each oracle goes element by element, by the manual's definitions.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx.layout import TensorMap
from tests.sim.build import Kernel
from tests.sim.copies.test_tma import AREA, POISON, SCHEDULES, kernel_text
from tests.sim.memory.test_memory import finding

POISONED = np.full(AREA, POISON, np.uint8)
DONE = "mbarrier::complete_tx::bytes"


def load_kernel(dim: str, mode: str, coordinates: int, tail: str = "", suffix: str = "") -> Kernel:
    """``coordinates`` numbers c0, c1 ... are parameters."""
    point = ", ".join(f"c{i}" for i in range(coordinates))
    body = f"""
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], bytes
    cp.async.bulk.tensor.{dim}.shared::cta.global{mode}.{DONE}{suffix} [d], [map, {{{point}}}], [b]{tail}
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q bra W
    """
    params = " ".join(f"c{i}:s32" for i in range(coordinates))
    return Kernel(
        kernel_text(0, body), f"map:map fill:u64 out:u64 at:u32 bytes:u32 {params}", target="sm_100a"
    )


def store_kernel(dim: str, mode: str, coordinates: int, reduce: str = "") -> Kernel:
    point = ", ".join(f"c{i}" for i in range(coordinates))
    verb = "cp.reduce.async.bulk.tensor" if reduce else "cp.async.bulk.tensor"
    body = f"""
    {verb}.{dim}.global.shared::cta{reduce}{mode}.bulk_group [map, {{{point}}}], [d]
    cp.async.bulk.commit_group
    cp.async.bulk.wait_group 0
    """
    params = " ".join(f"c{i}:s32" for i in range(coordinates))
    return Kernel(
        kernel_text(0, body), f"map:map fill:u64 out:u64 at:u32 bytes:u32 {params}", target="sm_100a"
    )


def loaded(
    kernel: Kernel, tensor_map: TensorMap, nbytes: int, where: tuple[int, ...], number: int, at: int = 0
) -> NDArray[np.uint8]:
    schedule, seed = SCHEDULES[number % len(SCHEDULES)]
    out = np.zeros(AREA, np.uint8)
    kernel.clean(tensor_map, POISONED, out, at, nbytes, *where, block=128, schedule=schedule, seed=seed)
    return out


def stored(kernel: Kernel, tensor_map: TensorMap, area: NDArray[Any], where: Any, number: int) -> None:
    schedule, seed = SCHEDULES[number % len(SCHEDULES)]
    out = np.zeros(AREA, np.uint8)
    kernel.clean(tensor_map, area, out, 0, 0, *where, block=128, schedule=schedule, seed=seed)
    assert out.tobytes() == area.tobytes()


# --- element strides ----------------------------------------------------------------------------


@pytest.mark.parametrize("rank", range(2, 6))
def test_element_strides(rank: int) -> None:
    """The box is walked in steps; how many elements arrive is the box over the step, rounded up."""
    generator = random.Random(f"strides {rank}")
    load, store = load_kernel(f"{rank}d", "", rank), store_kernel(f"{rank}d", "", rank)
    for number in range(8):
        shape = (*(generator.randint(3, 7) for _ in range(rank - 1)), 24)
        box = (*(generator.randint(1, 5) for _ in range(rank - 1)), 8)
        # The innermost one is ignored.
        steps = (*(generator.randint(1, 3) for _ in range(rank - 1)), generator.randint(1, 8))
        where = (8 * generator.randint(-1, 3), *(generator.randint(-3, 6) for _ in range(rank - 1)))
        tensor = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint16).reshape(shape)
        counts = [*(-(-b // e) for b, e in zip(box[:-1], steps[:-1], strict=True)), 8]

        def places(where: tuple[int, ...], counts: list[int] = counts, steps: Any = steps) -> Any:
            for place in itertools.product(*map(range, counts)):
                yield tuple(
                    start + i * (step if axis < rank - 1 else 1)
                    for axis, (start, i, step) in enumerate(zip(where[::-1], place, steps, strict=True))
                )

        def inside(index: tuple[int, ...], shape: Any = shape) -> bool:
            return all(0 <= i < n for i, n in zip(index, shape, strict=True))

        nbytes = 2 * int(np.prod(counts))
        tensor_map = TensorMap.tiled(tensor, box=box, element_strides=steps)
        got = loaded(load, tensor_map, nbytes, where, number)
        expected = [tensor[index] if inside(index) else 0 for index in places(where)]
        assert got[:nbytes].view(np.uint16).tolist() == expected
        assert (got[nbytes:] == POISON).all()

        target = np.zeros(shape, np.uint16)
        area = np.frombuffer(generator.randbytes(AREA), np.uint8).copy()
        positive = tuple(max(0, at) for at in where)
        stored(store, TensorMap.tiled(target, box=box, element_strides=steps), area, positive, number)
        wanted = np.zeros(shape, np.uint16)
        for value, index in zip(area.view(np.uint16), places(positive), strict=False):
            if inside(index):
                wanted[index] = value
        np.testing.assert_array_equal(target, wanted)


# --- swizzles of larger atoms -------------------------------------------------------------------


def moved(address: int, swizzle: str) -> int:
    """By the manual's tables: whole atoms change places in a row of 128 bytes."""
    row, within = divmod(address, 128)
    if swizzle == "128B_ATOM_64B":
        return row * 128 + (within // 64 ^ row % 2) * 64 + within % 64
    within = (within // 32 ^ row % 4) * 32 + within % 32
    if swizzle.endswith("FLIP_8B") and row % 2:
        within ^= 8
    return row * 128 + within


@pytest.mark.parametrize("swizzle", ["128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"])
@pytest.mark.parametrize("inner", [64, 32, 8])
def test_larger_atoms(swizzle: str, inner: int) -> None:
    matrix = np.arange(1, 20 * 64 + 1, dtype=np.uint16).reshape(20, 64)
    load, store = load_kernel("2d", "", 2), store_kernel("2d", "", 2)
    for number, at in enumerate((0, 128, 384, 1024)):
        tensor_map = TensorMap.tiled(matrix, box=(9, inner), swizzle=swizzle)
        got = loaded(load, tensor_map, 9 * inner * 2, (0, 5), number, at)
        expected = POISONED.copy()
        for row, byte in itertools.product(range(9), range(2 * inner)):
            expected[moved(at + 128 * row + byte, swizzle)] = matrix.view(np.uint8)[5 + row, byte]
        np.testing.assert_array_equal(got, expected)
    target = np.zeros((20, 64), np.uint16)
    area = np.random.default_rng(1).integers(0, 256, AREA).astype(np.uint8)
    tensor_map = TensorMap.tiled(target, box=(9, inner), swizzle=swizzle)
    if swizzle.endswith("FLIP_8B"):
        report = store.run(tensor_map, area, np.zeros(AREA, np.uint8), 0, 0, 0, 5, block=128)
        finding(report, "bad-tensor-map")
        return
    stored(store, tensor_map, area, (0, 5), 1)
    for row, byte in itertools.product(range(9), range(2 * inner)):
        assert target.view(np.uint8)[5 + row, byte] == area[moved(128 * row + byte, swizzle)]
    assert not target[:5].any() and not target[14:].any() and not target[:, inner:].any()


# --- packed elements ----------------------------------------------------------------------------


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """Bytes at a multiple of 32, in an allocation of their own."""
    room = np.zeros(nbytes + 32, np.uint8)
    start = -room.ctypes.data % 32
    return np.frombuffer(room.data, np.uint8, nbytes, start)


def packed(values: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Rows of values as rows of bits, the first lowest."""
    every = (values[..., None] >> np.arange(bits)) & 1
    return np.packbits(every.reshape(len(values), -1), axis=1, bitorder="little")


@pytest.mark.parametrize(
    ("element", "bits", "held"), [("b4x16", 4, 8), ("b4x16_p64", 4, 16), ("b6x16_p32", 6, 16)]
)
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_packed_loads(element: str, bits: int, held: int, swizzle: str) -> None:
    """Sixteen elements take ``held`` bytes of shared memory, what is between them is open, and is not counted.

    CUTLASS expects ``bits`` for each (TmaTransactionBytes of sm100_mma_warpspecialized), and so does Triton.
    """
    values = np.random.default_rng(bits).integers(0, 1 << bits, (10, 256)).astype(np.uint8)
    data = packed(values, bits)
    memory = aligned(data.size)
    memory[:] = data.reshape(-1)
    tensor_map = TensorMap.tiled(memory, shape=(10, 256), box=(4, 128), element=element, swizzle=swizzle)
    load = load_kernel("2d", "", 2)
    for number, (x, y) in enumerate([(0, 0), (128, 3), (128, 8), (-128, 1), (0, -2), (256, 0)]):
        nbytes = 4 * 8 * 2 * bits
        got = loaded(load, tensor_map, nbytes, (x, y), number)
        pitch = 128 if swizzle == "128B" else 8 * held
        for row, group in itertools.product(range(4), range(8)):
            start = row * pitch + group * held
            if swizzle == "128B":
                start ^= (start // 128 % 8) * 16
            inside = 0 <= y + row < 10 and 0 <= x < 256
            wanted = values[y + row, x + 16 * group :][:16] if inside else np.zeros(16, np.uint8)
            there = got[start : start + 2 * bits]
            assert there.tobytes() == packed(wanted[None], bits).tobytes(), (x, y, row, group)


def test_stores_pack_six_bits() -> None:
    """Each byte of shared memory gives its lower six bits."""
    memory = aligned(10 * 192)
    tensor_map = TensorMap.tiled(memory, shape=(10, 256), box=(4, 128), element="b6x16_p32")
    area = np.random.default_rng(6).integers(0, 256, AREA).astype(np.uint8)
    stored(store_kernel("2d", "", 2), tensor_map, area, (128, 7), 2)
    expected = np.zeros((10, 192), np.uint8)
    expected[7:, 96:] = packed(area[: 3 * 128].reshape(3, 128) & 63, 6)
    np.testing.assert_array_equal(memory.reshape(10, 192), expected)


@pytest.mark.full
def test_packed_stores() -> None:
    memory = aligned(10 * 128)
    area = np.random.default_rng(7).integers(0, 256, AREA).astype(np.uint8)
    tensor_map = TensorMap.tiled(memory, shape=(10, 256), box=(4, 64), element="b4x16")
    stored(store_kernel("2d", "", 2), tensor_map, area, (224, 8), 0)
    expected = np.zeros((10, 128), np.uint8)
    expected[8:, 112:] = area[:64].reshape(2, 32)[:, :16]
    np.testing.assert_array_equal(memory.reshape(10, 128), expected)
    padded = TensorMap.tiled(memory, shape=(10, 256), box=(4, 128), element="b4x16_p64")
    report = store_kernel("2d", "", 2).run(padded, area, np.zeros(AREA, np.uint8), 0, 0, 0, 0, block=128)
    finding(report, "bad-tensor-map")


# --- rounding and fills of floats ---------------------------------------------------------------


def test_tf32_loads_round() -> None:
    """To the nearest, ties to even; measured on an H200: a NaN becomes 7fffe000, subnormal numbers stay."""
    words = [0x3F800FFF, 0x3F801000, 0x3F803000, 0x3F801001, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
    expected = [0x3F800000, 0x3F800000, 0x3F804000, 0x3F802000, 0x7F800000, 0x7F800000, 0xFF800000]
    words += [
        0xFFD4FB93,
        0x7FA3B852,
        0x801DD3ED,
        0x002DAAF8,
        0x80000001,
        0,
        0x80000000,
        0x7FF77FF7,
        0x3F802000,
    ]
    expected += [
        0x7FFFE000,
        0x7FFFE000,
        0x801DE000,
        0x002DA000,
        0x80000000,
        0,
        0x80000000,
        0x7FFFE000,
        0x3F802000,
    ]
    tensor = np.array(words, np.uint32).view(np.float32)
    for element in ("tf32", "tf32.ftz"):
        tensor_map = TensorMap.tiled(tensor, box=(16,), dtype="tf32", element=element, oob_fill="nan")
        got = loaded(load_kernel("1d", "", 1), tensor_map, 64, (4,), 1)[:64].view(np.uint32)
        assert got.tolist() == expected[4:] + [0x7FF77FF7] * 4


# --- four rows ----------------------------------------------------------------------------------

ROWS = [(0, 3, 7, 1), (5, 5, -1, 9), (2, 100, 8, -7)]


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("rows", ROWS)
def test_gather4(swizzle: str, rows: tuple[int, ...]) -> None:
    matrix = np.arange(1, 9 * 80 + 1, dtype=np.uint16).reshape(9, 80)
    tensor_map = TensorMap.tiled(matrix, box=(1, 64), swizzle=swizzle)
    load = load_kernel("2d", ".tile::gather4", 5)
    for number, x in enumerate((0, 16, 48, -8)):
        got = loaded(load, tensor_map, 4 * 128, (x, *rows), number)
        for row, column in itertools.product(range(4), range(64)):
            address = row * 128 + column * 2
            if swizzle == "128B":
                address ^= (row % 8) * 16
            inside = 0 <= rows[row] < 9 and 0 <= x + column < 80
            value = int(got[address]) | int(got[address + 1]) << 8
            assert value == (matrix[rows[row], x + column] if inside else 0)
        assert (got[512:] == POISON).all()


def test_scatter4() -> None:
    store = store_kernel("2d", ".tile::scatter4", 5)
    area = np.random.default_rng(3).integers(0, 256, AREA).astype(np.uint8)
    for number, rows in enumerate([(0, 3, 7, 1), (5, 2, 100, 9)]):
        target = np.zeros((9, 80), np.uint16)
        stored(store, TensorMap.tiled(target, box=(1, 64)), area, (48, *rows), number)
        expected = np.zeros((9, 80), np.uint16)
        for row, values in zip(rows, area[:512].view(np.uint16).reshape(4, 64), strict=True):
            if row < 9:
                expected[row, 48:] = values[:32]
        np.testing.assert_array_equal(target, expected)


def test_four_rows_need_a_box_of_one() -> None:
    tensor_map = TensorMap.tiled(np.zeros((9, 80), np.uint16), box=(2, 64))
    report = load_kernel("2d", ".tile::gather4", 5).run(
        tensor_map, POISONED, np.zeros(AREA, np.uint8), 0, 512, 0, 0, 1, 2, 3, block=128
    )
    assert "a box of one row" in finding(report, "bad-tensor-map").message


# --- reductions ---------------------------------------------------------------------------------


def reduced(op: str, old: Any, given: Any) -> Any:
    """Elementwise, for exact values."""
    if op in ("inc", "dec"):
        pairs = zip(old.tolist(), given.tolist(), strict=True)
        if op == "inc":
            return np.array([0 if a >= b else a + 1 for a, b in pairs], old.dtype)
        return np.array([b if a == 0 or a > b else a - 1 for a, b in pairs], old.dtype)
    table = {"add": np.add, "min": np.minimum, "max": np.maximum}
    bits = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return (table | bits)[op](old, given)


INTEGERS = [np.uint32, np.int32, np.uint64, np.int64]
REDUCTIONS = [
    *[("add", dtype) for dtype in (*INTEGERS[:3], np.float16, np.float32, np.float64)],
    *[(op, dtype) for op in ("min", "max") for dtype in (*INTEGERS, np.float16)],
    *[(op, dtype) for op in ("and", "or", "xor") for dtype in INTEGERS],
    *[(op, np.uint32) for op in ("inc", "dec")],
]


@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS)
def test_reductions(op: str, dtype: Any) -> None:
    generator = np.random.default_rng(2)
    columns = 128 // np.dtype(dtype).itemsize
    low = 0 if np.dtype(dtype).kind == "u" else -99
    given = generator.integers(low, 99, AREA // np.dtype(dtype).itemsize).astype(dtype)
    kernel = store_kernel("2d", "", 2, f".{op}")
    for number in range(len(SCHEDULES)):
        target = generator.integers(low, 99, (6, columns)).astype(dtype)
        expected = target.copy()
        box = given[: 5 * columns // 2].reshape(5, columns // 2)
        inside = expected[2:, columns // 2 :]
        inside[...] = reduced(op, inside.reshape(-1), box[:4].reshape(-1)).reshape(inside.shape)
        tensor_map = TensorMap.tiled(target, box=(5, columns // 2))
        stored(kernel, tensor_map, given.view(np.uint8), (columns // 2, 2), number)
        np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(("op", "dtype"), [("add", np.uint16), ("inc", np.int32), ("and", np.float32)])
def test_reductions_that_do_not_exist(op: str, dtype: Any) -> None:
    tensor_map = TensorMap.tiled(np.zeros((6, 64), dtype), box=(2, 16))
    area = np.zeros(AREA, np.uint8)
    report = store_kernel("2d", "", 2, f".{op}").run(tensor_map, area, area.copy(), 0, 0, 0, 0, block=128)
    assert "have no reduction" in finding(report, "bad-tensor-map").message


# --- what else an instruction says --------------------------------------------------------------


def test_one_cta_of_a_group_and_policies() -> None:
    matrix = np.arange(1, 9 * 64 + 1, dtype=np.uint16).reshape(9, 64)
    tensor_map = TensorMap.tiled(matrix, box=(4, 64))
    for suffix, tail in (
        (".cta_group::1", ""),
        (".L2::cache_hint", ", f"),
        (".cta_group::1.L2::cache_hint", ", f"),
    ):
        load = load_kernel("2d", ".tile", 2, tail, suffix)
        got = loaded(load, tensor_map, 512, (0, 3), 1)
        assert got[:512].tobytes() == matrix[3:7].tobytes()


def test_modes_and_maps_belong_together() -> None:
    matrix = TensorMap.tiled(np.zeros((9, 8, 64), np.uint16), box=(1, 4, 64))
    report = load_kernel("3d", ".im2col", 3, ", {0}").run(
        matrix, POISONED, np.zeros(AREA, np.uint8), 0, 512, 0, 0, 0, block=128
    )
    assert "a tiled tensor map" in finding(report, "bad-tensor-map").message
    pixels = TensorMap.im2col(np.zeros((9, 8, 64), np.uint16), pixels=4, channels=64, lower=(0,), upper=(0,))
    report = load_kernel("3d", "", 3).run(
        pixels, POISONED, np.zeros(AREA, np.uint8), 0, 512, 0, 0, 0, block=128
    )
    assert "an im2col tensor map" in finding(report, "bad-tensor-map").message


@pytest.mark.parametrize(
    ("dim", "mode", "coordinates"), [("2d", "", (0, 3)), ("2d", ".tile::gather4", (0, 3, 4, 5, 6))]
)
def test_wide_masks_of_this_cta(dim: str, mode: str, coordinates: tuple[int, ...]) -> None:
    matrix = np.arange(1, 9 * 64 + 1, dtype=np.uint16).reshape(9, 64)
    tensor_map = TensorMap.tiled(matrix, box=(1 if mode else 4, 64))
    point = ", ".join(f"c{i}" for i in range(len(coordinates)))
    body = f"""
    .reg u16 mask
    mov.u16 mask, 1
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], bytes
    cp.async.bulk.tensor.{dim}.shared::cluster.global{mode}.{DONE}.multicast::cluster::16b [d], [map, {{{point}}}], [b], mask
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q bra W
    """
    params = " ".join(f"c{i}:s32" for i in range(len(coordinates)))
    wide = Kernel(
        kernel_text(0, body), f"map:map fill:u64 out:u64 at:u32 bytes:u32 {params}", target="sm_100a"
    )
    got = loaded(wide, tensor_map, 512, coordinates, 2)
    assert got[:512].tobytes() == matrix[3:7].tobytes()


def test_interleaved_tensors_are_not_modeled() -> None:
    tensor_map = TensorMap.tiled(np.zeros((3, 4, 5, 8), np.uint16), box=(1, 2, 3, 8), interleave="16B")
    report = load_kernel("4d", "", 4).run(
        tensor_map, POISONED, np.zeros(AREA, np.uint8), 0, 96, 0, 0, 0, 0, block=128
    )
    assert report.verdict == "incomplete"
    assert "interleave" in report.findings[0].message


def test_prefetches_ask_for_a_map_that_fits() -> None:
    """They change nothing, and what is no copy is no prefetch."""
    body = """
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile [map, {c0, c1}]
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [more, {c0, c1, c1, c1, c1}]
    """
    kernel = Kernel(
        kernel_text(0, body), "map:map fill:u64 out:u64 at:u32 more:map c0:s32 c1:s32", target="sm_100a"
    )
    matrix = np.zeros((9, 64), np.uint16)
    given = TensorMap.tiled(matrix, box=(4, 64)), POISONED, np.zeros(AREA, np.uint8), 0
    kernel.clean(*given, TensorMap.tiled(matrix, box=(1, 64)), 0, -3, block=128)
    assert given[2].tobytes() == POISONED.tobytes()
    report = kernel.run(*given, TensorMap.tiled(matrix, box=(1, 64)), 4, 0, block=128)
    assert "not a multiple of 16" in finding(report, "bad-tensor-map").message
