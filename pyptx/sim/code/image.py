"""The memory image of a module: addresses and initial contents of variables, and addresses of functions.

Owns what all launches of a loaded module share: the storage of ``.const`` variables, and of ``.global``
variables, which keep what kernels write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import SimulationError, SpecError
from ...core.records import dataclass
from ...ir import (
    Alias,
    Function,
    Immediate,
    Initial,
    InitialList,
    Instruction,
    MaskedSymbol,
    Module,
    Symbol,
    SymbolAddress,
    Variable,
)
from ...isa import Binding
from ..memory.access import StateSpace
from ..memory.address_space import CONST_WINDOW, FUNCTION_WINDOW, GLOBAL_BASE, RED_ZONE
from .spaces import VARIABLE_SPACES

__all__ = ["ModuleImage", "Stored", "element_bytes"]

#: The largest number of bytes that the variables of a module may take.
_LIMIT = 1 << 30
#: Distance between the addresses of two functions.
_FUNCTION_STEP = 256


@dataclass(frozen=True, eq=False)
class Stored:
    """A ``.global`` variable: its name, address and contents."""

    name: str
    address: int
    data: NDArray[np.uint8]


def _refused(variable: Variable, why: str) -> SpecError:
    return SpecError(
        f"the initial value of {variable.name}: {why}",
        hint="ptxas rejects this initial value, too",
        location=variable.source,
    )


def _elements(
    variable: Variable, initial: Initial | InitialList, shape: tuple[int, ...], start: int = 0
) -> Iterator[tuple[int, Initial]]:
    """Yield the index and the value of each element of an initial value.

    Raises :class:`SpecError` for a list that does not have the array's shape.
    """
    if not isinstance(initial, InitialList):
        if shape:
            raise _refused(variable, f"{initial} was given, but a list of {shape[0]} in braces is needed")
        yield start, initial
        return
    if not shape:
        raise _refused(variable, f"the list {initial} was given, but one value is needed")
    if len(initial.elements) > shape[0]:
        raise _refused(variable, f"{len(initial.elements)} values were given for {shape[0]} elements")
    stride = int(np.prod(shape[1:], dtype=np.int64))
    for number, part in enumerate(initial.elements):
        yield from _elements(variable, part, shape[1:], start + number * stride)


def _float_bytes(variable: Variable, initial: Immediate, width: int) -> bytes:
    """Return the bytes of a float constant as ptxas stores it.

    Raise :class:`SpecError` for an integer variable.
    """
    kind = variable.type
    if kind.kind in "us":
        raise _refused(variable, f"the float {initial.value} was given for an integer, .{kind}")
    double = initial.bits == 64
    pattern = int(str(initial)[2:], 16)
    raw = pattern.to_bytes(initial.bits // 8, "little")
    kept = kind.dtype if kind.is_float else np.dtype(np.float32) if double and width == 4 else None
    if kept is not None and kept.itemsize != len(raw):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.frombuffer(raw, f"<f{len(raw)}").astype(kept).tobytes()
    # Bits for an untyped variable are truncated, or extended with zeros.
    return raw[:width].ljust(width, b"\0")


def element_bytes(variable: Variable) -> int:
    """Return the size in bytes of one element."""
    return max(1, variable.type.nbytes) * variable.vector


class ModuleImage:
    """Addresses of all variables and functions of a module.

    Attributes:
        symbols: state space and address of each module variable and function, by name.
        stored: the ``.global`` variables.
        const: the bytes of constant memory.
        end: first address after the global variables.
        bind: binds an instruction of the module.
    """

    def __init__(self, module: Module, bind: Callable[[Instruction], Binding]) -> None:
        self.module, self.bind = module, bind
        self.symbols: dict[str, tuple[StateSpace, int]] = {}
        self.variables = {v.name: v for v in module.variables if not v.external}
        self.stored: list[Stored] = []
        self.functions = dict(module.by_name)
        for directive in module.directives:
            if isinstance(directive, Alias) and directive.target in self.functions:
                self.functions[directive.name] = self.functions[directive.target]
        self._by_address: dict[int, str] = {}
        for number, name in enumerate(self.functions):
            address = FUNCTION_WINDOW + _FUNCTION_STEP * (number + 1)
            self.symbols[name] = (StateSpace.GENERIC, address)
            self._by_address[address] = name
        self._place(module)

    def function_at(self, address: int) -> Function | None:
        """Return the function with this address, or None."""
        name = self._by_address.get(address)
        return None if name is None else self.functions[name]

    def _place(self, module: Module) -> None:
        total = sum(v.nbytes for v in module.variables if v.space in ("global", "const"))
        if total > _LIMIT:
            raise SimulationError(
                f"the module's variables take {total} bytes; the simulator gives them at most {_LIMIT}"
            )
        constants = 0
        end = GLOBAL_BASE
        for variable in module.variables:
            align = max(variable.align or 1, element_bytes(variable))
            if variable.external:
                # A kernel cannot access a variable that no other declaration defines.
                continue
            space = VARIABLE_SPACES.get(variable.space)
            if space is StateSpace.CONST:
                constants = -(-constants // align) * align
                self.symbols[variable.name] = (space, constants)
                constants += variable.nbytes
            elif space is StateSpace.GLOBAL:
                end = -(-end // max(align, 256)) * max(align, 256)
                self.symbols[variable.name] = (space, end)
                end += variable.nbytes + RED_ZONE
        self.end = end
        self.const = np.zeros(constants, np.uint8)
        for variable in module.variables:
            if variable.external:
                continue
            space, address = self.symbols.get(variable.name, (None, 0))
            if space is StateSpace.CONST:
                self.const[address : address + variable.nbytes] = self._contents(variable)
            elif space is StateSpace.GLOBAL:
                self.stored.append(Stored(variable.name, address, self._contents(variable)))

    # --- first contents -----------------------------------------------------------------------

    def _contents(self, variable: Variable) -> NDArray[np.uint8]:
        data = np.zeros(variable.nbytes, np.uint8)
        if variable.initial is None:
            return data
        shape = variable.shape or ((variable.count,) if variable.count is not None else ())
        if variable.vector > 1:
            shape = (*shape, variable.vector)
        width = max(1, variable.type.nbytes)
        for index, initial in _elements(variable, variable.initial, shape):
            raw = self._encode(variable, initial, width)
            data[index * width : index * width + width] = np.frombuffer(raw, np.uint8)
        return data

    def _encode(self, variable: Variable, initial: Initial, width: int) -> bytes:
        kind = variable.type
        if isinstance(initial, Immediate):
            if isinstance(initial.value, float):
                return _float_bytes(variable, initial, width)
            if kind.is_float and kind.dtype is not None:
                return np.array(initial.value, kind.dtype).tobytes()
            return (initial.value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        if isinstance(initial, MaskedSymbol):
            shift = (initial.mask & -initial.mask).bit_length() - 1
            chosen = (self._address(initial.symbol) & initial.mask) >> shift
            return (chosen & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        if isinstance(initial, (Symbol, SymbolAddress)):
            return (self._address(initial) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        raise SimulationError(f"initial value {initial}: samplers and textures are not simulated")

    def _address(self, symbol: Symbol | SymbolAddress) -> int:
        if symbol.name not in self.symbols:
            raise SimulationError(f"an initial value names {symbol.name}, which the module does not define")
        space, address = self.symbols[symbol.name]
        generic = isinstance(symbol, SymbolAddress) and space is StateSpace.CONST
        return address + symbol.offset + (CONST_WINDOW if generic else 0)

    def find(self, name: str) -> NDArray[Any] | None:
        """Return the bytes of a ``.global`` or ``.const`` variable, or None."""
        space, address = self.symbols.get(name, (None, 0))
        if space is StateSpace.CONST:
            return self.const[address : address + self.variables[name].nbytes]
        return next((stored.data for stored in self.stored if stored.name == name), None)
