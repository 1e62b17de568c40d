"""The measurement: verifies all functions, warms them up, then times them in turns."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ...core.arrays import describe, is_array
from ...core.errors import SpecError
from .device import Device, TorchDevice
from .readings import watch
from .result import BenchResult, Timing
from .sustained import measure_sustained
from .verify import expected_of, verify

__all__ = ["bench"]

Function = Callable[..., Any]
#: Before each run the GPU is held for twice the time that the host needs for a launch, plus the first number
#: of microseconds, but never longer than the second.
_MARGIN, _LONGEST_HOLD = 20.0, 1000.0
#: Bounds on the number of copies of the inputs if the caller gives none: then they fill the L2 cache twice.
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
    protocol: Literal["burst", "sustained"] = "burst",
    seconds: float = 2.0,
    roofs: Mapping[str, Function] | None = None,
    device: Device | None = None,
) -> BenchResult:
    """Time GPU functions with CUDA events, on torch's current stream.

    All functions get the same inputs and take turns, in a new order each round, so that a drifting clock
    affects all of them alike.  Before each run the L2 cache is flushed, and the GPU is held busy until the
    host has launched the run.  Successive runs use different copies of the inputs.  A function is timed only
    after its outputs were right on every copy of the inputs.

    Args:
        functions: one kernel or function, a list of them, or a mapping from names to them. A function takes
            CUDA tensors and returns its outputs.
        inputs: the arguments of every function; or a function of n that makes the n-th copy of the arguments,
            if copies should have different contents. Tensors are copied, numbers are passed unchanged.
        reference: a function of the same arguments that returns the expected outputs.
        rtol, atol: an element is right if its error is at most ``atol + rtol * abs(expected)``. By default it
            must be equal.
        flops, bytes: operations of one run, and bytes that it moves, for TFLOP/s and GB/s; a mapping by name
            if they differ between functions.
        repeats: number of timed runs of each function.
        warmup: number of untimed runs of each function before the timed ones.
        copies: number of copies of the inputs. By default enough to fill the L2 cache twice, from 2 to 8.
        flush: whether to flush the L2 cache before each run.
        protocol: ``"burst"`` times single runs, ``repeats`` of them. ``"sustained"`` replays launches back to
            back, in two windows of ``seconds`` for each function, first in order, then in the opposite order;
            it times their second halves and reads clocks and energy; ``repeats`` and ``flush`` do not count.
        seconds: length of a window of the sustained protocol.
        roofs: further functions by name, of the same arguments, that are timed with the others and not
            verified: what the hardware reaches at most, such as a copy of as many bytes.
        device: the GPU to measure; torch's current GPU if None.

    Returns:
        A :class:`BenchResult`: median and spread of each function, rates, clocks and power. ``show()`` prints
        it.

    Raises:
        WrongResultError: an output is all zero, or differs from the reference. No function was timed.
        LaunchError: there is no GPU.
        SpecError: an argument is not valid.
    """
    named = _named(functions)
    for what, value, least in (("repeats", repeats, 1), ("warmup", warmup, 0), ("copies", copies, 1)):
        if value is not None and value < least:
            raise SpecError(f"{what} is {value}: expected at least {least}")
    if protocol not in ("burst", "sustained"):
        raise SpecError(f"protocol is {protocol!r}: expected 'burst' or 'sustained'")
    if not seconds > 0:
        raise SpecError(f"seconds is {seconds!r}: expected more than 0")
    timed = {**named, **_roofs(roofs or {}, named)}
    flops_of, bytes_of = _each("flops", flops, timed), _each("bytes", bytes, timed)
    device = TorchDevice() if device is None else device
    turns = _copies(device, inputs, copies)
    for arguments in turns:
        expected = expected_of(device, reference, arguments)
        for name, function in named.items():
            verify(device, name, function, arguments, expected, rtol=rtol, atol=atol)
        del expected
    if protocol == "sustained":
        sustained, readings, said = measure_sustained(device, timed, turns, seconds, flops_of, bytes_of)
        return BenchResult(device.name, tuple(sustained), readings, len(turns), False, tuple(said), protocol)
    return _burst(device, timed, turns, (repeats, warmup, flush), flops_of, bytes_of)


def _burst(
    device: Device,
    named: Mapping[str, Function],
    turns: Sequence[Sequence[Any]],
    counts: tuple[int, int, bool],
    flops_of: Mapping[str, float],
    bytes_of: Mapping[str, float],
) -> BenchResult:
    """Time single runs: ``counts`` are the repeats, the untimed runs, and whether the cache is flushed."""
    repeats, warmup, flush = counts
    hold, hidden = _warm_up(device, named, turns, warmup, flush)
    with watch(device.reader()) as readings:
        times, host = _measure(device, named, turns, repeats, flush, hold)
    timings = tuple(
        Timing(name, tuple(times[name]), host[name], flops_of.get(name), bytes_of.get(name)) for name in named
    )
    notes = tuple(
        f"{t.name}: the host needs {t.host:.1f} us for a launch, so the time may be that of the launch"
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
            raise SpecError("two functions have the same name", hint="pass a dict from names to functions")
    if not found:
        raise SpecError("no function was given: expected at least one to time")
    for name, function in found.items():
        if not callable(function):
            raise SpecError(f"{name} is {type(function).__name__}: expected a function or a kernel")
    return found


def _roofs(given: Mapping[str, Function], named: Mapping[str, Function]) -> dict[str, Function]:
    roofs = _named(given) if given else {}
    for name in roofs:
        if name in named:
            raise SpecError(f"roofs has {name!r}, which is one of the functions", hint="choose another name")
    return roofs


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
    """Return the copies of the arguments, each with arrays in its own memory."""
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
    """Run all functions without timing them.

    Returns two durations in microseconds: how long to hold the GPU before each run, and how long the GPU is
    busy before a run, flush included. A launch that takes the host less than the second does not delay the
    run.
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
    """Enqueue the work that keeps the GPU busy while the host launches the next run."""
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
    """Time the runs.

    Returns, for each function, the microseconds of every run, and the least time that the host needed to
    launch one.
    """
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
