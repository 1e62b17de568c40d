"""For how many cycles an access of threads to shared memory takes its banks.

Lanes pass in phases of 128 bytes, and a bank gives one word in a cycle. Measured by ncu on an H200,
2026-11-30: wavefronts of kernels of learn-cuda and SGEMM_CUDA.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Access, AccessKind
from .figures import BANKS, WORD

__all__ = ["bank_cycles"]

#: Bytes of all banks of shared memory in a cycle.
_PHASE = BANKS * WORD


def bank_cycles(access: Access) -> int:
    """Return for how many cycles an access to shared memory takes the banks.

    Lanes pass in phases of 128 bytes: eight lanes of 16 bytes each, or a matrix of ``ldmatrix``. Two phases
    of a load in a row pass together if lanes in pairs want the same.
    """
    footprint = access.footprint
    first = int(footprint.starts[0]) // _PHASE * _PHASE if len(footprint.starts) else 0
    # The pieces of an instruction that a whole warp executes are those of no lanes.
    threads = access.threads
    apart = threads is not None and len(threads) == len(footprint.starts)
    lanes = (threads % BANKS).astype(np.int64).tobytes() if threads is not None and apart else None
    offsets = (footprint.starts - first).astype(np.int64).tobytes()
    return _cycles_of_phases(offsets, lanes, footprint.size, access.kind is AccessKind.READ)


@lru_cache(maxsize=1 << 14)
def _cycles_of_phases(offsets: bytes, lanes: bytes | None, size: int, loads: bool) -> int:
    """Return the cycles of the banks for lanes with pieces of ``size`` bytes at ``offsets``."""
    starts = np.frombuffer(offsets, np.int64)
    numbers = np.arange(len(starts)) if lanes is None else np.frombuffer(lanes, np.int64)
    together = max(1, _PHASE // max(WORD, size))
    words = (starts[:, None] + np.arange(0, max(WORD, size), WORD)) // WORD
    phases = numbers // together
    cycles = 0
    for pair in np.unique(phases // 2):
        among = phases // 2 == pair
        if loads and _in_pairs(starts[among], numbers[among]):
            cycles += _most(words[among])
        else:
            cycles += sum(_most(words[phases == phase]) for phase in (2 * pair, 2 * pair + 1))
    return cycles


def _in_pairs(starts: NDArray[np.int64], lanes: NDArray[np.int64]) -> bool:
    """True if each lane wants what its neighbor does, or the lane two further."""
    wanted = dict(zip(lanes.tolist(), starts.tolist(), strict=True))
    return any(
        all(wanted.get(lane ^ other, start) == start for lane, start in wanted.items()) for other in (1, 2)
    )


def _most(words: NDArray[np.int64]) -> int:
    """Return how many different words the bank with the most words has."""
    return int(np.bincount(np.unique(words) % BANKS, minlength=BANKS).max())
