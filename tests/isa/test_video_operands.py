"""Parts of registers: the selectors and the minus of video operands."""

from __future__ import annotations

import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import TYPES
from pyptx.ir import Element, Immediate, Minus, Operand, Register
from pyptx.isa import bind

WORD = Register("r", TYPES["u32"])
WIDE = Register("w", TYPES["u64"])
SCALAR = ("u32", "u32", "u32")


def bound(opcode: str, modifiers: tuple[str, ...], *operands: Operand) -> str:
    return bind(opcode, modifiers, operands).form_id


def test_parts_are_read_and_merged() -> None:
    assert bound("vadd", SCALAR, WORD, Element(WORD, "h1"), Element(WORD, "b3")) == "vadd"
    assert bound("vadd", SCALAR, Element(WORD, "b0"), WORD, WORD, WORD) == "vadd.merge"
    halves = Element(WORD, "h10"), Element(WORD, "h32"), Element(WORD, "h10")
    assert bound("vadd2", SCALAR, *halves, WORD) == "vadd2"
    assert bound("vadd4", SCALAR, Element(WORD, "b310"), Element(WORD, "b7654"), WORD, WORD) == "vadd4"
    assert bound("vmad", SCALAR, WORD, Minus(Element(WORD, "b1")), WORD, WORD) == "vmad"
    assert bound("vmad", SCALAR, WORD, WORD, WORD, Minus(WORD)) == "vmad"


@pytest.mark.parametrize(
    ("opcode", "modifiers", "operands", "reason"),
    [
        ("vadd", SCALAR, (WORD, Element(WORD, "h2"), WORD), "\\.h2 is not a part"),
        ("vadd", SCALAR, (WORD, Element(WIDE, "h1"), WORD), "does not fit"),
        ("vadd", SCALAR, (WORD, Minus(WORD), WORD), "negated register is not allowed"),
        ("vadd", SCALAR, (WORD, WORD, WORD, WORD), "operands given|only allowed|register is not allowed"),
        ("vadd4", SCALAR, (Element(WORD, "b01"), WORD, WORD, WORD), "\\.b01 is not a part"),
        ("vadd4", SCALAR, (WORD, Immediate(1), WORD, WORD), "immediate is not allowed"),
        (
            "vmad",
            (*SCALAR[:3], "po"),
            (WORD, WORD, WORD, Minus(WORD)),
            "legal|negated register is not allowed",
        ),
        ("add", ("u32",), (WORD, Element(WORD, "b0"), WORD), "part of a register is not allowed"),
    ],
)
def test_others_are_refused(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], reason: str
) -> None:
    with pytest.raises(OperandError, match=reason):
        bind(opcode, modifiers, operands)


def test_packed_operands_are_bits() -> None:
    bits = Register("b", TYPES["b32"])
    assert bound("add", ("u16x2",), bits, bits, bits) == "add.packed16"
    with pytest.raises(OperandError, match="does not fit"):
        bind("add", ("u16x2",), (bits, WORD, bits))
