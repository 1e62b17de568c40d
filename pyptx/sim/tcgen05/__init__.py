"""The engines of tcgen05: products with D in tensor memory, copies into tensor memory, and their order.

PTX ISA ``#tcgen05-instructions-tcgen05-mma``.  :mod:`.operands` reads A and B; :mod:`.sparsity` and
:mod:`.scaling` expand and scale them; :mod:`.product` multiplies; :mod:`.copies` executes ``tcgen05.cp`` and
``tcgen05.shift``; :mod:`.order` orders a thread's operations; :mod:`.pair` finds the CTAs that execute an
instruction.
"""

from __future__ import annotations

from .addresses import cell_at
from .copies import Copy, shift_down
from .order import Commit, Issued
from .pair import PairRequest, execute_as_pair, group_of
from .product import MmaOperation, Operands

__all__ = [
    "Copy",
    "Commit",
    "Issued",
    "MmaOperation",
    "PairRequest",
    "Operands",
    "cell_at",
    "group_of",
    "shift_down",
    "execute_as_pair",
]
