"""Waits that may give up, once nothing else can happen: a kernel may count its tries, or the time, and do
something else after so many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..threads.warp import Split
    from .machine import Machine

__all__ = ["Retries"]

#: Warp-instructions in which threads that can only retry their waits may come to another end.
_MOST_STEPS = 1 << 18
#: Nanoseconds that the first of such retries takes: each takes twice as long, up to a second.
_SUSPENDED, _LONGEST_SUSPENDED = 1 << 10, 1 << 30


class Retries:
    """The part of a machine that lets ``try_wait`` answer "not yet" where otherwise nothing happens."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        #: State of the memory at the last time-out, steps since it was reached, time that the next one takes.
        self._version = -1
        self._since = self._suspended = 0
        #: Registers of the splits whose waits have timed out in this state.
        self._tried: dict[tuple[int, int, int], Any] = {}

    def time_out(self, *, again: bool = False) -> bool:
        """Nothing else can happen: waits that may give up answer "not yet", once per state of the world.

        ``again``: once more, where a thread's registers show that it counts its retries or reads the clock,
        so that it may come to another end. Who comes back with the registers that it had waits for good.
        """
        machine = self.machine
        if self._version != machine.memory.version:
            self._version, self._since, self._suspended = machine.memory.version, machine.steps, _SUSPENDED
            self._tried.clear()
        elif not again or machine.steps - self._since > _MOST_STEPS:
            return False
        giving_up = [
            (s, wait) for s, wait in machine.parked.items() if wait.can_time_out and self._differs(s)
        ]
        if giving_up and again:
            # The threads were suspended for a while, which a clock shows.
            machine.sleep(self._suspended)
            self._suspended = min(2 * self._suspended, _LONGEST_SUSPENDED)
        for s, wait in giving_up:
            machine.unpark(s)
            s.warp.given_up = wait, s.location
            wait.time_out()
            machine.wake(s)
        return bool(giving_up)

    def _differs(self, s: Split) -> bool:
        """Whether a split has other registers than when its wait last timed out here, or it is the first
        time.
        """
        key = (id(s.warp), s.mask, s.pc)
        registers = s.snapshot()
        same: bool = self._tried.get(key) == registers
        self._tried[key] = registers
        return not same
