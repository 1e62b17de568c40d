"""Finds Python variables that hold a register when a loop begins and are rebound in the loop's body.

A loop's body is recorded once.  If a variable holds one register when the loop begins and another one at its
end, the next pass reads the old register: ``x = x + 1`` makes a new register and binds ``x`` to it.  Owns
:class:`LoopCarried`, which finds such a variable wherever it is: a local of a function that is being called,
an element of a list, a dict or an object array, an attribute, a variable of a closure, a global that a
function names.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import numpy as np

from ..core.errors import TraceError
from ..core.source import SourceLocation
from ..core.tuples import NamedTuple
from .regions import dominates
from .register_arrays import RegArray
from .registers import NotPred, Reg

__all__ = ["LoopCarried"]

Held = Reg | RegArray | NotPred
#: The parts of a container: for each, a text such as ``[0]`` or ``.x`` that leads to the part, and the part.
Parts = Iterator[tuple[str, object]]

#: Packages whose objects hold none of the author's registers.
_FOREIGN = (sys.stdlib_module_names - {"collections", "types", "__main__"}) | {
    "cuda",
    "ml_dtypes",
    "numpy",
    "pyptx",
    "torch",
}
#: The largest number of parts that are examined for one loop.
_LIMIT = 100_000


class _Path(NamedTuple):
    """The path to a value in the author's program: a variable, or a part of the value at another path."""

    around: _Path | None
    step: str

    def __str__(self) -> str:
        steps: list[str] = []
        path: _Path | None = self
        while path is not None:
            steps.append(path.step)
            path = path.around
        return "".join(reversed(steps))


class _Rebound(NamedTuple):
    path: _Path
    old: Held
    new: object


class LoopCarried:
    """The registers that the author's variables refer to, also through containers, when a loop begins.

    Args:
        frames: frames of the author's functions that are being called, innermost first.
        exempt: the variable of the innermost frame that ``as`` binds.
    """

    def __init__(self, frames: list[FrameType], exempt: str | None) -> None:
        self._frames = frames
        #: The parts of each container, by the container's id. The container is kept so that no other object
        #: can get its id.
        self._parts: dict[int, tuple[object, dict[str, object]]] = {}
        self._left = _LIMIT
        self._roots: list[dict[str, object]] = []
        for number, frame in enumerate(frames):
            root = dict(_variables(frame))
            if number == 0 and exempt is not None:
                root.pop(exempt, None)
            self._roots.append(root)
        self._walk()

    def _walk(self) -> None:
        pending = [value for root in self._roots for value in root.values()]
        while pending and self._left > 0:
            value = pending.pop()
            if isinstance(value, Held) or id(value) in self._parts:
                continue
            parts = dict(islice(_parts(value), self._left))
            self._left -= len(parts) + 1
            self._parts[id(value)] = value, parts
            pending += parts.values()

    def check(self, loop: SourceLocation, index: Reg | None, reads: Callable[[str], bool]) -> None:
        """Raise :class:`TraceError` for the first variable that refers to another register than at the start.

        Args:
            loop: the line of the loop.
            index: the loop's own register, which a variable may be bound to.
            reads: returns True if the loop reads the register of the given name.
        """
        for found in self._rebound():
            if found.new is index and index is not None:
                continue
            first = _first(found.old)
            strict = found.path.around is None and first.region.open
            if strict or any(reads(register.name) for register in _registers(found.old)):
                raise _refusal(found, loop)

    def _rebound(self) -> Iterator[_Rebound]:
        seen: set[tuple[int, int]] = set()
        for frame, root in zip(self._frames, self._roots, strict=True):
            now = dict(_variables(frame, every=True))
            pending = [(_Path(None, name), old, now.get(name, old)) for name, old in reversed(root.items())]
            while pending:
                path, old, new = pending.pop()
                if isinstance(old, Held):
                    if dominates(_first(old).region, _first(old).position) and not _same(old, new):
                        yield _Rebound(path, old, new)
                    continue
                if (id(old), id(new)) in seen or id(old) not in self._parts:
                    continue
                seen.add((id(old), id(new)))
                before = self._parts[id(old)][1]
                after = dict(_parts(new)) if before else {}
                pending += [
                    (_Path(path, step), part, after[step])
                    for step, part in reversed(before.items())
                    if step in after
                ]


def _refusal(found: _Rebound, loop: SourceLocation) -> TraceError:
    made = _first(found.old).source
    path = str(found.path)
    remade = _first(found.new).source if isinstance(found.new, Reg | RegArray) else None
    return TraceError(
        f"{repr(path) if path.isidentifier() else path} was defined before the loop at {loop.short} "
        f"(as {_first(found.old)}, {_at(made)}) and is rebound in it (to {_show(found.new)}"
        + (f", {_at(remade)}" if remade is not None else "")
        + "): the next pass would read the old register",
        location=remade if remade is not None else loop,
        hint=f"write the register in place: {path} += ..., or {path}.set(...); "
        "for a temporary value, use another name inside the loop",
    )


def _at(source: SourceLocation | None) -> str:
    return f"line {source.line} of {source.file}" if source is not None else "in the prologue"


def _show(value: object) -> str:
    return str(_first(value)) if isinstance(value, Reg | RegArray) else repr(value)


# --- registers ------------------------------------------------------------------------------------


def _first(value: Held) -> Reg:
    return _registers(value)[0]


def _registers(value: Held) -> tuple[Reg, ...]:
    if isinstance(value, RegArray):
        return value.registers
    return (value.register,) if isinstance(value, NotPred) else (value,)


def _same(old: Held, new: object) -> bool:
    """True if both values name the same registers: the same object, or a view of it."""
    if new is old:
        return True
    if isinstance(old, RegArray):
        return isinstance(new, RegArray) and [r.name for r in old] == [r.name for r in new]
    if isinstance(old, NotPred):
        return isinstance(new, NotPred) and new.register.name == old.register.name
    return isinstance(new, Reg) and new.name == old.name


# --- what variables and containers lead to --------------------------------------------------------


def _variables(frame: FrameType, every: bool = False) -> Iterator[tuple[str, object]]:
    """Yield the locals of ``frame`` and the globals that its code names, if they may lead to a register.

    With ``every``, yield all of them.
    """
    yield from _globals(frame.f_code, frame.f_globals, every)  # a local hides the global of its name
    for name, value in frame.f_locals.items():
        if every or _interesting(value):
            yield name, value


def _globals(code: CodeType, names: dict[str, Any], every: bool = False) -> Iterator[tuple[str, object]]:
    for name in code.co_names:
        if name in names and (every or _interesting(names[name])):
            yield name, names[name]


def _parts(value: object) -> Parts:
    """Yield the elements or attributes of ``value`` that may be or contain a register."""
    found = _kind(type(value))
    if found is None:
        return
    for step, part in found(value):
        if _interesting(part):
            yield step, part


def _interesting(value: object) -> bool:
    kind = type(value)
    return kind in _HELD or _kind(kind) is not None


_HELD = frozenset({Reg, RegArray, NotPred})
_Walk = Callable[[Any], Parts]
_kinds: dict[type, _Walk | None] = {}
_KINDS_LIMIT = 4096


def _kind(kind: type) -> _Walk | None:
    """Return the function that yields the parts of values of this type; None if they hold no registers."""
    try:
        return _kinds[kind]
    except KeyError:
        if len(_kinds) >= _KINDS_LIMIT:
            _kinds.clear()
        found = _kinds[kind] = _walk_of(kind)
        return found


def _walk_of(kind: type) -> _Walk | None:
    for known, walk in _CONTAINERS:
        if issubclass(kind, known):
            return walk
    if issubclass(kind, type):
        return _of_class
    if kind.__module__.partition(".")[0] in _FOREIGN:
        return _held if issubclass(kind, Held) else None
    return _of_object


def _held(value: Held) -> Parts:
    """Yield no parts: an object of a class derived from those in :data:`_HELD` is itself a register."""
    return iter(())


def _of_sequence(values: Any) -> Parts:
    if not any(map(_interesting_type, set(map(type, values)))):
        return
    for place, value in enumerate(values):
        yield f"[{place}]", value


def _interesting_type(kind: type) -> bool:
    return kind in _HELD or _kind(kind) is not None


def _of_dict(values: dict[Any, Any]) -> Parts:
    for key, value in values.items():
        yield f"[{key!r}]", value


def _of_array(values: np.ndarray[Any, Any]) -> Parts:
    if values.dtype.hasobject and values.dtype.names is None:
        for place, value in np.ndenumerate(values):
            yield f"[{', '.join(map(str, place))}]", value


def _of_function(function: FunctionType) -> Parts:
    code = function.__code__
    if str(function.__module__).partition(".")[0] in _FOREIGN:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    for name, value in _globals(code, function.__globals__):
        yield f".{name}", value


def _of_method(method: MethodType) -> Parts:
    yield ".__self__", method.__self__
    yield ".__func__", method.__func__


def _of_partial(value: functools.partial[Any]) -> Parts:
    yield ".func", value.func
    yield ".args", value.args
    yield ".keywords", value.keywords


def _of_class(value: type) -> Parts:
    if value.__module__.partition(".")[0] not in _FOREIGN:
        for name, part in vars(value).items():
            yield f".{name}", part


def _of_object(value: Any) -> Parts:
    for name, part in getattr(value, "__dict__", {}).items():
        yield f".{name}", part
    for parent in type(value).__mro__:
        for name in _slots(parent):
            try:
                yield f".{name}", object.__getattribute__(value, name)
            except AttributeError:  # a slot that has no value yet
                continue


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


#: Types of Python and numpy, each with the function that yields its parts.
_CONTAINERS: tuple[tuple[type, _Walk], ...] = (
    (dict, _of_dict),
    (list, _of_sequence),
    (tuple, _of_sequence),
    (deque, _of_sequence),
    (np.ndarray, _of_array),
    (FunctionType, _of_function),
    (MethodType, _of_method),
    (functools.partial, _of_partial),
)
