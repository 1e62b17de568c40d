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
    long one that came before it, but for the end of its run, and then both get every other slot. The end of
    the long one is known already: what it loses to requests that come later, its warp pays with its next one.
    """

    __slots__ = ("_left", "_run", "_time")

    def __init__(self) -> None:
        super().__init__()
        #: What is left of the requests of each warp at ``_time``, and the longest run.
        self._left: dict[object, float] = {}
        self._time = self._run = 0.0

    def take(self, warp: object, time: float, duration: float, run: float) -> float:
        """Return when a request of a warp that comes at ``time`` has been served for ``duration``."""
        end = self.serve(time, duration)
        self._pass(time)
        own = self._left.pop(warp, 0.0) + duration
        others = self._left.values()
        turns = sum(min(each, own) for each in others) + own
        held = min(max(others, default=0.0), self._run)
        self._run = max(self._run, run) if others else run
        self._left[warp] = own
        return min(end, time + held + turns)

    def _pass(self, time: float) -> None:
        """Serve what is there until ``time``, all warps alike."""
        passed, self._time = time - self._time, max(time, self._time)
        left = self._left
        while left and passed > 0:
            each = min(*left.values(), passed / len(left))
            passed -= each * len(left)
            self._left = left = {warp: rest - each for warp, rest in left.items() if rest > each}


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
