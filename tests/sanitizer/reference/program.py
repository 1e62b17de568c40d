"""Small kernels as data: what each thread executes, instruction by instruction, with concrete operands.

A program has one or two CTAs, mostly of one cluster.  The code of a warp is a list of statements, and a statement is one
instruction with the lanes that execute it.  :mod:`.printing` prints a program as PTX, :mod:`.execution` finds out
what each wait waits for, and :mod:`.reference` judges it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

__all__ = ["Buffer", "Instruction", "Operand", "Program", "Statement", "Thread"]

#: CTA, warp, lane.
Thread = tuple[int, int, int]


@dataclass(frozen=True)
class Buffer:
    """Bytes in global memory, or in the shared memory of every CTA of the cluster.

    Attributes:
        space: ``"global"`` or ``"shared"``.
        size: bytes.
    """

    name: str
    space: str
    size: int


@dataclass(frozen=True)
class Operand:
    """An address.

    Attributes:
        name: a buffer or an mbarrier.
        offset: bytes from its start, for the first lane of the statement.
        rank: the CTA whose shared memory is meant; None for the own CTA and for global memory.
        stride: bytes from one lane of the statement to the next.
    """

    name: str
    offset: int = 0
    rank: int | None = None
    stride: int = 0


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        op: the operation, one of :data:`tests.sanitizer.reference.printing.TEMPLATES`.
        sem: ``.weak``, ``.relaxed``, ``.acquire`` ... without the dot, or empty for the default.
        scope: ``cta``, ``cluster``, ``gpu``, ``sys``, or empty for the default.
        to: the address that is accessed, or the destination of a copy.
        source: the source of a copy.
        mbarrier: the mbarrier that is used or signaled.
        size: bytes of one element (of a copy: bytes in all).
        vector: elements.
        value: what a store or an atomic writes or adds, or the value that a polling load waits for.
        number: named barrier, count of arrivals, parity, groups that may be pending, mask of CTAs or of lanes.
        threads: the thread count of a named barrier.
        qualifier: the state space of a proxy fence, ``read`` of a wait for bulk groups, ``noinc``, or ``tensor``
            for a bulk copy that goes through a tensor map.
        bytes: bytes that an mbarrier is told to expect.
    """

    op: str
    sem: str = ""
    scope: str = ""
    to: Operand | None = None
    source: Operand | None = None
    mbarrier: Operand | None = None
    size: int = 4
    vector: int = 1
    value: int = 0
    number: int = 0
    threads: int = 0
    qualifier: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Statement:
    """An instruction and the lanes that execute it together; no lanes means the whole warp, converged.

    Attributes:
        loop: the loop that it belongs to, or 0.  The code has the statements of all turns one after the other, equal
            but for parities; the text has them once.
        turn: the turn of the loop.
    """

    instruction: Instruction
    lanes: tuple[int, ...] = ()
    loop: int = 0
    turn: int = 0


@dataclass
class Program:
    """A kernel of one or two CTAs.

    Attributes:
        ctas: CTAs, 1 or 2.
        warps: warps of each CTA.
        buffers: the buffers by name; global ones hold zeros at the start.
        mbarriers: names of mbarriers; each CTA has its own.
        code: the statements of each (CTA, warp).
        apart: whether two CTAs are in clusters of their own; else they are one cluster.
    """

    ctas: int
    warps: int
    buffers: dict[str, Buffer] = field(default_factory=dict)
    mbarriers: list[str] = field(default_factory=list)
    code: dict[tuple[int, int], list[Statement]] = field(default_factory=dict)
    apart: bool = False

    def statements(self) -> Iterator[tuple[tuple[int, int], int, Statement]]:
        """All statements as (CTA, warp), position in the warp's code, statement: in the order of the text."""
        for warp, statements in sorted(self.code.items()):
            for position, statement in enumerate(statements):
                yield warp, position, statement

    def active_lanes(self, warp: tuple[int, int]) -> tuple[int, ...]:
        """The lanes of a warp that do more than take part in what the whole warp executes."""
        lanes = {lane for statement in self.code.get(warp, ()) for lane in statement.lanes}
        return tuple(sorted(lanes)) or (0,)

    def threads(self) -> list[Thread]:
        """All active threads."""
        return [
            (cta, warp, lane)
            for cta in range(self.ctas)
            for warp in range(self.warps)
            for lane in self.active_lanes((cta, warp))
        ]

    def without(self, warp: tuple[int, int], position: int) -> Program:
        """A copy that lacks one statement."""
        code = dict(self.code)
        code[warp] = [s for n, s in enumerate(code[warp]) if n != position]
        return replace(self, code=code)
