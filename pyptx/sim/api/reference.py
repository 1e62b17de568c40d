"""Compares the outputs of a run with those of a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.arrays import is_array, to_numpy
from ...core.errors import SpecError
from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...layout.tensor_map import TensorMap

__all__ = ["Expected", "expected_outputs", "wrong_results"]

#: Relative and absolute tolerance by the element type: those of torch.testing.assert_close, and one unit in
#: the last place for 8-bit floats. Other types must be equal.
_TOLERANCES = {
    "float64": (1e-7, 1e-7),
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float8_e4m3fn": (0.125, 2.0**-9),
    "float8_e5m2": (0.25, 2.0**-16),
}


@dataclass(frozen=True, eq=False)
class Expected:
    """What an argument must contain after the run.

    Attributes:
        name: for messages.
        wanted: the elements.
        rtol, atol: tolerances; None for the default of the array's type.
    """

    name: str
    wanted: NDArray[Any]
    rtol: float | None = None
    atol: float | None = None


def expected_outputs(
    given: Any,
    args: Sequence[Any],
    rtol: float | None,
    atol: float | None,
    names: Mapping[int, str] | None = None,
) -> dict[int, Expected]:
    """Check the option ``reference`` of a launch: a mapping from positions of arguments to arrays.

    ``names`` are names of arguments for messages.

    Raises:
        SpecError: a position names no array, or the shapes differ, or a tolerance is no number of at least 0.
    """
    if given is None:
        if rtol is not None or atol is not None:
            raise SpecError("rtol and atol were given without reference: nothing would be compared")
        return {}
    tolerances: tuple[tuple[str, Any], ...] = (("rtol", rtol), ("atol", atol))
    for name, value in tolerances:
        if value is not None and not (isinstance(value, (int, float)) and value >= 0):
            raise SpecError(f"{name} is {value!r}: expected a number of at least 0, or None")
    if not isinstance(given, Mapping):
        raise SpecError(
            f"reference is {type(given).__name__}: expected a dict from positions of arguments to arrays",
            hint="reference={1: expected} compares argument 1, counted from 0, with an array",
        )
    called = names or {}
    return {
        number: Expected(called.get(number, f"argument {number}"), _wanted(number, value, args), rtol, atol)
        for number, value in given.items()
    }


def _wanted(number: Any, value: Any, args: Sequence[Any]) -> NDArray[Any]:
    if not isinstance(number, int) or not 0 <= number < len(args):
        raise SpecError(f"reference names argument {number!r}, but there are {len(args)} arguments")
    array = _array(args[number])
    if array is None:
        raise SpecError(f"reference names argument {number}, which is {args[number]!r}: expected an array")
    wanted = to_numpy(value) if is_array(value) else np.asarray(value)
    if wanted.shape != array.shape:
        raise SpecError(
            f"reference for argument {number} has shape {wanted.shape}, but the argument has {array.shape}"
        )
    return wanted


def _array(argument: Any) -> NDArray[Any] | None:
    """Return the array of an argument as a numpy array; None for a number."""
    value = argument.array if isinstance(argument, TensorMap) else argument
    return to_numpy(value) if is_array(value) else None


def wrong_results(args: Sequence[Any], expected: Mapping[int, Expected]) -> list[Finding]:
    """Return a finding for each argument that differs from what it must contain."""
    found = (_compare(args[number], wanted) for number, wanted in expected.items())
    return [finding for finding in found if finding is not None]


def _compare(argument: Any, expected: Expected) -> Finding | None:
    got = _array(argument)
    assert got is not None
    rtol, atol = _TOLERANCES.get(str(got.dtype), (0.0, 0.0))
    rtol = rtol if expected.rtol is None else expected.rtol
    atol = atol if expected.atol is None else expected.atol
    exact = got.dtype.kind in "iub"
    kind: Any = np.complex128 if got.dtype.kind == "c" else np.float64
    mine, theirs = (got, expected.wanted) if exact else (got.astype(kind), expected.wanted.astype(kind))
    with np.errstate(invalid="ignore"):
        right = mine == theirs
        if rtol or atol:
            right |= abs(mine - theirs) <= atol + rtol * abs(theirs)
        if not exact:
            right |= np.isnan(mine) & np.isnan(theirs)
    wrong = ~right
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    tolerance = f" (rtol {rtol:g}, atol {atol:g})" if rtol or atol else ""
    return Finding(
        RULES["wrong-result"],
        f"{expected.name}: {count} of {wrong.size} elements differ from the reference{tolerance}; the first "
        "is "
        f"at {list(first)}: {mine[first]!s} instead of {theirs[first]!s}",
    )
