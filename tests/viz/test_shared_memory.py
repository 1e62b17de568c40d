"""Swizzles and core matrices: every cell of the figures is where the layout functions say."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import OperandError, OperandTile, SpecError, Tcgen05SmemDescriptor, UnsupportedError, layout, viz
from pyptx.viz import shared_memory
from tests.viz.reading import cells, lines, texts


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_64B"])
def test_swizzle(mode: str) -> None:
    found = cells(viz.swizzle(mode), mode=mode)
    assert len(found) == 64
    left, top = min(each.x for each in found), min(each.y for each in found)
    span = layout.COPY_SWIZZLES[mode] or 16
    for each in found:
        source = each.number("row") * span + each.number("chunk") * 16
        place = layout.swizzle(source, mode)
        assert each.number("address") == place
        assert each.text == f"{each.data['row']}.{each.data['chunk']}"
        assert ((each.y - top) / each.height, (each.x - left) / each.width) == (
            place // 128,
            place % 128 // 16,
        )
        assert each.fill == f"c{source % span // 16 % 8}"


def test_panels_of_several_modes() -> None:
    figure = viz.swizzle(["32B", "128B"])
    assert [len(cells(figure, mode=mode)) for mode in ("32B", "64B", "128B")] == [64, 0, 64]
    assert not {e.x for e in cells(figure, mode="32B")} & {e.x for e in cells(figure, mode="128B")}


def test_another_layout_is_another_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    right = viz.swizzle("128B").svg
    monkeypatch.setattr(shared_memory, "swizzled", lambda address, mode: address ^ ((address >> 8 & 7) << 4))
    assert viz.swizzle("128B").svg != right


OPERANDS = [
    (32, 32, 16, "K", "none"),
    (32, 64, 16, "K", "128B"),
    (16, 128, 16, "K", "128B"),
    (32, 32, 8, "K", "32B"),
    (16, 64, 16, "K", "64B"),
    (16, 128, 4, "K", "64B"),
    (64, 32, 16, "MN", "none"),
    (128, 32, 16, "MN", "128B"),
    (64, 16, 16, "MN", "64B"),
    (64, 16, 8, "MN", "32B"),
    (32, 16, 32, "MN", "128B_ATOM_32B"),
]


@pytest.mark.parametrize(("rows", "k", "bits", "major", "mode"), OPERANDS)
@pytest.mark.sample(3)
def test_core_matrices(rows: int, k: int, bits: int, major: str, mode: str) -> None:
    figure = viz.core_matrices(rows, k, bits, major, mode)
    tile = OperandTile(rows, k, bits, major, mode)  # type: ignore[arg-type]
    across = k * bits // 128 if major == "K" else k // 8
    per = 128 // bits  # elements of 16 bytes

    def address(row: int, column: int) -> int:
        """The address of an element: of the descriptor that starts at the row's box."""
        first = (
            0 if major == "MN" or mode == "none" else column * bits // 8 // tile.span * tile.span * 8 // bits
        )
        descriptor = Tcgen05SmemDescriptor(
            tile.k_offset(first), tile.leading_bytes, tile.stride_bytes, tile.swizzle
        )
        if bits == 4:
            return int(
                layout.element_addresses(descriptor, rows, tile.span, 1, "K")[row, (column - first) // 2]
            )
        reach = k if major == "MN" or mode == "none" else tile.span * 8 // bits
        return int(
            layout.element_addresses(descriptor, rows, reach, bits // 8, tile.major)[row, column - first]
        )

    matrices = cells(figure, matrix=...)
    assert len(matrices) == rows * k * bits // 8 // 128
    for each in matrices:
        i, j = each.number("down"), each.number("across")
        first = address(i * 8, j * per) if major == "K" else address(i * per, j * 8)
        assert each.number("offset") == first and each.text == f"+{first}"
        assert each.number("matrix") == i * across + j
    memory = cells(figure, holds=...)
    assert [each.number("address") for each in memory] == list(range(0, len(memory) * 16, 16))
    for each in memory:
        (i, j), part = divmod(each.number("holds"), across), each.number("part")
        row, column = (i * 8 + part, j * per) if major == "K" else (i * per, j * 8 + part)
        assert address(row, column) == each.number("address")


@pytest.mark.parametrize(
    ("major", "mode", "rows", "k", "leading", "stride"),
    [
        # What each offset leads to, by the canonical layouts of the PTX ISA: (down, across) in core matrices.
        ("K", "none", 64, 32, (0, 1), (1, 0)),
        ("K", "128B", 64, 64, None, (1, 0)),
        ("MN", "none", 64, 32, (0, 1), (1, 0)),
        ("MN", "128B", 128, 32, (8, 0), (0, 1)),
        ("MN", "64B", 64, 32, (4, 0), (0, 1)),
    ],
)
def test_arrows_of_lbo_and_sbo(
    major: str, mode: str, rows: int, k: int, leading: tuple[int, int] | None, stride: tuple[int, int]
) -> None:
    figure = viz.core_matrices(rows, k, 16, major, mode)
    tile = OperandTile(rows, k, 16, major, mode)  # type: ignore[arg-type]
    drawn = {each["stride"]: each for each in lines(figure, "stride")}
    offsets = {(c.number("down"), c.number("across")): c.number("offset") for c in cells(figure, matrix=...)}
    for name, target, value in (("LBO", leading, tile.leading_bytes), ("SBO", stride, tile.stride_bytes)):
        if target is None:
            assert name not in drawn and f"{name} is not used" in texts(figure)
        else:
            assert (int(drawn[name]["down"]), int(drawn[name]["across"])) == target
            assert int(drawn[name]["bytes"]) == value == offsets[target]
            assert f"{name} = {value} bytes" in texts(figure)


def test_errors_have_the_line_of_the_call() -> None:
    for call, error in (
        (lambda: viz.swizzle([]), SpecError),
        (lambda: viz.swizzle("256B"), SpecError),
        (lambda: viz.swizzle(128), OperandError),
        (lambda: viz.swizzle("128B_ATOM_32B_FLIP_8B"), UnsupportedError),
        (lambda: viz.core_matrices(256, 64), SpecError),
        (lambda: viz.core_matrices(32, 20), SpecError),
        (lambda: viz.core_matrices(major="N"), SpecError),
        (lambda: viz.core_matrices(rows="8"), OperandError),
    ):
        with pytest.raises(error) as caught:
            call()
        location = caught.value.location  # type: ignore[attr-defined]
        assert location is not None and location.file == __file__, caught.value


def test_numpy_numbers_are_numbers() -> None:
    assert viz.core_matrices(np.int64(32), 32).svg == viz.core_matrices(32, 32).svg
