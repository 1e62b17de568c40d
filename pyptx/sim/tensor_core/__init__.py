"""The engines of tcgen05: products with D in tensor memory, copies into it, and their order.

PTX ISA ``#tcgen05-instructions-tcgen05-mma``.  :mod:`.operands` reads A and B, :mod:`.product` multiplies,
:mod:`.sparsity` and :mod:`.scaling` do what their kinds of products do to A and B before, :mod:`.copies` is
``tcgen05.cp`` and ``tcgen05.shift``, :mod:`.order` says what happens after what.
"""

from __future__ import annotations

from .copies import Copy, shift_down
from .order import Issued, issued_by, released_by
from .product import Mma, Operands

__all__ = ["Copy", "Issued", "Mma", "Operands", "issued_by", "released_by", "shift_down"]
