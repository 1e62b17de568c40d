"""The generated index of the table says what the text says, and is not used where it does not."""

from __future__ import annotations

import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import pyptx.isa.index as index
from pyptx.isa.chapters import split_chapter
from pyptx.isa.index.encoding import decoded, encoded, entry_of, modifiers_of, row_of
from pyptx.isa.index.reading import generated, read_rows
from pyptx.isa.notation import Form
from pyptx.isa.reader import read_form
from pyptx.isa.table import CHAPTERS

pytestmark = pytest.mark.sample(len(CHAPTERS))
CHAPTER = pytest.mark.parametrize("chapter", CHAPTERS)


def contents(form: Form) -> dict[str, object]:
    return {field.name: getattr(form, field.name) for field in fields(form)}


def forms(chapter: str) -> list[Form]:
    text: str = import_module(f"pyptx.isa.forms.{chapter}").TEXT
    return [read_form(entry.text, entry.heads) for entry in split_chapter(text).values()]


def test_the_index_is_current() -> None:
    path = Path(index.__file__).with_name("entries.py")
    remedy = "run python -m pyptx.isa.index"
    assert path.read_text(encoding="utf-8") == generated(sorted(CHAPTERS)), remedy


@CHAPTER
def test_forms_survive_the_encoding(chapter: str) -> None:
    for form in forms(chapter):
        assert contents(decoded(encoded(form))) == contents(form)
        assert contents(decoded(entry_of(row_of(encoded(form))))) == contents(form)


@CHAPTER
def test_modifiers_are_those_of_the_form(chapter: str) -> None:
    for form in forms(chapter):
        always, others = modifiers_of(encoded(form))
        for slots, optional in ((always, False), (others, True)):
            groups = [group for group in form.modifiers if group.optional is optional]
            texts = [{each.text for each in slot.alternatives} for group in groups for slot in group.slots]
            assert list(slots) == texts
        fixed = {text for slot in always if len(slot) == 1 for text in slot}
        assert row_of(encoded(form))[:2] == (form.id, form.opcode)
        assert set(row_of(encoded(form))[2].split()) == fixed


def test_a_changed_chapter_is_read_from_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    chapters = import_module("pyptx.isa.index.entries").CHAPTERS
    checksum, _ = chapters["control"]
    monkeypatch.setitem(chapters, "control", (checksum, ()))
    assert index.rows_of("control") == {}
    monkeypatch.setitem(chapters, "control", (checksum + 1, ()))
    assert index.rows_of("control") == read_rows("control")


def test_a_chapter_without_an_index_is_read_from_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(import_module("pyptx.isa.index.entries").CHAPTERS, "control")
    assert index.rows_of("control") == read_rows("control")
    monkeypatch.setitem(sys.modules, "pyptx.isa.index.entries", None)
    assert index.rows_of("control") == read_rows("control")


def test_without_the_text_the_index_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where only bytecode is installed."""
    monkeypatch.setattr(index, "_FORMS", tmp_path)
    assert index.rows_of("control") == read_rows("control")
