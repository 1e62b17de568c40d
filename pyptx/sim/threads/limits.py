"""Limits that end a run before its kernel ends, and the progress of a long run."""

from __future__ import annotations

from ...core.records import dataclass

__all__ = ["Limits", "Progress"]


@dataclass(frozen=True)
class Limits:
    """Limits of one run.

    Attributes:
        max_steps: warp-instructions.
        timeout: seconds, or None.
        memory: bytes of the host's memory for the threads of the CTAs that run at once. If more would be
            needed, fewer CTAs run at once. Function calls may increase the use up to twice this number.
        progress_interval: seconds between two calls of a progress function.
    """

    max_steps: int = 1_000_000_000
    timeout: float | None = None
    memory: int = 1 << 30
    progress_interval: float = 1.0


@dataclass(frozen=True)
class Progress:
    """Progress of a run: seconds since it began, warp-instructions, CTAs that have ended, all CTAs.

    Of an exploration, there are no CTAs; ``interleavings`` is the number of those explored, ``left`` the
    number of runs that are known to come.
    """

    seconds: float
    steps: int
    ctas_done: int
    ctas: int
    interleavings: int = 0
    left: int = 0
