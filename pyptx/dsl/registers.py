"""Registers as Python values: :class:`Reg` and the lazily negated predicate.

Owns the Python side of a register: its identity, type and views, and the operations that it refuses
(``bool(r)``, ``if r``, iteration).  ``a + b`` and the other operators record one instruction each, which
:mod:`.operators` chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core.errors import OperandError, TraceError
from ..core.source import SourceLocation
from ..core.types import ScalarType, pred
from ..ir import Guard, Operand, Register
from . import operators
from .call_sites import here
from .operators import Operation, Term
from .regions import Made, Region, dominates
from .trace import Trace, current
from .types import declared, the_type

__all__ = ["NotPred", "Reg", "materialize", "move", "new_register", "owned", "result", "writable"]

Number = int | float


class Reg(Term):
    """A register of the kernel being recorded. Made by ``reg.scalar`` and by every operator.

    Equality and hashing: ``a == b`` records a comparison, so registers are hashed by identity, and ``in``
    over registers is refused.

    Attributes:
        type: PTX type of the value, as the author sees it.
        name: name in the text, without ``%``.
        source: the author's line that made the register.
    """

    __slots__ = ("position", "read_only", "region", "source", "trace")
    __hash__ = object.__hash__
    #: With this attribute, a numpy scalar on the left of an operator leaves the operation to the register.
    __array_ufunc__ = None

    def __init__(
        self,
        trace: Trace,
        operand: Register,
        kind: ScalarType,
        region: Region,
        source: SourceLocation | None,
        read_only: str = "",
    ) -> None:
        self.trace = trace
        self.operand = operand
        self.type = kind
        self.region = region
        #: Number of statements of the recording when the register was made.
        self.position = len(trace.statements)
        self.source = source
        #: Text that describes the register, if it is shared and must not be written; else empty.
        self.read_only = read_only

    @property
    def name(self) -> str:
        return self.operand.name

    def __repr__(self) -> str:
        return f"<{self.operand} {self.type}>"

    # --- what records nothing -----------------------------------------------------------------

    def view(self, kind: ScalarType) -> Reg:
        """Return this register with another type of the same width. Records nothing.

        A register that is viewed as another kind (integer as float, typed as bits) is declared with the bit
        type of its width, which every instruction of that width accepts.

        Raises:
            OperandError: a type of another width, or a predicate.
        """
        owned(self, current())
        if the_type(kind).bits != self.type.bits or pred in (kind, self.type):
            raise OperandError(
                f"{self} is .{self.type} and cannot be viewed as {kind!r}: a view has the same width",
                hint="convert the value instead: ptx.inst.cvt...",
            )
        operand, wanted = self.operand, declared(kind)
        integers = {wanted.kind, operand.type.kind} <= {"u", "s"}
        # A register of 8 bits takes every view as it is.
        if wanted is not operand.type and wanted.bits == operand.type.bits and not integers:
            self.trace.untyped.add(operand.name)
            operand = Register(operand.name, wanted)
        seen = Reg(self.trace, operand, kind, self.region, self.source, self.read_only)
        seen.position = self.position
        return seen

    # --- what records one instruction ---------------------------------------------------------

    def set(self, value: Reg | NotPred | Number) -> None:
        """Write ``value`` into this register. Records one ``mov`` (``not.pred`` for ``~p``).

        Raises:
            OperandError: a value of another type, or a number that does not fit.
            TraceError: this register is read-only, such as a tile's pointer or a buffer's address.
        """
        trace = current()
        writable(owned(self, trace))
        move(trace, self, value, here()[1])

    def __add__(self, other: Any) -> Reg:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Reg:
        return _binary("add", other, self)

    def __iadd__(self, other: Any) -> Reg:
        return _in_place("add", self, other)

    def __sub__(self, other: Any) -> Reg:
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> Reg:
        return _binary("sub", other, self)

    def __isub__(self, other: Any) -> Reg:
        return _in_place("sub", self, other)

    def __mul__(self, other: Any) -> Reg:
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> Reg:
        return _binary("mul", other, self)

    def __imul__(self, other: Any) -> Reg:
        return _in_place("mul", self, other)

    def __floordiv__(self, other: Any) -> Reg:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Reg:
        return _binary("floordiv", other, self)

    def __ifloordiv__(self, other: Any) -> Reg:
        return _in_place("floordiv", self, other)

    def __truediv__(self, other: Any) -> Reg:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Reg:
        return _binary("div", other, self)

    def __itruediv__(self, other: Any) -> Reg:
        return _in_place("div", self, other)

    def __mod__(self, other: Any) -> Reg:
        return _binary("rem", self, other)

    def __rmod__(self, other: Any) -> Reg:
        return _binary("rem", other, self)

    def __imod__(self, other: Any) -> Reg:
        return _in_place("rem", self, other)

    def __and__(self, other: Any) -> Reg:
        return _binary("and", self, other)

    def __rand__(self, other: Any) -> Reg:
        return _binary("and", other, self)

    def __iand__(self, other: Any) -> Reg:
        return _in_place("and", self, other)

    def __or__(self, other: Any) -> Reg:
        return _binary("or", self, other)

    def __ror__(self, other: Any) -> Reg:
        return _binary("or", other, self)

    def __ior__(self, other: Any) -> Reg:
        return _in_place("or", self, other)

    def __xor__(self, other: Any) -> Reg:
        return _binary("xor", self, other)

    def __rxor__(self, other: Any) -> Reg:
        return _binary("xor", other, self)

    def __ixor__(self, other: Any) -> Reg:
        return _in_place("xor", self, other)

    def __lshift__(self, other: Any) -> Reg:
        return _shift("shl", self, other)

    def __rlshift__(self, other: Any) -> Reg:
        return _shift("shl", other, self)

    def __ilshift__(self, other: Any) -> Reg:
        return _shift_in_place("shl", self, other)

    def __rshift__(self, other: Any) -> Reg:
        return _shift("shr", self, other)

    def __rrshift__(self, other: Any) -> Reg:
        return _shift("shr", other, self)

    def __irshift__(self, other: Any) -> Reg:
        return _shift_in_place("shr", self, other)

    def __neg__(self) -> Reg:
        return _unary(operators.negate, self)

    def __pos__(self) -> Reg:
        return self

    def __invert__(self) -> Any:
        """Return ``~x``.

        Records one ``not`` for an integer; nothing for a predicate until its use as a value.

        The result is a :class:`NotPred` for a predicate, else a :class:`Reg`; a type checker cannot know
        which.
        """
        if self.type is pred:
            owned(self, current())
            return NotPred(self)
        return _unary(operators.complement, self)

    def __lt__(self, other: Any) -> Reg:
        return _binary("lt", self, other)

    def __le__(self, other: Any) -> Reg:
        return _binary("le", self, other)

    def __gt__(self, other: Any) -> Reg:
        return _binary("gt", self, other)

    def __ge__(self, other: Any) -> Reg:
        return _binary("ge", self, other)

    def __eq__(self, other: Any) -> Reg:  # type: ignore[override]
        return _binary("eq", self, other)

    def __ne__(self, other: Any) -> Reg:  # type: ignore[override]
        return _binary("ne", self, other)

    # --- what a register is not ---------------------------------------------------------------

    def __bool__(self) -> NoReturn:
        raise _no_truth(f"the register {self} ({self.type})")

    def _no_value(self) -> NoReturn:
        raise TraceError(
            f"the register {self} ({self.type}) has no value while the kernel is recorded",
            hint="record the computation that needs it: ptx.for_(0, n) instead of range(n), ptx.sqrt(x) "
            "instead of math.sqrt(x); or use a Python number",
        )

    def __int__(self) -> NoReturn:
        self._no_value()

    def __float__(self) -> NoReturn:
        self._no_value()

    def __index__(self) -> NoReturn:
        self._no_value()

    def __abs__(self) -> NoReturn:
        raise OperandError(
            f"abs({self}): Python's abs does not work on registers",
            hint="use ptx.abs(x), which is one instruction",
        )

    def __pow__(self, other: object) -> NoReturn:
        raise OperandError(
            f"{self} ** {other!r}: PTX has no power instruction",
            hint="multiply, or use ptx.ex2(y * ptx.lg2(x))",
        )

    def __iter__(self) -> NoReturn:
        raise TraceError(
            f"the register {self} is one value and cannot be iterated over",
            hint="reg.array(type, n) makes n registers; ptx.for_(start, stop) loops in the kernel",
        )


class NotPred:
    """``~p``: a negated predicate.

    As a guard, in ``ptx.if_`` and in operands that take ``!p``, it records no instruction of its own; any
    other use records one ``not.pred``.
    """

    __slots__ = ("register",)
    __hash__ = object.__hash__

    def __init__(self, register: Reg) -> None:
        self.register = register

    type = pred

    def __repr__(self) -> str:
        return f"<!{self.register}>"

    def __invert__(self) -> Reg:
        return self.register

    def __and__(self, other: Any) -> Reg:
        return _binary("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Reg:
        return _binary("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Reg:
        return _binary("xor", self, other)

    __rxor__ = __xor__

    def __eq__(self, other: Any) -> Reg:  # type: ignore[override]
        return _binary("eq", self, other)

    def __ne__(self, other: Any) -> Reg:  # type: ignore[override]
        return _binary("ne", self, other)

    def __bool__(self) -> NoReturn:
        raise _no_truth(f"the predicate !{self.register}")


def _no_truth(what: str) -> TraceError:
    return TraceError(
        f"{what} has no truth value while the kernel is recorded",
        hint="branch with `with ptx.if_(p):`, guard an instruction with pred=p, "
        "and combine predicates with & | ~ instead of and, or, not",
    )


def owned(register: Reg, trace: Trace) -> Reg:
    """Return ``register`` if it was made in ``trace``; note in ``trace`` if it may have no value here.

    Raises :class:`TraceError` for a register of another kernel or of an earlier recording.
    """
    if register.trace is not trace:
        state = "has ended" if register.trace.finished else "is another one"
        where = f", made at {register.source}" if register.source is not None else ""
        raise TraceError(
            f"the register {register}{where} belongs to a recording of the kernel {register.trace.name}, "
            f"which {state}",
            hint="a device function has its own registers: pass it as an argument"
            if register.trace.builder is trace.builder
            else "a register belongs to one recording of one kernel: make it inside the kernel function",
        )
    if not register.region.open and not dominates(register.region, register.position):
        made = Made(register.name, register.type, register.region, register.position, register.source)
        trace.doubtful[register.name] = made
    return register


# --- making registers -----------------------------------------------------------------------------


def new_register(
    trace: Trace,
    kind: ScalarType,
    hint: str,
    source: SourceLocation | None,
    storage: ScalarType | None = None,
) -> Reg:
    """Make a register named after ``hint`` and declared as ``storage`` or for its kind. Records nothing."""
    register = Register(trace.free_name(hint), storage or declared(kind))
    trace.adopt(register, hint)
    return Reg(trace, register, kind, trace.region, source)


def result(
    trace: Trace,
    kind: ScalarType,
    opcode: str,
    modifiers: tuple[str, ...],
    operands: tuple[Operand, ...],
    hint: str,
    guard: Guard | None = None,
    storage: ScalarType | None = None,
) -> Reg:
    """Record one instruction whose first operand is a new register of ``kind``, and return the register.

    The register is named after the variable that the caller's statement assigns, else after ``hint``. It is
    declared with type ``storage``, by default with the declared type of ``kind``.
    """
    site, source = here()
    hint = site.name or hint
    destination = Register(trace.free_name(hint), storage or declared(kind))
    binding = trace.check(opcode, modifiers, (destination, *operands))
    trace.adopt(destination, hint)
    trace.append(binding, guard, source)
    return Reg(trace, destination, kind, trace.region, source)


def materialize(value: Any, trace: Trace) -> Any:
    """Return ``value``; a register must belong to the recording, and ``~p`` is computed by a ``not.pred``."""
    if isinstance(value, Reg):
        return owned(value, trace)
    if isinstance(value, NotPred):
        register = owned(value.register, trace)
        source = here()[1]
        destination = new_register(trace, pred, f"not_{register.name}", source)
        trace.record("not", ("pred",), (destination.operand, register.operand), source=source)
        return destination
    return value


def writable(register: Reg) -> Reg:
    """Return ``register``, or raise :class:`TraceError` if the author must not write it, only copy it."""
    if register.read_only:
        raise TraceError(
            f"{register} is {register.read_only}, shared by all of its uses, and must not be written",
            hint=f"copy it: x = reg.scalar({register.type}, init=...), then change x",
        )
    return register


# --- recording operators --------------------------------------------------------------------------


def _record(trace: Trace, operation: Operation) -> Reg:
    hint = "p" if operation.type is pred else "t"
    return result(trace, operation.type, operation.opcode, operation.modifiers, operation.operands, hint)


def _record_in_place(trace: Trace, register: Reg, operation: Operation) -> Reg:
    """Record an instruction that writes ``register``, which exists already."""
    trace.record(operation.opcode, operation.modifiers, (register.operand, *operation.operands))
    return register


def _binary(operation: str, left: Any, right: Any) -> Reg:
    """Record ``left OP right`` into a new register: one instruction, and one more for each ``~p`` operand."""
    trace = current()
    if isinstance(left, NotPred) or isinstance(right, NotPred):
        with trace.atomic():
            left, right = materialize(left, trace), materialize(right, trace)
            return _record(trace, operators.binary(operation, left, right))
    left, right = materialize(left, trace), materialize(right, trace)
    return _record(trace, operators.binary(operation, left, right))


def _in_place(operation: str, register: Reg, other: Any) -> Reg:
    """Record ``register OP= other``, one instruction that writes ``register``, and return ``register``."""
    trace = current()
    writable(owned(register, trace))
    if isinstance(other, NotPred):
        with trace.atomic():
            other = materialize(other, trace)
            return _record_in_place(trace, register, operators.binary(operation, register, other))
    other = materialize(other, trace)
    return _record_in_place(trace, register, operators.binary(operation, register, other))


def _shift(operation: str, value: Any, amount: Any) -> Reg:
    trace = current()
    for given in (value, amount):
        if isinstance(given, Reg):
            owned(given, trace)
    return _record(trace, operators.shift(operation, value, amount))


def _shift_in_place(operation: str, register: Reg, amount: Any) -> Reg:
    trace = current()
    writable(owned(register, trace))
    if isinstance(amount, Reg):
        owned(amount, trace)
    return _record_in_place(trace, register, operators.shift(operation, register, amount))


def _unary(operation: Callable[[Term], Operation], register: Reg) -> Reg:
    trace = current()
    return _record(trace, operation(owned(register, trace)))


def move(trace: Trace, register: Reg, value: Any, source: SourceLocation) -> None:
    """Record one instruction that copies ``value`` to ``register``: ``mov``, or ``not.pred`` for ``~p``."""
    if isinstance(value, NotPred):
        if register.type is not pred:
            raise OperandError(f"{register} is .{register.type} and cannot hold a predicate")
        origin = owned(value.register, trace)
        trace.record("not", ("pred",), (register.operand, origin.operand), source=source)
        return
    copied = operators.copy(register, owned(value, trace) if isinstance(value, Reg) else value)
    operands = (register.operand, *copied.operands)
    trace.record(copied.opcode, copied.modifiers, operands, source=source)
