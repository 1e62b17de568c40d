"""``ptx.printf``: text from the threads of a kernel, through the ``vprintf`` of the CUDA system.

Owns the check of a format against its arguments, and what a call records: conversions to the types that C
passes, stores of the arguments to local memory, and the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..core.errors import OperandError
from ..core.records import dataclass
from ..core.source import SourceLocation
from ..core.types import ScalarType, b8, b32, b64, f32, f64, pred, s32, u32
from ..ir import (
    Address,
    Arguments,
    Function,
    Guard,
    Immediate,
    InitialList,
    Operand,
    Param,
    Sink,
    Symbol,
    Variable,
)
from .call_sites import here
from .emit import Predicate
from .operands import guard
from .register_arrays import RegArray
from .registers import NotPred, Reg, materialize, owned, result
from .symbols import VectorReg
from .trace import Trace, current
from .types import as_number, bits_of

__all__ = ["printf"]

_FUNCTION = "vprintf"
#: The largest number of arguments that CUDA prints.
_MOST = 32
_CONVERSION = re.compile(r"%(?:%|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?(.)?)", re.DOTALL)
_INTEGERS, _FLOATS = "diouxXc", "aAeEfFgG"
_WIDE = ("l", "ll", "j", "z", "t")


@dataclass(frozen=True)
class _Conversion:
    """One conversion of a format: its text, and what it takes: i32, i64, f64, pointer or text."""

    text: str
    takes: str


def _conversions(template: str) -> list[_Conversion]:
    """Return the conversions of a format. Raises :class:`OperandError` for one that CUDA does not have."""
    found: list[_Conversion] = []
    for match in _CONVERSION.finditer(template):
        text = match.group()
        if text == "%%":
            continue
        _, width, precision, length, letter = match.groups()
        found += [_Conversion(text, "i32") for star in (width, precision) if star == "*"]
        if letter is not None and letter in _INTEGERS and length != "L":
            found.append(_Conversion(text, "i64" if length in _WIDE else "i32"))
        elif letter is not None and letter in _FLOATS and length in (None, "l", "L"):
            found.append(_Conversion(text, "f64"))
        elif letter is not None and letter in "sp" and length is None:
            found.append(_Conversion(text, "text" if letter == "s" else "pointer"))
        else:
            raise OperandError(
                f"printf: {text!r} in {template!r} is not a conversion",
                hint="%d %u %x %lld %llu for integers, %f %e %g for floats, %p, %s for Python strings; "
                "%% prints a percent sign",
            )
    return found


def printf(template: str, *values: Any, pred: Predicate = None) -> None:
    """Print text from each thread that executes the call, as C's ``printf`` does.

    On a GPU the text appears when the host synchronizes with it; in the simulator it is ``report.printed``,
    and calls with numpy arrays print it. The order of threads of different warps is not defined.

    Records four instructions (two moves and two ``cvta``), one ``st.local`` for each argument with the
    conversion that it needs (``cvt`` of f32 and 16-bit floats to f64, of narrow integers to 32 bits, ``selp``
    of predicates), and one ``call`` of ``vprintf``. The first call with a format also adds the format to the
    module.

    Args:
        template: the format: ``%d %i %u %x %X %o %c`` take integers of up to 32 bits and predicates, with
            ``l`` or ``ll`` of 64 bits; ``%f %e %g %a`` take floats; ``%p`` a 64-bit address, ``%s`` a Python
            string. ``*`` takes a width or a precision of 32 bits.
        values: registers, register arrays and vectors (one conversion for each element), Python numbers.
        pred: guard of the call.

    Raises:
        OperandError: the format and the values do not fit together; more than 32 values.

    Source: CUDA C++ Programming Guide, formatted output. PTX ISA: `#kernel-and-function-directives-func`.
    """
    trace = current()
    if "\0" in template:
        raise OperandError(f"printf: the format {template!r} has a zero byte, which would end it")
    wanted = _conversions(template)
    given = list(_flat(values))
    if len(given) != len(wanted):
        raise OperandError(
            f"printf: {template!r} has {len(wanted)} conversions, got {len(given)} values",
            hint="a register array or a vector takes one conversion for each element",
        )
    if len(given) > _MOST:
        raise OperandError(f"printf: {len(given)} values; CUDA prints at most {_MOST}")
    for number, (conversion, value) in enumerate(zip(wanted, given, strict=True), 1):
        _check(number, conversion, value)
    with trace.atomic():
        _record(trace, template, wanted, given, guard(pred, trace), here()[1])


def _flat(values: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the values, with the elements of arrays and vectors one by one."""
    for value in values:
        if isinstance(value, RegArray):
            yield from value
        elif isinstance(value, VectorReg):
            for letter in "xyzw"[: value.operand.vector]:
                yield _Part(value, letter)
        else:
            yield value


@dataclass(frozen=True)
class _Part:
    """An element of a vector register."""

    vector: VectorReg
    letter: str

    @property
    def type(self) -> ScalarType:
        return self.vector.type


# --- what fits --------------------------------------------------------------------------------------


def _check(number: int, conversion: _Conversion, value: Any) -> None:
    """Raise :class:`OperandError` unless the conversion takes the value."""
    takes = conversion.takes
    if takes == "text":
        if not isinstance(value, str) or "\0" in value:
            raise _misfit(number, conversion, value, "%s takes a Python string, which the kernel keeps")
        return
    plain = as_number(value)
    if plain is not None:
        whole = isinstance(plain, int)
        if takes == "f64":
            return
        bits = 32 if takes == "i32" else 64
        if not whole or not -(1 << (bits - 1)) <= plain < 1 << bits:
            raise _misfit(number, conversion, value, f"{conversion.text} takes an integer of {bits} bits")
        return
    kind = pred if isinstance(value, NotPred) else getattr(value, "type", None)
    if not isinstance(kind, ScalarType):
        raise _misfit(number, conversion, value, "expected a register, a Python number, or a string for %s")
    if kind.lanes != 1 or kind.bits > 64:
        raise _misfit(number, conversion, value, "unpack it, and print its parts")
    integer = kind.kind in "usbp"
    if takes == "f64":
        if integer:
            raise _misfit(number, conversion, value, "%d prints integers; .view(f32) prints bits as a float")
        if kind.name not in ("f16", "bf16", "f32", "tf32", "f64"):
            raise _misfit(number, conversion, value, "convert it to f32 first")
        return
    if not integer:
        raise _misfit(number, conversion, value, "%f prints floats; .view(b32) prints their bits with %x")
    if takes == "i32" and kind.bits > 32:
        raise _misfit(number, conversion, value, "write ll before the letter: %lld, %llu, %llx")
    if takes != "i32" and kind.bits != 64:
        raise _misfit(number, conversion, value, "this conversion takes 64 bits: %d, %u and %x take 32")


def _misfit(number: int, conversion: _Conversion, value: Any, hint: str) -> OperandError:
    kind = pred if isinstance(value, NotPred) else getattr(value, "type", None)
    shown = f"{value!r} of type {kind}" if isinstance(kind, ScalarType) else repr(value)
    return OperandError(f"printf: {conversion.text} (value {number}) does not take {shown}", hint=hint)


# --- what is recorded -------------------------------------------------------------------------------


def _record(
    trace: Trace,
    template: str,
    wanted: list[_Conversion],
    given: list[Any],
    condition: Guard | None,
    source: SourceLocation,
) -> None:
    _declare_function(trace)
    arguments: list[tuple[str, Operand]] = []
    for conversion, value in zip(wanted, given, strict=True):
        arguments.append(_argument(trace, conversion, value, source))
    position, stores = 0, []
    for kind, operand in arguments:
        size = 4 if kind == "b32" else 8
        position = -(-position // size) * size
        stores.append((kind, operand, position))
        position += size
    area = trace.free_symbol("printf_values")
    trace.symbols.names.append(area)
    trace.symbols.variables.append(Variable(area, "local", b8, max(8, position), 8, source=source))
    for kind, operand, offset in stores:
        trace.record("st", ("local", kind), (Address(Symbol(area, offset)), operand), None, source)
    text = _address(trace, "global", _string(trace, template, source), "printf_format")
    packed = _address(trace, "local", area, "printf_packed")
    operands = (Arguments((Sink(),)), Symbol(_FUNCTION), Arguments((text.operand, packed.operand)))
    trace.record("call", (), operands, condition, source)


def _address(trace: Trace, space: str, name: str, hint: str) -> Reg:
    """Return the generic address of a variable. Records two instructions."""
    own = result(trace, b64, "mov", ("u64",), (Symbol(name),), hint)
    return result(trace, b64, "cvta", (space, "u64"), (own.operand,), hint)


def _argument(
    trace: Trace, conversion: _Conversion, value: Any, source: SourceLocation
) -> tuple[str, Operand]:
    """Return a value as C passes it: the type of its store, and the operand. Records its conversion."""
    if conversion.takes == "text":
        return "b64", _address(trace, "global", _string(trace, value, source), "printf_text").operand
    size = "b32" if conversion.takes == "i32" else "b64"
    number = as_number(value)
    if number is not None:
        if conversion.takes == "f64":
            return "f64", Immediate(float(number))
        return size, Immediate(int(number))
    if isinstance(value, _Part):
        kind = value.type
        element = getattr(value.vector, value.letter)
        value = result(trace, kind, "mov", (bits_of(kind).name,), (element,), "printf_value")
    register = materialize(value, trace)
    kind = register.type
    operand = owned(register, trace).operand
    if kind is pred:
        return size, result(
            trace, u32, "selp", ("u32",), (Immediate(1), Immediate(0), operand), "printf_value"
        ).operand
    if conversion.takes == "f64":
        if kind.name in ("f16", "bf16"):
            operand = result(trace, f32, "cvt", ("f32", kind.name), (operand,), "printf_value").operand
        if kind is not f64:
            operand = result(trace, f64, "cvt", ("f64", "f32"), (operand,), "printf_value").operand
        return "f64", operand
    if kind.bits < 32:
        wide = s32 if kind.kind == "s" else u32
        narrow = kind.name if kind.kind in "us" else f"u{kind.bits}"
        operand = result(trace, wide, "cvt", (wide.name, narrow), (operand,), "printf_value").operand
    return size, operand


def _string(trace: Trace, text: str, source: SourceLocation) -> str:
    """Return the name of the module's variable with these bytes and a zero byte."""
    builder = trace.builder
    raw = text.encode()
    known: str | None = builder.known.get((_FUNCTION, raw))
    if known is None:
        known = builder.known[_FUNCTION, raw] = trace.free_symbol("printf_text")
        builder.take(known)
        initial = InitialList(tuple(Immediate(byte) for byte in (*raw, 0)))
        builder.variables.append(
            Variable(known, "global", b8, len(raw) + 1, 1, source=source, initial=initial)
        )
    return known


def _declare_function(trace: Trace) -> None:
    """Declare ``vprintf`` in the module, once."""
    builder = trace.builder
    if _FUNCTION in builder.known:
        return
    head = Function(
        _FUNCTION,
        (Param("format", b64), Param("values", b64)),
        kind="func",
        linkage="extern",
        returns=(Param("printed", b32),),
        prototype=True,
    )
    builder.functions.append(head)
    builder.take(_FUNCTION)
    builder.known[_FUNCTION] = head
