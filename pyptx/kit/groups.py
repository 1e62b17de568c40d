"""Groups of threads that take a role: blocks that the group alone executes, and what they refuse to record.

A kernel with warp roles is a series of such blocks::

    warp = kit.warp_index()
    with kit.single_thread(warp, 0):                    # one lane of warp 0
        ...                                             # copies by TMA
    with kit.single_thread(warp, 1):
        ...                                             # tcgen05.mma, commits
    with kit.warp_group(warp, 1, inc=232):              # warps 4..7
        ...                                             # the epilogue

An instruction that needs more threads than the group has is refused where it is called: a whole warp
(``.aligned`` instructions, votes and shuffles of all lanes), or a warpgroup (``wgmma``, ``setmaxnreg``).  So
is an instruction that one thread issues for all (``tcgen05.mma``, bulk copies), where a group of whole warps
would record it for every lane: it needs a guard, or a ``ptx.if_`` around it, such as one of
``ptx.warp.elect()``.
"""

from __future__ import annotations

import enum
from types import TracebackType

from ..core.errors import InstructionError, SpecError
from ..dsl import Reg, ptx
from ..dsl.control import if_
from ..dsl.trace import Trace, current
from ..ir import Guard, Immediate
from ..isa.binding import Binding

__all__ = ["Group", "single_thread", "single_warp", "thread_group", "warp_group", "warp_index"]

_LANES = 32
_WARPS = 4  # of a warpgroup
_FULL = 0xFFFFFFFF
#: Instructions whose last operand is a mask of lanes, which must all execute them.
_MASKED = frozenset({"elect", "match", "redux", "shfl", "vote"})
#: The first modifier of what one thread issues for the CTA.
_ISSUED = frozenset({"mma", "commit", "cp", "shift"})
_GROUPS_OF_COPIES = frozenset({"commit_group", "wait_group"})


class Needs(enum.IntEnum):
    """How many threads of a role an instruction needs."""

    THREAD = 1
    WARP = _LANES
    WARPGROUP = _LANES * _WARPS


def needs(binding: Binding) -> Needs:
    """Return the smallest group that can execute an instruction together."""
    opcode, modifiers = binding.match.form.opcode, binding.match.spelling
    if opcode in ("wgmma", "setmaxnreg"):
        return Needs.WARPGROUP
    masked = opcode in _MASKED or (opcode == "bar" and "warp" in modifiers)
    if masked:
        whole = any(operand == Immediate(_FULL) for operand in binding.fitted)
        return Needs.WARP if whole else Needs.THREAD
    # bar is barrier.cta.aligned by another name.
    return Needs.WARP if opcode == "bar" or "aligned" in modifiers else Needs.THREAD


def issued_by_one(binding: Binding) -> bool:
    """Return True if one thread issues the instruction for all others: each further thread repeats it."""
    opcode, modifiers = binding.match.form.opcode, binding.match.spelling
    if opcode == "tcgen05":
        return modifiers[0] in _ISSUED
    if opcode == "cp":
        return "bulk" in modifiers and not _GROUPS_OF_COPIES & set(modifiers)
    if opcode == "clusterlaunchcontrol":
        return modifiers[0] == "try_cancel"
    return opcode == "mbarrier" and modifiers[0] in ("init", "inval")


class Group:
    """A block that a group of threads executes. Made by the functions of this module, used with ``with``.

    Attributes:
        threads: number of threads: 1, or a multiple of 32.
        needs: what instructions in the block may need.
    """

    def __init__(
        self,
        warp: Reg,
        first: int,
        threads: int,
        *,
        elected: bool = False,
        inc: int | None = None,
        dec: int | None = None,
    ) -> None:
        if inc is not None and dec is not None:
            raise SpecError(f"inc is {inc} and dec is {dec}: a group takes registers or gives them back")
        self.threads = 1 if elected else threads
        whole = first % _WARPS == 0 and threads % Needs.WARPGROUP == 0
        self.needs = Needs.THREAD if elected else Needs.WARPGROUP if whole else Needs.WARP
        if (inc is not None or dec is not None) and self.needs is not Needs.WARPGROUP:
            raise SpecError(
                f"setmaxnreg in a group of {threads} threads from warp {first} on: expected whole "
                "warpgroups, which begin at a multiple of 128 threads",
                see="miscellaneous-instructions-setmaxnreg",
            )
        self._warp, self._first, self._warps = warp, first, threads // _LANES
        self._elected, self._inc, self._dec = elected, inc, dec
        self._open: list[if_] = []
        self._trace: Trace = current()
        self._depth = 0

    def __repr__(self) -> str:
        return f"<group of {self.threads} threads from warp {self._first} on>"

    def __enter__(self) -> Group:
        warp, first, count = self._warp, self._first, self._warps
        if count == 1:
            mine = warp == first
        elif count == _WARPS and first % _WARPS == 0:
            mine = (warp >> 2) == first // _WARPS
        else:
            mine = (warp - first if first else warp) < count
        self._enter(mine)
        if self._inc is not None:
            ptx.setmaxnreg.inc(self._inc)
        if self._dec is not None:
            ptx.setmaxnreg.dec(self._dec)
        if self._elected:
            self._enter(ptx.warp.elect())
        self._depth = len(self._trace.regions)
        self._trace.refusals.append(self._check)
        return self

    def _enter(self, condition: Reg) -> None:
        block = if_(condition)
        block.__enter__()
        self._open.append(block)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._trace.refusals.remove(self._check)
        while self._open:
            self._open.pop().__exit__(kind, error, traceback)

    def _check(self, binding: Binding, guard: Guard | None) -> None:
        """Raise :class:`InstructionError` for an instruction that the group cannot execute."""
        wanted = needs(binding)
        if wanted > self.needs:
            what = "a whole warpgroup" if wanted is Needs.WARPGROUP else "all lanes of a warp"
            raise InstructionError(
                f"{binding.match.form.opcode}.{'.'.join(binding.match.spelling)} in {self!r}: "
                f"it needs {what}",
                hint=f"record it in kit.{'warp_group' if wanted is Needs.WARPGROUP else 'single_warp'}(...)",
            )
        if self.needs is Needs.THREAD or guard is not None or not issued_by_one(binding):
            return
        if all(region.condition is None for region in self._trace.regions[self._depth :]):
            raise InstructionError(
                f"{binding.match.form.opcode}.{'.'.join(binding.match.spelling)} in {self!r}: "
                f"each of the {self.threads} threads would issue it",
                hint="record it in kit.single_thread(...), or under ptx.if_(ptx.warp.elect())",
            )


def warp_index() -> Reg:
    """Return the number of this thread's warp in the CTA, a u32 register equal in all lanes.

    Records three instructions: a ``mov`` of ``%tid.x``, ``shr.u32`` and ``shfl.sync.idx``, which shows ptxas
    that the lanes agree.  For CTAs of one dimension.
    """
    return ptx.warp.shfl_idx(ptx.special.tid.x() >> 5, 0)


def _number(value: int, count: int = _LANES) -> int:
    """Return the number of a warp, or of another of ``count`` groups."""
    if type(value) is not int or not 0 <= value < count:
        raise SpecError(f"number is {value!r}: expected a number, 0..{count - 1}")
    return value


def single_thread(warp: Reg, number: int) -> Group:
    """Open a block for one elected lane of a warp. Records ``setp``, ``bra``, ``elect.sync`` and ``bra``.

    Args:
        warp: number of this thread's warp, :func:`warp_index`.
        number: number of the warp that has the role.

    Raises:
        SpecError: a number outside 0..31.

    PTX ISA: `#parallel-synchronization-and-communication-instructions-elect-sync`.
    """
    return Group(warp, _number(number), _LANES, elected=True)


def single_warp(warp: Reg, number: int) -> Group:
    """Open a block for one warp. Records ``setp`` and ``bra``.

    Args:
        warp: number of this thread's warp, :func:`warp_index`.
        number: number of the warp that has the role.

    Raises:
        SpecError: a number outside 0..31.
    """
    return Group(warp, _number(number), _LANES)


def warp_group(warp: Reg, number: int, *, inc: int | None = None, dec: int | None = None) -> Group:
    """Open a block for a warpgroup, four warps from a multiple of four on.

    Records ``shr.u32``, ``setp`` and ``bra``, and one ``setmaxnreg`` with ``inc`` or ``dec``.

    Watch out: ptxas honors ``setmaxnreg`` only in kernels with ``min_ctas_per_sm`` or ``max_registers``.

    Args:
        warp: number of this thread's warp, :func:`warp_index`.
        number: number of the warpgroup: 1 for warps 4..7.
        inc: registers that each thread takes (``setmaxnreg.inc``).
        dec: registers that each thread keeps (``setmaxnreg.dec``).

    Raises:
        SpecError: a number outside 0..7, or both ``inc`` and ``dec``.
        OperandError: registers that are no multiple of 8 in 24..256.

    PTX ISA: `#miscellaneous-instructions-setmaxnreg`.
    """
    return Group(warp, _WARPS * _number(number, _LANES // _WARPS), Needs.WARPGROUP, inc=inc, dec=dec)


def thread_group(
    warp: Reg, first: int, count: int, *, inc: int | None = None, dec: int | None = None
) -> Group:
    """Open a block for ``count`` threads from thread ``first`` on, whole warps.

    Records a ``sub.u32`` unless ``first`` is 0 or one warp or warpgroup was asked for (:func:`single_warp`,
    :func:`warp_group`), ``setp`` and ``bra``, and one ``setmaxnreg`` with ``inc`` or ``dec``.

    Args:
        warp: number of this thread's warp, :func:`warp_index`.
        first: number of the first thread, a multiple of 32.
        count: number of threads, a multiple of 32.
        inc, dec: as for :func:`warp_group`; then ``first`` and ``count`` are multiples of 128.

    Raises:
        SpecError: numbers that are no such multiples, or more than 1024 threads.
    """
    for name, value, least in (("first", first, 0), ("count", count, _LANES)):
        if type(value) is not int or value < least or value % _LANES:
            raise SpecError(f"{name} is {value!r}: expected a multiple of {_LANES}, at least {least}")
    if first + count > _LANES * _LANES:
        raise SpecError(f"{count} threads from {first} on: a CTA has at most {_LANES * _LANES}")
    return Group(warp, first // _LANES, count, inc=inc, dec=dec)
