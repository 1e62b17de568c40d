"""The nodes: operands, statements, functions, modules.

All are frozen.  Nodes that name a thing (:class:`Register`, :class:`Symbol`) compare by value, so an
IR that was printed and read back equals the original.  Source locations never take part in
comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from ..core.source import SourceLocation
from ..core.types import ScalarType

# --- operands ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register. ``name`` is without the ``%`` that the printer adds."""

    name: str
    type: ScalarType

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
    """A constant. Integers print in decimal; floats as ``0f``/``0d`` bit patterns of ``bits`` width."""

    value: int | float
    bits: int = 64

    def __str__(self) -> str:
        if isinstance(self.value, float):
            import struct

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
        return self.name if not self.offset else f"{self.name}{self.offset:+d}"


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
class Pair:
    """``d|p``: two destinations of one operand."""

    first: Register | Sink
    second: Register | Sink

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    elements: tuple[Register | Immediate | Sink | Symbol | Special, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.elements)) + "}"


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``, or ``[base, {c0, c1}]`` with tensor or texture coordinates."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: Vector | None = None

    def __str__(self) -> str:
        inner = str(self.base)
        if self.offset:
            inner += f"{self.offset:+d}"
        if self.coordinates is not None:
            inner += f", {self.coordinates}"
        return f"[{inner}]"


Operand: TypeAlias = (
    Register | Special | Immediate | Symbol | BranchTarget | Sink | Negated | Pair | Vector | Address
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
class Label:
    name: str
    source: SourceLocation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that the author put in verbatim (``ptx.raw``): neither checked nor simulated."""

    text: str
    source: SourceLocation | None = field(default=None, compare=False)


Statement: TypeAlias = Instruction | Label | Raw

# --- declarations -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space: ``.shared .align 16 .b8 name[size];``.

    ``count`` is the number of elements; 0 with ``external`` is an unsized ``.extern`` array (dynamic
    shared memory), None a scalar.
    """

    name: str
    space: str
    type: ScalarType
    count: int | None = None
    align: int | None = None
    external: bool = False
    source: SourceLocation | None = field(default=None, compare=False)

    @property
    def nbytes(self) -> int:
        return self.type.nbytes * (1 if self.count is None else self.count)


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter. ``count`` makes it a by-value array (a tensor map is 128 ``b8``)."""

    name: str
    type: ScalarType
    count: int | None = None
    align: int | None = None
    source: SourceLocation | None = field(default=None, compare=False)

    @property
    def nbytes(self) -> int:
        return self.type.nbytes * (1 if self.count is None else self.count)


@dataclass(frozen=True, slots=True)
class Directive:
    """A performance directive of an entry: ``.maxntid 128, 1, 1``; ``name`` is without the dot."""

    name: str
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (f".{self.name}", ", ".join(map(str, self.values)))))


@dataclass(frozen=True)
class Function:
    """An entry (kernel): parameters, directives, declarations and the statements of its body."""

    name: str
    params: tuple[Param, ...] = ()
    directives: tuple[Directive, ...] = ()
    registers: tuple[Register, ...] = ()
    variables: tuple[Variable, ...] = ()
    body: tuple[Statement, ...] = ()
    source: SourceLocation | None = field(default=None, compare=False)

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
    """One PTX translation unit. ``version`` is (major, minor)."""

    version: tuple[int, int]
    target: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...] = ()
    address_size: int = 64

    @cached_property
    def by_name(self) -> dict[str, Function]:
        return {f.name: f for f in self.functions}

    def entry(self, name: str | None = None) -> Function:
        """The entry called ``name``, or the only one. Raises KeyError naming what there is."""
        if name is None and len(self.functions) == 1:
            return self.functions[0]
        if name in self.by_name:
            return self.by_name[name]
        raise KeyError(f"no entry {name!r}; the module has {sorted(self.by_name)}")


@dataclass(frozen=True)
class Launch:
    """How an entry is launched: extents in x, y, z order and dynamic shared memory in bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0

    @staticmethod
    def extent(value: int | Sequence[Any]) -> tuple[int, int, int]:
        """``3`` or ``(3, 2)`` as three positive ints. Raises ValueError."""
        items = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
        if not 1 <= len(items) <= 3 or any(v < 1 for v in items):
            raise ValueError(f"an extent is one to three positive integers, got {value!r}")
        x, y, z = (*items, 1, 1)[:3]
        return (x, y, z)
