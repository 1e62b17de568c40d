"""The target that a PTX text names."""

from __future__ import annotations

import re

__all__ = ["target_of"]

_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)


def target_of(text: str) -> str | None:
    """Return the architecture in the text's ``.target`` directive (``"sm_100a"``), or None."""
    match = _TARGET.search(text)
    return match[1] if match is not None else None
