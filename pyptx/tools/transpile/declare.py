"""Writes declarations as Python: ``ir.Param(...)``, and the keywords of a variable with its initial value."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.types import ScalarType
from ...ir import (
    OPAQUE_TYPES,
    Immediate,
    Initial,
    InitialList,
    MaskedSymbol,
    Param,
    Setting,
    Symbol,
    SymbolAddress,
    Variable,
)
from .text import nearest, number

__all__ = ["parameter", "parameter_name", "type_text", "unnamed", "variable_options"]


def parameter_name(name: str, function: str) -> str:
    """Return a parameter's name without the prefix with the function's name, which compilers add."""
    return name.removeprefix(f"{function}_") if name != f"{function}_" else name


def type_text(kind: ScalarType, used: set[str]) -> str:
    """Return the Python name of a type and add it to ``used``; textures and samplers have no name."""
    if kind.name in OPAQUE_TYPES:
        used.add("ir")
        return f'ir.OPAQUE_TYPES["{kind.name}"]'
    used.add(kind.name)
    return kind.name


def parameter(param: Param, name: str, used: set[str]) -> str:
    """Return a parameter as ``ir.Param("n", u32)``, and add the names that it needs to ``used``."""
    used.add("ir")
    words = [f'"{name}"', type_text(param.type, used)]
    extents = param.shape or (() if param.count is None else (param.count,))
    if param.count is not None:
        words.append(str(param.count))
    if param.align is not None:
        words.append(f"align={param.align}" if param.count is None else str(param.align))
    if len(extents) > 1:
        words.append(f"shape={extents}")
    if param.space != "param":
        words.append(f'space="{param.space}"')
    if param.vector != 1:
        words.append(f"vector={param.vector}")
    if param.pointer is not None:
        align = "" if param.pointer.align is None else f", {param.pointer.align}"
        words.append(f'pointer=ir.Pointer("{param.pointer.space}"{align})')
    return f"ir.Param({', '.join(words)})"


def unnamed(param: Param, used: set[str]) -> str:
    """Return the text of a parameter's declaration without its name: ``u32``, or a call of ``ptx.param``."""
    if param.shape or param.vector != 1:
        return parameter(param, "_", used)
    words = [type_text(param.type, used)]
    align = param.align
    if param.count is not None:
        words.append(str(param.count))
    if param.pointer is not None:
        words.append(f'pointer="{param.pointer.space or "generic"}"')
        align = param.pointer.align
    if align is not None:
        words.append(f"align={align}")
    if param.space != "param":
        words.append(f'space="{param.space}"')
    if len(words) == 1:
        return words[0]
    used.add("ptx")
    return f"ptx.param({', '.join(words)})"


def variable_options(variable: Variable, symbols: Mapping[str, str], used: set[str]) -> list[str]:
    """Return the keywords of a variable's declaration; ``symbols`` has Python names of earlier variables."""
    found = []
    extents = variable.shape or (() if variable.count is None else (variable.count,))
    if extents:
        found.append(f"shape=({extents[0]},)" if len(extents) == 1 else f"shape={extents}")
    for what, value, absent in (
        ("align", variable.align, None),
        ("vector", variable.vector, 1),
        ("external", variable.external, False),
    ):
        if value != absent:
            found.append(f"{what}={value}")
    if variable.linkage:
        found.append(f'linkage="{variable.linkage}"')
    if variable.attributes:
        used.add("ir")
        words = ", ".join(
            f'ir.Attribute("{a.name}", {a.values})' if a.values else f'ir.Attribute("{a.name}")'
            for a in variable.attributes
        )
        found.append(f"attributes=({words},)")
    if variable.initial is not None:
        found.append(f"init={_initial(variable.initial, variable.type, symbols, used)}")
    return found


def _initial(
    value: Initial | InitialList, kind: ScalarType, symbols: Mapping[str, str], used: set[str]
) -> str:
    if isinstance(value, InitialList):
        text = _string(value) if kind.name in ("b8", "u8") else None
        if text is not None:
            return f"list({text})"
        return f"[{', '.join(_initial(e, kind, symbols, used) for e in value.elements)}]"
    if isinstance(value, Immediate):
        if isinstance(value.value, int):
            return number(value.value)
        if value.pattern is None and kind.name in ("f32", "f64") and value.bits == kind.bits:
            return number(nearest(value.value, value.bits))
        used.add("ir")
        return f"ir.Immediate.from_pattern(0x{str(value)[2:]}, {value.bits})"
    if isinstance(value, Symbol) and value.name in symbols:
        base = symbols[value.name]
        return f"{base} + {value.offset}" if value.offset else base
    used.add("ir")
    if isinstance(value, MaskedSymbol):
        return f"ir.MaskedSymbol({value.mask:#x}, {_node(value.symbol)})"
    return _node(value)


def _node(value: Symbol | SymbolAddress | Setting | MaskedSymbol) -> str:
    if isinstance(value, Setting):
        return f'ir.Setting("{value.name}", {value.value!r})'
    assert isinstance(value, Symbol | SymbolAddress)
    offset = f", {value.offset}" if value.offset else ""
    return f'ir.{type(value).__name__}("{value.name}"{offset})'


def _string(value: InitialList) -> str | None:
    """Return bytes as a Python bytes literal if they are readable text, else None."""
    numbers = [e.value for e in value.elements if isinstance(e, Immediate)]
    if len(numbers) != len(value.elements) or len(numbers) < 3:
        return None
    data = []
    for n in numbers:
        if not isinstance(n, int) or not (32 <= n < 127 or n in (0, 9, 10, 13, 27)):
            return None
        data.append(n)
    if 0 in data[:-1]:
        return None
    return (
        repr(bytes(data)).replace("b'", 'b"', 1)[:-1] + '"' if b'"' not in bytes(data) else repr(bytes(data))
    )
