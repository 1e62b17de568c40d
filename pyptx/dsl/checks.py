"""Builds a check from an annotation of the DSL's public functions.

Owns :func:`check_of`: it makes one check for each kind of annotation (classes, unions, literals, sequences,
tuples, functions), with the phrase that names the expected values in a message.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..core.tuples import NamedTuple
from ..core.types import ScalarType
from .operands import Addr, Addressable
from .register_arrays import RegArray
from .registers import NotPred, Reg
from .smem import Buffer
from .symbols import Sym

__all__ = ["Check", "check_of"]

#: Other classes whose instances are accepted where a class is annotated.
_ALSO: dict[type, tuple[type, ...]] = {float: (int,)}
#: The name that a message uses for an instance of a class.
_NAMES: dict[type, str] = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a string that is not empty",
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


class Check(NamedTuple):
    """The values that a parameter takes: instances of ``classes``, and values that one of ``tests`` accepts.

    Attributes:
        classes: an instance of one of these classes is accepted at once.
        tests: predicates that are called with any other value.
        expected: the alternatives that a message says were expected.
        choices: the accepted strings, if the annotation lists them.
    """

    classes: tuple[type, ...]
    tests: tuple[Callable[[Any], bool], ...]
    expected: tuple[str, ...]
    choices: tuple[str, ...] = ()

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.classes) or any(test(value) for test in self.tests)

    def __str__(self) -> str:
        return " or ".join(self.expected)


_ANYTHING = Check((object,), (), ("anything",))


@cache
def check_of(hint: Any) -> Check:
    """Return the check for an annotation. One that names no class, such as ``Any``, accepts any value."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union([check_of(argument) for argument in arguments])
    if origin is typing.Literal:
        return _literal(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if Sequence in (origin, hint):
        return _sequence(check_of(arguments[0]) if arguments else _ANYTHING)
    if Callable in (origin, hint):
        return Check((), (callable,), ("a function",))
    if hint is None:
        hint = type(None)
    return _class(hint) if isinstance(hint, type) and hint is not Any else _ANYTHING


def _union(parts: list[Check]) -> Check:
    return Check(
        tuple(known for part in parts for known in part.classes),
        tuple(test for part in parts for test in part.tests),
        tuple(dict.fromkeys(text for part in parts for text in part.expected)),
        tuple(choice for part in parts for choice in part.choices),
    )


def _literal(choices: tuple[Any, ...]) -> Check:
    """Return a check that accepts only ``choices``; ``True`` does not count as 1."""

    def test(value: Any) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in choices)

    strings = tuple(choice for choice in choices if isinstance(choice, str))
    return Check((), (test,), tuple(map(repr, choices)), strings)


def _class(known: type) -> Check:
    article = "an" if known.__name__[0] in "AEIOUaeiou" else "a"
    expected = (_NAMES.get(known, f"{article} {known.__name__}"),)
    if known is str:
        return Check((), (lambda value: isinstance(value, str) and value != "",), expected)
    return Check((known, *_ALSO.get(known, ())), (), expected)


def _in_order(value: Any) -> bool:
    """True if ``value`` is a list, tuple or other sequence; a string, set or numpy array does not count."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _sequence(element: Check) -> Check:
    def test(value: Any) -> bool:
        return _in_order(value) and all(element.accepts(item) for item in value)

    return Check((), (test,), (f"a list ({element} each)",))


def _tuple(arguments: tuple[Any, ...]) -> Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence(check_of(arguments[0]))
    parts = [check_of(argument) for argument in arguments]

    def test(value: Any) -> bool:
        return (
            _in_order(value)
            and len(value) == len(parts)
            and all(part.accepts(item) for part, item in zip(parts, value, strict=True))
        )

    return Check((), (test,), (f"({', '.join(map(str, parts))})",))
