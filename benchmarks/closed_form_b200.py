"""Score the closed form of GEMMs on published rows: a B200 with SMs locked at 1300 MHz, 20 shapes, 16 tiles.

The nine parameters are fitted to every second shape, in the order of (m, n, k), and scored on the others: the
mean error, and what it costs to run the configuration that the form ranks first.  The form itself was chosen
with all rows in sight.

    python benchmarks/closed_form_b200.py --data DIR     # DIR has b200_gemm_fp16_1300mhz.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _fitting import fit, rows

from pyptx.timing.closed_form import Form, Gemm, Tile, closed_form, roofline
from pyptx.timing.constants import gpu

FILE = "b200_gemm_fp16_1300mhz.csv"
MHZ = 1300
B200 = gpu("b200")
#: Where the search begins, in the order of the fields of Form.
START = (6000, 600, 600, 10, 18500, 6500, 4, 0.7, 5e8)


def read(folder: Path) -> list[tuple[Gemm, Tile, float]]:
    """Return shape, tile and nanoseconds of each row."""
    found = []
    for row in rows(folder, FILE):
        number = {
            key: int(row[key]) for key in ("m", "n", "k", "mma_m", "mma_n", "cta_m", "cluster_m", "cluster_n")
        }
        group = number["mma_m"] // number["cta_m"]
        tile = Tile(number["mma_m"], number["mma_n"], group, number["cluster_m"], number["cluster_n"])
        found.append((Gemm(number["m"], number["n"], number["k"]), tile, float(row["runtime_us"]) * 1000))
    return found


def errors(table: list[tuple[Gemm, Tile, float]], form: Form) -> np.ndarray:
    """Return predicted over measured time, less one, of each row."""
    return np.array([closed_form(B200, gemm, tile, MHZ, form).ns / ns - 1 for gemm, tile, ns in table])


def choosing(table: list[tuple[Gemm, Tile, float]], form: Form) -> dict[Gemm, float]:
    """Return for each shape what the tile that the form ranks first takes more than the fastest one."""
    cost = {}
    for shape in dict.fromkeys(gemm for gemm, _, _ in table):
        own = [(closed_form(B200, gemm, tile, MHZ, form).ns, ns) for gemm, tile, ns in table if gemm == shape]
        cost[shape] = min(own)[1] / min(ns for _, ns in own) - 1
    return cost


def main() -> None:
    """Fit, and print parameters and errors."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, required=True, help=f"the folder that has {FILE}")
    table = read(arguments.parse_args().data)
    shapes = sorted({(g.m, g.n, g.k) for g, _, _ in table})
    fitted_shapes = set(shapes[::2])
    seen = [row for row in table if (row[0].m, row[0].n, row[0].k) in fitted_shapes]
    unseen = [row for row in table if row not in seen]
    found = fit(lambda x: float(np.mean(np.abs(np.log1p(errors(seen, Form(*x)))))), START)
    form = Form(*map(float, found))
    print("parameters, fitted:", form)
    print("parameters, from the constants:", Form.of(B200))
    for name, rows_ in (("fitted shapes", seen), ("held-out shapes", unseen)):
        for title, parameters in (("nine fitted parameters", form), ("from the constants", Form.of(B200))):
            off, cost = np.abs(errors(rows_, parameters)), list(choosing(rows_, parameters).values())
            print(
                f"{name}, {title}: mean error {off.mean():.1%}, worst {off.max():.1%};"
                f" choosing costs {np.mean(cost):.1%} mean, {max(cost):.1%} worst"
            )
        flat = [
            roofline(B200, 2.0 * g.m * g.n * g.k, 2.0 * (g.m * g.k + g.n * g.k + g.m * g.n), MHZ).ns / ns - 1
            for g, _, ns in rows_
        ]
        print(f"{name}, roofline: mean error {np.mean(np.abs(flat)):.1%}")
    cost = choosing(table, form)
    every = list(cost.values())
    print(f"all shapes: choosing costs {np.mean(every):.1%} mean, {max(every):.1%} worst")
    for shape in shapes:
        gemm = Gemm(*shape)
        off = errors([row for row in table if row[0] == gemm], form)
        kind = "fitted" if shape in fitted_shapes else "held out"
        print(
            f"{shape!s:>22} {kind:>8}: mean {np.abs(off).mean():6.1%}, cost {cost[gemm]:6.1%}; "
            + " ".join(f"{x:+.0%}" for x in off)
        )


if __name__ == "__main__":
    main()
