"""``schedule="all"``: explores the interleavings that differ in what threads and engines compete for.

Owns the loop over the runs: bounds, progress, the file to resume from, the executor, and the report of all
runs. :mod:`pyptx.sim.exploration` decides which runs there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np

from ...core.errors import SpecError
from ...core.findings import RULES, Finding, Verdict, verdict_of
from ...core.records import dataclass
from ..exploration.token import token_of
from ..exploration.tree import Found, Task, Tree
from ..threads.limits import Progress
from .every_schedule import Contents
from .report import Exploration, Report
from .resume import Saved, load, save

__all__ = ["EXPLORED", "LONG_PASSES", "Explorer", "Ran"]

#: The name that asks for an exploration.
EXPLORED = "all"
#: The bound of an exploration of polling loops whose passes read several things: not every order of the reads
#: and other transitions is explored.
LONG_PASSES = "a loop polls several words"
#: Runs that an executor gets before it has finished others.
_AHEAD = 32
#: Seconds between two calls of a progress function, and between two writes of the file to resume from.
_SHOWN, _SAVED = 1.0, 30.0


@dataclass(frozen=True)
class Ran:
    """The outcome of one run.

    Attributes:
        found: what it has shown about the tree.
        reports: a report for each launch; empty if the run was abandoned since it repeats others.
        digests: a digest of the contents of each buffer.
        choices: what leads to this run again.
        timed_out: True if the run ended because the time of the exploration was over.
    """

    found: Found
    reports: tuple[Report, ...] = ()
    digests: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    timed_out: bool = False


class RunTask(Protocol):
    """A function that does one run, in this process, on the arrays of ``contents``."""

    def __call__(self, task: Task, timeout: float | None, contents: Contents) -> Ran: ...


@dataclass
class Explorer:
    """One exploration.

    Attributes:
        run: does one run.
        pack: returns a function and arguments with which an executor does a run elsewhere.
        fingerprint: a digest of the launches, by which a file to resume from is known.
        weak_reads: whether the runs have weak reads.
        max_runs: number of runs after which the exploration ends.
        timeout: seconds after which it ends, or None.
        executor: does the runs, if given.
        resume: path of the file to resume from, if given.
        progress: called about once a second.
    """

    run: RunTask
    pack: Callable[[Task, float | None], tuple[Any, ...]]
    fingerprint: str
    weak_reads: bool
    max_runs: int
    timeout: float | None = None
    executor: Executor | None = None
    resume: str | None = None
    progress: Callable[[Progress], None] | None = None

    tree: Tree = field(default_factory=Tree)
    saved: Saved = field(default_factory=Saved)
    _contents: Contents = field(default_factory=Contents)
    _bound: str = ""
    #: Reports of the first run, which later ones are merged into.
    _first: tuple[Report, ...] = ()

    def explore(self) -> list[Report]:
        """Explore until the end or a bound; return a report for each launch."""
        self._began = self._shown = self._wrote = time.monotonic()
        if self.resume is not None:
            self.tree, self.saved = load(self.resume, self.fingerprint) or (self.tree, self.saved)
        before = self.saved.runs
        for task, ran in self._ran():
            self._absorb(task, ran)
            self._show()
            if self.saved.runs - before >= self.max_runs and not self._complete():
                self._bound = f"max_runs={self.max_runs}"
                break
        if self.resume is not None:
            save(self.resume, self.fingerprint, self.tree, self.saved)
        return self._report()

    # --- runs -----------------------------------------------------------------------------------

    def _ran(self) -> Iterator[tuple[Task, Ran]]:
        """Yield the tasks with their runs, until nothing is left or the time is over."""
        if self.executor is not None:
            yield from self._ran_elsewhere(self.executor)
            return
        while (task := self.tree.next_task()) is not None:
            left = self._left()
            # The first run begins in any case, so that there is a report.
            over = left is not None and left <= 0 and self.saved.runs > 0
            ran = None if over else self.run(task, left, self._contents)
            if ran is None or ran.timed_out:
                self._time_is_over([task])
            if ran is not None and not (ran.timed_out and self.saved.runs):
                yield task, ran
            if ran is None or ran.timed_out:
                return

    def _ran_elsewhere(self, executor: Executor) -> Iterator[tuple[Task, Ran]]:
        futures: dict[Future[Ran], Task] = {}
        try:
            while True:
                left = self._left()
                if left is not None and left <= 0 and self.saved.runs:
                    self._time_is_over(list(futures.values()))
                    return
                while len(futures) < _AHEAD and (task := self.tree.next_task()) is not None:
                    futures[executor.submit(*self.pack(task, left))] = task
                if not futures:
                    return
                finished, _ = wait(futures, timeout=_SHOWN, return_when=FIRST_COMPLETED)
                self._show()
                for future in finished:
                    task, ran = futures.pop(future), future.result()
                    if ran.timed_out:
                        self._time_is_over([task, *futures.values()])
                    if not (ran.timed_out and self.saved.runs):
                        yield task, ran
                    if ran.timed_out:
                        return
        finally:
            for future, task in futures.items():
                future.cancel()
                self.tree.give_back(task)

    def _left(self) -> float | None:
        """Return the seconds that are left, or None if there is no limit."""
        if self.timeout is None:
            return None
        return round(self.timeout - (time.monotonic() - self._began), 3)

    def _time_is_over(self, tasks: Sequence[Task]) -> None:
        self._bound = f"timeout={self.timeout} s"
        for task in tasks:
            self.tree.give_back(task)

    def _complete(self) -> bool:
        return self.tree.finished and not self._bound

    # --- what the runs have shown -----------------------------------------------------------------

    def _absorb(self, task: Task, ran: Ran) -> None:
        saved = self.saved
        saved.runs += 1
        if ran.reports:
            self._merge(ran)
        if ran.timed_out:
            return
        contended = self.tree.contended
        if self.tree.absorb(task, ran.found):
            saved.interleavings += bool(ran.reports)
        elif contended != self.tree.contended:
            saved.interleavings = 0

    def _merge(self, ran: Ran) -> None:
        saved = self.saved
        token = token_of(ran.choices)
        if not saved.findings:
            saved.findings = [{} for _ in ran.reports]
            saved.first = list(ran.choices)
        if not self._first:
            self._first = ran.reports
        saved.steps += sum(report.steps for report in ran.reports)
        saved.events += sum(report.events for report in ran.reports)
        found = [finding for report in ran.reports for finding in report.findings]
        if verdict_of(found) in (Verdict.ERROR, Verdict.INCOMPLETE):
            saved.failed += 1
            saved.failing = saved.failing or token
        else:
            saved.outcomes.setdefault(ran.digests, list(ran.choices))
        for known, report in zip(saved.findings, ran.reports, strict=True):
            for finding in report.findings:
                what = finding.message if finding.location is None else ""
                key = (finding.rule.name, str(finding.location), what)
                known.setdefault(key, replace(finding, schedules=(token,)))

    def _show(self) -> None:
        now = time.monotonic()
        if self.progress is not None and now - self._shown >= _SHOWN:
            self._shown = now
            saved = self.saved
            left = sum(len(node.pending) for node in self.tree.nodes.values())
            self.progress(
                Progress(now - self._began, saved.steps, 0, 0, interleavings=saved.interleavings, left=left)
            )
        if self.resume is not None and now - self._wrote >= _SAVED:
            save(self.resume, self.fingerprint, self.tree, self.saved)
            self._wrote = time.monotonic()

    # --- the report -------------------------------------------------------------------------------

    def _report(self) -> list[Report]:
        saved = self.saved
        dependent = self._differences()
        # The arrays hold what the first interleaving leaves.
        first = self._again(tuple(saved.first))
        if not self._first:
            self._first = first.reports
        seconds = time.monotonic() - self._began
        if not self._bound and self.tree.long_passes:
            self._bound = LONG_PASSES
        exploration = Exploration(
            saved.interleavings,
            saved.runs,
            not self._bound and self.tree.finished,
            self._bound,
            tuple(token_of(choices) for choices in saved.outcomes.values()),
            saved.failed,
            saved.failing,
            self.weak_reads,
        )
        reports = [
            replace(
                report,
                schedule=EXPLORED,
                findings=list(known.values()),
                steps=saved.steps if number == 0 else 0,
                events=saved.events if number == 0 else 0,
                seconds=seconds if number == 0 else 0.0,
                exploration=exploration,
            )
            for number, (report, known) in enumerate(zip(self._first, saved.findings, strict=True))
        ]
        reports[-1].findings += dependent
        return reports

    def _again(self, choices: tuple[str, ...]) -> Ran:
        ran = self.run(Task(choices), None, self._contents)
        if not ran.reports:
            raise SpecError(
                "an interleaving that was explored cannot be repeated", hint="does the kernel read a clock?"
            )
        return ran

    def _differences(self) -> list[Finding]:
        """Return a finding for each buffer whose contents differ between interleavings."""
        outcomes = list(self.saved.outcomes.items())
        if len(outcomes) < 2:
            return []
        self._again(tuple(outcomes[0][1]))
        contents = self._contents.contents()
        findings: list[Finding] = []
        seen: set[int] = set()
        for digests, choices in outcomes[1:]:
            new = [n for n, digest in enumerate(digests) if digest != outcomes[0][0][n] and n not in seen]
            if not new:
                continue
            seen |= set(new)
            self._again(tuple(choices))
            for number in new:
                buffer = self._contents.buffers[number]
                size = buffer.element_bytes
                index = int(np.flatnonzero(buffer.data != contents[number])[0]) // size
                here = slice(index * size, (index + 1) * size)
                values = [_hex(data[here]) for data in (contents[number], buffer.data)]
                count = len({each[number] for each, _ in outcomes})
                tokens = (token_of(outcomes[0][1]), token_of(choices))
                findings.append(
                    Finding(
                        RULES["schedule-dependent"],
                        f"{buffer.name}: {count} different results; the first two differ at index {index}: "
                        f"the bytes there are {values[0]} and {values[1]}",
                        schedules=tokens,
                    )
                )
        return findings


def _hex(data: Any) -> str:
    """Return the bytes of an element as one hexadecimal number, as on a little-endian machine."""
    return "0x" + bytes(data)[::-1].hex()
