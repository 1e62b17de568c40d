"""Results that outlive the process: one JSON object on a line of a file, so that a run can go on later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["keep", "kept"]


def kept(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file in their order; none if there is no file."""
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def keep(path: Path, *entries: Mapping[str, Any]) -> None:
    """Add objects to a file, and make the file and its folder if they are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
