"""Loads and stores of threads: convert lanes' addresses to values, and values to bytes.

Owns :class:`Transfer`, which describes what an ``ld`` or ``st`` moves, and the functions that execute it for
many lanes and for one. A vector is moved as one unit of its whole size, so that a load is one gather for any
number of elements.
"""

from __future__ import annotations

import struct
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.types import TYPES
from ...ir import Immediate, Register, Sink, Vector
from ..code.semantic import CLASSES, Op
from ..memory.access import AccessKind, Footprint, MemoryOrder, Proxy, Scope
from ..memory.segments import Segment, word_dtype
from .warp import Split

__all__ = [
    "MMIO",
    "READ_ONLY",
    "VOLATILE",
    "Transfer",
    "AccessOrder",
    "transfer_of",
    "load",
    "load_one",
    "store",
    "store_one",
    "stored_values",
]

Array = NDArray[Any]

# A name of the module is found faster than a member of an enumeration.
_READ, _WRITE = AccessKind.READ, AccessKind.WRITE
#: Letters of struct for unsigned integers, by size in bytes.
_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class AccessHow(TypedDict):
    """Arguments for :meth:`.Memory.access`: how an instruction accesses its bytes."""

    semantics: MemoryOrder
    scope: Scope
    proxy: Proxy


@dataclass(frozen=True, slots=True)
class Transfer:
    """The number, size and type of the elements that one load or store moves.

    Attributes:
        count: number of elements, 0 for a scalar.
        nbytes: bytes of all elements together, which is also the alignment.
        dtype: dtype of one element in a register.
        unit: dtype of ``nbytes`` bytes moved at once.
        how: order and scope, passed to :meth:`.Memory.access`.
        pattern: format of the elements as integers for struct (empty for a 128-bit register).
        kept: positions of the elements of a stored vector that are not ``_``, or None for all.
        strong: True if the access is not weak.
    """

    count: int
    nbytes: int
    dtype: np.dtype[Any]
    unit: np.dtype[Any]
    how: AccessHow
    pattern: str
    kept: tuple[int, ...] | None
    strong: bool


@dataclass(frozen=True, slots=True)
class AccessOrder:
    """Order, scope and proxy of a form's accesses, used where the instruction's modifiers give none."""

    semantics: MemoryOrder = MemoryOrder.WEAK
    scope: Scope | None = None
    proxy: Proxy = Proxy.GENERIC


#: A volatile access counts as relaxed at system scope (``#volatile-operation``); mmio always has that scope.
VOLATILE, MMIO = AccessOrder(MemoryOrder.RELAXED, Scope.SYS), AccessOrder(scope=Scope.SYS)
#: Loads of data that no thread changes while the kernel runs.
READ_ONLY = AccessOrder(proxy=Proxy.READONLY)
_WEAK = AccessOrder()


def _order(op: Op) -> AccessHow:
    """Return order, scope and proxy for the memory model. An access without a qualifier is weak."""
    form: AccessOrder = op.traits or _WEAK
    return {
        "semantics": op.order or form.semantics,
        "scope": form.scope or op.scope or Scope.NONE,
        "proxy": form.proxy,
    }


def transfer_of(op: Op) -> Transfer:
    """Return the :class:`Transfer` of the load or store ``op``. It is computed once and cached."""
    found: Transfer | None = op.cache.get("transfer")
    if found is None:
        found = op.cache["transfer"] = _read(op)
    return found


def _read(op: Op) -> Transfer:
    kind = TYPES[op.chosen.get("type", "b128")]
    vector = op.chosen.get("vec")
    count = int(vector[1:]) if vector else 0
    nbytes = kind.nbytes * max(count, 1)
    pattern = f"<{max(count, 1)}{_LETTERS[kind.nbytes]}" if kind.bits < 128 else ""
    stored = op.binding.operands.get("b")
    kept: tuple[int, ...] | None = None
    if isinstance(stored, Vector) and any(isinstance(e, Sink) for e in stored.elements):
        kept = tuple(i for i, e in enumerate(stored.elements) if not isinstance(e, Sink))
    how = _order(op)
    strong = how["semantics"] is not MemoryOrder.WEAK
    return Transfer(count, nbytes, kind.register_dtype, word_dtype(nbytes), how, pattern, kept, strong)


# --- loads ------------------------------------------------------------------------------------


def load(s: Split, op: Op, lanes: Array, address: Array, policy: Any = None) -> Any:
    """Load a value for each lane; return an array of shape (n,), or (k, n) for vectors of k elements."""
    what = transfer_of(op)
    spans = s.access(_READ, op, lanes, address, what.nbytes, **what.how)
    if len(spans) == 1:
        _, segment, offsets = spans[0]
        raw = segment.words(what.nbytes)[offsets // what.nbytes]
        if what.strong:
            _use_older(s, raw, offsets)
    else:
        raw = np.empty(len(lanes), what.unit)
        for which, segment, offsets in spans:
            raw[which] = segment.words(what.nbytes)[offsets // what.nbytes]
    if what.count:
        return raw.view(what.dtype).reshape(-1, what.count).T
    return raw.view(what.dtype)


def load_one(s: Split, op: Op, lane: int, address: int, policy: Any = None) -> Any:
    """Return the raw value of one lane as a Python integer, or a tuple for a vector."""
    what = transfer_of(op)
    segment, offset = s.access_one(_READ, op, lane, address, what.nbytes, **what.how)
    if what.strong and s.warp.cta.machine.memory.older:
        raw = segment.data[offset : offset + what.nbytes].view(what.unit)
        raw = _use_older(s, raw.copy(), np.array([offset]))
        values = struct.unpack(what.pattern, raw.tobytes())
    else:
        values = struct.unpack_from(what.pattern, segment.data.data, offset)
    return values if what.count else values[0]


def _use_older(s: Split, raw: Array, offsets: Array) -> Array:
    """Put the older values that a strong read returns (:attr:`Memory.older`) into what it has loaded."""
    older = s.warp.cta.machine.memory.older
    size = raw.itemsize
    for place, data in older.items() if older else ():
        for position in np.flatnonzero((offsets <= place) & (place < offsets + size)).tolist():
            shift = place - int(offsets[position])
            raw[position : position + 1].view(np.uint8)[shift : shift + len(data)] = np.frombuffer(
                data, np.uint8
            )
    return raw


# --- stores -----------------------------------------------------------------------------------


def store(s: Split, op: Op, lanes: Array, address: Array, value: Any, policy: Any = None) -> None:
    """Write the lanes' values. If lanes write the same bytes, the last lane's value stays."""
    what = transfer_of(op)
    if what.kept is not None:
        return _store_some(s, op, lanes, address, value)
    spans = s.access(_WRITE, op, lanes, address, what.nbytes, **what.how)
    if what.count:
        raw = np.ascontiguousarray(value.T).view(what.unit)[:, 0]
    else:
        raw = np.asarray(value).view(what.unit)
    for which, segment, offsets in spans:
        chosen = raw if raw.ndim == 0 else raw[which]
        segment.words(what.nbytes)[offsets // what.nbytes] = chosen
    return None


def _store_some(s: Split, op: Op, lanes: Array, address: Array, value: Array) -> None:
    """Write a vector whose operand contains ``_``. Elements at the positions of ``_`` are not written."""
    what = transfer_of(op)
    assert what.kept is not None
    size = what.dtype.itemsize
    word = word_dtype(size)
    for which, segment, offsets in s.access(
        _WRITE, op, lanes, address, what.nbytes, check_written=False, announce=False, **what.how
    ):
        for element in what.kept:
            places = offsets + element * size
            _announce_element(s, op, segment, places, size)
            segment.mark(places, size)
            segment.words(size)[places // size] = np.ascontiguousarray(value[element]).view(word)[which]


def _announce_element(s: Split, op: Op, segment: Segment, places: Array, size: int) -> None:
    """Send observers the access of one element of a stored vector whose operand contains ``_``."""
    how = transfer_of(op).how
    s.warp.cta.machine.memory.announce(
        _WRITE, segment, lambda: Footprint(places, size), s, Proxy.GENERIC, how["semantics"], how["scope"]
    )


def store_one(s: Split, op: Op, lane: int, address: int, value: Any, policy: Any = None) -> None:
    """Write the value (or a tuple of values) of one lane, given as Python integers."""
    what = transfer_of(op)
    size = what.dtype.itemsize
    mask = (1 << (8 * size)) - 1
    whole = what.kept is None
    segment, offset = s.access_one(
        _WRITE, op, lane, address, what.nbytes, check_written=whole, announce=whole, **what.how
    )
    elements = [number & mask for number in (value if what.count else (value,))]
    if what.kept is None:
        struct.pack_into(what.pattern, segment.data.data, offset, *elements)
        return
    for element in what.kept:
        at = offset + element * size
        _announce_element(s, op, segment, np.array([at]), size)
        segment.mark(at, size)
        struct.pack_into(what.pattern[0] + what.pattern[-1], segment.data.data, at, elements[element])


def stored_values(s: Split) -> NDArray[np.uint8] | None:
    """Return the bytes that each thread of ``s`` writes with its current ``st``: one row for each thread.

    Returns None for other instructions, for vectors with ``_``, and for values of 128 bits. An immediate is
    the same in all threads; its bytes are zeros here.
    """
    op = s.op
    what: Transfer | None = None if op is None else op.cache.get("transfer")
    if op is None or what is None or what.kept is not None or not what.pattern or s.regs is not None:
        return None
    operand = op.binding.operands.get("b")
    if operand is None:
        return None
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    word = np.dtype(f"u{what.nbytes // len(elements)}")
    rows = np.zeros((len(s.actors), len(elements)), word)
    for number, element in enumerate(elements):
        if isinstance(element, Register):
            place = s.frame.code.places[element.name]
            rows[:, number] = getattr(s.frame, CLASSES[place.cls])[place.row, s.actors]
        elif not isinstance(element, Immediate):
            return None
    return rows.view(np.uint8)
