"""The command ``pyptx timeline FILE``: writes a timeline in another form."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import SpecError
from ..timeline import Timeline

__all__ = ["check_timeline_name", "command", "write_timeline"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path), help="Write one page that a browser shows offline.")
@click.option(
    "--chrome", type=click.Path(path_type=Path), help="Write trace events for Perfetto and chrome://tracing."
)
def command(file: Path, html: Path | None, chrome: Path | None) -> None:
    """Write a timeline, which `pyptx sim --timeline FILE.json` or Timeline.json wrote, in other forms.

    Without an option, print what the timeline contains.
    """
    timeline = Timeline.read(file)
    if html is not None:
        timeline.html(html)
    if chrome is not None:
        timeline.chrome(chrome)
    if html is None and chrome is None:
        waits = timeline.open_waits()
        click.echo(f"{timeline.title}: {len(timeline.events)} events on {len(timeline.tracks)} tracks")
        if timeline.dropped:
            click.echo(f"{timeline.dropped} events were dropped")
        state = "never ends" if timeline.hangs else "not ended"
        for wait in waits:
            track = timeline.tracks[wait.track]
            click.echo(f"{state}: {track.group} {track.name}: {wait.detail or wait.name}")


def write_timeline(timeline: Timeline, path: Path) -> None:
    """Write a timeline as the page (``.html``) or in its own JSON form (``.json``), by the name's ending."""
    if path.suffix == ".html":
        timeline.html(path)
    else:
        timeline.json(path)


def check_timeline_name(path: Path, overwrite: bool) -> None:
    """Raise :class:`SpecError` unless the file may be written, and its name ends in .html or .json."""
    if path.exists() and not overwrite:
        raise SpecError(f"{path} exists: give --overwrite to replace it")
    if path.suffix not in (".html", ".json"):
        raise SpecError(
            f"--timeline {path}: expected a name that ends in .html (a page) or .json",
            hint="pyptx timeline FILE.json --chrome OUT.json writes trace events",
        )
