"""``python -m tests.conformance``: record on a GPU, compare the simulator, check, list what has no case."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .collect import kernel_cases, kernel_chapters, value_cases, value_chapters
from .compare import Difference, compare_kernel, compare_values, table
from .coverage import check, missing_report
from .recording import DATA


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
    commands.add_parser("missing", help="forms and types of the target that no case covers")
    given = parser.parse_args()
    if given.command == "record":
        from .record import record

        record(given.chapters, given.into, lambda line: print(line, flush=True))
        return 0
    if given.command == "compare":
        return _compare(given.names, given.single, given.schedule, given.seed)
    if given.command == "check":
        return check(given.chapters)
    return missing_report()


if __name__ == "__main__":
    sys.exit(main())
