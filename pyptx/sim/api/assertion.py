"""``sim.assert_clean``: runs a kernel under several schedules, and fails unless each run is clean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import SpecError, WrongResultError
from ...core.findings import Verdict
from .launch import LoadedModule
from .report import Report

__all__ = ["SCHEDULES", "assert_clean"]

#: The schedules under which a kernel is run if the caller names none.
SCHEDULES = ("eager", "late")


def assert_clean(
    kernel: Any,
    *arrays: Any,
    reference: Any = None,
    schedules: Sequence[str] | str = SCHEDULES,
    holds: bool = False,
    **options: Any,
) -> Report:
    """Run a kernel under several schedules. Fail unless each run is clean and its outputs are right.

    Args:
        kernel: an ``@kernel``, or a loaded module, which then gets ``arrays`` as the arguments of its entry.
        arrays: the inputs. A loaded module may write into them; so it is run under one schedule only.
        reference: what the outputs must be; see :meth:`.Kernel.simulate` and :meth:`.LoadedModule.launch`.
        schedules: names such as ``eager``, ``late``, ``random:3`` (with a seed), ``starve:tma`` or ``all``.
        holds: whether the report must also claim to hold for every schedule.
        options: further options of the run, such as ``waivers``, ``rtol``, ``atol`` and ``timeout``, and the
            kernel's constants.

    Returns:
        The report of the first run.

    Raises:
        WrongResultError: a run is not clean: the message is its report. Findings for review count, too,
            unless a waiver covers them.
        SpecError: no schedule was given, or ``kernel`` is neither a kernel nor a loaded module.
    """
    names = (schedules,) if isinstance(schedules, str) else tuple(schedules)
    if not names:
        raise SpecError("schedules is empty: expected at least one, such as 'eager'")
    if "schedule" in options or "seed" in options:
        raise SpecError("assert_clean takes schedules=, such as schedules=['eager', 'random:3']")
    if isinstance(kernel, LoadedModule) and len(names) > 1:
        raise SpecError(
            "a loaded module writes into its arguments, so assert_clean runs it under one schedule only",
            hint="schedules='all' runs it under several, each time from the same memory",
        )
    reports: list[Report] = []
    for name in names:
        report = _run(kernel, arrays, reference, name, options)
        if report.verdict is not Verdict.CLEAN or (holds and report.holds != "every schedule"):
            problem = (
                f"{report.entry} is not clean under {name}"
                if report.findings
                else (f"{report.entry} is clean under {name}, but the run does not hold for every schedule")
            )
            error = WrongResultError(f"{problem}\n{report}")
            error.report = report  # type: ignore[attr-defined]
            raise error
        reports.append(report)
    return reports[0]


def _run(kernel: Any, arrays: Sequence[Any], reference: Any, name: str, options: dict[str, Any]) -> Report:
    kind, _, seed = name.partition(":")
    how: dict[str, Any] = {"schedule": name}
    if kind in ("random", "weak") and seed:
        if not seed.isdigit():
            raise SpecError(f"the schedule {name!r} has the seed {seed!r}: expected a number, as in random:3")
        how = {"schedule": kind, "seed": int(seed)}
    if isinstance(kernel, LoadedModule):
        return kernel.launch(args=arrays, reference=reference, **how, **options)
    if not hasattr(kernel, "simulate"):
        raise SpecError(
            f"assert_clean takes an @kernel or a loaded module, got {type(kernel).__name__}",
            hint="sim.load(text) makes a loaded module of PTX text",
        )
    report: Report = kernel.simulate(*arrays, reference=reference, **how, **options)
    return report
