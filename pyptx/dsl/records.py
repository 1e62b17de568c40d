"""Stores which forms of the instruction table each function of the DSL records.

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
    """Mark a function that records an instruction of one of ``forms``, given as identifiers of the table."""

    def keep(function: _Function) -> _Function:
        _FORMS[function] = forms
        return function

    return keep


def recorded_forms(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the identifiers of the forms that a public function of the DSL may record.

    The tuple is empty for a function without the decorator.  ``function`` may also be a callable object, such
    as ``ptx.mma``: the forms of the object go before the forms of its class.
    """
    if function in _FORMS:
        return _FORMS[function]
    plain = function if inspect.isfunction(function) else vars(type(function)).get("__call__", function)
    return _FORMS.get(inspect.unwrap(plain), ())
