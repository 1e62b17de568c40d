"""Reads the hardware counters of one launch of each row of ``hopper.py``, ours and its rivals, by ncu.

``python benchmarks/hopper_counters.py --out FILE [ROW|GROUP ...] [--ours] [--cache all|none]``
``python benchmarks/hopper_counters.py --out FILE --page`` prints what the file has as a Markdown table.

ncu runs this program again with ``--work``, which launches each function once outside the profile and once
inside. Clocks are left alone (``--clock-control none``); before each pass ncu flushes the caches
(``--cache all``) or leaves them as the last launch did. ``--out`` gets one JSON object for each kernel.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _kept import keep, kept
from _measured import COUNTED
from _rows import OURS, Row
from hopper import BY_NAME, ROWS, chosen

from pyptx.tools.ncu.program import find_ncu

#: What is read, by the name that the results have.
METRICS = {
    "ns": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "active_cycles": "sm__cycles_active.avg",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "issue_percent": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_bytes": "lts__t_bytes.sum",
    "l2_percent": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
}


def work(rows: Sequence[Row], ours_only: bool) -> None:
    """Launch each function of the rows once unprofiled and once profiled; print what the profile holds."""
    import torch

    for row in rows:
        name = row.name
        functions = {OURS: row.ours()} | ({} if ours_only else dict(row.rivals(torch)))
        arguments = row.inputs(torch, 0)
        for title, function in functions.items():
            try:
                function(*arguments)
                torch.cuda.synchronize()
            except Exception as error:
                print(f"{name}: {title}: {error}", file=sys.stderr)
                continue
            torch.cuda.nvtx.range_push(f"{name}|{title}")
            function(*arguments)
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
        del arguments, functions
        torch.cuda.empty_cache()


def launched(line: Mapping[str, object]) -> tuple[str, str]:
    """Return the row and the function of a launch, from the range that it ran in."""
    row, _, title = str(line["range"]).split("domain>:")[1].partition("|")
    return row, title.split(":")[0]


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the launches of our kernels as a table that ``_measured.counted_launches`` reads."""
    groups = {row.name: row.group for row in ROWS}
    table = [f"| {' | '.join(COUNTED)} |", f"|---|---|{'--:|' * (len(COUNTED) - 2)}"]
    ours = [(row, line) for line in lines for row, title in [launched(line)] if title == OURS]
    for row, line in sorted(ours, key=lambda each: list(groups).index(each[0])):
        cells = [row, line["kernel"], f"{line['cycles']:.0f}", f"{1000 * line['cycles'] / line['ns']:.0f}"]
        cells += [f"{line['active_cycles']:.0f}", f"{line['tensor_percent']:.1f}"]
        cells += [f"{line['issue_percent']:.1f}", f"{line['l2_percent']:.1f}", f"{line['dram_percent']:.1f}"]
        cells += [f"{line[name] / 1e6:.1f}" for name in ("dram_read_bytes", "dram_write_bytes", "l2_bytes")]
        table.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(table)


def counted(text: str) -> list[dict[str, object]]:
    """Return what ncu has printed in its raw CSV page, one object for each launch."""
    table = text[text.index('"ID"') :]
    titles = {metric: name for name, metric in METRICS.items()}
    found = []
    reader = csv.DictReader(io.StringIO(table))
    next(reader)  # units
    for line in reader:
        ranges = [value for key, value in line.items() if "Push/Pop" in key and value]
        numbers = {titles[key]: float(v.replace(",", "")) for key, v in line.items() if key in titles and v}
        found.append({"range": " ".join(ranges), "kernel": line["Kernel Name"][:80], **numbers})
    return found


def profiled(program: Sequence[str], cache: str) -> list[dict[str, object]]:
    """Run a program that calls :func:`work` under ncu, and return what it has counted."""
    command = [str(find_ncu()), "--csv", "--page", "raw", "--print-units", "base", "--nvtx"]
    command += ["--nvtx-include", "regex:.*\\|.*/", "--clock-control", "none", "--cache-control", cache]
    command += ["--metrics", ",".join(METRICS.values()), *program]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if '"ID"' not in done.stdout:
        sys.exit(f"ncu ended with status {done.returncode} and measured nothing:\n{done.stdout[-2000:]}")
    return counted(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", metavar="ROW|GROUP")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ours", action="store_true", help="leave the rivals out")
    parser.add_argument("--cache", choices=("all", "none"), default="all")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)  # under ncu
    parser.add_argument("--page", action="store_true", help="print what --out has as a table and stop")
    options = parser.parse_args()
    if options.page:
        print(page(list(kept(options.out))))
        return
    if options.work:
        work([BY_NAME[name] for name in options.rows], options.ours)
        return
    program = [sys.executable, __file__, "--work", *["--ours"] * options.ours]
    lines = profiled([*program, *(row.name for row in chosen(options.rows))], options.cache)
    for line in lines:
        print(json.dumps(line))
    if options.out:
        keep(options.out, *lines)


if __name__ == "__main__":
    main()
