"""What a look at an entry's text leaves out cannot have the modifiers; what it keeps is read."""

from __future__ import annotations

from itertools import islice

import pytest

from pyptx.isa import all_forms, table, variants


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
        ("cp", ("async", "bulk", "commit_group"), 2),
        ("cvt", ("u32", "u64"), 45),  # of 62: their types stand in sets that all of them share
        ("add", ("u32",), 4),
        ("mbarrier", ("init", "shared::cta", "b64"), 2),
        ("cp", ("async", "bulk", "no_such"), 0),
    ],
)
def test_most_forms_are_left_out(opcode: str, modifiers: tuple[str, ...], most: int) -> None:
    assert len(list(table._possible(opcode, modifiers))) <= most
