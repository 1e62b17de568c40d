"""The versions of ptxas and nvdisasm, remembered on disk in the user's cache beside the cubins."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from .cache import make_root, user_cache

__all__ = ["known_version", "remember_version"]

_FILE = "tools.json"


def known_version(path: Path, changed: tuple[int, int]) -> tuple[int, ...] | None:
    """Return the version of the program at ``path``, if it is known and the file has not changed since."""
    facts = _known().get(str(path))
    if isinstance(facts, dict) and facts.get("changed") == list(changed):
        version = facts.get("version")
        if isinstance(version, list) and version and all(isinstance(number, int) for number in version):
            return tuple(version)
    return None


def remember_version(path: Path, changed: tuple[int, int], version: tuple[int, ...]) -> None:
    """Keep the version of a program for other processes, if the disk takes it."""
    cache = user_cache()
    if cache is None:
        return
    known = {name: facts for name, facts in _known().items() if os.path.exists(name)}
    known[str(path)] = {"changed": list(changed), "version": list(version)}
    new = cache.root / f".new-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        make_root(cache.root, 0o700)
        new.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        new.replace(cache.root / _FILE)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()


def _known() -> dict[str, Any]:
    cache = user_cache()
    if cache is not None:
        with contextlib.suppress(OSError, ValueError):
            known = json.loads((cache.root / _FILE).read_bytes())
            if isinstance(known, dict):
                return known
    return {}
