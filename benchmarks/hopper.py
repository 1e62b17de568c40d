"""Measure the kernels of ``examples/hopper`` beside the libraries, each row in one run with its rivals.

    python benchmarks/hopper.py --list                     # the rows and their groups; needs no GPU
    pyptx build benchmarks/hopper.py:kernels -o cubins     # compile them where no GPU is; also group=gemm
    PYPTX_CACHE_PATH=cubins python benchmarks/hopper.py gemm memory --budget 450
    python benchmarks/hopper.py gemm --candidates          # other tiles, stages, clusters of each kernel
    python benchmarks/hopper.py gemm --sustained           # two seconds back to back: clocks, watts, joules
    python benchmarks/hopper.py --page > table.md          # what was measured, as a page

FlashAttention-3 and DeepGEMM are measured beside ours where ``PYPTX_RIVALS`` names the folder in which
``benchmarks/rivals/build.py`` has put them; without it they are left out.  A row measured without them is not
measured anew with them: give such results a file of their own.

What a row measured is kept in ``--results`` at once; the same command goes on where the time was over, and
measures a row anew if its kernels changed.  ``pyptx.bench`` verifies every function before it is timed.  A
ratio is the rival's time over ours in paired runs, with its 95% interval; the lower end counts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for ``pyptx build``

from _hopper_attention import ATTENTION
from _hopper_blocks import BLOCKS
from _hopper_gemm import GEMMS
from _hopper_grouped import GROUPED
from _hopper_memory import MEMORY
from _hopper_training import TRAINING
from _rows import Results, Row, kernels_of, page, run_rows, work
from _unseen import UNSEEN

ROWS: list[Row] = [*GEMMS, *BLOCKS, *ATTENTION, *GROUPED, *MEMORY, *TRAINING]
#: All rows by name, those of ``predict_unseen.py`` too.
BY_NAME = {row.name: row for row in [*ROWS, *UNSEEN]}
RESULTS = Path("hopper_results.jsonl")
#: The group of the rows that only ``predict_unseen.py`` needs: they run where they are named.
GROUP = "unseen"


def chosen(words: list[str]) -> list[Row]:
    """Return the rows that the words of the command line name, by group or by name; without words all."""
    groups = [*dict.fromkeys(row.group for row in ROWS), GROUP]
    for word in words:
        if word not in groups and word not in BY_NAME:
            sys.exit(
                f"no row and no group is called {word!r}; the groups are {', '.join(groups)}; "
                "--list shows the rows"
            )
    unseen = [row for row in UNSEEN if GROUP in words or row.name in words]
    return unseen + [row for row in ROWS if not words or row.group in words or row.name in words]


def kernels(group: str = "", candidates: int = 0) -> list[object]:
    """Return every kernel of a group with its sizes, for ``pyptx build``; 1: the candidates as well."""
    rows = chosen([group] if group else [])
    lasting = (row.under("sustained") for row in rows if row.lasting is not None)
    return [
        *(each for row in rows for each in kernels_of(row, bool(candidates))),
        *(each for row in lasting for each in kernels_of(row)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", metavar="ROW|GROUP")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument(
        "--page", action="store_true", help="print what was measured as a Markdown page and stop"
    )
    parser.add_argument("--sustained", action="store_true", help="two seconds back to back, not single runs")
    parser.add_argument("--candidates", action="store_true", help="measure other choices of each kernel, too")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"the file of results; {RESULTS}")
    parser.add_argument("--budget", type=float, default=450, help="seconds after which no row begins; 450")
    parser.add_argument("--limit", type=float, default=90, help="seconds that a row may take; 90")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a sustained window; 2")
    parser.add_argument("--repeats", type=int, default=60, help="timed runs of each function; 60")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)  # in the worker process
    options = parser.parse_args()
    results = Results(options.results)
    protocol = "sustained" if options.sustained else "burst"
    if options.work:
        measured = {"seconds": options.seconds, "repeats": options.repeats}
        rows = [row.under(protocol) for row in BY_NAME.values()]
        work(rows, results, protocol, candidates=options.candidates, **measured)
        return
    rows = [row.under(protocol) for row in chosen(options.rows)]
    if options.list:
        for row in rows:
            print(
                f"{row.group:<12} {row.name}" + ("" if row.target is None else f"  (target {row.target:g})")
            )
        return
    if options.page:
        print(page(rows, results), end="")
        return
    program = [sys.executable, __file__, "--results", str(options.results)]
    program += ["--seconds", str(options.seconds), "--repeats", str(options.repeats)]
    program += ["--sustained"] * options.sustained + ["--candidates"] * options.candidates + ["--work"]
    limits = {"budget": options.budget, "limit": options.limit}
    run_rows(program, rows, results, protocol, candidates=options.candidates, **limits)


if __name__ == "__main__":
    main()
