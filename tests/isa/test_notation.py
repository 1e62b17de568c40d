"""The notation's expressions, and its short forms for sets and limits."""

from __future__ import annotations

import pytest

from pyptx.isa import all_forms
from pyptx.isa.notation import NotationError, evaluate, read_form
from tests.isa.samples import instructions

pytestmark = pytest.mark.smoke

ENTRY = """[made.up] "An instruction that no machine has."
made.shape.atype.btype  a: b32;
  .shape = { .m64n[8..24/8]k16, .m64n256k16 since 9.0 }
  .atype = { .s8, .u8 }
  .btype = { .s8, .u8 }
  .shape since 8.0 on sm_90a
  .s8.u8 since 8.4
  since 7.0
"""


@pytest.mark.parametrize(
    ("expression", "length"), [("4", 4), (".num*2", 32), (".dim-2", 3), (".shape.n/2", 4), (".absent", None)]
)
def test_lengths(expression: str, length: int | None) -> None:
    assert evaluate(expression, {"num": "x16", "dim": "5d", "shape": "m16n8k16"}) == length


def test_a_member_stands_for_each_number() -> None:
    shape, *_ = read_form(ENTRY).slots()
    assert [a.text for a in shape.alternatives] == ["m64n8k16", "m64n16k16", "m64n24k16", "m64n256k16"]


def test_a_limit_of_a_set_is_for_the_members_without_their_own() -> None:
    shape, atype, _ = read_form(ENTRY).slots()
    assert [a.since for a in shape.alternatives] == [(8, 0), (8, 0), (8, 0), (9, 0)]
    assert {str(a.on) for a in shape.alternatives} == {"sm_90a"}
    assert {a.since for a in atype.alternatives} == {None}


def test_a_limit_of_modifiers_side_by_side() -> None:
    (limit,) = read_form(ENTRY).sequence_limits
    assert (limit.text, limit.since) == ("s8.u8", (8, 4))
    with pytest.raises(NotationError, match="s4 is no modifier"):
        read_form(ENTRY.replace(".s8.u8 since", ".s8.s4 since"))


def test_no_form_is_hidden_by_another() -> None:
    """Each has an instruction that is no other form's, or it says nothing new."""
    for form in all_forms():
        assert any(binding.form_id == form.id for binding, _ in instructions(form)), form.id
