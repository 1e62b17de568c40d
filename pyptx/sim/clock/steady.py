"""Finds out when a launch has become periodic, and how it goes on.

A kernel that computes tile after tile stores tile after tile. Once the last tiles have taken equally long,
the others will, too: how many are left follows from the bytes of the outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass

__all__ = ["Period", "find_period"]

#: Least number of stores, and of bursts of stores, before a period is looked for.
_STORES, _BURSTS = 12, 6
#: The last periods that must agree, and how closely.
_LAST, _CLOSE = 3, 0.02
#: A gap that is so many times the usual one separates two bursts.
_WIDE = 4.0
#: By how much their rate may differ from that of all bursts.
_USUAL = 0.3
#: Even stores are compared in so many parts.
_PARTS = 6


@dataclass(frozen=True, slots=True)
class Period:
    """What one position of the chip does again and again.

    Attributes:
        duration: cycles of a period.
        nbytes: bytes that it stores in a period; 0 if it stores evenly.
        end: when the last period ended.
        stored: bytes that had been stored then.
        rate: bytes per cycle.
        begin: when the first of the periods began from which ``rate`` is taken.
    """

    duration: float
    nbytes: float
    end: float
    stored: float
    rate: float
    begin: float


def find_period(times: list[float], amounts: list[int], since: float = 0.0) -> Period | None:
    """Return the period of stores of ``amounts`` bytes at ``times``; None if there is none yet.

    Stores before ``since`` count as stored, and are not looked at.
    """
    order = np.argsort(times, kind="stable")
    when, stored = np.asarray(times)[order], np.cumsum(np.asarray(amounts)[order])
    first = int(np.searchsorted(when, since))
    when, stored = when[first:], stored[first:]
    if len(when) < _STORES:
        return None
    gaps = np.diff(when)
    if gaps.max() > _WIDE * max(1.0, float(np.median(gaps))):
        return _bursts(when, stored, np.flatnonzero(gaps > gaps[len(gaps) // 2 :].max() / 2))
    return _evenly(when, stored)


def _bursts(when: NDArray[np.float64], stored: NDArray[np.int64], ends: NDArray[np.intp]) -> Period | None:
    if len(ends) < _BURSTS:
        return None
    durations, nbytes = np.diff(when[ends])[-_LAST:], np.diff(stored[ends])[-_LAST:]
    mean = float(durations.mean())
    if (nbytes != nbytes[0]).any() or np.abs(durations - mean).max() > _CLOSE * mean:
        return None
    gaps = np.diff(when)
    longest = int(gaps.argmax())
    if _WIDE * mean < gaps[longest] > when[-1] - when[longest + 1]:
        # Stores behind a long pause are those of one tile, until as much time has passed as the pause took.
        return None
    end, begin, first = ends[-1], ends[-1 - _LAST], ends[0]
    # Some equal bursts between others that are larger are not what the launch does again and again.
    usual = (stored[end] - stored[first]) / (when[end] - when[first])
    if abs(nbytes[0] / mean / usual - 1) > _USUAL:
        return None
    return Period(
        duration=mean,
        nbytes=float(nbytes[0]),
        end=float(when[end]),
        stored=float(stored[end]),
        rate=float(nbytes[0]) / mean,
        begin=float(when[begin]),
    )


def _evenly(when: NDArray[np.float64], stored: NDArray[np.int64]) -> Period | None:
    if len(when) < _STORES * _PARTS:
        return None
    marks = np.linspace(0, len(when) - 1, _PARTS + 1).astype(int)
    rates = (np.diff(stored[marks]) / np.diff(when[marks]))[-_LAST:]
    mean = float(rates.mean())
    if np.abs(rates - mean).max() > _CLOSE * mean:
        return None
    return Period(0.0, 0.0, float(when[-1]), float(stored[-1]), mean, float(when[marks[-1 - _LAST]]))
