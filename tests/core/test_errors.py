"""Errors: the message is the summary followed by the details, and both are fields."""

from __future__ import annotations

import pytest

from pyptx.core.errors import InstructionError, PyptxError
from pyptx.isa import match_modifiers


def test_details_are_lines_below_the_summary() -> None:
    error = PyptxError("nothing was found", details=["here: empty", "there: empty"], hint="look elsewhere")
    assert (error.summary, error.details) == ("nothing was found", ("here: empty", "there: empty"))
    assert error.message == "nothing was found\n  here: empty\n  there: empty"
    assert str(error).startswith(f"{error.message}\n  hint: look elsewhere")


def test_an_error_without_details_is_its_summary() -> None:
    error = PyptxError("nothing was found")
    assert error.message == error.summary == "nothing was found" and error.details == ()


@pytest.mark.parametrize(
    ("modifiers", "reason"),
    [
        (("rn", "f33"), "unknown modifier .f33"),
        (("u32",), "missing modifier "),
    ],
)
def test_an_illegal_spelling_has_a_reason_without_the_instruction(
    modifiers: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(InstructionError) as caught:
        match_modifiers("mul", modifiers)
    assert caught.value.reason.startswith(reason)
    assert caught.value.message == f"{'.'.join(('mul', *modifiers))}: {caught.value.reason}"
