"""The strata and halves by which predictions of the rows of docs/performance.md are scored.

A row belongs to a stratum by what it asks for, not by what is predicted.  Constants and intervals may be
fitted to every second row of a stratum, sorted by protocol and name, from the first on; the others are held
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from _measured import Time
from _rows import Row, kernels_of

from pyptx.timing.closed_form import roofline
from pyptx.timing.constants import gpu

__all__ = ["H200", "HALVES", "STRATA", "bytes_of", "halves_of", "strata_of", "stratum"]

H200 = gpu("h200")
STRATA = ("tensor", "fabric", "HBM", "issue", "latency")
#: Of each stratum, the rows with an even number and those with an odd one.
HALVES = ("fitted", "held out")
#: Groups in which threads compute beside the tensor cores.
_THREADS = ("attention", "fp8-blocks", "grouped-fp8")
_SHORT = 32.0  # us: what is shorter consists of start, end and latencies for the most part


def stratum(row: Row, measured: Time) -> str:
    """Return what a row asks for most, by arithmetic and by its kind.

    ``latency`` below 32 us; ``issue`` where threads compute beside the tensor cores; ``fabric`` for the steps
    of the ladder, of which most load each tile alone; else ``HBM`` or ``tensor``, by the roofline.
    """
    if measured.us < _SHORT:
        return "latency"
    if row.group.startswith(_THREADS) or "promoted" in row.name:
        return "issue"
    if row.group == "ladder":
        return "fabric"
    bits = 8 if "fp8" in row.group else 16
    top = roofline(H200, row.flops or 0.0, bytes_of(row), H200.value("sm.clock_max_mhz"), bits)
    return "HBM" if top.bound.value == "hbm" else "tensor"


def bytes_of(row: Row) -> float:
    """Return the bytes that a row moves to and from memory at least: each input and output once."""
    if row.bytes:
        return row.bytes
    kernel, dims = kernels_of(row)[0]
    return float(sum(np.prod(s.shape(dict(dims))) * s.dtype.nbytes for s in kernel.options.specs))


def strata_of(times: Sequence[Time], rows: Mapping[str, Row]) -> dict[str, list[Time]]:
    """Return the measured rows of each stratum, sorted by protocol and name."""
    found: dict[str, list[Time]] = {name: [] for name in STRATA}
    for each in times:
        found[stratum(rows[each.row], each)].append(each)
    return {name: sorted(some, key=lambda t: (t.protocol, t.row)) for name, some in found.items()}


def halves_of(some: Sequence[Time]) -> dict[str, Sequence[Time]]:
    """Return the halves of a stratum's rows."""
    return {name: some[number::2] for number, name in enumerate(HALVES)}
