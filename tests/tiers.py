"""Which tests run: tiers, the marks that put a test into one, and the samples of parametrized tests.

=============== ==================================================================================================
``smoke``       a case of each test in files marked ``smoke``: for every Python that the metadata allows
``fast``        what ``python -m pytest`` runs: a case or a few of each test
``rest``        what ``full`` has and ``fast`` has not
``full``        the cases of every test that is marked neither ``slow`` nor ``gpu``, of those marked ``one_in`` some
``exhaustive``  every case of every test that is not marked ``gpu``
=============== ==================================================================================================

A file or a test that the command line names runs whole.  ``-m`` picks from all tests, ``gpu`` and ``slow`` among
them.  What a tier leaves out is counted as deselected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

TIERS = ("smoke", "fast", "rest", "full", "exhaustive")
#: Cases of a parametrized test that the fast tier runs where the mark of the test says nothing else.
FEW = 1

#: A file none of whose tests are in the fast tier: the mark comes first where there are several.
_NOT_FAST = re.compile(r"^pytestmark = \[?pytest\.mark\.(full|slow|gpu)\b", re.MULTILINE)

MARKS = (
    "smoke: also runs on the oldest and the newest Python that the metadata allows",
    "sample(count, by=None): how many cases of this test the fast tier runs, of each value of the parameter `by`",
    "full: takes too long for the fast tier",
    "one_in(count): the full tier runs one in `count` of the cases of this test, the exhaustive tier all",
    "slow: takes long; runs in the exhaustive tier and with -m slow",
    "gpu: needs an NVIDIA GPU; runs with -m gpu",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "how many of the tests run (docs/testing.md)")
    group.addoption(
        "--tier", choices=TIERS, help="default: fast, or all of the files and tests that are named"
    )
    group.addoption(
        "--file-times", metavar="PATH", help="append a line with seconds for each test file to PATH"
    )


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


def tier_of(config: pytest.Config) -> str | None:
    """The tier of this run; None where ``-m`` or names of files and tests choose."""
    given: str | None = config.getoption("--tier")
    if given is not None:
        return given
    named = all("::" in name or Path(name).is_file() for name in config.args)
    return None if named or config.getoption("-m") else "fast"


def pytest_report_header(config: pytest.Config) -> str | None:
    tier = tier_of(config)
    return f"tier: {tier} (--tier exhaustive runs every case; docs/testing.md)" if tier else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of which the tier runs nothing are not even imported.

    In the smoke tier their libraries need not be there, in the fast tier their cases need no time to be made.
    """
    tier = tier_of(config)
    if tier not in ("smoke", "fast") or not collection_path.name.startswith("test_"):
        return None
    source = collection_path.read_text(encoding="utf-8")
    if tier == "smoke":
        return "pytest.mark.smoke" not in source or None
    return bool(_NOT_FAST.search(source)) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = tier_of(config)
    if tier is None:
        # Named files: their slow tests still want to be asked for.
        chosen = items if config.getoption("-m") or _names_a_test(config) else _without(items, "slow")
    elif tier == "exhaustive":
        chosen = _without(items, "gpu")
    else:
        full = _thinned(_without(items, "gpu", "slow"))
        fast = sample(_without(full, "full"))
        if tier == "rest":
            kept = set(fast)
            chosen = [item for item in full if item not in kept]
        elif tier == "smoke":
            chosen = sample([item for item in full if item.get_closest_marker("smoke")], most=1)
        else:
            chosen = fast if tier == "fast" else full
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _names_a_test(config: pytest.Config) -> bool:
    return all("::" in name for name in config.args)


def _without(items: Iterable[pytest.Item], *marks: str) -> list[pytest.Item]:
    return [item for item in items if not any(item.get_closest_marker(mark) for mark in marks)]


def _thinned(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The items without the cases that only the exhaustive tier runs.

    Of each ``count`` cases in a row that one stays whose parameters have the values that were met least so far, so
    that values of the inner parameters of a product are met in turn whatever the count.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept: set[pytest.Item] = set()
    for cases in tests.values():
        mark = cases[0].get_closest_marker("one_in")
        count = mark.args[0] if mark else 1
        met = Counter[tuple[str, int]]()
        for first in range(0, len(cases), count):
            best = min(cases[first : first + count], key=lambda item: sum(met[one] for one in _values(item)))
            met.update(_values(best))
            kept.add(best)
    return [item for item in items if item in kept]


def _values(item: pytest.Item) -> list[tuple[str, int]]:
    """The values of the parameters of a case, by identity: the cases of a product share them."""
    callspec = getattr(item, "callspec", None)
    return [(name, id(value)) for name, value in callspec.params.items()] if callspec else []


def sample(items: Iterable[pytest.Item], most: int | None = None) -> list[pytest.Item]:
    """A few cases of each test, the same in every run, from all over its list.

    Args:
        most: the largest number of cases of one test, whatever its mark says.
    """
    groups: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        groups.setdefault((item.nodeid.partition("[")[0], _value(item)), []).append(item)
    chosen: set[pytest.Item] = set()
    for cases in groups.values():
        mark = cases[0].get_closest_marker("sample")
        count = mark.args[0] if mark else FEW
        count = min(count, len(cases), most or count)
        chosen.update(cases[(2 * n + 1) * len(cases) // (2 * count)] for n in range(count))
    return [item for item in items if item in chosen]


def _value(item: pytest.Item) -> str:
    """The value of the parameter by which the test's mark divides its cases."""
    mark = item.get_closest_marker("sample")
    if mark is None or "by" not in mark.kwargs:
        return ""
    assert isinstance(item, pytest.Function)
    return repr(item.callspec.params[mark.kwargs["by"]])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    path = config.getoption("--file-times")
    # A worker of xdist has a summary of its own; the controller's has the tests of all workers.
    if not path or hasattr(config, "workerinput"):
        return
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds[file] = seconds.get(file, 0.0) + report.duration
    with Path(path).open("a", encoding="utf-8") as lines:
        lines.writelines(f"{spent:.3f} {file}\n" for file, spent in seconds.items())
