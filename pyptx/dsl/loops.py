"""Loops: ``loop``, ``while_``, ``do_while``, ``for_``, each a PTX loop with its body recorded once.

A loop also checks the author's variables: if a Python variable holds a register when the loop begins and
another value at its end, the next pass would read the old register.  The loop refuses such code, see
:class:`.loop_carried.LoopCarried`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from ..core.errors import OperandError, TraceError
from ..core.source import SourceLocation
from ..core.types import ScalarType, pred, u32
from ..ir import Guard, Immediate, Raw
from .call_sites import caller_frames, here
from .control import Condition, Guarded, inverted, uniform
from .labels import Label
from .loop_carried import LoopCarried
from .operands import guard as guard_of
from .regions import mentions
from .registers import Reg, move, new_register, owned
from .trace import current
from .types import as_whole

__all__ = ["Loop", "do_while", "for_", "loop", "while_"]


def _deferred(what: str, condition: Callable[[], Condition]) -> Callable[[], Condition]:
    """Return ``condition`` if it is a function; else raise :class:`OperandError`."""
    if callable(condition):
        return condition
    raise OperandError(
        f"{what} takes a function that records its condition, not {condition!r}",
        hint=f"write ptx.{what}(lambda: x < n): the condition is evaluated in each pass",
    )


class Loop(Guarded):
    """A loop that is being recorded; ``with ptx.loop() as L`` binds one to ``L``."""

    kind = "loop"

    def __init__(self, *, uni: bool = False) -> None:
        super().__init__()
        self._back = uniform(uni)
        self._head = Label("loop", self.trace)
        self._next = Label("next", self.trace)
        self._end = Label("endloop", self.trace)
        self._continued = False
        self._carried: LoopCarried | None = None

    def break_(self, pred: Condition | None = None, *, uni: bool = False) -> None:
        """Leave the loop. Records one ``bra`` (``bra.uni`` with ``uni``), guarded by ``pred``.

        Raises :class:`TraceError` outside the loop's block.
        """
        self._jump("break_", self._end, pred, uni)

    def continue_(self, pred: Condition | None = None, *, uni: bool = False) -> None:
        """Start the next pass (in ``for_`` after the step, in ``do_while`` after testing the condition).

        Records one ``bra`` (``bra.uni`` with ``uni``), guarded by ``pred``.

        Raises :class:`TraceError` outside the loop's block.
        """
        self._jump("continue_", self._next_pass(), pred, uni)
        self._continued = True

    def _next_pass(self) -> Label:
        return self._head

    def _jump(self, what: str, target: Label, pred: Condition | None, uni: bool) -> None:
        trace = current()
        if trace is not self.trace or self.region is None or not self.region.open:
            self._forget()
            raise TraceError(
                f"{what} was called outside its loop",
                hint=f"call it inside the `with ptx.{self.kind}(...)` block",
            )
        if target is not self._head:
            self.region.may_end(len(trace.statements))
        self.trace.branch(target, guard_of(pred, trace), here()[1], uniform(uni))

    def _begin(self) -> SourceLocation:
        """Open the block. Instructions that must precede the loop's head are recorded before this call."""
        source = self._open()
        assert self.region is not None
        self._carried = LoopCarried(caller_frames(), here()[0].name)
        return source

    def _index_register(self) -> Reg | None:
        """Return the register that ``with ... as`` binds, or None for a loop without an index."""
        return None

    def _reads(self, name: str) -> bool:
        """Return True if a statement in the loop reads the register ``name``."""
        from ..flow.registers import accesses

        assert self.region is not None
        trace = self.trace
        for number in range(self.region.begin, len(trace.statements)):
            found = trace.instruction(number)
            if found is None or not mentions(found, name):
                continue
            if isinstance(found, Raw) or any(register.name == name for register in accesses(found)[0]):
                return True
        return False

    def _finish(self) -> Guard | None:
        """Record the instructions at the end of the body, and return the guard of the branch back."""
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self.region is not None and self._carried is not None and self.region.source is not None
        source = self.region.source
        try:
            if kind is None:
                self._carried.check(source, self._index_register(), self._reads)
                with self.trace.atomic():
                    guard = self._finish()
                    self.trace.branch(self._head, guard, source, self._back)
                    self.trace.place(self._end, source)
        finally:
            self._carried = None  # releases the frames of the user's functions
            self._close(kind)


class loop(Loop):
    """``with ptx.loop() as L:`` repeats the block until ``L.break_()``.

    Records two labels and one ``bra`` (back to the head; ``bra.uni`` with ``uni``); ``break_`` and
    ``continue_`` record one ``bra`` each.
    """

    def __enter__(self) -> Loop:
        source = self._begin()
        assert self.region is not None
        self.trace.place(self._head, source)
        self.trace.regions.append(self.region)
        return self


class while_(Loop):
    """``with ptx.while_(lambda: x < n) as L:`` repeats the block while the condition holds.

    The condition is recorded once, at the loop's head, and so evaluated before each pass.  Records the
    instructions of the condition, two labels and two ``bra``.

    Raises:
        OperandError: the condition is not a predicate register.
    """

    kind = "while_"

    def __init__(self, condition: Callable[[], Condition]) -> None:
        super().__init__()
        self._test = _deferred("while_", condition)

    def __enter__(self) -> Loop:
        source = self._begin()
        assert self.region is not None
        trace = self.trace
        trace.regions.append(self.region)
        try:
            with trace.atomic():
                trace.place(self._head, source)
                condition = inverted(self._test(), trace)
                self.region.may_end(len(trace.statements))
                trace.branch(self._end, condition, source)
        except BaseException:
            self._close(None)
            raise
        return self


class do_while(Loop):
    """``with ptx.do_while(lambda: x < n):`` runs the block once, and repeats it while the condition holds.

    The condition is recorded once, after the body, and may read registers of the body.  Records the
    instructions of the condition, two labels (three with ``continue_``) and one ``bra`` (``bra.uni`` with
    ``uni``).

    Raises:
        OperandError: the condition is not a predicate register (raised when the block ends).
    """

    kind = "do_while"

    def __init__(self, condition: Callable[[], Condition], *, uni: bool = False) -> None:
        super().__init__(uni=uni)
        self._test = _deferred("do_while", condition)

    def _next_pass(self) -> Label:
        return self._next

    def __enter__(self) -> Loop:
        source = self._begin()
        assert self.region is not None
        self.trace.place(self._head, source)
        self.trace.regions.append(self.region)
        return self

    def _finish(self) -> Guard | None:
        assert self.region is not None and self.region.source is not None
        if self._continued:
            self.trace.place(self._next, self.region.source)
        skipped = inverted(self._test(), self.trace)
        return Guard(skipped.register, not skipped.negated)


class for_(Loop):
    """``with ptx.for_(start, stop, step) as i:`` counts ``i`` from ``start`` up to, but without, ``stop``.

    The loop tests ``i`` before each pass, so it may run no pass.  ``i`` is a register of type ``type``.
    By default it has the type of the first register among ``start``, ``stop`` and ``step``; u32 if all three
    are numbers.  A negative constant step counts down; a step in a register counts up.

    Records five instructions (``mov``, ``setp``, ``bra`` before the body, ``add``, ``bra`` after it) and two
    labels (three with ``continue_``).  The object itself has ``break_`` and ``continue_``: write
    ``rows = ptx.for_(0, n)``, then ``with rows as i:``, and in the block ``rows.break_(p)``.

    Watch out: near the end of the type's range ``i + step`` wraps around and the loop does not end.

    Raises:
        OperandError: types that do not mix, untyped bits (which have no order), a step of 0, or a number out
            of range.
    """

    kind = "for_"

    def __init__(
        self,
        start: Reg | int,
        stop: Reg | int,
        step: Reg | int = 1,
        *,
        type: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self._bounds = (start, stop, step)
        registers = [value for value in self._bounds if isinstance(value, Reg)]
        for value in self._bounds:
            if isinstance(value, Reg):
                owned(value, self.trace)
            elif as_whole(value) is None:
                raise OperandError(
                    f"a bound of for_ is {value!r}: start, stop and step are integers or registers"
                )
        kind = type or (registers[0].type if registers else u32)
        if kind.kind not in "us" or kind.bits == 8:
            raise OperandError(
                f"for_ counts in a signed or unsigned integer of 16, 32 or 64 bits, not in .{kind}",
                hint=f"use x.view(u{kind.bits}) or x.view(s{kind.bits})" if kind.kind == "b" else "",
            )
        self._kind = kind
        for what, value in zip(("start", "stop", "step"), self._bounds, strict=True):
            self._check_bound(what, value)
        if as_whole(step) == 0:
            raise OperandError("the step of for_ is 0: the loop would not end")

    def _check_bound(self, what: str, value: Reg | int) -> None:
        kind = self._kind
        if isinstance(value, Reg):
            if value.type is not kind and not (value.type.kind == "b" and value.type.bits == kind.bits):
                raise OperandError(
                    f"{what} of for_ is {value} (.{value.type}), and the loop counts in .{kind}: "
                    "the types do not mix",
                    hint=f"view or convert it to .{kind}, or choose the loop's type with type=",
                )
            return
        number = int(value)
        low = 0 if kind.kind == "u" and what != "step" else -(1 << (kind.bits - 1))
        high = (1 << (kind.bits - (kind.kind == "s"))) - 1
        if not low <= number <= high:
            raise OperandError(f"{what} of for_ is {number}, outside .{kind}: expected {low}..{high}")

    def _next_pass(self) -> Label:
        return self._next

    def _index_register(self) -> Reg:
        return self._index

    def _runs(self) -> bool:
        """Return True if the loop certainly runs at least one pass."""
        start, stop, step = self._bounds
        if isinstance(start, Reg) or isinstance(stop, Reg) or isinstance(step, Reg):
            return False
        return stop < start if step < 0 else start < stop

    def __enter__(self) -> Reg:
        source = self._begin()
        assert self.region is not None
        trace, kind = self.trace, self._kind
        start, stop, step = self._bounds
        down = not isinstance(step, Reg) and step < 0
        trace.regions.append(self.region)
        try:
            with trace.atomic():
                self._index = new_register(trace, kind, here()[0].name or "i", source)
                move(trace, self._index, start, source)
                trace.place(self._head, source)
                done = new_register(trace, pred, "done", source)
                bound = stop.operand if isinstance(stop, Reg) else Immediate(int(stop))
                compare = ("le" if down else "ge", kind.name)
                trace.record("setp", compare, (done.operand, self._index.operand, bound), source=source)
                if not self._runs():
                    self.region.may_end(len(trace.statements))
                trace.branch(self._end, Guard(done.operand), source)
        except BaseException:
            self._close(None)
            raise
        return self._index

    def _finish(self) -> Guard | None:
        assert self.region is not None and self.region.source is not None
        source = self.region.source
        step = self._bounds[2]
        amount = step.operand if isinstance(step, Reg) else Immediate(int(step))
        if self._continued:
            self.trace.place(self._next, source)
        index = self._index.operand
        self.trace.record("add", (self._kind.name,), (index, index, amount), source=source)
        return None
