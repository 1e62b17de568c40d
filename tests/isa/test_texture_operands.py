"""Texture and surface operands: what depends on the modifiers, what is converted, what is refused."""

from __future__ import annotations

import pytest

from pyptx.core.errors import OperandError
from pyptx.core.types import TYPES
from pyptx.ir import Address, Immediate, Operand, Pair, Register, Sink, Symbol, Vector
from pyptx.isa import bind

F = Register("f", TYPES["f32"])
S = Register("s", TYPES["s32"])
HANDLE = Register("h", TYPES["u64"])
P = Register("p", TYPES["pred"])
D = Vector((F, F, F, F))


def test_a_pair_needs_a_later_version() -> None:
    lookup = ("1d", "v4", "f32", "f32")
    place = Address(HANDLE, coordinates=Vector((F,)))
    assert bind("tex", lookup, (D, place)).since < (7, 1)
    assert bind("tex", lookup, (Pair(D, P), place)).since == (7, 1)


def test_one_coordinate_without_braces_and_a_literal() -> None:
    lookup = ("1d", "v4", "f32", "f32")
    assert bind("tex", lookup, (D, Address(Symbol("t"), extra=(F,)))).form_id == "tex"
    assert bind("tex", lookup, (D, Address(Symbol("t"), extra=(Symbol("s"), F)))).form_id == "tex.sampler"
    found = bind("tex", lookup, (D, Address(HANDLE, coordinates=Vector((Immediate(1),))))).operands["a"]
    assert str(found) == "[%h, {0f3F800000}]"


@pytest.mark.parametrize(
    ("modifiers", "operands", "reason"),
    [
        # A cube has no offset, integer coordinates nothing to compare with.
        (
            ("cube", "v4", "f32", "f32"),
            (D, Address(HANDLE, coordinates=D), Vector((S, S))),
            "3 operands|fit|vector",
        ),
        (
            ("2d", "v4", "f32", "s32"),
            (D, Address(HANDLE, coordinates=Vector((S, S))), F),
            "3 operands|vector",
        ),
        (("3d", "v4", "f32", "f32"), (D, Address(HANDLE, coordinates=Vector((F, F, F)))), "vector of 4"),
        (("3d", "v4", "f32", "f32"), (D, Address(HANDLE, 4, coordinates=D)), "without an offset"),
        (
            ("3d", "v4", "f32", "f32"),
            (Pair(D, Sink()), Address(HANDLE, coordinates=D)),
            "expected a predicate",
        ),
        (
            ("1d", "v4", "f32", "f32"),
            (D, Address(HANDLE, extra=(Immediate(1),))),
            "the address has no coordinates",
        ),
    ],
)
def test_refused(modifiers: tuple[str, ...], operands: tuple[Operand, ...], reason: str) -> None:
    with pytest.raises(OperandError, match=reason):
        bind("tex", modifiers, operands)


def test_an_argument_of_a_call_has_a_name() -> None:
    with pytest.raises(OperandError, match="expected the name of a variable"):
        bind("st", ("param", "f32"), (Address(HANDLE), F))
    assert bind("st", ("param", "f32"), (Address(Symbol("argument"), 4), F)).form_id == "st.param"
