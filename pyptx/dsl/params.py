"""Kernel parameters: their specifications, and the objects that the kernel function gets for them.

``Tile`` and ``Scalar`` describe parameters to ``@kernel``; inside the kernel, a tile is a :class:`TileParam`
and a scalar a register.  The prologue loads each parameter that is used once; using it records nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import dtype_of
from ..core.errors import OperandError, SpecError, TraceError
from ..core.records import dataclass
from ..core.types import TYPES, ScalarType, b8, pred, u8, u32, u64
from ..ir import Address, Immediate, Param, Register, Symbol
from ..layout.tensor_map_rules import L2_PROMOTIONS
from .dims import Dims, Shape
from .operands import Addr
from .registers import Reg, owned, result
from .trace import Plan, Trace, current, identifier
from .types import as_whole, memory_type
from .valueless import Valueless

__all__ = [
    "Layout",
    "Parameters",
    "Scalar",
    "ParameterSlot",
    "TensorMapReg",
    "Tile",
    "TileParam",
    "Workspace",
]


class Layout(enum.Enum):
    """How a kernel accesses a tile: through a pointer, or through a tensor map with a swizzle."""

    ROW_MAJOR = "row_major"
    TMA_NONE = "none"
    TMA_32B = "32B"
    TMA_64B = "64B"
    TMA_128B = "128B"
    TMA_128B_ATOM_32B = "128B_ATOM_32B"

    @property
    def is_tma(self) -> bool:
        return self is not Layout.ROW_MAJOR

    @property
    def swizzle(self) -> str:
        """The tensor map's swizzle: ``"none"``, ``"32B"``, ``"64B"``, ``"128B"`` or ``"128B_ATOM_32B"``."""
        return self.value if self.is_tma else "none"


class Tile:
    """A tensor parameter: ``Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(128, 64))``.

    Attributes:
        dims: extents, outermost first (numpy order): numbers, or names bound at the call.
        dtype: element type.
        layout: ``ROW_MAJOR`` for a pointer, ``TMA_...`` for a tensor map by value.
        tma_box: elements that one TMA instruction moves, in the order of ``dims``, or of ``tma_shape``; None
            for ``ROW_MAJOR``.
        tma_promotion: granularity of L2 fetches through the map: ``"none"``, ``"64B"``, ``"128B"`` or
            ``"256B"``.
        tma_shape, tma_strides: extents, and bytes between neighbors along each axis, of the tensor that the
            tensor map describes, outermost first; None if it is the array itself.
    """

    __slots__ = ("dims", "dtype", "layout", "tma_box", "tma_promotion", "tma_shape", "tma_strides")

    def __init__(
        self,
        *arguments: Any,
        dtype: Any = None,
        layout: Layout | None = None,
        tma_box: Sequence[int] | None = None,
        tma_shape: Sequence[int] | None = None,
        tma_strides: Sequence[int] | None = None,
        tma_promotion: str = "none",
    ) -> None:
        """Create a tile: ``Tile(*dims, dtype, layout, tma_box=...)``. dtype and layout can also be keywords.

        ``tma_shape`` and ``tma_strides`` make the tensor map describe the array's memory as another tensor::

            # A[M, K] as K / 64 slabs of 64 columns: one copy of a box (2, 128, 64) loads 128 columns
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(2, 128, 64),
                 tma_shape=(K // 64, M, 64), tma_strides=(128, 2 * K, 2))

        Raises:
            SpecError: no dims or dtype, a dim that is neither a positive number nor a name, a TMA layout
                without a box or with a box of another rank, a box without a TMA layout, a shape without
                strides or with named dims, a shape that reaches past the array, or an unknown granularity.
        """
        rest: list[Any] = [int(value) if isinstance(value, np.integer) else value for value in arguments]
        if rest and isinstance(rest[-1], Layout):
            if layout is not None:
                raise SpecError("Tile: layout is given twice")
            layout = rest.pop()
        if dtype is None and rest and not _is_dim(rest[-1]):
            dtype = rest.pop()
        if dtype is None:
            raise SpecError(
                "Tile: no dtype given", hint='write the element type after the dims: Tile("M", "K", bf16)'
            )
        self.dtype: ScalarType = dtype_of(dtype)
        if self.dtype.nbytes == 0:
            raise SpecError(f"Tile: a tensor cannot hold {self.dtype}", hint="pass it as u8")
        for dim in rest:
            if not _is_dim(dim) or dim in (0, "") or (isinstance(dim, int) and dim < 0):
                raise SpecError(f"Tile: {dim!r} is not a dim: expected a positive number or a name")
        if not rest:
            raise SpecError("a Tile needs at least one dim", hint='write them first: Tile("M", "K", bf16)')
        self.dims: tuple[int | str, ...] = tuple(rest)
        self.layout = layout if layout is not None else Layout.ROW_MAJOR
        if not isinstance(self.layout, Layout):
            raise SpecError(f"Tile: {layout!r} is not a Layout")
        self.tma_box = None if tma_box is None else tuple(int(n) for n in tma_box)
        if self.layout.is_tma and self.tma_box is None:
            raise SpecError(f"Tile: {self.layout} needs tma_box=, the elements that one copy moves")
        if not self.layout.is_tma and self.tma_box is not None:
            raise SpecError(f"Tile: tma_box={self.tma_box} needs a TMA layout, not {self.layout}")
        if tma_promotion not in L2_PROMOTIONS or (tma_promotion != "none" and not self.layout.is_tma):
            raise SpecError(
                f"Tile: tma_promotion is {tma_promotion!r}: expected {', '.join(map(repr, L2_PROMOTIONS))}, "
                "for a TMA layout"
            )
        self.tma_promotion = tma_promotion
        self.tma_shape = None if tma_shape is None else tuple(int(n) for n in tma_shape)
        self.tma_strides = None if tma_strides is None else tuple(int(n) for n in tma_strides)
        if self.tma_shape is not None or self.tma_strides is not None:
            self._check_view()
        rank = len(self.dims if self.tma_shape is None else self.tma_shape)
        if self.tma_box is not None and len(self.tma_box) != rank:
            what = "the tile" if self.tma_shape is None else f"tma_shape {self.tma_shape}"
            raise SpecError(
                f"Tile: tma_box {self.tma_box} has {len(self.tma_box)} axes, {what} has {rank}",
                hint="give the box one extent for each dim, in the order of the dims",
            )

    def _check_view(self) -> None:
        """Raise :class:`SpecError` if the tensor of the map is not a part of the array."""
        shape, strides = self.tma_shape, self.tma_strides
        if shape is None or strides is None or len(shape) != len(strides) or self.tma_box is None:
            raise SpecError(
                f"Tile: tma_shape is {shape}, tma_strides {strides}, tma_box {self.tma_box}: "
                "expected all three, with one number for each axis",
                hint="strides are in bytes, and the last one is the size of an element",
            )
        names = [dim for dim in self.dims if isinstance(dim, str)]
        if names:
            raise SpecError(
                f"Tile: tma_shape is {shape}, and the dims {', '.join(names)} are names: expected numbers",
                hint="build the kernel for one size: def build(M, K), with Tile(M, K, ...)",
            )
        if min(shape, default=0) < 1 or min(strides, default=-1) < 0:
            raise SpecError(
                f"Tile: tma_shape is {shape} and tma_strides {strides}: expected positive extents"
            )
        size = self.dtype.nbytes
        reach = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + size
        array = math.prod(dim for dim in self.dims if isinstance(dim, int)) * size
        if strides[-1] != size or reach > array:
            raise SpecError(
                f"Tile: a tensor of shape {shape} with strides of {strides} bytes ends {reach} bytes after "
                f"its start, and the array has {array}; the last stride is {strides[-1]}: expected {size}, "
                "and a tensor within the array"
            )

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.dims))
        box = f", tma_box={self.tma_box}" if self.tma_box is not None else ""
        if self.tma_shape is not None:
            box += f", tma_shape={self.tma_shape}, tma_strides={self.tma_strides}"
        if self.tma_promotion != "none":
            box += f", tma_promotion={self.tma_promotion!r}"
        return f"Tile({dims}, {self.dtype}, {self.layout}{box})"

    def shape(self, dims: dict[str, int]) -> tuple[int, ...]:
        """Return the extents, with names replaced by their values in ``dims``."""
        return tuple(dim if isinstance(dim, int) else dims[dim] for dim in self.dims)


class Scalar:
    """A number as a run-time parameter: ``Scalar(u32)``. A call with another value does not recompile."""

    __slots__ = ("type",)

    def __init__(self, kind: Any) -> None:
        """Raise :class:`SpecError` for a type that a parameter cannot have."""
        self.type = dtype_of(kind)
        if self.type is pred or self.type.bits > 64:
            raise SpecError(
                f"Scalar: a parameter cannot be of type {self.type}", hint="pass it as u8, u32 or u64"
            )

    def __repr__(self) -> str:
        return f"Scalar({self.type})"


class Workspace:
    """Memory that CTAs share during a launch: for partial sums, counters of a split K, a grid barrier.

    The caller passes no array for it: each launch gets memory of torch's allocator, the same for all launches
    of the kernel in one stream.  In the kernel it is a tensor parameter of one dim, behind the outputs.

    Attributes:
        nbytes: its size in bytes: a number, or a function of the dims and constants.
        dtype: element type.
        zeroed: True if all bytes are 0 when a launch starts. The kernel must store 0 again wherever it has
            stored anything else before it ends; the simulator checks this.
    """

    __slots__ = ("dtype", "nbytes", "zeroed")

    def __init__(self, nbytes: int | Callable[..., int], dtype: Any = u8, *, zeroed: bool = False) -> None:
        """Raise :class:`SpecError` for a size that is neither a positive number nor a function."""
        whole = isinstance(nbytes, int) and not isinstance(nbytes, bool)
        if not callable(nbytes) and not (whole and nbytes > 0):
            raise SpecError(
                f"Workspace: {nbytes!r} bytes: expected a positive number, or a function of the dims"
            )
        self.nbytes = nbytes
        self.dtype: ScalarType = dtype_of(dtype)
        if self.dtype.nbytes == 0:
            raise SpecError(f"Workspace: memory cannot hold {self.dtype}", hint="use u8")
        self.zeroed = bool(zeroed)

    def content(self) -> tuple[object, ...]:
        """Return what the workspace was made from."""
        return self.nbytes, self.dtype, self.zeroed

    def __repr__(self) -> str:
        size = self.nbytes if isinstance(self.nbytes, int) else "a function"
        return f"Workspace({size}, {self.dtype}, zeroed={self.zeroed})"


def _is_dim(value: object) -> bool:
    # Strings are dims, never dtypes: Tile("M", "K", "bf16") has no dtype.
    return isinstance(value, (int, str)) and not isinstance(value, bool)


class TensorMapReg(Reg):
    """The address of a tensor map, a u64 register; ``tile`` is the parameter that it describes."""

    __slots__ = ("tile",)

    def __init__(self, trace: Trace, operand: Register, tile: TileParam) -> None:
        super().__init__(
            trace, operand, u64, trace.regions[0], trace.location, f"the tensor map of parameter {tile.name}"
        )
        self.tile = tile


class TileParam(Valueless):
    """A tensor parameter inside the kernel.

    Attributes:
        name: the Python parameter's name.
        shape: extents of this specialization, outermost first.
        dtype: element type.
        spec: the :class:`Tile`.
    """

    def __init__(
        self,
        trace: Trace,
        index: int,
        name: str,
        spec: Tile,
        shape: Shape,
        symbol: str,
        pointer: str,
        extent: Callable[[str], Reg],
    ) -> None:
        self._trace = trace
        self._index = index
        self._symbol = symbol
        self._pointer = pointer
        self._extent = extent
        self.name = name
        self.spec = spec
        self.shape = shape
        self.dtype = spec.dtype

    def __repr__(self) -> str:
        return f"<parameter {self.name}: {self.shape} {self.dtype}>"

    def remedy(self) -> tuple[str, str]:
        return (
            "a tensor in global memory",
            f"load and store its elements by address: ptx.load(type, {self.name}.at(i))",
        )

    @property
    def ptr(self) -> Reg:
        """Address of the first element in global memory, a u64 register.

        The prologue loads it once (``ld.param.u64``, ``cvta.to.global.u64``); using it records nothing.
        """
        symbol = Symbol(self._pointer)

        def build(d: Register) -> Plan:
            return [
                ("ld", ("param", "u64"), (d, Address(symbol))),
                ("cvta", ("to", "global", "u64"), (d, d)),
            ]

        trace = self._trace
        operand = trace.prepare(
            ("param", self._index, 1), u64, f"{identifier(self.name)}_ptr", build, trace.location
        )
        return Reg(
            trace, operand, u64, trace.regions[0], trace.location, f"the pointer of parameter {self.name}"
        )

    def extent(self, axis: int) -> Reg | int:
        """Return the tensor's extent along ``axis`` as a value that is known when the kernel runs.

        A named dim is a u32 register, which the prologue loads from a parameter of the entry
        (``ld.param.u32``); the launch fills the parameter.  A recording that reads a dim in this way alone
        serves every value of the dim, while ``shape[axis]`` makes a specialization for each.  A dim that the
        :class:`Tile` gives as a number is that number.

        Raises :class:`OperandError` if the tensor has no such axis.
        """
        number, rank = as_whole(axis), len(self.spec.dims)
        if number is None or not -rank <= number < rank:
            raise OperandError(
                f"axis {axis!r} of {self.name!r}, which has {rank} dims: expected {-rank}..{rank - 1}"
            )
        dim = self.spec.dims[number]
        return dim if isinstance(dim, int) else self._extent(dim)

    def at(self, *indices: Reg | int, strides: Sequence[int] | None = None) -> Addr:
        """Compute the address of element ``[i, j, ...]`` in global memory, in 64 bits.

        Use it as an operand: ``ptx.inst.ld.global_.f32(x, A.at(i, j))``.  Indices are numbers and registers
        of type u32, s32, u64 or s64, in any mix, one for each dim, outermost first.

        Records one instruction for each index that is a register (``mad.wide`` for 32 bits, ``mad.lo`` for
        64) and none for numbers, which become the constant offset of the address.  There are two exceptions.
        A ``cvt`` precedes the ``mad`` of a 32-bit index if its stride is 2 GiB or more (for u32, also if the
        stride is negative). An ``add`` is recorded if the constant offset exceeds a signed 32-bit number.

        Args:
            indices: one for each dim.
            strides: number of elements from one index to the next along each dim; default: row-major.

        Watch out: a register's value is not checked.

        Raises:
            OperandError: a wrong number of indices or strides, a number outside the dim, or a register of
                another type.

        PTX ISA: `#addresses-as-operands`.
        """
        steps = self._steps(strides)
        if len(indices) != len(self.shape):
            raise OperandError(f"{len(indices)} indices for {self.name!r} of shape {self.shape}")
        trace = current()
        offset = 0
        with trace.atomic():
            base = owned(self.ptr, trace)
            for axis, (index, step) in enumerate(zip(indices, steps, strict=True)):
                if isinstance(index, Reg):
                    base = self._moved(base, index, step, axis)
                    continue
                number, extent = as_whole(index), self.shape[axis]
                if number is None or not 0 <= number < extent:
                    raise OperandError(
                        f"index {axis} of {self.name!r} is {index!r}: expected 0..{extent - 1}, or a register"
                    )
                offset += number * step
            if not -(1 << 31) <= offset < 1 << 31:
                operands = (base.operand, Immediate(offset))
                base, offset = result(trace, u64, "add", ("s64",), operands, self._hint), 0
        return Addr(base, offset, None)

    @property
    def _hint(self) -> str:
        return f"{identifier(self.name)}_at"

    def _steps(self, strides: Sequence[int] | None) -> list[int]:
        """Return the bytes between neighboring elements along each dim."""
        if strides is None:
            return [math.prod(self.shape[axis + 1 :]) * self.dtype.nbytes for axis in range(len(self.shape))]
        steps = [as_whole(stride) for stride in strides]
        if len(steps) != len(self.shape) or None in steps:
            raise OperandError(
                f"strides of {self.name!r} are {strides!r}: expected {len(self.shape)} integers, in elements"
            )
        return [step * self.dtype.nbytes for step in steps if step is not None]

    def _moved(self, base: Reg, index: Reg, step: int, axis: int) -> Reg:
        """Compute ``base + index * step`` with one ``mad``, after a ``cvt`` if the step needs 64 bits."""
        trace = current()
        kind = owned(index, trace).type
        if kind.kind not in "us" or kind.bits not in (32, 64) or kind.lanes > 1:
            untyped = kind.kind == "b" and kind.bits in (32, 64)
            raise OperandError(
                f"index {axis} of {self.name!r} is {index} (.{kind}): expected a number, u32, s32, u64, s64",
                hint=f"choose unsigned or signed: x.view(u{kind.bits}) or x.view(s{kind.bits})"
                if untyped
                else "convert it: ptx.cvt(x, u32)",
            )
        given = index.operand
        if kind.bits == 32:
            if not -(1 << 31) <= step < 1 << 31:
                wide = TYPES[f"{kind.kind}64"]
                given = result(trace, wide, "cvt", (wide.name, kind.name), (given,), "wide").operand
                kind = wide
            elif step < 0 and kind.kind == "u":
                # An unsigned index times a negative step needs 64 bits of both.
                given = result(trace, TYPES["u64"], "cvt", ("u64", "u32"), (given,), "wide").operand
                kind = TYPES["s64"]
        half = "wide" if kind.bits == 32 else "lo"
        operands = (given, Immediate(step), base.operand)
        return result(trace, u64, "mad", (half, kind.name), operands, self._hint)

    def tma_desc(self) -> TensorMapReg:
        """Return the generic address of the parameter's tensor map, for ``ptx.cp.async_.bulk.tensor_*``.

        The prologue computes it once (``mov.b64``, ``cvta.param.u64``); using it records nothing.

        Raises :class:`TraceError` for a tile without a TMA layout.  PTX ISA: `#tensor-tensormap`.
        """
        if not self.spec.layout.is_tma:
            raise TraceError(
                f"the parameter {self.name} has the layout {self.spec.layout}, and so no tensor map",
                hint=f"give its Tile a TMA layout and tma_box=, or use {self.name}.ptr",
            )
        symbol = Symbol(self._symbol)

        def build(d: Register) -> Plan:
            return [("mov", ("b64",), (d, symbol)), ("cvta", ("param", "u64"), (d, d))]

        trace = self._trace
        operand = trace.prepare(
            ("param", self._index, 0), u64, f"{identifier(self.name)}_map", build, trace.location
        )
        return TensorMapReg(trace, operand, self)


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """One PTX parameter, which a launch fills from the kernel's parameter number ``index``.

    ``kind`` is ``"map"`` (the tensor map by value), ``"pointer"``, ``"scalar"``, or ``"extent"``: the extent
    of the tensor along the dim named ``dim``.
    """

    kind: str
    index: int
    param: Param
    dim: str = ""


class Parameters:
    """The parameters of one recording: the arguments of the function, and the declarations of the entry."""

    def __init__(
        self, trace: Trace, names: Sequence[str], specs: Sequence[Tile | Scalar], dims: Dims
    ) -> None:
        self._trace = trace
        self._taken: set[str] = {"WARP_SZ", trace.name}
        self._specs = tuple(specs)
        #: Named dims, each with the number of the first tile that has it, in the order of the parameters.
        self._dims = {
            dim: index
            for index, spec in reversed(list(enumerate(specs)))
            if isinstance(spec, Tile)
            for dim in spec.dims
            if isinstance(dim, str)
        }
        #: Symbols of the parameters that hold the extents of named dims.
        self._extents: dict[str, str] = {}
        self._symbols = [self._symbol(name) for name in names]
        self._pointers = [
            self._symbol(f"{symbol}_ptr") if isinstance(spec, Tile) and spec.layout.is_tma else symbol
            for symbol, spec in zip(self._symbols, specs, strict=True)
        ]
        self.arguments: list[TileParam | Reg] = [
            self._tile(index, name, spec, dims) if isinstance(spec, Tile) else self._scalar(index, name, spec)
            for index, (name, spec) in enumerate(zip(names, specs, strict=True))
        ]

    def _symbol(self, name: str) -> str:
        stem = symbol = identifier(name)
        count = 0
        while symbol in self._taken:
            count += 1
            symbol = f"{stem}_{count}"
        self._taken.add(symbol)
        return symbol

    def free_symbol(self, name: str) -> str:
        """Return ``name``, with a suffix if a parameter already has that name."""
        return self._symbol(name)

    def symbols(self) -> set[str]:
        """Return every name in use so far."""
        return set(self._taken)

    def _tile(self, index: int, name: str, spec: Tile, dims: Dims) -> TileParam:
        symbol, pointer = self._symbols[index], self._pointers[index]
        shape = Shape(spec.dims, dims)
        return TileParam(self._trace, index, name, spec, shape, symbol, pointer, self._extent)

    def _extent(self, dim: str) -> Reg:
        """Return the register of a named dim, which the prologue loads if an instruction uses it."""
        trace = self._trace
        if ("extent", dim) not in trace.prologue:
            if dim not in self._extents:
                self._extents[dim] = trace.builder.free_name(self._symbol(dim))
            trace.builder.take(self._extents[dim])
        symbol = Symbol(self._extents.get(dim, ""))

        def build(d: Register) -> Plan:
            return [("ld", ("param", "u32"), (d, Address(symbol)))]

        operand = trace.prepare(("extent", dim), u32, identifier(dim), build, trace.location)
        return Reg(trace, operand, u32, trace.regions[0], trace.location, f"the dim {dim}")

    def _scalar(self, index: int, name: str, spec: Scalar) -> Reg:
        """Make a register that the prologue loads in the type's own size, if an instruction uses it."""
        trace, symbol = self._trace, Symbol(self._symbols[index])

        def build(d: Register) -> Plan:
            return [("ld", ("param", memory_type(spec.type).name), (d, Address(symbol)))]

        operand = trace.prepare(("param", index, 0), spec.type, name, build, trace.location)
        return Reg(trace, operand, spec.type, trace.regions[0], trace.location)

    def slots(self, used: set[str]) -> tuple[ParameterSlot, ...]:
        """Return the parameters that the entry declares, in order, given the names of the registers in use.

        A tile with a tensor map has a second parameter, its pointer, only if the kernel uses the pointer. The
        extents of named dims come last, those that the kernel uses.
        """
        found: list[ParameterSlot] = []
        source = self._trace.location
        for index, spec in enumerate(self._specs):
            symbol = self._symbols[index]
            if isinstance(spec, Scalar):
                kind = memory_type(spec.type)
                found.append(ParameterSlot("scalar", index, Param(symbol, kind, source=source)))
            elif spec.layout.is_tma:
                # A launch passes the 128 bytes of the tensor map by value, never as a device buffer.
                found.append(ParameterSlot("map", index, Param(symbol, b8, 128, 64, source)))
                pointer = self._trace.prologue.get(("param", index, 1))
                if pointer is not None and pointer.register.name in used:
                    found.append(
                        ParameterSlot("pointer", index, Param(self._pointers[index], u64, source=source))
                    )
            else:
                found.append(ParameterSlot("pointer", index, Param(symbol, u64, source=source)))
        for dim, index in sorted(self._dims.items(), key=lambda item: item[1]):
            extent = self._trace.prologue.get(("extent", dim))
            if extent is not None and extent.register.name in used:
                param = Param(self._extents[dim], u32, source=source)
                found.append(ParameterSlot("extent", index, param, dim))
        return tuple(found)
