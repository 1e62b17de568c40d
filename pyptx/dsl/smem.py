"""``smem``: the CTA's shared memory, which the user places by hand or allocates.

A kernel has one area, aligned to 1024 bytes.  It begins with the bytes that the kernel option ``smem=BYTES``
reserves for hand-placed offsets from :func:`base`; the buffers of :func:`alloc` follow.  The area is static
up to 48 KiB; a larger area is dynamic (also a smaller one with ``extern_smem=True``).  The user's code is the
same for both. PTX ISA: `#shared-state-space`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..core.errors import OperandError, SharedMemoryError, TraceError
from ..core.source import SourceLocation
from ..core.tuples import NamedTuple
from ..core.types import ScalarType, b8, u32
from ..ir import Immediate, Register, RingBarriers, RingSide, SharedRange, Symbol, Variable
from ..layout import SWIZZLE_PERIOD
from ..layout.swizzle import check_swizzle
from .call_sites import here
from .emit import Predicate, emit
from .operands import Addr, addr, address
from .records import records
from .registers import Number, Reg, owned, result
from .trace import Trace, current
from .types import as_number, as_whole, encode_number, memory_type, the_type

__all__ = ["ALIGNMENT", "STATIC_LIMIT", "Buffer", "Shared", "alloc", "base", "load", "store"]

#: Largest static shared memory of one CTA, in bytes; a larger area must be dynamic.
STATIC_LIMIT = 48 * 1024
#: Alignment of the area in bytes: the largest alignment that a swizzle needs.
ALIGNMENT = 1024


class _SharedMark(NamedTuple):
    end: int
    used: bool
    ranges: int


class Shared:
    """The shared memory of one recording.

    Attributes:
        symbol: name of the area in the text.
        end: bytes in use.
        used: True if the kernel uses its address.
        ranges: the buffers in it, in the order of their offsets; the bytes reserved by ``smem=BYTES`` come
            first, under the area's own name.
    """

    def __init__(self, trace: Trace, symbol: str, reserved: int, dynamic: bool) -> None:
        self.trace = trace
        self.symbol = symbol
        self.forced = dynamic
        self.end = 0
        self.used = False
        self.ranges: list[SharedRange] = []
        if reserved:
            self.reserve(reserved, symbol, trace.location)

    def mark(self) -> _SharedMark:
        return _SharedMark(self.end, self.used, len(self.ranges))

    def restore(self, mark: _SharedMark) -> None:
        self.end, self.used = mark.end, mark.used
        del self.ranges[mark.ranges :]

    def reserve(self, nbytes: int, name: str, source: SourceLocation | None, alignment: int = 1) -> int:
        """Reserve ``nbytes`` more, which messages call ``name``, and return their offset.

        Raises :class:`SharedMemoryError` if the area exceeds the target's limit.
        """
        offset = -(-self.end // alignment) * alignment
        limit = self.trace.target.shared_limit
        if offset + nbytes > limit:
            taken = f" ({self.end} in use, {nbytes} more asked for)" if self.end else ""
            raise SharedMemoryError(
                f"{offset + nbytes} bytes of shared memory{taken}; a CTA on {self.trace.target} has {limit}",
                hint="use fewer stages or smaller tiles",
                see="shared-state-space",
            )
        self.end = offset + nbytes
        self.ranges.append(SharedRange(name, offset, nbytes, source, self.symbol))
        return offset

    def describe(self, type: ScalarType, shape: tuple[int, ...], swizzle: str, stage_bytes: int) -> None:
        """Say what the buffer that was reserved last holds; a debugger shows it so."""
        self.ranges[-1] = replace(
            self.ranges[-1], type=type, shape=shape, swizzle=swizzle, stage_bytes=stage_bytes
        )

    @property
    def dynamic(self) -> bool:
        return self.forced or self.end > STATIC_LIMIT

    def variable(self) -> Variable | None:
        """Return the declaration of the area, or None if the kernel has no shared memory."""
        if not self.end and not self.used:
            return None
        source = self.trace.location
        if self.dynamic:
            return Variable(self.symbol, "shared", b8, 0, ALIGNMENT, True, source)
        return Variable(self.symbol, "shared", b8, max(self.end, 1), ALIGNMENT, False, source)

    def base(self) -> Reg:
        """Return the register of the area's first address."""
        self.used = True
        symbol = Symbol(self.symbol)
        register = self.trace.prepare(
            ("smem", -1), u32, "smem_base", lambda d: [("mov", ("u32",), (d, symbol))], self.trace.location
        )
        return self._shared(register, "the base of shared memory")

    def address(self, offset: int, hint: str, source: SourceLocation | None) -> Reg:
        """Return the register that holds ``base + offset``.

        It is the base itself if ``offset`` is 0; otherwise one ``add`` in the prologue computes it.
        """
        start = self.base()
        if offset == 0:
            return start
        register = self.trace.prepare(
            ("smem", offset),
            u32,
            hint,
            lambda d: [("add", ("u32",), (d, start.operand, Immediate(offset)))],
            source,
        )
        return self._shared(register, "the address of a shared-memory buffer")

    def _shared(self, register: Register, what: str) -> Reg:
        return Reg(self.trace, register, u32, self.trace.regions[0], self.trace.location, what)


def name_ring(name: str, full: Buffer, empty: Buffer) -> None:
    """Record, for messages and timelines, that two buffers hold the mbarriers of one pipeline ring."""
    ranges = full._shared.ranges
    number = 1 + max((each.ring.ring for each in ranges if each.ring is not None), default=-1)
    for buffer, side in ((full, RingSide.FULL), (empty, RingSide.EMPTY)):
        place = next(n for n, each in enumerate(ranges) if each.offset == buffer.offset)
        ranges[place] = replace(ranges[place], ring=RingBarriers(number, name, side))


def _shared(trace: Trace) -> Shared:
    state = trace.state.get("smem")
    if not isinstance(state, Shared):
        raise TraceError(
            f"{trace.name} has no shared memory of its own to allocate from",
            hint="a @ptx.func takes an address as an argument; "
            "a Program declares variables: program.shared(...)",
            see="shared-state-space",
        )
    return state


class Buffer:
    """A piece of shared memory. It can be passed wherever an address is expected.

    Attributes:
        shape: elements along each axis, innermost last, of one stage.
        dtype: element type.
        nbytes: bytes of one stage (of the whole buffer if it has no stages).
        stages: number of stages, or None.
        stage_bytes: bytes from one stage to the next.
        swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"`` or ``"128B_ATOM_32B"``: how TMA and the tensor
            cores permute it.
        offset: constant bytes from the base of shared memory. For a stage or part that a register selects, it
            counts from the address in a register.
    """

    def __init__(
        self,
        shared: Shared,
        offset: int,
        shape: tuple[int, ...],
        dtype: ScalarType,
        *,
        name: str,
        swizzle: str = "none",
        stages: int | None = None,
        stage_bytes: int = 0,
        origin: Reg | None = None,
        source: SourceLocation | None = None,
    ) -> None:
        self.offset = offset
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.swizzle = swizzle
        self.stages = stages
        self.nbytes = math.prod(shape) * dtype.nbytes
        self.stage_bytes = stage_bytes or self.nbytes
        self._shared = shared
        self._origin = origin
        self._source = source

    def __repr__(self) -> str:
        stages = f", {self.stages} stages" if self.stages is not None else ""
        return f"<smem {self.name}: {self.shape} {self.dtype}{stages}, offset {self.offset}>"

    @property
    def addr(self) -> Reg:
        """Address as a u32 register, computed once in the prologue; using it records nothing.

        For a stage or row that a register selects, the selection has computed the address; a constant offset
        from this address records one ``add``.
        """
        trace = current()
        if self._origin is None:
            return self._own().address(self.offset, self.name, self._source)
        if self.offset == 0:
            return self._origin
        operands = (self._origin.operand, Immediate(self.offset))
        return result(trace, u32, "add", ("u32",), operands, self.name)

    @property
    def known_offset(self) -> int | None:
        """Bytes from the 1024-byte aligned base of shared memory; None if a register selects the place."""
        return self.offset if self._origin is None else None

    def _own(self) -> Shared:
        """Return the buffer's shared memory; raise :class:`TraceError` if it belongs to another recording."""
        if self._shared.trace is not current():
            made = f", made at {self._source}" if self._source is not None else ""
            state = "has ended" if self._shared.trace.finished else "is another one"
            raise TraceError(
                f"the buffer {self.name!r}{made} is shared memory of a recording of the kernel "
                f"{self._shared.trace.name}, which {state}",
                hint="allocate the buffer inside this kernel; pass a device function its address",
            )
        return self._shared

    def address_parts(self) -> tuple[Reg, int]:
        """Return the base register and the constant offset, for address operands. Records nothing."""
        return (self._own().base() if self._origin is None else self._origin), self.offset

    def stage(self, index: Reg | int) -> Buffer:
        """Return stage ``index`` as a buffer.

        Records nothing for a number, one ``mad.lo.u32`` for a register.

        Raises:
            OperandError: a number that is not a stage.
            TraceError: the buffer has no stages.
        """
        if self.stages is None:
            raise TraceError(
                f"{self.name!r} has no stages, so {self.name}[{index}] does not exist",
                hint="allocate it with stages=n; rows(...) and at(...) address parts of one tile",
            )
        return self._moved(index, self.stage_bytes, self.stages, "stage", self.shape)

    def __getitem__(self, index: Reg | int) -> Buffer:
        return self.stage(index)

    def __iter__(self) -> Iterator[Buffer]:
        """Yield the stages in order. Records nothing. Raises :class:`TraceError` if there are no stages."""
        return iter([self.stage(index) for index in range(1 if self.stages is None else self.stages)])

    def rows(self, start: Reg | int, count: int) -> Buffer:
        """Return the sub-tile of ``count`` rows from row ``start`` on (rows lie along the first axis).

        Records nothing for a number, one ``mad.lo.u32`` for a register.  In a swizzled buffer, a sub-tile
        must start where the swizzle pattern starts.

        Watch out: a register's value is not checked.

        Raises:
            OperandError: rows outside the buffer, or a start inside a swizzle pattern.
        """
        self._one_stage("rows")
        if not 1 <= count <= self.shape[0]:
            raise OperandError(
                f"count is {count}: expected 1..{self.shape[0]} rows, as {self.name!r} has {self.shape[0]}"
            )
        row = self.nbytes // self.shape[0]
        period = SWIZZLE_PERIOD[self.swizzle]
        if self.swizzle != "none" and not isinstance(start, Reg) and start * row % period:
            raise OperandError(
                f"row {start} of {self.name!r} is {start * row} bytes from its start, "
                f"inside a {self.swizzle} swizzle pattern",
                hint=f"start at a multiple of {math.lcm(row, period) // row} rows",
                see="tensor-swizzling-modes",
            )
        return self._moved(start, row, self.shape[0] - count + 1, "row", (count, *self.shape[1:]))

    def split(self, stages: int) -> Buffer:
        """Return the buffer's rows as ``stages`` stages of equally many rows. Records nothing.

        Raises:
            OperandError: a number that does not divide the rows, or that puts a stage inside a swizzle
                pattern.
            TraceError: the buffer has stages already.
        """
        self._one_stage("split")
        rows, rest = divmod(self.shape[0], stages) if stages > 0 else (0, 1)
        if rest or self.nbytes // stages % SWIZZLE_PERIOD[self.swizzle]:
            raise OperandError(
                f"{self.shape[0]} rows of {self.name!r} are not {stages} stages of whole swizzle patterns",
                see="tensor-swizzling-modes",
            )
        return Buffer(
            self._shared,
            self.offset,
            (rows, *self.shape[1:]),
            self.dtype,
            name=self.name,
            swizzle=self.swizzle,
            stages=stages,
            origin=self._origin,
            source=self._source,
        )

    def at(self, *indices: Reg | int) -> Buffer:
        """Return element ``[i, j, ...]`` as a buffer of shape ().

        Records one ``mad.lo.u32`` for each index that is a register.

        Raises:
            OperandError: a wrong number of indices, an index outside the buffer, or a swizzled buffer (its
                elements do not lie at constant distances).
        """
        self._one_stage("at")
        if len(indices) != len(self.shape):
            raise OperandError(f"{len(indices)} indices for {self.name!r} of shape {self.shape}")
        if self.swizzle != "none":
            raise OperandError(
                f"{self.name!r} is {self.swizzle} swizzled: its elements do not lie at constant distances",
                hint="compute the address with the swizzle's XOR: PTX ISA #tensor-swizzling-modes",
            )
        with current().atomic():
            found = self
            for axis, index in enumerate(indices):
                step = math.prod(self.shape[axis + 1 :]) * self.dtype.nbytes
                found = found._moved(index, step, self.shape[axis], f"index {axis}", ())
        return found

    def _one_stage(self, what: str) -> None:
        if self.stages is not None:
            raise TraceError(
                f"{self.name!r} has {self.stages} stages: choose one first, {self.name}[i].{what}(...)"
            )

    def _moved(self, index: Reg | int, step: int, count: int, what: str, shape: tuple[int, ...]) -> Buffer:
        """Return the part of this buffer that begins ``index * step`` bytes after its start, as a buffer."""
        offset, origin = self.offset, self._origin
        if isinstance(index, Reg):
            trace = current()
            if origin is None:
                origin, offset = self._own().address(offset, self.name, self._source), 0
            values = (owned(index, trace).operand, Immediate(step), owned(origin, trace).operand)
            origin = result(trace, u32, "mad", ("lo", "u32"), values, f"{self.name}_{what.partition(' ')[0]}")
        else:
            number = as_whole(index)
            if number is None or not 0 <= number < count:
                raise OperandError(f"{what} {index!r} of {self.name!r}: expected 0..{count - 1}")
            offset += number * step
        return Buffer(
            self._shared, offset, shape, self.dtype, name=self.name, swizzle=self.swizzle, origin=origin
        )


def base() -> Reg:
    """Return the first address of the kernel's shared memory, a u32 register that the prologue loads once.

    Offsets that the author adds to it must lie within the kernel option ``smem=BYTES``.

    Raises:
        TraceError: outside a kernel.
    """
    return _shared(current()).base()


def alloc(
    shape: int | Sequence[int],
    dtype: ScalarType = b8,
    *,
    align: int = 16,
    swizzle: str = "none",
    stages: int | None = None,
    name: str | None = None,
) -> Buffer:
    """Allocate shared memory for the whole kernel. Records nothing.

    Args:
        shape: elements along each axis, innermost last; a number is a single axis (bytes, by default).
        dtype: element type.
        align: bytes, a power of two up to 1024; a swizzle raises the alignment to its period (1024 for 128B
            and 128B_ATOM_32B, 512 for 64B, 256 for 32B). TMA needs 128.
        swizzle: how TMA and the tensor cores permute the buffer: a name of
            :data:`pyptx.layout.SWIZZLE_PERIOD`. ``"128B_ATOM_32B"`` is that of MN-major tf32.
        stages: number of equal stages, each aligned; then ``buf[i]`` is stage ``i``.
        name: name in messages, findings of the simulator and register names; default: the Python variable.

    Raises:
        SharedMemoryError: the kernel needs more than a CTA of the target has.
        OperandError: a wrong shape, alignment or type.
    """
    trace = current()
    site, source = here()
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if not extents or min((as_whole(n) or 0) for n in extents) < 1:
        raise OperandError(f"a shape is one or more positive numbers, not {shape!r}")
    if the_type(dtype).nbytes == 0:
        raise OperandError(f"{dtype!r} is not a type that memory holds")
    if align < 1 or align & (align - 1) or align > ALIGNMENT:
        raise OperandError(f"align is {align}: expected a power of two up to {ALIGNMENT}")
    if stages is not None and (as_whole(stages) or 0) < 1:
        raise OperandError(f"stages is {stages!r}: expected a positive number")
    if swizzle not in SWIZZLE_PERIOD:
        check_swizzle(swizzle)  # raises the error
    period = SWIZZLE_PERIOD[swizzle] if swizzle != "none" else 1
    alignment = max(align, period, dtype.nbytes)
    nbytes = math.prod(extents) * dtype.nbytes
    stage_bytes = -(-nbytes // alignment) * alignment if stages is not None else nbytes
    shared = _shared(trace)
    called = name or site.name or "smem"
    offset = shared.reserve(stage_bytes * (stages or 1), called, source, alignment)
    shared.describe(dtype, extents, swizzle, stage_bytes if stages is not None else 0)
    return Buffer(
        shared,
        offset,
        extents,
        dtype,
        name=called,
        swizzle=swizzle,
        stages=stages,
        stage_bytes=stage_bytes,
        source=source,
    )


@records("ld", "ld.b128")
def load(kind: ScalarType, source: Reg | Addr | Buffer) -> Reg:
    """Load one value from shared memory. Records one ``ld.shared`` into a new register of ``kind``.

    PTX ISA: `#data-movement-and-conversion-instructions-ld`.
    """
    trace = current()
    return result(trace, kind, "ld", ("shared", memory_type(kind).name), (address(source, trace),), "t")


@records("st")
def store(
    target: Reg | Addr | Buffer,
    value: Reg | Number,
    kind: ScalarType | None = None,
    *,
    pred: Predicate = None,
) -> None:
    """Store one value to shared memory. Records one ``st.shared``.

    Args:
        target: address of the value in shared memory.
        value: a register, stored in its type's size, or a number.
        kind: type to store; default: the register's type, or the buffer's for a number.
        pred: guard.

    Raises:
        OperandError: a number is stored to an address, and ``kind`` is not given.

    PTX ISA: `#data-movement-and-conversion-instructions-st`.
    """
    if kind is None:
        if isinstance(value, Reg):
            kind = value.type
        elif isinstance(target, Buffer):
            kind = target.dtype
        else:
            raise OperandError(
                f"the type of the store of {value!r} is not known", hint="pass kind=: smem.store(a, 0, u32)"
            )
    given: Any = value
    if not isinstance(value, Reg):
        number = as_number(value)
        if number is None:
            raise OperandError(f"{value!r} cannot be stored: expected a register or a number")
        given = encode_number(number, kind)
    emit("st", ("shared", memory_type(kind).name), addr(target), given, pred=pred)
