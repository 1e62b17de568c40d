"""A pytest plugin: the fixture ``assert_clean``, its schedules on the command line, and a summary of waivers.

pytest finds the plugin by itself once pyptx is installed. ``-p no:pyptx`` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..sim import Report

__all__ = ["pytest_addoption", "pytest_terminal_summary"]

_REPORTS = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--sim-schedules``."""
    parser.getgroup("pyptx", "kernels in the simulator").addoption(
        "--sim-schedules",
        metavar="NAMES",
        help="schedules of the fixture assert_clean, separated by commas: eager,late,random:3,all",
    )


@pytest.fixture(name="assert_clean")
def _assert_clean(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """``sim.assert_clean`` under the schedules of ``--sim-schedules``, unless the test names its own."""
    # Imported here, since every session of pytest loads the plugin.
    from ..sim import assert_clean

    given = request.config.getoption("--sim-schedules")
    options: dict[str, Any] = {"schedules": tuple(given.split(","))} if given else {}
    reports = request.config.stash.setdefault(_REPORTS, [])

    def run(kernel: Any, *arrays: Any, **keywords: Any) -> Report:
        report = assert_clean(kernel, *arrays, **{**options, **keywords})
        reports.append(report)
        return report

    return run


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many findings were waived, and by which waivers."""
    reports = [report for report in config.stash.get(_REPORTS, []) if report.waived]
    if not reports:
        return
    terminalreporter.section("waived findings of kernels")
    for report in reports:
        first, *rest = report.waiver_lines()
        terminalreporter.line(f"{report.entry}: {first}")
        for line in rest:
            terminalreporter.line(line)
