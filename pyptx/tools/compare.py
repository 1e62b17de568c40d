"""``pyptx compare``: which of several kernels is the fastest on a GPU, by prediction."""

from __future__ import annotations

import json

import click

from .predict import predicted, row

__all__ = ["command"]


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="FILE.py:NAME[,VALUE | ,NAME=VALUE]...")
@click.option("--gpu", default="b200", show_default=True, help="b200, h200, or a file of constants.")
@click.option("--clock", default="sustained", show_default=True, help="burst, sustained, or MHz.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=VALUE", help="A dim that functions leave open.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as a JSON list.")
def command(targets: tuple[str, ...], gpu: str, clock: str, dims: tuple[str, ...], as_json: bool) -> None:
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
    found.sort(key=lambda each: each[1].microseconds)
    if as_json:
        click.echo(json.dumps([{"target": target, **row(each)} for target, each in found], indent=2))
    else:
        before = 0.0
        for number, (target, each) in enumerate(found, 1):
            low, high = each.interval
            mark = ", not distinguishable from the one before" if number > 1 and low <= before else ""
            time = f"{each.microseconds:.1f} us ({low:.1f} to {high:.1f})"
            click.echo(f"{number}. {time}, {each.bound}{mark}: {target}")
            before = high
    if any(str(each.verdict) != "clean" for _, each in found):
        raise SystemExit(1)
