"""Resources that serve requests one after the other: when each request is served, and how busy they are.

Requests come in the order of their times, but for those of a :class:`GappedServer`.
"""

from __future__ import annotations

import math

__all__ = ["Duty", "GappedServer", "Server", "Share"]


#: Gaps that a server remembers.
_GAPS = 8


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


class GappedServer(Server):
    """A server whose requests come in another order than their times: late ones fill the gaps between others.

    A warp's requests are known when its block of code begins, and they come some cycles later.
    """

    __slots__ = ("_gaps",)

    def __init__(self) -> None:
        super().__init__()
        #: The last times in which it has served nothing, each from a begin to an end, in their order.
        self._gaps: list[tuple[float, float]] = []

    def serve(self, time: float, duration: float) -> float:
        if time >= self.free:
            if time > self.free:
                self._gaps.append((self.free, time))
                del self._gaps[:-_GAPS]
            return super().serve(time, duration)
        for place, (begin, end) in enumerate(self._gaps):
            started = max(begin, time)
            served = started + duration
            if served <= end:
                left = ((begin, started), (served, end))
                self._gaps[place : place + 1] = [each for each in left if each[0] < each[1]]
                self.busy += duration
                return served
        return super().serve(time, duration)


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


class Duty:
    """How busy a resource is: the share of its time, of which work long ago counts less.

    Args:
        memory: how far back work counts, in cycles.
    """

    __slots__ = ("_memory", "_share", "_until")

    def __init__(self, memory: float) -> None:
        self._memory, self._share, self._until = memory, 0.0, 0.0

    def work(self, time: float, duration: float) -> None:
        """Note that it works for ``duration`` from ``time`` on, or behind what was noted last."""
        self._share = self.at(time)
        self._share = 1 - (1 - self._share) * math.exp(-duration / self._memory)
        self._until = max(self._until, time) + duration

    def at(self, time: float) -> float:
        """Return the share at a time; work that is known to follow counts as done."""
        return self._share * math.exp(-max(0.0, time - self._until) / self._memory)
