"""``ptx.fence``: order between the accesses of a thread, at a scope, and between proxies.

Every function records exactly one instruction.  Scopes are ``"cta"``, ``"cluster"``, ``"gpu"`` and
``"sys"``.  PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ..choices import ClusterScope, FenceOrder, FenceProxies, Scope
from ..emit import Predicate, emit
from ..operands import Addr, addr
from ..records import records
from ..registers import Reg
from .places import Shared
from .qualifiers import one_of

__all__ = [
    "acq_rel",
    "acquire",
    "mbarrier_init",
    "proxy_alias",
    "proxy_async",
    "proxy_async_acquire",
    "proxy_async_release",
    "proxy_fabric",
    "proxy_tensormap_acquire",
    "proxy_tensormap_release",
    "release",
    "sc",
]

_SEE = "parallel-synchronization-and-communication-instructions-membar"


# --- between threads ------------------------------------------------------------------------------


@records("fence")
def acq_rel(scope: Scope, *, pred: Predicate = None) -> None:
    """Execute an acquire-release fence at ``scope``: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.

    Records one ``fence.acq_rel``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("acq_rel", scope), pred=pred)


@records("fence")
def sc(scope: Scope, *, pred: Predicate = None) -> None:
    """Execute a sequentially consistent fence at ``scope``. Records one ``fence.sc``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("sc", scope), pred=pred)


def _restricted(given: str | None, allowed: tuple[str, ...], scope: str) -> str | None:
    if given is None:
        return None
    one_of("sync_restrict", given, allowed, see=_SEE)
    if scope != "cluster":
        raise OperandError(f"scope is {scope!r}: expected 'cluster' with sync_restrict", see=_SEE)
    return f"sync_restrict::{given}"


@records("fence", "fence.acquire.sync_restrict")
def acquire(scope: Scope, *, sync_restrict: str | None = None, pred: Predicate = None) -> None:
    """Execute an acquire fence at ``scope``. Records one ``fence.acquire``.

    Args:
        scope: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.
        sync_restrict: ``"shared::cluster"``, with scope ``"cluster"``: order only objects in the shared
            memory of the cluster.
        pred: guard.

    Raises:
        OperandError: another restriction, or a restriction at another scope.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("acquire", _restricted(sync_restrict, ("shared::cluster",), scope), scope), pred=pred)


@records("fence", "fence.release.sync_restrict")
def release(scope: Scope, *, sync_restrict: str | None = None, pred: Predicate = None) -> None:
    """Execute a release fence at ``scope``. Records one ``fence.release``.

    Args:
        scope: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.
        sync_restrict: ``"shared::cta"``, with scope ``"cluster"``: order only objects in this CTA's shared
            memory.
        pred: guard.

    Raises:
        OperandError: another restriction, or a restriction at another scope.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("release", _restricted(sync_restrict, ("shared::cta",), scope), scope), pred=pred)


@records("fence.mbarrier_init")
def mbarrier_init(*, pred: Predicate = None) -> None:
    """Order earlier ``mbarrier.init`` before later operations in the cluster.

    Records one ``fence.mbarrier_init.release.cluster``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("mbarrier_init", "release", "cluster"), pred=pred)


# --- between proxies ------------------------------------------------------------------------------


@records("fence.proxy.async")
def proxy_async(space: str | None = None, *, pred: Predicate = None) -> None:
    """Order earlier generic-proxy accesses before later ones of TMA and the tensor cores, and vice versa.

    Records one ``fence.proxy.async``.

    Args:
        space: ``"shared::cta"``, ``"shared::cluster"`` or ``"global"``; None for all, which costs a
            GPU-wide fence.
        pred: guard.

    Raises:
        OperandError: another state space.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    one_of("space", space, (None, "shared::cta", "shared::cluster", "global"), see=_SEE)
    emit("fence", ("proxy", "async", space), pred=pred)


@records("fence.proxy.async_generic.acquire")
def proxy_async_acquire(*, pred: Predicate = None) -> None:
    """Order later async-proxy accesses after generic-proxy accesses that were released to this thread.

    The fence is the acquiring half of an order from the generic to the async proxy, only for objects in the
    shared memory of the cluster.  Use it after ``ptx.cluster.wait``, before a copy signals another CTA's
    mbarrier.

    Records one ``fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    modifiers = ("proxy", "async::generic", "acquire", "sync_restrict::shared::cluster", "cluster")
    emit("fence", modifiers, pred=pred)


@records("fence.proxy.async_generic.release", "fence.proxy.async_generic.release.read")
def proxy_async_release(
    *, read: bool = False, scope: ClusterScope = "cluster", pred: Predicate = None
) -> None:
    """Order earlier generic-proxy accesses before async-proxy accesses that follow a matching acquire.

    The fence is the releasing half of an order from the generic to the async proxy, only for objects in this
    CTA's shared memory.  Use it after ``mbarrier_init()``, before a relaxed ``ptx.cluster.arrive``.

    Records one ``fence.proxy.async::generic.release``.

    Args:
        read: order only reads of the cluster's shared memory (PTX 9.4).
        scope: ``"cluster"``, or ``"cta"`` with ``read``.
        pred: guard.

    Raises:
        OperandError: another scope.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    one_of("scope", scope, ("cta", "cluster") if read else ("cluster",), see=_SEE)
    restriction = "shared::cluster::read" if read else "shared::cta"
    modifiers = ("proxy", "async::generic", "release", f"sync_restrict::{restriction}", scope)
    emit("fence", modifiers, pred=pred)


@records("fence.proxy.alias", "fence.proxy.alias.sem")
def proxy_alias(sem: FenceOrder | None = None, *, pred: Predicate = None) -> None:
    """Order accesses through different virtual addresses of the same memory.

    Records one ``fence.proxy.alias``.

    Args:
        sem: None for both directions; ``"acquire"`` or ``"release"`` for one direction, at scope sys (PTX
            9.4).
        pred: guard.

    Raises:
        OperandError: another order.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("proxy", "alias", sem, None if sem is None else "sys"), pred=pred)


@records("fence.proxy.fabric")
def proxy_fabric(proxies: FenceProxies, sem: FenceOrder, *, pred: Predicate = None) -> None:
    """Order accesses of fabric operations and of another proxy, in one direction, at scope sys.

    Records one ``fence.proxy.fabric::generic.alias``, or the same with other ``proxies`` (PTX 9.3).

    Args:
        proxies: ``"fabric::generic"``, ``"generic::fabric"`` or ``"fabric::fabric"``.
        sem: ``"acquire"`` or ``"release"``.
        pred: guard.

    Raises:
        OperandError: other proxies, or another order.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("proxy", proxies, "alias", sem, "sys"), pred=pred)


@records("fence.proxy.tensormap.release")
def proxy_tensormap_release(scope: Scope, *, pred: Predicate = None) -> None:
    """Order earlier generic-proxy writes of tensor maps before uses that follow a matching acquire.

    Records one ``fence.proxy.tensormap::generic.release``.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    emit("fence", ("proxy", "tensormap::generic", "release", scope), pred=pred)


@records("fence.proxy.tensormap.acquire")
def proxy_tensormap_acquire(tensor_map: Reg | Addr | Shared, scope: Scope, *, pred: Predicate = None) -> None:
    """Order later uses of the 128-byte tensor map at ``tensor_map`` after generic-proxy writes of the map.

    Records one ``fence.proxy.tensormap::generic.acquire``.

    Args:
        tensor_map: generic 64-bit address of the map, which lies in global memory.
        scope: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.
        pred: guard.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-membar`.
    """
    modifiers = ("proxy", "tensormap::generic", "acquire", scope)
    emit("fence", modifiers, addr(tensor_map), 128, pred=pred)
