"""The ``NamedTuple`` of this package, whose classes are made without compiling anything.

Python's own compiles each annotation and a constructor when a module is imported, 0.2 to 0.4 ms for each
class.  Here the constructor is one of :mod:`.initializers` with the names of the fields.

Owns the class.  Type checkers see :class:`typing.NamedTuple`, and classes behave as its classes do.  What
differs: there are no generic classes, and the names of fields are not checked.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]  # the class of a named tuple's fields
from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .initializers import MAKING

__all__ = ["NamedTuple"]


class _Meta(type):
    """Makes the classes that derive from :class:`NamedTuple` directly."""

    def __new__(meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        if not any(type(base) is _Meta and not hasattr(base, "_fields") for base in bases):
            return super().__new__(meta, name, bases, namespace)
        annotations = namespace.get("__annotations__", {})
        fields = tuple(annotations)
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: a field without a default follows one with a default")
        code = MAKING[len(fields) - 1].replace(co_varnames=("cls", *fields))
        new = FunctionType(code, {"make": tuple.__new__}, "__new__", tuple(defaults.values()))
        new.__annotations__ = annotations
        new.__qualname__, new.__module__ = f"{name}.__new__", namespace["__module__"]
        getters = {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
        made = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__new__": new}
        return super().__new__(meta, name, bases, {"__slots__": (), **namespace, **getters, **made})


class _NamedTuple(tuple, metaclass=_Meta):  # type: ignore[type-arg]
    """The base of the classes."""

    __slots__ = ()

    _fields: tuple[str, ...]

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        return cls(*values)

    def _replace(self, **changed: Any) -> Any:
        values = [changed.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
        if changed:
            raise ValueError(f"Got unexpected field names: {list(changed)!r}")
        return tuple.__new__(type(self), values)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({values})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _NamedTuple
