"""``python -m tests.conformance``: record on a GPU, compare the simulator, check, list what has no case."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .collect import kernel_cases, kernel_chapters, value_cases, value_chapters
from .compare import Difference, compare_kernel, compare_values, table
from .coverage import check, missing, missing_report, needed
from .pairwise import table as pairwise
from .recording import DATA, read


def _compare(wanted: list[str], single: bool, schedule: str, seed: int) -> int:
    """Compare chapters, forms, or everything; 1 if something disagrees."""
    found: list[Difference] = []
    cases = 0
    started = time.perf_counter()
    for chapter in value_chapters():
        chosen = [c for c in value_cases(chapter) if not wanted or chapter in wanted or c.form.id in wanted]
        cases += len(chosen)
        found += compare_values(chosen, single)
    for chapter in kernel_chapters():
        for case in kernel_cases(chapter):
            if not wanted or chapter in wanted or case.name in wanted or set(case.covers) & set(wanted):
                cases += 1
                found += compare_kernel(chapter, case, schedule, seed)
    if found:
        print(table(found))
    wrong = len({d.case for d in found})
    print(f"{cases - wrong} of {cases} cases agree, {wrong} do not ({time.perf_counter() - started:.0f} s)")
    return 1 if found else 0


def _summary() -> int:
    """What the recordings hold, in a few lines."""
    for sort, chapters in (("values", value_chapters()), ("kernels", kernel_chapters())):
        cases = sum(len(value_cases(c) if sort == "values" else kernel_cases(c)) for c in chapters)
        found = [recording for c in chapters if (recording := read(sort, c)) is not None]
        words = sum(len(row.data) for recording in found for row in recording.rows.values())
        places = {f"{r.machine.gpu}, driver {r.machine.driver}, {r.date}" for r in found}
        print(f"{sort}: {cases} cases, {words:,} recorded bytes ({'; '.join(sorted(places))})")
    kept = sum(file.stat().st_size for file in DATA.rglob("*.xz"))
    absent = len(missing())
    print(
        f"{kept:,} bytes in the tree; {len(needed()) - absent} of {len(needed())} forms and types have a case"
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run cases on a GPU and keep its words")
    recording.add_argument("chapters", nargs="*", help="names of chapters; all if there are none")
    recording.add_argument("--into", type=Path, default=DATA, help="folder of the recordings")
    comparing = commands.add_parser("compare", help="the simulator against the recorded words")
    comparing.add_argument(
        "names", nargs="*", help="forms, chapters or names of cases; all if there are none"
    )
    comparing.add_argument("--single", action="store_true", help="value forms with one thread in each CTA")
    comparing.add_argument(
        "--schedule", default="eager", help="of kernel cases: eager, late, random, starve:ENGINE"
    )
    comparing.add_argument("--seed", type=int, default=0, help="of --schedule random")
    checking = commands.add_parser("check", help="kernel cases: ptxas's verdict, forms that do not occur")
    checking.add_argument("chapters", nargs="*", help="files of cases/; all if there are none")
    pairs = commands.add_parser("pairwise", help="simulator, GPU and reference, each against each")
    pairs.add_argument(
        "chapters", nargs="*", help="files of cases/; all that have references if there are none"
    )
    commands.add_parser("missing", help="forms and types of the target that no case covers")
    commands.add_parser("summary", help="how many cases, forms and types, recorded bytes")
    given = parser.parse_args()
    if given.command == "record":
        from .record import record

        record(given.chapters, given.into, lambda line: print(line, flush=True))
        return 0
    if given.command == "compare":
        return _compare(given.names, given.single, given.schedule, given.seed)
    if given.command == "check":
        return check(given.chapters)
    if given.command == "pairwise":
        return pairwise(given.chapters)
    return _summary() if given.command == "summary" else missing_report()


if __name__ == "__main__":
    sys.exit(main())
