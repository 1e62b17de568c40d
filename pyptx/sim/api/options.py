"""Checks the options and arguments that a caller gives to a launch.

Owns :func:`run_options`, which checks the options of a run, and :func:`positions`, which checks arguments
that the caller names by position.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.arrays import is_array
from ...core.errors import SpecError
from ...layout.tensor_map import TensorMap
from ..engine.stream import Observer
from ..machine.schedule import make_policy
from ..threads.limits import Limits, Progress
from .every_schedule import EVERY_SCHEDULE

__all__ = ["LaunchOptions", "checked_arguments", "positions", "run_options"]


@dataclass(frozen=True)
class LaunchOptions:
    """The checked options of a run (:func:`run_options`)."""

    schedule: str
    seed: int
    seeds: int
    sanitize: bool | str
    max_steps: int
    timeout: float | None
    memory: int
    progress: Callable[[Progress], None] | None
    observers: tuple[Observer, ...] = ()

    @property
    def limits(self) -> Limits:
        return Limits(self.max_steps, self.timeout, self.memory)

    @property
    def name(self) -> str:
        """Name of the schedule in reports."""
        return f"{self.schedule} (seed {self.seed})" if self.schedule == "random" else self.schedule


def run_options(
    schedule: Any,
    seed: Any,
    seeds: Any,
    sanitize: Any,
    max_steps: Any,
    timeout: Any,
    memory: Any,
    progress: Any,
    observers: Any,
) -> LaunchOptions:
    """Check the options that a caller gave. :meth:`.LoadedModule.launch` describes each one.

    Raises:
        SpecError: an option has a value that it cannot have.
    """
    # Convert to Python's own integers: random.Random takes no other type.
    seed, seeds = _whole("seed", seed, least=None), _whole("seeds", seeds, least=0)
    if not isinstance(schedule, str):
        raise SpecError(f"schedule is {schedule!r}: expected a name such as 'eager'")
    if schedule != EVERY_SCHEDULE:
        make_policy(schedule, seed)
    if sanitize is not True and not (isinstance(sanitize, str) and sanitize == "strict"):
        raise SpecError(
            f"sanitize is {sanitize!r}: expected True or 'strict'",
            hint="bounds, alignment and initialization are always checked",
        )
    steps = Limits.max_steps if max_steps is None else _whole("max_steps", max_steps, least=1)
    _check_timeout(timeout)
    memory = _whole("memory", memory, least=1)
    if progress is not None and not callable(progress):
        raise SpecError(f"progress is {progress!r}: expected a function of one Progress, or None")
    return LaunchOptions(
        schedule, seed, seeds, sanitize, steps, timeout, memory, progress, _observers(observers)
    )


def _observers(given: Any) -> tuple[Observer, ...]:
    """Return the observers as a tuple. Raise :class:`SpecError` if ``given`` is not a list of observers."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, Observer) for each in given):
        raise SpecError(
            f"observers is {given!r}: expected a list of sim.Observer objects",
            hint="derive a class from sim.Observer, or pass a sim.Recorder()",
        )
    return tuple(given)


def _whole(name: str, value: Any, *, least: int | None) -> int:
    """Return ``value`` as an integer. Raise :class:`SpecError` if it is none, or less than ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        wanted = "an integer" if least is None else f"an integer of at least {least}"
        raise SpecError(f"{name} is {value!r}: expected {wanted}")
    return number


def _check_timeout(timeout: Any) -> None:
    if timeout is None:
        return
    try:
        # Neither a string nor NaN is a number of seconds.
        fits = not isinstance(timeout, (str, bytes, bool)) and float(timeout) >= 0
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise SpecError(f"timeout is {timeout!r}: expected a number of seconds of at least 0, or None")


def checked_arguments(args: Any) -> Sequence[Any]:
    """Return ``args`` if it is a sequence of arguments. Raise :class:`SpecError` otherwise."""
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes)):
        raise SpecError(f"args is {args!r}: expected a list with one argument for each parameter")
    return args


def positions(name: str, given: Any, args: Sequence[Any]) -> frozenset[int]:
    """Return positions of array arguments, counted from 0. Raise :class:`SpecError` for a wrong position."""
    if not isinstance(given, (Sequence, frozenset, set)) or isinstance(given, (str, bytes)):
        raise SpecError(f"{name} is {given!r}: expected a list of positions of arguments")
    found = frozenset(_whole(f"a position in {name}", value, least=0) for value in given)
    beyond = [number for number in sorted(found) if number >= len(args)]
    if beyond:
        raise SpecError(
            f"{name} names argument {beyond[0]} of {len(args)} arguments", hint="positions are counted from 0"
        )
    for number in sorted(found):
        value = args[number]
        value = value.array if isinstance(value, TensorMap) else value
        if not is_array(value):
            raise SpecError(f"{name} names argument {number}, which is {value!r}: expected an array")
    return found
