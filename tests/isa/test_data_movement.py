"""How much one access of memory moves."""

from __future__ import annotations

import pytest

from pyptx.core.errors import InstructionError
from pyptx.isa import match_modifiers


@pytest.mark.parametrize("opcode", ["ld", "st"])
@pytest.mark.parametrize("words", [("v4", "f32"), ("v2", "f64"), ("v4", "b8"), ("v2", "u16"), ("f64",)])
def test_a_vector_of_at_most_16_bytes(opcode: str, words: tuple[str, ...]) -> None:
    assert match_modifiers(opcode, ("shared", *words))


@pytest.mark.parametrize("opcode", ["ld", "st"])
def test_a_vector_of_more_bytes_is_of_32_in_global_memory(opcode: str) -> None:
    with pytest.raises(InstructionError, match="256 bits; a vector has at most 128"):
        match_modifiers(opcode, ("shared", "v4", "f64"))
    (match,) = match_modifiers(opcode, ("global", "v4", "f64"))
    assert match.form.id == f"{opcode}.v256"
