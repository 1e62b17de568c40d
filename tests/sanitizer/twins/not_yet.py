"""Twins whose bug has no finding yet, or not the expected one. A test fails if a name stands here too long."""

from __future__ import annotations

__all__ = ["NOT_YET"]

NOT_YET = frozenset(
    {
        "barrier-between-warps",
        "flag-released",
        "arrival-relaxed",
        "store-then-bulk-store",
        "source-overwritten",
        "peer-not-started",
        "dependent-reads-too-early",
        "invalidated-under-a-wait",
        "store-then-wgmma",
        "stage-handed-back-at-issue",
    }
)
