"""Recording: every case on a GPU, its words into the tree."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path

from .case import KernelCase
from .collect import kernel_cases, kernel_chapters, value_cases, value_chapters
from .gpu import Pool, Refused, machine
from .recording import Recording, Row, pack_outputs, pack_words
from .values import ValueCase, batch
from .words import Words

__all__ = ["record"]

#: Instructions in one kernel: enough to launch few, few enough to assemble fast.
_BATCH = 64
#: How often a kernel case runs: what differs between two runs is no case.
_RUNS = 3


def record(chapters: Iterable[str], into: Path, say: Callable[[str], None]) -> None:
    """Run the cases of these chapters (all if there are none) and write what the GPU answered."""
    wanted = set(chapters)
    known = {*value_chapters(), *kernel_chapters()}
    if unknown := wanted - known:
        raise SystemExit(f"no chapter {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    on, date = machine(), datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    with Pool() as pool:
        for sort, names in (("values", value_chapters()), ("kernels", kernel_chapters())):
            for chapter in names:
                if wanted and chapter not in wanted:
                    continue
                found = Recording(on, date)
                if sort == "values":
                    _values(pool, value_cases(chapter), found)
                else:
                    _kernels(pool, kernel_cases(chapter), found)
                found.write(into / sort / f"{chapter}.xz")
                say(f"{sort}/{chapter}: {len(found.rows)} recorded, {len(found.refused)} refused")
                for name, reason in found.refused.items():
                    say(f"  refused: {name}: {reason[:300]}")


def _values(pool: Pool, cases: tuple[ValueCase, ...], found: Recording) -> None:
    turn = [list(cases[i : i + _BATCH]) for i in range(0, len(cases), _BATCH)]
    while turn:
        again: list[list[ValueCase]] = []
        for group, answer in zip(turn, pool.run([batch(g) for g in turn]), strict=True):
            if not isinstance(answer, Refused):
                _keep(group, answer[0], found)
            elif len(group) > 1:
                # One of them is at fault: each alone, afterwards.
                again += [[case] for case in group]
            else:
                found.refused[group[0].name] = answer.reason
        turn = again
    found.rows = {case.name: found.rows[case.name] for case in cases if case.name in found.rows}


def _keep(group: list[ValueCase], results: Words, found: Recording) -> None:
    start = 0
    for case in group:
        stop = start + len(case.widths)
        found.rows[case.name] = Row(case.fingerprint, pack_words(case, results[start:stop]))
        start = stop


def _kernels(pool: Pool, cases: tuple[KernelCase, ...], found: Recording) -> None:
    words: dict[str, set[bytes]] = {case.name: set() for case in cases}
    for _ in range(_RUNS):
        # What failed once is not run again: it may hang.
        left = [case for case in cases if case.name not in found.refused]
        for case, answer in zip(left, pool.run(left), strict=True):
            if isinstance(answer, Refused):
                found.refused[case.name] = answer.reason
            else:
                words[case.name].add(pack_outputs(case, answer))
    for case in cases:
        if len(words[case.name]) > 1:
            found.refused.setdefault(
                case.name, f"{_RUNS} runs gave {len(words[case.name])} different results"
            )
        if case.name not in found.refused:
            found.rows[case.name] = Row(case.fingerprint, *words[case.name])
