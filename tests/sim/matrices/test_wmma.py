"""wmma through memory: every shape, type, layout and stride, where the fragments themselves are the machine's own."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.layout import wmma_fragment
from tests.sim.kernels.one_instruction import launch, pack

WIDTHS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
}  # fmt: skip
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
PRODUCTS = [
    *(("f16", shape, c, d) for shape in WIDE for c in ("f16", "f32") for d in ("f16", "f32")),
    *((kind, shape, total, total) for kind, total in (("bf16", "f32"), ("s8", "s32"), ("u8", "s32")) for shape in WIDE),
    ("tf32", "m16n16k8", "f32", "f32"), ("f64", "m8n8k4", "f64", "f64"), ("s4", "m8n8k32", "s32", "s32"),
    ("u4", "m8n8k32", "s32", "s32"), ("b1", "m8n8k128", "s32", "s32"),
]  # fmt: skip


def extents(shape: str) -> tuple[int, int, int]:
    m, n, k = shape[1:].replace("n", " ").replace("k", " ").split()
    return int(m), int(n), int(k)


def words(matrix: np.ndarray, kind: str, layout: str, stride: int) -> np.ndarray:
    """The 32-bit words of a matrix by rows or columns, ``stride`` elements apart."""
    lines = matrix if layout == "row" else matrix.T
    padded = np.zeros((len(lines), stride), np.int64)
    padded[:, : lines.shape[1]] = lines
    if kind in DTYPES:
        encoded = np.ascontiguousarray(padded.astype(DTYPES[kind]))
        return encoded.reshape(-1).view(np.uint32)
    codes = padded.astype(np.int64) & ((1 << WIDTHS[kind]) - 1)
    return pack(codes.reshape(-1, 1).astype(np.uint64), WIDTHS[kind])[:, 0]


def fragment(operand: str, shape: str, kind: str, first: int) -> tuple[str, int]:
    """A vector of registers, and the next number."""
    letter = "d" if WIDTHS[kind] == 64 else "r"
    count = wmma_fragment(operand, shape, kind).registers
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}", first + count


def integers(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    low, high = (0, 2) if kind == "b1" else (0, 8) if kind[0] == "u" else (-4, 5)
    return rng.integers(low, high, shape)


def multiply(
    kind: str, shape: str, c_kind: str, d_kind: str, layouts: tuple[str, str, str, str], gap: int, space: str
) -> tuple[np.ndarray, np.ndarray]:
    """D as it lies in memory, and as it should; ``layouts`` of A, B, C, D, ``gap`` bytes behind each line."""
    rng = np.random.default_rng(1)
    m, n, k = extents(shape)
    a, b, c = integers(rng, (m, k), kind), integers(rng, (k, n), kind), integers(rng, (m, n), "s32")
    kinds = (kind, kind, c_kind, d_kind)
    strides = [
        (matrix.shape[1] if layout == "row" else matrix.shape[0]) + 8 * gap // WIDTHS[own]
        for matrix, own, layout in zip((a, b, c, c), kinds, layouts, strict=True)
    ]
    given = [words(*one) for one in zip((a, b, c), kinds[:3], layouts[:3], strides[:3], strict=True)]
    product = (a[:, :, None] != b[None]).sum(1) if kind == "b1" else a @ b
    expected = words(product + c, d_kind, layouts[3], strides[3])
    found = np.zeros_like(expected)
    number, body, vectors = 8, [], []
    where = {"global": [f"%d{i}" for i in range(4)], "generic": [f"%d{i}" for i in range(4)]}
    if space == "shared":
        where["shared"] = []
        body.append("mov.u32 %r1, area;")
        for i, size in enumerate([*map(len, given), len(found)]):
            body.append(f"mov.u32 %r{i + 2}, area;")
            body.append(f"add.u32 %r{i + 2}, %r{i + 2}, {4096 * i};")
            where["shared"].append(f"%r{i + 2}")
            if i < 3:
                body += [
                    f"ld.global.b32 %r7, [%d{i}+{4 * word}];\nst.shared.b32 [%r{i + 2}+{4 * word}], %r7;"
                    for word in range(size)
                ]
        body.append("bar.sync 0;")
    named = "" if space == "generic" else f".{space}"
    for i, operand in enumerate("abcd"):
        text, number = fragment(operand, shape, kinds[i], number)
        vectors.append(text)
        stride = f", {strides[i]}" if gap else ""
        if operand != "d":
            body.append(
                f"wmma.load.{operand}.sync.aligned.{layouts[i]}.{shape}{named}.{kinds[i]} "
                f"{text}, [{where[space][i]}]{stride};"
            )
    types = f"{d_kind}.{c_kind}" if kind == "f16" else f"{d_kind}.{kind}.{kind}.{c_kind}"
    operation = "mma.xor.popc" if kind == "b1" else "mma"
    body.append(
        f"wmma.{operation}.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types} "
        f"{vectors[3]}, {vectors[0]}, {vectors[1]}, {vectors[2]};"
    )
    body.append(
        f"wmma.store.d.sync.aligned.{layouts[3]}.{shape}{named}.{d_kind} [{where[space][3]}], {vectors[3]}"
        f"{f', {strides[3]}' if gap else ''};"
    )
    if space == "shared":
        body.append("bar.sync 0;")
        body += [
            f"ld.shared.b32 %r7, [%r5+{4 * word}];\nst.global.b32 [%d3+{4 * word}], %r7;"
            for word in range(len(found))
        ]
    launch("\n".join(body), *given, found, shared=16384)
    return found, expected


@pytest.mark.parametrize(("kind", "shape", "c_kind", "d_kind"), PRODUCTS)
def test_products(kind: str, shape: str, c_kind: str, d_kind: str) -> None:
    free = WIDTHS[kind] >= 8
    for layouts in itertools.product(
        ("row", "col") if free else ("row",), ("row", "col") if free else ("col",)
    ):
        found, expected = multiply(kind, shape, c_kind, d_kind, (*layouts, "row", "row"), 0, "global")
        assert (found == expected).all(), layouts


@pytest.mark.parametrize("space", ["global", "generic"])
@pytest.mark.parametrize("layouts", list(itertools.product(("row", "col"), repeat=2)))
@pytest.mark.parametrize(("kind", "shape", "total"), [("f16", "m8n32k16", "f16"), ("s8", "m16n16k16", "s32")])
def test_strides_and_layouts_of_sums(
    kind: str, shape: str, total: str, layouts: tuple[str, str], space: str
) -> None:
    found, expected = multiply(kind, shape, total, total, ("row", "col", *layouts), 32, space)
    assert (found == expected).all()


@pytest.mark.parametrize(("kind", "shape", "total"), [("bf16", "m16n16k16", "f32"), ("f64", "m8n8k4", "f64")])
def test_shared_memory(kind: str, shape: str, total: str) -> None:
    found, expected = multiply(kind, shape, total, total, ("col", "row", "col", "row"), 0, "shared")
    assert (found == expected).all()


def test_sums_are_clamped_or_wrap() -> None:
    a, b, c = np.full((16, 16), 127), np.full((16, 16), 127), np.full((16, 16), 2**31 - 1)
    for word, expected in ((".satfinite", 2**31 - 1), ("", (2**31 - 1 + 16 * 127 * 127) % 2**32)):
        found = np.zeros((16, 16), np.uint32)
        body = [
            "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r8, %r9}, [%d0];",
            "wmma.load.b.sync.aligned.col.m16n16k16.global.s8 {%r10, %r11}, [%d1];",
            f"wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {{{', '.join(f'%r{i}' for i in range(12, 20))}}}, [%d2];",
            f"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32{word} "
            f"{{{', '.join(f'%r{i}' for i in range(20, 28))}}}, {{%r8, %r9}}, {{%r10, %r11}}, "
            f"{{{', '.join(f'%r{i}' for i in range(12, 20))}}};",
            f"wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%d3], {{{', '.join(f'%r{i}' for i in range(20, 28))}}};",
        ]
        given = [words(a, "s8", "row", 16), words(b, "s8", "row", 16), words(c, "s32", "row", 16)]
        launch("\n".join(body), *given, found)
        assert (found == expected).all()
