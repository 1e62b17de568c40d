"""Litmus tests as data: threads of a few loads, stores and fences, with the CTAs that they are in."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fence", "Litmus", "Load", "Operation", "Store", "Update"]


@dataclass(frozen=True)
class Load:
    """Read ``location`` into a register; registers are numbered over all threads in the order of their loads.

    Attributes:
        order: ``weak``, ``relaxed`` or ``acquire``.
        scope: ``cta`` or ``gpu``; a weak operation has none.
    """

    location: str
    order: str = "relaxed"
    scope: str = "gpu"


@dataclass(frozen=True)
class Store:
    """Write ``value`` to ``location``: ``weak``, ``relaxed`` or ``release``."""

    location: str
    value: int
    order: str = "relaxed"
    scope: str = "gpu"


@dataclass(frozen=True)
class Update:
    """Atomically add 1 to ``location`` and keep the old value in a register: ``relaxed``, ``acquire``, ``release`` or
    ``acq_rel``."""

    location: str
    order: str = "relaxed"
    scope: str = "gpu"


@dataclass(frozen=True)
class Fence:
    """A fence: ``acq_rel``, ``sc``, ``acquire`` or ``release``."""

    order: str = "acq_rel"
    scope: str = "gpu"


Operation = Load | Store | Update | Fence


@dataclass(frozen=True)
class Litmus:
    """One litmus test. All locations hold 0 before.

    Attributes:
        name: unique among the tests.
        threads: the operations of each thread.
        ctas: number of the CTA of each thread.
        finals: locations whose last value belongs to the outcome, besides all registers.
    """

    name: str
    threads: tuple[tuple[Operation, ...], ...]
    ctas: tuple[int, ...]
    finals: tuple[str, ...] = ()

    @property
    def locations(self) -> tuple[str, ...]:
        """All locations, sorted."""
        return tuple(
            sorted({op.location for thread in self.threads for op in thread if not isinstance(op, Fence)})
        )

    @property
    def registers(self) -> int:
        """Number of registers."""
        return sum(isinstance(op, (Load, Update)) for thread in self.threads for op in thread)

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """What the numbers of an outcome are: registers ``r0``, ``r1`` ... and locations."""
        return (*(f"r{n}" for n in range(self.registers)), *self.finals)
