"""Predicts kernels at sizes that nothing was fitted to, before they are measured, and scores that afterwards.

    python benchmarks/predict_unseen.py --out FILE [ROW ...]   # cycles, times of bursts and sustained ones
    python benchmarks/predict_unseen.py --out FILE --digest    # their SHA-256: commit it, then measure
    python benchmarks/hopper.py unseen --results TIMES [--sustained]
    python benchmarks/hopper_counters.py unseen --ours --out COUNTERS
    python benchmarks/predict_unseen.py --out FILE --score --times TIMES --counters COUNTERS

``_unseen.py`` has the rows. Cycles are those of one launch behind empty caches at the clock that the law
gives a burst, with what a profiler adds. ``--score`` prints each row beside the roofline and the closed form.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _kept import keep, kept, shares_of
from _row_inputs import contents_of, inputs_of
from _rows import OURS, Results, Row, kernels_of, text_of
from _strata import H200, bytes_of
from _unseen import UNSEEN
from hopper_counters import launched
from predict_h200 import added_us, closed, l2_of, shape_of

from pyptx.entry.bounds import stratum_by
from pyptx.entry.prediction import Prediction
from pyptx.timing.closed_form import roofline

KINDS = ("cycles", "burst", "sustained")
TARGETS = {"cycles": "8% mean, 15% worst", "burst": "10% mean", "sustained": "10% mean"}


def predict(row: Row, kind: str, timeout: float) -> dict[str, Any]:
    """Return the prediction of a row: its cycles under a profiler, or its time under a protocol."""
    made = row.under(kind)
    ((kernel, dims),) = kernels_of(made)
    given: dict[str, Any] = {"data": row.data, "contents": contents_of(row), "timeout": timeout, **dims}
    found = kernel.predict(
        *inputs_of(row, kernel, dims),
        gpu=H200,
        clock="burst" if kind == "cycles" else kind,
        l2="cold" if kind == "cycles" else l2_of(row, kind),
        **given,
    )
    line = {"row": row.name, "kind": kind, "text": text_of(made, False)}
    if str(found.verdict) != "clean":
        return {**line, "fault": ", ".join(sorted({finding.rule.name for finding in found.findings}))}
    bits, shape = 8 if "fp8" in row.group else 16, shape_of(row)
    form = None if shape is None else closed(row, shape, bits, found.mhz)
    return {**line, **in_words(found, kind, row, bits, form)}


def in_words(found: Prediction, kind: str, row: Row, bits: int, form: float | None = None) -> dict[str, Any]:
    """Return a prediction as its line has it: with what a profiler or a protocol adds, beside the roofline.

    ``form`` is the closed form's us.
    """
    low, high = (end / found.microseconds for end in found.interval)
    if kind == "cycles":
        value = found.cycles + H200.value("launch.profiled_ns") * found.mhz / 1000
    else:
        value = found.microseconds + added_us(kind, 1)
    top = roofline(H200, row.flops or 0.0, bytes_of(row), found.mhz, bits).ns / 1000
    scale = found.mhz if kind == "cycles" else 1.0
    return {
        "value": round(value, 2),
        "low": round(value * low, 2),
        "high": round(value * high, 2),
        "mhz": round(found.mhz),
        "bound": str(found.bound),
        "stratum": stratum_by(str(found.bound), found.busy),
        "busy": shares_of(found.busy),
        "roofline": round(top * scale, 2),
        "closed form": None if form is None else round(form * scale, 2),
    }


def digest(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256 of predictions, whatever their order."""
    texts = sorted(json.dumps(line, sort_keys=True) for line in lines)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def measured_of(times: Path, counters: Path) -> dict[tuple[str, str], tuple[float, str]]:
    """Return what was measured: microseconds or cycles, and the hash of the text or nothing."""
    found: dict[tuple[str, str], tuple[float, str]] = {}
    for (name, protocol), result in Results(times).known.items():
        if not result.fault:
            found[name, protocol] = result.speeds[OURS].median, result.text
    for line in kept(counters):
        name, title = launched(line)
        if title == OURS:
            found[name, "cycles"] = line["cycles"], ""
    return found


def score(lines: Sequence[Mapping[str, Any]], measured: Mapping[tuple[str, str], tuple[float, str]]) -> None:
    """Print predictions beside measurements as a table, and the errors of each kind."""
    print("| row | kind | predicted | measured | error | in the interval | roofline | closed form |")
    print("|---|---|--:|--:|--:|---|--:|--:|")
    errors: dict[str, list[tuple[float, bool, float]]] = {kind: [] for kind in KINDS}
    for line in lines:
        value, text = measured.get((line["row"], line["kind"]), (0.0, ""))
        if not value or line.get("fault"):
            print(f"| {line['row']} | {line['kind']} | {line.get('fault') or 'not measured'} | | | | | |")
            continue
        assert text in ("", line["text"]), f"{line['row']}: the kernel is not the one that was predicted"
        error, inside = line["value"] / value - 1, line["low"] <= value <= line["high"]
        errors[line["kind"]].append((error, inside, (line["high"] - line["low"]) / 2 / line["value"]))
        others = [
            f"{line[name] / value - 1:+.1%}" if line[name] else "" for name in ("roofline", "closed form")
        ]
        shown = f"{line['value']:,.{0 if line['kind'] == 'cycles' else 1}f}"
        cells = (shown, f"{value:,.{0 if line['kind'] == 'cycles' else 1}f}", f"{error:+.1%}")
        cells += ("yes" if inside else "no", *others)
        print(f"| {line['row'].removeprefix('unseen ')} | {line['kind']} | {' | '.join(cells)} |")
    for kind, some in errors.items():
        if some:
            sizes = [abs(error) for error, _, _ in some]
            mean, bias = statistics.mean(sizes), statistics.mean(error for error, _, _ in some)
            held, width = sum(each for _, each, _ in some), statistics.median(each for *_, each in some)
            print(
                f"{kind}: {len(some)} rows, mean {mean:.1%}, bias {bias:+.1%}, worst {max(sizes):.1%}; "
                f"{held} within their intervals, median half-width {width:.1%} (target {TARGETS[kind]})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="without any, all")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--timeout", type=float, default=250.0, help="seconds for a kernel; 250")
    parser.add_argument("--kind", choices=KINDS, action="append", help="may be repeated; all")
    parser.add_argument("--digest", action="store_true", help="only print the SHA-256 of what --out has")
    parser.add_argument("--score", action="store_true", help="only score what --out has")
    parser.add_argument("--times", type=Path, default=Path("hopper_results.jsonl"))
    parser.add_argument("--counters", type=Path, default=Path("hopper_counters.jsonl"))
    given = parser.parse_args()
    lines = list(kept(given.out))
    if given.digest:
        print(digest(lines))
    elif given.score:
        score(lines, measured_of(given.times, given.counters))
    else:
        known = {(line["row"], line["kind"]) for line in lines}
        for row in UNSEEN:
            for kind in (given.kind or KINDS) if not given.rows or row.name in given.rows else ():
                if (row.name, kind) not in known:
                    line = predict(row, kind, given.timeout)
                    keep(given.out, line)
                    print(line, flush=True)


if __name__ == "__main__":
    main()
