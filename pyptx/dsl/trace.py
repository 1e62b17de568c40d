"""The recording of a kernel function: the statements so far, and the one way to append to them.

Owns :class:`Trace`: statements, registers and their names, labels, open blocks, and the current recording
of the thread.  Every instruction is added through :meth:`Trace.record`, which checks the instruction against
the table and the target *before* it appends anything, so that a rejected call leaves the recording unchanged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias

from ..core.errors import TraceError
from ..core.records import dataclass
from ..core.source import SourceLocation, outermost_call
from ..core.tuples import NamedTuple
from ..core.types import ScalarType
from ..ir import (
    BranchTarget,
    CallPrototype,
    Guard,
    Instruction,
    LabelStatement,
    Operand,
    Raw,
    Register,
    Statement,
    TargetList,
    registers_of,
)
from ..isa import Binding, Shape, Target, bind, check_target
from ..isa.special import SPECIAL_REGISTERS
from .call_sites import here
from .labels import Label, LabelScope, Scopes
from .module_builder import ModuleBuilder, Symbols
from .regions import Made, Region, check_defined
from .types import declared

__all__ = ["PendingBranch", "PendingLabel", "Plan", "Trace", "current", "current_or_none", "identifier"]

#: Names that a register may not have: ``%tid`` must stay the special register.
_SPECIAL = frozenset(part for name in SPECIAL_REGISTERS for part in (name, name.partition(".")[0]))
#: Names that no label, parameter or variable may have.
_SYMBOLS = frozenset({"_", "WARP_SZ"})
_NOT_IN_IDENTIFIER = partial(re.compile, r"[^A-Za-z0-9_$]")

_current: ContextVar[Trace | None] = ContextVar("pyptx recording", default=None)


@dataclass(slots=True)
class PendingBranch:
    """An instruction whose last operand is a label. The label gets its text name when the recording ends.

    ``target`` is a label, or a name that is looked up in ``scopes``.
    """

    instruction: Instruction
    target: Label | str
    scopes: tuple[LabelScope, ...]


@dataclass(slots=True)
class PendingLabel:
    """A label that is placed here, or a list of targets or a prototype under a label's name."""

    label: Label
    source: SourceLocation
    #: The statement without its name and the labels that it names; None for a plain label.
    statement: TargetList | CallPrototype | None = None
    #: Labels that the statement names, and the scopes in which they are looked up.
    targets: tuple[Label | str, ...] = ()
    scopes: tuple[LabelScope, ...] = ()


#: Instructions to record: opcode, modifiers and operands of each.
Plan: TypeAlias = "Sequence[tuple[str, tuple[str, ...], tuple[Operand, ...]]]"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A register that the kernel's prologue computes, and the instructions that compute the register."""

    register: Register
    instructions: tuple[Instruction, ...]


class State(Protocol):
    """State that another part of the DSL keeps for a recording; it is restored if a call is rejected."""

    def mark(self) -> Any: ...

    def restore(self, mark: Any) -> None: ...


class _Name(NamedTuple):
    """A name in use, and the counter of names with its stem before the name was taken."""

    name: str
    stem: str
    previous: int


class _Mark(NamedTuple):
    statements: int
    registers: int
    names: int
    prologue: int
    hooks: tuple[Any, ...]


class Trace:
    """One recording of one kernel function.

    Attributes:
        name: the entry's name, for messages.
        target: the architecture that instructions are checked against.
        statements: the body so far, in order.
        registers: registers to declare, in order of creation.
        regions: open regions, outermost first.
        location: the line of the kernel function.
        builder: the module that the function belongs to.
        symbols: variables and names of this function.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        location: SourceLocation | None = None,
        builder: ModuleBuilder | None = None,
    ) -> None:
        self.name = name
        self.target = target
        self.location = location
        self.builder = builder if builder is not None else ModuleBuilder()
        self.symbols = Symbols([], [])
        self.statements: list[Statement | PendingBranch | PendingLabel] = []
        self.registers: list[Register] = []
        self.regions: list[Region] = [Region("kernel", location)]
        self.scopes: Scopes | None = None
        #: Registers that are viewed as another kind (integer as float). At the end they are declared as bits.
        self.untyped: set[str] = set()
        #: State of other parts of the DSL by their name (shared memory, the last if_).
        self.state: dict[str, State] = {"builder": self.builder, "symbols": self.symbols}
        #: Registers that the prologue may compute: parameters, shared-memory addresses.
        self.prologue: dict[tuple[object, ...], Prepared] = {}
        #: True if a read of a register that may have no value is refused. A Program records such reads.
        self.refuses_undefined = True
        #: Registers of closed regions that were used although they may have no value, by name.
        self.doubtful: dict[str, Made] = {}
        self.finished = False
        #: A region that an exception left half recorded; an error if the author's code catches the exception.
        self.abandoned: Region | None = None
        #: Functions that raise an error for an instruction that the threads of an open block cannot execute.
        self.refusals: list[Callable[[Binding, Guard | None], None]] = []
        #: Blocks that were made and not entered yet, with their lines, by id.
        self.unopened: dict[int, tuple[Any, SourceLocation]] = {}
        self._names: set[str] = set()
        self._counters: dict[str, int] = {}
        #: By hint and count, the suffix that :meth:`free_stem` found last, where the next search starts.
        self._attempts: dict[tuple[str, int], int] = {}
        self._claimed: list[_Name] = []
        #: Shapes of instructions that were already checked and that the target has.
        self._admitted: set[Shape] = set()

    # --- names --------------------------------------------------------------------------------

    def _free(self, stem: str) -> tuple[str, int]:
        count = self._counters.get(stem, 0)
        name = f"{stem}_{count}" if count else stem
        while name in self._names or name in _SPECIAL:
            count += 1
            name = f"{stem}_{count}"
        return name, count

    def free_name(self, hint: str) -> str:
        """Return the name that the next register made from ``hint`` gets, without taking the name."""
        return self._free(identifier(hint))[0]

    def free_stem(self, hint: str, count: int) -> str:
        """Return ``hint``, or ``hint_1`` ..., so that ``count`` names (``hint0``, ``hint1`` ...) are free."""
        hint = identifier(hint)
        attempt = self._attempts.get((hint, count), 0)
        while True:
            stem = f"{hint}_{attempt}" if attempt else hint
            if stem[-1].isdigit():
                stem += "_"
            if all(self.free_name(f"{stem}{i}") == f"{stem}{i}" for i in range(count)):
                self._attempts[hint, count] = attempt
                return stem
            attempt += 1

    def _claim(self, name: str, hint: str) -> None:
        stem = identifier(hint)
        previous = self._counters.get(stem, 0)
        self._claimed.append(_Name(name, stem, previous))
        self._names.add(name)
        self._counters[stem] = previous + 1

    def declare(self, kind: ScalarType, hint: str, *, listed: bool = True) -> Register:
        """Make a new register, named after ``hint``. The function declares it in its body if ``listed``."""
        register = Register(self.free_name(hint), declared(kind))
        self._claim(register.name, hint)
        if listed:
            self.registers.append(register)
        return register

    def adopt(self, register: Register, hint: str) -> None:
        """Declare ``register``, which was made with a :meth:`free_name` of ``hint``."""
        self._claim(register.name, hint)
        self.registers.append(register)

    def free_symbol(self, stem: str) -> str:
        """Return the first of ``stem``, ``stem_1`` ... that no visible symbol has."""
        return self.builder.free_name(stem, self.symbols.names)

    def declare_as(self, name: str, kind: ScalarType, vector: int = 1, *, listed: bool = True) -> Register:
        """Declare a register with exactly this name and type.

        If not ``listed``, the body does not declare it.

        Raises :class:`TraceError` for a name that another register or a special register has.
        """
        if name in self._names or name in _SPECIAL:
            owner = "a special register" if name in _SPECIAL else f"a register of {self.name}"
            raise TraceError(f"{owner} already has the name %{name}", hint="choose another name")
        register = Register(name, kind, vector)
        self._claim(name, name)
        if listed:
            self.registers.append(register)
        return register

    def prepare(
        self,
        key: tuple[object, ...],
        kind: ScalarType,
        hint: str,
        build: Callable[[Register], Plan],
        source: SourceLocation | None,
    ) -> Register:
        """Return the register that the prologue computes under ``key``; the first request builds it.

        ``build`` returns opcode, modifiers and operands of each instruction that computes the register. It is
        called once. The prologue contains the instructions if the kernel uses the register, in the order of
        the keys.
        """
        entry = self.prologue.get(key)
        if entry is None:
            register = Register(self.free_name(hint), declared(kind))
            instructions = []
            for opcode, modifiers, operands in build(register):
                binding = self.check(opcode, modifiers, operands)
                instructions.append(Instruction(opcode, modifiers, binding.fitted, None, source))
            self._claim(register.name, hint)
            entry = self.prologue[key] = Prepared(register, tuple(instructions))
        return entry.register

    # --- recording ----------------------------------------------------------------------------

    def check(self, opcode: str, modifiers: tuple[str, ...], operands: Sequence[Operand]) -> Binding:
        """Check an instruction against the table and the target and return its binding; changes no state."""
        binding = bind(opcode, modifiers, tuple(operands))
        if binding.shape not in self._admitted:
            check_target(binding, self.target)
            self._admitted.add(binding.shape)
        if self.doubtful:
            for name, operand in binding.operands.items():
                if binding.specs[name].access != "w":
                    self.check_read(register.name for register in registers_of(operand))
        return binding

    def check_read(self, names: Iterable[str]) -> None:
        """Raise :class:`TraceError` if one of the registers is read now and may have no value."""
        for name in names if self.refuses_undefined else ():
            made = self.doubtful.get(name)
            if made is not None:
                check_defined(made, self.regions, self.instruction, len(self.statements))

    def instruction(self, index: int) -> Instruction | Raw | None:
        """Return statement ``index`` if it is an instruction or raw text; None for any other statement."""
        statement = self.statements[index]
        if isinstance(statement, PendingBranch):
            return statement.instruction
        return statement if isinstance(statement, Instruction | Raw) else None

    def append(self, binding: Binding, guard: Guard | None, source: SourceLocation) -> Instruction:
        """Add an instruction, which the caller has checked, to the kernel's statements."""
        for refuse in self.refusals:
            refuse(binding, guard)
        match = binding.match
        instruction = Instruction(match.form.opcode, match.spelling, binding.fitted, guard, source)
        self.statements.append(instruction)
        return instruction

    def record(
        self,
        opcode: str,
        modifiers: tuple[str, ...],
        operands: Sequence[Operand] = (),
        guard: Guard | None = None,
        source: SourceLocation | None = None,
    ) -> Instruction:
        """Check and record one instruction; ``source`` defaults to the author's line.

        Raises:
            InstructionError, OperandError, TargetError: the table or the target refuses the instruction. Then
                nothing was recorded.
        """
        binding = self.check(opcode, modifiers, operands)
        return self.append(binding, guard, source if source is not None else here()[1])

    def branch(
        self,
        target: Label | str,
        guard: Guard | None,
        source: SourceLocation,
        modifiers: tuple[str, ...] = (),
    ) -> None:
        """Record one ``bra`` to a label that may be defined later."""
        self.to_label("bra", modifiers, (), target, guard, source)

    def to_label(
        self,
        opcode: str,
        modifiers: tuple[str, ...],
        operands: Sequence[Operand],
        target: Label | str,
        guard: Guard | None,
        source: SourceLocation,
    ) -> None:
        """Record one instruction whose last operand, after ``operands``, is a label.

        The label may be defined later.
        """
        if isinstance(target, Label):
            self._own(target)
        binding = self.check(opcode, modifiers, (*operands, BranchTarget("target")))
        scopes = self.label_scopes().chain() if isinstance(target, str) else ()
        instruction = self.append(binding, guard, source)
        self.statements[-1] = PendingBranch(instruction, target, scopes)

    def place(
        self,
        label: Label,
        source: SourceLocation,
        statement: TargetList | CallPrototype | None = None,
        targets: tuple[Label | str, ...] = (),
    ) -> PendingLabel:
        """Place ``label`` here, or a ``statement`` with the label's name: a target list or a prototype.

        ``targets`` are the labels that a target list names.

        Raises :class:`TraceError` if the label is already placed.
        """
        for known in (label, *targets):
            if isinstance(known, Label):
                self._own(known)
        if label.defined is not None:
            raise TraceError(f"label {label.hint!r} is already defined at {label.defined}")
        scopes = self.label_scopes().chain() if targets else ()
        label.defined = source
        placed = PendingLabel(label, source, statement, targets, scopes)
        self.statements.append(placed)
        return placed

    def _own(self, label: Label) -> None:
        if label.trace is not self:
            raise TraceError(f"the label {label.hint!r} belongs to another recording")

    def label_scopes(self) -> Scopes:
        assert self.scopes is not None  # set by run()
        return self.scopes

    @property
    def region(self) -> Region:
        """The innermost open region: the kernel, a loop or a branch of an ``if_``."""
        return self.regions[-1]

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Return a context manager that removes what its block recorded if an exception leaves the block."""
        mark = self.mark()
        try:
            yield
        except BaseException:
            self.restore(mark)
            raise

    def mark(self) -> _Mark:
        hooks = tuple([(key, state.mark()) for key, state in self.state.items()])
        return _Mark(
            len(self.statements),
            len(self.registers),
            len(self._claimed),
            len(self.prologue),
            hooks,
        )

    def restore(self, mark: _Mark) -> None:
        """Remove everything recorded since ``mark``: statements, registers, names, label placements."""
        for statement in self.statements[mark.statements :]:
            if isinstance(statement, PendingLabel):
                statement.label.defined = None
        del self.statements[mark.statements :]
        del self.registers[mark.registers :]
        if len(self._claimed) > mark.names:
            self._attempts.clear()
        while len(self._claimed) > mark.names:
            claimed = self._claimed.pop()
            self._names.discard(claimed.name)
            self._counters[claimed.stem] = claimed.previous
        for key in list(self.prologue)[mark.prologue :]:
            del self.prologue[key]
        kept = dict(mark.hooks)
        for name in list(self.state):
            if name in kept:
                self.state[name].restore(kept[name])
            else:
                del self.state[name]

    # --- the end ------------------------------------------------------------------------------

    def run(self, body: Callable[..., object], arguments: Sequence[Any], keywords: dict[str, Any]) -> None:
        """Call a function as :meth:`call` does. Raises :class:`TraceError` if it returns a value."""
        result = self.call(body, arguments, keywords)
        if result is not None:
            raise TraceError(
                f"the kernel function {self.name} returned {type(result).__name__}",
                location=self.location,
                hint="a kernel writes its results through its output parameters and returns nothing",
            )

    @outermost_call
    def call(self, body: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Call the author's function while this is the current recording, and return its result.

        Raises:
            TraceError: the function left a block open. Any exception of the function passes through.
        """
        self.scopes = Scopes(sys._getframe())  # the author's frames are called from this one
        token = _current.set(self)
        try:
            result = body(*arguments, **keywords)
        finally:
            _current.reset(token)
            self.scopes = None  # they hold the frames of the calls
            self.finished = True
        if self.abandoned is not None:
            raise TraceError(
                f"an exception left this {self.abandoned.kind} half recorded, and was caught",
                location=self.abandoned.source,
                hint="do not catch it, or catch it inside the block: a recording cannot undo half a block",
            )
        if len(self.regions) > 1:
            block = self.region
            raise TraceError(f"the block of this {block.kind} never ended", location=block.source)
        for made, source in self.unopened.values():
            raise TraceError(
                f"this {made.kind} was never entered, and so recorded nothing",
                location=source,
                hint=f"it takes a block: `with ptx.{made.kind}(...):`",
            )
        return result

    def close(self) -> list[Statement]:
        """End the recording. Return its statements, with each label's name in the PTX text.

        Raises:
            TraceError: a branch to a label that no scope around the branch defines.
        """
        taken = {*self.symbols.names, *self.builder.names, *_SYMBOLS}
        counts: dict[str, int] = {}
        names: dict[int, str] = {}
        for statement in self.statements:
            if isinstance(statement, PendingLabel):
                hint = name = statement.label.hint
                count = counts.get(hint, 0)
                if count:
                    name = f"{hint}_{count}"
                while name in taken:
                    count += 1
                    name = f"{hint}_{count}"
                counts[hint] = count + 1
                taken.add(name)
                names[id(statement.label)] = name
        return [self._final(statement, names) for statement in self.statements]

    @staticmethod
    def _final(statement: Statement | PendingBranch | PendingLabel, names: dict[int, str]) -> Statement:
        if isinstance(statement, PendingLabel):
            return _placed(statement, names)
        if isinstance(statement, PendingBranch):
            instruction = statement.instruction
            label = _resolve(statement.target, statement.scopes, instruction.source)
            target = BranchTarget(names[id(label)])
            return replace(instruction, operands=(*instruction.operands[:-1], target))
        return statement


def _placed(pending: PendingLabel, names: dict[int, str]) -> Statement:
    name = names[id(pending.label)]
    statement = pending.statement
    if statement is None:
        return LabelStatement(name, pending.source)
    if isinstance(statement, CallPrototype) or not pending.targets:
        return replace(statement, name=name)
    labels = [_resolve(target, pending.scopes, pending.source) for target in pending.targets]
    return replace(statement, name=name, targets=tuple(names[id(label)] for label in labels))


def _resolve(target: Label | str, scopes: tuple[LabelScope, ...], source: SourceLocation | None) -> Label:
    if isinstance(target, Label):
        if target.defined is not None:
            return target
        raise TraceError(
            f"branch to the label {target.hint!r}, which is never placed",
            location=source,
            hint="place it with ptx.label(label)",
        )
    for scope in scopes:
        found = scope.labels.get(target)
        if found is not None and found.defined is not None:
            return found
    known = sorted({name for scope in scopes for name in scope.labels})
    raise TraceError(
        f"branch to the undefined label {target!r}; "
        + (f"defined in the scopes around it: {', '.join(known)}" if known else "no label is in scope"),
        location=source,
        hint="a text label is visible in its ptx.scope or Python call, and in calls made from there",
    )


@lru_cache(maxsize=4096)
def identifier(hint: str) -> str:
    """Convert ``hint`` to a PTX identifier."""
    found = hint if hint.isascii() and hint.isidentifier() else _NOT_IN_IDENTIFIER().sub("_", hint)
    if not found or found == "_" or found[0].isdigit():
        found = "r" + found.rstrip("_")
    return found


def current_or_none() -> Trace | None:
    """Return the recording that this Python thread runs, or None outside a kernel."""
    return _current.get()


def current() -> Trace:
    """Return the recording that this Python thread runs. Raises :class:`TraceError` outside a kernel."""
    trace = _current.get()
    if trace is None:
        raise TraceError(
            "this call records an instruction, and no kernel is being recorded",
            hint="make this call inside a @kernel function, while .ptx(), .module() or a call records it",
        )
    return trace
