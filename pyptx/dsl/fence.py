"""``ptx.fence``: ordering between a thread's accesses, scopes and proxies.

Every function records exactly one instruction.  PTX ISA:
`#parallel-synchronization-and-communication-instructions-membar`.
"""

from __future__ import annotations

from .emit import Predicate, emit

__all__ = ["acq_rel", "acquire", "mbarrier_init", "proxy_async", "release", "sc"]


def proxy_async(space: str | None = None, *, pred: Predicate = None) -> None:
    """Order ordinary accesses before later accesses of TMA and the tensor cores, and back.

    Records one ``fence.proxy.async``.

    Args:
        space: ``"shared::cta"``, ``"shared::cluster"`` or ``"global"``; None for all, which costs a
            GPU-wide fence.
        pred: guard.
    """
    emit("fence", ("proxy", "async", space), pred=pred)


def mbarrier_init(*, pred: Predicate = None) -> None:
    """Order earlier ``mbarrier.init`` before what follows in the cluster.

    Records one ``fence.mbarrier_init.release.cluster``.
    """
    emit("fence", ("mbarrier_init", "release", "cluster"), pred=pred)


def acq_rel(scope: str, *, pred: Predicate = None) -> None:
    """Acquire-release fence at ``scope``: ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``.

    Records one ``fence.acq_rel``.
    """
    emit("fence", ("acq_rel", scope), pred=pred)


def sc(scope: str, *, pred: Predicate = None) -> None:
    """Sequentially consistent fence at ``scope``. Records one ``fence.sc``."""
    emit("fence", ("sc", scope), pred=pred)


def acquire(scope: str, *, pred: Predicate = None) -> None:
    """Acquire fence at ``scope``. Records one ``fence.acquire``."""
    emit("fence", ("acquire", scope), pred=pred)


def release(scope: str, *, pred: Predicate = None) -> None:
    """Release fence at ``scope``. Records one ``fence.release``."""
    emit("fence", ("release", scope), pred=pred)
