"""Nothing that the sources name is missing from the table, but what has a reason; the program that says so can fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyptx.isa import Form
from pyptx.isa.special import SPECIAL_REGISTERS
from tests.isa import missing
from tests.isa.missing import SOURCES, Fact, in_table, read, reasons


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    missing._words.cache_clear()
    yield
    missing._words.cache_clear()


def test_nothing_is_missing() -> None:
    found = missing.missing()
    assert not found, "\n".join(f"{fact} ({', '.join(sources)})" for fact, sources in sorted(found.items()))


def test_every_reason_is_needed() -> None:
    named = {fact for path in SOURCES.glob("*.txt") if path.stem != "reasons" for fact in read(path)}
    for fact in reasons():
        assert fact in named, f"no source names {fact}"
        assert not in_table(fact), f"{fact} is in the table"


@pytest.mark.parametrize(
    ("identifier", "reported"),
    [
        ("clmad", {Fact("clmad")}),
        ("prefetch.valid_addr", {Fact("prefetch", "L1::32B"), Fact("prefetch", "valid_addr")}),
        ("redux.sync.f32", {Fact("redux.sync", "f32"), Fact("redux.sync", "NaN"), Fact("redux.sync", "abs")}),
    ],
)
def test_an_entry_taken_out_is_reported(
    identifier: str, reported: set[Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = missing.forms_of

    def without(opcode: str) -> tuple[Form, ...]:
        return tuple(form for form in whole(opcode) if form.id != identifier)

    monkeypatch.setattr(missing, "forms_of", without)
    assert reported <= missing.missing().keys()


def test_other_vocabulary_taken_out_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SPECIAL_REGISTERS, "laneid")
    assert missing.missing().keys() == {Fact("[special registers]", "laneid")}
