"""Objects that an author may mistake for values: a special register that was not read, a tile.

Without this class, Python would compare such an object as unequal, or report an unsupported operand type.
"""

from __future__ import annotations

from typing import NoReturn

from ..core.errors import OperandError

__all__ = ["Valueless"]


class Valueless:
    """Refuses operators, truth tests and indexing with an error built from :meth:`remedy`."""

    __slots__ = ()
    __hash__ = object.__hash__

    def remedy(self) -> tuple[str, str]:
        """Return two texts for the message: what the object is, and what to write instead."""
        raise NotImplementedError

    def _refuse(self, *others: object) -> NoReturn:
        what, instead = self.remedy()
        raise OperandError(f"{self!r} is {what}, not a value", hint=instead)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __getitem__ = __setitem__ = __int__ = __float__ = __index__ = __iter__ = __bool__ = _refuse

    def __eq__(self, other: object) -> bool:
        return self._refuse(other)

    def __ne__(self, other: object) -> bool:
        return self._refuse(other)
