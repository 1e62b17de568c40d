"""What a tuning shows while it runs: a bar on a terminal, and messages of the logger ``pyptx.autotune``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...core.logs import logger
from .candidates import Candidate

__all__ = ["Progress", "progress"]


class Progress:
    """Is told of the stages of a tuning and of every candidate; keeps how long each stage took.

    Attributes:
        seconds: of each stage that has ended, by its name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage = ""
        self._began = self._since = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since the tuning began."""
        return time.perf_counter() - self._began

    def stage(self, what: str, count: int) -> None:
        """A stage begins that looks at ``count`` candidates; an earlier one ends."""
        self.end()
        self._stage = what
        logger("autotune").info("%s: %s, %d candidates", self._name, what, count)

    def step(self, candidate: Candidate) -> None:
        """A candidate was looked at; its state says how it ended."""
        if not candidate.ready:
            logger("autotune").info(
                "%s: %s: %s: %s", self._name, candidate, candidate.state.value, candidate.reason
            )

    def end(self) -> None:
        """The last stage ends."""
        now = time.perf_counter()
        if self._stage:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = "", now


class _Line(Progress):
    """A bar of rich, which disappears at the end."""

    def __init__(self, name: str, bar: object) -> None:
        super().__init__(name)
        from rich.progress import Progress as Bar

        assert isinstance(bar, Bar)
        self._bar = bar
        self._task = bar.add_task(name, total=None)

    def stage(self, what: str, count: int) -> None:
        super().stage(what, count)
        self._bar.update(self._task, description=f"{self._name}: {what}", total=count, completed=0)

    def step(self, candidate: Candidate) -> None:
        super().step(candidate)
        self._bar.advance(self._task)
        if not candidate.ready and candidate.reason:
            self._bar.console.print(
                f"  {candidate}: {candidate.state.value}: {candidate.reason}",
                style="dim",
                markup=False,
                highlight=False,
            )


@contextmanager
def progress(name: str) -> Iterator[Progress]:
    """Show the progress of the tuning of ``name`` while the block runs."""
    if not sys.stderr.isatty():
        yield Progress(name)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        yield _Line(name, bar)
