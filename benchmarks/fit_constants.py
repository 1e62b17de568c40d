"""Fit the constants of a B200 to published microbenchmarks, and print them beside those of its file.

For each constant: the value that fits all rows of a table best (the smallest mean of |log(model / row)|), the
least and the greatest of five fits that leave out every fifth row each, and value and interval of the file.
OUTSIDE marks a fit outside the file's interval.  For each table: the mean and the worst residual.  No row of
a ladder of kernels or of a whole GEMM is read, but for the last section, which fits power.ladder.*.

    python benchmarks/fit_constants.py --data DIR     # DIR has b200_mma_throughput.csv and the others
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _fitting import fit, rows

from pyptx.timing.constants import gpu
from pyptx.timing.tensor import mma_interval, mma_latency

B200, H200 = gpu("b200"), gpu("h200")
GHZ = B200.value("sm.clock_max_mhz") / 1000
#: Clock of the sweep of one SM's main loop, which its source does not say: at it, loops that products bound
#: take N / 2 clk for each (K-blocks of 64 x 192 and 128 x 256, 128 bytes: 299 and 401 ns for four).
LOOP_GHZ = 1.285
SMS = B200.value("sm.count")
FOLDS = 5
TOLERANCE = 0.002  # of an end of an interval
LONGEST_ROW = 128  # bytes of a row of a swizzled box
WARMED_L2_MB = 6  # width of the step from hits to misses as the working set grows


@dataclass(frozen=True)
class Fitted:
    """A parameter of a model: its start, and the constant that it is, if it is one, after a conversion."""

    title: str
    start: float
    constant: str = ""
    scale: float = 1.0


Table = dict[str, np.ndarray]
Model = Callable[[np.ndarray, Table], np.ndarray]


def report(
    title: str, parameters: Sequence[Fitted], model: Model, table: Table, rounds: int = 2, steps: int = 250
) -> None:
    """Fit a model to a table whose measured column is ``measured``, and print parameters and residuals."""

    def fitted(part: Table, start: Sequence[float], how_often: int) -> np.ndarray:
        def loss(x: np.ndarray) -> float:
            return float(np.mean(np.abs(np.log(model(x, part) / part["measured"]))))

        return fit(loss, start, how_often, steps)

    best = fitted(table, [parameter.start for parameter in parameters], rounds)
    numbers = np.arange(len(table["measured"]))
    folds = [
        fitted({name: column[numbers % FOLDS != fold] for name, column in table.items()}, best, 1)
        for fold in range(FOLDS)
    ]
    residual = model(best, table) / table["measured"] - 1
    print(f"\n{title}: {len(numbers)} rows, residual {off(residual)}")
    for i, parameter in enumerate(parameters):
        low, high = min(fold[i] for fold in folds), max(fold[i] for fold in folds)
        show(
            parameter.title,
            parameter.constant,
            *(number * parameter.scale for number in (best[i], low, high)),
        )


def off(residuals: Sequence[float] | np.ndarray) -> str:
    """Return the mean and the worst of residuals as text."""
    sizes = np.abs(residuals)
    return f"{np.mean(sizes):.1%} mean, {np.max(sizes):.1%} worst"


def show(title: str, constant: str, value: float, low: float, high: float, on: str = "b200") -> None:
    """Print a fitted number beside the constant of the file."""
    line = f"  {title:<44} {value:10.4g}  ({low:.4g} to {high:.4g})"
    if constant:
        own = gpu(on).constant(constant)
        line += f"   {constant} = {own.value:g} ({own.low:g} to {own.high:g}) {own.unit}"
        if not own.low * (1 - TOLERANCE) <= value <= own.high * (1 + TOLERANCE):
            line += "  OUTSIDE"
    print(line)


def numbers(table: Sequence[dict[str, str]], *names: str) -> Table:
    """Return columns of a table as arrays."""
    return {name: np.array([float(row[name]) for row in table]) for name in names}


def smallest(parts: Sequence[np.ndarray], sharpness: float) -> np.ndarray:
    """Return the smallest of several rates; smooth, unless the exponent is large."""
    least = np.min(parts, axis=0)
    return least * np.sum([(least / part) ** sharpness for part in parts], axis=0) ** (-1 / sharpness)


def mma(folder: Path) -> None:
    """Interval, latency and depth of tcgen05.mma."""
    found = rows(folder, "b200_mma_throughput.csv")
    table = numbers(found, "CTAGroup", "M", "N", "CyclesPerMMA")
    table["measured"] = table.pop("CyclesPerMMA")
    table["shared"] = np.array([row["ABLayout"] == "SS" for row in found], float)

    def interval(x: np.ndarray, t: Table) -> np.ndarray:
        port, loop, extra, floor, whole, half = x
        group, m, n = t["CTAGroup"], t["M"], t["N"]
        compute = n * np.where((group == 2) & (m == 128), half, whole)
        read = (t["shared"] * m / group + n / group) * 32 / port + extra * t["shared"] * (m == 256)
        return np.maximum(np.maximum(compute, read), floor) + loop

    report(
        "tcgen05.mma, interval",
        [
            Fitted("port, B/clk", 125, "mma.port_bytes_per_clk"),
            Fitted("loop, clk", 0.3, "mma.interval.loop_clk"),
            Fitted("more of a pair's port, clk", 3, "mma.interval.g2_m256_ss.extra_clk"),
            Fitted("floor, clk", 18, "mma.interval.floor_clk"),
            Fitted("a column, clk", 0.5, "mma.interval.g1_m128.per_n_clk"),
            Fitted("a column, 64 rows of a pair, clk", 0.25, "mma.interval.g2_m128.per_n_clk"),
        ],
        interval,
        table,
    )
    print("\ntcgen05.mma, latency: lines in N (N = 64 to 256)")
    found = rows(folder, "b200_mma_latency.csv")
    differences = []
    for group, m in ((1, 64), (1, 128), (2, 128), (2, 256)):
        for layout in ("SS", "TS"):
            own = [r for r in found if (int(r["CTAGroup"]), int(r["M"]), r["ABLayout"]) == (group, m, layout)]
            name = f"mma.latency.g{group}_m{m}_{layout.lower()}"
            parts = [("base_clk", "per_n_clk", lambda n: True)]
            if name == "mma.latency.g2_m128_ss":
                wide, narrow = (lambda n: n >= 128), (lambda n: n <= 128)
                parts = [("base_clk", "per_n_clk", wide), ("narrow_base_clk", "narrow_per_n_clk", narrow)]
            for base, slope, takes in parts:
                pairs = [(int(r["N"]), float(r["MedianCycles"])) for r in own if takes(int(r["N"]))]
                n, clk = np.array(pairs).T
                per_n = B200.value(f"{name}.{slope}")
                bases = clk - per_n * n
                show(
                    f"{name} at N = 0, clk",
                    f"{name}.{base}",
                    float(np.median(bases)),
                    bases.min(),
                    bases.max(),
                )
            for r in own:
                predicted = mma_latency(B200, group, m, int(r["N"]), layout == "TS")
                differences.append(predicted / float(r["MedianCycles"]) - 1)
    print(f"  {len(differences)} rows by the file: residual {off(differences)}")
    found = rows(folder, "b200_mma_pipeline.csv")
    right = [
        int(r["SaturatedPipelineDepth"]) == int(np.ceil(float(r["Latency"]) / float(r["InitiationInterval"])))
        for r in found
    ]
    print(f"  the depth that saturates is latency over interval, rounded up: {sum(right)} of {len(right)}")


def main_loop(folder: Path) -> None:
    """One SM, one tile, operands of zeros: CUTLASS's main loop by tile and stages."""
    columns: dict[str, list[float]] = {}
    for row in rows(folder, "b200_mainloop_one_sm.csv"):
        m, n, k, stages = (int(row[name]) for name in ("TILE_M", "TILE_N", "TILE_K", "STAGES"))
        if stages == 0:  # as many as fit: a repetition
            continue
        size = 2 if row["dtype"] == "BF16" else 1
        row_bytes, products = k * size, k * size // 32
        boxes = max(1, row_bytes // LONGEST_ROW)
        values = {
            "copies": 2 * boxes,
            "rows": (m + n) * boxes,
            "bytes": (m + n) * row_bytes,
            "stages": stages,
            "products": products * mma_interval(B200, 1, m, n) / LOOP_GHZ,
            "latency": ((products - 1) * mma_interval(B200, 1, m, n) + mma_latency(B200, 1, m, n)) / LOOP_GHZ,
            "set": (m + n) * int(row["K"]) * size / 1e6,
            "measured": float(row["time_ms"]) * 1e6 * k / int(row["K"]),
        }
        for name, value in values.items():
            columns.setdefault(name, []).append(value)

    def step(x: np.ndarray, t: Table) -> np.ndarray:
        issue, row_rate, rate, latency, miss, hits = x
        load = np.max([t["copies"] * issue, t["rows"] / row_rate, t["bytes"] / rate], axis=0)
        missing = miss / (1 + np.exp(-(t["set"] - hits) / WARMED_L2_MB))
        return np.max([load, t["products"], (latency + missing + load + t["latency"]) / t["stages"]], axis=0)

    report(
        "main loop of one SM, ns of a k-block",
        [
            Fitted("between TMA instructions, clk", 43, "tma.issue_clk", LOOP_GHZ),
            Fitted("rows of boxes, 1/clk", 1.29, "tma.row_per_clk", 1 / LOOP_GHZ),
            Fitted("bytes of A and B, B/clk", 154, "tma.sm_bytes_per_clk", 1 / LOOP_GHZ),
            Fitted("TMA latency, hits of L2, ns", 345, "tma.latency_l2_ns"),
            Fitted("what misses add, ns", 300, "hbm.latency_ns"),
            Fitted("working set at which half misses, MB", 65),
        ],
        step,
        {name: np.array(column) for name, column in columns.items()},
    )


def tma(folder: Path) -> None:
    """TMA from HBM on all SMs, isolated and in loops, without and with equal requests."""
    table = numbers(
        rows(folder, "b200_tma_throughput.csv"), "BytesInFlightPerSM", "NumStages", "DRAMBandwidthBps"
    )
    table["measured"] = table.pop("DRAMBandwidthBps") / 1e9

    def stream(x: np.ndarray, t: Table) -> np.ndarray:
        latency, rate, memory, sharpness = x
        alone = SMS * t["BytesInFlightPerSM"] / (latency + t["BytesInFlightPerSM"] / rate)
        return smallest((alone, memory + 0 * alone), sharpness)

    report(
        "TMA from HBM, all SMs, B/ns",
        [
            Fitted("latency, ns", 460, "tma.latency_hbm_ns"),
            Fitted("one SM, B/clk", 150, "tma.sm_bytes_per_clk", 1 / GHZ),
            Fitted("HBM, B/ns", 7200, "hbm.read_bytes_per_ns"),
            Fitted("sharpness of the smaller of both", 6),
        ],
        stream,
        table,
    )
    isolated = [
        (int(r["TileBytes"]), float(r["LatencyNsMedian"])) for r in rows(folder, "b200_tma_latency.csv")
    ]
    small = [ns for size, ns in isolated if size <= 8192]
    print("\nTMA from HBM, first use, medians")
    show("boxes of at most 8 KB, ns", "tma.latency_hbm_ns", float(np.median(small)), min(small), max(small))

    columns: dict[str, list[float]] = {}
    for r in rows(folder, "b200_tma_sharing.csv"):
        if int(r["cluster_size"]) > 2:  # fewer SMs or bytes in flight than the others
            continue
        moved, ns = float(r["tile_bytes"]) * float(r["tma_instructions"]), float(r["gpu_time_ns"])
        group = 1 if r["mode_name"] == "no_sharing" else int(r["sharing_group"])
        for name, value in (
            ("flight", 4 * float(r["tile_bytes"])),
            ("group", group),
            ("cross", r["mode_name"] == "implicit_l2_cross"),
            ("measured", moved / ns),
        ):
            columns.setdefault(name, []).append(value)
    table = {name: np.array(column) for name, column in columns.items()}

    def shared(x: np.ndarray, t: Table) -> np.ndarray:
        latency, rate, fabric, memory, sharpness = x
        parts = (
            SMS * t["flight"] / (latency + t["flight"] / rate),
            fabric + 0 * t["group"],
            memory * t["group"],
        )
        return smallest(parts, sharpness)

    for title, chosen in (
        ("groups of 8 to 32", table["group"] >= 8),
        ("groups of 1 to 4", table["group"] <= 4),
    ):
        report(
            f"TMA, {title} SMs load the same boxes, B/ns delivered",
            [
                Fitted("latency, ns", 1000, "tma.latency_hbm_ns"),
                Fitted("one SM, B/clk", 150, "tma.sm_bytes_per_clk", 1 / GHZ),
                Fitted("fabric, B/ns (huge where not reached)", 18000, "l2.fabric_bytes_per_ns"),
                Fitted("HBM, B/ns", 7250, "hbm.read_bytes_per_ns" if "1 to" in title else ""),
                Fitted("sharpness of the smallest", 6),
            ],
            shared,
            {name: column[chosen] for name, column in table.items()},
            rounds=3,
        )
    print(f"  greatest rate of all rows: {table['measured'].max():.0f} B/ns")
    full = (table["flight"] == table["flight"].max()) & table["cross"]
    report(
        "TMA, most bytes in flight, by SMs of different TPCs that load the same boxes, B/ns delivered",
        [
            Fitted("fabric, B/ns", 17000, "l2.fabric_bytes_per_ns"),
            Fitted("what a byte that fills L2 takes of it", 0.7, "l2.fill_share"),
        ],
        lambda x, t: x[0] / (1 + x[1] / t["group"]),
        {name: column[full] for name, column in table.items()},
    )


def cp_async(folder: Path) -> None:
    """cp.async from HBM by depth, threads and width."""
    found = rows(folder, "b200_cp_async_throughput.csv")
    names = ("CTAsPerSM", "NumStages", "ThreadsPerBlock", "LoadBytes", "DRAMBandwidthBps")
    table = numbers(found, *names)
    table["measured"] = table.pop("DRAMBandwidthBps") / 1e9
    table["stage"] = table["CTAsPerSM"] * table["ThreadsPerBlock"] * table["LoadBytes"]

    def stream(x: np.ndarray, t: Table) -> np.ndarray:
        latency, rate, memory, groups, sharpness = x
        flight = t["stage"] * np.minimum(t["NumStages"], groups)
        alone = SMS * flight / (latency + flight / rate)
        return smallest((alone, memory + 0 * alone), sharpness)

    report(
        "cp.async from HBM, all SMs, B/ns",
        [
            Fitted("latency, clk", 450, "ldg.latency_hbm_clk", GHZ),
            Fitted("one SM, B/clk", 150, "ldg.sm_bytes_per_clk", 1 / GHZ),
            Fitted("HBM, B/ns", 6700),
            Fitted("groups of a warp in flight", 9, "ldg.async_groups"),
            Fitted("sharpness of the smaller of both", 6),
        ],
        stream,
        table,
    )


#: cuBLAS on our H200, bf16, launches back to back for 2 s: data, TFLOP/s, W and MHz by NVML.
SUSTAINED_H200 = (
    ("normal", 675, 693, 1482),
    ("normal", 698, 691, 1455),
    ("zeros", 783, 392, 1740),
    ("zeros", 815, 403, 1740),
)
#: The Tilus tutorial at 8192 cubed: GHz, tensor and DRAM utilization, operand bytes for each busy cycle.
TILUS = (
    (1.58, 0.576, 0.286, 96),
    (1.41, 0.794, 0.349, 96),
    (1.40, 0.832, 0.199, 96),
    (1.32, 0.940, 0.208, 96),
    (1.38, 0.961, 0.205, 64),
    (1.37, 0.966, 0.215, 64),
)


def power() -> None:
    """What the tensor cores take, given the estimates of the other terms."""
    print("\npower of an H200, from cuBLAS sustained at 8192 and 16384 cubed")
    found: dict[str, list[float]] = {"normal": [], "zeros": []}
    for data, tflops, watts, mhz in SUSTAINED_H200:
        busy = tflops * 1e6 / (H200.value("sm.count") * H200.value("tensor.flops_per_clk_16bit") * mhz)
        # Tiles of 128 x 256 in clusters of two read 80 B/clk of operands, and 2/3 of 48 from L2.
        l2 = H200.value("power.l2_pj_per_byte") * busy * 32 * 132 * mhz / 1e6
        memory = H200.value("power.hbm_pj_per_byte") * 0.6
        port = H200.value("power.port_pj_per_byte") * 80 * 132 * H200.value("sm.clock_max_mhz") / 1e6
        dynamic = (watts - H200.value("power.static_w") - l2 - memory) / _scaled(
            mhz / H200.value("sm.clock_max_mhz")
        )
        # The port's energy is in proportion to that of the products.
        mma_w = H200.value("power.mma_w")
        found[data].append((dynamic - H200.value("power.base_w")) / busy / (1 + port / mma_w))
    normal, zeros = found["normal"], found["zeros"]
    show(
        "tensor cores on normal data, W",
        "power.mma_w",
        float(np.mean(normal)),
        min(normal),
        max(normal),
        "h200",
    )
    shares = [zero / np.mean(normal) for zero in zeros]
    show(
        "share that zeros cost", "power.zeros_share", float(np.mean(shares)), min(shares), max(shares), "h200"
    )

    print("\npower of a B200, from the Tilus ladder: not for scoring it")
    rows_, watts_ = [], []
    for ghz, busy, dram, operands in TILUS:
        l2 = B200.value("power.l2_pj_per_byte") * busy * operands * SMS * ghz / 1000
        memory = B200.value("power.hbm_pj_per_byte") * dram * 8
        port = B200.value("power.port_pj_per_byte") * operands * busy * SMS * GHZ / 1000
        rows_.append([1, busy])
        left = B200.value("power.limit_w") - B200.value("power.static_w") - l2 - memory
        watts_.append(left / _scaled(ghz / GHZ) - port)
    fits = []
    for left_out in (None, *range(len(TILUS))):
        kept = [i for i in range(len(TILUS)) if i != left_out]
        fits.append(np.linalg.lstsq(np.array(rows_)[kept], np.array(watts_)[kept], rcond=None)[0])
    for i, name in enumerate(("base_w", "mma_w")):
        show(name, f"power.ladder.{name}", fits[0][i], min(f[i] for f in fits), max(f[i] for f in fits))


def _scaled(x: float) -> float:
    """Return clock times voltage squared, over those at the maximum."""
    floor = B200.value("power.voltage_floor")
    return x * (floor + (1 - floor) * x) ** 2


def main() -> None:
    """Fit and print every section."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, required=True, help="the folder that has the tables")
    folder = arguments.parse_args().data
    mma(folder)
    main_loop(folder)
    tma(folder)
    cp_async(folder)
    power()


if __name__ == "__main__":
    main()
