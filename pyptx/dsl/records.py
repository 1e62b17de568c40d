"""Which forms of the instruction table a function of the DSL records.

Owns the decorator :func:`records`, which stands on every function that records one instruction, and
:func:`recorded_forms`, which ``pyptx isa``, the reference pages and the tests read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["recorded_forms", "records"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_FORMS: dict[Callable[..., Any], tuple[str, ...]] = {}


def records(*forms: str) -> Callable[[_Function], _Function]:
    """The decorated function records an instruction of one of ``forms``, identifiers of the table."""

    def keep(function: _Function) -> _Function:
        _FORMS[function] = forms
        return function

    return keep


def recorded_forms(function: Callable[..., Any]) -> tuple[str, ...]:
    """Identifiers of the forms that a public function of the DSL may record; empty if it is not decorated.

    ``function`` may also be an object that is called itself, such as ``ptx.mma``: what is said of the object
    goes before what is said of its class.
    """
    if function in _FORMS:
        return _FORMS[function]
    plain = function if inspect.isfunction(function) else vars(type(function)).get("__call__", function)
    return _FORMS.get(inspect.unwrap(plain), ())
