"""Finds the caller of a DSL function: its frame, its source line, and the variable that takes the result.

Owns the walk from inside ``pyptx.dsl`` to the caller, and the reading of the caller's bytecode: the
instruction after the call says which variable the result is bound to, so that the register of
``tile_m = a + b`` is called ``%tile_m`` in the text.  The results are cached per call site, because every
recorded instruction asks for them.
"""

from __future__ import annotations

import dis
import os
import sys
from functools import cached_property
from types import CodeType, FrameType

from ..core.source import SourceLocation, frames_within, located

__all__ = [
    "AssignedNames",
    "bound_name",
    "bound_names",
    "caller_frame",
    "caller_frames",
    "here",
    "is_internal",
]

_DSL = os.path.dirname(os.path.abspath(__file__)) + os.sep

#: File name -> True if its frames belong to the DSL (or to contextlib, which the DSL calls). Filled as
#: needed.
_internal: dict[str, bool] = {}
#: Sites by the id of the code object and the bytecode offset. The code object is kept so that no other
#: object can get its id.
_sites: dict[int, tuple[CodeType, dict[int, AssignedNames]]] = {}
_SITE_LIMIT = 4096


class AssignedNames:
    """The variables that take the result of one call in a caller's bytecode.

    ``name`` is the variable that the result is bound to, or None; ``names`` are the variables that the
    result is unpacked into, or an empty tuple.
    """

    def __init__(self, code: CodeType, offset: int) -> None:
        self._call = code, offset

    @cached_property
    def name(self) -> str | None:
        return bound_name(*self._call)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return bound_names(*self._call)


def is_internal(filename: str) -> bool:
    """True if the frames of this file belong to the DSL (or to contextlib, which the DSL calls)."""
    known = _internal.get(filename)
    if known is None:
        known = filename.startswith(_DSL) or filename.endswith(os.sep + "contextlib.py")
        _internal[filename] = known
    return known


def caller_frame() -> FrameType:
    """Return the innermost frame outside the DSL: a frame of the author or of a helper in ``pyptx.kit``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:  # pragma: no cover: something always calls the DSL
        raise RuntimeError("no Python frame outside the DSL")
    return frame


def caller_frames() -> list[FrameType]:
    """Return :func:`caller_frame` and its callers up to the kernel function, without frames of the DSL."""
    return [frame for frame in frames_within(caller_frame()) if not is_internal(frame.f_code.co_filename)]


def here() -> tuple[AssignedNames, SourceLocation]:
    """Return the site of the current DSL call, and the author's line with the calls that led to that line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _internal.get(frame.f_code.co_filename, True):
        if not is_internal(frame.f_code.co_filename):
            break
        frame = frame.f_back
    assert frame is not None
    code, offset = frame.f_code, frame.f_lasti
    entry = _sites.get(id(code))
    if entry is None:
        if len(_sites) >= _SITE_LIMIT:
            _sites.clear()
        entry = _sites[id(code)] = (code, {})
    site = entry[1].get(offset)
    if site is None:
        site = entry[1][offset] = AssignedNames(code, offset)
    return site, located(frame)


# --- the variable that a call's result is bound to ------------------------------------------------

#: How many code units after the call are examined: enough for a tuple assignment of calls.
_HORIZON = 96
_HAS_ARGUMENT: frozenset[int] = frozenset(
    getattr(dis, "hasarg", range(dis.HAVE_ARGUMENT, 256))  # dis.hasarg is new in 3.12
)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_ROTATIONS = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}  # Python 3.10


def _local(code: CodeType, argument: int) -> str | None:
    lookup = getattr(code, "_varname_from_oparg", None)  # 3.11 and later: one index space
    if lookup is not None:
        return str(lookup(argument))
    return code.co_varnames[argument] if argument < len(code.co_varnames) else None


def _stored(code: CodeType, name: str, argument: int) -> str | None:
    """Return the variable that a STORE instruction writes, or None if it writes no variable."""
    if name == "STORE_FAST":
        return _local(code, argument)
    if name in ("STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):  # 3.13: two instructions in one
        return _local(code, argument >> 4)
    if name == "STORE_DEREF":
        if hasattr(code, "_varname_from_oparg"):
            return _local(code, argument)
        return (code.co_cellvars + code.co_freevars)[argument]
    if name in ("STORE_NAME", "STORE_GLOBAL"):
        return code.co_names[argument]
    return None


def bound_name(code: CodeType, offset: int) -> str | None:
    """Return the variable (or attribute) that takes the result of the instruction at ``offset``, or None.

    Follows the value on the evaluation stack through straight-line code: plain, chained, walrus, tuple
    and attribute assignment, and the target of ``with ... as``.  If any other instruction consumes the value,
    the value has no name.
    """
    raw = code.co_code
    depth = 0  # how many values lie above the followed value
    extended = 0
    packed = 0  # size of the tuple that the followed value was packed into; the tuple is then on top
    for unit in range(offset + 2, min(len(raw), offset + 2 + 2 * _HORIZON), 2):
        opcode, argument = raw[unit], raw[unit + 1] | extended
        name = dis.opname[opcode]
        extended = argument << 8 if name == "EXTENDED_ARG" else 0
        if name in ("CACHE", "EXTENDED_ARG", "NOP", "RESUME") or opcode == 0:
            continue
        if packed:
            if name != "UNPACK_SEQUENCE" or argument != packed:
                return None
            packed = 0  # element i of the tuple now has i values above it
        elif name in ("UNPACK_SEQUENCE", "UNPACK_EX") and depth == 0:
            return None
        elif name.startswith("STORE_"):
            pops = 2 if name in ("STORE_ATTR", "STORE_FAST_STORE_FAST") else 1
            if name == "STORE_ATTR" and depth == 1:
                return code.co_names[argument]
            if name == "STORE_FAST_STORE_FAST" and depth == 1:
                return _local(code, argument & 15)
            if depth == 0 and name != "STORE_ATTR":
                return _stored(code, name, argument)
            if name == "STORE_FAST_LOAD_FAST":
                continue  # one off, one on
            if name == "STORE_SUBSCR":
                return None
            depth -= pops
            if depth < 0:
                return None
        elif name == "SWAP":
            depth = argument - 1 if depth == 0 else 0 if depth == argument - 1 else depth
        elif name in _ROTATIONS:
            size = _ROTATIONS[name]
            depth = size - 1 if depth == 0 else depth - 1 if depth < size else depth
        elif name == "COPY":
            depth = 0 if depth == argument - 1 else depth + 1
        elif name == "DUP_TOP":
            depth = 0 if depth == 0 else depth + 1
        elif name == "BUILD_TUPLE" and depth < argument:
            depth, packed = argument - 1 - depth, argument
        elif name == "POP_TOP":
            depth -= 1
            if depth < 0:
                return None
        else:
            effect = _effect(opcode, name, argument)
            # A load pops no value. Any other instruction is assumed to push one value.
            pops = 0 if _only_pushes(name) else 1 - effect
            if effect is _UNKNOWN or pops > depth:
                return None
            depth += effect
    return None


def bound_names(code: CodeType, offset: int) -> tuple[str, ...]:
    """Return the variables that the result of the call at ``offset`` is unpacked into, as in ``a, b = f()``.

    The tuple is empty if the result is not unpacked, or if one of the targets is not a variable.
    """
    raw = code.co_code
    extended = count = 0
    names: list[str | None] = []
    for unit in range(offset + 2, min(len(raw), offset + 2 + 2 * _HORIZON), 2):
        opcode, argument = raw[unit], raw[unit + 1] | extended
        name = dis.opname[opcode]
        extended = argument << 8 if name == "EXTENDED_ARG" else 0
        if name in ("CACHE", "EXTENDED_ARG", "NOP", "RESUME") or opcode == 0:
            continue
        if not count:
            if name != "UNPACK_SEQUENCE":
                return ()
            count = argument
        elif name == "STORE_FAST_STORE_FAST":
            names += [_local(code, argument >> 4), _local(code, argument & 15)]
        else:
            names.append(_stored(code, name, argument))
        if None in names:
            return ()
        if 0 < count <= len(names):
            return tuple(str(found) for found in names[:count])
    return ()


_UNKNOWN = -(1 << 20)


def _only_pushes(name: str) -> bool:
    return name == "PUSH_NULL" or (
        name.startswith("LOAD_") and name not in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
    )


def _effect(opcode: int, name: str, argument: int) -> int:
    if opcode in _JUMPS or name.startswith(("RETURN", "RAISE", "RERAISE", "YIELD")):
        return _UNKNOWN
    try:
        return dis.stack_effect(opcode, argument if opcode in _HAS_ARGUMENT else None)
    except ValueError:  # an opcode that the compiler never emits
        return _UNKNOWN
