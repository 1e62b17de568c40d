"""Register arrays with a layout: it maps their registers to the elements of a matrix.

Owns :class:`Fragment` and its declaration; :mod:`pyptx.layout.fragments` has the places of the elements.  The
units with fragments (``ptx.mma``, ``ptx.wgmma``) make them and accept them as operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ...core.errors import OperandError
from ...core.tuples import NamedTuple
from ...core.types import TYPES, ScalarType, u32
from ...ir import Immediate, Operand, Register, Special
from ...layout import Coordinate, FragmentLayout
from .. import reg
from ..call_sites import here
from ..operands import operand
from ..register_arrays import RegArray
from ..registers import Reg, new_register
from ..trace import Trace, current

__all__ = ["Fragment", "Origin", "Position", "declare", "type_name"]


class Position(NamedTuple):
    """Row and column of an element as functions of the thread."""

    row: Coordinate
    column: Coordinate


class Origin(NamedTuple):
    """Registers with the row and the column of this thread's element 0.

    ``matrix`` is the number of the thread's matrix if the instruction has several, otherwise None.
    """

    row: Reg
    column: Reg
    matrix: Reg | None = None


class Fragment(RegArray):
    """One operand's registers in one thread. It can be indexed, sliced, iterated, and passed as an operand.

    Elements have the numbers of the manual (``d0``, ``d1`` ...), from the low bits of the first register on;
    with 32-bit elements, element ``i`` is register ``i``.  A slice is a fragment of some registers: its
    elements are numbered from 0 and keep their places in the matrix.

    Attributes:
        layout: the place of every element of every thread.
        operand: ``"a"``, ``"b"``, ``"c"`` or ``"d"``.
        shape: shape of the instruction, such as ``"m16n8k16"``; wgmma omits K: ``"m64n256"`` or ``"m64"``.
        dtype: type of the elements, in PTX's spelling.
        sparse: True if the fragment belongs to a product with a sparse A.
    """

    __slots__ = ("dtype", "indices", "layout", "operand", "shape", "sparse")

    def __init__(
        self,
        registers: Sequence[Reg],
        kind: ScalarType,
        name: str,
        *,
        layout: FragmentLayout,
        operand: str,
        shape: str,
        dtype: str,
        sparse: bool,
        indices: Sequence[int] | None = None,
    ) -> None:
        super().__init__(registers, kind, name)
        self.layout = layout
        self.operand = operand
        self.shape = shape
        self.dtype = dtype
        self.sparse = sparse
        #: Numbers of these registers in the layout.
        self.indices = tuple(indices if indices is not None else range(len(self.registers)))

    def __repr__(self) -> str:
        part = "" if self.whole else f" of {self.layout.registers}"
        return (
            f"<{self.name}: {self.operand} of {self.shape} in {self.dtype}, {len(self)}{part} x {self.type}>"
        )

    @overload
    def __getitem__(self, index: int) -> Reg: ...

    @overload
    def __getitem__(self, index: slice) -> Fragment: ...

    def __getitem__(self, index: int | slice) -> Reg | Fragment:
        if not isinstance(index, slice):
            return super().__getitem__(index)
        return Fragment(
            self.registers[index],
            self.type,
            self.name,
            layout=self.layout,
            operand=self.operand,
            shape=self.shape,
            dtype=self.dtype,
            sparse=self.sparse,
            indices=self.indices[index],
        )

    @property
    def whole(self) -> bool:
        """True if the fragment has every register of the operand, in order."""
        return self.indices == tuple(range(self.layout.registers))

    @property
    def elements(self) -> int:
        """Number of elements that these registers hold."""
        return len(self) * self.layout.elements // self.layout.registers

    # --- where the elements lie: numbers, which record nothing ----------------------------------

    def _element(self, element: int) -> int:
        if not 0 <= element < self.elements:
            raise OperandError(f"element {element} of {self!r}: expected 0..{self.elements - 1}")
        each = self.layout.elements // self.layout.registers
        return self.indices[element // each] * each + element % each

    def register(self, element: int) -> tuple[Reg, int]:
        """Return the register that holds ``element``, and the part of it, counted from the low bits.

        Raises:
            OperandError: no such element.
        """
        self._element(element)
        each = self.layout.elements // self.layout.registers
        return self.registers[element // each], element % each

    def row(self, element: int, thread: int = 0) -> int:
        """Return the row of ``element`` in thread ``thread`` (of the warp, or of wgmma's warpgroup).

        In every thread, ``element`` lies as many rows below element 0 as in thread 0: add ``row(i)`` to the
        row of :meth:`origin`.

        Raises:
            OperandError: no such element.
            SpecError: no such thread.
        """
        return self.layout.place(self._element(element), thread).row

    def column(self, element: int, thread: int = 0) -> int:
        """Return the column of ``element`` in thread ``thread``; see :meth:`row`."""
        return self.layout.place(self._element(element), thread).column

    def coordinates(self, element: int = 0) -> Position:
        """Return the row and the column of ``element`` as functions of the thread.

        ``str(acc.coordinates(2).row)`` is ``8 + (thread >> 2) % 8 + 16 * ((thread >> 5) % 4)``; a coordinate
        that is called with a thread's number returns the row or column.

        Raises:
            OperandError: no such element.
        """
        number = self._element(element)
        return Position(self.layout.coordinate("row", number), self.layout.coordinate("column", number))

    # --- where this thread's elements lie: registers --------------------------------------------

    def origin(self, thread: Reg | None = None) -> Origin:
        """Compute the row and column of this thread's first element, in u32 registers.

        Element ``i`` of the operand lies ``row(i)`` rows and ``column(i)`` columns further.

        Records, for each digit of the thread's number that matters, one ``shr.u32`` (none for the lowest)
        and one ``and.b32``; one ``shl.b32`` for the first digit of a coordinate if its step is not 1, and one
        ``mad.lo.u32`` for each further digit.  Without ``thread``, one ``mov.u32`` comes first.  For D of
        ``mma`` these are the ``mov`` and 4, for D of ``wgmma`` the ``mov`` and 7.

        Args:
            thread: number of the thread in its warp, or in its warpgroup (higher bits are ignored), a
                32-bit integer register; default: ``%laneid``, or ``%tid.x`` for a warpgroup, which is correct
                in blocks of one dimension.

        Raises:
            OperandError: a ``thread`` that is not a 32-bit integer register.
        """
        trace = current()
        source = here()[1]
        number = None if thread is None else operand(thread, trace)
        if number is not None and (
            not isinstance(number, Register) or number.type.bits != 32 or number.type.kind == "f"
        ):
            raise OperandError(f"thread is {thread!r}: expected a 32-bit integer register")
        with trace.atomic():
            if number is None:
                number = new_register(trace, u32, "thread", source).operand
                special = "laneid" if self.layout.thread_count == 32 else "tid.x"
                trace.record("mov", ("u32",), (number, Special(special)), source=source)
            axes = ("row", "column", "matrix") if self.layout.matrices > 1 else ("row", "column")
            found = [
                _evaluate(trace, self.layout.coordinate(axis), number, axis)  # type: ignore[arg-type]
                for axis in axes
            ]
        return Origin(*found)


def _evaluate(trace: Trace, coordinate: Coordinate, thread: Register, hint: str) -> Reg:
    """Record the instructions that compute ``coordinate`` for the executing thread; return the result."""
    source = here()[1]
    total: Reg | None = None
    for shift, extent, step in coordinate.terms:
        digit = new_register(trace, u32, hint if total is None and step == 1 else "digit", source)
        field: Operand = thread
        if shift:
            trace.record("shr", ("u32",), (digit.operand, field, Immediate(shift)), source=source)
            field = digit.operand
        trace.record("and", ("b32",), (digit.operand, field, Immediate(extent - 1)), source=source)
        if total is None:
            total = digit if step == 1 else new_register(trace, u32, hint, source)
            if step != 1:
                factor = Immediate(step.bit_length() - 1)
                trace.record("shl", ("b32",), (total.operand, digit.operand, factor), source=source)
        else:
            operands = (total.operand, digit.operand, Immediate(step), total.operand)
            trace.record("mad", ("lo", "u32"), operands, source=source)
    assert total is not None  # every operand lies along both axes of its matrix
    return total


#: Register of A and B by element type; the others are untyped 32 bits.
_MULTIPLICANDS = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32", "f64": "f64"}


def type_name(dtype: ScalarType | str) -> str:
    """Return a type in PTX's spelling, without the dot; some types (``s4``, ``e2m1``) exist only as names."""
    return dtype.name if isinstance(dtype, ScalarType) else str(dtype).lstrip(".")


def declare(
    layout: FragmentLayout, operand: str, shape: str, dtype: str, *, sparse: bool = False, name: str | None
) -> Fragment:
    """Declare the registers of a new fragment, named after the author's variable. Records nothing."""
    if operand in "ab":
        kind = TYPES[_MULTIPLICANDS.get(dtype, "b32")]
    else:
        kind = TYPES["f16x2" if dtype == "f16" else dtype]
    registers = reg.array(kind, layout.registers, name=name)
    return Fragment(
        registers.registers,
        kind,
        registers.name,
        layout=layout,
        operand=operand,
        shape=shape,
        dtype=dtype,
        sparse=sparse,
    )
