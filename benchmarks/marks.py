"""Compares the marks of a GEMM on a Hopper GPU with those of its prediction, event by event.

``examples/hopper/gemm_highperf_hopper.py`` marks where the producer waits for empty stages, where the
consumers wait for full stages and for products, and each tile's epilogue.  On a GPU each shape is launched
several times, each time with empty caches; of each event the file keeps the 10th, 50th and 90th percentile
of all CTAs and launches, in cycles since the CTA's first mark.  The prediction runs the same kernel, whose
marks read the clock of the timed machine, at the frequency that the marks of the GPU show.

    python benchmarks/marks.py FILE --record     # on a Hopper GPU: measure
    python benchmarks/marks.py FILE              # anywhere: predict, and compare
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _examples import load_example
from _kept import keep, kept

from pyptx import bf16, kit
from pyptx.timeline import Timeline

SHAPES = ((2048, 2048, 4096), (4096, 4096, 1024), (4096, 4096, 4096))
LAUNCHES = 4
#: Of the CTAs every so many are looked at.
EVERY = 7
CTAS = 2  # of a cluster
WARPS, ROLES = 12, {0: "producer", 4: "consumer 1", 8: "consumer 2"}
FLUSHED = 1 << 28  # bytes that are read to empty L2
#: Rounds in which the ring fills and the first products begin; later ones repeat.
FIRST = 8

#: Begin and end in cycles since the CTA's first mark, by role and mark, in their order.
Spans = dict[str, dict[str, list[tuple[float, float]]]]


def traced(shape: Sequence[int]) -> tuple[Any, kit.Trace]:
    """Return the GEMM of a shape with marks, and its trace."""
    m, n, k = shape
    clusters = min(66, m // 256 * (n // 256))
    rounds = -(-(m // 256 * (n // 256)) // clusters) * (k // 64 + 1)
    trace = kit.Trace(ctas=CTAS * clusters, warps=WARPS, events=1 << (4 * rounds).bit_length())
    build = load_example("hopper/gemm_highperf_hopper.py").build_gemm
    return build(m, n, k, out_dtype=bf16, trace=trace), trace


def spans_of(timeline: Timeline, ctas: Sequence[int]) -> dict[int, Spans]:
    """Return the spans of the marks of each CTA."""
    found: dict[int, Spans] = {cta: defaultdict(lambda: defaultdict(list)) for cta in ctas}
    for event in timeline.events:
        track = timeline.tracks[event.track]
        role = ROLES.get(int(track.name.removeprefix("warp ")))
        if track.cta in found and role is not None and not event.open:
            found[track.cta][role][event.name].append((event.begin, event.end))
    for roles in found.values():
        zero = min(begin for marks in roles.values() for some in marks.values() for begin, _ in some)
        for marks in roles.values():
            for name, some in marks.items():
                marks[name] = sorted((begin - zero, end - zero) for begin, end in some)
    return found


# --- on a GPU -------------------------------------------------------------------------------------


def measured(shape: Sequence[int]) -> dict[str, Any]:
    """Return percentiles of the spans of a shape's launches, and the frequency in MHz."""
    import torch

    m, n, k = shape
    gemm, trace = traced(shape)
    a, b = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
    other = torch.zeros(FLUSHED // 4, device="cuda")
    buffers = trace.buffers("cuda")
    d = gemm(*buffers, a, b)
    call = gemm.prepare(*buffers, a, b, out=d)
    rates: list[float] = []
    every: list[Spans] = []
    for _ in range(LAUNCHES):
        buffers[0].view(torch.int32).zero_()
        other.sum()
        torch.cuda.synchronize()
        call()
        torch.cuda.synchronize()
        some = (few_warps(buffers[0].cpu().numpy()),)
        cycles, ns = trace.timeline(some, aligned=False), trace.timeline(some)
        rates.append(span(cycles) / span(ns))
        every += spans_of(cycles, range(0, trace.ctas, EVERY)).values()
    return {"shape": list(shape), "mhz": 1000 * statistics.median(rates), "spans": percentiles(every)}


def few_warps(words: np.ndarray) -> np.ndarray:
    """Return a trace's buffer with the warps of some CTAs, one of each role; the others have not started."""
    found = np.zeros_like(words).reshape(-1, WARPS, words.shape[1])
    for role in ROLES:
        found[::EVERY, role] = words.reshape(found.shape)[::EVERY, role]
    return found.reshape(words.shape)


def span(timeline: Timeline) -> float:
    """Return how long the marks of CTA 0 take."""
    own = [event for event in timeline.events if timeline.tracks[event.track].cta == 0]
    return max(event.end for event in own) - min(event.begin for event in own)


def percentiles(every: Sequence[Spans]) -> dict[str, dict[str, list[list[list[float]]]]]:
    """Return for each role, mark and event the percentiles of its begin and its end."""
    found: dict[str, dict[str, list[list[list[float]]]]] = {}
    for role in ROLES.values():
        found[role] = {}
        for name in every[0][role]:
            count = max(len(spans[role][name]) for spans in every)
            rows = []
            for number in range(count):
                own = np.array([s[role][name][number] for s in every if number < len(s[role][name])])
                rows.append(np.percentile(own, (10, 50, 90), axis=0).T.round(1).tolist())
            found[role][name] = rows
    return found


# --- the prediction, and the comparison -----------------------------------------------------------


def predicted(shape: Sequence[int], mhz: float, gpu: str) -> Spans:
    """Return the spans of CTA 0 in the timed machine, which stands for all."""
    m, n, k = shape
    gemm, trace = traced(shape)
    buffers = trace.buffers()
    gemm.predict(*buffers, (m, k), (n, k), gpu=gpu, clock=mhz)
    return spans_of(trace.timeline(buffers, aligned=False), (0,))[0]


def compare(entry: Mapping[str, Any], own: Spans) -> None:
    """Print how far the events of a shape are off."""
    print(f"{'x'.join(map(str, entry['shape']))} at {entry['mhz']:.0f} MHz, cycles")
    print(
        f"  {'role':<11} {'mark':<14} {'events':>6} | {'measured: wait':>14} {'10%':>6} {'90%':>6} | "
        f"{'predicted':>9} | {'begin off, mean':>15} {'bias':>7} {'last event':>20} {'off':>6}"
    )
    for role, marks in entry["spans"].items():
        for name, rows in marks.items():
            pairs = list(zip(rows, own.get(role, {}).get(name, ()), strict=False))
            if not pairs:
                print(f"  {role:<11} {name:<14} {len(rows):>6} | not predicted")
                continue
            late = pairs[FIRST:] if len(pairs) > FIRST else pairs
            waits = np.array([[row[1][p] - row[0][p] for p in range(3)] for row, _ in late])
            took = statistics.median(end - begin for _, (begin, end) in late)
            off = [begin - row[0][1] for row, (begin, _) in pairs]
            (_, last), (_, end) = pairs[-1]
            print(
                f"  {role:<11} {name:<14} {len(pairs):>6} | {np.median(waits[:, 1]):>14.0f} "
                f"{np.percentile(waits[:, 1], 10):>6.0f} {np.percentile(waits[:, 1], 90):>6.0f} | "
                f"{took:>9.0f} | {statistics.mean(map(abs, off)):>15.0f} {statistics.mean(off):>+7.0f} "
                f"{end:>9.0f} of {last[1]:>7.0f} {end / last[1] - 1:>+6.1%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="what was measured, one JSON object on a line")
    parser.add_argument("--record", action="store_true", help="measure on the GPU of this machine")
    parser.add_argument("--gpu", default="h200", help="a GPU or a file of constants; h200")
    given = parser.parse_args()
    if given.record:
        entries = [measured(shape) for shape in SHAPES]
        given.file.unlink(missing_ok=True)
        keep(given.file, *entries)
        return
    for entry in kept(given.file):
        compare(entry, predicted(entry["shape"], entry["mhz"], given.gpu))


if __name__ == "__main__":
    main()
