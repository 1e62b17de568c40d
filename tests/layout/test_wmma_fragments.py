"""Fragments of wmma: as many registers as the instructions take, every element in them, and equally often."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.isa import form, variants
from pyptx.layout import wmma_fragment
from pyptx.layout.wmma_fragments import FragmentOperand

FRAGMENTS = sorted(
    {
        (match.spelling[1], next(word for word in match.spelling if word[0] == "m" and "k" in word), match.spelling[-1])
        for name in ("load.a", "load.a.bits", "load.b", "load.b.bits", "load.c", "store.d")
        for match in variants(form(f"wmma.{name}"))
    }
)  # fmt: skip


@pytest.mark.parametrize(("operand", "shape", "kind"), FRAGMENTS)
def test_every_element_has_its_places(operand: str, shape: str, kind: str) -> None:
    layout = wmma_fragment(operand, shape, kind)
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    assert (layout.rows, layout.columns) == {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    row, column, _ = layout.places()
    _, counts = np.unique(row * layout.columns + column, return_counts=True)
    assert len(counts) == layout.rows * layout.columns
    assert (counts == 32 * layout.elements // len(counts)).all()


@pytest.mark.parametrize(
    ("matrix", "chosen", "rows", "columns"),
    [
        ("a", {"shape": "m16n16k16", "t": "f16"}, 16, 16),  # ldmatrix
        ("b", {"shape": "m16n16k16", "t": "s8"}, 16, 16),
        ("a", {"shape": "m16n16k8", "t": "tf32"}, 16, 32),  # four lanes along K, and eight along M
        ("b", {"shape": "m16n16k8", "t": "tf32"}, 32, 16),
        ("c", {"shape": "m16n16k16", "t": "f32"}, 32, 32),  # two columns a lane; eight rows
        ("c", {"shape": "m16n16k16", "t": "f16"}, 16, 16),
    ],
)
def test_how_much_of_a_line_a_register_of_each_thread_has(
    matrix: str, chosen: dict[str, str], rows: int, columns: int
) -> None:
    operand = FragmentOperand(matrix, "t")
    assert operand.together({**chosen, "layout": "row"}) == rows
    assert operand.together({**chosen, "layout": "col"}) == columns


def test_as_many_registers_as_the_instructions_take() -> None:
    for name in ("load.a", "load.a.bits", "load.b", "load.b.bits", "load.c", "store.d"):
        for match in variants(form(f"wmma.{name}")):
            spec = next(spec for spec in match.form.specs() if spec.name == "r")
            shape = next(word for word in match.spelling if word[0] == "m" and "k" in word)
            layout = wmma_fragment(match.spelling[1], shape, match.spelling[-1])
            assert layout.registers == (spec.length(match.chosen) or 1), match.name
            assert layout.register_bits == spec.scalar_types(match.chosen)[0].bits, match.name


def test_halves_of_wide_shapes_are_no_copies() -> None:
    """A of m32n8k16 fills its 16 elements; A of m16n16k16 has each of 8 twice, of m8n32k16 each of 4 four times."""
    for shape, distinct in (("m32n8k16", 16), ("m16n16k16", 8), ("m8n32k16", 4)):
        layout = wmma_fragment("a", shape, "f16")
        places = [layout.place(i) for i in range(16)]
        assert places == list(itertools.islice(itertools.cycle(places[:distinct]), 16))
        assert len(set(places)) == distinct


@pytest.mark.parametrize(
    ("operand", "shape", "kind"),
    [("e", "m16n16k16", "f16"), ("a", "m16n16k8", "f16"), ("d", "m8n8k4", "f32"), ("a", "m9n9k9", "f16")],
)
def test_no_such_fragment(operand: str, shape: str, kind: str) -> None:
    with pytest.raises(SpecError, match=operand if operand == "e" else kind):
        wmma_fragment(operand, shape, kind)
