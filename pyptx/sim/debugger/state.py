"""The state of the machine as plain data: warps, barriers, shared tiles, tensor memory, steps in flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.source import SourceLocation
from ...core.types import ScalarType, b8, f32
from ...flow.graph import EXIT
from ...ir import SharedRange
from ...layout.swizzle import check_copy_swizzle, swizzle
from ..engine.events import Step
from ..machine.machine import Machine
from ..memory.segments import BARRIER_BYTES
from ..tcgen05.tensor_memory import TensorMemory, TensorStorage
from ..threads.cta import CTA
from ..threads.warp import Split, Warp
from .text import matrix_text

__all__ = ["Barrier", "Standing", "TensorCells", "Tile", "barriers", "pending_steps", "standings", "tile"]

Array = NDArray[Any]


@dataclass(frozen=True, repr=False)
class Standing:
    """Lanes of a warp that stand at one place.

    Attributes:
        cta: the CTA's coordinates.
        warp: number of the warp in its CTA.
        mask: the lanes.
        doing: what they do or wait for.
        location: the author's line.
    """

    cta: tuple[int, int, int]
    warp: int
    mask: int
    doing: str
    location: SourceLocation | None

    def __repr__(self) -> str:
        where = "" if self.location is None else f", {self.location.short}: {self.location.text}"
        return f"CTA {self.cta} warp {self.warp} {self.mask:#010x} {self.doing}{where}"


def _next_line(s: Split) -> SourceLocation | None:
    if s.pc == EXIT:
        return None
    return s.warp.cta.grid.program.blocks[s.pc].lines[0]


def _splits(machine: Machine) -> Iterator[tuple[Split, str, SourceLocation | None]]:
    """Yield the splits that the machine knows, what they do, and their lines."""
    for s in machine.ready:
        yield s, "can run", _next_line(s)
    for s, wait in machine.parked.items():
        yield s, wait.describe(), s.location
    for s in machine.spinning:
        yield s, "spins: no value that it reads changes", s.location
    for s in machine.busy:
        yield s, "polls", s.location
    for cta in machine.residency.live.values():
        blocks = cta.grid.program.blocks
        for warp in cta.warps:
            for pc, waiting in warp.gathering.items():
                instruction = blocks[pc].ops[0][0]
                for s in waiting:
                    yield s, f"waits at {instruction.name} for lanes of its warp", instruction.source


def standings(machine: Machine, current: Split | None, line: SourceLocation | None) -> list[Standing]:
    """Return where all live threads stand; ``current`` is the split that acts, at ``line``."""
    known: dict[int, list[tuple[int, str, SourceLocation | None]]] = {}
    if current is not None:
        known.setdefault(id(current.warp), []).append((current.mask, "is here", line))
    for s, doing, where in _splits(machine):
        if s is not current:
            known.setdefault(id(s.warp), []).append((s.mask, doing, where))
    found = []
    for cta in machine.residency.live.values():
        for warp in cta.warps:
            rest = warp.live
            for mask, doing, where in known.get(id(warp), ()):
                found.append(Standing(cta.coordinates, warp.index, mask, doing, where))
                rest &= ~mask
            if rest:
                found.append(Standing(cta.coordinates, warp.index, rest, _rest(warp), None))
    return found


def _rest(warp: Warp) -> str:
    """Say what lanes do that no list of the machine has."""
    return "waits for its other lanes, or its turn" if warp.reconvergence else "waits for its turn"


@dataclass(frozen=True, repr=False)
class Barrier:
    """An mbarrier, or a named barrier of a CTA.

    Attributes:
        cta: the CTA's coordinates.
        name: its name, with the address of an mbarrier.
        phase: number of completed phases; its lowest bit is the parity of the current one.
        pending: arrivals that the current phase still needs.
        expected: arrivals of a phase.
        tx: for an mbarrier, bytes expected minus bytes arrived.
        waiting: number of warps, or of parts of warps, that wait.
    """

    cta: tuple[int, int, int]
    name: str
    phase: int
    pending: int
    expected: int
    tx: int
    waiting: int

    def __repr__(self) -> str:
        return (
            f"CTA {self.cta} {self.name}: phase {self.phase} (parity {self.phase & 1}), {self.pending} of "
            f"{self.expected} arrivals pending, {self.tx} bytes of tx pending, {self.waiting} waiting"
        )


def barriers(cta: CTA) -> list[Barrier]:
    """Return the barriers of a CTA: its mbarriers by address, then the named barriers in use."""
    found = [
        Barrier(
            cta.coordinates,
            f"{_barrier_name(cta, offset)} (shared {each.address:#x})",
            each.phase,
            each.pending,
            each.expected,
            each.tx,
            len(each.waiters),
        )
        for offset, each in sorted(cta.shared.barriers.items())
    ]
    for number, named in sorted(cta.bars.items()):
        current = named.round
        if current is not None:
            threads = named.expected(current)
            pending = threads - 32 * current.arrivals
            found.append(
                Barrier(
                    cta.coordinates, f"bar {number}", current.number, pending, threads, 0, current.arrivals
                )
            )
    return found


def _barrier_name(cta: CTA, offset: int) -> str:
    """Return the name of the buffer at an offset, with an index if the buffer has several barriers."""
    part = None if cta.shared.parts is None else cta.shared.parts.at(offset)
    if part is None:
        return "mbarrier"
    several = part.end - part.start > BARRIER_BYTES
    return f"{part.name}[{(offset - part.start) // BARRIER_BYTES}]" if several else part.name


@dataclass(frozen=True, eq=False, repr=False)
class Tile:
    """A buffer in shared memory as a matrix.

    Attributes:
        name: the buffer.
        type: type of its elements.
        values: the elements, in the shape of the buffer.
        written: which of them were written.
        swizzle: the swizzle through which they were read.
    """

    name: str
    type: ScalarType
    values: Array
    written: NDArray[np.bool_]
    swizzle: str

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.values.shape))
        head = f"{self.name} {self.type}[{shape}], swizzle {self.swizzle}"
        return "\n".join([head, *matrix_text(self.values, self.written, self.type.kind)])


def _range_called(cta: CTA, name: str) -> SharedRange:
    ranges = [each for function in cta.grid.program.reachable for each in function.shared_ranges]
    found = [each for each in ranges if each.name == name]
    if found:
        return found[0]
    for function in cta.grid.program.reachable:
        for variable in (*cta.grid.program.module.variables, *function.variables):
            if variable.space == "shared" and variable.name == name:
                return SharedRange(name, 0, variable.nbytes, variable.source, name, type=variable.type)
    known = ", ".join(dict.fromkeys(each.name for each in ranges)) or "none"
    raise SpecError(f"no buffer {name!r} in shared memory; there are: {known}")


def tile(
    cta: CTA,
    name: str,
    stage: int | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    type: ScalarType | None = None,
    mode: str | None = None,
) -> Tile:
    """Return a buffer of a CTA's shared memory as a matrix.

    Args:
        cta: the CTA.
        name: the buffer's name, or that of a shared variable.
        stage: number of the stage, for a buffer with stages.
        shape, type, mode: shape, type of the elements and swizzle; by default those of the allocation.

    Raises:
        SpecError: there is no such buffer or stage, or it has fewer bytes.
    """
    where = _range_called(cta, name)
    kind = type or where.type or b8
    if kind.dtype is None:
        raise SpecError(f"elements of type {kind} cannot be shown: name another type")
    stages = where.size // where.stage_bytes if where.stage_bytes else 1
    if not 0 <= (stage or 0) < stages:
        raise SpecError(f"{name} has {stages} stages, numbered from 0: there is no stage {stage}")
    nbytes = where.stage_bytes or where.size
    extents = shape or (where.shape if type is None else ()) or (nbytes // kind.nbytes,)
    count = int(np.prod(extents))
    if count * kind.nbytes > nbytes:
        raise SpecError(f"{name} has {nbytes} bytes, but {extents} of {kind} are {count * kind.nbytes}")
    chosen = check_copy_swizzle(mode or where.swizzle)
    program = cta.grid.program
    base = program.symbols[where.variable][1] + where.offset + (stage or 0) * where.stage_bytes
    addresses = np.arange(base, base + count * kind.nbytes, dtype=np.int64)
    offsets = swizzle(addresses, chosen) - program.shared_start
    data = np.ascontiguousarray(cta.shared.data[offsets])
    written = cta.shared.written
    flags = np.ones(len(offsets), np.bool_) if written is None else written[offsets] != 0
    each = flags.reshape(count, kind.nbytes).all(axis=1)
    return Tile(name, kind, data.view(kind.dtype).reshape(extents), each.reshape(extents), chosen)


@dataclass(frozen=True, eq=False, repr=False)
class TensorCells:
    """Columns of tensor memory: a row for each of the 128 lanes.

    Attributes:
        column: the first column.
        type: type of the cells.
        values: the cells, ``[lane, column]``.
        written: which of them were written.
        allocations: the live allocations, as text.
    """

    column: int
    type: ScalarType
    values: Array
    written: NDArray[np.bool_]
    allocations: str

    def __repr__(self) -> str:
        head = f"tensor memory, columns: {self.allocations}"
        return "\n".join([head, *matrix_text(self.values, self.written, self.type.kind, self.column)])


def tensor_cells(cta: CTA, column: int, count: int, type: ScalarType = f32) -> TensorCells:
    """Return columns of the tensor memory of the multiprocessor on which a CTA runs.

    Raises:
        SpecError: columns outside of 0..511, or a type that has not 32 bits.
    """
    storage = cta.multiprocessor.unit(TensorStorage)
    own = next((unit for unit in cta.units() if isinstance(unit, TensorMemory)), None)
    cells = storage.cells if own is None else own.shown()
    columns = cells.shape[1]
    if not 0 <= column < columns or not 0 < count <= columns - column:
        raise SpecError(
            f"columns {column} to {column + count - 1}: tensor memory has columns 0..{columns - 1}"
        )
    if type.bits != 32 or type.dtype is None:
        raise SpecError(f"a cell of tensor memory has 32 bits, {type} has {type.bits}")
    chosen = slice(column, column + count)
    values = np.ascontiguousarray(cells[:, chosen]).view(type.dtype)
    return TensorCells(column, type, values, storage.written[:, chosen].copy(), storage.describe())


def pending_steps(machine: Machine) -> list[Step]:
    """Return the steps of operations in flight, the oldest first."""
    return list(machine.engines.pending.values())
