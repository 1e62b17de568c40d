"""Finds out when a launch has become periodic, and how it goes on.

A kernel that computes tile after tile stores tile after tile. Once the last tiles have taken equally long,
the others will, too: how many are left follows from the bytes of the outputs. Periods that agree exactly show
this sooner than others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass

__all__ = ["Period", "find_period"]

#: Least number of stores, and of bursts of stores, before a period is looked for.
_STORES, _BURSTS = 12, 6
#: The last periods that must agree, and how closely.
_LAST, _CLOSE = 3, 0.02
#: How closely exact periods do. They need no burst in front of them but the one where they begin.
_EXACT = 0.002
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
        exact: whether these periods took equally long but for 0.2%, and all that was done for the first time
            lies before them.
        base: bytes that had been stored before bursts had ``nbytes``; 0 if all bursts have.
    """

    duration: float
    nbytes: float
    end: float
    stored: float
    rate: float
    begin: float
    exact: bool = False
    base: float = 0.0


def find_period(
    times: list[float], amounts: list[int], since: float = 0.0, *, known: float = math.inf
) -> Period | None:
    """Return the period of stores of ``amounts`` bytes at ``times``; None if there is none yet.

    Args:
        times: when each store was.
        amounts: the bytes of each.
        since: stores before this time count as stored, and are not looked at.
        known: when all that the code can do had been done once. Exact periods need no others between this
            time and them; infinite if there is something that has not been done yet.
    """
    order = np.argsort(times, kind="stable")
    when, stored = np.asarray(times)[order], np.cumsum(np.asarray(amounts)[order])
    first = int(np.searchsorted(when, since))
    before = float(when[first - 1]) if first else 0.0
    when, stored = when[first:], stored[first:]
    if len(when) < _STORES:
        return None
    gaps = np.diff(when)
    if gaps.max() > _WIDE * max(1.0, float(np.median(gaps))):
        ends = np.flatnonzero(gaps > gaps[len(gaps) // 2 :].max() / 2)
        return _bursts(when, stored, ends, known, before)
    return _evenly(when, stored)


def _bursts(
    when: NDArray[np.float64], stored: NDArray[np.int64], ends: NDArray[np.intp], known: float, before: float
) -> Period | None:
    if len(ends) <= _LAST:
        return None
    every = np.diff(stored[ends])
    durations, nbytes = np.diff(when[ends])[-_LAST:], every[-_LAST:]
    mean = float(durations.mean())
    end, begin, first = ends[-1], ends[-1 - _LAST], ends[0]
    apart = max(float(np.abs(durations - mean).max()), _inside(when, ends)) / mean
    exact = bool(apart <= _EXACT and when[begin] >= known)
    if (nbytes != nbytes[0]).any() or apart > _CLOSE or (len(ends) < _BURSTS and not exact):
        return None
    gaps = np.diff(when, prepend=before)
    longest = int(gaps.argmax())
    if _WIDE * mean < gaps[longest] > when[-1] - when[longest]:
        # Stores behind a long pause are those of one tile, until as much time has passed as the pause took.
        return None
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
        exact=exact,
        base=float(stored[end]) if (every != nbytes[0]).any() else 0.0,
    )


def _inside(when: NDArray[np.float64], ends: NDArray[np.intp]) -> float:
    """Return by how much stores of the last periods are apart from where they usually lie within a period.

    A long tile and a short one may take equally long together again and again while they become more alike.
    Periods with different numbers of stores are infinitely far apart.
    """
    counts = np.diff(ends)[-_LAST:]
    if (counts != counts[0]).any():
        return math.inf
    last = when[ends[-1 - _LAST] + 1 : ends[-1] + 1].reshape(_LAST, counts[0])
    places = last[:, -1:] - last
    return float(np.abs(places - places.mean(axis=0)).max())


def _evenly(when: NDArray[np.float64], stored: NDArray[np.int64]) -> Period | None:
    if len(when) < _STORES * _PARTS:
        return None
    marks = np.linspace(0, len(when) - 1, _PARTS + 1).astype(int)
    rates = (np.diff(stored[marks]) / np.diff(when[marks]))[-_LAST:]
    mean = float(rates.mean())
    if np.abs(rates - mean).max() > _CLOSE * mean:
        return None
    return Period(0.0, 0.0, float(when[-1]), float(stored[-1]), mean, float(when[marks[-1 - _LAST]]))
