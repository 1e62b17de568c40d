"""What a copy has read and will write: its bytes, and which of them are undefined.

Bytes that nothing wrote are no error in a copy. The copied bytes count as unwritten, too, and an instruction
that uses them is an error. A copy to global memory is an error itself, unless it reads written bytes, too:
then the unwritten ones may be padding, which is for review.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine.events import AsyncOperation
from ..memory.undefined_bytes import UndefinedBytes
from ..threads.origins import LoadedBytes

if TYPE_CHECKING:
    from ..threads.machine_state import MachineState

__all__ = ["Copied"]

Array = NDArray[Any]


class Copied:
    """The bytes that ``read`` returned for an operation, and flags of the undefined ones."""

    def __init__(
        self,
        machine: MachineState,
        operation: AsyncOperation,
        read: Callable[[], Array],
        *,
        to_global: bool = False,
    ) -> None:
        self._machine = machine
        self.data = read()
        #: The bytes with 255 for an undefined byte and 0 for any other; None if all are defined.
        self.flags: Array | None = None
        self.origin = 0
        if operation.unwritten is not None:
            self.origin = self._note(operation, to_global=to_global)
            self.flags = self._moved(read)

    def take(self, which: NDArray[np.bool_]) -> Copied:
        """Return the items of the bytes that ``which`` marks."""
        part = copy(self)
        part.data = self.data[which]
        part.flags = None if self.flags is None else self.flags[which]
        return part

    def _note(self, operation: AsyncOperation, *, to_global: bool) -> int:
        """Store the copy as an origin of undefined bytes; return its number."""
        assert operation.unwritten is not None
        segment, position, size, known = operation.unwritten
        operation.unwritten = None
        everything = np.ones((1, size), np.bool_)
        loaded = LoadedBytes(
            [segment], np.array([position]), everything, size, lambda _: operation.description()
        )
        loaded.partial = loaded.padding = bool(known.any())
        origins = self._machine.origins
        key, location = (operation.name, operation.location), operation.location
        number = int(loaded.numbers(origins, key, location, operation.issuer.account)[0, 0])
        stored = segment.origins is not None and bool(segment.origins[position])
        if to_global and (stored or not loaded.partial):
            origins.used(number, f"copied to global memory by {operation.name}", location)
        return number

    def _moved(self, read: Callable[[], Array]) -> Array:
        """Return the flags of the bytes as ``read`` moves them."""
        found = []
        for blank in (False, True):
            found.append(self._instead(UndefinedBytes(self._machine.memory, blank=blank), read))
        flags, rest = (np.ascontiguousarray(each).view(np.uint8) for each in found)
        moved: Array = ((flags != rest) * np.uint8(255)).view(self.data.dtype).reshape(self.data.shape)
        return moved

    def _instead(self, memory: UndefinedBytes, run: Callable[[], Any]) -> Any:
        """Return the result of ``run`` with ``memory`` in place of the machine's memory."""
        machine, own = self._machine, self._machine.memory
        machine.memory = memory
        try:
            return run()
        finally:
            machine.memory = own

    def write(self, put: Callable[[Array], None]) -> None:
        """Write the bytes with ``put``, and record which of the written bytes are undefined."""
        put(self.data)
        flags = self.flags
        if flags is not None:
            memory = UndefinedBytes(self._machine.memory)
            self._instead(memory, lambda: put(flags))
            memory.keep(self.origin)
