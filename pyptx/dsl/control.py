"""Control flow: labels and branches, ``if_``/``else_``, loops, ``scope``, the ends of a thread.

Blocks are context managers.  What each records is said in its docstring; nothing is optimised away.

A loop also watches its author: a Python variable that held a register when the loop began and holds
another at its end would make the next pass read the old one.  That is refused, see :class:`_Carried`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ..core.errors import OperandError, TraceError
from ..core.source import SourceLocation
from ..core.types import ScalarType, pred, u32
from ..ir import Guard, Immediate, Raw
from .labels import Label, LabelScope, label_name
from .operands import branch_target
from .operands import guard as guard_of
from .operators import move, new_register
from .registers import NotPred, Reg, RegArray, owned
from .sites import caller_frame, here
from .trace import Block, PendingLabel, Trace, current
from .types import as_whole

__all__ = [
    "bra",
    "else_",
    "exit",
    "for_",
    "if_",
    "label",
    "loop",
    "new_label",
    "raw",
    "ret",
    "scope",
    "while_",
]

Condition = Reg | NotPred


def _negated(condition: Guard) -> Guard:
    return Guard(condition.register, not condition.negated)


def _condition(value: Any, trace: Trace) -> Guard:
    found = guard_of(value, trace)
    if found is None:
        raise OperandError("None is not a predicate", see="predicated-execution")
    return found


# --- labels, branches, ends -----------------------------------------------------------------------


def new_label(hint: str = "L") -> Label:
    """A label to be placed with :func:`label` later; never mistaken for another one. Records nothing."""
    return Label(label_name(hint), current())


def label(name: str | Label) -> Label:
    """Place a label here. Records a label and no instruction.

    A text label belongs to the innermost ``ptx.scope`` of the calling Python function, or to that call;
    its text name is made unique with a suffix where needed.

    Raises:
        TraceError: a name that PTX cannot have, or one that the scope (or a Label that) already has.

    PTX ISA: `#labels`.
    """
    trace = current()
    source = here()[1]
    if isinstance(name, Label):
        trace.place(name, source)
        return name
    scope = trace.label_scopes().innermost()
    name = label_name(name)
    known = scope.labels.get(name)
    if known is not None and known.defined is not None:
        raise TraceError(
            f"the label {name!r} is already defined at {known.defined}",
            location=source,
            hint="give it another name, or put each in its own `with ptx.scope():`",
        )
    placed = scope.labels[name] = Label(name, trace)
    trace.place(placed, source)
    return placed


def bra(target: str | Label, pred: Condition | None = None) -> None:
    """Branch to a label, which may be defined later. Records one ``bra``, guarded by ``pred``.

    Raises:
        OperandError: ``pred`` is not a predicate.
        TraceError: when the recording ends, a target that no scope around this line defines.

    PTX ISA: `#control-flow-instructions-bra`.
    """
    trace = current()
    if isinstance(target, Label) and target.trace is not trace:
        raise TraceError(f"the label {target.hint!r} belongs to another recording")
    trace.branch(branch_target(target), guard_of(pred, trace), here()[1])


def ret(pred: Condition | None = None) -> None:
    """End the thread (in an entry). Records one ``ret``. PTX ISA: `#control-flow-instructions-ret`."""
    trace = current()
    trace.record("ret", (), (), guard_of(pred, trace))


def exit(pred: Condition | None = None) -> None:
    """End the thread. Records one ``exit``. PTX ISA: `#control-flow-instructions-exit`."""
    trace = current()
    trace.record("exit", (), (), guard_of(pred, trace))


def raw(text: str) -> None:
    """Put PTX text in verbatim, marked as raw: neither checked nor simulated. The last resort.

    Registers format as their text names: ``ptx.raw(f"mov.u32 {x}, 7;")``.
    """
    trace = current()
    if not str(text).strip():
        raise TraceError(f"ptx.raw takes PTX text, not {text!r}")
    trace.statements.append(Raw(str(text), here()[1]))


class scope:
    """``with ptx.scope():`` gives the text labels inside their own names. Records nothing."""

    def __init__(self) -> None:
        self._trace = current()
        self._open: list[LabelScope] | None = None

    def __enter__(self) -> None:
        if self._open is not None:
            raise TraceError("this scope was entered before; write `with ptx.scope():` each time")
        call, _ = self._trace.label_scopes().enter()
        self._open = call.open

    def __exit__(self, *_: object) -> None:
        assert self._open is not None
        self._open.pop()


# --- if -------------------------------------------------------------------------------------------


class _Branches:
    """What the last closed ``if_`` left behind, for an ``else_`` that follows it."""

    def __init__(self) -> None:
        self.last: PendingLabel | None = None

    def mark(self) -> PendingLabel | None:
        return self.last

    def restore(self, mark: PendingLabel | None) -> None:
        self.last = mark


def _branches(trace: Trace) -> _Branches:
    state = trace.state.get("control")
    if state is None:
        state = trace.state["control"] = _Branches()
    assert isinstance(state, _Branches)
    return state


class _Guarded:
    """A block that threads enter together or jump over."""

    kind = "block"

    def __init__(self) -> None:
        self.trace = current()
        self.block: Block | None = None

    def _open(self) -> SourceLocation:
        if self.block is not None:
            raise TraceError(f"this {self.kind} was entered before; write a new `with ptx.{self.kind}(...)`")
        if self.trace is not current():
            raise TraceError(f"this {self.kind} belongs to another recording")
        source = here()[1]
        self.block = Block(self.kind, source)
        return source

    def _close(self) -> None:
        assert self.block is not None
        self.trace.blocks.remove(self.block)
        self.block.open = False


class if_(_Guarded):
    """``with ptx.if_(p):`` runs the block where ``p`` holds.

    Records one ``bra`` over the block with the inverted guard, and a label behind it; ``~p`` costs no more.

    Raises:
        OperandError: not a predicate; for a Python bool use Python's ``if``.
    """

    kind = "if_"

    def __init__(self, condition: Condition) -> None:
        super().__init__()
        self._guard = _condition(condition, self.trace)

    def __enter__(self) -> None:
        source = self._open()
        assert self.block is not None
        self._end = Label("endif", self.trace)
        self.trace.branch(self._end, _negated(self._guard), source)
        self.trace.blocks.append(self.block)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close()
        if kind is None:
            assert self.block is not None and self.block.source is not None
            _branches(self.trace).last = self.trace.place(self._end, self.block.source)


class else_(_Guarded):
    """``with ptx.else_():`` right after an ``if_`` block, runs where the condition did not hold.

    Records one more ``bra`` (at the end of the ``if_`` block, over this one) and one more label.

    Raises:
        TraceError: no ``if_`` block ends directly before.
    """

    kind = "else_"

    def __enter__(self) -> None:
        trace = self.trace
        last = _branches(trace).last
        if last is None or not trace.statements or trace.statements[-1] is not last:
            raise TraceError(
                "else_ without if_: it must directly follow the block of an `with ptx.if_(p):`",
                hint="nothing may be recorded between the two",
            )
        source = self._open()
        assert self.block is not None
        self._end = Label("endif", trace)
        last.label.hint = "otherwise"
        trace.statements.pop()
        trace.branch(self._end, None, source)
        trace.statements.append(last)
        _branches(trace).last = None
        trace.blocks.append(self.block)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close()
        if kind is None:
            assert self.block is not None and self.block.source is not None
            self.trace.place(self._end, self.block.source)


# --- loops ----------------------------------------------------------------------------------------


class _Carried:
    """The author's variables at the start of a loop, to find those that were rebound in its body.

    A variable counts if its register was made in a block that is still open when the loop begins: the loop
    may come round and read it again.  Names of registers from closed blocks (the scratch variables of an
    earlier ``if_``) are free to be used again.
    """

    def __init__(self, frame: FrameType, exempt: str | None) -> None:
        self._frame = frame
        self._held: dict[str, Reg | RegArray] = {}
        for name, value in frame.f_locals.items():
            if name != exempt and isinstance(value, (Reg, RegArray)) and _made_in(value).open:
                self._held[name] = value

    def check(self, loop_source: SourceLocation) -> None:
        """Raise :class:`TraceError` for the first variable that now holds another register."""
        now = self._frame.f_locals
        for name, old in self._held.items():
            new = now.get(name)
            if not isinstance(new, (Reg, RegArray)) or _same(old, new):
                continue
            made, remade = _first(old).source, _first(new).source
            raise TraceError(
                f"{name!r} was defined before the loop at {loop_source.short} "
                f"(as {_first(old)}, {_at(made)}) and is rebound in it (to {_first(new)}, {_at(remade)}): "
                "the next pass would read the old register",
                location=remade,
                hint=f"write it in place: {name} += ..., or {name}.set(...); "
                "if it is scratch, use another name inside the loop",
            )


def _at(source: SourceLocation | None) -> str:
    return f"line {source.line} of {source.file}" if source is not None else "in the prologue"


def _first(value: Reg | RegArray) -> Reg:
    return value if isinstance(value, Reg) else value.registers[0]


def _made_in(value: Reg | RegArray) -> Block:
    return _first(value).block


def _same(old: Reg | RegArray, new: Reg | RegArray) -> bool:
    """Whether both name the same registers: the same object, or a view."""
    if isinstance(old, Reg) or isinstance(new, Reg):
        return isinstance(old, Reg) and isinstance(new, Reg) and old.name == new.name
    return [r.name for r in old] == [r.name for r in new]


class Loop(_Guarded):
    """A loop being recorded: what ``with ptx.loop() as L`` gives."""

    kind = "loop"

    def __init__(self) -> None:
        super().__init__()
        self._head = Label("loop", self.trace)
        self._next = Label("next", self.trace)
        self._end = Label("endloop", self.trace)
        self._continued = False
        self._carried: _Carried | None = None

    def break_(self, pred: Condition | None = None) -> None:
        """Leave the loop. Records one ``bra``, guarded by ``pred``.

        Raises :class:`TraceError` outside the loop's block.
        """
        self._jump("break_", self._end, pred)

    def continue_(self, pred: Condition | None = None) -> None:
        """Start the next pass (in ``for_``, after the step). Records one ``bra``, guarded by ``pred``.

        Raises :class:`TraceError` outside the loop's block.
        """
        self._jump("continue_", self._next_pass(), pred)
        self._continued = True

    def _next_pass(self) -> Label:
        return self._head

    def _jump(self, what: str, target: Label, pred: Condition | None) -> None:
        trace = current()
        if trace is not self.trace or self.block is None or not self.block.open:
            raise TraceError(
                f"{what} outside its loop", hint=f"use it inside the `with ptx.{self.kind}(...)` block"
            )
        self.trace.branch(target, guard_of(pred, trace), here()[1])

    def _begin(self) -> SourceLocation:
        """Open the block. What the loop needs before its head must be recorded first."""
        source = self._open()
        assert self.block is not None
        self._carried = _Carried(caller_frame(), here()[0].name)
        return source

    def _finish(self) -> None:
        """Record what stands at the end of the body."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self.block is not None and self._carried is not None and self.block.source is not None
        source = self.block.source
        try:
            if kind is None:
                self._carried.check(source)
                with self.trace.atomic():
                    self._finish()
                    self.trace.branch(self._head, None, source)
                    self.trace.place(self._end, source)
        finally:
            self._carried = None  # it holds the author's frame
            self._close()


class loop(Loop):
    """``with ptx.loop() as L:`` repeats the block until ``L.break_()``.

    Records two labels and one ``bra`` (back to the head); ``break_`` and ``continue_`` one ``bra`` each.
    """

    def __enter__(self) -> Loop:
        source = self._begin()
        assert self.block is not None
        self.trace.place(self._head, source)
        self.trace.blocks.append(self.block)
        return self


class while_(Loop):
    """``with ptx.while_(lambda: x < n) as L:`` repeats the block while the condition holds.

    The condition is recorded once, at the loop's head, and so evaluated before each pass.  Records what
    the condition records, two labels and two ``bra``.

    Raises:
        OperandError: the condition is not a predicate register.
    """

    kind = "while_"

    def __init__(self, condition: Callable[[], Condition]) -> None:
        super().__init__()
        if not callable(condition):
            raise OperandError(
                f"while_ takes a function that records its condition, not {condition!r}",
                hint="write ptx.while_(lambda: x < n): the condition is evaluated before each pass",
            )
        self._test = condition

    def __enter__(self) -> Loop:
        source = self._begin()
        assert self.block is not None
        trace = self.trace
        trace.blocks.append(self.block)
        try:
            with trace.atomic():
                trace.place(self._head, source)
                trace.branch(self._end, _negated(_condition(self._test(), trace)), source)
        except BaseException:
            self._close()
            raise
        return self


class for_(Loop):
    """``with ptx.for_(start, stop, step) as i:`` counts ``i`` from ``start`` to before ``stop``.

    Tested at the top, so it may run no pass at all.  ``i`` is a register with the type of ``start``; for a
    Python number, with that of ``stop`` or ``step`` if one is a register, else u32; or ``type=``.  A negative
    constant step counts down; a register as step counts up.

    Records five instructions (``mov``, ``setp``, ``bra`` before the body, ``add``, ``bra`` after it) and two
    labels, a third with ``continue_``.  The object itself has ``break_`` and ``continue_``:
    ``rows = ptx.for_(0, n)``, then ``with rows as i:`` and in it ``rows.break_(p)``.

    Watch out: near the end of the type's range ``i + step`` wraps and the loop does not end.

    Raises:
        OperandError: types that do not mix, untyped bits (they have no order), a step of 0, a number out
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
                raise OperandError(f"the bounds of for_ are integers or registers, not {value!r}")
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
                    hint=f"view or convert it to .{kind}, or choose with type=",
                )
            return
        number = int(value)
        low = 0 if kind.kind == "u" and what != "step" else -(1 << (kind.bits - 1))
        high = (1 << (kind.bits - (kind.kind == "s"))) - 1
        if not low <= number <= high:
            raise OperandError(f"{what} of for_ is {number}, outside .{kind}: expected {low}..{high}")

    def _next_pass(self) -> Label:
        return self._next

    def __enter__(self) -> Reg:
        source = self._begin()
        assert self.block is not None
        trace, kind = self.trace, self._kind
        start, stop, step = self._bounds
        down = not isinstance(step, Reg) and step < 0
        trace.blocks.append(self.block)
        try:
            with trace.atomic():
                self._index = new_register(trace, kind, here()[0].name or "i", source)
                move(trace, self._index, start, source)
                trace.place(self._head, source)
                done = new_register(trace, pred, "done", source)
                bound = stop.operand if isinstance(stop, Reg) else Immediate(int(stop))
                compare = ("le" if down else "ge", kind.name)
                trace.record("setp", compare, (done.operand, self._index.operand, bound), source=source)
                trace.branch(self._end, Guard(done.operand), source)
        except BaseException:
            self._close()
            raise
        return self._index

    def _finish(self) -> None:
        assert self.block is not None and self.block.source is not None
        source = self.block.source
        step = self._bounds[2]
        amount = step.operand if isinstance(step, Reg) else Immediate(int(step))
        if self._continued:
            self.trace.place(self._next, source)
        index = self._index.operand
        self.trace.record("add", (self._kind.name,), (index, index, amount), source=source)
