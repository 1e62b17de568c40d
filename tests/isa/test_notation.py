"""The notation: expressions, short forms for sets and limits, shared clauses, families, several headers."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from pyptx.isa import Form, all_forms
from pyptx.isa.chapters import Entry, split_chapter
from pyptx.isa.clauses import split_clauses
from pyptx.isa.notation import NotationError, Relation, evaluate
from pyptx.isa.reader import read_form
from pyptx.isa.table import CHAPTERS
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


def forms_in(chapter: str) -> dict[str, Form]:
    """The forms of a chapter's text, by id."""
    return {name: read_form(entry.text, entry.heads) for name, entry in split_chapter(chapter).items()}


def test_a_set_of_the_chapter_is_for_entries_without_their_own() -> None:
    *_, btype, ctype = forms_in(CHAPTER)["made.up"].slots()
    assert [a.text for a in btype.alternatives] == ["s8", "u8"]
    assert [(a.text, a.since) for a in ctype.alternatives] == [("f16", None), ("f32", (8, 0))]
    # A limit of the entry holds for the members of the chapter's set too.
    limited = forms_in(CHAPTER.replace("  since 7.0", "  .ctype since 8.1\n  since 7.0"))["made.up"]
    assert [a.since for a in list(limited.slots())[-1].alternatives] == [(8, 1), (8, 0)]
    # Without the chapter it is a literal modifier.
    (entry,) = split_chapter(CHAPTER).values()
    assert [a.text for a in list(read_form(entry.text).slots())[-1].alternatives] == ["ctype"]


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


FAMILIES = """
.type = { .u32, .s32 }
.cache iff policy
since 7.0
see the-<opcode>

[one.plain] "In no family."
one.type  =d: .type;

family one
  .type = { .f32 }
  .sat requires .type
  d by .type.vec = { .f32.v2 f32 x 2, .f32.v4 f32 x 4, .f64.v2 f64 x 2 }
  since 8.0 on sm_90+
  check own
  check operands pair
  see one-of-the-family

[one.vec] "With the cases of the family."
one{.sat}{.cache}.vec.type  =d: by, [a: addr] {, policy: u64};
  .vec = { .v2 }

[one.other] "With clauses of its own."
one.vec.type  =d: by;
  .vec = { .v2 }
  .type = { .f64 }
  d by .type = { .f64 f64 x 2 }
  on sm_100a
  check other
  see another

end

[two] "Sum."
[three] "Difference."
<opcode>.type  =d: .type, a: .type;
  .type = { .f16 }
"""


def test_clauses_of_a_family_apply_to_its_entries() -> None:
    form = forms_in(FAMILIES)["one.vec"]
    assert (form.since, str(form.on), form.anchor) == ((8, 0), "sm_90+", "one-of-the-family")
    assert (form.check, form.operand_check) == ("own", "pair")
    assert [a.text for slot in form.slots() if slot.name == "type" for a in slot.alternatives] == ["f32"]
    assert [str(r) for r in form.relations] == [
        str(Relation(".sat", "requires", ".type")),
        str(Relation(".cache", "iff", "policy")),
    ]


def test_an_entry_takes_those_shared_cases_whose_modifiers_it_has() -> None:
    (spec, *_) = forms_in(FAMILIES)["one.vec"].specs()
    assert spec.cases is not None
    assert set(spec.cases.rows) == {("f32", "v2")}


def test_the_entrys_own_clauses_come_first() -> None:
    form = forms_in(FAMILIES)["one.other"]
    # A version is not taken from the family if the entry has targets of its own.
    assert (form.since, str(form.on), form.anchor) == ((1, 0), "sm_100a", "another")
    assert (form.check, form.operand_check, form.relations) == ("other", "pair", ())
    (spec,) = form.specs()
    assert spec.cases is not None and set(spec.cases.rows) == {("f64",)}


def test_a_family_ends() -> None:
    forms = forms_in(FAMILIES)
    assert list(forms) == ["one.plain", "one.vec", "one.other", "two", "three"]
    assert {forms[name].check for name in ("one.plain", "two", "three")} == {""}
    assert forms["one.plain"].since == forms["two"].since == (7, 0)
    # The next family ends it, too.
    later = forms_in(FAMILIES.replace("end\n", "family two\n  since 9.0\n"))
    assert (later["two"].since, later["two"].check) == ((9, 0), "")


def test_several_headers_share_a_text() -> None:
    two, three = (forms_in(FAMILIES)[name] for name in ("two", "three"))
    assert (two.opcode, two.summary, two.anchor) == ("two", "Sum.", "the-two")
    assert (three.opcode, three.summary, three.anchor) == ("three", "Difference.", "the-three")
    assert three.syntax == two.syntax.replace("two", "three") == "three.f16 =d: .type, a: .type"


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("[three]", "[two]", "there are two entries|different opcodes"),
        ("[three]", "[two.again]", "different opcodes"),
        ("<opcode>.type  =d: .type, a", "two.type  =d: .type, a", "exactly if it has several headers"),
        ("one.type  =d", "<opcode>.type  =d", "exactly if it has several headers"),
        ("end\n", "end\nsince 7.0\n", "expected an entry or an instruction family after 'end'"),
        ("end\n", "end\nend\n", "'end' closes no instruction family"),
        ("end\n", "family one\n", "two instruction families named one"),
        ("end\n", "family empty\n  since 8.0\nend\n", "family empty has no entries"),
        ("family one", "family", "expected 'family NAME'"),
        ("[three]", "three", "expected an opcode|expected \\[id\\]|does not end|exactly if"),
        (".cache iff policy", "note something", "can share sets.*but not 'note something'"),
        (".cache iff policy", ".cache since 8.0", "can share sets.*but not"),
        (".cache iff policy", "d._ since 8.0", "can share sets.*but not"),
        (".cache iff policy", ".type = { .f64 }", "two clauses for type"),
        (".cache iff policy", "nonsense", "unknown clause 'nonsense'"),
        ("  d by .type.vec", "  e by .type.vec", "no clause 'd by'"),
    ],
)
def test_mistakes_in_a_chapter_are_named(right: str, wrong: str, says: str) -> None:
    assert forms_in(FAMILIES)
    with pytest.raises(NotationError, match=says):
        forms_in(FAMILIES.replace(right, wrong, 1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_shared_clauses_are_used_and_not_repeated(chapter: str) -> None:
    """Without any one clause of a head, at least two entries would be others; and no entry repeats one."""
    entries = split_chapter(import_module(f"pyptx.isa.forms.{chapter}").TEXT)
    for head in {head for entry in entries.values() for head in entry.heads}:
        own = [entry for entry in entries.values() if head in entry.heads]
        for clause in split_clauses(head):
            assert not [entry.text for entry in own if clause in split_clauses(clauses_of(entry))], clause
            without = "\n".join(c for c in split_clauses(head) if c != clause)
            changed = [entry for entry in own if differs(entry, head, without)]
            assert len(changed) >= 2, clause


def clauses_of(entry: Entry) -> str:
    """The lines behind the header and the syntax."""
    return entry.text.partition("\n")[2].partition(";")[2]


def differs(entry: Entry, head: str, other: str) -> bool:
    """Whether the entry's form is another with ``other`` in place of ``head``."""
    heads = tuple(other if given == head else given for given in entry.heads)
    try:
        return contents(read_form(entry.text, heads)) != contents(read_form(entry.text, entry.heads))
    except NotationError:
        return True


def contents(form: Form) -> dict[str, object]:
    """Every field of a form; forms themselves are equal only to themselves."""
    return {field.name: getattr(form, field.name) for field in fields(form)}


def test_no_form_is_hidden_by_another() -> None:
    """Each has an instruction that is no other form's, or it says nothing new."""
    for form in all_forms():
        assert any(binding.form_id == form.id for binding, _ in instructions(form)), form.id
