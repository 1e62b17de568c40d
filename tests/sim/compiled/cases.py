"""Every launch, for every target and build that its text is there for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .cuda_cases import CUDA_CASES
from .launches import Case, Run
from .sources import CAPABILITIES, DEBUG, NEW
from .triton_cases import TRITON_CASES

__all__ = ["CASES", "run_of", "runs"]


def _named() -> Iterator[tuple[str, tuple[str, Case]]]:
    for arch in CAPABILITIES:
        for case in CUDA_CASES + TRITON_CASES:
            triton = case.text.startswith("triton.")
            name = case.text if triton else f"{case.text}.{case.entry}"
            if triton and arch != "sm_90a" and case.text.removeprefix("triton.") in NEW:
                continue
            yield f"{arch}/{name}", (arch, case)
            if case.text in DEBUG:
                yield f"{arch}/{name}.debug", (arch, replace(case, text=f"{case.text}.debug"))


#: Every launch by its name, with its target.
CASES: dict[str, tuple[str, Case]] = dict(_named())


def run_of(name: str) -> Run:
    """The launch of a name."""
    arch, case = CASES[name]
    return case.run(arch, name)


def runs() -> list[Run]:
    """Every launch, in the order of :data:`CASES`."""
    return [run_of(name) for name in CASES]
