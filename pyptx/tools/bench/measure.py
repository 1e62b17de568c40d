"""The measurement: verify, warm up, then time all functions in turns."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.arrays import describe, is_array
from ...core.errors import SpecError
from .device import Device, TorchDevice
from .readings import watch
from .result import BenchResult, Timing
from .verify import expected_of, verify

__all__ = ["bench"]

Function = Callable[..., Any]
#: Microseconds that the GPU is held before each run, beside twice what the host needs to launch it; at most.
_MARGIN, _LONGEST_HOLD = 20.0, 1000.0
#: Copies of the inputs when none are asked for: enough to fill L2 twice, within these bounds.
_MIN_COPIES, _MAX_COPIES = 2, 8


def bench(
    functions: Function | Sequence[Function] | Mapping[str, Function],
    inputs: Sequence[Any] | Callable[[int], Sequence[Any]],
    *,
    reference: Function,
    rtol: float = 0.0,
    atol: float = 0.0,
    flops: float | Mapping[str, float] | None = None,
    bytes: float | Mapping[str, float] | None = None,
    repeats: int = 100,
    warmup: int = 10,
    copies: int | None = None,
    flush: bool = True,
    device: Device | None = None,
) -> BenchResult:
    """Time GPU functions, by CUDA events, on torch's current stream.

    All functions get the same inputs and take turns, in a new order each round, so that a clock that drifts
    hits all alike.  Before each run the L2 cache is flushed and the GPU held until the host has launched what
    comes next; the inputs take turns too.  A function is timed only after its outputs were right on every
    copy of the inputs.

    Args:
        functions: kernels, or functions of CUDA tensors that return their outputs: by name, a list, or one.
        inputs: the arguments of each; or a function that makes the n-th copy of them, for other contents.
            Numbers are passed as they are, tensors are copied.
        reference: what the outputs must be: a function of the same arguments.
        rtol, atol: an element is right if it is within ``atol + rtol * abs(expected)``. The default is
            equality.
        flops, bytes: operations, and bytes moved, of one run, for TFLOP/s and GB/s; a mapping where functions
            differ.
        repeats: runs of each function.
        warmup: runs of each before that.
        copies: copies of the inputs; the default fills the L2 cache twice, with at least 2 and at most 8.
        flush: whether to flush the L2 cache before each run.
        device: what is measured; torch's current GPU if None.

    Returns:
        A :class:`BenchResult`: median and spread of each, rates, clocks and power; ``show()`` prints it.

    Raises:
        WrongResultError: an output that is all zero or not the reference's; nothing was timed.
        LaunchError: there is no GPU.
        SpecError: arguments that do not fit.
    """
    named = _named(functions)
    for what, value, least in (("repeats", repeats, 1), ("warmup", warmup, 0), ("copies", copies, 1)):
        if value is not None and value < least:
            raise SpecError(f"{what} is {value}: expected at least {least}")
    flops_of, bytes_of = _each("flops", flops, named), _each("bytes", bytes, named)
    device = TorchDevice() if device is None else device
    turns = _copies(device, inputs, copies)
    for arguments in turns:
        expected = expected_of(device, reference, arguments)
        for name, function in named.items():
            verify(device, name, function, arguments, expected, rtol=rtol, atol=atol)
        del expected
    hold, hidden = _warm_up(device, named, turns, warmup, flush)
    with watch(device.reader()) as readings:
        times, host = _measure(device, named, turns, repeats, flush, hold)
    timings = tuple(
        Timing(name, tuple(times[name]), host[name], flops_of.get(name), bytes_of.get(name)) for name in named
    )
    notes = tuple(
        f"{t.name}: the host needs {t.host:.1f} us to launch it, so the time may be the host's"
        for t in timings
        if t.host > max(hidden, t.median)
    )
    return BenchResult(device.name, timings, readings, len(turns), flush, notes)


def _named(functions: Function | Sequence[Function] | Mapping[str, Function]) -> dict[str, Function]:
    if isinstance(functions, Mapping):
        found = dict(functions)
    else:
        listed = [functions] if callable(functions) else list(functions)
        found = {_name(function): function for function in listed}
        if len(found) != len(listed):
            raise SpecError("two functions have the same name", hint="give a dict of names and functions")
    if not found:
        raise SpecError("no function to time")
    for name, function in found.items():
        if not callable(function):
            raise SpecError(f"{name} is {type(function).__name__}: expected a function or a kernel")
    return found


def _name(function: Function) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", None) or type(inner).__name__)


def _each(
    what: str, given: float | Mapping[str, float] | None, named: Mapping[str, Function]
) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(named, given)
    unknown = [name for name in given if name not in named]
    if unknown:
        raise SpecError(f"{what} names {unknown[0]!r}; the functions are {', '.join(named)}")
    return dict(given)


def _copies(
    device: Device, inputs: Sequence[Any] | Callable[[int], Sequence[Any]], copies: int | None
) -> list[Sequence[Any]]:
    """Sets of arguments, each in memory of its own."""
    first = tuple(inputs(0) if callable(inputs) else inputs)
    arrays = [value for value in first if is_array(value)]
    for number, value in enumerate(first):
        if is_array(value):
            device.check(value, f"input {number}")
    if copies is None:
        nbytes = sum(describe(array).nbytes for array in arrays)
        wanted = math.ceil(2 * device.l2_bytes / nbytes) if nbytes else 1
        copies = min(max(wanted, _MIN_COPIES), _MAX_COPIES) if nbytes else 1
    turns: list[Sequence[Any]] = [first]
    for number in range(1, copies):
        if callable(inputs):
            turns.append(tuple(inputs(number)))
        else:
            turns.append(tuple(device.clone(value) if is_array(value) else value for value in first))
    return turns


def _warm_up(
    device: Device,
    named: Mapping[str, Function],
    turns: Sequence[Sequence[Any]],
    warmup: int,
    flush: bool,
) -> tuple[float, float]:
    """Run everything, untimed.

    Returns how long to hold the GPU before each run, and how much of the host's time that hides.
    """
    host = dict.fromkeys(named, math.inf)
    for number in range(warmup):
        for name, function in named.items():
            before = device.now()
            function(*turns[number % len(turns)])
            host[name] = min(host[name], device.now() - before)
    slowest = max(host.values()) if warmup else 0.0
    hold = min(2 * slowest + _MARGIN, _LONGEST_HOLD)
    _cover(device, flush, hold)
    start = device.mark()
    _cover(device, flush, hold)
    end = device.mark()
    device.synchronize()
    return hold, device.between(start, end)


def _cover(device: Device, flush: bool, hold: float) -> None:
    """What the GPU does before a run, while the host launches it."""
    if flush:
        device.flush()
    device.hold(hold)


def _measure(
    device: Device,
    named: Mapping[str, Function],
    turns: Sequence[Sequence[Any]],
    repeats: int,
    flush: bool,
    hold: float,
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Microseconds of each run of each function, and the least that the host needed for one."""
    order = random.Random(0)
    marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in named}
    host = dict.fromkeys(named, math.inf)
    run = 0
    for _ in range(repeats):
        for name in order.sample(list(named), len(named)):
            arguments = turns[run % len(turns)]
            run += 1
            _cover(device, flush, hold)
            start = device.mark()
            before = device.now()
            named[name](*arguments)
            host[name] = min(host[name], device.now() - before)
            marks[name].append((start, device.mark()))
    device.synchronize()
    return {name: [device.between(*pair) for pair in pairs] for name, pairs in marks.items()}, host
