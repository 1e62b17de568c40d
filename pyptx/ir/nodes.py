"""The nodes of the IR: operands, statements, functions, modules. :mod:`.data` has debug data and
initializers.

All nodes are frozen and compare by value, so an IR that was printed and read back equals the original.
Comparisons ignore source locations.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import TypeAlias

from ..core.records import dataclass
from ..core.source import SourceLocation
from ..core.types import ScalarType
from ..core.waivers import Waiver
from .data import Attribute, Initial, InitialList, Loc, ModuleDirective, Pointer, Pragma

#: Types of texture, sampler and surface variables: handles whose size a program cannot see.
OPAQUE_TYPES = {name: ScalarType(name, 64, "b") for name in ("texref", "samplerref", "surfref")}

# --- operands ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register. ``name`` does not have the ``%``, which the printer adds.

    ``vector`` is 2 or 4 for a vector register (``.reg .v4 .f32 %v``); :class:`Element` selects a part of it.
    """

    name: str
    type: ScalarType
    vector: int = 1

    def __str__(self) -> str:
        return "%" + self.name


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``%tid.x``; ``name`` does not have the ``%``."""

    name: str

    def __str__(self) -> str:
        return "%" + self.name


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. Integers print in decimal; floats as ``0f``/``0d`` bit patterns of ``bits`` bits.

    ``pattern`` has the bits of a NaN that was read from text, since a Python float would lose its payload.
    """

    value: int | float
    bits: int = 64
    pattern: int | None = None

    def _key(self) -> tuple[int | float | str, int, int | None]:
        """Return the value to compare constants by: for a NaN, which does not equal itself, its text."""
        if self.value != self.value:
            return (str(self), self.bits, None)
        return (self.value, self.bits, self.pattern)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Immediate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    @staticmethod
    def from_pattern(pattern: int, bits: int) -> Immediate:
        """Return the float constant with the bits ``pattern``."""
        value: float = struct.unpack(">f" if bits == 32 else ">d", pattern.to_bytes(bits // 8, "big"))[0]
        return Immediate(math.nan, bits, pattern) if math.isnan(value) else Immediate(value, bits)

    def __str__(self) -> str:
        if isinstance(self.value, float):
            if self.pattern is not None:
                return f"{'0f' if self.bits == 32 else '0d'}{self.pattern:0{self.bits // 4}X}"
            if self.bits == 32:
                return "0f" + struct.pack(">f", self.value).hex().upper()
            return "0d" + struct.pack(">d", self.value).hex().upper()
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, parameter or function, with a constant byte offset."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return self.name if not self.offset else f"{self.name}+{self.offset}"


@dataclass(frozen=True, slots=True)
class Indexed:
    """``a[3]`` or ``a[%r+1]``: an element of an array. ``ld`` takes it as an address, ``mov`` as a value."""

    name: str
    index: Register | Sum | Immediate

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


@dataclass(frozen=True, slots=True)
class BranchTarget:
    """A label used as an operand."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Sink:
    """The bit bucket ``_``."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p``: a negated predicate operand."""

    register: Register

    def __str__(self) -> str:
        return f"!{self.register}"


@dataclass(frozen=True, slots=True)
class Element:
    """Part of a register: ``%v.x`` of a vector register, ``%r.b0`` or ``%r.h1`` of a video operand."""

    register: Register
    selector: str

    def __str__(self) -> str:
        return f"{self.register}.{self.selector}"


@dataclass(frozen=True, slots=True)
class Minus:
    """``-%r``: a negated source of ``vmad``."""

    operand: Register | Element

    def __str__(self) -> str:
        return f"-{self.operand}"


@dataclass(frozen=True, slots=True)
class Sum:
    """``%r+4``: a source operand, outside an address, that adds a constant to a register."""

    register: Register
    offset: int

    def __str__(self) -> str:
        return f"{self.register}+{self.offset}"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``: a vector operand."""

    elements: tuple[Register | Immediate | Sink | Symbol | Special | Element | Vector, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.elements)) + "}"


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: one operand with two destinations; ``{a, b, c, d}|p`` in texture instructions."""

    first: Register | Sink | Vector
    second: Register | Sink

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``, or ``[base, {c0, c1}]`` with tensor or texture coordinates.

    ``extra`` has the operands between base and coordinates: the sampler of ``[texture, sampler, {x, y}]``,
    the single coordinate of ``[texture, x]``, or the operands that replace a tensor map's properties.
    ``suffix`` is the name after the bracket (``unified``).  ``zero`` means that the text has an offset of 0,
    which ptxas really adds when it does not optimize.
    """

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: Vector | None = None
    extra: tuple[Register | Symbol | Immediate | Special | Vector, ...] = ()
    suffix: str = ""
    zero: bool = False

    def __str__(self) -> str:
        inner = str(self.base)
        if self.offset or self.zero:
            inner += f"+{self.offset}"  # ptxas accepts [a+-4], but not [a-4]
        for operand in self.extra:
            inner += f", {operand}"
        if self.coordinates is not None:
            inner += f", {self.coordinates}"
        return f"[{inner}].{self.suffix}" if self.suffix else f"[{inner}]"


@dataclass(frozen=True, slots=True)
class Arguments:
    """``(a, b)``: the results or the arguments of a ``call``."""

    elements: tuple[Register | Immediate | Sink | Symbol | Special | Element | Vector, ...] = ()

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.elements)) + ")"


Operand: TypeAlias = (
    Register
    | Special
    | Immediate
    | Symbol
    | BranchTarget
    | Sink
    | Negated
    | Pair
    | Vector
    | Address
    | Element
    | Minus
    | Sum
    | Indexed
    | Arguments
)

# --- statements -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

    register: Register
    negated: bool = False

    def __str__(self) -> str:
        return f"@!{self.register}" if self.negated else f"@{self.register}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@guard opcode.mod.mod operands;``.

    ``opcode`` is the part before the first dot, and ``modifiers`` are the later parts without their dots:
    ``mbarrier.try_wait.parity.shared::cta.b64`` is ``("mbarrier", ("try_wait", "parity",
    "shared::cta", "b64"))``.
    """

    opcode: str
    modifiers: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    guard: Guard | None = None
    source: SourceLocation | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The dotted name, as in the text."""
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        head = f"{self.guard} {self.name}" if self.guard is not None else self.name
        if self.operands:
            head += " " + ", ".join(map(str, self.operands))
        return head + ";"


@dataclass(frozen=True, slots=True)
class LabelStatement:
    """``name:``, a label among the statements."""

    name: str
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Raw:
    """Verbatim text from the author (``ptx.raw``), which pyptx neither checks nor simulates."""

    text: str
    source: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TargetList:
    """``name: .branchtargets L1, L2;`` or ``.calltargets``, for ``brx.idx`` and indirect calls."""

    name: str
    kind: str
    targets: tuple[str, ...]
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: .{self.kind} {', '.join(self.targets)};"


@dataclass(frozen=True, slots=True)
class CallPrototype:
    """``name: .callprototype (.param .b32 _) _ (.param .b64 _);``, the signature of an indirect call."""

    name: str
    returns: tuple[Param, ...] = ()
    params: tuple[Param, ...] = ()
    directives: tuple[Directive, ...] = ()
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        returns = f"({', '.join(map(str, self.returns))}) " if self.returns else ""
        tail = "".join(f" {d}" for d in self.directives)
        return f"{self.name}: .callprototype {returns}_ ({', '.join(map(str, self.params))}){tail};"


@dataclass(frozen=True, slots=True)
class ScopeMark:
    """``{`` or ``}`` among statements.

    Names are unique in a function, so a scope hides no name. It ends the life of the :class:`Variable`
    statements in it, which matters where ptxas places them.
    """

    opens: bool
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "{" if self.opens else "}"


#: Only an ``Instruction`` is executed.  A ``Variable`` is a statement if it is in ``.param`` or ``.local``
#: space and its scope matters, such as the arguments of a call.
Statement: TypeAlias = (
    "Instruction | LabelStatement | Raw | TargetList | CallPrototype | Loc | Pragma | ScopeMark | Variable"
)

# --- declarations -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space: ``.shared .align 16 .b8 name[size];``.

    ``count`` is the number of elements; None means a scalar, and 0 with ``external`` an unsized ``.extern``
    array (dynamic shared memory).  ``shape`` has the extents of an array with several dimensions, whose
    product is ``count``; ``vector`` is 2, 4 or 8 for elements of ``.v2`` to ``.v8``; ``linkage`` is
    ``visible``, ``weak``, ``common`` or empty (``external`` stands for ``.extern``).
    """

    name: str
    space: str
    type: ScalarType
    count: int | None = None
    align: int | None = None
    external: bool = False
    source: SourceLocation | None = field(default=None, compare=False)
    shape: tuple[int, ...] = ()
    vector: int = 1
    linkage: str = ""
    attributes: tuple[Attribute, ...] = ()
    initial: Initial | InitialList | None = None

    @property
    def nbytes(self) -> int:
        """Size of the variable in bytes."""
        return self.type.nbytes * self.vector * (1 if self.count is None else self.count)

    def __str__(self) -> str:
        parts = [f".{self.linkage}"] if self.linkage else []
        if self.external:
            parts.append(".extern")
        parts.append("." + self.space)
        parts += map(str, self.attributes)
        parts += _layout(self.align, self.vector, self.type)
        parts.append(_array(self.name, self.count, self.shape))
        if self.initial is not None:
            parts.append(f"= {self.initial}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a kernel or device function, or the result of a device function.

    ``count`` is the number of elements of an array passed by value (a tensor map is 128 ``b8``), or None.
    ``pointer`` describes the memory to which a pointer points.  ``space`` is ``reg`` if a device function
    passes a register; ``name`` is then the register's name.
    """

    name: str
    type: ScalarType
    count: int | None = None
    align: int | None = None
    source: SourceLocation | None = field(default=None, compare=False)
    space: str = "param"
    shape: tuple[int, ...] = ()
    vector: int = 1
    pointer: Pointer | None = None

    @property
    def nbytes(self) -> int:
        """Size of the parameter in bytes."""
        return self.type.nbytes * self.vector * (1 if self.count is None else self.count)

    def __str__(self) -> str:
        parts = ["." + self.space, *_layout(self.align, self.vector, self.type)]
        if self.pointer is not None:
            parts.append(str(self.pointer))
        name = "%" + self.name if self.space == "reg" and self.name != "_" else self.name
        parts.append(_array(name, self.count, self.shape))
        return " ".join(parts)


def _layout(align: int | None, vector: int, type: ScalarType) -> list[str]:
    parts = [] if align is None else [f".align {align}"]
    if vector != 1:
        parts.append(f".v{vector}")
    return [*parts, "." + type.name]


def _array(name: str, count: int | None, shape: tuple[int, ...]) -> str:
    if count is None:
        return name
    return name + "".join(f"[{n}]" if n else "[]" for n in shape or (count,))


@dataclass(frozen=True, slots=True)
class Directive:
    """A performance directive of an entry: ``.maxntid 128, 1, 1``; ``name`` does not have the dot."""

    name: str
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (f".{self.name}", ", ".join(map(str, self.values)))))


class RingSide(enum.Enum):
    """What the mbarriers of a ring signal: that a stage is filled, or that it may be filled again."""

    FULL = "full"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class RingBarriers:
    """The range is one side of a pipeline ring: one mbarrier of 8 bytes for each stage.

    Attributes:
        ring: number of the ring in its function; both sides of a ring have the same number.
        name: name of the ring, for people.
        side: what the mbarriers signal.
    """

    ring: int
    name: str
    side: RingSide


@dataclass(frozen=True, slots=True)
class SharedRange:
    """A named part of a shared variable: a buffer that the author allocated in it.

    PTX text has no ranges: the printer leaves them out, and a module that was parsed has none.

    Attributes:
        name: the buffer's name, for messages; several buffers may have one name.
        offset: bytes from the beginning of the variable.
        size: bytes of the buffer, without the padding after it.
        source: the author's line that allocated the buffer.
        variable: name of the shared variable that the range is a part of.
        type: type of the elements; None if it is not known.
        shape: elements along each axis of one stage, innermost last; empty if it is not known.
        swizzle: how copies and tensor cores permute the buffer.
        stage_bytes: bytes from one stage to the next; 0 for a buffer without stages.
        ring: for the mbarriers of a ring, the ring and the side.
    """

    name: str
    offset: int
    size: int
    source: SourceLocation | None
    variable: str
    type: ScalarType | None = None
    shape: tuple[int, ...] = ()
    swizzle: str = "none"
    stage_bytes: int = 0
    ring: RingBarriers | None = None


@dataclass(frozen=True)
class Function:
    """An entry (kernel) or a device function: parameters, directives, declarations, statements.

    ``kind`` is ``entry`` or ``func``.  ``linkage`` is ``visible``, ``extern``, ``weak`` or empty.  A
    ``prototype`` has no body.  Registers are grouped by type, as in the text's declarations.
    ``shared_ranges`` are the buffers in shared memory, ordered by their offsets within a variable; they are
    not printed, and comparisons ignore them. The same holds for ``waivers``, findings of the simulator
    that the author accepts.
    """

    name: str
    params: tuple[Param, ...] = ()
    directives: tuple[Directive, ...] = ()
    registers: tuple[Register, ...] = ()
    variables: tuple[Variable, ...] = ()
    body: tuple[Statement, ...] = ()
    source: SourceLocation | None = field(default=None, compare=False)
    kind: str = "entry"
    linkage: str = "visible"
    returns: tuple[Param, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    pragmas: tuple[Pragma, ...] = ()
    prototype: bool = False
    shared_ranges: tuple[SharedRange, ...] = field(default=(), compare=False)
    waivers: tuple[Waiver, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        groups: dict[tuple[ScalarType, int], list[Register]] = {}
        for register in self.registers:
            groups.setdefault((register.type, register.vector), []).append(register)
        object.__setattr__(self, "registers", tuple(r for group in groups.values() for r in group))

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions among the statements."""
        for statement in self.body:
            if isinstance(statement, Instruction):
                yield statement

    def directive(self, name: str) -> tuple[int, ...] | None:
        """Return the values of the directive ``name``, or None if the entry does not have it."""
        for directive in self.directives:
            if directive.name == name:
                return directive.values
        return None


@dataclass(frozen=True)
class Module:
    """One PTX translation unit. ``version`` is (major, minor).

    ``functions`` has entries, device functions and prototypes in the order of the text; ``target_options``
    has the names after the architecture in ``.target`` (``debug``, ``texmode_independent``); ``directives``
    has pragmas, ``.file``, ``.alias`` and ``.section``.
    """

    version: tuple[int, int]
    target: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...] = ()
    address_size: int = 64
    target_options: tuple[str, ...] = ()
    directives: tuple[ModuleDirective, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Function]:
        """Functions by name; if a prototype and a definition share a name, the definition."""
        return {f.name: f for f in sorted(self.functions, key=lambda f: not f.prototype)}

    @cached_property
    def entries(self) -> dict[str, Function]:
        """The kernels by name."""
        return {n: f for n, f in self.by_name.items() if f.kind == "entry" and not f.prototype}

    def entry(self, name: str | None = None) -> Function:
        """Return the kernel that ``name`` means, or the only kernel if ``name`` is None.

        The name of a C++ kernel is its mangled name, or an unambiguous part of ``void ns::axpy<4>(float*)``
        (:func:`~.mangling.find_names`).

        Raises:
            KeyError: there is no such kernel, or there are several; the message lists them.
        """
        from .mangling import find_names, readable

        entries = self.entries
        found = list(entries) if name is None else find_names(name, entries)
        if len(found) == 1:
            return entries[found[0]]
        listed = ", ".join(map(readable, found or entries)) or "none"
        if name is None:
            raise KeyError(f"which entry is meant? The module has: {listed}")
        if found:
            raise KeyError(f"several entries are called {name!r}: {listed}")
        raise KeyError(f"no entry {name!r}; the module has: {listed}")
