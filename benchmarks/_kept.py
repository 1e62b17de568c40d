"""Results that outlive the process: one JSON object on a line of a file, so that a run can go on later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["keep", "kept", "shares_of"]

#: The least share of a unit that a line has.
_LEAST = 0.005


def kept(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file in their order; none if there is no file."""
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def shares_of(busy: Mapping[str, float]) -> dict[str, float]:
    """Return for which share of the time each unit worked, as a line has it: no unit that hardly did."""
    return {name: round(share, 3) for name, share in busy.items() if share >= _LEAST}


def keep(path: Path, *entries: Mapping[str, Any]) -> None:
    """Add objects to a file, and make the file and its folder if they are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
