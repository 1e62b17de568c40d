"""Control flow: labels, branches, ``if_``, ``else_``, ``scope``, ``ret``, ``exit``, without :mod:`.loops`.

Blocks are context managers.  Each docstring says which statements the block records; the DSL does not
optimize them.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from ..core.errors import OperandError, TraceError
from ..core.source import SourceLocation
from ..ir import CallPrototype, Guard, Raw, TargetList
from .call_sites import here
from .labels import Label, LabelScope, label_name
from .operands import branch_target
from .operands import guard as guard_of
from .records import records
from .regions import Region
from .registers import NotPred, Reg
from .trace import PendingLabel, Trace, current

__all__ = [
    "Condition",
    "Guarded",
    "bra",
    "else_",
    "exit",
    "if_",
    "inverted",
    "label",
    "new_label",
    "place_label",
    "raw",
    "ret",
    "scope",
    "uniform",
]

Condition = Reg | NotPred


def inverted(condition: object, trace: Trace) -> Guard:
    """Return the guard of a branch that threads take where ``condition`` is false."""
    if condition is None:
        raise OperandError("the condition is None: expected a predicate: x < y", see="predicated-execution")
    found = guard_of(cast(Condition, condition), trace)
    assert found is not None
    return Guard(found.register, not found.negated)


# --- labels, branches, ends -----------------------------------------------------------------------


def new_label(hint: str = "L") -> Label:
    """Make a label that is different from all others. :func:`label` places it later. Records nothing."""
    return Label(label_name(hint), current())


def label(name: str | Label) -> Label:
    """Place a label here. Records a label and no instruction.

    A label given as a string belongs to the innermost open ``ptx.scope`` of the calling Python function, or
    to the call of that function.  Its name in the PTX text gets a suffix where needed to be unique.

    Raises:
        TraceError: a name that PTX does not allow, a name that the scope already has, or a Label that is
            already placed.

    PTX ISA: `#labels`.
    """
    return place_label(name)


def place_label(
    name: str | Label,
    statement: TargetList | CallPrototype | None = None,
    targets: tuple[Label | str, ...] = (),
) -> Label:
    """Place a label as :func:`label` does.

    With ``statement``, the label is the name of a target list or a prototype; ``targets`` are the labels in
    the list.
    """
    trace = current()
    source = here()[1]
    if isinstance(name, Label):
        trace.place(name, source, statement, targets)
        return name
    scope = trace.label_scopes().innermost()
    name = label_name(name)
    known = scope.labels.get(name)
    if known is not None and known.defined is not None:
        raise TraceError(
            f"the label {name!r} is already defined at {known.defined}",
            location=source,
            hint="give this label another name, or put each of the two in its own `with ptx.scope():`",
        )
    placed = scope.labels[name] = Label(name, trace)
    trace.place(placed, source, statement, targets)
    return placed


def uniform(uni: bool) -> tuple[str, ...]:
    """Return the modifiers of a ``bra``: ``uni`` if the caller says that all threads go the same way."""
    return ("uni",) if uni else ()


@records("bra")
def bra(target: str | Label, pred: Condition | None = None, *, uni: bool = False) -> None:
    """Branch to a label, which may be defined later. Records one ``bra``, guarded by ``pred``.

    With ``uni`` it records ``bra.uni``: all threads of the warp go the same way.

    Raises:
        OperandError: ``pred`` is not a predicate.
        TraceError: when the recording ends, if no scope around this line defines the target.

    PTX ISA: `#control-flow-instructions-bra`.
    """
    trace = current()
    trace.branch(branch_target(target), guard_of(pred, trace), here()[1], uniform(uni))


@records("ret")
def ret(pred: Condition | None = None) -> None:
    """End the thread (in an entry). Records one ``ret``. PTX ISA: `#control-flow-instructions-ret`."""
    trace = current()
    trace.record("ret", (), (), guard_of(pred, trace))


@records("exit")
def exit(pred: Condition | None = None) -> None:
    """End the thread. Records one ``exit``. PTX ISA: `#control-flow-instructions-exit`."""
    trace = current()
    trace.record("exit", (), (), guard_of(pred, trace))


def raw(text: str) -> None:
    """Insert PTX text verbatim, marked as raw. A last resort: the text is neither checked nor simulated.

    A register formats as its name in the text: ``ptx.raw(f"mov.u32 {x}, 7;")``.
    """
    trace = current()
    if not str(text).strip():
        raise TraceError(f"ptx.raw takes PTX text, not {text!r}")
    trace.statements.append(Raw(str(text), here()[1]))


class scope:
    """``with ptx.scope():`` opens a new scope for label names. Records nothing."""

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
    """The last ``if_`` block that ended, which an ``else_`` directly after it continues."""

    def __init__(self) -> None:
        self.last: PendingLabel | None = None
        #: The condition under which threads skip the ``if_`` block.
        self.otherwise: Guard | None = None

    def mark(self) -> tuple[PendingLabel | None, Guard | None]:
        return self.last, self.otherwise

    def restore(self, mark: tuple[PendingLabel | None, Guard | None]) -> None:
        self.last, self.otherwise = mark


def _branches(trace: Trace) -> _Branches:
    state = trace.state.get("control")
    return state if isinstance(state, _Branches) else _Branches()


Made = TypeVar("Made", bound="Guarded")


class _Announced(type):
    """The metaclass of blocks: it notes each block that is created, so that an unused block is an error."""

    def __call__(cls: type[Made], *arguments: Any, **named: Any) -> Made:  # type: ignore[misc] # a metaclass
        made: Made = type.__call__(cls, *arguments, **named)
        made.trace.unopened[id(made)] = (made, here()[1])
        return made


class Guarded(metaclass=_Announced):
    """The base class of ``with`` blocks that each thread either executes or skips."""

    kind = "block"

    def __init__(self) -> None:
        self.trace = current()
        self.region: Region | None = None

    def _open(self) -> SourceLocation:
        if self.region is not None:
            raise TraceError(f"this {self.kind} was entered before; write a new `with ptx.{self.kind}(...)`")
        if self.trace is not current():
            raise TraceError(f"this {self.kind} belongs to another recording")
        source = here()[1]
        self._forget()
        self.region = Region(self.kind, source, self.trace.region, len(self.trace.statements))
        return source

    def _forget(self) -> None:
        """Remove the block from the list of unused blocks: it was entered, or an error was raised for it."""
        self.trace.unopened.pop(id(self), None)

    def _close(self, error: type[BaseException] | None) -> None:
        assert self.region is not None
        self.trace.regions.remove(self.region)
        self.region.close(len(self.trace.statements))
        if error is not None and self.trace.abandoned is None:
            self.trace.abandoned = self.region


class if_(Guarded):
    """``with ptx.if_(p):`` runs the block in threads where ``p`` is true.

    Records one ``bra`` over the block with the inverted guard, and a label after the block. ``ptx.if_(~p)``
    records the same number of instructions.

    Raises:
        OperandError: the condition is not a predicate; for a Python bool use Python's ``if``.
    """

    kind = "if_"

    def __init__(self, condition: Condition) -> None:
        super().__init__()
        self._guard = inverted(condition, self.trace)

    def __enter__(self) -> None:
        source = self._open()
        assert self.region is not None
        self._end = Label("endif", self.trace)
        self.region.certain = -1
        self.region.condition = Guard(self._guard.register, not self._guard.negated)
        self.trace.branch(self._end, self._guard, source)
        self.trace.regions.append(self.region)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(kind)
        if kind is None:
            assert self.region is not None and self.region.source is not None
            branches = self.trace.state["control"] = _branches(self.trace)
            branches.last = self.trace.place(self._end, self.region.source)
            branches.otherwise = self._guard


class else_(Guarded):
    """``with ptx.else_():``, right after an ``if_`` block, runs in threads where the condition is false.

    Records one more ``bra`` at the end of the ``if_`` block, over this block (``bra.uni`` with ``uni``), and
    one more label.

    Raises:
        TraceError: no ``if_`` block ends directly before.
    """

    kind = "else_"

    def __init__(self, *, uni: bool = False) -> None:
        super().__init__()
        self._modifiers = uniform(uni)

    def __enter__(self) -> None:
        trace = self.trace
        last = _branches(trace).last
        self._forget()
        if last is None or not trace.statements or trace.statements[-1] is not last:
            raise TraceError(
                "else_ without if_: it must directly follow the block of a `with ptx.if_(p):`",
                hint="record nothing between the two blocks",
            )
        source = self._open()
        assert self.region is not None
        self._end = Label("endif", trace)
        self.region.certain = -1
        self.region.condition = _branches(trace).otherwise
        last.label.hint = "otherwise"
        trace.statements.pop()
        trace.branch(self._end, None, source, self._modifiers)
        trace.statements.append(last)
        _branches(trace).last = None
        trace.regions.append(self.region)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(kind)
        if kind is None:
            assert self.region is not None and self.region.source is not None
            self.trace.place(self._end, self.region.source)
