"""Writes programs: the statements of each warp in order, buffers and mbarriers by need, and what all programs share."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from .program import Buffer, Instruction, Operand, Program, Statement, Thread

__all__ = ["Builder"]

#: Bytes that one store of the initialization writes.
_WIDE = 16


class Builder:
    """A program in the making.

    The program begins with the initialization of its mbarriers and of the shared buffers that ask for it, then one
    barrier of the CTA or of the cluster.  It ends with waits for the copies in flight and, in a cluster, one more
    barrier.

    Args:
        chance: the random numbers.
        ctas, warps: the size of the cluster.
        flaws: the probability with which :meth:`flaw` says yes.
        apart: whether two CTAs are in clusters of their own.
    """

    def __init__(
        self, chance: random.Random, ctas: int, warps: int, flaws: float, *, apart: bool = False
    ) -> None:
        self.chance = chance
        self.ctas = ctas
        self.warps = warps
        self.flaws = flaws
        #: Whether the CTAs begin without a barrier of the cluster.
        self.alone = apart or (ctas > 1 and chance.random() < flaws)
        #: Whether there is another CTA in the cluster.
        self.linked = ctas > 1 and not apart
        self.program = Program(ctas, warps, apart=apart)
        self._code: dict[tuple[int, int], list[Statement]] = {
            (cta, warp): [] for cta in range(ctas) for warp in range(warps)
        }
        self._counts: dict[str, int] = {}
        self._cleared: list[str] = []
        self._storing: set[Thread] = set()
        self._named = 0
        self._loops = 0
        #: The loop and the turn that :meth:`emit` writes; 0 outside of loops.
        self.loop = self.turn = 0

    def flaw(self, factor: float = 1.0) -> bool:
        """Whether to do the next thing wrongly."""
        return self.chance.random() < self.flaws * factor

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    # Memory.

    def shared(self, size: int, *, clear: bool = False) -> str:
        """A new shared buffer; ``clear`` stores zeros to it at the start."""
        name = f"s{sum(b.space == 'shared' for b in self.program.buffers.values())}"
        self.program.buffers[name] = Buffer(name, "shared", size)
        if clear:
            self._cleared.append(name)
        return name

    def global_(self, size: int) -> str:
        """A new global buffer of zeros."""
        name = f"g{sum(b.space == 'global' for b in self.program.buffers.values())}"
        self.program.buffers[name] = Buffer(name, "global", size)
        return name

    def mbarrier(self, count: int) -> str:
        """A new mbarrier in each CTA."""
        name = f"bar{len(self.program.mbarriers)}"
        self.program.mbarriers.append(name)
        self._counts[name] = count
        return name

    def named(self) -> int:
        """The number of an unused named barrier."""
        self._named += 1
        return self._named

    # Code.

    def turns(self, count: int) -> Iterator[int]:
        """The turns of a new loop; what is emitted meanwhile belongs to it."""
        self._loops += 1
        self.loop = self._loops
        for self.turn in range(count):
            yield self.turn
        self.loop = self.turn = 0

    def emit(self, thread: Thread, op: str, *, lanes: Sequence[int] = (), **fields: Any) -> None:
        """Append an instruction to the code of a thread, or of several lanes of its warp."""
        cta, warp, lane = thread
        if op.startswith(("bulk.store", "bulk.reduce")):
            self._storing.add(thread)
        statement = Statement(Instruction(op, **fields), tuple(lanes) or (lane,), self.loop, self.turn)
        self._code[cta, warp].append(statement)

    def together(self, cta: int, warp: int, op: str, **fields: Any) -> None:
        """Append an instruction that the whole warp executes."""
        self._code[cta, warp].append(Statement(Instruction(op, **fields)))

    def everywhere(self, op: str, **fields: Any) -> None:
        """Append an instruction that all warps execute."""
        for cta, warp in self._code:
            self.together(cta, warp, op, **fields)

    def bar_sync(self, cta: int, number: int = 0) -> None:
        for warp in range(self.warps):
            self.together(cta, warp, "bar.sync", number=number, threads=32 * self.warps)

    def finished(self) -> Program:
        """The program, with its start and its end."""
        starts = self._starts()
        for thread in sorted(self._storing):
            if not self.flaw(0.1):
                self.emit(thread, "bulk.commit")
                self.emit(thread, "bulk.wait", number=0)
        if self.linked and not self.flaw(0.6):
            self.everywhere("cluster.arrive", sem="relaxed" if self.flaw(0.3) else "")
            self.everywhere("cluster.wait")
        for warp, code in self._code.items():
            self.program.code[warp] = [*starts[warp], *code]
        return self.program

    def _starts(self) -> dict[tuple[int, int], list[Statement]]:
        """The initialization, and the barrier after it."""
        starts: dict[tuple[int, int], list[Statement]] = {warp: [] for warp in self._code}
        for cta in range(self.ctas):
            code = starts[cta, 0]
            for name in self._cleared:
                buffer = self.program.buffers[name]
                for offset in range(0, buffer.size, _WIDE):
                    to = Operand(name, offset)
                    code.append(Statement(Instruction("st", to=to, vector=_WIDE // 4), (0,)))
            if self._cleared and not self.flaw(0.1):
                code.append(Statement(Instruction("fence.proxy.async"), (0,)))
            for name, count in self._counts.items():
                code.append(
                    Statement(Instruction("mbarrier.init", mbarrier=Operand(name), number=count), (0,))
                )
        light = self.ctas > 1 and not self._cleared and self.maybe(0.7)
        fenced = not self.flaw(0.8)
        for (_, warp), code in starts.items():
            if light and self._counts and warp == 0 and fenced:
                code.append(Statement(Instruction("fence.mbarrier_init"), (0,)))
            if self.linked and not self.alone:
                code.append(Statement(Instruction("cluster.arrive", sem="relaxed" if light else "")))
                code.append(Statement(Instruction("cluster.wait")))
            else:
                code.append(Statement(Instruction("bar.sync", threads=32 * self.warps)))
        return starts
