"""What a stop shows: :class:`Stop`, for commands, for scripts and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError
from ...core.source import SourceLocation
from ...core.types import ScalarType, f32
from ..engine.events import Step
from .places import Listing, Place
from .state import (
    Barrier,
    Standing,
    TensorCells,
    Tile,
    barriers,
    pending_steps,
    standings,
    tensor_cells,
    tile,
)
from .text import lanes_text
from .values import RegisterValue, called, evaluate, register_values

if TYPE_CHECKING:
    from .machine import DebuggedMachine

__all__ = ["Stop"]


class Stop:
    """The machine before an instruction of some lanes. It is valid until the machine runs on.

    Attributes:
        why: why the machine stopped.
        cta: coordinates of the CTA.
        warp: number of the warp in its CTA.
        lanes: the lanes that are about to execute the instruction.
    """

    def __init__(self, machine: DebuggedMachine, place: Place, listing: Listing, why: str) -> None:
        self.machine, self.place, self._listing, self.why = machine, place, listing, why
        self.cta: tuple[int, int, int] = place.split.warp.cta.coordinates
        self.warp: int = place.split.warp.index
        self.lanes: NDArray[np.intp] = place.split.lanes

    @property
    def location(self) -> SourceLocation | None:
        """The author's line."""
        return self.place.source

    @property
    def instruction(self) -> str:
        """The instruction, as in the text."""
        return str(self.place.instruction)

    @property
    def ptx_line(self) -> int | None:
        """The instruction's line in the printed text."""
        return self._listing.line(self.place.instruction)

    def __repr__(self) -> str:
        where = "" if self.location is None else f" at {self.location.short}: {self.location.text}"
        return (
            f"{self.why}: CTA {self.cta} warp {self.warp}, {lanes_text(self.place.split.mask)}{where}\n"
            f"  ptx:{self.ptx_line}  {self.instruction}"
        )

    def registers(self, *patterns: str, type: ScalarType | None = None) -> list[RegisterValue]:
        """Return registers of the warp: those of Python variables with these names, or all.

        Args:
            patterns: names, in which ``*`` stands for any characters.
            type: type to show registers of its size in; by default that of their declaration.

        Raises:
            SpecError: no register has such a name.
        """
        known = register_values(self.place.split, type, self.machine.written)
        if not patterns:
            return list(known.values())
        chosen: dict[str, RegisterValue] = {}
        for pattern in patterns:
            names = called(pattern, known) or [name for name in known if fnmatchcase(name, pattern)]
            if not names:
                raise SpecError(f"no register {pattern!r}; there are: {', '.join(known) or 'none'}")
            chosen.update({name: known[name] for name in names})
        return list(chosen.values())

    def register(self, name: str, type: ScalarType | None = None) -> NDArray[Any]:
        """Return the values of one register in the 32 lanes. Raises :class:`SpecError` for other names."""
        found = self.registers(name, type=type)
        if len(found) > 1:
            raise SpecError(f"{name!r} has several registers: {', '.join(each.name for each in found)}")
        return found[0].values

    def evaluate(self, expression: str) -> Any:
        """Return the value of a Python expression over registers, as the condition of a breakpoint."""
        return evaluate(expression, self.place.split)

    def where(self) -> list[Standing]:
        """Return where all threads of the CTAs that run stand."""
        return standings(self.machine, self.place.split, self.location)

    def barriers(self) -> list[Barrier]:
        """Return the barriers of this CTA, with phases, pending arrivals and bytes."""
        return barriers(self.place.split.warp.cta)

    def tile(
        self,
        name: str,
        stage: int | None = None,
        *,
        shape: Sequence[int] | None = None,
        type: ScalarType | None = None,
        swizzle: str | None = None,
    ) -> Tile:
        """Return a buffer of this CTA's shared memory as a matrix, read through its swizzle.

        Args:
            name: the buffer's name.
            stage: number of the stage, for a buffer with stages.
            shape, type, swizzle: by default those of the allocation.

        Raises:
            SpecError: there is no such buffer or stage.
        """
        extents = None if shape is None else tuple(shape)
        return tile(self.place.split.warp.cta, name, stage, shape=extents, type=type, mode=swizzle)

    def tensor_memory(self, column: int, count: int = 8, type: ScalarType = f32) -> TensorCells:
        """Return ``count`` columns of tensor memory, a row for each lane. Raises :class:`SpecError`."""
        return tensor_cells(self.place.split.warp.cta, column, count, type)

    def events(self) -> list[Step]:
        """Return the steps of asynchronous operations in flight, the oldest first."""
        return pending_steps(self.machine)

    def listing(self, count: int = 4) -> list[str]:
        """Return the lines of the text around the instruction."""
        line = self.ptx_line
        return [] if line is None else list(self._listing.around(line, count))
