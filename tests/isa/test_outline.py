"""What a look at an entry's modifiers leaves out cannot have the modifiers; what it keeps is decoded."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice

import pytest

from pyptx.isa import NotationError, all_forms, table, variants


@pytest.mark.full
def test_no_form_is_left_out_that_has_the_modifiers() -> None:
    count = 0
    for form in all_forms():
        for match in islice(variants(form), 12):
            assert form in list(table._possible(form.opcode, match.spelling)), match.name
            assert form in list(table._possible(form.opcode, match.spelling[::-1])), match.name
            count += 1
    assert count > 5000


@pytest.mark.parametrize(
    ("opcode", "modifiers", "most"),
    [
        ("cp", ("async", "bulk", "commit_group"), 1),
        ("cvt", ("u32", "u64"), 1),  # of 62, most of which have types in sets that all of them share
        ("add", ("u32",), 1),
        ("mbarrier", ("init", "shared::cta", "b64"), 1),
        ("cp", ("async", "bulk", "no_such"), 0),
    ],
)
def test_most_forms_are_left_out(opcode: str, modifiers: tuple[str, ...], most: int) -> None:
    assert len(list(table._possible(opcode, modifiers))) <= most


def test_the_chapters_of_other_opcodes_are_not_read_and_other_forms_not_decoded() -> None:
    probe = (
        "from pyptx.isa import match_modifiers, table\nmatch_modifiers('add', ('u32',))\n"
        "print(table._rows.cache_info().currsize, table._encoded.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    chapters, decoded = map(int, done.stdout.split())
    assert chapters == sum("add" in opcodes for opcodes in table.CHAPTERS.values())
    assert 1 <= decoded < 10 < len(table.forms_of("add"))


def test_a_chapter_lists_its_opcodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new opcode that CHAPTERS does not list would never be found: reading its chapter fails."""
    monkeypatch.setitem(table.CHAPTERS, "logic", table.CHAPTERS["logic"][:-1])
    table._rows.cache_clear()
    with pytest.raises(NotationError, match="chapter logic has the opcodes .*'prmt'"):
        table._rows("logic")
    table._rows.cache_clear()
