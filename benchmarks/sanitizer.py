"""Measure what the sanitizer costs: time and memory of kernels in the simulator, with it and without it.

Each kernel runs in a process of its own for each of the two measurements, so that peaks of memory do not
mix. A process runs the kernel once to warm up, then ``REPEAT`` times; the shortest process time counts.
Targets: at most 3 times the plain run as the median of the kernels, none above 5 times; memory at most twice
the plain run's, which counts from after the imports, plus 64 MB.

    python benchmarks/sanitizer.py [KERNEL ...]
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _examples import load_example

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

REPEAT = 3
MEDIAN, WORST = 3.0, 5.0
MEMORY, MEMORY_MORE = 2, 64
Launch = Callable[..., Any]


def _gemm(path: str, build: str, *shape: int) -> Launch:
    example = load_example(path)
    gemm = getattr(example, build)(*shape)
    a, b = example.make_inputs(*shape)
    d = np.full(shape[:2], np.nan, np.float32)
    return lambda **options: gemm.simulate(a, b, out=d, **options)


def _compiled(case: str) -> Launch:
    from pyptx.sim import LoadedModule
    from tests.conformance.case import Map
    from tests.sim.compiled.check import passed
    from tests.sim.compiled.hopper.cases import CASES

    run = CASES[case].run()
    loaded = LoadedModule(run.module)

    def launch(**options: Any) -> Any:
        given = [passed(a) for a in run.arguments]
        arguments = [a.tensor_map(given[a.of]) if isinstance(a, Map) else a for a in given]
        return loaded.launch(
            grid=run.grid,
            block=run.block,
            cluster=run.cluster,
            dynamic_smem=run.dynamic_smem,
            args=arguments[: run.parameters],
            **options,
        )

    return launch


def _rows(build: str, rows: int, width: int) -> Launch:
    import simulate_rows

    x = np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)
    made = getattr(simulate_rows, build)(rows, width)
    out = np.full_like(x, np.nan)
    weight = [np.ones(width, np.float32)] if build == "rms_norm" else []
    return lambda **options: made.simulate(x, *weight, out=out, **options)


KERNELS: dict[str, Callable[[], Launch]] = {
    "gemm-1024": lambda: _gemm("blackwell/gemm_highperf_blackwell.py", "build_gemm", 1024, 1024, 1024),
    "gemm-2sm": lambda: _gemm("blackwell/gemm_highperf_blackwell.py", "build_gemm_2sm", 512, 512, 512),
    "gemm-hopper": lambda: _gemm("hopper/gemm_highperf_hopper.py", "build_gemm", 256, 512, 256),
    "attention": lambda: _compiled("triton.attention.attention"),
    "softmax": lambda: _rows("softmax", 128, 8192),
    "rmsnorm": lambda: _rows("rms_norm", 128, 8192),
}


def measure(name: str, *, sanitize: bool) -> None:
    """Print the seconds and the megabytes of one kernel, in this process."""
    launch = KERNELS[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(REPEAT + 1):
        started = time.process_time()
        report = launch(sanitize=sanitize)
        times.append(time.process_time() - started)
    assert report.verdict == "clean", report
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(min(times[1:]), (after - before) / 1024)


def _measured(name: str, mode: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--one", name, mode]
    seconds, megabytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(megabytes)


def main() -> None:
    ratios = []
    heads = f"{'plain s':>8} {'with s':>8} {'ratio':>6} {'plain MB':>9} {'with MB':>8} {'limit MB':>9}"
    print(f"{'kernel':<12} {heads}")
    for name in sys.argv[1:] or list(KERNELS):
        plain, plain_memory = _measured(name, "plain")
        checked, memory = _measured(name, "sanitize")
        ratios.append(checked / plain)
        limit = MEMORY * plain_memory + MEMORY_MORE
        times = f"{plain:8.3f} {checked:8.3f} {ratios[-1]:6.2f}"
        print(f"{name:<12} {times} {plain_memory:9.0f} {memory:8.0f} {limit:9.0f}")
    print(f"median {statistics.median(ratios):.2f} (target {MEDIAN:g})")
    print(f"worst  {max(ratios):.2f} (target {WORST:g})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], sanitize=sys.argv[3] == "sanitize")
    else:
        main()
