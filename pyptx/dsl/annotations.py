"""What an author's annotations mean: the types of ``def dot(x: f32, y: f32) -> f32``, texts or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

__all__ = ["Annotations"]


class Annotations:
    """Reads the annotations of ``body``, which are texts under ``from __future__ import annotations``.

    ``scope`` has the variables of the function around ``body``, which its closure may lack.
    """

    def __init__(self, body: Callable[..., Any], scope: Mapping[str, Any]) -> None:
        self._globals = body.__globals__
        self._names = dict(scope)
        for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable that has no value yet: the function itself
                self._names[name] = cell.cell_contents

    def __call__(self, annotation: Any) -> Any:
        """The value of an annotation; one that names something unknown stays a text."""
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, self._globals, self._names)
        except NameError:
            return annotation
