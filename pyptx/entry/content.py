"""A digest of what a kernel was made from, the same in every process that runs the same program.

Owns :func:`content_digest`.  It reads bytecode, constants, defaults, closures and globals of the kernel's
function and of the functions that it calls.  Where an object cannot be read, the digest is another one in
each process: a name made of it never leads to another kernel.
"""

from __future__ import annotations

import enum
import hashlib
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..core.source import SourceLocation
from ..core.types import ScalarType
from ..dsl import Scalar, Tile

__all__ = ["content_digest"]

#: Largest depth of nested values and functions that is read.
_DEEPEST = 12
#: Classes whose objects are what their ``repr`` says.
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range)
_SPELLED = (*_PLAIN, ScalarType, Tile, Scalar)


def content_digest(*values: object) -> str:
    """Return 16 hexadecimal digits for the content of these values.

    They are the same in every process if all values can be read, else in this process alone.
    """
    found = hashlib.sha256(str(sys.implementation.cache_tag).encode())  # whose bytecode it is
    found.update(str(getattr(sys.modules.get("pyptx"), "__version__", "")).encode())
    reader = _Reader()
    for piece in reader.read(values, 0):
        found.update(len(piece).to_bytes(8, "little"))
        found.update(piece)
    if reader.unread:
        found.update(uuid.uuid4().bytes)
    return found.hexdigest()[:16]


@runtime_checkable
class Digestible(Protocol):
    """An object that says what it was made from."""

    def content(self) -> tuple[object, ...]:
        """Return the values that the object was made from."""


class _Reader:
    """Spells values as bytes; a value that contains itself is read once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}
        #: True once a value was met that cannot be read.
        self.unread = False

    def read(self, value: object, depth: int) -> Iterator[bytes]:
        yield _name_of(type(value)).encode()
        if isinstance(value, _SPELLED):
            yield repr(value).encode()
        elif isinstance(value, SourceLocation):
            pass  # a kernel that moves stays the same
        elif isinstance(value, enum.Enum):
            yield value.name.encode()
        elif isinstance(value, (type, np.dtype)):
            yield str(value).encode()
        elif id(value) in self._seen:
            yield b"seen"
        elif depth < _DEEPEST:
            self._seen[id(value)] = value
            yield from self._inside(value, depth + 1)
        else:
            self.unread = True

    def _inside(self, value: object, depth: int) -> Iterator[bytes]:
        if isinstance(value, FunctionType):
            yield from self._function(value, depth)
        elif isinstance(value, MethodType):
            for each in (value.__func__, value.__self__):
                yield from self.read(each, depth)
        elif isinstance(value, CodeType):
            yield from self._code(value, depth)
        elif isinstance(value, (tuple, list)):
            for each in value:
                yield from self.read(each, depth)
        elif isinstance(value, (set, frozenset)):
            yield from sorted(b"".join(self.read(each, depth)) for each in value)
        elif isinstance(value, Mapping):
            for name, each in value.items():
                yield from self.read(name, depth)
                yield from self.read(each, depth)
        elif isinstance(value, np.ndarray):
            yield str((value.dtype, value.shape)).encode()
            yield value.tobytes()
        elif is_dataclass(value):
            for field in fields(value):
                yield from self.read(getattr(value, field.name), depth)
        elif isinstance(value, partial):
            for each in (value.func, value.args, value.keywords):
                yield from self.read(each, depth)
        elif isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, Digestible):
            yield from self.read(value.content(), depth)
        else:
            yield from self._object(value, depth)

    def _object(self, value: object, depth: int) -> Iterator[bytes]:
        """Read an object by its attributes, or by what its ``repr`` says of it."""
        kind = type(value)
        slots = [name for base in kind.__mro__ for name in _slots(base) if hasattr(value, name)]
        if hasattr(value, "__dict__") or slots:
            if _is_library(kind.__module__) or kind.__module__.partition(".")[0] == "torch":
                self.unread = True  # what lies in it may change without a change of the meaning
                return
            yield from self.read(dict(getattr(value, "__dict__", {})), depth)
            for name in slots:
                yield from self.read((name, getattr(value, name)), depth)
        elif kind.__repr__ is not object.__repr__ and not callable(value):
            yield repr(value).encode()
        elif isinstance(value, BuiltinFunctionType):
            yield _name_of(value).encode()
        else:
            self.unread = True

    def _function(self, function: Callable[..., Any], depth: int) -> Iterator[bytes]:
        assert isinstance(function, FunctionType)
        yield _name_of(function).encode()
        if _is_library(function.__module__):
            return
        for part in (function.__defaults__, function.__kwdefaults__, function.__code__):
            yield from self.read(part, depth)
        for cell in function.__closure__ or ():
            try:
                yield from self.read(cell.cell_contents, depth)
            except ValueError:  # a name that has no value yet
                yield b"empty"
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield name.encode()
                yield from self._global(function.__globals__[name], function.__code__, depth)

    def _global(self, value: object, code: CodeType, depth: int) -> Iterator[bytes]:
        """Read a global; of a module, the attributes whose names the code has."""
        if not isinstance(value, ModuleType):
            yield from self.read(value, depth)
            return
        yield value.__name__.encode()
        if not _is_library(value.__name__):
            for name in sorted(_names(code)):
                if name in vars(value):
                    yield from self.read(vars(value)[name], depth)

    def _code(self, code: CodeType, depth: int) -> Iterator[bytes]:
        yield code.co_code
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)).encode()
        for constant in code.co_consts:
            yield from self.read(constant, depth)


def _names(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in the code, nested functions included."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of the attributes that a class keeps in slots."""
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _name_of(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def _is_library(module: str | None) -> bool:
    """True for pyptx, whose version is part of the digest, and for the standard library."""
    name = (module or "").partition(".")[0]
    return name == "pyptx" or name in sys.stdlib_module_names or name == "numpy"
