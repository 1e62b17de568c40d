"""The candidates of a tuning: one kernel for each configuration, and what became of it.

Owns :class:`Candidate` and the recording of all candidates for the arguments of a call.
"""

from __future__ import annotations

import enum
import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ...core.errors import PyptxError
from ...core.records import dataclass
from ...entry import Kernel, Specialization
from ...toolchain import Assembly
from .space import Configuration, written

__all__ = ["Candidate", "Make", "State", "record"]

#: Returns the kernel of a configuration, with the constants that a call of it needs.
Make = Callable[[Configuration], tuple[Kernel, dict[str, Any]]]


class State(enum.Enum):
    """What became of a candidate."""

    READY = "ready"
    REFUSED = "refused"
    SAME = "same"
    TOO_LARGE = "too large"
    SPILLS = "spills"
    WRONG = "wrong"
    HUNG = "hung"
    FAILED = "failed"
    CRASHED = "crashed"
    SLOWER = "slower"
    BEST = "best"


@dataclass(eq=False)
class Candidate:
    """One configuration.

    Attributes:
        number: its place in the list of configurations.
        configuration: the tuned names with their values.
        kernel, constants: the kernel, and the constants that a call of it needs; None if none was built.
        special: the kernel recorded for the arguments of the call; None if the recording failed.
        state: what became of it.
        reason: why, in words.
        assembly: what ptxas made of the text; None before, or without ptxas.
        times: microseconds of a launch, one of each round in which it was measured.
    """

    number: int
    configuration: Configuration
    kernel: Kernel | None = None
    constants: dict[str, Any] = field(default_factory=dict)
    special: Specialization | None = None
    state: State = State.READY
    reason: str = ""
    assembly: Assembly | None = None
    times: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return written(self.configuration)

    @property
    def ready(self) -> bool:
        """True if nothing speaks against the candidate so far."""
        return self.state in (State.READY, State.BEST)

    @property
    def us(self) -> float | None:
        """Median of the times in microseconds; None if it was not measured."""
        return statistics.median(self.times) if self.times else None

    @property
    def digest(self) -> str:
        """Digest of what is measured: text, tensor maps, launch; the grid only if no size can change it."""
        assert self.special is not None and self.kernel is not None
        special, launch = self.special, self.special.launch
        if not special.dims.keys() <= special.recorded.read.keys():
            launch = replace(launch, grid=(1, 1, 1))  # it changes with a run-time size
        configured = f"{special.entry} {self.kernel.options.specs} {launch}\n"
        return hashlib.sha256((configured + special.printed.text).encode()).hexdigest()

    def drop(self, state: State, reason: str) -> None:
        """Take the candidate out of the tuning."""
        self.state, self.reason = state, reason


def record(
    make: Make,
    configured: Sequence[Configuration],
    arrays: Sequence[Any],
    keywords: Mapping[str, Any],
) -> list[Candidate]:
    """Build and record the kernel of every configuration for the inputs ``arrays``.

    A configuration that the builder or the recording refuses stays in the list with the reason. Candidates
    with equal texts and launches are measured once.

    Raises:
        PyptxError, ValueError, AssertionError: every configuration was refused; the error is the first one.
    """
    found: list[Candidate] = []
    seen: dict[Any, Candidate] = {}
    first: Exception | None = None
    for number, configuration in enumerate(configured):
        candidate = Candidate(number, configuration)
        found.append(candidate)
        try:
            candidate.kernel, candidate.constants = make(configuration)
            candidate.special = candidate.kernel.specialize_for(*arrays, **keywords, **candidate.constants)
        except (PyptxError, ValueError, AssertionError) as error:
            first = first or error
            summary = error.summary if isinstance(error, PyptxError) else str(error) or type(error).__name__
            candidate.drop(State.REFUSED, summary)
            continue
        twin = seen.setdefault((candidate.digest, candidate.special.launch), candidate)
        if twin is not candidate:
            candidate.drop(State.SAME, f"the same kernel as {twin}")
    if not seen and first is not None:
        raise first
    return found
