"""Describes accesses to memory for observers: which bytes, by which threads or engine, in which order.

:meth:`~.address_space.Memory.access` builds an :class:`Access` only if there are observers. Tensor memory,
which has cells instead of addresses, sends an :class:`Access` too; its segment is the tensor memory of a
multiprocessor.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass

if TYPE_CHECKING:
    from .segments import Actor

__all__ = ["Access", "AccessKind", "Footprint", "MemoryOrder", "Proxy", "Scope", "StateSpace"]


class AccessKind(enum.Enum):
    """The kind of an access.

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

    __hash__ = object.__hash__

    @property
    def writes(self) -> bool:
        """True if the access may change the bytes."""
        return self in (AccessKind.WRITE, AccessKind.RMW, AccessKind.INIT, AccessKind.INVAL)


class StateSpace(enum.Enum):
    """The state space of an address.

    The windows of shared memory (``.shared::cta``, ``.shared::cluster``) have one kind of address and are one
    space here; the same holds for the windows of parameters. A ``GENERIC`` address is in the window of
    another space.
    """

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    PARAM = "param"
    CONST = "const"
    TENSOR = "tensor"

    __hash__ = object.__hash__


class Proxy(enum.Enum):
    """The path by which an access reaches memory (PTX ISA ``#proxies``).

    ``READONLY`` is the path of ``ld.global.nc``, ``TENSOR`` that of accesses to tensor memory.
    """

    GENERIC = "generic"
    ASYNC = "async"
    READONLY = "readonly"
    TENSORMAP = "tensormap"
    TENSOR = "tensor"

    __hash__ = object.__hash__


class MemoryOrder(enum.Enum):
    """The memory order of an access, synchronization or fence: modifier ``.sem`` (``#operation-types``)."""

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SC = "sc"

    __hash__ = object.__hash__


class Scope(enum.Enum):
    """The threads to which an order applies (``#scope``). ``NONE`` is the scope of a weak access."""

    NONE = ""
    CTA = "cta"
    CLUSTER = "cluster"
    GPU = "gpu"
    SYS = "sys"

    __hash__ = object.__hash__


@dataclass(eq=False, slots=True)
class Footprint:
    """The bytes that an access reads or writes: ``size`` bytes at each of ``starts``, segment offsets.

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
        """Return the offsets of all bytes of the footprint, ascending and without repetition."""
        return np.unique(self.starts[:, None] + np.arange(self.size))


@dataclass(eq=False, slots=True)
class Access:
    """One access to memory, by one instruction or by one step of an asynchronous operation.

    Attributes:
        kind: what the access does.
        space: the state space of the bytes; never ``GENERIC``.
        segment: the allocation that holds the bytes.
        footprint: the bytes.
        actor: the split of a warp, or the asynchronous operation.
        threads: numbers of the accessing threads in their CTA, one for each piece; None for an engine.
        proxy: the path of the access.
        semantics: the memory order of the access; a volatile access is ``RELAXED`` at the scope ``SYS``.
        scope: the threads to which the order applies.
    """

    kind: AccessKind
    space: StateSpace
    segment: Any
    footprint: Footprint
    actor: Actor
    threads: NDArray[np.int64] | None
    proxy: Proxy
    semantics: MemoryOrder
    scope: Scope
