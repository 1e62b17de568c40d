"""``pyptx compare``: which of several kernels is the fastest on a GPU, by prediction."""

from __future__ import annotations

import json

import click

from ..core.findings import Verdict
from ..entry.prediction import Prediction
from ..entry.prediction_text import times
from .predict import predicted, row

__all__ = ["command"]


def _overlap(a: Prediction, b: Prediction) -> bool:
    """True if both launches have a prediction, and these do not tell which is faster."""
    return a.verdict is b.verdict is Verdict.CLEAN and a.estimate.overlaps(b.estimate)


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="FILE.py:NAME[,VALUE | ,NAME=VALUE]...")
@click.option("--gpu", help="b200, h200, or a file of constants. By default the GPU of the kernel's target.")
@click.option("--clock", default="sustained", show_default=True, help="burst, sustained, or MHz.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=VALUE", help="A dim that functions leave open.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as a JSON list.")
def command(
    targets: tuple[str, ...], gpu: str | None, clock: str, dims: tuple[str, ...], as_json: bool
) -> None:
    """Rank kernels by their predicted time, the fastest first.

    Kernels whose intervals overlap with the one before are marked: the prediction does not tell them apart.

    \b
        pyptx compare ladder/v5.py:build_v5,4096,4096,4096 ladder/v6.py:build_v6,4096,4096,4096

    Exit status: 1 if a kernel has no prediction, 2 if the command line is wrong.
    """
    found = []
    for target in targets:
        place, *words = target.split(",")
        found.append((target, predicted(place, tuple(words), gpu, clock, dims)))
    # A kernel without a prediction has no time to be ranked by.
    found.sort(key=lambda each: (each[1].verdict is not Verdict.CLEAN, each[1].microseconds))
    if as_json:
        rows = [
            {
                "target": target,
                "overlaps": [other for other, that in found if that is not each and _overlap(each, that)],
                **row(each),
            }
            for target, each in found
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        before: Prediction | None = None
        for number, (target, each) in enumerate(found, 1):
            if each.verdict is not Verdict.CLEAN:
                click.echo(f"{number}. no prediction, {each.verdict}: {target}")
                continue
            tied = before is not None and _overlap(before, each)
            mark = ", not distinguishable from the one before" if tied else ""
            click.echo(f"{number}. {times(each)}, {each.bound}{mark}: {target}")
            before = each
    if any(each.verdict is not Verdict.CLEAN for _, each in found):
        raise SystemExit(1)
