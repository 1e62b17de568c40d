"""The engines of tcgen05: products with D in tensor memory, copies into it, and their order.

PTX ISA ``#tcgen05-instructions-tcgen05-mma``.  :mod:`.operands` reads A and B, :mod:`.product` multiplies,
:mod:`.sparsity` and :mod:`.scaling` do what their kinds of products do to A and B before, :mod:`.copies` is
``tcgen05.cp`` and ``tcgen05.shift``, :mod:`.order` says what happens after what, :mod:`.pair` which CTAs an
instruction concerns.
"""

from __future__ import annotations

from .addresses import cell_at
from .copies import Copy, shift_down
from .order import Issued
from .pair import PairRequest, execute_as_pair, group_of
from .product import MmaOperation, Operands

__all__ = [
    "Copy",
    "Issued",
    "MmaOperation",
    "PairRequest",
    "Operands",
    "cell_at",
    "group_of",
    "shift_down",
    "execute_as_pair",
]
