"""The specializations of one kernel that are kept, and the recordings behind them.

Owns :class:`Specializations`, which records the kernel function when no recording serves a call.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any

from ..core.errors import SpecError
from ..core.logs import logger
from ..runtime.workspaces import WorkspaceMemory
from .constants import exact_items
from .specialize import (
    KernelOptions,
    Recorded,
    Specialization,
    WorkspaceSizes,
    record_for,
    specialize,
)

__all__ = ["Specializations"]

_log = logger("recording")

#: Largest numbers that a kernel keeps. The ones that were made first go, with the modules that they loaded.
_MOST_SPECIALIZATIONS, _MOST_RECORDINGS = 1024, 256


class Specializations:
    """The specializations of one kernel, by dims and constants.

    Args:
        options: the kernel's options.
        function: the kernel function.
    """

    def __init__(self, options: KernelOptions, function: Callable[..., None]) -> None:
        self._options = options
        self._function = function
        #: Defaults of the constants; ``Parameter.empty`` for one without.
        self.defaults = {
            parameter.name: parameter.default
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        self._memory = WorkspaceMemory()
        self._sizes = WorkspaceSizes(options, (*options.dims, *self.defaults)) if options.workspaces else None
        self._lock = RLock()
        #: How often the function was recorded.
        self.made = 0
        self._kept: dict[Any, Specialization] = {}
        #: Recordings by the constants, and in the order in which they were made.
        self._recordings: dict[Any, list[Recorded]] = {}
        self._order: deque[tuple[Any, Recorded]] = deque()

    def recorded(self) -> list[Recorded]:
        """Return the recordings that are kept, the oldest first."""
        return [recorded for _, recorded in self._order]

    def kept(self) -> tuple[Specialization, ...]:
        """Return the specializations that are kept, the oldest first."""
        return tuple(self._kept.values())

    def __len__(self) -> int:
        """Number of specializations that are kept."""
        return len(self._kept)

    def __call__(self, dims: dict[str, int], constants: Mapping[str, Any]) -> Specialization:
        """Return the specialization for these dims and constants, recorded if none is kept.

        Raises:
            SpecError: a constant has no value, or is not hashable.
            PyptxError: the kernel function makes a mistake.
        """
        values: dict[str, Any] = {}
        for name, default in self.defaults.items():
            if name in dims:
                values[name] = dims[name]
            elif name in constants:
                values[name] = constants[name]
            elif default is inspect.Parameter.empty:
                raise SpecError(f"{self._options.entry}: the constant {name!r} has no value and no default")
            else:
                values[name] = default
        if self._sizes is not None and all(dim in dims for dim in self._options.dims):
            dims = {**dims, **self._sizes({**dims, **values})}
        try:
            key = (exact_items(sorted(dims.items())), exact_items(values.items()))
            found = self._kept.get(key)
        except TypeError:
            wrong = {name: value for name, value in values.items() if not _hashable(value)}
            raise SpecError(
                f"{self._options.entry}: constants must be hashable, got {wrong!r}",
                hint="pass tuples instead of lists, numbers instead of arrays",
            ) from None
        if found is None:
            with self._lock:  # one thread records for all
                found = self._kept.get(key) or self._make(key, dims, values)
        return found

    def _make(self, key: Any, dims: dict[str, int], values: dict[str, Any]) -> Specialization:
        recordings = self._recordings.get(key[1], [])
        # A recording serves all dims that differ in what it has not read.
        recorded = next((each for each in recordings if each.serves(dims)), None)
        if recorded is None:
            begin = time.perf_counter()
            recorded = record_for(self._options, self._function, dims, values, self._sizes)
            self.made += 1
            taken = 1e3 * (time.perf_counter() - begin)
            _log.info("recorded %s for %s in %.1f ms", recorded.entry, {**dims, **values}, taken)
        else:
            _log.debug("a recording of %s serves %s too", recorded.entry, dims)
        found = specialize(self._options, recorded, dims, self._memory, recordings)
        if recorded not in recordings:
            recordings.append(recorded)
            self._recordings[key[1]] = recordings
            self._order.append((key[1], recorded))
        while len(self._order) > _MOST_RECORDINGS:
            self._drop(*self._order.popleft())
        while len(self._kept) >= _MOST_SPECIALIZATIONS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = found
        return found

    def _drop(self, constants: Any, recorded: Recorded) -> None:
        recordings = self._recordings[constants]
        recordings.remove(recorded)
        if not recordings:
            del self._recordings[constants]
        for key in [key for key, special in self._kept.items() if special.recorded is recorded]:
            del self._kept[key]


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
