"""``ptx.cp``: ``ptx.cp.async_``, copies of single threads from global to shared memory, and ``.bulk``.

PTX ISA: `#data-movement-and-conversion-instructions-cp-async`.

A thread waits for its own copies in one of two ways: it calls ``commit_group()`` and ``wait_group(n)``, or
``mbarrier_arrive`` makes an mbarrier count the copies.  Every function records exactly one instruction.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import OperandError
from ..choices import SharedSpace
from ..emit import Predicate, checked, emit
from ..operands import Addr, addr
from ..records import records
from ..registers import NotPred, Reg
from . import bulk
from .places import Shared, barrier, check_place
from .qualifiers import group_count, hinted, one_of, shared_space

__all__ = ["async_"]

_SEE = "data-movement-and-conversion-instructions-cp-async"


class Async:
    """Copy 4, 8 or 16 bytes from global to shared memory, asynchronously.

    Records one ``cp.async.ca.shared::cta.global``, or another of ``cp.async``.
    """

    bulk = bulk

    @records("cp.async", "cp.async.cg", "cp.async.ignore_src", "cp.async.cg.ignore_src")
    def __call__(
        self,
        dst: Shared,
        src: Reg | Addr,
        size: int,
        *,
        src_size: Reg | int | None = None,
        ignore_src: Reg | NotPred | None = None,
        cache: str = "ca",
        prefetch: int | None = None,
        cache_hint: Reg | None = None,
        space: SharedSpace = "cta",
        pred: Predicate = None,
    ) -> None:
        """Copy ``size`` bytes from global to shared memory, asynchronously.

        Records one ``cp.async``.

        Args:
            dst: address in this CTA's shared memory, aligned to ``size``.
            src: global address, aligned to ``size``.
            size: 4, 8 or 16 bytes.
            src_size: bytes to read, up to ``size``, a number or a u32 register; the other bytes of ``dst``
                become zero. With 0 nothing is read, so ``src`` may lie outside the tensor.
            ignore_src: instead of ``src_size``, a predicate: where it holds, ``size`` zeroes are written.
                (``~p`` records one more ``not.pred``.)
            cache: ``"ca"`` caches in all levels; ``"cg"`` bypasses L1 and needs 16 bytes.
            prefetch: bytes around the source to bring into L2: 64, 128 or 256.
            cache_hint: b64 register with an L2 cache policy (``ptx.cache``).
            space: ``"cta"``, or ``"shared"``, the older spelling of ``"cta"``.
            pred: guard.

        Raises:
            OperandError: another size, ``"cg"`` with less than 16 bytes, more bytes read than written, both
                ``src_size`` and ``ignore_src``, a buffer that is misaligned or too small.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-async`.
        """
        one_of("size", size, (4, 8, 16), see=_SEE)
        one_of("cache", cache, ("ca", "cg"), see=_SEE)
        if cache == "cg" and size != 16:
            raise OperandError(
                f"size is {size}: expected 16 with cache='cg'",
                hint="copy 4 or 8 bytes with cache='ca'",
                see=_SEE,
            )
        if src_size is not None and ignore_src is not None:
            raise OperandError(
                "src_size and ignore_src are both given: expected at most one of them", see=_SEE
            )
        if prefetch is not None:
            one_of("prefetch", prefetch, (64, 128, 256), see=_SEE)
        check_place("the destination", dst, size, size, see=_SEE)
        extra: list[Any] = []
        if src_size is not None:
            extra.append(checked("src_size", src_size, 0, size, see=_SEE))
        if ignore_src is not None:
            extra.append(ignore_src)
        hint, policy = hinted(cache_hint)
        modifiers = (
            "async",
            cache,
            shared_space(space, ("cta", "shared"), see=_SEE),
            "global",
            hint,
            None if prefetch is None else f"L2::{prefetch}B",
        )
        emit("cp", modifiers, addr(dst), addr(src), size, *extra, *policy, pred=pred)

    @staticmethod
    @records("cp.async.commit_group")
    def commit_group(*, pred: Predicate = None) -> None:
        """Commit the thread's uncommitted copies as one group. Records one ``cp.async.commit_group``.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-async-commit-group`.
        """
        emit("cp", ("async", "commit_group"), pred=pred)

    @staticmethod
    @records("cp.async.wait_group")
    def wait_group(n: int, *, pred: Predicate = None) -> None:
        """Wait until at most ``n`` of the thread's groups, the newest ones, are pending.

        Records one ``cp.async.wait_group``.

        Args:
            n: number of groups that may stay pending; 0 waits for all groups.
            pred: guard.

        Raises:
            OperandError: ``n`` is negative or not an integer.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-async-wait-group`.
        """
        emit("cp", ("async", "wait_group"), group_count(n, see=f"{_SEE}-wait-group"), pred=pred)

    @staticmethod
    @records("cp.async.wait_all")
    def wait_all(*, pred: Predicate = None) -> None:
        """Wait for all of the thread's copies, committed or not. Records one ``cp.async.wait_all``.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-async-wait-group`.
        """
        emit("cp", ("async", "wait_all"), pred=pred)

    @staticmethod
    @records("cp.async.mbarrier.arrive")
    def mbarrier_arrive(
        mbar: Shared, *, noinc: bool = False, space: SharedSpace | None = "cta", pred: Predicate = None
    ) -> None:
        """Make the hardware arrive on an mbarrier when the thread's earlier copies have completed.

        Records one ``cp.async.mbarrier.arrive``.

        Args:
            mbar: the barrier, in this CTA's shared memory.
            noinc: the count of the barrier already includes this arrival. Otherwise the instruction first
                raises the pending count by one, so that the arrival leaves it unchanged.
            space: ``"cta"``, ``"shared"``, or None for a generic 64-bit address.
            pred: guard.

        PTX ISA: `#parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive`.
        """
        see = "parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive"
        state_space = shared_space(space, ("cta", "shared", None), see=see)
        modifiers = ("async", "mbarrier", "arrive", "noinc" if noinc else None, state_space, "b64")
        emit("cp", modifiers, barrier(mbar), pred=pred)


#: ``ptx.cp.async_``; ``async`` is a Python keyword.
async_ = Async()
