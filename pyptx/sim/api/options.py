"""Checks the options and arguments that a caller gives to a launch.

Owns :class:`LaunchOptions`, the options of a run, and :func:`positions`, which checks arguments that the
caller names by position.
"""

from __future__ import annotations

import difflib
import inspect
import operator
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import fields, replace
from os import PathLike
from typing import Any, TypedDict, TypeVar

from ...core.arrays import is_array
from ...core.errors import SpecError
from ...core.records import dataclass
from ...core.waivers import Waiver, check_waiver
from ...layout.tensor_map import TensorMap
from ..debugger.stepper import Debugger, debugger_of
from ..debugger.stop import Stop
from ..engine.stream import Observer
from ..exploration.token import choices_of, is_token
from ..machine.schedule import make_policy
from ..threads.assignment import Assignment
from ..threads.limits import Limits, Progress
from .assignments import EVERY_ASSIGNMENT
from .every_schedule import EVERY_SCHEDULE
from .exploration import EXPLORED
from .timeline import DEFAULT_EVENTS

__all__ = ["LaunchOptions", "RunKeywords", "checked_arguments", "positions", "shows_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


class RunKeywords(TypedDict, total=False):
    """The options of a run as keywords, for type checkers and editors; see :meth:`.LoadedModule.launch`."""

    schedule: str
    seed: int
    seeds: int
    sanitize: bool | str
    max_steps: int | None
    timeout: float | None
    memory: int
    progress: Callable[[Progress], None] | None
    observers: Sequence[Observer]
    max_runs: int
    resume: str | PathLike[str] | None
    executor: Executor | None
    waivers: Sequence[Waiver]
    debug: bool | Debugger | Sequence[str] | Callable[[Stop], str | None] | None
    timeline: bool | int
    launch_control: str | None


@dataclass(frozen=True)
class LaunchOptions:
    """The options of a run, with their defaults.

    :meth:`.LoadedModule.launch` describes each option, and :meth:`of` checks them.
    """

    schedule: str = "eager"
    seed: int = 0
    seeds: int = 3
    sanitize: bool | str = True
    max_steps: int | None = None
    timeout: float | None = None
    memory: int = Limits.memory
    progress: Callable[[Progress], None] | None = None
    observers: Sequence[Observer] = ()
    max_runs: int = 1000
    resume: str | PathLike[str] | None = None
    executor: Executor | None = None
    waivers: Sequence[Waiver] = ()
    debug: bool | Debugger | Sequence[str] | Callable[[Stop], str | None] | None = None
    timeline: bool | int = False
    launch_control: str | None = None

    @classmethod
    def of(cls, keywords: RunKeywords) -> LaunchOptions:
        """Check the options that a caller gave as keywords.

        Raises:
            TypeError: there is no such option.
            SpecError: an option has a value that it cannot have.
        """
        known = [option.name for option in fields(cls)]
        for name in keywords:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise TypeError(
                    f"unknown option {name!r}: expected {', '.join(known)}"
                    f"{f'; did you mean {near[0]}?' if near else ''}"
                )
        return cls(**keywords)._checked()

    def _checked(self) -> LaunchOptions:
        seed = _whole("seed", self.seed, least=None)
        if not isinstance(self.schedule, str):
            raise SpecError(f"schedule is {self.schedule!r}: expected a name such as 'eager'")
        if is_token(self.schedule):
            choices_of(self.schedule)
        elif self.schedule not in (EVERY_SCHEDULE, EXPLORED):
            make_policy(self.schedule, seed)
            if self.schedule == "weak" and not self.sanitize:
                raise SpecError(
                    "schedule is 'weak' and sanitize is False: the sanitizer says what a read may return",
                    hint="leave sanitize on, or use schedule='random'",
                )
        if not isinstance(self.sanitize, bool) and self.sanitize != "strict":
            raise SpecError(
                f"sanitize is {self.sanitize!r}: expected True, 'strict' or False",
                hint="bounds, alignment and initialization are always checked",
            )
        _check_timeout(self.timeout)
        if self.progress is not None and not callable(self.progress):
            raise SpecError(
                f"progress is {self.progress!r}: expected a function that takes one Progress, or None"
            )
        debugger = debugger_of(self.debug)
        if debugger is not None and (self.schedule in (EVERY_SCHEDULE, EXPLORED) or is_token(self.schedule)):
            raise SpecError(
                f"debug is given, and schedule is {self.schedule!r}, which runs the launch several times or "
                "follows its own order",
                hint="step through one run: eager, late, random, weak or starve:ENGINE",
            )
        if self.timeline is not False and self.schedule == EXPLORED:
            raise SpecError(
                f"schedule is {EXPLORED!r} and timeline is {self.timeline!r}: a timeline shows one run",
                hint="replay one interleaving of the report: schedule='replay:...'",
            )
        self._check_launch_control()
        # Python's own integers, since random.Random takes no others.
        return replace(
            self,
            seed=seed,
            seeds=_whole("seeds", self.seeds, least=0),
            max_steps=None if self.max_steps is None else _whole("max_steps", self.max_steps, least=1),
            memory=_whole("memory", self.memory, least=1),
            observers=_observers(self.observers),
            max_runs=_whole("max_runs", self.max_runs, least=1),
            resume=None if self.resume is None else _path(self.resume),
            executor=_executor(self.executor),
            waivers=_waivers(self.waivers),
            debug=debugger,
            timeline=_timeline(self.timeline),
        )

    def _check_launch_control(self) -> None:
        given = self.launch_control
        if given is None:
            return
        if not isinstance(given, str):
            raise SpecError(
                f"launch_control is {given!r}: expected 'every', an assignment such as '0,1/2', or None"
            )
        every = given == EVERY_ASSIGNMENT
        if not every:
            Assignment.of(given)
        if (
            self.schedule == EXPLORED
            or is_token(self.schedule)
            or (every and self.schedule == EVERY_SCHEDULE)
        ):
            raise SpecError(
                f"launch_control is {given!r} and schedule is {self.schedule!r}, which also runs the launch "
                "several times or follows its own order",
                hint="use eager, late, random, weak or starve:ENGINE",
            )
        if every and (self.timeline is not False or debugger_of(self.debug) is not None):
            raise SpecError(
                "launch_control is 'every', and debug or timeline is given: they show one run",
                hint="give one assignment: launch_control='0,1/2'",
            )

    @property
    def assignment(self) -> Assignment | None:
        """The assignment that the caller gave, or None."""
        given = self.launch_control
        return None if given is None or given == EVERY_ASSIGNMENT else Assignment.of(given)

    @property
    def limits(self) -> Limits:
        steps = Limits.max_steps if self.max_steps is None else self.max_steps
        return Limits(steps, self.timeout, self.memory)

    @property
    def name(self) -> str:
        """Name of the schedule in reports."""
        seeded = self.schedule in ("random", "weak")
        name = f"{self.schedule} (seed {self.seed})" if seeded else self.schedule
        return name if self.assignment is None else f"{name}, launch control {self.assignment}"


def shows_options(function: Function) -> Function:
    """Let ``help`` and notebooks show the options instead of the ``**options`` of ``function``."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type
        )
        for option in fields(LaunchOptions)
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function


def _observers(given: Any) -> tuple[Observer, ...]:
    """Return the observers as a tuple. Raise :class:`SpecError` if ``given`` is not a list of observers."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, Observer) for each in given):
        raise SpecError(
            f"observers is {given!r}: expected a list of sim.Observer objects",
            hint="derive a class from sim.Observer, or pass a sim.Recorder()",
        )
    return tuple(given)


def _timeline(given: Any) -> int:
    """Return the number of events that a timeline keeps; 0 for no timeline."""
    if isinstance(given, bool):
        return DEFAULT_EVENTS if given else 0
    return _whole("timeline", given, least=1) if given != 0 else 0


def _path(given: Any) -> str:
    try:
        return os.fsdecode(given)
    except TypeError:
        raise SpecError(f"resume is {given!r}: expected the path of a file, or None") from None


def _executor(given: Any) -> Executor | None:
    if given is not None and not isinstance(given, Executor):
        raise SpecError(
            f"executor is {given!r}: expected a concurrent.futures.Executor, or None",
            hint="pass a ProcessPoolExecutor, or the executor that a cluster's library makes",
        )
    return given


def _waivers(given: Any) -> tuple[Waiver, ...]:
    """Return the waivers as a tuple. Raise :class:`SpecError` if one of them is not valid."""
    if not isinstance(given, (list, tuple)):
        raise SpecError(f"waivers is {given!r}: expected a list of sim.Waiver")
    return tuple(map(check_waiver, given))


def _whole(name: str, value: Any, *, least: int | None) -> int:
    """Return ``value`` as an integer.

    Raise :class:`SpecError` if it is not an integer of at least ``least``.
    """
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
    """Check and return positions of array arguments, counted from 0.

    Raises :class:`SpecError` for a wrong position.
    """
    if not isinstance(given, (Sequence, frozenset, set)) or isinstance(given, (str, bytes)):
        raise SpecError(f"{name} is {given!r}: expected a list of positions of arguments")
    found = frozenset(_whole(f"a position in {name}", value, least=0) for value in given)
    beyond = [number for number in sorted(found) if number >= len(args)]
    if beyond:
        raise SpecError(
            f"{name} contains {beyond[0]}, but there are {len(args)} arguments",
            hint="positions are counted from 0",
        )
    for number in sorted(found):
        value = args[number]
        value = value.array if isinstance(value, TensorMap) else value
        if not is_array(value):
            raise SpecError(f"{name} names argument {number}, which is {value!r}: expected an array")
    return found
