"""Completion of asynchronous tcgen05 operations, and their order around thread synchronization."""

from __future__ import annotations

from ....core.errors import OperandError
from ...emit import Predicate, emit
from ...operands import Addr, addr
from ...records import records
from ...registers import Reg
from ...smem import Buffer
from ..qualifiers import multicast_modifier, one_of, shared_space
from .arguments import group

__all__ = ["commit", "fence_after_thread_sync", "fence_before_thread_sync"]

_COMMIT = "tcgen05-instructions-tcgen05-commit"
_RESTRICTIONS = (None, "shared::read::mma::a")


@records("tcgen05.commit")
def commit(
    mbar: Reg | Addr | Buffer,
    space: str | None = "cluster",
    multicast: Reg | None = None,
    cta_group: int = 1,
    *,
    multicast_bits: int | None = None,
    sync_restrict: str | None = None,
    pred: Predicate = None,
) -> None:
    """Make the hardware arrive once on ``mbar`` when this thread's earlier mma, cp and shift have completed.

    Records one ``tcgen05.commit``.  It covers only operations of the executing thread: issue mma and commit
    from the same lane.

    Args:
        mbar: the barrier: a shared address with ``space="cluster"``, a generic 64-bit address with None.
        space: ``"cluster"`` or None.
        multicast: mask of the cluster's CTAs whose barrier at the same offset is signaled, a 16-bit
            register (32-bit with ``multicast_bits=32``).
        cta_group: 1, or 2 for a pair of CTAs.
        multicast_bits: 16 or 32 writes the width of the mask explicitly (PTX 9.4; 32: sm_107f); None is 16.
        sync_restrict: ``"shared::read::mma::a"``: the arrival means that A has been read from shared memory,
            not that the MMAs have completed (sm_107f).
        pred: guard.

    Raises:
        OperandError: an address of the wrong width for the space, or a mask that is not a register.

    PTX ISA: `#tcgen05-instructions-tcgen05-commit`.
    """
    state_space = shared_space(space, ("cluster", None), see=_COMMIT)
    target = addr(mbar)
    base = target.base
    if space is None and isinstance(base, Reg) and base.type.bits != 64:
        raise OperandError(
            f"without a space commit takes a generic 64-bit address, and {base} is .{base.type}",
            hint='for a shared address pass space="cluster"',
            see=_COMMIT,
        )
    multicast_to, mask = multicast_modifier(multicast, multicast_bits, see=_COMMIT)
    one_of("sync_restrict", sync_restrict, _RESTRICTIONS, see=_COMMIT)
    modifiers = (
        "commit",
        group(cta_group),
        "mbarrier::arrive::one",
        None if sync_restrict is None else f"sync_restrict::{sync_restrict}",
        state_space,
        multicast_to,
        "b64",
    )
    emit("tcgen05", modifiers, target, *mask, pred=pred)


@records("tcgen05.fence")
def fence_before_thread_sync(*, pred: Predicate = None) -> None:
    """Order earlier tcgen05 operations before a following thread synchronization.

    Records one ``tcgen05.fence::before_thread_sync``.  PTX ISA: `#tcgen05-instructions-tcgen05-fence`.
    """
    emit("tcgen05", ("fence::before_thread_sync",), pred=pred)


@records("tcgen05.fence")
def fence_after_thread_sync(*, pred: Predicate = None) -> None:
    """Order later tcgen05 operations after an earlier thread synchronization.

    Records one ``tcgen05.fence::after_thread_sync``.  PTX ISA: `#tcgen05-instructions-tcgen05-fence`.
    """
    emit("tcgen05", ("fence::after_thread_sync",), pred=pred)
