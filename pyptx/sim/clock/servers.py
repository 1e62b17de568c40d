"""Resources that serve requests one after the other: when each request is served.

Requests come in the order of their times.
"""

from __future__ import annotations

__all__ = ["Server", "Share", "Slots"]


class Server:
    """A pipe, port or link that serves one request after the other.

    Attributes:
        free: when it has served all requests.
        busy: how long it has served in all.
    """

    __slots__ = ("busy", "free")

    def __init__(self) -> None:
        self.free = self.busy = 0.0

    def serve(self, time: float, duration: float) -> float:
        """Return when a request that comes at ``time`` has been served for ``duration``."""
        self.busy += duration
        self.free = max(self.free, time) + duration
        return self.free


class Slots(Server):
    """A scheduler, or a pipe behind it: requests of several warps that are there together take turns.

    A warp gives way behind every so many slots (``run``). So a short request does not wait for the end of a
    long one that came before it, but for the end of its run, and then gets every other slot. The time of the
    long request is known already, and what it loses to the short one is not added.
    """

    __slots__ = ("_run",)

    def __init__(self) -> None:
        super().__init__()
        self._run = 0.0

    def take(self, time: float, duration: float, run: float) -> float:
        """Return when a request that comes at ``time`` has been served for ``duration``."""
        left = self.free - time
        if left <= 0:
            self._run = run
            return self.serve(time, duration)
        turns = time + min(left, self._run) + 2 * duration
        self._run = max(self._run, run)
        return min(self.serve(time, duration), turns)


class Share:
    """One multiprocessor's share of a bandwidth that all have together.

    What a multiprocessor does not use, the others get, and it gets as much from them at other times: so it
    may save up its share for ``credit`` cycles, from ``start`` on.
    """

    __slots__ = ("_credit", "_free", "busy", "rate")

    def __init__(self, rate: float, credit: float, start: float = 0.0) -> None:
        self.rate, self._credit = rate, credit
        self._free = start
        self.busy = 0.0

    @property
    def free(self) -> float:
        """When it has served all requests at the rate of the share."""
        return self._free

    def serve(self, time: float, amount: float) -> float:
        """Return when ``amount`` that is requested at ``time`` has been served."""
        duration = amount / self.rate
        self.busy += duration
        self._free = max(self._free, time - self._credit) + duration
        return max(self._free, time)
