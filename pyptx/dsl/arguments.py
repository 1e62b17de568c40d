"""Checks the arguments of the DSL's public functions against the annotations of their signatures.

Owns :func:`guard_arguments`, which adds the check to every public function of a namespace.  If an argument
does not fit its annotation, the call is refused before the function runs; the message has the value and the
expected kind of value (:mod:`.checks`).  If a function raises an error after it recorded instructions, these
instructions are removed.  numpy scalars count as Python numbers.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
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

__all__ = ["guard_arguments", "guard_methods", "guarded_value"]

_LONGEST = 120
_UNITS = f"{__package__}.units"
#: Callable objects, such as ``ptx.mma``: id -> the name that messages use. Several may have one class.
_OBJECTS: dict[int, str] = {}


class _Checks:
    """The checks of one function's arguments, each made when a call first gives the argument.

    Attributes:
        places: the parameters that arguments by position go to.
        rest: the parameter that takes further arguments by position, or "".
    """

    def __init__(self, function: Callable[..., Any], bound: bool) -> None:
        written = inspect.unwrap(function)
        code, hints = written.__code__, written.__annotations__
        count = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[: count + bool(code.co_flags & inspect.CO_VARARGS)]
        last_first = zip(names[: code.co_argcount][::-1], (written.__defaults__ or ())[::-1], strict=False)
        defaults = dict(last_first)
        defaults |= written.__kwdefaults__ or {}
        self._names = written.__globals__
        #: The annotation of each parameter, and whether an empty text is its default.
        self._hints: dict[str, tuple[Any, bool]] = {
            name: (hints.get(name, Any), defaults.get(name) == "") for name in names
        }
        self._made: dict[str, Check] = {}
        self.places = list(names[: code.co_argcount])
        self.rest = names[count] if len(names) > count else ""
        if bound:
            self._hints[names[0]] = Any, False

    def misfit(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, Check, Any] | None:
        """Return the name, the check and the value of the first argument that does not fit, or None."""
        made = self._made
        for name, value in zip(self.places, arguments, strict=False):  # Python checks the number
            check = made.get(name) or self._check(name)
            if not check.accepts(value):
                return name, check, value
        if self.rest:
            check = self._check(self.rest)
            for number, value in enumerate(arguments[len(self.places) :], 1):
                if not check.accepts(value):
                    return f"argument {number}", check, value
        for name, value in named.items():
            if name in self._hints and name != self.rest:
                check = made.get(name) or self._check(name)
                if not check.accepts(value):
                    return name, check, value
        return None

    def _check(self, name: str) -> Check:
        """Return the check of a parameter."""
        made = self._made.get(name)
        if made is None:
            hint, empty = self._hints[name]
            # Annotations are text, as ``from __future__ import annotations`` makes them.
            made = check_of(eval(hint, self._names) if isinstance(hint, str) else hint)
            if empty:
                made = made._replace(classes=(*made.classes, str))
            self._made[name] = made
        return made


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
    """Add checks to every public function of a namespace, of its units, and of their callable objects.

    A name that the namespace has not imported yet gets its checks when it is imported.
    """
    for name in set(namespace.__all__) & vars(namespace).keys():
        setattr(namespace, name, guarded_value(getattr(namespace, name), f"{where}.{name}"))


def guarded_value(value: Any, where: str) -> Any:
    """Return a function with checks; other members of a namespace get the checks themselves."""
    if inspect.isfunction(value):
        return _guarded(value, where)
    if isinstance(value, ModuleType):
        guard_arguments(value, where)
    elif type(value).__module__.startswith(_UNITS):
        _guard_object(value, where)
    return value


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
