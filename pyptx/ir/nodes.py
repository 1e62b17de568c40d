"""The nodes: operands, statements, functions, modules (debug data and initializers: :mod:`.data`).

All are frozen.  Nodes that name a thing (:class:`Register`, :class:`Symbol`) compare by value, so an
IR that was printed and read back equals the original.  Source locations never take part in
comparisons.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ..core.source import SourceLocation
from ..core.types import ScalarType
from .data import Attribute, Initial, InitialList, Loc, ModuleDirective, Pointer, Pragma
from .mangling import find_names, readable

#: Types of texture, sampler and surface variables: handles without a size that a program could see.
OPAQUE_TYPES = {name: ScalarType(name, 64, "b") for name in ("texref", "samplerref", "surfref")}

# --- operands ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register. ``name`` is without the ``%`` that the printer adds.

    ``vector`` is 2 or 4 for a vector register (``.reg .v4 .f32 %v``); :class:`Element` selects from it.
    """

    name: str
    type: ScalarType
    vector: int = 1

    def __str__(self) -> str:
        return "%" + self.name


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``%tid.x``; ``name`` is without the ``%``."""

    name: str

    def __str__(self) -> str:
        return "%" + self.name


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. Integers print in decimal; floats as ``0f``/``0d`` bit patterns of ``bits`` width.

    ``pattern`` has the bits of a NaN read from text: a Python float would lose its payload.
    """

    value: int | float
    bits: int = 64
    pattern: int | None = None

    def _key(self) -> tuple[int | float | str, int, int | None]:
        """What constants are compared by: of a NaN, which equals nothing, the bits."""
        if self.value != self.value:
            return (str(self), self.bits, None)
        return (self.value, self.bits, self.pattern)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Immediate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    @staticmethod
    def from_pattern(pattern: int, bits: int) -> Immediate:
        """The float constant whose bits are ``pattern``."""
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
    """``a[3]`` or ``a[%r+1]``: an element of an array; an address to ``ld``, a value to ``mov``."""

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
    """``!p``: a predicate operand, negated."""

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
    """``%r+4``: a register and a constant, as a source outside of an address."""

    register: Register
    offset: int

    def __str__(self) -> str:
        return f"{self.register}+{self.offset}"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    elements: tuple[Register | Immediate | Sink | Symbol | Special | Element | Vector, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.elements)) + "}"


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: two destinations of one operand; ``{a, b, c, d}|p`` where a texture gives the first."""

    first: Register | Sink | Vector
    second: Register | Sink

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``, or ``[base, {c0, c1}]`` with tensor or texture coordinates.

    ``extra`` has what stands between: the sampler of ``[texture, sampler, {x, y}]``, the one coordinate of
    ``[texture, x]``, or what replaces a tensor map's properties.  ``suffix`` is the word behind the bracket
    (``unified``).  ``zero`` says that an offset of 0 is written: ptxas really adds it when it does not
    optimize.
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
            inner += f"+{self.offset}"  # ptxas reads [a+-4] and not [a-4]
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

    ``opcode`` is the first word alone and ``modifiers`` every later one without its dot:
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
        """Opcode and modifiers as the text spells them."""
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        head = f"{self.guard} {self.name}" if self.guard is not None else self.name
        if self.operands:
            head += " " + ", ".join(map(str, self.operands))
        return head + ";"


@dataclass(frozen=True, slots=True)
class LabelStatement:
    name: str
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that the author put in verbatim (``ptx.raw``): neither checked nor simulated."""

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

    Names are unique in a function, so a scope hides none; it bounds the life of the :class:`Variable`
    statements in it, which ptxas lays out by it.
    """

    opens: bool
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "{" if self.opens else "}"


#: Only an ``Instruction`` is executed.  A ``Variable`` among the statements is one of ``.param`` or
#: ``.local`` space whose place matters: the arguments of a call.
Statement: TypeAlias = (
    "Instruction | LabelStatement | Raw | TargetList | CallPrototype | Loc | Pragma | ScopeMark | Variable"
)

# --- declarations -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space: ``.shared .align 16 .b8 name[size];``.

    ``count`` is the number of elements; 0 with ``external`` is an unsized ``.extern`` array (dynamic
    shared memory), None a scalar.  ``shape`` has the extents of an array of several dimensions, whose
    product is ``count``; ``vector`` is 2, 4 or 8 for ``.v2`` to ``.v8`` elements; ``linkage`` is ``visible``,
    ``weak``, ``common`` or empty (``.extern`` is ``external``).
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
    """A parameter of a kernel or a device function, or a device function's result.

    ``count`` makes it a by-value array (a tensor map is 128 ``b8``).  ``pointer`` says what a pointer points
    to.  ``space`` is ``reg`` where a device function passes registers: the name is then a register's.
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
    """A performance directive of an entry: ``.maxntid 128, 1, 1``; ``name`` is without the dot."""

    name: str
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (f".{self.name}", ", ".join(map(str, self.values)))))


@dataclass(frozen=True, slots=True)
class SharedRange:
    """A named part of a shared variable: a buffer that the author allocated in it.

    The text does not show ranges: the parser gives none, and a module from a text has its variables alone.

    Attributes:
        name: the buffer's name, for messages; names may repeat.
        offset: bytes from the beginning of the variable.
        size: bytes, without the padding behind the buffer.
        source: the line that allocated it.
        variable: name of the shared variable that the range is a part of.
    """

    name: str
    offset: int
    size: int
    source: SourceLocation | None
    variable: str


@dataclass(frozen=True)
class Function:
    """An entry (kernel) or a device function: parameters, directives, declarations, statements.

    ``kind`` is ``entry`` or ``func``.  ``linkage`` is ``visible``, ``extern``, ``weak`` or empty.  A
    ``prototype`` has no body.  Registers are kept in groups of one type, as the text declares them.
    ``shared_ranges`` are the buffers in shared memory, in the order of their offsets within a variable; they
    are not printed, and two functions that differ in them alone are equal.
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

    def __post_init__(self) -> None:
        groups: dict[tuple[ScalarType, int], list[Register]] = {}
        for register in self.registers:
            groups.setdefault((register.type, register.vector), []).append(register)
        object.__setattr__(self, "registers", tuple(r for group in groups.values() for r in group))

    def instructions(self) -> Iterator[Instruction]:
        for statement in self.body:
            if isinstance(statement, Instruction):
                yield statement

    def directive(self, name: str) -> tuple[int, ...] | None:
        """Values of the directive ``name``, or None where the entry has none."""
        for directive in self.directives:
            if directive.name == name:
                return directive.values
        return None


@dataclass(frozen=True)
class Module:
    """One PTX translation unit. ``version`` is (major, minor).

    ``functions`` has entries, device functions and prototypes in the order of the text; ``target_options``
    what follows the architecture in ``.target`` (``debug``, ``texmode_independent``); ``directives`` pragmas,
    ``.file``, ``.alias`` and ``.section``.
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
        """Functions by name; a definition goes before prototypes."""
        return {f.name: f for f in sorted(self.functions, key=lambda f: not f.prototype)}

    @cached_property
    def entries(self) -> dict[str, Function]:
        """The kernels by name."""
        return {n: f for n, f in self.by_name.items() if f.kind == "entry" and not f.prototype}

    def entry(self, name: str | None = None) -> Function:
        """The kernel that ``name`` means, or the only one.

        A C++ kernel is meant by its mangled name, or by as much of ``void ns::axpy<4>(float*)`` as no other
        kernel has (:func:`~.mangling.find_names`).

        Raises:
            KeyError: no such kernel, or several; the message lists them.
        """
        entries = self.entries
        found = list(entries) if name is None else find_names(name, entries)
        if len(found) == 1:
            return entries[found[0]]
        listed = ", ".join(map(readable, found or entries)) or "none"
        if name is None:
            raise KeyError(f"which entry? The module has: {listed}")
        if found:
            raise KeyError(f"several entries are called {name!r}: {listed}")
        raise KeyError(f"no entry {name!r}; the module has: {listed}")
