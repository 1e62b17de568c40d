"""The table of unusual kernels, from all chapters."""

from __future__ import annotations

from .blackwell import BLACKWELLS
from .bytes import BYTES
from .clusters import CLUSTERS
from .copies import COPIES
from .grids import GRIDS
from .launches import LAUNCHES
from .locks import LOCKS
from .mbarriers import MBARRIERS
from .messages import MESSAGES
from .named import NAMED
from .table import Unusual

__all__ = ["UNUSUAL"]

#: The kernels by name, in the order of the chapters.
UNUSUAL: dict[str, Unusual] = {
    kernel.name: kernel
    for kernel in (
        *LOCKS,
        *MESSAGES,
        *GRIDS,
        *NAMED,
        *MBARRIERS,
        *COPIES,
        *CLUSTERS,
        *LAUNCHES,
        *BLACKWELLS,
        *BYTES,
    )
}
