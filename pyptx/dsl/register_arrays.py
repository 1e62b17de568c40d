"""Several registers of one type as one Python value: a vector operand, or values to loop over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from ..core.errors import OperandError, TraceError
from ..core.types import ScalarType
from .registers import Reg

__all__ = ["RegArray"]


class RegArray(Sequence[Reg]):
    """Several registers of one type. It can be indexed, sliced, iterated, and passed as a vector operand.

    ``arr[i] += x`` writes ``arr[i]`` in place; ``arr[i] = other`` is refused: use ``arr[i].set(other)``.
    """

    __slots__ = ("name", "registers", "type")
    __hash__ = object.__hash__

    def __init__(self, registers: Sequence[Reg], kind: ScalarType, name: str) -> None:
        self.registers = tuple(registers)
        self.type = kind
        self.name = name

    def __len__(self) -> int:
        return len(self.registers)

    def __iter__(self) -> Iterator[Reg]:
        return iter(self.registers)

    @overload
    def __getitem__(self, index: int) -> Reg: ...

    @overload
    def __getitem__(self, index: slice) -> RegArray: ...

    def __getitem__(self, index: int | slice) -> Reg | RegArray:
        if isinstance(index, slice):
            return RegArray(self.registers[index], self.type, self.name)
        self._check_index(index)
        try:
            return self.registers[index]
        except IndexError:
            raise OperandError(
                f"index {index} is outside {self.name!r}, which has {len(self)} registers"
            ) from None

    def __setitem__(self, index: int | slice, value: Reg) -> None:
        # Python ends `arr[i] += x` by storing what __iadd__ returned, which is arr[i] itself.
        if not isinstance(index, slice) and self[index] is value:
            return
        raise TraceError(
            f"{self.name}[{index}] is a register and cannot be replaced",
            hint=f"write into it with {self.name}[{index}].set(value), or in place with +=",
        )

    def _check_index(self, index: object) -> None:
        if isinstance(index, Reg):
            raise TraceError(
                f"{self.name}[{index}] would choose a register at run time, which PTX cannot do",
                hint="index with a Python number; unroll with `for i in range(n)`",
            )

    def __contains__(self, value: object) -> bool:
        return any(value is register for register in self.registers)

    def __bool__(self) -> bool:
        return len(self.registers) > 0

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} x {self.type}>"

    def view(self, kind: ScalarType) -> RegArray:
        """Return every register with another type of the same width. Records nothing."""
        return RegArray([register.view(kind) for register in self.registers], kind, self.name)
