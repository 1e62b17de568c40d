"""``pyptx cache``: shows and clears the disk cache of machine code."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import click

from ..toolchain.cache import CubinCache, CubinEntry, default_folder, user_cache

__all__ = ["command", "size_text"]

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_COLUMNS = ("entry", "target", "tool", "size", "last used", "hits", "folder")


def size_text(nbytes: int) -> str:
    """Return a number of bytes as people read it: ``1.5 MiB``."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"


def _age(seconds: float) -> str:
    unit = next((u for u in "dhm" if seconds >= _SECONDS[u]), "s")
    return f"{max(0.0, seconds) / _SECONDS[unit]:.0f} {unit} ago"


def _duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Convert ``7d`` to seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no age; give a number with s, m, h, d or w, such as 7d")
    return float(match[1]) * _SECONDS[match[2]]


def _opened() -> CubinCache:
    """Return the user's cache, also where ``PYPTX_CACHE=0`` keeps kernels from using it."""
    return user_cache() or CubinCache(default_folder())


@click.group()
def command() -> None:
    """Show or clear the disk cache of machine code.

    The cache is in PYPTX_CACHE_DIR, by default ~/.cache/pyptx. PYPTX_CACHE=0 turns it off, PYPTX_CACHE_LIMIT
    (512M) bounds its size, PYPTX_CACHE_PATH names folders of `pyptx build`, which are only read.
    """


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(as_json: bool) -> None:
    """List the entries, the last used first.

    Each folder has the PTX text (kernel.ptx), the machine code (kernel.cubin) and the facts (entry.json).
    """
    cache = _opened()
    entries = cache.entries()
    if as_json:
        rows = [{**vars(entry), "folder": str(entry.folder)} for entry in entries]
        click.echo(json.dumps({"folder": str(cache.root), "limit": cache.limit, "entries": rows}, indent=2))
        return
    total = size_text(sum(entry.nbytes for entry in entries))
    click.echo(f"{cache.root}: {len(entries)} entries, {total} of at most {size_text(cache.limit)}")
    if entries:
        _table([_COLUMNS, *(_row(entry, cache) for entry in entries)])


def _row(entry: CubinEntry, cache: CubinCache) -> tuple[str, ...]:
    return (
        entry.entry,
        entry.target,
        entry.tool,
        size_text(entry.nbytes),
        _age(time.time() - entry.used),
        str(entry.hits),
        str(entry.folder.relative_to(cache.root)),
    )


def _table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


@command.command()
@click.option("--older", metavar="AGE", callback=_duration, help="Entries not used for so long: 12h, 7d, 4w.")
@click.option("--all", "everything", is_flag=True, help="All entries.")
def clear(older: float | None, everything: bool) -> None:
    """Remove entries. Kernels that are loaded go on; later processes compile again."""
    if (older is None) != everything:
        raise click.UsageError("say which entries to remove: --all, or --older AGE")
    count, nbytes = _opened().clear(0.0 if older is None else older)
    click.echo(f"removed {count} entries, {size_text(nbytes)}")
