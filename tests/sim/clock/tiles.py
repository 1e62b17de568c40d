"""Tiles that several warpgroups clear."""

from __future__ import annotations

__all__ = ["rows"]


def rows(least: int, groups: int) -> tuple[int, int]:
    """Return the shape of a tile with at least so many rows, which so many warpgroups clear evenly."""
    return -(-least // (16 * groups)) * 16 * groups, 64
