"""Evaluates the annotations of an author's function, such as ``def dot(x: f32, y: f32) -> f32``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

__all__ = ["Annotations"]


class Annotations:
    """Evaluates the annotations of ``body``, which are strings under ``from __future__ import annotations``.

    ``scope`` has the variables of the function around ``body``: the closure of ``body`` may lack them.
    """

    def __init__(self, body: Callable[..., Any], scope: Mapping[str, Any]) -> None:
        self._globals = body.__globals__
        self._names = dict(scope)
        for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable without a value yet, such as the function itself
                self._names[name] = cell.cell_contents

    def __call__(self, annotation: Any) -> Any:
        """Return the value of an annotation; a string that names something unknown is returned as it is."""
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, self._globals, self._names)
        except NameError:
            return annotation
