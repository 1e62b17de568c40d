"""What a conformance case is: a kernel in PTX text, its arguments, and how its outputs are compared.

:class:`KernelCase` is written by hand in ``cases/``; cases of value forms are made from the table
(:mod:`.values`) and become the same :class:`Run`, which is what a GPU and the simulator execute.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.core.types import TYPES
from pyptx.ir import Module, parse_module
from pyptx.isa import Binding, bind_instruction, required_version
from pyptx.layout import TensorMap
from pyptx.sim.code.semantic import Bound

from .reference import Expected

__all__ = [
    "ARCH",
    "Argument",
    "Bound",
    "In",
    "KernelCase",
    "Headless",
    "Map",
    "Number",
    "Out",
    "Run",
    "Step",
    "aligned",
    "kernel",
    "versioned",
]

#: The target of every case: what the recordings were made on.
ARCH = "sm_90a"

Extent = tuple[int, ...]


#: What allocations of a GPU are aligned to.
_ALIGNMENT = 256


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """A copy whose first element lies where one of the GPU's memory does: numpy aligns to 16 bytes alone."""
    room = np.zeros(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    # Through a buffer, so that it counts as an allocation of its own and not as a view into one.
    copy = np.frombuffer(room.data, np.uint8, array.nbytes, start).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@dataclass(frozen=True, eq=False)
class In:
    """An array in global memory that the kernel reads; the parameter is its address."""

    array: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Out:
    """An array in global memory that is recorded and compared; the parameter is its address.

    Attributes:
        dtype, shape: what it holds. Floats are compared as bits; narrow formats are declared as raw bits.
        initial: what it holds before the launch: zero, or an array (so it is input as well).
        bound: None: bit for bit. Otherwise how far each element (a float) may be from the recorded one.
        order: ``"fixed"``, or ``"any"``: the elements along the last axis are a multiset, for what the order of
            concurrent threads decides (what ``atom`` returns, say).
    """

    dtype: Any
    shape: int | tuple[int, ...]
    initial: Any = 0
    bound: Bound | None = None
    order: str = "fixed"

    def before(self) -> NDArray[Any]:
        """A new array with what it holds before the launch."""
        array = aligned(np.zeros(self.shape, self.dtype))
        array[...] = self.initial
        return array


@dataclass(frozen=True)
class Number:
    """A scalar parameter, passed by value."""

    value: int | float
    type: str

    def encode(self) -> bytes:
        """The bytes of the parameter."""
        kind = TYPES[self.type]
        if kind.is_float:
            return np.array(self.value, kind.dtype).tobytes()
        return (int(self.value) & ((1 << kind.bits) - 1)).to_bytes(kind.nbytes, "little")


@dataclass(frozen=True)
class Map:
    """A tensor map of the array at position ``of`` among the arguments, by value (:func:`kernel`: ``name:map``).

    Attributes:
        options: of :meth:`pyptx.layout.TensorMap.tiled`, or of ``im2col`` if there are ``pixels`` among them.
    """

    of: int
    options: dict[str, Any]

    def tensor_map(self, array: NDArray[Any]) -> TensorMap:
        """The map of this array."""
        make = TensorMap.im2col if "pixels" in self.options else TensorMap.tiled
        return make(array, **self.options)


Argument = In | Out | Number | Map


@dataclass(frozen=True)
class Step:
    """One of several launches of a stream.

    Attributes:
        arguments: positions of its arguments among those of the run.
        entry: the name of its entry; None where the text has one entry.
        dependent: whether it is launched by programmatic dependent launch.
    """

    arguments: tuple[int, ...]
    entry: str | None = None
    dependent: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """One launch or the launches of one stream, for a GPU or the simulator."""

    name: str
    source: str | Headless
    arguments: tuple[Argument, ...]
    grid: Extent = (1,)
    block: Extent = (32,)
    cluster: Extent = (1,)
    dynamic_smem: int = 0
    #: The name of the entry; None where the text has one entry.
    entry: str | None = field(default=None, kw_only=True)
    #: How many arguments are parameters, if not all: arrays that only tensor maps name may stand behind them.
    parameters: int | None = field(default=None, kw_only=True)
    #: The launches, if there are several; they share the extents.
    steps: tuple[Step, ...] = field(default=(), kw_only=True)
    #: True if threads race by the manual's letter, such as behind a relaxed barrier: the sanitizer is off.
    races: bool = field(default=False, kw_only=True)

    @property
    def launches(self) -> tuple[Step, ...]:
        """The launches; a run without steps has one."""
        return self.steps or (Step(tuple(range(len(self.arguments)))[: self.parameters], self.entry),)

    @property
    def outputs(self) -> list[Out]:
        return [a for a in self.arguments if isinstance(a, Out)]

    @cached_property
    def text(self) -> str:
        """The module's text, with its header."""
        return self.source if isinstance(self.source, str) else self.source.text()

    @cached_property
    def module(self) -> Module:
        return parse_module(self.text)

    @property
    def fingerprint(self) -> int:
        """Changes with anything that could change the outputs: recorded words of another one are stale."""
        words = repr((self.text, self.grid, self.block, self.cluster, self.dynamic_smem)).encode()
        words += (self.entry or "").encode()
        for argument in self.arguments:
            if isinstance(argument, (Number, Map)):
                words += repr(argument).encode()
            else:
                array = argument.array if isinstance(argument, In) else argument.before()
                words += (
                    repr((type(argument).__name__, array.dtype.str, array.shape)).encode() + array.tobytes()
                )
        return zlib.crc32(words)


@dataclass(frozen=True, eq=False)
class KernelCase(Run):
    """A kernel that shows what some forms do.

    Attributes:
        name: unique among the cases of its file.
        source: a whole module with one entry; :func:`kernel` makes it from a body.
        arguments: one per parameter of the entry.
        grid, block, cluster: extents in x, y, z.
        dynamic_smem: bytes of dynamic shared memory.
        covers: ids of the table's forms that the outputs depend on. Each must occur in the text; with which
            types is read from the text.
        reference: makes what each output must be, without the simulator; None if there is no such thing.
        long: takes so long in the simulator that it is compared where time does not matter.
    """

    covers: tuple[str, ...] = field(default=(), kw_only=True)
    reference: Callable[[], Sequence[Expected]] | None = field(default=None, kw_only=True)
    long: bool = field(default=False, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        # A GPU's worker process has no use for the reference, which is code.
        return {**self.__dict__, "reference": None}

    def bindings(self) -> Iterator[Binding]:
        """Every instruction of the text, bound against the table."""
        for function in self.module.functions:
            for instruction in function.instructions():
                yield bind_instruction(instruction)


#: Registers that :func:`kernel` declares, all with a ``%``.
REGISTERS = """\
.reg .pred %p<16>;
.reg .b16 %h<32>;
.reg .b32 %r<64>;
.reg .b64 %d<32>;
.reg .f32 %f<64>;
.reg .f64 %g<32>;
.reg .u32 %thread, %lane, %warp, %index, %size;
"""

_PROLOGUE = """\
mov.u32 %thread, %tid.x;
and.b32 %lane, %thread, 31;
shr.u32 %warp, %thread, 5;
mov.u32 %size, %ntid.x;
mov.u32 %index, %ctaid.x;
mad.lo.u32 %index, %index, %size, %thread;
"""


def kernel(
    body: str,
    parameters: str = "out:u64",
    *,
    declarations: str = "",
    registers: str = "",
    directives: str = "",
    arch: str = ARCH,
    like: str = "",
) -> Headless:
    """A module with one entry, of the lowest version that its instructions need.

    Args:
        body: statements; ``ret;`` is appended. Registers of :data:`REGISTERS` are declared.
        parameters: ``name:type``, separated by blanks. Each is loaded into a register ``%name`` of its type;
            ``u64`` is a pointer, converted to a global address; ``%name`` of a ``map`` is its generic address.
        declarations: what stands before the entry: module variables, functions.
        registers: further ``.reg``, ``.shared`` and ``.local`` declarations.
        directives: of the entry, ``.reqntid 64``.
        arch: the target.
        like: kernels of which this is the same need the same version: only the first one is read to find it.

    Before the body: ``%thread`` is tid.x, ``%lane`` its place in the warp, ``%warp`` the number of its warp,
    ``%index`` the number of the thread in the grid (x alone), ``%size`` ntid.x.
    """
    pairs = [word.split(":") for word in parameters.split()]
    assert all(kind in TYPES or kind == "map" for _, kind in pairs), parameters
    loads = "".join(
        f".reg .b64 %{name};\nmov.b64 %{name}, {name};\ncvta.param.u64 %{name}, %{name};\n"
        if kind == "map"
        else f".reg .{kind} %{name};\nld.param.{kind} %{name}, [{name}];\n"
        + (f"cvta.to.global.u64 %{name}, %{name};\n" if kind == "u64" else "")
        for name, kind in pairs
    )
    declared = ", ".join(
        f".param .align 64 .b8 {name}[128]" if kind == "map" else f".param .{kind} {name}"
        for name, kind in pairs
    )
    head = f"{declarations}\n.visible .entry kernel({declared}) {directives}".rstrip()
    text = f"{head}\n{{\n{REGISTERS}{registers}\n{loads}{_PROLOGUE}{body}\nret;\n}}"
    return versioned(text, arch, like=like)


#: The versions that kernels need, by what they are like.
_versions: dict[str, tuple[int, int]] = {}


@dataclass(frozen=True)
class Headless:
    """A module without its header. The version is found when a test wants the text: listing tests reads no kernel."""

    lines: str
    arch: str
    like: str

    def text(self) -> str:
        """The module, with the lowest ``.version`` that its instructions need."""
        version = _versions.get(self.like) if self.like else None
        if version is None:
            version = required_version(parse_module(self._headed("9.0")))
            if self.like:
                _versions[self.like] = version
        return self._headed("{}.{}".format(*version))

    def _headed(self, version: str) -> str:
        return f".version {version}\n.target {self.arch}\n.address_size 64\n{self.lines}\n"


def versioned(text: str, arch: str = ARCH, *, like: str = "") -> Headless:
    """``text``, which has no header, with the lowest ``.version`` that its instructions need; as :func:`kernel`."""
    return Headless("\n".join(line.strip() for line in text.splitlines() if line.strip()), arch, like)
