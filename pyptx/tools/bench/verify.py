"""Compares outputs with a reference before any function is timed: a wrong kernel gets no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.arrays import describe, is_array
from ...core.errors import SpecError, WrongResultError
from .device import Device, arrays_of

__all__ = ["expected_of", "verify"]

Function = Callable[..., Any]


def _fresh(device: Device, inputs: Sequence[Any]) -> list[Any]:
    """Return copies of the inputs, since a function may write into its arguments."""
    return [device.clone(value) if is_array(value) else value for value in inputs]


def expected_of(device: Device, reference: Function, inputs: Sequence[Any]) -> list[Any]:
    """Return the reference's outputs in double precision.

    Raises :class:`SpecError` if all of them are zero, because a kernel that does nothing would pass.
    """
    outputs = arrays_of(reference(*_fresh(device, inputs)), "the reference")
    wide = [device.wide(output) for output in outputs]
    if not any(bool((values != 0).any()) for values in wide):
        raise SpecError(
            "the reference is all zero: a kernel that does nothing would pass",
            hint="choose inputs for which the expected outputs are not all zero",
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

    The function runs twice. The outputs of the first run are poisoned and released before the second run.
    Otherwise a kernel that writes nothing could return memory with the right results of an earlier kernel. No
    memory is allocated between the runs, so torch gives the second run the poisoned memory.

    Raises:
        WrongResultError: an output is all zero, has another shape, or is beyond the tolerance, or the number
            of outputs differs.
        SpecError: the function returned a value that is not an array.
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
    """True if the address ranges of two arrays overlap, so that they may share memory."""
    first, second = describe(a), describe(b)
    return first.pointer < second.pointer + second.extent and second.pointer < first.pointer + first.extent


def _compare(which: str, got: Any, wanted: Any, rtol: float, atol: float) -> None:
    if tuple(got.shape) != tuple(wanted.shape):
        raise WrongResultError(
            f"{which} has the shape {tuple(got.shape)}, the reference {tuple(wanted.shape)}"
        )
    if not bool((got != 0).any()) and bool((wanted != 0).any()):
        raise WrongResultError(
            f"{which} is all zero: it is not timed", hint="check that the kernel runs and writes its outputs"
        )
    error = abs(got - wanted)
    # A NaN is right where the reference has a NaN. An infinity is right if it equals the reference's element.
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
            hint="if these are rounding errors, pass a larger rtol or atol",
        )
