"""Registers as Python values: :class:`Reg`, the lazily negated predicate, and arrays of registers.

Owns the Python side of a register: its identity, type and views, and the operations that it refuses
(``bool(r)``, ``if r``, iteration).  :mod:`.operators` records ``a + b`` and the other operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, overload

from ..core.errors import OperandError, TraceError
from ..core.source import SourceLocation
from ..core.types import ScalarType, pred
from ..ir import Register
from . import operators
from .regions import Made, Region, dominates
from .trace import Trace, current
from .types import declared, the_type

__all__ = ["NotPred", "Reg", "RegArray", "owned"]

Number = int | float


class Reg:
    """A register of the kernel being recorded. Made by ``reg.scalar`` and by every operator.

    Equality and hashing: ``a == b`` records a comparison, so registers are hashed by identity, and ``in``
    over registers is refused.

    Attributes:
        type: PTX type of the value, as the author sees it.
        name: name in the text, without ``%``.
        source: the author's line that made the register.
    """

    __slots__ = ("operand", "position", "read_only", "region", "source", "trace", "type")
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

    def __str__(self) -> str:
        return str(self.operand)

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
            TraceError: this register is shared and must not be written.
        """
        operators.assign(self, value)

    def __add__(self, other: Any) -> Reg:
        return operators.binary("add", self, other)

    def __radd__(self, other: Any) -> Reg:
        return operators.binary("add", other, self)

    def __iadd__(self, other: Any) -> Reg:
        return operators.in_place("add", self, other)

    def __sub__(self, other: Any) -> Reg:
        return operators.binary("sub", self, other)

    def __rsub__(self, other: Any) -> Reg:
        return operators.binary("sub", other, self)

    def __isub__(self, other: Any) -> Reg:
        return operators.in_place("sub", self, other)

    def __mul__(self, other: Any) -> Reg:
        return operators.binary("mul", self, other)

    def __rmul__(self, other: Any) -> Reg:
        return operators.binary("mul", other, self)

    def __imul__(self, other: Any) -> Reg:
        return operators.in_place("mul", self, other)

    def __floordiv__(self, other: Any) -> Reg:
        return operators.binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Reg:
        return operators.binary("floordiv", other, self)

    def __ifloordiv__(self, other: Any) -> Reg:
        return operators.in_place("floordiv", self, other)

    def __truediv__(self, other: Any) -> Reg:
        return operators.binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Reg:
        return operators.binary("div", other, self)

    def __itruediv__(self, other: Any) -> Reg:
        return operators.in_place("div", self, other)

    def __mod__(self, other: Any) -> Reg:
        return operators.binary("rem", self, other)

    def __rmod__(self, other: Any) -> Reg:
        return operators.binary("rem", other, self)

    def __imod__(self, other: Any) -> Reg:
        return operators.in_place("rem", self, other)

    def __and__(self, other: Any) -> Reg:
        return operators.binary("and", self, other)

    def __rand__(self, other: Any) -> Reg:
        return operators.binary("and", other, self)

    def __iand__(self, other: Any) -> Reg:
        return operators.in_place("and", self, other)

    def __or__(self, other: Any) -> Reg:
        return operators.binary("or", self, other)

    def __ror__(self, other: Any) -> Reg:
        return operators.binary("or", other, self)

    def __ior__(self, other: Any) -> Reg:
        return operators.in_place("or", self, other)

    def __xor__(self, other: Any) -> Reg:
        return operators.binary("xor", self, other)

    def __rxor__(self, other: Any) -> Reg:
        return operators.binary("xor", other, self)

    def __ixor__(self, other: Any) -> Reg:
        return operators.in_place("xor", self, other)

    def __lshift__(self, other: Any) -> Reg:
        return operators.shift("shl", self, other)

    def __rlshift__(self, other: Any) -> Reg:
        return operators.shift("shl", other, self)

    def __ilshift__(self, other: Any) -> Reg:
        return operators.shift_in_place("shl", self, other)

    def __rshift__(self, other: Any) -> Reg:
        return operators.shift("shr", self, other)

    def __rrshift__(self, other: Any) -> Reg:
        return operators.shift("shr", other, self)

    def __irshift__(self, other: Any) -> Reg:
        return operators.shift_in_place("shr", self, other)

    def __neg__(self) -> Reg:
        return operators.negate(self)

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
        return operators.complement(self)

    def __lt__(self, other: Any) -> Reg:
        return operators.compare("lt", self, other)

    def __le__(self, other: Any) -> Reg:
        return operators.compare("le", self, other)

    def __gt__(self, other: Any) -> Reg:
        return operators.compare("gt", self, other)

    def __ge__(self, other: Any) -> Reg:
        return operators.compare("ge", self, other)

    def __eq__(self, other: Any) -> Reg:  # type: ignore[override]
        return operators.compare("eq", self, other)

    def __ne__(self, other: Any) -> Reg:  # type: ignore[override]
        return operators.compare("ne", self, other)

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
        raise OperandError(f"abs({self}): Python's abs records nothing", hint="ptx.abs(x) is one instruction")

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
        return operators.binary("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Reg:
        return operators.binary("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Reg:
        return operators.binary("xor", self, other)

    __rxor__ = __xor__

    def __eq__(self, other: Any) -> Reg:  # type: ignore[override]
        return operators.compare("eq", self, other)

    def __ne__(self, other: Any) -> Reg:  # type: ignore[override]
        return operators.compare("ne", self, other)

    def __bool__(self) -> NoReturn:
        raise _no_truth(f"the predicate !{self.register}")


def _no_truth(what: str) -> TraceError:
    return TraceError(
        f"{what} has no truth value while the kernel is recorded",
        hint="branch with `with ptx.if_(p):`, guard an instruction with pred=p, "
        "and combine predicates with & | ~ instead of and, or, not",
    )


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


def owned(register: Reg, trace: Trace) -> Reg:
    """Return ``register`` if it belongs to ``trace``. If it may have no value here, ``trace`` stores this.

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
