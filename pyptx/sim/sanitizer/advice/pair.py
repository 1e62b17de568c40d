"""The two accesses of a finding together, and the spelling of what orders them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from ....core.records import dataclass
from ....core.remedies import Edit, Place, Remedy
from ....core.source import SourceLocation
from ....ir import Instruction
from ...engine.stream import Sync
from ...memory.access import StateSpace
from ..synchronization import ARRIVALS
from .code import Code
from .history import Moment
from .sides import Side, place

__all__ = [
    "CLUSTER",
    "CTA",
    "WAIT_LD",
    "WAIT_ST",
    "WARP",
    "Advice",
    "Handover",
    "Pair",
    "flip",
    "insert",
    "opcode_of",
    "replacing",
    "swapped",
]

#: Why two accesses break a rule, and what mends the kernel.
Advice = tuple[str, Remedy]

#: Calls of the DSL, and their instructions.
WARP = ("ptx.warp.sync()", "bar.warp.sync 0xffffffff;")
CTA = ("ptx.bar.sync(0)", "bar.sync 0;")
CLUSTER = (
    "ptx.cluster.sync(aligned=True)",
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
)
WAIT_LD = ("ptx.tcgen05.wait_ld()", "tcgen05.wait::ld.sync.aligned;")
WAIT_ST = ("ptx.tcgen05.wait_st()", "tcgen05.wait::st.sync.aligned;")


@dataclass(frozen=True)
class Handover:
    """Where the first threads must do something before they let the second ones go on.

    Attributes:
        text: for an advice. where: before or after the line. location: the line.
    """

    text: str
    where: Place
    location: SourceLocation | None

    def edit(self, ptx: str) -> Edit | None:
        """Return the edit that puts an instruction there."""
        return insert(ptx, self.where, self.location)


@dataclass(frozen=True, eq=False)
class Pair:
    """The earlier and the later access.

    Attributes:
        space: the state space of the bytes.
        sent: True if a ``tcgen05.fence::before_thread_sync`` stands behind the first access.
        code: the kernel.
        named: returns the name of an mbarrier in texts and in addresses, given its key.
    """

    first: Side
    second: Side
    space: StateSpace
    sent: bool
    code: Code
    named: Callable[[Hashable], tuple[str, str]]

    def name(self, barrier: Hashable) -> str:
        """Return the name of an mbarrier: ``full[1]``."""
        return self.named(barrier)[0]

    def address(self, barrier: Hashable) -> str:
        """Return the address of an mbarrier in PTX: ``full+8``."""
        return self.named(barrier)[1]

    @property
    def between(self) -> str:
        """Where a barrier goes in, for a text."""
        if self.first.location == self.second.location:
            return f"between two executions of {self.first.at}"
        return f"after {self.first.at} and before {self.second.at}"

    @property
    def same_warp(self) -> bool:
        return self.first.cta is self.second.cta and self.first.warp == self.second.warp >= 0

    def handover(self, *, by_warp: bool = False) -> Handover:
        """Return where the first threads must act, or any thread of their warp acts for all (``by_warp``)."""
        first, second = self.first, self.second
        if by_warp and self.same_warp:
            return Handover(f"before {second.at}", Place.BEFORE, second.location)
        arrivals = [sync.location for sync in self._arrivals() if sync.location is not None]
        if arrivals:
            limit = self.code.tensor_fence(first.location, arrivals[0]) if by_warp else None
            limit = limit or arrivals[0]
            their = "where they synchronize"
            if limit is not arrivals[0]:
                their = f"ahead of their synchronization at {place(arrivals[0])}"
            text = f"after {first.at} and before {place(limit)}, {their}"
            return Handover(text, Place.BEFORE, limit)
        if first.near and first.threads == second.threads:
            return Handover(f"before {second.at}", Place.BEFORE, second.location)
        return Handover(f"after {first.at}", Place.AFTER, first.location)

    def _arrivals(self) -> list[Sync]:
        """Return the arrivals of the first threads between the accesses, as far as these are of one CTA."""
        found = self.first.after(*ARRIVALS)
        if not self.first.near or self.second.issue is None:
            return found
        before = self.first.history.before(self.first.cta.key, self.second.issue)
        earlier = {id(event.sync) for event in before if isinstance(event, Moment)}
        return [sync for sync in found if id(sync) in earlier]

    def barrier(self, call: tuple[str, str], who: str) -> Remedy:
        """Return the remedy that threads meet at a barrier, where all of them pass."""
        edit = None
        if self.code.all_pass(self.second.location):
            edit = insert(call[1], Place.BEFORE, self.second.location)
        elif self.code.all_pass(self.first.location):
            edit = insert(call[1], Place.AFTER, self.first.location)
        else:
            meeting = self.code.meeting(self.first.location, self.second.location)
            if meeting is not None and self.code.all_reach(meeting):
                edit = insert(call[1], Place.BEFORE, meeting)
        there = self.between if edit is None else f"{edit.place} {place(edit.location)}"
        return Remedy(f"let {who} meet {there}, where all of them pass", *call, edit)


def flip(code: Code, wait: SourceLocation | None, name: str, address: str, phase: int) -> Remedy:
    """Return the remedy for a wait with the parity of another phase than ``phase``.

    A parity in a register is flipped after each wait; a number is replaced.
    """
    parity = phase & 1
    register = code.parity(wait)
    if register is not None:
        text = register.name.lstrip("%")
        return Remedy(
            f"let each thread flip the parity after each wait for {name} at {place(wait)}: here it must be "
            f"{parity}, that of phase {phase}",
            f"{text} ^= 1",
            f"xor.b32 {register.name}, {register.name}, 1;",
        )
    return Remedy(
        f"wait at {place(wait)} with parity {parity}, that of phase {phase}; in a loop, each thread flips "
        f"the parity after each wait for {name}",
        f"ptx.mbarrier.wait({name}, {parity})",
        f"WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [{address}], {parity}; @!p bra WAIT;",
    )


def opcode_of(call: tuple[str, str]) -> str:
    """Return the instruction of a call, without its operands, for a text."""
    return call[1].partition(" ")[0].rstrip(";")


def insert(ptx: str, where: Place, location: SourceLocation | None) -> Edit | None:
    """Return the edit that puts an instruction at a line."""
    return None if location is None else Edit(ptx, where, location)


def swapped(instruction: Instruction, old: str, new: str) -> str:
    """Return the text of an instruction with one modifier in place of another."""
    return str(replace(instruction, modifiers=tuple(new if m == old else m for m in instruction.modifiers)))


def replacing(instruction: Instruction, text: str) -> Edit | None:
    """Return the edit that puts a text in place of an instruction."""
    if instruction.source is None:
        return None
    return Edit(text, Place.REPLACE, instruction.source, replaced=str(instruction))
