"""mbarrier objects as Python integers, and scripts of instructions on them, line by line.

An object is what PTX ISA #parallel-synchronization-and-communication-instructions-mbarrier says: a phase, the
arrivals expected and pending, the bytes still to come.  How the four lie in a state, and that lanes which
do the same to one object get one state, are an H200's (the manual leaves both open).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Phases", "outputs"]

_COUNT = 1 << 20


class Phases:
    """One object."""

    def __init__(self, expected: int, phase: int = 0) -> None:
        assert 0 < expected < _COUNT
        self.expected = self.pending = expected
        self.tx, self.phase = 0, phase

    def state(self, arrived: int = 0) -> int:
        """Parity, the pending count negated in 20 bits, the upper 10 of the 21 bits of the bytes negated."""
        pending, tx = -(self.pending - arrived) % _COUNT, -self.tx % (2 * _COUNT)
        return (self.phase & 1) << 63 | pending << 43 | tx >> 11 << 32

    def expect(self, nbytes: int) -> None:
        """Bytes to come; a negative number of bytes that came."""
        self.tx += nbytes
        assert abs(self.tx) < _COUNT
        self._complete()

    def arrive(self, count: int, *, drop: bool = False) -> None:
        assert 1 <= count <= self.pending
        self.pending -= count
        self.expected -= count * drop
        self._complete()

    def _complete(self) -> None:
        if not self.pending and not self.tx:
            self.phase += 1
            self.pending = self.expected

    def completed(self, parity: int) -> bool:
        """Whether the phase of this parity is the one before the current one."""
        return (self.phase - 1) & 1 == parity


def pending_of(state: int) -> int:
    return -(state >> 43) % _COUNT or _COUNT


_LINE = re.compile(r"(?:@(!?)(%p\d+)\s+)?([\w.:]+)\s*(.*?);")
#: Two numbers of an instruction that computes.
_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "and.b32": lambda a, b: a & b,
    "and.b64": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
    "rem.u32": lambda a, b: a % b,
    "setp.eq.u32": lambda a, b: int(a == b),
    "setp.ne.u32": lambda a, b: int(a != b),
    "setp.gt.u32": lambda a, b: int(a > b),
    "setp.lt.u32": lambda a, b: int(a < b),
    "mapa.shared::cluster.u32": lambda a, b: a & 0xFFFFFF | b << 24,
}
_MOVES = ("mov", "cvt", "cvta")


class _Script:
    """Straight-line code of one warp in each CTA; all CTAs do a line before any does the next."""

    def __init__(self, threads: int, ctas: int, words: int) -> None:
        self.threads, self.ctas = threads, ctas
        self.memory: dict[int, Any] = {}
        self.out = np.zeros(words, np.uint64)
        self.registers: dict[str, dict[int, int]] = {}
        everyone = range(threads * ctas)
        self.special = {
            "%lane": {i: i % threads for i in everyone},
            "%index": {i: i for i in everyone},
            "%out": dict.fromkeys(everyone, 0),
            "%cluster_ctarank": {i: i // threads for i in everyone},
            "bars": {i: i // threads << 24 for i in everyone},
        }

    def value(self, operand: str, thread: int) -> int:
        operand = operand.strip()
        if operand in self.special:
            return self.special[operand][thread]
        return self.registers[operand][thread] if operand.startswith("%") else int(operand, 0)

    def address(self, operand: str, thread: int) -> int:
        register, _, offset = operand.strip(" []").partition("+")
        return self.value(register, thread) + int(offset or "0")

    def put(self, register: str, thread: int, value: int) -> None:
        if register.strip() != "_":
            self.registers.setdefault(register.strip(), {})[thread] = value % (1 << 64)

    def line(self, text: str) -> None:
        found = _LINE.fullmatch(text.strip())
        assert found, text
        negated, guard, opcode, rest = found.groups()
        operands = [one.strip() for one in rest.split(",")] if rest else []
        everyone = range(self.threads * self.ctas)
        active = [i for i in everyone if not guard or bool(self.value(guard, i)) != bool(negated)]
        kind = opcode.split(".")[0]
        if opcode.startswith("mbarrier."):
            for first in range(0, len(everyone), self.threads):
                self.barrier(opcode, operands, [i for i in active if first <= i < first + self.threads])
        elif kind in ("bar", "barrier", "fence"):
            return
        else:
            for thread in active:
                self.compute(opcode, kind, operands, thread)

    def compute(self, opcode: str, kind: str, operands: list[str], thread: int) -> None:
        if kind == "st":
            if ".global" in opcode:
                self.out[self.address(operands[0], thread) // 8] = self.value(operands[1], thread)
            else:
                self.memory[self.address(operands[0], thread)] = self.value(operands[1], thread)
            return
        numbers: list[int] = []
        if kind == "ld":
            result = self.memory[self.address(operands[1], thread)]
        elif kind in _MOVES:
            result = self.value(operands[1], thread)
        else:
            numbers = [self.value(one, thread) for one in operands[1:]]
            if kind == "mad":
                result = numbers[0] * numbers[1] + numbers[2]
            elif kind == "selp":
                result = numbers[0] if numbers[2] else numbers[1]
            else:
                result = _NUMBERS[opcode](*numbers)
        self.put(operands[0], thread, result)

    def barrier(self, opcode: str, operands: list[str], lanes: list[int]) -> None:
        name = opcode.split(".")[1]
        if name == "pending_count":
            for lane in lanes:
                self.put(operands[0], lane, pending_of(self.value(operands[1], lane)))
        elif name in ("init", "inval", "expect_tx", "complete_tx"):
            for lane in lanes:
                where = self.address(operands[0], lane)
                if name == "init":
                    self.memory[where] = Phases(self.value(operands[1], lane))
                elif name == "inval":
                    del self.memory[where]
                else:
                    sign = 1 if name == "expect_tx" else -1
                    self.memory[where].expect(sign * self.value(operands[1], lane))
        elif name in ("test_wait", "try_wait"):
            for lane in lanes:
                asked = self.value(operands[2], lane)
                parity = asked & 1 if ".parity" in opcode else asked >> 63
                self.put(
                    operands[0], lane, int(self.memory[self.address(operands[1], lane)].completed(parity))
                )
        else:
            assert name in ("arrive", "arrive_drop"), opcode
            self.arrivals(opcode, operands, lanes)

    def arrivals(self, opcode: str, operands: list[str], lanes: list[int]) -> None:
        if operands[0].startswith("["):
            operands = ["_", *operands]
        with_bytes = ".expect_tx" in opcode
        asked = [
            (
                lane,
                self.address(operands[1], lane),
                self.value(operands[2], lane) if len(operands) > 2 else 1,
            )
            for lane in lanes
        ]
        before = {where: self.memory[where].state() for _, where, _ in asked}
        if ".noComplete" in opcode:
            # In the lower half, the lanes that do the same; each a state of its own, in their order.
            for where, count in dict.fromkeys((where, count) for _, where, count in asked):
                together = [lane for lane, *same in asked if same == [where, count]]
                mask = sum(1 << lane % self.threads for lane in together)
                for earlier, lane in enumerate(together):
                    self.put(operands[0], lane, self.memory[where].state(earlier * count) | mask)
                for _ in together:
                    self.take(where, count, opcode)
            return
        for lane, where, _ in asked:
            self.put(operands[0], lane, before[where])
        if with_bytes:
            for _, where, number in asked:
                self.memory[where].expect(number)
        for _, where, number in asked:
            self.take(where, 1 if with_bytes else number, opcode)

    def take(self, where: int, count: int, opcode: str) -> None:
        self.memory[where].arrive(count, drop="arrive_drop" in opcode)


def outputs(lines: Sequence[str], threads: int, rows: int, ctas: int = 1) -> NDArray[np.uint64]:
    """What the lines leave in ``out``: ``rows`` words of each thread."""
    script = _Script(threads, ctas, rows * threads * ctas)
    for line in lines:
        for one in line.splitlines():
            if one.strip():
                script.line(one)
    return script.out
