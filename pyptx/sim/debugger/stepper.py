"""Decides where a run stops, and asks the user what to do there.

Owns :class:`Debugger`, which a launch takes as ``debug=``.  It gets every instruction before a split executes
it, compares it with breakpoints and with what the last command asked for, and calls the prompt, a script or a
function.  Nothing here changes the machine, except that an event which the user asks for happens.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...core.errors import SpecError
from ...core.records import dataclass
from ...ir import Module
from ..threads.warp import Split, Warp
from .breakpoints import Breakpoint, parse_breakpoint
from .places import Listing, Place
from .prompt import Prompt
from .stop import Stop

if TYPE_CHECKING:
    from .machine import DebuggedMachine

__all__ = ["Debugger", "debugger_of"]


@dataclass
class _Goal:
    """What the last command asked for: ``start``, ``step``, ``next``, ``any``, ``until`` or ``continue``."""

    kind: str
    count: int = 1
    target: Breakpoint | None = None


class Debugger:
    """Steps through a simulated launch.

    Without arguments, a prompt reads commands from the terminal, as pdb does; ``help`` lists them.

    Args:
        commands: commands to execute instead, one at a time; when they are used up, the run goes on to its
            end. ``output`` then has what the commands showed.
        on_stop: a function that is called at each stop with a :class:`Stop`, and returns the command with
            which the run goes on, such as ``"next"``; None continues. It may call ``breakpoint()``.

    Attributes:
        output: for commands, the text that they showed.
        breakpoints: the breakpoints.
    """

    def __init__(
        self,
        commands: Iterable[str] | None = None,
        *,
        on_stop: Callable[[Stop], str | None] | None = None,
    ) -> None:
        if isinstance(commands, str):
            raise SpecError(f"commands is {commands!r}: expected a list of commands")
        if commands is not None and on_stop is not None:
            raise SpecError("commands= and on_stop= exclude each other: give one of them")
        self._script = None if commands is None else list(commands)
        self._on_stop = on_stop
        self.output = ""
        self.breakpoints: list[Breakpoint] = []
        self._numbers = 0
        self._goal = _Goal("start")
        self._warp: Warp | None = None
        #: The lane of this warp that is stepped; None for all of them.
        self._lane: int | None = None
        #: The last instruction of each split, and the one at which the machine stopped last.
        self._last: dict[tuple[int, int], Place] = {}
        self._stopped: Place | None = None
        self._listings: dict[int, tuple[Module, Listing]] = {}
        self._interrupted = False

    # --- the run --------------------------------------------------------------------------------

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Let Ctrl-C stop the run at the next instruction, inside a ``with`` block."""
        interactive = self._script is None and self._on_stop is None
        if not interactive or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, *_: Any) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def preferred(self, ready: Iterable[Split]) -> Split | None:
        """Return the split that should run next: of the warp that the user steps, if it can run."""
        if self._warp is None or self._goal.kind == "continue":
            return None
        return next((s for s in ready if s.warp is self._warp and self._follows(s)), None)

    def reached(self, machine: DebuggedMachine, place: Place) -> None:
        """Called before a split executes an instruction; stops there if that is asked for."""
        why = self._why(place)
        self._last[place.thread] = place
        if why is not None:
            self._stop(machine, place, why)

    def listing(self, place: Place) -> Listing:
        """Return the printed text of the module that a split runs."""
        module = place.split.warp.cta.grid.program.module
        found = self._listings.get(id(module))
        if found is None:
            found = self._listings[id(module)] = module, Listing(module)
        return found[1]

    # --- why to stop ----------------------------------------------------------------------------

    def _why(self, place: Place) -> str | None:
        if self._interrupted:
            self._interrupted = False
            return "interrupted"
        for each in self.breakpoints:
            if self._arrives(each, place):
                try:
                    if not each.holds(place):
                        continue
                except SpecError as error:
                    return f"breakpoint {each.number}, {error.summary}"
                each.hits += 1
                return f"breakpoint {each.number}"
        goal = self._goal
        if goal.kind == "continue":
            return None
        if goal.kind not in ("start", "any"):
            if self._warp is not None and not self._lives():
                return f"warp {self._warp.index} of CTA {self._warp.cta.coordinates} has ended"
            if place.split.warp is not self._warp or not self._follows(place.split):
                return None
        if goal.kind == "until":
            assert goal.target is not None
            return f"until {goal.target.text}" if self._arrives(goal.target, place) else None
        if goal.kind == "next" and not self._on_new_line(place):
            return None
        goal.count -= 1
        return goal.kind if goal.count == 0 else None

    def _follows(self, s: Split) -> bool:
        """True if a split has the lane that is stepped."""
        return self._lane is None or bool(s.mask >> self._lane & 1)

    def _lives(self) -> bool:
        """True if the warp that is stepped, or its lane, has not ended."""
        live = 0 if self._warp is None else self._warp.live
        return bool(live if self._lane is None else live >> self._lane & 1)

    def _arrives(self, point: Breakpoint, place: Place) -> bool:
        """True if the split comes to the line of a breakpoint, and not from the same line."""
        listing = self.listing(place)
        if not point.at(place, listing):
            return False
        before = self._last.get(place.thread)
        return before is None or not point.at(before, listing) or _goes_back(before, place)

    def _on_new_line(self, place: Place) -> bool:
        before = self._stopped
        if before is None or before.source is None or place.source is None:
            return True
        outermost, now = before.source.chain[-1], place.source.chain[-1]
        if (outermost.file, outermost.line) == (now.file, now.line) and not _goes_back(before, place):
            return False
        self._stopped = place
        return True

    # --- at a stop ------------------------------------------------------------------------------

    def _stop(self, machine: DebuggedMachine, place: Place, why: str) -> None:
        if place.split.warp is not self._warp or not self._follows(place.split):
            self._lane = None
        self._warp, self._stopped = place.split.warp, place
        stop = Stop(machine, place, self.listing(place), "step any" if why == "any" else why)
        if self._on_stop is not None:
            answer = self._on_stop(stop)
            self._say(Prompt(self, stop).run(["continue" if answer is None else answer]))
        elif self._script is None:
            Prompt(self, stop).interact()
        else:
            self._say(f"{stop!r}\n")
            self._say(Prompt(self, stop).run(self._script))

    def _say(self, text: str) -> None:
        self.output += text

    def resume(self, kind: str, count: int = 1, target: Breakpoint | None = None) -> None:
        """Say what the run is to do when the prompt ends."""
        self._goal = _Goal(kind, count, target)

    def focus(self, warp: Warp, lane: int | None = None) -> None:
        """Step this warp from now on, or one of its lanes."""
        self._warp, self._lane = warp, lane

    # --- breakpoints ----------------------------------------------------------------------------

    def point(self, text: str, stop: Stop) -> Breakpoint:
        """Return the breakpoint that ``text`` describes, without keeping it. Raises :class:`SpecError`."""
        program = stop.place.split.warp.cta.grid.program
        source = program.function.source
        main = "" if source is None else source.file
        return parse_breakpoint(self._numbers + 1, text, self.listing(stop.place), program.module, main)

    def add_breakpoint(self, text: str, stop: Stop) -> Breakpoint:
        """Stop at a line from now on. Raises :class:`SpecError` if no instruction has the line."""
        made = self.point(text, stop)
        self._numbers += 1
        self.breakpoints.append(made)
        return made

    def delete_breakpoint(self, number: int) -> None:
        """Forget a breakpoint. Raises :class:`SpecError` if there is none with this number."""
        if all(each.number != number for each in self.breakpoints):
            raise SpecError(f"there is no breakpoint {number}")
        self.breakpoints = [each for each in self.breakpoints if each.number != number]


def _goes_back(before: Place, place: Place) -> bool:
    """True if the split has come back to an earlier instruction, as in a loop."""
    return (place.block.index, place.position) <= (before.block.index, before.position)


def debugger_of(given: Any) -> Debugger | None:
    """Return the debugger that an option ``debug=`` means.

    Raises:
        SpecError: it is neither a bool, nor a debugger, nor a list of commands, nor a function.
    """
    if given is None or given is False:
        return None
    if given is True:
        return Debugger()
    if isinstance(given, Debugger):
        return given
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return Debugger(given)
    if callable(given):
        return Debugger(on_stop=given)
    raise SpecError(
        f"debug is {given!r}: expected True, a sim.Debugger, a list of commands, or a function of a stop"
    )
