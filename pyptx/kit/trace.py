"""Named marks in a kernel: which warp was where at which clock, kept in device memory and read afterwards.

Owns :class:`Trace` and the layout of its buffer.  Each warp has a header of 64 bytes and a ring of records of
16 bytes, so a mark needs no atomic operation.  A record has its number, so that the reader knows how many
records were overwritten.  :mod:`.trace_reader` makes a timeline of the buffer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..core.arrays import describe, is_array
from ..core.errors import SpecError, TraceError
from ..core.records import dataclass
from ..core.source import author_location
from ..core.types import u32, u64
from ..dsl import Reg, Tile, TileParam, ptx, reg
from ..dsl.trace import current
from .trace_records import BEGIN, END, HEADER_WORDS, INSTANT, MAGIC, MAX_NAMES, RECORD_WORDS, MarkName

if TYPE_CHECKING:
    from ..timeline import Timeline

__all__ = ["Trace"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Selects two bytes of the clock's upper half, and two of the name's number.
_CLOCK_AND_NAME = 0x5410
#: The value of a mark that has none.
_NO_VALUE = 0xFFFFFFFF
#: The largest number of records of a warp, so that the bytes of a warp are a 32-bit number.
_MOST_EVENTS = 1 << 24


@dataclass(eq=False, slots=True)
class _Marks:
    """The registers of one recording, which the marks of the kernel share."""

    base: Reg
    leader: Reg
    number: Reg

    def mark(self) -> None:
        """Return nothing: a rejected call changes none of these registers."""

    def restore(self, mark: None) -> None:
        """Keep the registers: they were created before the call that was rejected."""


class Trace:
    """Marks for a kernel: spans and instants with the clock, which one lane of each warp stores.

    A trace that is off records nothing: the kernel has the same text as a kernel without marks.

    ::

        trace = kit.Trace(ctas=grid, warps=4)            # or kit.Trace.off()

        @kernel(in_specs=(*trace.specs, Tile(N, f32)), out_specs=(Tile(N, f32),), block=128)
        @trace.traced
        def scale(X, Y):
            with trace.span("load"):
                ...
            trace.mark("tile", value=tile)
            trace.finish()

        buffers = trace.buffers()                        # () if the trace is off
        y = scale(*buffers, x)
        trace.timeline(buffers, simulated=True).html("scale.html")

    ``traced`` gives the kernel one more parameter, the first one, for the buffer; the function does not see
    it. The lane that ``elect.sync`` elects of a full warp stores the marks, so a mark belongs in code that
    this lane executes: in code of the whole warp, or below ``ptx.if_(ptx.warp.elect())``.

    A mark records 7 instructions, one of them a store of 16 bytes; the two marks of a span record 14. The
    beginning of the kernel records about 30, :meth:`finish` 7. A mark takes 33 cycles of its warp on an H200.

    Args:
        ctas: number of CTAs of the grid.
        warps: number of warps of a CTA.
        events: number of records that each warp keeps, a power of two; the oldest are overwritten, and the
            timeline says how many. A span takes two.

    Raises:
        SpecError: a number is out of range.

    PTX ISA: `#special-registers-clock64`.
    """

    def __init__(self, ctas: int, warps: int, events: int = 256) -> None:
        for what, value, most in (
            ("ctas", ctas, 1 << 31),
            ("warps", warps, 32),
            ("events", events, _MOST_EVENTS),
        ):
            if type(value) is not int or not 1 <= value <= most:
                raise SpecError(f"{what} is {value!r}: expected a number, 1..{most}")
        if events & (events - 1):
            raise SpecError(f"events is {events}: expected a power of two")
        self.ctas, self.warps, self.events = ctas, warps, events
        self.enabled = True
        #: The names of the marks, by their number in the records.
        self.names: list[MarkName] = []
        self._numbers: dict[MarkName, int] = {}

    @classmethod
    def off(cls) -> Trace:
        """Return a trace that records nothing, takes no parameter and has no buffer."""
        trace = cls(1, 1, 1)
        trace.enabled = False
        return trace

    def __repr__(self) -> str:
        if not self.enabled:
            return "<trace, off>"
        return f"<trace of {self.ctas} CTAs with {self.warps} warps, {self.events} records each>"

    # --- outside of the kernel --------------------------------------------------------------------

    @property
    def _shape(self) -> tuple[int, int]:
        return self.ctas * self.warps, HEADER_WORDS + RECORD_WORDS * self.events

    @property
    def specs(self) -> tuple[Tile, ...]:
        """The specs of the trace's parameter, the first of ``in_specs``: one tile, or none if it is off."""
        return (Tile(*self._shape, u32),) if self.enabled else ()

    def traced(self, function: _Function) -> _Function:
        """Give a kernel function the trace's parameter; a decorator below ``@kernel``.

        A trace that is off returns the function as it is.
        """
        if not self.enabled:
            return function

        @functools.wraps(function)
        def with_trace(buffer: TileParam, *arguments: Any, **constants: Any) -> None:
            self.start(buffer)
            function(*arguments, **constants)

        own = inspect.Parameter("trace_buffer", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = inspect.signature(function)
        changed = signature.replace(parameters=[own, *signature.parameters.values()])
        with_trace.__signature__ = changed  # type: ignore[attr-defined]
        return with_trace  # type: ignore[return-value]

    def buffers(self, device: Any = None) -> tuple[Any, ...]:
        """Return the arguments for the trace's parameter: one array of zeros, or none if the trace is off.

        Args:
            device: None for a numpy array, or a CUDA device of torch, such as ``"cuda"``. A launch adds to
                what the buffer holds, so take a new buffer, or fill it with zeros, before each launch.
        """
        if not self.enabled:
            return ()
        if device is None:
            return (np.zeros(self._shape, np.uint32),)
        import torch

        return (torch.zeros(self._shape, dtype=torch.int32, device=device).view(torch.uint32),)

    def timeline(
        self,
        buffers: tuple[Any, ...],
        *,
        title: str = "trace",
        simulated: bool = False,
        aligned: bool = True,
    ) -> Timeline:
        """Return the timeline of the marks in a buffer, after the kernel has ended.

        On a GPU, the clocks of different multiprocessors are aligned by pairs of ``%clock64`` and
        ``%globaltimer`` that each warp reads when it starts and in :meth:`finish`. On an H200,
        ``%globaltimer`` advances in steps of 32 ns, so events on different multiprocessors may be off by some
        tens of nanoseconds. Without :meth:`finish`, the unit is cycles, and each multiprocessor begins at 0.

        Args:
            buffers: what :meth:`buffers` returned.
            title: what ran, for people.
            simulated: True after a run in the simulator, whose clock counts its own steps.
            aligned: False for the cycles of each multiprocessor from its first warp on, without alignment.

        Raises:
            SpecError: the trace is off, or the buffer is not one of its buffers.
        """
        if not self.enabled:
            raise SpecError(
                "the trace is off, so it has no timeline", hint="make it with kit.Trace(ctas, warps)"
            )
        if len(buffers) != 1 or not is_array(buffers[0]) or describe(buffers[0]).shape != self._shape:
            raise SpecError(
                f"buffers is not what buffers() of {self!r} returned: expected one {self._shape} array"
            )
        given = buffers[0]
        words = given if isinstance(given, np.ndarray) else given.cpu().numpy()
        from .trace_reader import timeline_of

        shaped = words.reshape(self.ctas, self.warps, -1)
        return timeline_of(shaped, self.names, title, simulated=simulated, aligned=aligned)

    # --- in the kernel ----------------------------------------------------------------------------

    def start(self, buffer: TileParam) -> None:
        """Record the header of each warp. ``traced`` calls it; without it, call this first in the kernel.

        All lanes of each warp must execute it together.
        """
        if not self.enabled:
            return
        if tuple(buffer.shape) != self._shape:
            raise TraceError(f"the buffer of the trace has the shape {buffer.shape}: expected {self._shape}")
        trace = current()
        if _KEY in trace.state:
            raise TraceError("the kernel has a trace already", hint="call start once, or use @trace.traced")
        trace_leader = ptx.warp.elect()
        special = ptx.special
        cta = _linear(special.ctaid, special.nctaid)
        trace_warp = _linear(special.tid, special.ntid) >> 5
        row = reg.scalar(u32)
        ptx.inst.mad.lo.u32(row, cta, self.warps, trace_warp)
        trace_base = reg.scalar(u64)
        ptx.inst.mad.wide.u32(trace_base, row, 4 * self._shape[1], buffer.ptr)
        trace_number = reg.scalar(u32, init=0)
        trace.state[_KEY] = _Marks(trace_base, trace_leader, trace_number)
        head: list[Reg | int | float | None] = [MAGIC, special.smid(), cta, trace_warp]
        ptx.store(ptx.addr(trace_base), head, u32, space="global", pred=trace_leader)
        _store_clocks(trace_base, 16, trace_leader)

    def finish(self) -> None:
        """Record the second pair of clocks of each warp, by which the clocks of multiprocessors are aligned.

        Call it where each warp ends. All marks before it are kept also if it is missing.
        """
        if not self.enabled:
            return
        marks = self._marks()
        _store_clocks(marks.base, 32, marks.leader)
        done: list[Reg | int | float | None] = [marks.number, 1, 0, 0]
        ptx.store(ptx.addr(marks.base, 48), done, u32, space="global", pred=marks.leader)

    def mark(self, name: str, *, stage: Reg | int | None = None, value: Reg | int | None = None) -> None:
        """Record an instant.

        Args:
            name: what happens; marks with one name at one line are one kind of mark.
            stage: the stage of a ring, a number or a u32 register.
            value: any other number, for the reader.

        Raises:
            TraceError: the kernel has no :meth:`traced` or :meth:`start`.
            SpecError: stage and value are both given, or there are too many names.
        """
        if self.enabled:
            self._record(name, stage, value, INSTANT)

    @contextmanager
    def span(
        self, name: str, *, stage: Reg | int | None = None, value: Reg | int | None = None
    ) -> Iterator[None]:
        """Return a context manager that records a mark before and a mark after its block.

        The arguments and errors are those of :meth:`mark`.
        """
        if self.enabled:
            self._record(name, stage, value, BEGIN)
        yield
        if self.enabled:
            self._record(name, stage, value, END)

    def _record(self, name: str, stage: Reg | int | None, value: Reg | int | None, kind: int) -> None:
        if not name:
            raise SpecError("the name of a mark is empty: expected a text")
        if stage is not None and value is not None:
            raise SpecError(f"the mark {name!r} has a stage and a value: give one of them")
        marks, given = self._marks(), value if stage is None else stage
        number = self._number(MarkName(name, stage is not None, author_location()))
        slot = marks.number & (self.events - 1)
        place = reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, slot, 4 * RECORD_WORDS, marks.base)
        low, high = ptx.unpack(ptx.special.clock64(), u32)
        ptx.inst.add.u32(marks.number, marks.number, 1)
        upper = ptx.prmt(high, number << 2 | kind, _CLOCK_AND_NAME)
        words: list[Reg | int | float | None] = [low, upper, marks.number]
        words.append(_NO_VALUE if given is None else given)
        ptx.store(ptx.addr(place, 4 * HEADER_WORDS), words, u32, space="global", pred=marks.leader)

    def _marks(self) -> _Marks:
        found = current().state.get(_KEY)
        if not isinstance(found, _Marks):
            raise TraceError(
                "the kernel has marks, and its trace has no buffer here",
                hint="put @trace.traced below @kernel, and *trace.specs first into in_specs",
            )
        return found

    def _number(self, name: MarkName) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            if number == MAX_NAMES:
                raise SpecError(
                    f"a trace has at most {MAX_NAMES} marks at different lines or with different names"
                )
            self.names.append(name)
        return number


_KEY = "kit.trace"


def _linear(index: Any, extent: Any) -> Reg:
    """Record the number of a thread in its CTA, or of a CTA in its grid."""
    plane = reg.scalar(u32)
    ptx.inst.mad.lo.u32(plane, index.z(), extent.y(), index.y())
    ptx.inst.mad.lo.u32(plane, plane, extent.x(), index.x())
    return plane


def _store_clocks(base: Reg, offset: int, leader: Reg) -> None:
    """Record the store of ``%clock64`` and ``%globaltimer`` at ``base + offset``."""
    clock = ptx.unpack(ptx.special.clock64(), u32)
    timer = ptx.unpack(ptx.special.globaltimer(), u32)
    ptx.store(ptx.addr(base, offset), [*clock, *timer], u32, space="global", pred=leader)
