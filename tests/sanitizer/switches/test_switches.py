"""Deleting any one edge, proxy rule, scope comparison or object of the sanitizer changes the verdict of some kernel."""

from __future__ import annotations

import pytest

from .switching import Switch, off, verdict
from .table import SWITCHES
from .witnesses import WITNESSES


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("name", list(WITNESSES))
def test_a_kernel_needs_it(name: str) -> None:
    before = verdict(WITNESSES[name])
    with off(SWITCHES[name]):
        assert verdict(WITNESSES[name]) != before
    assert verdict(WITNESSES[name]) == before


def test_each_switch_has_a_kernel() -> None:
    assert set(SWITCHES) == set(WITNESSES)


def test_a_switch_whose_text_has_changed_fails() -> None:
    switch = Switch("a typing error", "order.may_conflict", "record.barier", "")
    with pytest.raises(AssertionError, match="0 times"), off(switch):
        pass
