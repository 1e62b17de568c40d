"""``ptx.cache``: L2 eviction policies, prefetches, and hints about single cache lines.

A policy is a b64 register for the ``cache_hint=`` of copies, loads and stores.  Priorities are
``"evict_last"``, ``"evict_normal"``, ``"evict_first"`` and ``"evict_unchanged"``.  Every function records
exactly one instruction.

PTX ISA: `#cache-eviction-priority-hints`.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import OperandError
from ...core.types import b64
from ..choices import LastPriority, PrimaryPriority, SecondaryPriority
from ..emit import Predicate, checked, emit
from ..operands import Addr, addr
from ..records import records
from ..registers import Reg
from ..types import as_number
from .answers import answer
from .qualifiers import global_space, one_of

__all__ = [
    "apply_priority",
    "discard",
    "policy",
    "policy_cvt",
    "policy_range",
    "prefetch",
    "prefetch_uniform",
]

Global = Reg | Addr

_POLICY = "data-movement-and-conversion-instructions-createpolicy"
_PREFETCH = "data-movement-and-conversion-instructions-prefetch-prefetchu"
#: Size of the cache line that discard and applypriority name, in bytes.
_LINE = 128


def _priorities(primary: str, secondary: str | None) -> tuple[str, str | None]:
    if secondary is None:
        return f"L2::{primary}", None
    return f"L2::{primary}", f"L2::{secondary}"


# --- policies -------------------------------------------------------------------------------------


@records("createpolicy.fractional")
def policy(
    primary: PrimaryPriority,
    secondary: SecondaryPriority | None = None,
    *,
    fraction: Reg | float | None = None,
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Make a policy, a new b64 register: a fraction of accesses gets ``primary``, the rest ``secondary``.

    Records one ``createpolicy.fractional``.

    Args:
        primary: ``"evict_last"``, ``"evict_normal"``, ``"evict_first"`` or ``"evict_unchanged"``.
        secondary: ``"evict_first"`` or ``"evict_unchanged"``, which is the default.
        fraction: 0 < fraction <= 1, or an f32 register; default: 1.
        out: register to write instead of a new one.
        pred: guard.

    Raises:
        OperandError: another priority, or a fraction out of range.

    PTX ISA: `#data-movement-and-conversion-instructions-createpolicy`.
    """
    some: tuple[Any, ...] = ()
    if isinstance(fraction, Reg):
        some = (fraction,)
    elif fraction is not None:
        number = as_number(fraction)
        if number is None or not 0 < number <= 1:
            raise OperandError(f"fraction is {fraction!r}: expected 0 < fraction <= 1", see=_POLICY)
        some = (float(number),)
    modifiers = ("fractional", *_priorities(primary, secondary), "b64")
    return answer(b64, "createpolicy", modifiers, *some, hint="policy", out=out, pred=pred)


@records("createpolicy.range")
def policy_range(
    place: Global,
    primary_size: Reg | int,
    total_size: Reg | int,
    primary: PrimaryPriority,
    secondary: SecondaryPriority | None = None,
    *,
    space: str | None = "global",
    out: Reg | None = None,
    pred: Predicate = None,
) -> Reg:
    """Make a policy for accesses near ``place``, a new b64 register. Records one ``createpolicy.range``.

    Args:
        place: address at which the primary range of ``primary_size`` bytes begins. The secondary range is
            the rest of the ``total_size`` bytes.
        primary_size, total_size: bytes, numbers or u32 registers.
        primary, secondary: as for :func:`policy`.
        space: ``"global"``, or None for a generic address.
        out, pred: as for :func:`policy`.

    Raises:
        OperandError: another priority, or a primary range that is longer than the total.

    PTX ISA: `#data-movement-and-conversion-instructions-createpolicy`.
    """
    modifiers = ("range", global_space(space, see=_POLICY), *_priorities(primary, secondary), "b64")
    sizes = (
        checked("primary_size", primary_size, 0, 0xFFFFFFFF, see=_POLICY),
        checked("total_size", total_size, 0, 0xFFFFFFFF, see=_POLICY),
    )
    return answer(b64, "createpolicy", modifiers, addr(place), *sizes, hint="policy", out=out, pred=pred)


@records("createpolicy.cvt")
def policy_cvt(access_property: Reg, *, out: Reg | None = None, pred: Predicate = None) -> Reg:
    """Convert a CUDA access property in a 64-bit register to a policy, a new b64 register.

    Records one ``createpolicy.cvt``.

    PTX ISA: `#data-movement-and-conversion-instructions-createpolicy`.
    """
    return answer(
        b64, "createpolicy", ("cvt", "L2", "b64"), access_property, hint="policy", out=out, pred=pred
    )


# --- lines ----------------------------------------------------------------------------------------


@records("prefetch", "prefetch.evict", "prefetch.valid_addr")
def prefetch(
    place: Global,
    level: str = "L2",
    *,
    evict: LastPriority | None = None,
    space: str | None = "global",
    pred: Predicate = None,
) -> None:
    """Prefetch the line at ``place`` into a cache. Records one ``prefetch``.

    Args:
        place: an address.
        level: ``"L1"``, ``"L2"``, or ``"L1::32B"``: 32 bytes at an address that is known to be valid (PTX
            9.4).
        evict: with L2, the line's eviction priority: ``"evict_last"`` or ``"evict_normal"``.
        space: ``"global"``, ``"local"``, or None for a generic address.
        pred: guard.

    Raises:
        OperandError: another level, priority or state space, or a priority outside global memory and L2.

    PTX ISA: `#data-movement-and-conversion-instructions-prefetch-prefetchu`.
    """
    one_of("level", level, ("L1", "L2", "L1::32B"), see=_PREFETCH)
    one_of("space", space, ("global",) if evict else ("global", "local", None), see=_PREFETCH)
    modifiers: tuple[str | None, ...] = (space, level, "valid_addr" if level == "L1::32B" else None)
    if evict is not None:
        one_of("level", level, ("L2",), see=_PREFETCH)
        modifiers = (space, f"L2::{evict}")
    emit("prefetch", modifiers, addr(place), pred=pred)


@records("prefetchu")
def prefetch_uniform(place: Global, *, pred: Predicate = None) -> None:
    """Prefetch the line at a generic address into the uniform cache. Records one ``prefetchu.L1``.

    PTX ISA: `#data-movement-and-conversion-instructions-prefetch-prefetchu`.
    """
    emit("prefetchu", ("L1",), addr(place), pred=pred)


@records("discard")
def discard(place: Global, *, space: str | None = "global", pred: Predicate = None) -> None:
    """Drop the 128-byte line at ``place`` from L2 without writing it back. Records one ``discard``.

    Watch out: the data of the line is lost; a read before the next write is undefined.

    Args:
        place: a multiple of 128.
        space: ``"global"``, or None for a generic address.
        pred: guard.

    PTX ISA: `#data-movement-and-conversion-instructions-discard`.
    """
    see = "data-movement-and-conversion-instructions-discard"
    emit("discard", (global_space(space, see=see), "L2"), addr(place), _LINE, pred=pred)


@records("applypriority")
def apply_priority(place: Global, *, space: str | None = "global", pred: Predicate = None) -> None:
    """Give the 128-byte line at ``place`` the normal L2 eviction priority. Records one ``applypriority``.

    The arguments are those of :func:`discard`.

    PTX ISA: `#data-movement-and-conversion-instructions-applypriority`.
    """
    see = "data-movement-and-conversion-instructions-applypriority"
    modifiers = (global_space(space, see=see), "L2::evict_normal")
    emit("applypriority", modifiers, addr(place), _LINE, pred=pred)
