"""Lets waits time out when nothing else can happen.

A kernel may count its tries of a wait, or measure the time, and then do something else than wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..threads.warp import Split
    from .machine import Machine

__all__ = ["Retries"]

#: The largest number of warp-instructions of threads that only retry their waits. With more, the run counts
#: as stuck.
_MOST_STEPS = 1 << 18
#: Nanoseconds that the first such retry takes. Each further retry takes twice as long, up to about a second.
_SUSPENDED, _LONGEST_SUSPENDED = 1 << 10, 1 << 30


class Retries:
    """The part of a machine that lets ``try_wait`` answer "not yet" when nothing else can happen."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        #: Version of the memory at the last time-out, steps at that moment, and duration of the next
        #: time-out.
        self._version = -1
        self._since = self._suspended = 0
        #: Registers of the splits whose waits have timed out at this version of the memory.
        self._tried: dict[tuple[int, int, int], Any] = {}

    def time_out(self, *, again: bool = False) -> bool:
        """End waits that may time out: they answer "not yet", once for each version of the memory.

        With ``again``, a wait times out repeatedly as long as the thread's registers differ from those at its
        last time-out: such a thread counts its retries or reads the clock, and may take another path. A
        thread that comes back with the same registers waits forever. Returns True if any wait timed out.
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
            # The threads were suspended for some time, and the clock must advance by it.
            machine.sleep(self._suspended)
            self._suspended = min(2 * self._suspended, _LONGEST_SUSPENDED)
        for s, wait in giving_up:
            machine.unpark(s)
            s.warp.given_up = wait, s.location
            wait.time_out()
            machine.wake(s)
        return bool(giving_up)

    def _differs(self, s: Split) -> bool:
        """True if the split's registers changed since its last time-out at this place, or it had none."""
        key = (id(s.warp), s.mask, s.pc)
        registers = s.snapshot()
        same: bool = self._tried.get(key) == registers
        self._tried[key] = registers
        return not same
