"""When a run ends though its kernel goes on, and what is shown of a long one."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits", "Progress"]


@dataclass(frozen=True)
class Limits:
    """Bounds of one run.

    Attributes:
        max_steps: warp-instructions.
        timeout: seconds, or None.
        memory: bytes of the host's memory that the threads of the CTAs that run at once may take: fewer run
        at
            once where they would take more. Calls may make them take up to twice as much.
        progress_interval: seconds between two calls of a progress function.
    """

    max_steps: int = 1_000_000_000
    timeout: float | None = None
    memory: int = 1 << 30
    progress_interval: float = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a run is: seconds since it began, warp-instructions, CTAs that have ended and all of them."""

    seconds: float
    steps: int
    ctas_done: int
    ctas: int
