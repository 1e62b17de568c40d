"""Predicts published times of GEMMs on a B200 from our own kernels, and scores the predictions.

The times are those of 20 shapes in 16 configurations each, with CuTe DSL's persistent GEMM, f16, at a locked
clock of 1300 MHz. ``examples/blackwell/gemm_tiles.py`` has each configuration; its event stream is what is
timed. The file with the published times is given by ``--data``: columns mma_m, mma_n, cluster_m, cluster_n,
m, n, k, runtime_us. Predictions are kept in ``--out``, one JSON object on a line, so that a run can go on
where another one ended.

``python benchmarks/predict_b200.py --data DIR --out FILE [--rows 0:320:10] [--score]``. ``--ablate NAME``
predicts without a part of the model: give a file of its own. What the errors grow by is the part's worth.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.blackwell.gemm_tiles import build_gemm_tiles
from pyptx.timing.constants import gpu

#: Constants that take a part of the model away.
ABLATIONS = {
    "port": {"mma.port_bytes_per_clk": math.inf},
    "ramp": {"tensor.ramp_share": 1.0},
    "fabric": {"l2.fabric_bytes_per_ns": math.inf},
    "misses": {"l2.soft_capacity_bytes": math.inf},
    "rows": {"tma.row_per_clk": math.inf},
    "stores": {"tma.store_bytes_per_clk": math.inf},
    "schedule": {},
}
NAME, MHZ = "b200_gemm_fp16_1300mhz.csv", 1300.0
CONFIGURATIONS = 16  # of each shape


def rows_of(folder):
    """Return the published rows, each a dict with numbers."""
    with (Path(folder) / NAME).open() as file:
        rows = list(csv.DictReader(file))
    keys = ("mma_m", "mma_n", "cluster_m", "cluster_n", "m", "n", "k")
    return [{key: int(row[key]) for key in keys} | {"us": float(row["runtime_us"])} for row in rows]


def predict(row, chip):
    """Return the predicted time of a row in us, timed by events as the published one, and what bounds it."""
    size = row["cluster_m"] * row["cluster_n"]
    clusters = sum(int(group) // size for group in chip.series("gpc.sizes"))
    m, n, k = row["m"], row["n"], row["k"]
    pitch = -(-k // 8) * 8
    options = {key: row[key] for key in ("mma_m", "mma_n", "cluster_m", "cluster_n")}
    kernel = build_gemm_tiles(m, n, k, pitch=pitch, clusters=clusters, **options)
    found = kernel.predict((m, pitch), (n, pitch), gpu=chip, clock=MHZ)
    assert str(found.verdict) == "clean", found
    return found.microseconds + (chip.value("launch.event_ns") + chip.value("launch.idle_ns")) / 1000, found


def shape(row):
    """Return the sizes of a row's GEMM."""
    return row["m"], row["n"], row["k"]


def held_out(rows):
    """Return the shapes to which no constant was fitted: every second one, sorted by m, n, k."""
    return set(sorted({shape(row) for row in rows})[1::2])


def score(rows, found, name):
    """Print the errors of the predictions that there are, and what choosing the fastest by them costs."""
    if not found:
        return
    errors = [found[i]["us"] / row["us"] - 1 for i, row in enumerate(rows) if i in found]
    size = [abs(error) for error in errors]
    print(
        f"{name}, {len(errors)} rows: mean |error| {statistics.mean(size):.1%}, worst {max(size):.1%}, ",
        end="",
    )
    print(f"bias {statistics.mean(errors):+.1%}, median {statistics.median(errors):+.1%}", end="")
    costs = []
    for each in {shape(rows[i]) for i in found}:
        known = [i for i in found if shape(rows[i]) == each]
        if len(known) == CONFIGURATIONS:
            chosen = min(known, key=lambda i: found[i]["us"])
            costs.append(rows[chosen]["us"] / min(rows[i]["us"] for i in known) - 1)
    if costs:
        print(
            f"; choosing costs {statistics.mean(costs):.1%}, at most {max(costs):.1%}, {len(costs)} shapes",
            end="",
        )
    print()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--rows", default="::")
    parser.add_argument("--ablate", choices=ABLATIONS, help="leave out; schedule: ptxas's, with the default")
    parser.add_argument("--score", action="store_true", help="only score what --out has")
    parser.add_argument("--held-out", action="store_true", help="only shapes to which no constant was fitted")
    given = parser.parse_args()
    rows, chip = rows_of(given.data), gpu("b200")
    if given.ablate:
        chip = chip.with_values(ABLATIONS[given.ablate])
    if given.ablate == "schedule":
        os.environ["PYPTX_PTXAS"] = os.devnull
    apart = held_out(rows)
    found = {}
    if given.out.exists():
        for line in given.out.read_text().splitlines():
            entry = json.loads(line)
            found[entry["row"]] = entry
    if not given.score:
        part = slice(*(int(x) if x else None for x in given.rows.split(":")))
        for number in range(len(rows))[part]:
            if number in found or (given.held_out and shape(rows[number]) not in apart):
                continue
            row, began = rows[number], time.perf_counter()
            us, prediction = predict(row, chip)
            entry = {"row": number, "us": us, "cycles": prediction.cycles, "bound": prediction.bound}
            entry |= {"busy": {name: round(share, 3) for name, share in prediction.busy.items()}}
            entry["seconds"] = round(time.perf_counter() - began, 1)
            found[number] = entry
            with given.out.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            print(
                number,
                row,
                f"{us:.1f}",
                f"{us / row['us'] - 1:+.1%}",
                prediction.bound,
                entry["seconds"],
                flush=True,
            )
    for name, kind in (("fitted shapes", False), ("held-out shapes", True)):
        score(rows, {i: each for i, each in found.items() if (shape(rows[i]) in apart) is kind}, name)


if __name__ == "__main__":
    main()
