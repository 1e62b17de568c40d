"""A recorder of the machine's event stream: it holds tables in memory and saves them to one ``.npz`` file.

Owns :class:`Recorder` and the layout of its tables. Every event has an ``order``, its number in the stream.
Texts are stored as indices into the table ``strings``. The pieces and the threads of all accesses lie one
after the other in ``starts`` and ``threads``; a row stores the index of its first entry and the count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.source import SourceLocation
from ..engine.events import AsyncOperation, Step
from ..engine.stream import Fence, Life, Observer, Sync
from ..memory.access import Access

__all__ = ["Recorder", "read_recording"]

_TEXT = "i4"
#: The columns of each table.
TABLES: dict[str, list[tuple[str, str]]] = {
    "access": [
        ("order", "i8"),
        ("kind", _TEXT),
        ("space", _TEXT),
        ("segment", "i8"),
        ("operation", "i8"),
        ("launch", "i4"),
        ("cta", "i4"),
        ("size", "i8"),
        ("first", "i8"),
        ("count", "i8"),
        ("first_thread", "i8"),
        ("proxy", _TEXT),
        ("semantics", _TEXT),
        ("scope", _TEXT),
        ("line", _TEXT),
    ],
    "issue": [
        ("order", "i8"),
        ("operation", "i8"),
        ("name", _TEXT),
        ("engine", _TEXT),
        ("launch", "i4"),
        ("cta", "i4"),
        ("first_thread", "i8"),
        ("count", "i8"),
        ("line", _TEXT),
    ],
    "step": [("serial", "i8"), ("operation", "i8"), ("kind", _TEXT), ("nbytes", "i8"), ("part_of", "i8")],
    "edge": [("before", "i8"), ("after", "i8")],
    "happens": [("order", "i8"), ("serial", "i8")],
    "sync": [
        ("order", "i8"),
        ("kind", _TEXT),
        ("object", _TEXT),
        ("phase", "i8"),
        ("launch", "i4"),
        ("cta", "i4"),
        ("first_thread", "i8"),
        ("count", "i8"),
        ("semantics", _TEXT),
        ("scope", _TEXT),
        ("amount", "i8"),
        ("line", _TEXT),
    ],
    "fence": [
        ("order", "i8"),
        ("name", _TEXT),
        ("launch", "i4"),
        ("cta", "i4"),
        ("first_thread", "i8"),
        ("count", "i8"),
        ("line", _TEXT),
    ],
    "life": [("order", "i8"), ("what", _TEXT), ("end", "?"), ("key", _TEXT), ("size", "i8"), ("name", _TEXT)],
}


class Recorder(Observer):
    """Keeps every event of the runs that it observes.

    ``sim.load(text).launch(..., observers=[recorder])`` fills it. :meth:`tables` returns the recorded events,
    :meth:`save` writes them to a file. A recorder takes some 100 bytes for each event, and 8 bytes for each
    thread of an access.
    """

    def __init__(self) -> None:
        self._order = 0
        self._strings: dict[str, int] = {}
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self._starts: list[NDArray[np.int64]] = []
        self._threads: list[NDArray[np.int64]] = []
        self._start_count = self._thread_count = 0
        #: Number of each operation, by its ``id``. The operation is kept alive so that no other one gets the
        #: same ``id``.
        self._operations: dict[int, tuple[int, AsyncOperation]] = {}

    # --- events ---------------------------------------------------------------------------------

    def access(self, access: Access) -> None:
        actor = access.actor
        operation = self._operation(actor) if isinstance(actor, AsyncOperation) else -1
        launch, cta = actor.cta_key
        first, count = self._start_count, len(access.footprint.starts)
        self._starts.append(np.array(access.footprint.starts, np.int64))
        self._start_count += count
        thread = -1 if access.threads is None else self._keep_threads(access.threads)
        self._add(
            "access",
            self._next(),
            self._text(access.kind.value),
            self._text(access.space.value),
            access.segment.base,
            operation,
            launch,
            cta,
            access.footprint.size,
            first,
            count,
            thread,
            self._text(access.proxy.value),
            self._text(access.semantics.value),
            self._text(access.scope.value),
            self._line(actor.location),
        )

    def issue(self, operation: AsyncOperation, steps: Sequence[Step]) -> None:
        number = self._operation(operation)
        launch, cta = operation.cta_key
        threads = operation.issuing_threads()
        self._add(
            "issue",
            self._next(),
            number,
            self._text(operation.name),
            self._text(operation.engine.value),
            launch,
            cta,
            self._keep_threads(threads),
            len(threads),
            self._line(operation.location),
        )
        for step in steps:
            self._add(
                "step", step.serial, number, self._text(step.kind.value), step.nbytes or 0, step.part_of
            )
            for before in step.edges:
                self._add("edge", before, step.serial)

    def happens(self, step: Step) -> None:
        self._add("happens", self._next(), step.serial)

    def sync(self, sync: Sync) -> None:
        self._add(
            "sync",
            self._next(),
            self._text(sync.kind.value),
            self._text(repr(sync.object)),
            sync.phase,
            *sync.cta,
            self._keep_threads(sync.threads),
            len(sync.threads),
            self._text(sync.semantics.value),
            self._text(sync.scope.value),
            sync.amount,
            self._line(sync.location),
        )

    def fence(self, fence: Fence) -> None:
        self._add(
            "fence",
            self._next(),
            self._text(fence.name),
            *fence.cta,
            self._keep_threads(fence.threads),
            len(fence.threads),
            self._line(fence.location),
        )

    def begin(self, life: Life) -> None:
        self._life(life, ended=False)

    def end(self, life: Life) -> None:
        self._life(life, ended=True)

    # --- what was recorded ------------------------------------------------------------------------

    def tables(self) -> dict[str, NDArray[Any]]:
        """Return the tables by name: those of :data:`TABLES`, ``strings``, ``starts`` and ``threads``."""
        found: dict[str, NDArray[Any]] = {
            name: np.array(self._rows[name], np.dtype(columns)) for name, columns in TABLES.items()
        }
        found["strings"] = np.array(list(self._strings), np.str_)
        empty = [np.zeros(0, np.int64)]
        found["starts"] = np.concatenate(self._starts or empty)
        found["threads"] = np.concatenate(self._threads or empty)
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tables to one compressed ``.npz`` file, which :func:`read_recording` reads."""
        np.savez_compressed(path, allow_pickle=False, **self.tables())

    def digest(self) -> str:
        """Return a SHA-256 of all tables, in hexadecimal. Equal streams have equal digests."""
        found = hashlib.sha256()
        for name, table in self.tables().items():
            found.update(name.encode())
            found.update(table.tobytes())
        return found.hexdigest()

    # --- rows -------------------------------------------------------------------------------------

    def _life(self, life: Life, *, ended: bool) -> None:
        key, name = self._text(repr(life.key)), self._text(life.name)
        self._add("life", self._next(), self._text(life.kind.value), ended, key, life.size, name)

    def _add(self, table: str, *row: Any) -> None:
        self._rows[table].append(row)

    def _next(self) -> int:
        self._order += 1
        return self._order - 1

    def _text(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _line(self, location: SourceLocation | None) -> int:
        return self._text("" if location is None else str(location))

    def _keep_threads(self, threads: NDArray[np.int64]) -> int:
        first = self._thread_count
        self._threads.append(np.array(threads, np.int64))
        self._thread_count += len(threads)
        return first

    def _operation(self, operation: AsyncOperation) -> int:
        number, _ = self._operations.setdefault(id(operation), (len(self._operations), operation))
        return number


def read_recording(path: str | PathLike[str]) -> Mapping[str, NDArray[Any]]:
    """Return the tables that :meth:`Recorder.save` wrote."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}
