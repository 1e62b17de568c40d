"""``pyptx predict``: how long a kernel takes on a GPU that need not be here."""

from __future__ import annotations

import json
from typing import Any

import click

from ..entry import Kernel
from ..entry.prediction import Prediction
from .load import load_target, parse_words
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


def predicted(target: str, words: tuple[str, ...], gpu: str, clock: str, dims: tuple[str, ...]) -> Prediction:
    """Return the prediction of a kernel that the command line names."""
    loaded = load_target(target, words)
    if not isinstance(loaded.what, Kernel):
        raise click.UsageError(f"{target} is a program, which has no launch: name a kernel")
    keywords: dict[str, Any] = {**loaded.keywords, **parse_words(dims)[1]}
    with user_output_to_stderr():
        return loaded.what.predict(gpu=gpu, clock=clock_of(clock), **keywords)  # type: ignore[arg-type]


def row(prediction: Prediction) -> dict[str, Any]:
    """Return the figures of a prediction for JSON."""
    low, high = prediction.interval
    return {
        "kernel": prediction.entry,
        "gpu": prediction.gpu,
        "verdict": str(prediction.verdict),
        "mhz": prediction.mhz,
        "cycles": prediction.cycles,
        "microseconds": prediction.microseconds,
        "low": low,
        "high": high,
        "tflops": prediction.tflops,
        "gbps": prediction.gbps,
        "bound": prediction.bound,
        "busy": dict(prediction.busy),
    }


@click.command()
@click.argument("target", metavar="FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option("--gpu", default="b200", show_default=True, help="b200, h200, or a file of constants.")
@click.option("--clock", default="sustained", show_default=True, help="burst, sustained, or MHz.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=VALUE", help="A dim that a function leaves open.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def command(
    target: str, words: tuple[str, ...], gpu: str, clock: str, dims: tuple[str, ...], as_json: bool
) -> None:
    """Predict how long a kernel takes on a GPU.

    NAME, VALUE and NAME=VALUE are those of `pyptx emit`. The contents of arrays are zeros.

    \b
        pyptx predict examples/blackwell/gemm_highperf_blackwell.py:build_gemm_persistent 4096 4096 4096

    Exit status: 1 without a prediction, 2 if the command line is wrong.
    """
    prediction = predicted(target, words, gpu, clock, dims)
    click.echo(json.dumps(row(prediction), indent=2) if as_json else str(prediction))
    if str(prediction.verdict) != "clean":
        raise SystemExit(1)
