"""What is known of PTX types."""

from __future__ import annotations

import re

import pytest

from pyptx.core.types import TYPES


@pytest.mark.parametrize("name", TYPES)
def test_a_packed_type_has_the_lanes_of_its_name(name: str) -> None:
    packed = re.search(r"x(\d+)$", name)
    assert TYPES[name].lanes == (int(packed[1]) if packed else 1)
