"""``ptx.cluster``: the CTAs of a cluster: their ranks, each other's shared memory, their barrier.

Every function records exactly one instruction, except :func:`sync`.

Watch out: a CTA must not exit while another CTA can still access its shared memory. End the kernel with a
:func:`sync`.

PTX ISA: `#parallel-synchronization-and-communication-instructions-barrier-cluster`.
"""

from __future__ import annotations

from ...core.errors import OperandError
from ...core.types import u32, u64
from ...ir import Special
from ..choices import ClusterArriveOrder, ClusterWaitOrder
from ..emit import Predicate, checked, emit
from ..records import records
from ..registers import Reg
from ..smem import Buffer
from ..trace import current
from .answers import answer
from .qualifiers import one_of
from .values import value

__all__ = ["arrive", "getctarank", "map", "rank", "size", "sync", "wait"]

_SEE = "parallel-synchronization-and-communication-instructions-barrier-cluster"
_MAPA = "data-movement-and-conversion-instructions-mapa"
#: More CTAs than any cluster has; the architectures have fewer, 8 or 16.
_MAX_RANK = 31


def _address(place: Reg | Buffer, space: str | None, *, see: str) -> tuple[Reg, str | None, str]:
    """Return the register that holds a shared or generic address, its space's modifier, and its type."""
    register: object = place.addr if isinstance(place, Buffer) else place
    if not isinstance(register, Reg) or register.type.bits not in (32, 64):
        raise OperandError(
            f"the address is {place!r}: expected a 32- or 64-bit register, or a shared-memory buffer",
            hint="add a constant offset to the result: ptx.addr(mapped, 16)",
            see=see,
        )
    if space == "auto":
        space = "cluster" if register.type.bits == 32 else None
    one_of("space", space, ("cluster", None), see=see)
    state_space = None if space is None else "shared::cluster"
    return register, state_space, f"u{register.type.bits}"


@records("mapa")
def map(
    place: Reg | Buffer,
    rank: Reg | int,
    *,
    space: str | None = "auto",
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Map ``place`` in this CTA to its address in the CTA of rank ``rank``. Records one ``mapa``.

    A 32-bit shared address is mapped to a 32-bit shared address, a generic address to a generic one.  For a
    shared-memory buffer, the address of its first byte is mapped (one ``add`` precedes if a register chose a
    stage and a constant offset follows).

    Args:
        place: a u32 register with a shared address, a buffer, or a u64 register with a generic address.
        rank: rank of a CTA of the cluster, 0..31: a number or a u32 register.
        space: ``"auto"``: a 32-bit address is shared, a 64-bit address generic; ``"cluster"`` for a shared
            address in a 64-bit register; None for a generic address.
        out: register to write instead of a new one.
        pred: guard.

    Raises:
        OperandError: ``place`` is not an address, or the rank is out of range.

    PTX ISA: `#data-movement-and-conversion-instructions-mapa`.
    """
    which = checked("rank", rank, 0, _MAX_RANK, see=_MAPA)
    with current().atomic():
        register, state_space, kind = _address(place, space, see=_MAPA)
        given = u32 if kind == "u32" else u64
        return answer(given, "mapa", (state_space, kind), register, which, hint="mapped", out=out, pred=pred)


@records("getctarank")
def getctarank(
    address: Reg | Buffer,
    *,
    space: str | None = "auto",
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Return the rank of the CTA whose shared memory holds ``address``, a new u32 register.

    Records one ``getctarank``.  The arguments are those of :func:`map`.

    PTX ISA: `#data-movement-and-conversion-instructions-getctarank`.
    """
    see = "data-movement-and-conversion-instructions-getctarank"
    with current().atomic():
        register, state_space, kind = _address(address, space, see=see)
        return answer(u32, "getctarank", (state_space, kind), register, hint="rank", out=out, pred=pred)


@records("mov")
def rank(*, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return this CTA's rank in its cluster, a new u32 register.

    Records one ``mov.u32`` of ``%cluster_ctarank``.

    PTX ISA: `#special-registers-cluster-ctarank`.
    """
    return value(u32, "mov", ("u32",), (Special("cluster_ctarank"),), out=out, pred=pred, hint="rank")


@records("mov")
def size(*, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Return the number of CTAs of the cluster, a new u32 register.

    Records one ``mov.u32`` of ``%cluster_nctarank``.

    PTX ISA: `#special-registers-cluster-nctarank`.
    """
    return value(u32, "mov", ("u32",), (Special("cluster_nctarank"),), out=out, pred=pred, hint="size")


@records("barrier.cluster.arrive")
def arrive(*, sem: ClusterArriveOrder | None = None, aligned: bool = False, pred: Predicate = None) -> None:
    """Arrive at the cluster's barrier, without waiting. Records one ``barrier.cluster.arrive``.

    Args:
        sem: ``"release"``, which is the default, or ``"relaxed"``, which orders no memory accesses.
        aligned: promises that all threads of the warp execute this instruction together.
        pred: guard.

    Raises:
        OperandError: another order.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-barrier-cluster`.
    """
    emit("barrier", ("cluster", "arrive", sem, "aligned" if aligned else None), pred=pred)


@records("barrier.cluster.wait")
def wait(*, sem: ClusterWaitOrder | None = None, aligned: bool = False, pred: Predicate = None) -> None:
    """Wait until all threads of the cluster have arrived. Records one ``barrier.cluster.wait``.

    Args:
        sem: ``"acquire"`` writes the default order explicitly.
        aligned: promises that all threads of the warp execute this instruction together.
        pred: guard.

    Raises:
        OperandError: another order.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-barrier-cluster`.
    """
    emit("barrier", ("cluster", "wait", sem, "aligned" if aligned else None), pred=pred)


def sync(*, aligned: bool = False, pred: Predicate = None) -> None:
    """Wait until all threads of the cluster have arrived; their earlier writes are then visible to all.

    Records two instructions: ``barrier.cluster.arrive`` and ``barrier.cluster.wait``.

    Args:
        aligned: promises that all threads of the warp execute both instructions together.
        pred: guard of both.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-barrier-cluster`.
    """
    with current().atomic():
        arrive(aligned=aligned, pred=pred)
        wait(aligned=aligned, pred=pred)
