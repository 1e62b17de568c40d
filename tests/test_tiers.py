"""Which cases of a test the tiers run: values of every parameter, whatever the count of the mark."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers


class _Case:
    """What the tiers ask of an item of pytest."""

    def __init__(self, test: str, place: tuple[int, ...], counts: dict[str, int]) -> None:
        self.nodeid = f"{test}[{'-'.join(map(str, place))}]" if place else test
        self.callspec = SimpleNamespace(params={f"p{axis}": at for axis, at in enumerate(place)})
        self._counts = counts

    def get_closest_marker(self, name: str) -> Any:
        return SimpleNamespace(args=(self._counts[name],)) if name in self._counts else None


def _cases(test: str, *sizes: int, **counts: int) -> list[Any]:
    """The cases of a product of parameters with so many values each, the last parameter innermost."""
    return [_Case(test, place, counts) for place in product(*map(range, sizes))]


@pytest.mark.parametrize(
    ("sizes", "count"), [((7,), 3), ((4, 2), 2), ((3, 3), 3), ((2, 5, 2), 3), ((6, 4), 4), ((5, 3, 2), 6)]
)
def test_a_thinned_product_has_each_value(sizes: tuple[int, ...], count: int) -> None:
    cases = _cases("test", *sizes, one_in=count)
    kept = tiers._thinned(cases)
    assert len(kept) == -(-len(cases) // count)
    for axis, size in enumerate(sizes):
        met = {case.callspec.params[f"p{axis}"] for case in kept}
        assert len(met) == min(size, len(kept))


def test_one_list_is_thinned_evenly_and_other_tests_stay_whole() -> None:
    cases = [*_cases("some", 7, one_in=3), *_cases("all", 2), *_cases("single")]
    kept = [case.nodeid for case in tiers._thinned(cases)]
    assert kept == ["some[0]", "some[3]", "some[6]", "all[0]", "all[1]", "single"]


@pytest.mark.parametrize(
    ("line", "skipped"),
    [
        ("pytestmark = pytest.mark.full", True),
        ("pytestmark = [pytest.mark.full, pytest.mark.one_in(2)]", True),
        ("pytestmark = pytest.mark.gpu", True),
        ("pytestmark = pytest.mark.one_in(2)", False),
        ("    pytestmark = pytest.mark.full", False),
    ],
)
def test_files_that_the_fast_tier_does_not_import(line: str, skipped: bool) -> None:
    assert bool(tiers._NOT_FAST.search(f"import pytest\n\n{line}\n")) is skipped
