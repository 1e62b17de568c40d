"""ldmatrix, stmatrix and movmatrix, held against the figures of the manual."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.kernels.one_instruction import launch, pack, run_registers

LANE = np.arange(32)
GROUP, IN_GROUP = LANE >> 2, LANE & 3


def rows_of(count: int) -> np.ndarray:
    """Which 16 bytes of the area each lane addresses: an order of its own."""
    return np.random.default_rng(count).permutation(32).astype(np.uint32)


def load(name: str, num: int, area: np.ndarray, rows: np.ndarray, target: str) -> np.ndarray:
    """Registers ``[register, lane]`` that ``name`` loads from the area's rows."""
    found = np.zeros((32, num), np.uint32)
    registers = [f"%r{8 + i}" for i in range(num)]
    body = [
        "mov.u32 %r1, area;",
        "mad.lo.u32 %r2, %r0, 16, %r1;",
        "mad.wide.u32 %d3, %r0, 16, %d0;",
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d3];",
        "st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7};",
        "bar.sync 0;",
        "mad.wide.u32 %d4, %r0, 4, %d1;",
        "ld.global.u32 %r3, [%d4];",
        "mad.lo.u32 %r3, %r3, 16, %r1;",
        f"{name} {{{', '.join(registers)}}}, [%r3];",
        f"mad.wide.u32 %d5, %r0, {4 * num}, %d2;",
        *(f"st.global.b32 [%d5+{4 * i}], {register};" for i, register in enumerate(registers)),
    ]
    launch(
        "\n".join(body), area.view(np.uint32).reshape(32, 4).copy(), rows, found, target=target, shared=512
    )
    return found.T


def store(name: str, num: int, given: np.ndarray, rows: np.ndarray, target: str) -> np.ndarray:
    """Bytes ``[row, 16]`` of an area of zeroes that ``name`` wrote."""
    area = np.zeros((32, 4), np.uint32)
    registers = [f"%r{8 + i}" for i in range(num)]
    body = [
        "mov.u32 %r1, area;",
        "mad.lo.u32 %r2, %r0, 16, %r1;",
        "mov.u32 %r4, 0;",
        "st.shared.v4.b32 [%r2], {%r4, %r4, %r4, %r4};",
        f"mad.wide.u32 %d3, %r0, {4 * num}, %d0;",
        *(f"ld.global.b32 {register}, [%d3+{4 * i}];" for i, register in enumerate(registers)),
        "mad.wide.u32 %d4, %r0, 4, %d1;",
        "ld.global.u32 %r3, [%d4];",
        "mad.lo.u32 %r3, %r3, 16, %r1;",
        "bar.sync 0;",
        f"{name} [%r3], {{{', '.join(registers)}}};",
        "bar.sync 0;",
        "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2];",
        "mad.wide.u32 %d5, %r0, 16, %d2;",
        "st.global.v4.b32 [%d5], {%r4, %r5, %r6, %r7};",
    ]
    launch("\n".join(body), given.T.copy(), rows, area, target=target, shared=512)
    return area.view(np.uint8)


def random_area() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (32, 16)).astype(np.uint8)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_halves(num: int, trans: bool) -> None:
    """A lane has two neighbors of row lane/4; with .trans, of column lane/4. Row r of matrix i is lane 8*i + r's."""
    area, rows = random_area(), rows_of(num)
    name = f"m8n8.x{num}{'.trans' if trans else ''}.shared.b16"
    matrices = area[rows].view(np.uint16).reshape(4, 8, 8)[:num]
    turned = matrices.swapaxes(1, 2) if trans else matrices
    expected = np.stack([
        pack(np.stack([own[GROUP, 2 * IN_GROUP], own[GROUP, 2 * IN_GROUP + 1]]), 16)[0] for own in turned
    ])  # fmt: skip
    assert (load(f"ldmatrix.sync.aligned.{name}", num, area, rows, "sm_90a") == expected).all()
    written = store(f"stmatrix.sync.aligned.{name}", num, expected, rows, "sm_90a")
    kept = np.zeros_like(area)
    kept[rows[: 8 * num]] = area[rows[: 8 * num]]
    assert (written == kept).all()


def test_turning_over() -> None:
    matrix = np.random.default_rng(2).integers(0, 1 << 16, (8, 8))
    given = pack(np.stack([matrix[GROUP, 2 * IN_GROUP], matrix[GROUP, 2 * IN_GROUP + 1]]), 16)[0]
    (found,) = run_registers(
        "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {0};".replace("{d}", "%r9"), [given], 1
    )
    expected = pack(np.stack([matrix[2 * IN_GROUP, GROUP], matrix[2 * IN_GROUP + 1, GROUP]]), 16)[0]
    assert (found == expected).all()


def elements(area: np.ndarray, source: str) -> np.ndarray:
    """Rows of 16 bytes that hold 16 elements, as bytes."""
    if source == "b8":
        return area
    if source == "b6x16_p32":
        return np.array([
            [int.from_bytes(row[:12].tobytes(), "little") >> (6 * i) & 63 for i in range(16)] for row in area
        ], np.uint8)  # fmt: skip
    low = np.array([[row[i // 2] >> (4 * (i % 2)) & 15 for i in range(16)] for row in area], np.uint8)
    return np.where(low >= 8, low | 0xF0, low).astype(np.uint8) if source == "s4" else low


@pytest.mark.parametrize("source", ["b6x16_p32", "b4x16_p64", "s4"])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_rows_of_bytes(num: int, source: str) -> None:
    """m8n16: a lane has four neighbors of row lane/4."""
    area, rows = random_area(), rows_of(num)
    matrices = elements(area[rows], source).reshape(4, 8, 16)[:num]
    expected = np.stack([
        pack(np.stack([own[GROUP, 4 * IN_GROUP + i] for i in range(4)]), 8)[0] for own in matrices
    ])  # fmt: skip
    name = f"ldmatrix.sync.aligned.m8n16.x{num}.shared.{'s8' if source == 's4' else 'b8x16'}.{source}"
    assert (load(name, num, area, rows, "sm_120a") == expected).all()


@pytest.mark.parametrize("source", ["b8", "b6x16_p32", "b4x16_p64"])
@pytest.mark.parametrize("num", [1, 2])
def test_columns_of_bytes(num: int, source: str) -> None:
    """m16n16: a lane has four neighbors of column lane/4, and of column lane/4 + 8."""
    area, rows = random_area(), rows_of(num)
    matrices = elements(area[rows], source).reshape(2, 16, 16)[:num]
    expected = np.stack([
        pack(np.stack([own[4 * IN_GROUP + i, GROUP + 8 * half] for i in range(4)]), 8)[0]
        for own in matrices for half in (0, 1)
    ])  # fmt: skip
    name = f"ldmatrix.sync.aligned.m16n16.x{num}.trans.shared.{'b8' if source == 'b8' else 'b8x16.' + source}"
    assert (load(name, 2 * num, area, rows, "sm_120a") == expected).all()


@pytest.mark.parametrize("num", [1, 2, 4])
def test_storing_columns_of_bytes(num: int) -> None:
    """m16n8: a lane has two neighbors of column lane/4 and of column lane/4 + 8; a row in memory is a column of D."""
    area, rows = random_area(), rows_of(num)
    matrices = area[rows].reshape(4, 8, 16)[:num]
    given = np.stack([
        pack(np.stack([own[2 * IN_GROUP + i, GROUP + 8 * half] for half in (0, 1) for i in (0, 1)]), 8)[0]
        for own in matrices
    ])  # fmt: skip
    written = store(f"stmatrix.sync.aligned.m16n8.x{num}.trans.shared.b8", num, given, rows, "sm_120a")
    kept = np.zeros_like(area)
    kept[rows[: 8 * num]] = area[rows[: 8 * num]]
    assert (written == kept).all()
