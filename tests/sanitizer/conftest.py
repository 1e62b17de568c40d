"""Which of these tests the fast tier runs: those of single parts; the bodies of kernels run in the rest tier."""

from __future__ import annotations

import pytest

#: Files with hundreds of kernels or programs each.
_BODIES = (
    "test_twins.py",
    "test_unusual.py",
    "test_kernels.py",
    "test_compare.py",
    "test_exploring.py",
    "test_generate.py",
    "test_near_misses.py",
    "test_truth.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "sanitizer" in item.path.parts and item.path.name in _BODIES:
            item.add_marker(pytest.mark.full)
