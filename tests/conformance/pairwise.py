"""Simulator, GPU and a reference of its own (:mod:`.reference`): each held against each of the others.

For what the engines do: wgmma, bulk and tensor copies, tensor maps, mbarriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from .case import KernelCase
from .collect import kernel_cases, kernel_chapters
from .compare import Difference, compare_outputs, recorded
from .reference import Expected
from .simulate import NotRun, simulate

__all__ = ["CHAPTERS", "PAIRS", "Agreement", "against_reference", "agreement", "table"]

#: Chapters whose every case has a reference.
CHAPTERS = (
    *("wgmma", "wgmma_layouts", "bulk_copy", "cluster_copies", "tensor_copy", "tensor_edges", "tensormap"),
    *("mbarrier", "mbarrier_sequences"),
)
PAIRS = ("simulator = GPU", "simulator = reference", "GPU = reference")


@dataclass
class Agreement:
    """Of one chapter: its cases with a reference, how many agree in each of the pairs, what does not."""

    chapter: str
    cases: int = 0
    agree: list[int] = field(default_factory=lambda: [0, 0, 0])
    wrong: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return self.agree == [self.cases] * len(PAIRS)


def against_reference(
    case: KernelCase, expected: Sequence[Expected], outputs: Sequence[NDArray[Any]]
) -> Iterator[str]:
    """What of the outputs is not as it must be."""
    for number, (want, found) in enumerate(zip(expected, outputs, strict=True)):
        wrong = ~want.agrees(found)
        if wrong.any():
            at = int(wrong.argmax())
            yield f"{case.name}: output {number}: {int(wrong.sum())} of {wrong.size}, the first is number {at}"


def agreement(chapter: str, cases: Sequence[KernelCase] | None = None) -> Agreement:
    """All three pairs of these cases (default: of the chapter)."""
    found = Agreement(chapter)
    for case in kernel_cases(chapter) if cases is None else cases:
        if case.reference is None:
            continue
        found.cases += 1
        expected = case.reference()
        theirs = recorded(chapter, case)
        try:
            ours = simulate(case)
        except NotRun as error:
            found.wrong.append(f"{case.name}: {error}")
            continue
        if isinstance(theirs, Difference):
            found.wrong.append(str(theirs))
            continue
        problems: tuple[list[Any], ...] = (
            list(compare_outputs(case, ours, theirs)),
            list(against_reference(case, expected, ours)),
            list(against_reference(case, expected, theirs)),
        )
        for pair, wrong in enumerate(problems):
            found.agree[pair] += not wrong
            found.wrong += [f"{PAIRS[pair]}: {one}" for one in wrong]
    return found


def table(chapters: Sequence[str] = ()) -> int:
    """Print all pairs of these chapters (all that have references); 1 if any disagrees."""
    print(f"{'chapter':20}{'cases':>7}" + "".join(f"{pair:>24}" for pair in PAIRS))
    whole, total = True, Agreement("together")
    for chapter in chapters or [c for c in kernel_chapters() if any(k.reference for k in kernel_cases(c))]:
        found = agreement(chapter)
        _print(found)
        for wrong in found.wrong:
            print(f"    {wrong}")
        whole &= found.whole
        total.cases += found.cases
        total.agree = [a + b for a, b in zip(total.agree, found.agree, strict=True)]
    _print(total)
    return 0 if whole else 1


def _print(found: Agreement) -> None:
    print(
        f"{found.chapter:20}{found.cases:>7}" + "".join(f"{count:>24}" for count in found.agree), flush=True
    )
