"""Measure what a timeline costs: the Blackwell GEMM in the simulator, and marks in the Hopper GEMM on a GPU.

The simulator's runs alternate with and without the timeline, in processor time.  On a Hopper GPU, runs with
and without marks alternate in the order ABBA, twenty launches each, behind a kernel that waits.

    python benchmarks/timeline.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from _examples import load_example

from pyptx import bf16, kit

REPEATS, LAUNCHES, SIZES = 5, 20, (4096, 8192)


def simulated() -> None:
    example = load_example("blackwell/gemm_highperf_blackwell.py")
    size = (1024, 1024, 1024)
    gemm, inputs = example.build_gemm(*size), example.make_inputs(*size)
    gemm.simulate(*inputs)
    for sanitize in (True, False):
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(REPEATS):
            for timeline in (False, True):
                started = time.process_time()
                report = gemm.simulate(*inputs, timeline=timeline, sanitize=sanitize)
                seconds[timeline].append(time.process_time() - started)
        plain, drawn = (statistics.median(seconds[timeline]) for timeline in (False, True))
        words = "with the sanitizer" if sanitize else "without the sanitizer"
        print(f"1024^3 {words}: {plain:.2f} s, with the timeline {drawn:.2f} s: {drawn / plain:.2f} times")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        started = time.perf_counter()
        report.timeline.html(path)
        print(
            f"{report.timeline}: page {path.stat().st_size:,} bytes in {time.perf_counter() - started:.2f} s"
        )


def on_a_gpu() -> None:
    import torch

    example = load_example("hopper/gemm_highperf_hopper.py")
    for size in SIZES:
        a, b = (torch.randn(size, size, device="cuda").bfloat16() for _ in range(2))
        trace = kit.Trace(ctas=132, warps=12, events=2048)
        buffers = trace.buffers("cuda")
        off = example.build_gemm(size, size, size, out_dtype=bf16)
        on = example.build_gemm(size, size, size, out_dtype=bf16, trace=trace)
        d = off(a, b)
        calls = off.prepare(a, b, out=d), on.prepare(*buffers, a, b, out=torch.empty_like(d))

        def timed(which: int, calls: tuple = calls) -> float:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(2_000_000)
            begin.record()
            for _ in range(LAUNCHES):
                calls[which]()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) / LAUNCHES * 1e3

        for which in (0, 1):
            timed(which)
        rounds = [[timed(w) for w in ((0, 1) if n % 2 else (1, 0))][:: 1 if n % 2 else -1] for n in range(12)]
        plain, marked = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratio = statistics.median(y / x for x, y in rounds)
        print(f"{size}^3 on the GPU: {plain:.1f} us, with marks {marked:.1f} us: {ratio:.3f} times")


if __name__ == "__main__":
    simulated()
    try:
        import torch

        ready = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
    except ImportError:
        ready = False
    if ready:
        on_a_gpu()
    else:
        print("no Hopper GPU that torch sees: the cost of marks was not measured")
