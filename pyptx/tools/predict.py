"""``pyptx predict``: how long a kernel takes on a GPU that need not be here.

Owns the command, and what it prints of a prediction: a kernel's of a Python file, or that of a launch of a
PTX text (:mod:`.predict_text`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from ..core.findings import Verdict
from ..core.source import SourceLocation
from ..entry import Kernel
from ..entry.prediction import UNITS, Prediction
from ..sim.clock.freed import PIPES
from ..sim.clock.stalls import Stall
from ..sim.clock.units import L2State
from .load import load_target, parse_words
from .predict_text import TextLaunch
from .sim.target import is_python
from .timeline import check_timeline_name, write_timeline
from .user_output import user_output_to_stderr

__all__ = ["clock_of", "command", "predicted", "row"]


def clock_of(text: str) -> str | float:
    """Return a protocol, or a frequency in MHz, from the command line."""
    if text in ("burst", "sustained"):
        return text
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--clock {text!r}: expected burst, sustained or a number of MHz") from None


def predicted(
    target: str,
    words: tuple[str, ...],
    gpu: str | None,
    clock: str,
    dims: tuple[str, ...],
    l2: L2State = "rotating",
) -> Prediction:
    """Return the prediction of a kernel that the command line names."""
    loaded = load_target(target, words)
    if not isinstance(loaded.what, Kernel):
        raise click.UsageError(
            f"{target} is a program, which has no launch: name a kernel, or give the text a launch: "
            f"pyptx emit {target} | pyptx predict - --grid 1 --block 128 --arg ..."
        )
    keywords: dict[str, Any] = {**loaded.keywords, **parse_words(dims)[1]}
    with user_output_to_stderr():
        return loaded.what.predict(gpu=gpu, clock=clock_of(clock), l2=l2, **keywords)  # type: ignore[arg-type]


def row(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction for JSON: figures, and the waits of each group of warps."""
    low, high = prediction.interval
    placement = prediction.timing.placement
    return {
        "kernel": prediction.entry,
        "gpu": prediction.gpu,
        "clock": prediction.clock,
        "verdict": str(prediction.verdict),
        "findings": [str(finding) for finding in prediction.findings],
        "mhz": prediction.mhz,
        "mhz_low": prediction.mhz_interval[0],
        "mhz_high": prediction.mhz_interval[1],
        "cycles": prediction.cycles,
        "microseconds": prediction.microseconds,
        "low": low,
        "high": high,
        "tflops": prediction.tflops,
        "gbps": prediction.gbps,
        "bound": prediction.bound,
        "busy": dict(prediction.busy),
        "multiprocessors": placement.positions * placement.size,
        "waves": placement.waves,
        "lines": prediction.lines,
        "barriers": prediction.barriers,
        "warps": [
            {
                "warps": [place._asdict() for place in group.warps],
                "running": group.running,
                "stalls": [_stall(each) for each in group.stalls],
            }
            for group in prediction.warps
        ],
    }


def _stall(stall: Stall) -> dict[str, Any]:
    name, location = stall.ended_by
    return {
        "instruction": stall.name,
        "line": _line(stall.location),
        "barrier": stall.barrier,
        "role": stall.role,
        "cause": stall.cause.value,
        "share": stall.share,
        "count": stall.count,
        "cycles": stall.cycles,
        "within": dict(stall.within),
        "ended_by": {"instruction": name, "line": _line(location)} if name else None,
    }


def _line(location: SourceLocation | None) -> str | None:
    return None if location is None else str(location)


def removed(prediction: Prediction, units: Sequence[str]) -> dict[str, Prediction]:
    """Return predictions without a limit of units; ``bound`` stands for what bounds the launch."""
    names = [prediction.bound if each == "bound" else each for each in units]
    if "all" in units:
        # Without a pipe that the kernel does not use, it takes as long.
        names = [name for name in UNITS if name not in PIPES or prediction.busy.get(name)]
    return {name: prediction.without(name) for name in names}


def _removed_text(prediction: Prediction, found: Mapping[str, Prediction]) -> Iterator[str]:
    yield "without a limit of:"
    for name, each in sorted(found.items(), key=lambda item: item[1].microseconds):
        less = 1 - each.microseconds / prediction.microseconds
        yield f"  {name}: {each.microseconds:.1f} us ({less:.1%} less), then bound by {each.bound}"


@click.command()
@click.argument("target", metavar="FILE.ptx|-|FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option("--gpu", help="b200, h200, or a file of constants. By default the GPU of the kernel's target.")
@click.option("--clock", default="sustained", show_default=True, help="burst, sustained, or MHz.")
@click.option(
    "--l2",
    type=click.Choice(get_args(L2State)),
    default="rotating",
    show_default=True,
    help="What L2 holds before the launch: what launches on other arrays, or on the same, have left; what a "
    "flush by writes has left; or nothing.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=VALUE",
    help="A dim that a function leaves open, or a number that the kernel takes.",
)
@click.option("--entry", help="PTX text: the kernel, if there are several, as for `pyptx sim`.")
@click.option("--grid", metavar="X[,Y[,Z]]", help="PTX text: CTAs of the grid.")
@click.option("--block", metavar="X[,Y[,Z]]", help="PTX text: threads of a CTA. Default: its .reqntid.")
@click.option("--cluster", metavar="X[,Y[,Z]]", help="PTX text: CTAs of a cluster.")
@click.option("--smem", type=click.IntRange(0), metavar="BYTES", help="PTX text: dynamic shared memory.")
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="PTX text: an argument, in the order of the parameters, as for `pyptx sim`; and "
    "unknown:bf16[64,64], an array of which only the shape is known, which takes no memory.",
)
@click.option(
    "--array",
    "arrays",
    multiple=True,
    metavar="NAME=VALUE",
    help="PTX text: an array that only tensor maps use.",
)
@click.option(
    "--zeroed",
    multiple=True,
    metavar="NAME",
    help="PTX text: an array that is zero when the launch begins, such as a counter from which CTAs take "
    "their work, or flags for which they wait.",
)
@click.option(
    "--what-if",
    "units",
    multiple=True,
    type=click.Choice(["bound", "all", *UNITS]),
    help="Predict it once more as if this unit had no limit: what bounds it, each one, or the one named.",
)
@click.option(
    "--timeline",
    type=click.Path(path_type=Path),
    help="Write a timeline with times, .html or .json.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file of --timeline.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def command(
    target: str,
    words: tuple[str, ...],
    gpu: str | None,
    clock: str,
    l2: L2State,
    dims: tuple[str, ...],
    units: tuple[str, ...],
    timeline: Path | None,
    overwrite: bool,
    as_json: bool,
    **launch: Any,
) -> None:
    """Predict how long a kernel takes on a GPU.

    For a kernel of a Python file, NAME, VALUE and NAME=VALUE are those of `pyptx emit`. The contents of
    arrays are unknown.

    \b
        pyptx predict examples/blackwell/gemm_highperf_blackwell.py:build_gemm_persistent 4096 4096 4096

    A file of PTX text from any compiler (- is standard input) needs its launch, in the notation of
    `pyptx sim`:

    \b
        pyptx predict saxpy.ptx --gpu h200 --grid 4096 --block 256 \\
            --arg unknown:f32[1048576] --arg unknown:f32[1048576] --arg 1048576 --arg 2.5

    Exit status: 1 without a prediction, 2 if the command line is wrong.
    """
    if timeline is not None:
        check_timeline_name(timeline, overwrite)
    text = TextLaunch(**launch)
    if is_python(target):
        for option in text.given():
            raise click.UsageError(
                f"{target} is a Python file, whose kernels have a launch: leave {option} out"
            )
        prediction = predicted(target, words, gpu, clock, dims, l2)
    else:
        for given in (*words, *(f"--dim {dim}" for dim in dims)):
            raise click.UsageError(
                f"{target} is PTX text, which has no dims and constants: leave {given} out"
            )
        prediction = text.predicted(target, gpu=gpu, clock=clock_of(clock), l2=l2)
    if timeline is not None:
        write_timeline(prediction.timeline(), timeline)
    clean = prediction.verdict is Verdict.CLEAN
    found = removed(prediction, units) if units and clean else {}
    if as_json:
        without = {name: {"microseconds": e.microseconds, "bound": e.bound} for name, e in found.items()}
        click.echo(json.dumps(row(prediction) | ({"without": without} if units else {}), indent=2))
    else:
        click.echo("\n".join([str(prediction), *(_removed_text(prediction, found) if found else ())]))
    if not clean:
        raise SystemExit(1)
