"""Arguments of the DSL's public functions, held against the types that their signatures name.

Owns :func:`guard_arguments`, which puts the check in front of every public function of a namespace.  What
fits its annotation goes straight to the function.  What does not is refused, with the value and what was
expected: in the function's own words if it has any for the value, else in those of the annotation.  Either
way nothing stays recorded: a register compared with a Python value, for one, records a ``setp``.  numpy's
scalars count as Python's numbers.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InstructionError, OperandError, PyptxError
from ..core.types import ScalarType
from .operands import Addr, Addressable
from .registers import NotPred, Reg, RegArray
from .smem import Buffer
from .symbols import Sym
from .trace import current_or_none
from .valueless import Valueless

__all__ = ["guard_arguments", "guard_methods"]

#: What stands for a class, beyond its instances.
_CLASSES: dict[type, tuple[type, ...]] = {
    float: (float, int),
}
#: How a class is called in a message.
_WORDS: dict[type, str] = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    type(None): "None",
    Reg: "a register",
    NotPred: "~p",
    RegArray: "a register array",
    ScalarType: "a PTX type",
    Addr: "ptx.addr(...)",
    Addressable: "a shared-memory buffer",
    Buffer: "a shared-memory buffer",
    Sym: "a symbol",
}
_LONGEST = 120
_UNITS = f"{__package__}.units"


class _Check(NamedTuple):
    """What a parameter takes: instances of classes, or what one of the tests accepts."""

    classes: tuple[type, ...]
    tests: tuple[Callable[[Any], bool], ...]
    words: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.classes) or any(test(value) for test in self.tests)


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _anything(value: Any) -> bool:
    return True


def _check(hint: Any) -> _Check:
    """The check of an annotation; what it cannot tell apart it accepts."""
    if hint is None:
        hint = type(None)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = [_check(argument) for argument in arguments]
        return _Check(
            tuple(known for part in parts for known in part.classes),
            tuple(test for part in parts for test in part.tests),
            tuple(dict.fromkeys(word for part in parts for word in part.words)),
        )
    if origin is tuple:
        return _tuple(arguments)
    if origin is Sequence or hint is Sequence:
        return _sequence(_check(arguments[0]) if arguments else _check(Any))
    if origin is Callable or hint is Callable:
        return _Check((), (callable,), ("a function",))
    if origin is typing.Literal:
        words = tuple(map(repr, arguments))
        return _Check((), (lambda value: isinstance(value, str) and value in arguments,), words)
    if hint is str:
        return _Check((), (_text,), ("a word",))
    if isinstance(hint, type) and hint not in (object, Any):
        word = _WORDS.get(hint, f"{_article(hint.__name__)} {hint.__name__}")
        return _Check(_CLASSES.get(hint, (hint,)), (), (word,))
    return _Check((), (_anything,), ("anything",))


def _article(noun: str) -> str:
    return "an" if noun[0] in "AEIOUaeiou" else "a"


def _several(value: Any) -> bool:
    """Whether ``value`` is several values in order, which a text, a set or a numpy array is not."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _sequence(element: _Check) -> _Check:
    def test(value: Any) -> bool:
        return _several(value) and all(element.accepts(item) for item in value)

    return _Check((), (test,), (f"a list ({' or '.join(element.words)} each)",))


def _tuple(arguments: tuple[Any, ...]) -> _Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence(_check(arguments[0]))
    parts = [_check(argument) for argument in arguments]

    def test(value: Any) -> bool:
        return (
            _several(value)
            and len(value) == len(parts)
            and all(part.accepts(item) for part, item in zip(parts, value, strict=True))
        )

    return _Check((), (test,), (f"({', '.join(' or '.join(part.words) for part in parts)})",))


class _Checks:
    """The checks of a function's parameters, made at its first call."""

    def __init__(self, function: Callable[..., Any], bound: bool) -> None:
        hints = typing.get_type_hints(function)
        self.named: dict[str, _Check] = {}
        self.places: list[tuple[str, _Check]] = [("self", _check(Any))] if bound else []
        self.rest: _Check | None = None
        for parameter in list(inspect.signature(function).parameters.values())[int(bound) :]:
            check = _check(hints.get(parameter.name, Any))
            if parameter.default == "":
                check = check._replace(classes=(*check.classes, str))
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = check
            elif parameter.kind is not parameter.VAR_KEYWORD:
                self.named[parameter.name] = check
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.places.append((parameter.name, check))

    def fit(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        return next(self.wrong(arguments, named), None) is None

    def wrong(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Iterator[tuple[str, _Check, Any]]:
        """Arguments that do not fit, with what was expected of them."""
        for (name, check), value in zip(self.places, arguments, strict=False):  # Python counts them
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


def _advice(value: Any) -> str:
    if isinstance(value, Valueless):
        return value.remedy()[1]
    if isinstance(value, np.ndarray):
        return "arrays reach a kernel as its parameters; a constant is one number, such as float(a[0])"
    if isinstance(value, NotPred):
        return "put it into a register first: reg.scalar(pred, init=~p)"
    return ""


def _refusal(where: str, name: str, check: _Check, value: Any) -> OperandError:
    return OperandError(
        f"{name} of {where} is {_shown(value)}: expected {' or '.join(check.words)}", hint=_advice(value)
    )


def _speaks_of(error: PyptxError, value: Any) -> bool:
    """Whether the message of ``error`` has the value, or the name of its type."""
    forms = {repr(value), str(value), type(value).__name__} - {""}
    return any(form in error.message for form in forms)


def _plain(value: Any) -> Any:
    """numpy's scalars as Python's numbers, in lists too; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple) and any(isinstance(item, np.generic) for item in value):
        return type(value)([_plain(item) for item in value])
    return value


def _hinted(error: OperandError, hint: str) -> OperandError:
    return OperandError(error.message, location=error.location, hint=hint, see=error.see)


def _with_registers(error: InstructionError, where: str, values: Iterable[Any]) -> InstructionError:
    """``error``, whose instruction was chosen by the types of registers, with these registers."""
    given = ", ".join(_shown(value) for value in values if isinstance(value, Reg))
    if not given:
        return error
    hint = f"{error.hint}; {where} was given {given}" if error.hint else f"{where} was given {given}"
    return InstructionError(error.message, location=error.location, hint=hint, see=error.see)


def _guarded(function: Callable[..., Any], where: str, *, bound: bool = False) -> Callable[..., Any]:
    made: list[_Checks] = []

    def refused(checks: _Checks, arguments: Sequence[Any], named: Mapping[str, Any]) -> PyptxError | None:
        """Why the arguments are refused, if they are; what the function records meanwhile is taken back."""
        for name, check, value in checks.wrong(arguments, named):
            error = _refusal(where, name, check, value)
            try:
                function(*arguments, **named)
            except OperandError as own:
                if not _speaks_of(own, value) and current_or_none() is not None:
                    return error
                return own if own.hint else _hinted(own, _advice(value))
            except PyptxError as own:
                return own if _speaks_of(own, value) or current_or_none() is None else error
            except Exception:
                return error
            return error
        return None

    @wraps(function)
    def guarded(*arguments: Any, **named: Any) -> Any:
        if not made:
            made.append(_Checks(function, bound))
        checks, trace = made[0], current_or_none()
        mark = trace.mark() if trace is not None else None
        try:
            if not checks.fit(arguments, named):
                arguments = tuple(map(_plain, arguments))
                named = {name: _plain(value) for name, value in named.items()}
                error = refused(checks, arguments, named)
                if error is not None:
                    raise error
            return function(*arguments, **named)
        except BaseException as error:
            if trace is not None and mark is not None:
                trace.restore(mark)
            if isinstance(error, InstructionError):
                raise _with_registers(error, where, (*arguments, *named.values())) from None
            raise

    return guarded


def guard_methods(owner: type, where: str, names: Iterable[str]) -> None:
    """Check the arguments of methods of a class, whose instances messages call ``where``."""
    for name in names:
        method = getattr(owner, name)
        if not hasattr(method, "__wrapped__"):
            label = where if name == "__call__" else f"{where}.{name}"
            setattr(owner, name, _guarded(method, label, bound=True))


def guard_arguments(namespace: ModuleType, where: str) -> None:
    """Check the arguments of every public function of a namespace, of its units, and of objects of theirs."""
    for name in namespace.__all__:
        value, label = getattr(namespace, name), f"{where}.{name}"
        if inspect.isfunction(value):
            setattr(namespace, name, _guarded(value, label))
        elif isinstance(value, ModuleType):
            guard_arguments(value, label)
        elif type(value).__module__ == namespace.__name__ or type(value).__module__.startswith(_UNITS):
            _guard_object(value, label)


def _guard_object(value: object, where: str) -> None:
    """The same for what is called itself and has functions below it, such as ``ptx.mma``."""
    members = vars(type(value))
    callables = [n for n, v in members.items() if inspect.isfunction(v) and (n[0] != "_" or n == "__call__")]
    guard_methods(type(value), where, callables)
    for name, member in list(members.items()):
        if isinstance(member, ModuleType):
            guard_arguments(member, f"{where}.{name}")
        elif isinstance(member, staticmethod):
            setattr(type(value), name, staticmethod(_guarded(member.__func__, f"{where}.{name}")))
