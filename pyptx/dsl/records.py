"""Stores, for each function of the DSL, the instruction forms of the table that it may record.

Owns the decorator :func:`records`, which marks every function that records one instruction, and
:func:`recorded_forms`, which ``pyptx isa``, the reference pages and the tests call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["recorded_forms", "records"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_FORMS: dict[Callable[..., Any], tuple[str, ...]] = {}


def records(*forms: str) -> Callable[[_Function], _Function]:
    """Return a decorator that notes the instruction forms (ids of the table) that a function may record."""

    def keep(function: _Function) -> _Function:
        _FORMS[function] = forms
        return function

    return keep


def recorded_forms(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the ids of the instruction forms that a public function of the DSL may record.

    The tuple is empty for a function without the decorator.  ``function`` may also be a callable object, such
    as ``ptx.mma``: the forms of the object go before the forms of its class.
    """
    if function in _FORMS:
        return _FORMS[function]
    plain = function if inspect.isfunction(function) else vars(type(function)).get("__call__", function)
    return _FORMS.get(inspect.unwrap(plain), ())
