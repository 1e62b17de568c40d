"""Predicts the cycles of our Hopper kernels at the clock that ncu saw, and scores them on what it counted.

The counters are those of docs/performance.md (``hopper_counters.py``): one launch of each kernel, after ncu
has emptied the caches. Predictions are kept in ``--out``, one JSON object on a line; a launch that is there
is not predicted again. ``_strata.py`` says to which stratum and half a row belongs.

``python benchmarks/predict_counters.py --out FILE [ROW|GROUP ...] [--score] [--constants FILE]``
``--intervals`` prints the intervals of ``pyptx/timing/scores.json`` that follow from the fitted half;
with ``--also``, launches of other programs count too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _intervals import described
from _kept import keep, kept, shares_of
from _measured import Counted, counted_launches, measured_times
from _row_inputs import contents_of, inputs_of
from _rows import OURS, Row, kernels_of
from _strata import HALVES, halves_of, strata_of
from hopper import ROWS
from hopper_counters import launched

from pyptx.entry.bounds import stratum_by
from pyptx.timing.constants import Gpu, gpu

#: Percent of its peak from which a unit can be called the bound, and how far below the busiest one.
BUSY, NEAR = 60.0, 10.0
#: The counter that tells of each bound.
COUNTERS = {"tensor": "tensor", "port": "tensor", "L2": "l2", "fabric": "l2", "HBM": "dram", "issue": "issue"}


@dataclass(frozen=True)
class Predicted:
    """A prediction as it is kept.

    Attributes:
        row, kernel: of the launch; ``number``: its place in the row.
        cycles: predicted.
        bound, busy: of :class:`pyptx.Prediction`.
        activity: what the law of power takes: shares and bytes, by name.
        seconds: that the prediction took.
        fault: why there is none.
    """

    row: str
    kernel: str
    number: int
    cycles: float = 0.0
    bound: str = ""
    busy: dict[str, float] | None = None
    activity: dict[str, float] | None = None
    seconds: float = 0.0
    fault: str = ""


def predict(row: Row, launches: Sequence[Counted], constants: Gpu, timeout: float) -> Iterator[Predicted]:
    """Yield the prediction of each launch of a row."""
    kernels = kernels_of(row)
    for number, (counted, (kernel, dims)) in enumerate(zip(launches, kernels, strict=True)):
        began = time.perf_counter()
        key = row.name, counted.kernel, number
        try:
            found = kernel.predict(
                *inputs_of(row, kernel, dims), gpu=constants, clock=counted.mhz, l2="cold",
                timeout=timeout, data=row.data, contents=contents_of(row), **dims,
            )  # fmt: skip
        except Exception as error:  # a launch that cannot be predicted is listed, and the others go on
            yield Predicted(*key, fault=f"{type(error).__name__}: {error}".splitlines()[0])
            continue
        if str(found.verdict) != "clean":
            rules = ", ".join(sorted({finding.rule.name for finding in found.findings}))
            yield Predicted(*key, fault=rules)
            continue
        timing = found.timing
        activity = {
            "tensor": min(1.0, timing.busy["tensor"]),
            "port_bytes_per_clk": timing.operands,
            "l2_bytes": timing.traffic.loaded,
            "hbm_bytes": timing.traffic.fetched + timing.stored,
            "issue": min(1.0, timing.busy["issue"]),
        }
        seconds = round(time.perf_counter() - began, 1)
        # The profiler's part passes at the clock of the launch.
        cycles = found.cycles + constants.value("launch.profiled_ns") * counted.mhz / 1000
        yield Predicted(*key, cycles, str(found.bound), shares_of(found.busy), activity, seconds)


def agrees(counted: Counted, found: Predicted) -> bool | None:
    """Return whether ncu's busiest unit is the predicted bound; None where no unit is busy enough to tell."""
    shares = {name: getattr(counted, counter) for name, counter in COUNTERS.items()}
    top = max(shares.values())
    if found.bound in shares:
        return shares[found.bound] >= top - NEAR
    return None if top >= BUSY else True


def summary(title: str, pairs: Sequence[tuple[Counted, Predicted]]) -> str:
    """Return how far predicted cycles are off, in words."""
    if not pairs:
        return f"{title:<24} none"
    errors = [found.cycles / counted.cycles - 1 for counted, found in pairs]
    worst = max(range(len(errors)), key=lambda place: abs(errors[place]))
    mean, bias = statistics.mean(map(abs, errors)), statistics.mean(errors)
    told = [agrees(*pair) for pair in pairs]
    text = f"{title:<24} {len(pairs):>3} launches: mean {mean:>5.1%}, bias {bias:+6.1%}, "
    text += f"worst {errors[worst]:+6.1%} ({pairs[worst][0].row})"
    return text + f"; bound as ncu's {told.count(True)} of {len(told) - told.count(None)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW|GROUP", help="without any, all that were counted")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--constants", default="h200", help="a GPU or a file of constants; h200")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for a kernel; 120")
    parser.add_argument("--score", action="store_true", help="only score what --out has")
    parser.add_argument("--intervals", action="store_true", help="print the intervals of the fitted half")
    parser.add_argument(
        "--also",
        type=Path,
        nargs=2,
        action="append",
        default=[],
        metavar=("PREDICTIONS", "COUNTERS"),
        help="with --intervals, launches of predict_foreign.py or predict_unseen.py, every second one fitted",
    )
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="of every N rows the one I")
    given = parser.parse_args()
    rows = {row.name: row for row in ROWS}
    counted = {name: list(some) for name, some in groupby(counted_launches(), key=lambda each: each.row)}
    found = {(entry["row"], entry["number"]): Predicted(**entry) for entry in kept(given.out)}
    constants = gpu(given.constants)
    names = [name for name in counted if not given.rows or {name, rows[name].group} & set(given.rows)]
    for name in () if given.score else names[given.part[0] :: given.part[1]]:
        if (name, 0) not in found:
            for entry in predict(rows[name], counted[name], constants, given.timeout):
                found[name, entry.number] = entry
                keep(given.out, vars(entry))
        for number, launch in enumerate(counted[name]):
            print(line_of(launch, found[name, number]), flush=True)
    pairs = score(rows, counted, found)
    if given.intervals:
        fitted, held_out = (ratios_of(pairs[half]) for half in HALVES)
        for predictions, counters in given.also:
            more = ratios_also(predictions, counters)
            fitted, held_out = fitted + more[::2], held_out + more[1::2]
        print("\n".join(described(fitted, held_out)))


def ratios_of(pairs: Sequence[tuple[Counted, Predicted]]) -> list[tuple[str, float]]:
    """Return stratum and counted over predicted cycles of each launch."""
    return [(stratum_by(each.bound, each.busy or {}), one.cycles / each.cycles) for one, each in pairs]


def ratios_also(predictions: Path, counters: Path) -> list[tuple[str, float]]:
    """Return the same of the launches whose cycles a file of predictions has, by name."""
    cycles = {launched(line): line["cycles"] for line in kept(counters)}
    lines = {line["row"]: line for line in kept(predictions) if line["kind"] == "cycles" and "value" in line}
    return [
        (line["stratum"], cycles[name, OURS] / line["value"])
        for name, line in sorted(lines.items())
        if (name, OURS) in cycles
    ]


def score(
    rows: dict[str, Row], counted: dict[str, list[Counted]], found: dict[tuple[str, int], Predicted]
) -> dict[str, list[tuple[Counted, Predicted]]]:
    """Print the errors by stratum and half, and why predictions are missing; return the launches."""
    strata = strata_of([each for each in measured_times() if each.row in rows], rows)
    all_pairs: dict[str, list[tuple[Counted, Predicted]]] = {half: [] for half in HALVES}
    for name, some in strata.items():
        for half, part in halves_of(some).items():
            pairs = pairs_of([each.row for each in part if each.protocol == "burst"], counted, found)
            all_pairs[half] += pairs
            print(summary(f"{name}, {half}", pairs))
    for half, pairs in all_pairs.items():
        print(summary(f"all, {half}", pairs))
    for entry in found.values():
        if entry.fault:
            print(f"  no prediction: {entry.row}, {entry.kernel}: {entry.fault}")
    return all_pairs


def pairs_of(
    names: Sequence[str], counted: dict[str, list[Counted]], found: dict[tuple[str, int], Any]
) -> list[tuple[Counted, Predicted]]:
    """Return each launch of some rows with its prediction, where there is one."""
    every = [(name, number, each) for name in names for number, each in enumerate(counted.get(name, ()))]
    pairs = [(each, found.get((name, number))) for name, number, each in every]
    return [(each, entry) for each, entry in pairs if entry is not None and not entry.fault]


def line_of(counted: Counted, found: Predicted) -> str:
    """Return a launch as a line of text."""
    start = f"{counted.row:<40} {counted.kernel:<20} "
    if found.fault:
        return start + found.fault
    told = f"tensor {counted.tensor:.0f}%, L2 {counted.l2:.0f}%, DRAM {counted.dram:.0f}%"
    text = f"{found.cycles:12.0f} cycles, {counted.cycles:12.0f} counted, "
    text += f"{found.cycles / counted.cycles - 1:+6.1%}"
    return f"{start}{text}, {found.bound} ({told}; {found.seconds:.0f} s)"


if __name__ == "__main__":
    main()
