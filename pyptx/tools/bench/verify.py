"""Outputs held against a reference before anything is timed: a fast wrong kernel is no result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.arrays import describe, is_array
from ...core.errors import SpecError, WrongResultError
from .device import Device, arrays_of

__all__ = ["expected_of", "verify"]

Function = Callable[..., Any]


def _fresh(device: Device, inputs: Sequence[Any]) -> list[Any]:
    """Copies of the inputs: a function may write into them."""
    return [device.clone(value) if is_array(value) else value for value in inputs]


def expected_of(device: Device, reference: Function, inputs: Sequence[Any]) -> list[Any]:
    """The reference's outputs, in double precision.

    Raises :class:`SpecError` if they are all zero: a kernel that does nothing would pass.
    """
    outputs = arrays_of(reference(*_fresh(device, inputs)), "the reference")
    wide = [device.wide(output) for output in outputs]
    if not any(bool((values != 0).any()) for values in wide):
        raise SpecError(
            "the reference is all zero: it cannot tell a kernel that does nothing from a right one",
            hint="choose other inputs",
        )
    return wide


def verify(
    device: Device,
    name: str,
    function: Function,
    inputs: Sequence[Any],
    expected: Sequence[Any],
    *,
    rtol: float,
    atol: float,
) -> None:
    """Run ``function`` and compare its outputs with ``expected``.

    It runs twice, and the first run's outputs are poisoned and released before the second: a kernel that
    writes nothing would otherwise return, in the same memory, what another one computed before. Nothing is
    allocated in between, so that torch gives new outputs the memory that was poisoned.

    Raises:
        WrongResultError: outputs that are all zero, of another number or shape, or beyond the tolerance.
        SpecError: the function returned no arrays.
    """
    arguments, again = _fresh(device, inputs), _fresh(device, inputs)
    outputs = arrays_of(function(*arguments), name)
    for output in outputs:
        if not any(_overlap(output, value) for value in arguments if is_array(value)):
            device.poison(output)
    del outputs, output
    outputs = arrays_of(function(*again), name)
    device.synchronize()
    if len(outputs) != len(expected):
        raise WrongResultError(f"{name} returned {len(outputs)} arrays, the reference {len(expected)}")
    for number, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
        which = name if len(expected) == 1 else f"output {number} of {name}"
        _compare(which, device.wide(output), wanted, rtol, atol)


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays share memory, or may: the ranges that they span do."""
    first, second = describe(a), describe(b)
    return first.pointer < second.pointer + second.extent and second.pointer < first.pointer + first.extent


def _compare(which: str, got: Any, wanted: Any, rtol: float, atol: float) -> None:
    if tuple(got.shape) != tuple(wanted.shape):
        raise WrongResultError(
            f"{which} has the shape {tuple(got.shape)}, the reference {tuple(wanted.shape)}"
        )
    if not bool((got != 0).any()) and bool((wanted != 0).any()):
        raise WrongResultError(f"{which} is all zero: it is not timed", hint="was anything written?")
    error = abs(got - wanted)
    # NaN is right where the reference has one; infinities are right by equality.
    both_nan = (got != got) & (wanted != wanted)
    right = (error <= atol + rtol * abs(wanted)) | (got == wanted) | both_nan
    wrong = int((~right).sum())
    if wrong:
        nan = int(((got != got) & ~both_nan).sum())
        measured = error[~right & (error == error)]
        largest = f"the largest error is {float(measured.max()):.3g}" if measured.shape[0] else ""
        nans = f"{nan} of them NaN" if nan else ""
        total = 1
        for extent in got.shape:
            total *= int(extent)
        said = "; ".join(filter(None, (nans, largest)))
        raise WrongResultError(
            f"{which} is wrong in {wrong} of {total} elements with rtol {rtol:g} and atol {atol:g}"
            f"{': ' if said else ''}{said}; it is not timed",
            hint="if that is its rounding, give the tolerance that it needs",
        )
