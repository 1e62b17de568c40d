"""What is generated from the table is what the table says today."""

from __future__ import annotations

import pytest

from pyptx.tools.generate import COMMAND, GENERATED, stale

pytestmark = pytest.mark.full


@pytest.mark.parametrize("path", GENERATED)
def test_generated_files_are_up_to_date(path: str) -> None:
    assert not stale(path), f"run: {COMMAND}"
