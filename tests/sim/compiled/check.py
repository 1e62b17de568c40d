"""Running a launch in the simulator, and comparing what it gives with what a GPU gave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim
from pyptx.core.types import TYPES
from pyptx.sim.api.report import Report
from pyptx.sim.code.semantic import Bound
from tests.conformance.case import In, Map, Number, Out, Run, aligned

__all__ = ["differences", "found_rules", "passed", "simulated"]

#: What the manual's letter asks for and compilers leave out (class review of the sanitizer).
_LETTER = {
    "assumed-order",
    "proxy-fence-open",
    "relaxed-handover",
    "speculative-load",
    "store-collision",
    "tcgen05-fence-missing",
    "tcgen05-wait-missing",
}

#: Far more warp-instructions than any of these kernels needs.
_MAX_STEPS = 2_000_000


#: Kernels that race by the manual's letter, and how.
_RACES = {
    "atomics.every_atomic": "atomics with the scope of a CTA, executed by two CTAs",
}


def found_rules(report: Report, name: str = "") -> set[str]:
    """The rules that a launch breaks, without those that compilers leave out against the manual's letter.

    A kernel of :data:`_RACES` must have the finding.
    """
    found = {finding.rule.name for finding in report.findings} - _LETTER
    case = name.partition("/")[2] or name
    if case in _RACES or name in _RACES:
        assert "data-race" in found, str(report)
        found.remove("data-race")
    return found


def passed(argument: In | Out | Number | Map) -> Any:
    """What a launch is given for an argument; a map has yet to be made of the array that it names."""
    if isinstance(argument, In):
        return aligned(argument.array)
    if isinstance(argument, Out):
        return argument.before()
    if isinstance(argument, Map):
        return argument
    kind = TYPES[argument.type]
    return kind.dtype.type(argument.value) if kind.is_float and kind.dtype is not None else argument.value


def simulated(
    run: Run, schedule: str = "eager", seed: int = 1, *, module: sim.LoadedModule | None = None
) -> tuple[Report, list[NDArray[Any]]]:
    """The report and what the outputs hold. ``module``: the text, loaded, if launches are to share it."""
    given = [passed(a) for a in run.arguments]
    arguments = [a.tensor_map(given[a.of]) if isinstance(a, Map) else a for a in given]
    report = (module or sim.load(run.text)).launch(
        run.entry,
        grid=run.grid,
        block=run.block,
        cluster=run.cluster,
        dynamic_smem=run.dynamic_smem,
        args=arguments[: run.parameters],
        schedule=schedule,
        seed=seed,
        max_steps=_MAX_STEPS,
    )
    pairs = zip(arguments, run.arguments, strict=True)
    return report, [array for array, argument in pairs if isinstance(argument, Out)]


def differences(found: NDArray[Any], expected: NDArray[Any], bound: Bound | None) -> list[str]:
    """The elements that differ: as bits, or by more than the bound."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if bound is None:
        words = f"u{found.dtype.itemsize}"
        wrong = found.view(words) != expected.view(words)
    else:
        wide, reference = found.astype(np.float64), expected.astype(np.float64)
        allowed = np.maximum(bound.ulps * np.spacing(np.abs(expected)).astype(np.float64), bound.absolute)
        wrong = ~(np.abs(wide - reference) <= allowed)
    return [
        f"{tuple(map(int, at))}: {found[tuple(at)]!r}, not {expected[tuple(at)]!r}"
        for at in np.argwhere(wrong)
    ]
