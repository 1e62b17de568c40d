"""The notation's expressions, and its short forms for sets and limits."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from pyptx.isa import all_forms
from pyptx.isa.notation import NotationError, evaluate, read_form, read_sets, split_entries
from pyptx.isa.table import CHAPTERS, chapter_of
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
    with pytest.raises(NotationError, match="s4 is not a modifier of the form"):
        read_form(ENTRY.replace(".s8.u8 since", ".s8.s4 since"))


CHAPTER = f""".btype = {{ .s4, .u4 }}
.ctype = {{ .f16, .f32 since 8.0 }}

{ENTRY.replace("btype  a", "btype.ctype  a")}"""


def test_a_set_of_the_chapter_is_for_entries_without_their_own() -> None:
    sets = read_sets(CHAPTER)
    (text,) = split_entries(CHAPTER).values()
    *_, btype, ctype = read_form(text, sets).slots()
    assert [a.text for a in btype.alternatives] == ["s8", "u8"]
    assert [(a.text, a.since) for a in ctype.alternatives] == [("f16", None), ("f32", (8, 0))]
    # A limit of the entry holds for the members of the chapter's set too.
    limited = read_form(text.replace("  since 7.0", "  .ctype since 8.1\n  since 7.0"), sets)
    assert [a.since for a in list(limited.slots())[-1].alternatives] == [(8, 1), (8, 0)]
    # Without the chapter it is a literal modifier.
    assert [a.text for a in list(read_form(text).slots())[-1].alternatives] == ["ctype"]


def test_a_literal_with_a_name_is_shown_as_the_modifier() -> None:
    text = ENTRY.replace("made.shape.atype.btype ", "made.shape.atype{.btype}.ctype ").replace(
        "  .btype = { .s8, .u8 }", "  .btype = { .s8 }\n  .ctype = { .s32 }"
    )
    form = read_form(text)
    assert form.syntax == "made.shape.atype{.btype}.s32 a: b32"
    assert [slot.name for slot in form.slots()] == ["shape", "atype", "btype", "ctype"]


#: What the simulator reads by name from the modifiers of families of forms.
NAMED = {
    "mma": ("shape", "dtype", "atype", "btype", "ctype"),
    "wgmma.mma_async": ("shape", "dtype", "atype", "btype"),
    "wmma.mma": ("shape", "dtype", "ctype"),
    "wmma.load": ("shape", "layout"),
    "ldmatrix": ("shape", "num"),
    "stmatrix": ("shape", "num"),
    "tcgen05.ld": ("shape", "num"),
    "tcgen05.st": ("shape", "num"),
    "tcgen05.mma": ("cta_group", "kind"),
    "cvt": ("dtype", "atype"),
}


@pytest.mark.parametrize("family", NAMED)
def test_modifiers_that_the_simulator_reads_have_names(family: str) -> None:
    forms = [form for form in all_forms() if f"{form.id}.".startswith(f"{family}.")]
    integer_packs = {"cvt.pack", "cvt.pack.insert"}
    assert forms
    for form in forms:
        if form.id not in integer_packs:
            assert set(NAMED[family]) <= {slot.name for slot in form.slots()}, form.id


@pytest.mark.parametrize("head", [".a = { .b }\n.a = { .c }\n", "since 8.0\n", "a by .b = { .c u32 }\n"])
def test_a_chapter_begins_with_sets_alone(head: str) -> None:
    with pytest.raises(NotationError, match="expected sets with different names"):
        read_sets(head + ENTRY)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_sets_of_a_chapter_are_used_and_not_repeated(chapter: str) -> None:
    text = import_module(f"pyptx.isa.forms.{chapter}").TEXT
    sets, entries = read_sets(text), split_entries(text)
    for name, members in sets.items():
        written = [entry for entry in entries.values() if f"\n  .{name} = {{" in entry]
        users = [
            form
            for form in all_forms()
            if chapter_of(form.id) == chapter
            and entries[form.id] not in written
            and any(slot.name == name for slot in form.slots())
        ]
        assert len(users) >= 3, name
        texts = {text for entry in written for text in re.findall(rf"\n  \.{name} = \{{(.*?)\}}", entry)}
        assert tuple(members) not in {read_sets(f".{name} = {{{text}}}\n")[name] for text in texts}, name


def test_no_form_is_hidden_by_another() -> None:
    """Each has an instruction that is no other form's, or it says nothing new."""
    for form in all_forms():
        assert any(binding.form_id == form.id for binding, _ in instructions(form)), form.id
