"""The ``dataclass`` of this package: each method of a class is generated when it is first needed.

Python's own decorator compiles all methods of a class when its module is imported, which takes 0.2 to 0.7 ms
for each class.  Of the classes that an import defines, most programs make instances of a part, and compare or
print few.  With this decorator an import compiles none of the methods.

Owns the decorator.  Type checkers see :func:`dataclasses.dataclass`, and a class is one: ``fields``,
``replace``, ``asdict`` and ``is_dataclass`` take it, and it may inherit from, or be a base of, a class that
Python's own decorator made.  What differs:

- There are no options but ``init``, ``repr``, ``eq``, ``frozen`` and ``slots``, and no ``InitVar`` and
  ``KW_ONLY``.  Annotations are text, as ``from __future__ import annotations`` makes them.
- Two instances are equal if the tuples of their fields are, in every version of Python (from 3.13 on,
  Python's own classes compare field by field, so that a field that is NaN differs from itself).
- A class without a docstring gets none.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache
from reprlib import recursive_repr
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from .initializers import STORING

__all__ = ["dataclass"]

_FIELDS, _PARAMETERS = "__dataclass_fields__", "__dataclass_params__"
#: The folder of the code: generated code belongs to pyptx, so its frames are not the author's.
_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _dataclass(
    cls: type | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
) -> Any:
    """Make a class a data class, as :func:`dataclasses.dataclass` does."""

    def made(cls: type) -> type:
        return _made(cls, init, repr, eq, frozen, slots)

    return made if cls is None else made(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


class _OnDemand:
    """An attribute that is computed for a class, and takes its place there, when it is first read.

    One object serves all classes whose attribute is computed alike.
    """

    __slots__ = ("_compute", "_name")

    def __init__(self, name: str, compute: Callable[[type], Any]) -> None:
        self._name, self._compute = name, compute

    def __get__(self, instance: object, owner: type) -> Any:
        home = next((base for base in owner.__mro__ if base.__dict__.get(self._name) is self), None)
        if home is None:  # another thread has computed it meanwhile
            return getattr(owner if instance is None else instance, self._name)
        value = self._compute(home)
        setattr(home, self._name, value)
        bind = getattr(type(value), "__get__", None)
        return value if bind is None else bind(value, instance, owner)


class _Fields(_OnDemand):
    """``__dataclass_fields__``, which the functions of the module dataclasses read.

    Attributes:
        own: the annotation and the default of each field, without inherited fields.
    """

    __slots__ = ("own",)

    def __init__(self, own: dict[str, tuple[str, Any]]) -> None:
        super().__init__(_FIELDS, lambda owner: getattr(_twin(owner), _FIELDS))
        self.own = own


def _made(cls: type, init: bool, repr: bool, eq: bool, frozen: bool, slots: bool) -> type:
    given = cls.__dict__
    own = {
        name: (annotation, given.get(name, MISSING))
        for name, annotation in given.get("__annotations__", {}).items()
        if not annotation.startswith("ClassVar")
    }
    added = _added(init, repr, eq, frozen, slots).copy()
    added[_FIELDS] = _Fields(own)
    # What the class defines itself stays.  Where it defines ``__eq__`` alone, its ``__hash__`` is None.
    added = {name: value for name, value in added.items() if given.get(name) is None}
    for name, (_, default) in own.items():
        if isinstance(default, Field):
            default = default.default
        if type(default).__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name} has a mutable default; use field(default_factory=...)")
        if not slots and default is not MISSING:
            added[name] = default
        elif not slots and name in given:
            delattr(cls, name)
    if slots:
        return _with_slots(cls, tuple(own), added)
    for name, value in added.items():
        setattr(cls, name, value)
    return cls


@cache
def _added(init: bool, repr: bool, eq: bool, frozen: bool, slots: bool) -> dict[str, Any]:
    """Return what classes with these options get, other than the description of their fields."""
    on_demand: dict[str, Callable[[type], Any]] = {
        _PARAMETERS: lambda owner: getattr(_twin(owner, frozen), _PARAMETERS),
        "__match_args__": _match_args,
    }
    if init:
        on_demand["__init__"] = _frozen_init if frozen else _init
    if repr:
        on_demand["__repr__"] = _repr
    if eq:
        on_demand["__eq__"] = _eq
    if eq and frozen:
        on_demand["__hash__"] = _hash
    if frozen:
        on_demand["__setattr__"], on_demand["__delattr__"] = _setattr, _delattr
    added: dict[str, Any] = {name: _OnDemand(name, compute) for name, compute in on_demand.items()}
    if eq and not frozen:
        added["__hash__"] = None
    if frozen and slots:
        added["__getstate__"], added["__setstate__"] = _getstate, _setstate
    return added


def _with_slots(cls: type, names: tuple[str, ...], added: dict[str, Any]) -> type:
    """Return the class made once more, with slots: they must be there when a class is made."""
    inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    namespace = {**cls.__dict__, **added, "__slots__": tuple(n for n in names if n not in inherited)}
    for name in ("__dict__", "__weakref__", *names):
        namespace.pop(name, None)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _fields(cls: type) -> dict[str, Field[Any]]:
    """Return the fields of a class and of its bases."""
    found: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__):
        fields = base.__dict__.get(_FIELDS)
        if isinstance(fields, _Fields):
            for name, (annotation, default) in fields.own.items():
                field = default if isinstance(default, Field) else dataclasses.field(default=default)
                field.name, field.type = name, annotation
                found[name] = field
        elif fields is not None:
            found.update((field.name, field) for field in dataclasses.fields(base))
    return found


def _twin(cls: type, frozen: bool = False) -> type:
    """Return a class with the same fields that Python's own decorator made."""
    fields = _fields(cls)
    namespace: dict[str, Any] = {**fields, "__annotations__": {f.name: f.type for f in fields.values()}}
    namespace["__doc__"] = cls.__name__  # without a text the decorator makes one of the signature, slowly
    made = type(cls.__name__, (), namespace)
    return dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen)(made)


def _match_args(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in _fields(cls).values() if field.init)


class _Factory:
    """The default of a parameter for which a factory makes a value."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _frozen_init(cls: type) -> Callable[..., Any]:
    return _init(cls, frozen=True)


def _init(cls: type, frozen: bool = False) -> Callable[..., Any]:
    """Return ``__init__``."""
    fields = _fields(cls)
    function = _storing(cls, fields, frozen) or _compiled_init(cls, fields, frozen)
    function.__annotations__ = {f.name: f.type for f in fields.values() if f.init} | {"return": None}
    function.__qualname__, function.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return function


def _compiled_init(cls: type, fields: dict[str, Field[Any]], frozen: bool) -> Callable[..., Any]:
    """Return ``__init__`` of any class."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    store = "_set(self, {0!r}, {1})" if frozen else "self.{0} = {1}"
    parameters, lines = ["self"], []
    for name, field in fields.items():
        value = name
        if field.default_factory is not MISSING:
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()"
            if field.init:
                parameters.append(f"{name}=_factory")
                value += f" if {name} is _factory else {name}"
        elif field.default is not MISSING:
            names[f"_default_{name}"] = field.default
            if field.init:
                parameters.append(f"{name}=_default_{name}")
            else:
                value = f"_default_{name}"
        elif field.init:
            parameters.append(name)
        else:
            continue  # __post_init__ stores it
        lines.append(store.format(name, value))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    return _compiled(cls, "__init__", ", ".join(parameters), lines or ["pass"], names)


def _storing(cls: type, fields: dict[str, Field[Any]], frozen: bool) -> Callable[..., Any] | None:
    """Return ``__init__`` of a class with slots that only stores its arguments; None for other classes.

    Python has compiled it before; it stores through the slots, which is faster than ``object.__setattr__``.
    """
    slots: list[Any] = [cls.__dict__.get(name) for name in fields]
    defaults = [field.default for field in fields.values()]
    required = [default is MISSING for default in defaults]
    stores_alone = (
        all(slot.__class__ is MemberDescriptorType for slot in slots)
        and all(field.init and field.default_factory is MISSING for field in fields.values())
        and required == sorted(required, reverse=True)
        and not hasattr(cls, "__post_init__")
        and (frozen or not any("__setattr__" in base.__dict__ for base in cls.__mro__[:-1]))
    )
    if not stores_alone or not 0 < len(fields) <= len(STORING):
        return None
    code = STORING[len(fields) - 1].replace(co_name="__init__", co_varnames=("self", *fields))
    names = {f"s{number}": slot.__set__ for number, slot in enumerate(slots)}
    return FunctionType(code, names, "__init__", tuple(defaults[sum(required) :]))


def _eq(cls: type) -> Callable[..., Any]:
    names = [field.name for field in _fields(cls).values() if field.compare]
    first, second = _tuple("self", names), _tuple("other", names)
    lines = [
        "if other.__class__ is self.__class__:",
        f"    return {first} == {second}",
        "return NotImplemented",
    ]
    return _compiled(cls, "__eq__", "self, other", lines, {})


def _hash(cls: type) -> Callable[..., Any]:
    hashed = [f.name for f in _fields(cls).values() if (f.compare if f.hash is None else f.hash)]
    return _compiled(cls, "__hash__", "self", [f"return hash({_tuple('self', hashed)})"], {})


def _tuple(owner: str, names: list[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _compiled(
    cls: type, name: str, parameters: str, lines: list[str], names: dict[str, Any]
) -> Callable[..., Any]:
    """Return a method that has these lines, and these names as its globals."""
    qualname = f"{cls.__qualname__}.{name}"
    text = "\n    ".join([f"def {name}({parameters}):", *lines])
    exec(compile(text, os.path.join(_FOLDER, f"<{qualname}>"), "exec"), names)
    function: Callable[..., Any] = names.pop(name)
    function.__qualname__, function.__module__ = qualname, cls.__module__
    return function


def _repr(cls: type) -> Callable[[Any], str]:
    names = [field.name for field in _fields(cls).values() if field.repr]

    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return recursive_repr()(__repr__)


def _setattr(cls: type) -> Callable[[Any, str, Any], None]:
    fields = frozenset(_fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    return __setattr__


def _delattr(cls: type) -> Callable[[Any, str], None]:
    fields = frozenset(_fields(cls))

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    return __delattr__


def _getstate(self: Any) -> list[Any]:
    """Return what pickle keeps of an instance that has slots and is frozen."""
    return [getattr(self, name) for name in _fields(type(self))]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(_fields(type(self)), state, strict=True):
        object.__setattr__(self, name, value)
