"""Checks the arguments of the DSL's public functions against the annotations of their signatures.

Owns :func:`guard_arguments`, which adds the check to every public function of a namespace.  If an argument
does not fit its annotation, the call is refused before the function runs; the message has the value and the
expected kind of value (:mod:`.checks`).  If a function raises an error after it recorded instructions, these
instructions are removed.  numpy scalars count as Python numbers.
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from ..core.errors import InstructionError, OperandError
from ..core.types import TYPES, ScalarType
from ..isa import form
from .checks import Check, check_of
from .records import recorded_forms
from .registers import NotPred, Reg
from .trace import current_or_none
from .types import as_number
from .valueless import Valueless

__all__ = ["guard_arguments", "guard_methods"]

_LONGEST = 120
_UNITS = f"{__package__}.units"
#: Callable objects, such as ``ptx.mma``: id -> the name that messages use. Several may have one class.
_OBJECTS: dict[int, str] = {}


class _Checks:
    """The checks of one function's arguments. They are created at the first call of the function."""

    def __init__(self, function: Callable[..., Any], bound: bool) -> None:
        hints = typing.get_type_hints(function)
        self.named: dict[str, Check] = {}
        self.places: list[tuple[str, Check]] = [("self", check_of(Any))] if bound else []
        self.rest: Check | None = None
        for parameter in list(inspect.signature(function).parameters.values())[int(bound) :]:
            check = check_of(hints.get(parameter.name, Any))
            if parameter.default == "":
                check = check._replace(classes=(*check.classes, str))
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = check
            elif parameter.kind is not parameter.VAR_KEYWORD:
                self.named[parameter.name] = check
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.places.append((parameter.name, check))

    def misfit(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, Check, Any] | None:
        """Return the name, the check and the value of the first argument that does not fit, or None."""
        return next(self._misfits(arguments, named), None)

    def _misfits(
        self, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Iterator[tuple[str, Check, Any]]:
        for (name, check), value in zip(self.places, arguments, strict=False):  # Python checks the number
            if not check.accepts(value):
                yield name, check, value
        if self.rest is not None:
            for number, value in enumerate(arguments[len(self.places) :], 1):
                if not self.rest.accepts(value):
                    yield f"argument {number}", self.rest, value
        for name, value in named.items():
            known = self.named.get(name)
            if known is not None and not known.accepts(value):
                yield name, known, value


def _shown(value: Any) -> str:
    if isinstance(value, Reg):
        return f"the register {value} (.{value.type})"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def _advice(check: Check, value: Any) -> str:
    """Return a hint that says what to write instead of ``value``; "" if it is not a common mistake."""
    if isinstance(value, Valueless):
        return value.remedy()[1]
    if isinstance(value, np.ndarray):
        return "arrays reach a kernel as its parameters; a constant is one number, such as float(a[0])"
    if isinstance(value, NotPred):
        return "put it into a register first: reg.scalar(pred, init=~p)"
    if ScalarType in check.classes and str(value) in TYPES:
        return f"a PTX type is an object: from pyptx import {value}"
    if isinstance(value, str) and (close := difflib.get_close_matches(value, check.choices, 1)):
        return f"did you mean {close[0]!r}?"
    if isinstance(value, Reg) and int in check.classes:
        return "write a Python number here, which is known while the kernel is recorded"
    if as_number(value) is not None and Reg in check.classes and int not in check.classes:
        return f"put the number into a register first: reg.scalar(u32, init={value})"
    return ""


def _refusal(function: Callable[..., Any], where: str, name: str, check: Check, value: Any) -> OperandError:
    forms = recorded_forms(function)
    return OperandError(
        f"{name} of {where} is {_shown(value)}: expected {check}",
        hint=_advice(check, value),
        see=form(forms[0]).anchor if forms else "",
    )


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a Python number, also inside lists. Return any other value unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple) and any(isinstance(item, np.generic) for item in value):
        return type(value)([_plain(item) for item in value])
    return value


def _with_registers(error: InstructionError, where: str, values: Iterable[Any]) -> InstructionError:
    """Return ``error`` with a hint that lists the registers whose types selected the instruction."""
    given = ", ".join(_shown(value) for value in values if isinstance(value, Reg))
    if not given:
        return error
    hint = f"{error.hint}; {where} was given {given}" if error.hint else f"{where} was given {given}"
    return InstructionError(error.message, location=error.location, hint=hint, see=error.see)


def _guarded(function: Callable[..., Any], where: str, *, bound: bool = False) -> Callable[..., Any]:
    made: list[_Checks] = []

    def label(arguments: Sequence[Any]) -> str:
        return _OBJECTS.get(id(arguments[0]), where) if bound and arguments else where

    @wraps(function)
    def guarded(*arguments: Any, **named: Any) -> Any:
        if not made:
            made.append(_Checks(function, bound))
        checks, trace = made[0], current_or_none()
        mark = trace.mark() if trace is not None else None
        try:
            if checks.misfit(arguments, named) is not None:
                arguments = tuple(map(_plain, arguments))
                named = {name: _plain(value) for name, value in named.items()}
                if misfit := checks.misfit(arguments, named):
                    raise _refusal(function, label(arguments), *misfit)
            return function(*arguments, **named)
        except BaseException as error:
            if trace is not None and mark is not None:
                trace.restore(mark)
            if isinstance(error, InstructionError):
                raise _with_registers(error, label(arguments), (*arguments, *named.values())) from None
            raise

    return guarded


def guard_methods(owner: type, where: str, names: Iterable[str]) -> None:
    """Make methods of a class check their arguments. Messages call an instance ``where``."""
    for name in names:
        method = getattr(owner, name)
        if not hasattr(method, "__wrapped__"):
            label = where if name == "__call__" else f"{where}.{name}"
            setattr(owner, name, _guarded(method, label, bound=True))


def guard_arguments(namespace: ModuleType, where: str) -> None:
    """Add checks to every public function of a namespace, of its units, and of their callable objects."""
    for name in namespace.__all__:
        value, label = getattr(namespace, name), f"{where}.{name}"
        if inspect.isfunction(value):
            setattr(namespace, name, _guarded(value, label))
        elif isinstance(value, ModuleType):
            guard_arguments(value, label)
        elif type(value).__module__ == namespace.__name__ or type(value).__module__.startswith(_UNITS):
            _guard_object(value, label)


def _guard_object(value: object, where: str) -> None:
    """Add checks to a callable object that also has functions as attributes, such as ``ptx.mma``."""
    _OBJECTS[id(value)] = where
    members = vars(type(value))
    callables = [n for n, v in members.items() if inspect.isfunction(v) and (n[0] != "_" or n == "__call__")]
    guard_methods(type(value), where, callables)
    for name, member in list(members.items()):
        if isinstance(member, ModuleType):
            guard_arguments(member, f"{where}.{name}")
        elif isinstance(member, staticmethod):
            setattr(type(value), name, staticmethod(_guarded(member.__func__, f"{where}.{name}")))
