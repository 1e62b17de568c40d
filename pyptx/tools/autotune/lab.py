"""The user's side of a measurement: one worker process for each GPU, started anew after it was lost.

Owns :class:`WorkerProcess`, which asks with a deadline, and :class:`Lab`, which measures candidates through
it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ...core.errors import LaunchError
from .candidates import Candidate, State
from .jobs import Inputs, description

__all__ = ["COMMAND", "Lab", "Mishap", "Place", "WorkerProcess", "place_of", "worker_for"]

#: The program of a worker.
COMMAND = (sys.executable, "-m", "pyptx.tools.autotune.worker")
#: Seconds for a worker's start with its context, and for the loading of a kernel with its arrays.
_START, _LOAD = 120.0, 120.0


class Mishap(Exception):
    """A candidate could not be measured: the state that it gets, and why."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class Place(Protocol):
    """Where candidates are measured. Both methods raise :class:`Mishap`.

    Attributes:
        gpu: the GPU's name.
        driver: version of the driver.
        restarts: how often the worker was started again.
    """

    gpu: str
    driver: str
    restarts: int

    def first(self, candidate: Candidate) -> tuple[float, int]:
        """Launch once. Return the microseconds and the number of the group with the same outputs."""

    def time(self, candidate: Candidate, launches: int) -> float:
        """Launch several times back to back. Return the microseconds of one launch."""

    def close(self) -> None:
        """The tuning has ended."""


class _Lost(Exception):
    """The worker has not answered in time, or has ended."""

    def __init__(self, ended: bool, said: str) -> None:
        super().__init__(said)
        self.ended, self.said = ended, said


class WorkerProcess:
    """A process that answers requests, lines of JSON both.

    Args:
        command: the program.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (read when the process is lost)
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self._read = b""
        #: What the process has been told, which a new one must be told again.
        self.told: set[Any] = set()

    @property
    def running(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def ask(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send a request and return the answer. Ends the process, and raises, if none comes in time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._lost(ended=True) from None
        until = time.monotonic() + deadline
        while b"\n" not in self._read:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise self._lost(ended=False)
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise self._lost(ended=True)
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _lost(self, *, ended: bool) -> _Lost:
        self.end()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        status = self._process.returncode
        said = lines[-1] if lines else f"exit status {status}" if ended else ""
        return _Lost(ended, said)

    def end(self) -> None:
        """End the process at once, also while a kernel of it runs."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


_workers: dict[int, WorkerProcess] = {}
# The child of a fork has the pipes of its parent's workers, which it must not use.
os.register_at_fork(after_in_child=_workers.clear)


@atexit.register
def _end_all() -> None:
    for worker in _workers.values():
        worker.end()
    _workers.clear()


def worker_for(device_index: int) -> WorkerProcess:
    """Return the worker of a GPU; start one if there is none, or if it has ended."""
    worker = _workers.get(device_index)
    if worker is None or not worker.running:
        worker = _workers[device_index] = WorkerProcess(COMMAND)
    return worker


class Lab:
    """Measures candidates on a GPU, in the worker process of that GPU.

    Args:
        device_index: the GPU.
        inputs: the inputs of the tuning.
        folder: where texts, contents and outputs are kept for the worker.
        deadline: seconds that a request may take on the GPU; after that the kernel is taken to hang.

    Raises:
        LaunchError: the worker cannot use the GPU.
    """

    def __init__(self, device_index: int, inputs: Inputs, folder: Path, deadline: float) -> None:
        self._device, self._inputs, self._folder, self._deadline = device_index, inputs, folder, deadline
        self.restarts = -1
        worker = self._worker()
        self.gpu: str = self._facts["gpu"]
        self.driver: str = self._facts["driver"]
        self.multiprocessors: int = self._facts["multiprocessors"]
        del worker

    def _worker(self) -> WorkerProcess:
        """Return the worker, after it has opened the GPU for this tuning."""
        worker = worker_for(self._device)
        opened = ("open", str(self._folder))
        if opened not in worker.told:
            self.restarts += 1
            request = {"do": "open", "device": self._device, "folder": str(self._folder)}
            try:
                answer = worker.ask(request, _START)
            except _Lost as lost:
                raise LaunchError(
                    f"the process that measures for autotune has not started: {lost.said or 'no answer'}"
                ) from None
            if "failed" in answer:
                worker.end()
                raise LaunchError(f"autotune cannot use GPU {self._device}: {answer['failed']}")
            worker.told = {opened}
            self._facts = answer
        return worker

    def _ask(self, candidate: Candidate, request: dict[str, Any]) -> dict[str, Any]:
        worker = self._worker()
        if candidate.number not in worker.told:
            kernel = description(candidate, self._inputs, self._folder)
            self._sent(worker, {"do": "load", "number": candidate.number, "kernel": kernel}, _LOAD)
            worker.told.add(candidate.number)
        return self._sent(worker, {**request, "number": candidate.number}, self._deadline)

    def _sent(self, worker: WorkerProcess, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        try:
            answer = worker.ask(request, deadline)
        except KeyboardInterrupt:
            worker.end()
            raise
        except _Lost as lost:
            if lost.ended:
                raise Mishap(State.CRASHED, f"the process that measures ended: {lost.said}") from None
            raise Mishap(
                State.HUNG, f"no end within {deadline:g} s: it hangs, or is far slower than a kernel may be"
            ) from None
        if "failed" in answer:
            if not answer["alive"]:
                worker.end()
            raise Mishap(State.FAILED, answer["failed"])
        return answer

    def first(self, candidate: Candidate) -> tuple[float, int]:
        answer = self._ask(candidate, {"do": "first"})
        return answer["us"], answer["group"]

    def time(self, candidate: Candidate, launches: int) -> float:
        us: float = self._ask(candidate, {"do": "time", "launches": launches})["us"]
        return us

    def close(self) -> None:
        """Free the GPU's memory. The worker stays, for the next tuning."""
        worker = _workers.get(self._device)
        if worker is None or not worker.running:
            return
        try:
            answer = worker.ask({"do": "close"}, _LOAD)
        except _Lost:
            return
        worker.told.clear()
        if "failed" in answer:
            worker.end()


def place_of(device_index: int, inputs: Inputs, folder: Path, deadline: float) -> Place:
    """Return the place that measures on a GPU. Raises :class:`LaunchError` if it cannot be used."""
    return Lab(device_index, inputs, folder, deadline)
