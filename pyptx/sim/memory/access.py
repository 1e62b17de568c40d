"""Records of accesses to memory: which bytes, by which threads or engine, with which order.

:meth:`~.address_space.Memory.access` builds an :class:`Access` only if there are observers. Tensor memory,
which has cells instead of addresses, sends the same record; its segment is the tensor memory of a
multiprocessor.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .address_space import Actor

__all__ = ["Access", "AccessKind", "Footprint"]


class AccessKind(enum.Enum):
    """What an access does.

    ``RMW`` reads and writes atomically. ``INIT`` and ``INVAL`` begin and end the life of an mbarrier.
    ``PROBE`` only resolves an address and touches no byte: operations on an mbarrier send a synchronization
    event instead.
    """

    READ = "read"
    WRITE = "write"
    RMW = "rmw"
    INIT = "init"
    INVAL = "inval"
    PROBE = "access"

    @property
    def writes(self) -> bool:
        """True if the access may change the bytes."""
        return self in (AccessKind.WRITE, AccessKind.RMW, AccessKind.INIT, AccessKind.INVAL)


@dataclass(frozen=True, eq=False, slots=True)
class Footprint:
    """The bytes that an access touches, exactly: ``size`` bytes from each of ``starts``, offsets in the
    segment.

    For an access of threads, ``starts`` has one entry for each thread, in the order of the access's
    ``threads``; entries may be equal. For an access of an engine, the pieces are in any order and do not
    overlap. In tensor memory a byte offset is ``4 * (512 * lane + column)``.
    """

    starts: NDArray[np.int64]
    size: int

    @property
    def nbytes(self) -> int:
        """Number of bytes of all pieces together."""
        return len(self.starts) * self.size

    def offsets(self) -> NDArray[np.int64]:
        """Return the offset of each touched byte once, ascending."""
        return np.unique(self.starts[:, None] + np.arange(self.size))


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """One access of one instruction, or of one step of an asynchronous operation.

    Attributes:
        kind: what the access does.
        space: the state space of the bytes: ``global``, ``shared``, ``local``, ``param``, ``const`` or
            ``tensor``.
        segment: the allocation that holds the bytes.
        footprint: the bytes.
        actor: the split of a warp, or the asynchronous operation.
        threads: numbers of the accessing threads in their CTA, one for each piece; None for an engine.
        proxy: ``generic``, ``async``, ``readonly`` or ``tensormap``.
        semantics: ``weak``, ``relaxed``, ``acquire``, ``release``, ``acq_rel`` or ``volatile``.
        scope: ``cta``, ``cluster``, ``gpu``, ``sys``, or ``""`` for a weak access.
    """

    kind: AccessKind
    space: str
    segment: Any
    footprint: Footprint
    actor: Actor
    threads: NDArray[np.int64] | None
    proxy: str
    semantics: str
    scope: str
