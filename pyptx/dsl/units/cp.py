"""``ptx.cp``: ``ptx.cp.async_``, copies of single threads from global to shared memory, and ``.bulk``.

PTX ISA: `#data-movement-and-conversion-instructions-cp-async`.

A thread waits for its own copies: ``commit_group()`` after them and ``wait_group(n)``, or an mbarrier that
``mbarrier_arrive`` makes count them.  Every function records exactly one instruction.
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
            dst: in this CTA's shared memory, aligned to ``size``.
            src: global address, aligned to ``size``.
            size: 4, 8 or 16 bytes.
            src_size: bytes to read, up to ``size``, a number or a u32 register; the rest becomes zero. 0
                reads nothing, so ``src`` may then lie outside the tensor.
            ignore_src: instead of ``src_size``, a predicate: where it holds, ``size`` zeroes are written.
                (``~p`` adds one ``not.pred``.)
            cache: ``"ca"`` for all levels, ``"cg"`` past L1, for 16 bytes alone.
            prefetch: bytes to bring into L2 around them: 64, 128 or 256.
            cache_hint: b64 register with an L2 cache policy (``ptx.cache``).
            space: ``"cta"``, or ``"shared"``, the older spelling of the same.
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
                hint="4 and 8 bytes go with cache='ca'",
                see=_SEE,
            )
        if src_size is not None and ignore_src is not None:
            raise OperandError(
                "src_size and ignore_src are both given: expected one of them at most", see=_SEE
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
        words = (
            "async",
            cache,
            shared_space(space, ("cta", "shared"), see=_SEE),
            "global",
            hint,
            None if prefetch is None else f"L2::{prefetch}B",
        )
        emit("cp", words, addr(dst), addr(src), size, *extra, *policy, pred=pred)

    @staticmethod
    @records("cp.async.commit_group")
    def commit_group(*, pred: Predicate = None) -> None:
        """Put the thread's uncommitted copies into a group. Records one ``cp.async.commit_group``.

        PTX ISA: `#data-movement-and-conversion-instructions-cp-async-commit-group`.
        """
        emit("cp", ("async", "commit_group"), pred=pred)

    @staticmethod
    @records("cp.async.wait_group")
    def wait_group(n: int, *, pred: Predicate = None) -> None:
        """Wait until at most ``n`` of the thread's newest groups are pending.

        Records one ``cp.async.wait_group``.

        Args:
            n: a number from 0; 0 waits for all groups.
            pred: guard.

        Raises:
            OperandError: a negative number, or no number.

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
        """Arrive on an mbarrier when the thread's earlier copies have completed.

        Records one ``cp.async.mbarrier.arrive``.

        Args:
            mbar: the barrier, in this CTA's shared memory.
            noinc: the barrier's count of arrivals has this one in it already; otherwise the pending count
                is raised by one first, so that the pair leaves it as it was.
            space: ``"cta"``, ``"shared"``, or None for a generic 64-bit address.
            pred: guard.

        PTX ISA: `#parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive`.
        """
        see = "parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive"
        word = shared_space(space, ("cta", "shared", None), see=see)
        words = ("async", "mbarrier", "arrive", "noinc" if noinc else None, word, "b64")
        emit("cp", words, barrier(mbar), pred=pred)


#: ``ptx.cp.async_``; ``async`` is a Python keyword.
async_ = Async()
