"""Small programs of a few threads on a few shared words: as kernels, and run in every order by an interpreter.

The interpreter shares nothing with the simulator: it tries all interleavings of the instructions, one state
after the other.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.sim.build import Kernel

__all__ = ["Outcomes", "Program", "random_barriers", "random_program"]

#: One instruction: its name and numbers.
Step = tuple[str, int, int, int]
#: Shared words, and registers of each thread.
CELLS, REGISTERS = 3, 3


@dataclass(frozen=True)
class Outcomes:
    """The words at the end: shared ones, then the registers of all threads. And whether a thread may hang."""

    ends: frozenset[tuple[int, ...]]
    hangs: bool


@dataclass(frozen=True)
class Program:
    """A program: the instructions of each thread.

    ``st c v 0``: store v. ``str c r 0``: store register r. ``ld c r 0``: load. ``add c v r``, ``exch c v r``:
    atomic, the old value to r. ``red c v 0``: add without a result. ``cas c v r``: 0 becomes v, the old
    value to r. ``poll c v r``: load into r until the word is v. ``lock c 0 0``: 0 becomes 1, or again.
    ``either c v d``, ``both c v d``: read c and then d, again and again, until one is v, or both are.
    ``if r v n``: skip n instructions if the register is not v. ``arrive b 0 0``, ``expect b n 0``,
    ``complete b n 0``: operations on an mbarrier; ``wait b p 0``, ``test b p 0``: wait for a phase of parity
    p. Such a program has ``counts``, the arrivals that a phase of each barrier expects.
    """

    threads: tuple[tuple[Step, ...], ...]
    counts: tuple[int, ...] = ()

    # --- every order ----------------------------------------------------------------------------

    def outcomes(self) -> Outcomes:
        """Run all orders."""
        count = len(self.threads)
        barriers = tuple((0, expected, 0) for expected in self.counts)
        start = ((0,) * count, (0,) * CELLS, ((0,) * REGISTERS,) * count, barriers)
        seen, pending = {start}, [start]
        ends: set[tuple[int, ...]] = set()
        hangs = False
        before: dict[object, list[object]] = {}
        last: list[object] = []
        while pending:
            state = pending.pop()
            places, cells, registers, _ = state
            after = []
            for thread in range(count):
                try:
                    after.append(self._step(state, thread))
                except OverflowError:
                    hangs = True
            if all(place >= len(code) for place, code in zip(places, self.threads, strict=True)):
                ends.add((*cells, *(value for each in registers for value in each)))
                last.append(state)
            for new in after:
                if new is not None:
                    before.setdefault(new, []).append(state)
                    if new not in seen:
                        seen.add(new)
                        pending.append(new)
        # A state hangs if no way leads from it to an end.
        ending = set(last)
        while last:
            for state in before.get(last.pop(), []):
                if state not in ending:
                    ending.add(state)
                    last.append(state)
        return Outcomes(frozenset(ends), hangs or len(ending) < len(seen))

    def _step(self, state, thread: int):  # type: ignore[no-untyped-def]
        """The state after one instruction of a thread; None if it cannot go on."""
        places, cells, registers, barriers = state
        code, place = self.threads[thread], places[thread]
        if place >= len(code):
            return None
        name, a, b, c = code[int(place)]
        words, own, place = list(cells), list(registers[thread]), place + 1
        if name == "st":
            words[a] = b
        elif name == "str":
            words[a] = own[b]
        elif name == "ld":
            own[b] = words[a]
        elif name == "red":
            words[a] += b
        elif name == "add":
            own[c], words[a] = words[a], words[a] + b
        elif name == "exch":
            own[c], words[a] = words[a], b
        elif name == "cas":
            own[c] = words[a]
            words[a] = b if words[a] == 0 else words[a]
        elif name == "poll":
            if words[a] != b:
                return None
            own[c] = b
        elif name == "lock":
            if words[a]:
                return None
            words[a] = 1
        elif name == "if":
            place += 0 if own[a] == b else c
        elif name == "either":
            if b not in (words[a], words[c]):
                return None
        elif name == "both":
            # The second read is a transition of its own: before it, the place is between two instructions.
            if place == int(place):
                if words[a] != b:
                    return None
                place -= 0.5
            else:
                place -= 0.5 if words[c] == b else 1.5
        elif name in ("wait", "test"):
            if barriers[a][0] % 2 == b:
                return None
        else:
            changed = self._operate(name, *barriers[a], self.counts[a], b)
            barriers = (*barriers[:a], changed, *barriers[a + 1 :])
        return (
            (*places[:thread], place, *places[thread + 1 :]),
            tuple(words),
            (*registers[:thread], tuple(own), *registers[thread + 1 :]),
            barriers,
        )

    @staticmethod
    def _operate(
        name: str, phase: int, pending: int, tx: int, expected: int, nbytes: int
    ) -> tuple[int, int, int]:
        """The phase, the pending arrivals and the pending bytes of a barrier after an operation."""
        if name == "arrive":
            if not pending:
                raise OverflowError
            pending -= 1
        else:
            tx += nbytes if name == "expect" else -nbytes
        return (phase, pending, tx) if pending or tx else (phase + 1, expected, 0)

    # --- the kernel -----------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """A kernel whose CTAs of one thread are the threads. Its array has the words of an outcome.

        With mbarriers, the first lanes of one CTA's warps are the threads.
        """
        lines = [".reg u32 c old", ".reg pred p"]
        if self.counts:
            lines.insert(0, f".shared b64 bars[{len(self.counts)}] 8")
        lines += [f".reg u32 {' '.join(f'r{number}' for number in range(REGISTERS))}", "mov.u32 c, %ctaid.x"]
        lines += [f"mov.u32 r{number}, 0" for number in range(REGISTERS)]
        if self.counts:
            lines += ["mov.u32 c, %tid.x", "setp.ne.u32 p, c, 0", "@p bra READY"]
            lines += [
                f"mbarrier.init.shared::cta.b64 [bars+{8 * n}], {each}" for n, each in enumerate(self.counts)
            ]
            lines += ["READY:", "bar.sync 0", "and.b32 old, c, 31", "setp.ne.u32 p, old, 0", "@p bra LEAVE"]
            lines += ["shr.u32 c, c, 5"]
        for thread in range(1, len(self.threads)):
            lines += [f"setp.eq.u32 p, c, {thread}", f"@p bra T{thread}"]
        for thread, code in enumerate(self.threads):
            lines.append(f"T{thread}:")
            for place, step in enumerate(code):
                lines.append(f"T{thread}_{place}:")
                lines += self._lines(thread, place, step)
            lines.append(f"T{thread}_{len(code)}:")
            first = 4 * (CELLS + REGISTERS * thread)
            lines += [f"st.global.u32 [out+{first + 4 * n}], r{n}" for n in range(REGISTERS)]
            lines.append("ret")
        lines += ["LEAVE:", "ret"]
        return Kernel("\n".join(lines), "out:u64", racy=True)

    def _lines(self, thread: int, place: int, step: Step) -> list[str]:
        name, a, b, c = step
        word = f"[out+{4 * a}]"
        how = "relaxed.gpu.global"
        here = f"T{thread}_{place}"
        barrier = f"[bars+{8 * a}]"
        if name in ("arrive", "expect", "complete", "wait", "test"):
            return {
                "arrive": [f"mbarrier.arrive.shared::cta.b64 _, {barrier}"],
                "expect": [f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {barrier}, {b}"],
                "complete": [f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 {barrier}, {b}"],
                "wait": [f"mbarrier.try_wait.parity.shared::cta.b64 p, {barrier}, {b}", f"@!p bra {here}"],
                "test": [f"mbarrier.test_wait.parity.shared::cta.b64 p, {barrier}, {b}", f"@!p bra {here}"],
            }[name]
        return {
            "st": [f"st.{how}.u32 {word}, {b}"],
            "str": [f"st.{how}.u32 {word}, r{b}"],
            "ld": [f"ld.{how}.u32 r{b}, {word}"],
            "red": [f"red.{how}.add.u32 {word}, {b}"],
            "add": [f"atom.{how}.add.u32 r{c}, {word}, {b}"],
            "exch": [f"atom.{how}.exch.b32 r{c}, {word}, {b}"],
            "cas": [f"atom.{how}.cas.b32 r{c}, {word}, 0, {b}"],
            "poll": [f"ld.{how}.u32 r{c}, {word}", f"setp.ne.u32 p, r{c}, {b}", f"@p bra {here}"],
            "either": [
                *(f"ld.{how}.u32 old, {word}", f"setp.eq.u32 p, old, {b}", f"@p bra T{thread}_{place + 1}"),
                *(f"ld.{how}.u32 old, [out+{4 * c}]", f"setp.ne.u32 p, old, {b}", f"@p bra {here}"),
            ],
            "both": [
                *(f"ld.{how}.u32 old, {word}", f"setp.ne.u32 p, old, {b}", f"@p bra {here}"),
                *(f"ld.{how}.u32 old, [out+{4 * c}]", f"setp.ne.u32 p, old, {b}", f"@p bra {here}"),
            ],
            "lock": [f"atom.{how}.cas.b32 old, {word}, 0, 1", "setp.ne.u32 p, old, 0", f"@p bra {here}"],
            "if": [f"setp.ne.u32 p, r{a}, {b}", f"@p bra T{thread}_{place + 1 + c}"],
        }[name]


def random_program(seed: int) -> Program:
    """A program of two or three threads with one to four instructions each."""
    chance = random.Random(seed)
    count = chance.choice((2, 2, 3))
    threads = []
    for _ in range(count):
        length = chance.randint(1, 4 if count == 2 else 3)
        code: list[Step] = []
        for place in range(length):
            cell, value = chance.randrange(CELLS - 1), chance.randint(1, 2)
            register = chance.randrange(REGISTERS)
            name = chance.choice(
                (
                    "st",
                    "str",
                    "ld",
                    "ld",
                    "red",
                    "add",
                    "exch",
                    "cas",
                    "poll",
                    "lock",
                    "st",
                    "if",
                    "either",
                    "both",
                )
            )
            if name == "st":
                code.append((name, cell, chance.randint(0, 2), 0))
            elif name in ("str", "ld"):
                code.append((name, cell, register, 0))
            elif name in ("either", "both"):
                code.append((name, cell, value, 1 - cell))
            elif name == "if":
                code.append((name, register, chance.randint(0, 1), chance.randint(0, length - 1 - place)))
            else:
                code.append((name, cell, value, register))
        threads.append(tuple(code))
    return Program(tuple(threads))


def random_barriers(seed: int) -> Program:
    """A program of two or three threads that meet at one or two mbarriers, rightly or not."""
    chance = random.Random(f"{seed}: barriers")
    count = chance.choice((2, 2, 3))
    counts = tuple(chance.randint(1, count) for _ in range(chance.choice((1, 2))))
    bytes_too = chance.random() < 0.3
    threads = []
    for _ in range(count):
        code: list[Step] = []
        for _ in range(chance.randint(2, 5 if count == 2 else 4)):
            barrier, cell = chance.randrange(len(counts)), chance.randrange(2)
            names = ["arrive", "arrive", "wait", "wait", "test", "st", "ld"]
            name = chance.choice(names + ["expect", "complete"] * bytes_too)
            if name == "st":
                code.append((name, cell, chance.randint(1, 2), 0))
            elif name == "ld":
                code.append((name, cell, chance.randrange(REGISTERS), 0))
            elif name in ("wait", "test"):
                code.append((name, barrier, chance.randint(0, 1), 0))
            else:
                code.append((name, barrier, 8 if name != "arrive" else 0, 0))
        threads.append(tuple(code))
    return Program(tuple(threads), counts)
