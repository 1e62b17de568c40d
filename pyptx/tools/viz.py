"""The command ``pyptx viz NAME [ARGUMENT=VALUE ...]``: writes a figure of :mod:`pyptx.viz` as SVG."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import viz
from ..core.errors import SpecError
from ..timeline import Timeline
from ..viz import Figure

__all__ = ["command"]

#: Parameters that are objects of Python, which the command line cannot give.
_OBJECTS = frozenset({"TensorMap", "RunEvents", "Sequence[RunEvents]"})

#: Every figure that the command line can draw, by the name of its function.
_FIGURES: dict[str, Callable[..., Figure]] = {
    name: function
    for name, function in ((name, getattr(viz, name)) for name in viz.__all__)
    if inspect.isfunction(function)
    and not any(each.annotation in _OBJECTS for each in inspect.signature(function).parameters.values())
}


def _value(text: str) -> Any:
    """Read a value from the command line: an int, true or false, a list with commas, or a name."""
    if "," in text:
        return [_value(part) for part in text.split(",") if part]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _arguments(name: str, given: tuple[str, ...]) -> dict[str, Any]:
    known = inspect.signature(_FIGURES[name]).parameters
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or key not in known:
            raise SpecError(f"{text!r} is no argument of {name}: expected NAME=VALUE with {', '.join(known)}")
        found[key] = Timeline.read(value) if known[key].annotation == "Timeline" else _value(value)
    return found


@click.command()
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENT=VALUE]...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file to write, NAME.svg by default."
)
def command(name: str | None, arguments: tuple[str, ...], output: Path | None) -> None:
    """Write a figure of pyptx.viz as SVG: `pyptx viz swizzle modes=64B,128B -o swizzle.svg`.

    `pyptx viz pipeline timeline=FILE.json` reads what `pyptx sim --timeline FILE.json` wrote.
    Without a name, list the figures and their arguments.
    """
    if name is None:
        for each, function in _FIGURES.items():
            click.echo(f"{each}({', '.join(inspect.signature(function).parameters)})")
            click.echo(f"    {(inspect.getdoc(function) or '').splitlines()[0]}")
        return
    if name not in _FIGURES:
        raise SpecError(f"there is no figure {name!r}: expected one of {', '.join(_FIGURES)}")
    path = output or Path(f"{name}.svg")
    given = _arguments(name, arguments)
    required = [
        key
        for key, each in inspect.signature(_FIGURES[name]).parameters.items()
        if each.default is each.empty and key not in given
    ]
    if required:
        raise SpecError(f"{name} needs {', '.join(f'{key}=VALUE' for key in required)}")
    _FIGURES[name](**given).save(path)
    click.echo(f"wrote {path}")
