"""Rows of a benchmark program: what is measured, beside what, and results that outlive the process.

Rows run one after another in a worker process, each with a time limit; a kernel that hangs or fails costs
its row and the process, and the next row gets a fresh one.  What a row measured is kept in a file at once; a
row that the file has for the same texts of its kernels is not run again.
"""

from __future__ import annotations

import gc
import hashlib
import math
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from _kept import keep, kept

__all__ = [
    "Composed",
    "Measured",
    "Results",
    "Row",
    "Speed",
    "kernels_of",
    "lines_of",
    "measure",
    "page",
    "ratio_interval",
    "run_rows",
    "text_of",
    "work",
]


#: The name of our choice in results.
OURS = "pyptx"


@dataclass(frozen=True)
class Composed:
    """A function that launches several kernels, and these kernels with their run-time sizes."""

    function: Callable[..., Any]
    kernels: list[tuple[Any, Mapping[str, int]]]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: unique, such as ``gemm bf16 8192 8192 8192``.
        group: the rows that one word of the command line selects.
        ours: builds what to measure: a kernel, or a :class:`Composed` of several.
        lasting: the same for the sustained protocol, where it is another kernel.
        candidates: builds further kernels by name, other choices of the same kernel, for ``--candidates``.
        rivals: given torch, returns the functions to compare with, by name.
        inputs: given torch and the number of the copy, returns the arguments.
        reference: a function of the arguments that returns the expected outputs.
        rtol, atol: the tolerance of ``pyptx.bench``.
        flops, bytes: of one run.
        target: least ratio of a rival's (and a roof's) time to ours that the row is to reach.
        roofs: given torch, returns functions of the same arguments that are timed and not verified: what the
            hardware reaches at most.
        dims: the run-time sizes of our kernels.
        options: further options of ``pyptx.bench``.
        data: the distribution of the inputs.
    """

    name: str
    group: str
    ours: Callable[[], Callable[..., Any]]
    rivals: Callable[[Any], Mapping[str, Callable[..., Any]]]
    inputs: Callable[[Any, int], Sequence[Any]]
    reference: Callable[..., Any]
    rtol: float
    atol: float
    flops: float | None = None
    bytes: float | None = None
    target: float | None = None
    roofs: Callable[[Any], Mapping[str, Callable[..., Any]]] = lambda torch: {}
    candidates: Callable[[], Mapping[str, Callable[..., Any]]] = dict
    dims: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    data: str = "normal"
    lasting: Callable[[], Callable[..., Any]] | None = None

    def under(self, protocol: str) -> Row:
        """Return the row with what is measured under a protocol, ``burst`` or ``sustained``."""
        if protocol != "sustained" or self.lasting is None:
            return self
        return replace(self, ours=self.lasting, lasting=None)


@dataclass(frozen=True)
class Speed:
    """How one function did.

    Attributes:
        median, low, high: microseconds of a run, the 10th and the 90th percentile.
        times: of each run.
        watts, sm_mhz, joules: power, clock and energy of a launch under the sustained protocol, where read.
    """

    median: float
    low: float
    high: float
    times: tuple[float, ...]
    watts: float | None = None
    sm_mhz: float | None = None
    joules: float | None = None


@dataclass(frozen=True)
class Measured:
    """The result of a row.

    Attributes:
        row: its name.
        protocol: ``burst`` or ``sustained``.
        device: the GPU, in words.
        text: a hash of the texts of our kernels.
        speeds: by name of the function; ours are those in :attr:`ours`.
        ours: names of our functions, the choice of the library first.
        fault: why there are no speeds, or empty.
        when: the time of the measurement, UTC.
    """

    row: str
    protocol: str
    device: str
    text: str
    speeds: Mapping[str, Speed]
    ours: tuple[str, ...]
    fault: str = ""
    when: str = ""


def ratio_interval(
    ours: Sequence[float], theirs: Sequence[float], *, draws: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the median of ``theirs / ours`` over paired runs, and its 95% interval by the bootstrap."""
    pairs = min(len(ours), len(theirs))
    ratios = np.asarray(theirs[:pairs]) / np.asarray(ours[:pairs])
    picks = np.random.default_rng(seed).integers(0, pairs, (draws, pairs))
    medians = np.median(ratios[picks], axis=1)
    return float(np.median(ratios)), *map(float, np.quantile(medians, (0.025, 0.975)))


class Results:
    """Measured rows, kept in a file with one JSON object a line; the last line of a row counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[tuple[str, str], Measured] = {}
        for given in kept(path):
            speeds = {
                name: Speed(**{**each, "times": tuple(each["times"])})
                for name, each in given["speeds"].items()
            }
            self._keep(Measured(**{**given, "speeds": speeds, "ours": tuple(given["ours"])}))

    def _keep(self, result: Measured) -> None:
        self.known[result.row, result.protocol] = result

    def add(self, result: Measured) -> None:
        self._keep(result)
        keep(self.path, asdict(result))


def ours_of(row: Row, candidates: bool) -> dict[str, Callable[..., Any]]:
    """Return what to measure by name, our choice first."""
    return {OURS: row.ours(), **(row.candidates() if candidates else {})}


def kernels_of(row: Row, candidates: bool = False) -> list[tuple[Any, Mapping[str, int]]]:
    """Return the kernels of a row, each with its run-time sizes."""
    return _kernels(row, ours_of(row, candidates))


def text_of(row: Row, candidates: bool) -> str:
    """Return a hash of the texts of a row's kernels."""
    return _text(row, ours_of(row, candidates))


def _kernels(row: Row, ours: Mapping[str, Callable[..., Any]]) -> list[tuple[Any, Mapping[str, int]]]:
    found: list[tuple[Any, Mapping[str, int]]] = []
    for each in ours.values():
        found += each.kernels if isinstance(each, Composed) else [(each, row.dims)]
    return found


def _text(row: Row, ours: Mapping[str, Callable[..., Any]]) -> str:
    made = hashlib.sha256()
    for kernel, dims in _kernels(row, ours):
        made.update(kernel.ptx(**dims).encode())
    return made.hexdigest()[:16]


def measure(row: Row, protocol: str, seconds: float, repeats: int, candidates: bool) -> Measured:
    """Measure one row on this process's GPU."""
    import torch

    import pyptx

    ours = ours_of(row, candidates)
    text = _text(row, ours)
    device = torch.cuda.get_device_name()
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    functions = {**ours, **row.rivals(torch)}
    result = pyptx.bench(
        functions,
        lambda copy: row.inputs(torch, copy),
        reference=row.reference,
        rtol=row.rtol,
        atol=row.atol,
        flops=row.flops,
        bytes=row.bytes,
        protocol=protocol,
        seconds=seconds,
        repeats=repeats,
        roofs=row.roofs(torch),
        **row.options,
    )
    speeds = {}
    for timing in result.timings:
        draw = timing.draw
        speeds[timing.name] = Speed(
            timing.median,
            timing.quantile(0.1),
            timing.quantile(0.9),
            tuple(round(each, 3) for each in timing.times),
            *((None, None, None) if draw is None else (draw.watts, draw.sm_mhz, draw.joules)),
        )
    return Measured(row.name, protocol, device, text, speeds, tuple(ours), "", when)


class Worker:
    """A process that measures the rows whose names it reads, one a line, and answers each with a line.

    ``program`` is its command. After a fault it is gone, and the next row starts another.
    """

    def __init__(self, program: Sequence[str]) -> None:
        self.program = program
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that is not read would block

    def measure(self, name: str, limit: float) -> str:
        """Measure a row, for ``limit`` seconds at most. Return why it was not measured, or nothing."""
        if self.process is None:
            self.errors.seek(0)
            self.errors.truncate()
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
            self.process = subprocess.Popen(self.program, text=True, **pipes)  # type: ignore[call-overload]
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        answers, _, _ = select.select([self.process.stdout], [], [], limit)
        if not answers:
            self.end()
            return f"no end after {limit:.0f} s"
        if self.process.stdout.readline().strip() == name:
            return ""
        self.process.wait()
        self.process = None
        self.errors.seek(0)
        # An error's further lines, such as hints, are indented.
        lines = [line for line in self.errors.read().splitlines() if line.strip() and not line[0].isspace()]
        return lines[-1] if lines else "?"

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def run_rows(
    program: Sequence[str],
    rows: Sequence[Row],
    results: Results,
    protocol: str,
    *,
    candidates: bool,
    budget: float,
    limit: float,
) -> None:
    """Measure rows one after another in a :class:`Worker`.

    Args:
        program: the command of a process that calls :func:`work`.
        candidates: whether further choices of each kernel are measured as well.
        budget: seconds after which no further row begins.
        limit: seconds after which a row's process is killed.
    """
    started = time.monotonic()
    worker = Worker(program)
    for row in rows:
        known = results.known.get((row.name, protocol))
        if known is not None and not known.fault and known.text == text_of(row, candidates):
            print(lines_of(row, known), flush=True)
            continue
        left = budget - (time.monotonic() - started)
        if left < 5:
            print(f"{row.name}: not begun, the time is over; the same command goes on from here")
            break
        if fault := worker.measure(row.name, min(limit, left)):
            results.add(Measured(row.name, protocol, "", text_of(row, candidates), {}, (), fault[:500]))
        else:
            results = Results(results.path)
        print(lines_of(row, results.known[row.name, protocol]), flush=True)
    worker.end()


def lines_of(row: Row, result: Measured) -> str:
    """Return the lines of a row: our choice, beside each rival."""
    if result.fault:
        return f"{row.name:<44} {result.fault}"
    first, lines = result.ours[0], []
    for name, speed in result.speeds.items():
        shown = row.name if name == first else ""
        words = [f"{shown:<44} {name:<24}{speed.median:10.1f} us {_rate(row, speed):>14}"]
        if speed.joules is not None and row.flops:
            energy = 1e12 * speed.joules / row.flops
            words.append(f"{speed.watts:5.0f} W {speed.sm_mhz or math.nan:5.0f} MHz {energy:5.2f} pJ/FLOP")
        if name != first:
            middle, low, high = ratio_interval(result.speeds[first].times, speed.times)
            mark = _mark(row, result, name, low)
            words.append(f"ours {middle:.3f} ({low:.3f} to {high:.3f}) times as fast{mark}")
        lines.append("  ".join(words))
    return "\n".join(lines)


def _mark(row: Row, result: Measured, name: str, low: float) -> str:
    """Return whether the target is reached beside the function called ``name``."""
    if row.target is None or name in result.ours:
        return ""
    return "  ok" if low >= row.target else f"  MISSED {row.target:g}"


def work(
    rows: Sequence[Row],
    results: Results,
    protocol: str,
    *,
    seconds: float,
    repeats: int,
    candidates: bool,
) -> None:
    """Measure the rows whose names standard input has, one a line; keep each, then print its name."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    by_name = {row.name: row for row in rows}
    for line in sys.stdin:
        row = by_name[line.rstrip("\n")]
        results.add(measure(row, protocol, seconds, repeats, candidates))
        print(row.name, file=answers, flush=True)
        gc.collect()
        if torch := sys.modules.get("torch"):
            torch.cuda.empty_cache()


def page(rows: Sequence[Row], results: Results) -> str:
    """Return what was measured as Markdown tables, one for each group and protocol."""
    lines: list[str] = []
    for protocol in ("burst", "sustained"):
        for group in dict.fromkeys(row.group for row in rows):
            of_group = [row for row in rows if row.group == group and (row.name, protocol) in results.known]
            if not of_group:
                continue
            power = protocol == "sustained"
            columns = ("row", "ours", "rate", "rivals", "ratio, its 95% interval", "target", "inputs")
            columns += ("ours, then rivals: W, MHz, pJ/FLOP",) * power
            lines += ["", f"## {group}, {protocol}", "", f"| {' | '.join(columns)} |"]
            lines += [f"|---|--:|--:|---|---|--:|---|{'---|' * power}"]
            lines += [_line(row, results.known[row.name, protocol], power) for row in of_group]
    return "\n".join(lines).lstrip("\n") + "\n"


def _line(row: Row, result: Measured, power: bool) -> str:
    if result.fault:
        return f"| {row.name} | not measured: {result.fault} | | | | | |{' |' * power}"
    ours = result.speeds[result.ours[0]]
    rivals = {name: speed for name, speed in result.speeds.items() if name not in result.ours}
    ratios = {name: ratio_interval(ours.times, speed.times) for name, speed in rivals.items()}
    target = "" if row.target is None else f"{row.target:g}"
    if ratios and row.target is not None:
        target += "" if min(low for _, low, _ in ratios.values()) >= row.target else ", missed"
    cells = (
        row.name,
        f"{ours.median:.1f} us",
        _rate(row, ours),
        ", ".join(f"{name} {speed.median:.1f} us" for name, speed in rivals.items()),
        ", ".join(f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in ratios.values()),
        target,
        row.data,
        *(["; ".join(_power(row, speed) for speed in (ours, *rivals.values()))] if power else []),
    )
    return f"| {' | '.join(cells)} |"


def _power(row: Row, speed: Speed) -> str:
    if speed.joules is None or speed.watts is None:
        return "not read"
    energy = f", {1e12 * speed.joules / row.flops:.2f}" if row.flops else ""
    return f"{speed.watts:.0f}, {speed.sm_mhz or math.nan:.0f}{energy}"


def _rate(row: Row, speed: Speed) -> str:
    work, unit = (row.flops, "TFLOP/s") if row.flops else (row.bytes, "TB/s")
    return f"{work / speed.median / 1e6:.{1 if row.flops else 2}f} {unit}" if work else ""
