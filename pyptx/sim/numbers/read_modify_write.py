"""Read-modify-write: the new value that each operation computes, and the order of operations on one element.

Operations of several lanes on the same element of memory execute in order. If all elements are distinct, the
usual case, one array operation executes them all. Otherwise a running sum (or minimum ...) for each element
executes them, or rounds with at most one operation per element.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-atom`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.types import TYPES

__all__ = ["Meaning", "combination", "in_order", "meaning_of"]

Array = NDArray[Any]
#: Computes new values from the old values, the operand, and the second operand of cas.
Combine = Callable[[Array, Array, "Array | None"], Array]
#: Computes running values of (old value, operands of the lanes in order), or None if they would differ from
#: operations one after the other.
Scan = Callable[[Array], "Array | None"]
#: How an operation combines two values, and its scan, None if it has none.
Meaning = tuple[Combine, "Scan | None"]

_TINY = np.float32(2.0**-126)
_NAN_BITS = {2: np.uint16(0x7FFF), 4: np.uint32(0x7FFFFFFF)}
_QUIET = np.uint64(1 << 51)
#: The sum of infinities of opposite signs.
_INDEFINITE = np.uint64(0xFFF8000000000000).view(np.float64)


# --- integers -----------------------------------------------------------------------------------


def _inc(old: Array, b: Array, c: Array | None) -> Array:
    return np.where(old >= b, np.uint32(0), old + np.uint32(1))


def _dec(old: Array, b: Array, c: Array | None) -> Array:
    return np.where((old == 0) | (old > b), b, old - np.uint32(1))


def _cas(old: Array, b: Array, c: Array | None) -> Array:
    assert c is not None
    return np.where(old == b, c, old)


def _exch(old: Array, b: Array, c: Array | None) -> Array:
    return b


_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}
_OTHERS: dict[str, Combine] = {"inc": _inc, "dec": _dec, "cas": _cas, "exch": _exch}


def _folded(ufunc: np.ufunc) -> tuple[Combine, Scan]:
    def combine(old: Array, b: Array, c: Array | None) -> Array:
        result: Array = ufunc(old, b)
        return result

    def scan(values: Array) -> Array | None:
        running: Array = ufunc.accumulate(values, dtype=values.dtype)
        return running

    return combine, scan


# --- floats -------------------------------------------------------------------------------------


def _canonical(values: Array) -> Array:
    """Replace each NaN by the NaN that the hardware returns."""
    wrong = np.isnan(values)
    if wrong.any():
        bits = values.view(f"u{values.itemsize}").copy()
        bits[wrong] = _NAN_BITS[values.itemsize]
        return bits.view(values.dtype)
    return values


def _flushed(values: Array) -> Array:
    """Replace subnormal numbers by zeros of the same sign."""
    return np.where(np.abs(values) < _TINY, np.copysign(values.dtype.type(0), values), values)


def _add(old: Array, b: Array, c: Array | None) -> Array:
    return _canonical(old + b)


def _add_ftz(old: Array, b: Array, c: Array | None) -> Array:
    total = old + b
    if np.minimum(np.minimum(np.abs(old), np.abs(b)), np.abs(total)).min() >= _TINY:
        return total
    return _canonical(_flushed(_flushed(old) + _flushed(b)))


def _first_nan(first: Array, second: Array, total: Array) -> Array:
    """Replace NaN sums by the NaN of ``first``, else of ``second``, else by the indefinite NaN."""
    wrong = np.isnan(total)
    if not wrong.any():
        return total
    of_second = np.where(np.isnan(second), second, _INDEFINITE)
    return np.where(wrong, np.where(np.isnan(first), first, of_second), total)


def _add_double_in_l2(old: Array, b: Array, c: Array | None) -> Array:
    """Add in the L2 cache (global memory), which returns a NaN unchanged.

    If both values are NaNs, the result is the NaN of the operand, not the NaN in memory.
    """
    return _first_nan(np.broadcast_to(b, old.shape), old, old + b)


def _add_double_in_sm(old: Array, b: Array, c: Array | None) -> Array:
    """Add in the multiprocessor (shared memory), which makes a NaN quiet."""
    total = _first_nan(old, np.broadcast_to(b, old.shape), old + b)
    return np.where(np.isnan(total), (total.view(np.uint64) | _QUIET).view(np.float64), total)


def _running_sum(values: Array) -> Array | None:
    running = np.add.accumulate(values)
    return None if np.isnan(running[-1]) else running


def _running_sum_ftz(values: Array) -> Array | None:
    running = _running_sum(values)
    if running is None:
        return None
    both = np.abs(np.concatenate([values, running]))
    return None if ((both != 0) & (both < _TINY)).any() else running


def _smaller(old: Array, b: Array, c: Array | None) -> Array:
    """Return the minimum; if one value is NaN, the other one. -0 is less than +0."""
    return _canonical(np.where((b < old) | ((b == old) & np.signbit(b)) | np.isnan(old), b, old))


def _larger(old: Array, b: Array, c: Array | None) -> Array:
    return _canonical(np.where((b > old) | ((b == old) & np.signbit(old)) | np.isnan(old), b, old))


_HALVES: dict[str, Combine] = {"add": _add, "min": _smaller, "max": _larger}


def _f16(name: str) -> Combine:
    combine = _HALVES[name]

    def of_words(old: Array, b: Array, c: Array | None) -> Array:
        given = np.ascontiguousarray(b)
        return combine(np.ascontiguousarray(old).view(np.float16), given.view(np.float16), None).view(b.dtype)

    return of_words


def _bf16(name: str) -> Combine:
    combine = _HALVES[name]

    def widened(bits: Array) -> Array:
        return (np.ascontiguousarray(bits).view(np.uint16).astype(np.uint32) << 16).view(np.float32)

    def of_words(old: Array, b: Array, c: Array | None) -> Array:
        # The f32 sum of two bf16 numbers, rounded again, is the correctly rounded sum: 24 >= 2 * 8 + 2 bits.
        # A NaN is canonical, 0x7fffffff; its upper half is taken without rounding, so it stays a NaN.
        values = combine(widened(old), widened(b), None)
        bits = values.view(np.uint32)
        rounded = (bits + ((bits >> 16 & 1) + np.uint32(0x7FFF))) >> 16
        return np.where(np.isnan(values), bits >> 16, rounded).astype(np.uint16).view(b.dtype)

    return of_words


def meaning_of(name: str, kind: str, *, ftz: bool, in_shared: bool) -> Meaning:
    """Return how an operation on elements of type ``kind`` executes in global or in shared memory."""
    if kind in ("f16", "f16x2"):
        return _f16(name), None
    if kind in ("bf16", "bf16x2"):
        return _bf16(name), None
    if kind == "f64":
        return _add_double_in_sm if in_shared else _add_double_in_l2, _running_sum
    if kind == "f32":
        # Global memory flushes subnormal numbers, shared memory does not, and neither does .noftz.
        return (_add_ftz, _running_sum_ftz) if ftz and not in_shared else (_add, _running_sum)
    if name in _UFUNCS:
        return _folded(_UFUNCS[name])
    # For exch, the next lane finds the value that this lane stored.
    return _OTHERS[name], (lambda values: values) if name == "exch" else None


def combination(name: str, kind: str, *, ftz: bool, in_shared: bool) -> Callable[[Array, Array], Array]:
    """Return a function that combines old and given elements of type ``kind``, all passed as bytes."""
    combine, _ = meaning_of(name, kind, ftz=ftz, in_shared=in_shared)
    dtype = TYPES[kind].register_dtype

    def of_bytes(old: Array, given: Array) -> Array:
        new: Array = combine(old.view(dtype), given.view(dtype), None).astype(dtype, copy=False)
        return new.view(np.uint8)

    return of_bytes


# --- order --------------------------------------------------------------------------------------


def in_order(
    words: Array, index: Array, b: Array, c: Array | None, meaning: Meaning
) -> tuple[Array, Array, Array, Array]:
    """Execute the lanes' operations in order on the elements ``words[index]``.

    Returns the value before and after each lane's operation, the distinct indices, and their final values.
    ``words`` itself is not changed.
    """
    combine, scan = meaning
    if (index[1:] > index[:-1]).all() or len(np.unique(index)) == len(index):
        before = words[index]
        after = combine(before, b, c)
        return before, after, index, after
    places, group, sizes = np.unique(index, return_inverse=True, return_counts=True)
    current = words[places]
    before, after = np.empty(len(index), words.dtype), np.empty(len(index), words.dtype)
    by_group = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if scan is not None and len(places) < sizes.max():
        runs = []
        for number, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
            members = by_group[start : start + size]
            running = scan(np.concatenate([current[number : number + 1], b[members]]))
            if running is None:
                break
            runs.append((members, running))
        else:
            for number, (members, running) in enumerate(runs):
                before[members], after[members] = running[:-1], running[1:]
                current[number] = running[-1]
            return before, after, places, current
    turn = np.empty(len(index), np.intp)
    turn[by_group] = np.arange(len(index)) - np.repeat(starts, sizes)
    for number in range(int(sizes.max())):
        now = np.flatnonzero(turn == number)
        at = group[now]
        before[now] = current[at]
        after[now] = current[at] = combine(before[now], b[now], None if c is None else c[now])
    return before, after, places, current
