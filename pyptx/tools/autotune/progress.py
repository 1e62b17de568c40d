"""What a tuning shows while it runs: a bar on a terminal, and messages of the logger ``pyptx.autotune``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ...core.logs import logger
from .candidates import Candidate

__all__ = ["Progress", "progress"]


class Progress(Protocol):
    """Is told of the stages of a tuning and of every candidate."""

    def stage(self, what: str, count: int) -> None:
        """A stage begins that looks at ``count`` candidates."""

    def step(self, candidate: Candidate) -> None:
        """A candidate was looked at; its state says how it ended."""


class _Logged:
    def __init__(self, name: str) -> None:
        self._name = name

    def stage(self, what: str, count: int) -> None:
        logger("autotune").info("%s: %s, %d candidates", self._name, what, count)

    def step(self, candidate: Candidate) -> None:
        if not candidate.ready:
            logger("autotune").info(
                "%s: %s: %s: %s", self._name, candidate, candidate.state.value, candidate.reason
            )


class _Line(_Logged):
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
        yield _Logged(name)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        yield _Line(name, bar)
