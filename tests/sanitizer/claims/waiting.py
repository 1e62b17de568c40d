"""Random kernels whose threads wait for words of memory: flags, counts and barriers of a grid, right or with one defect."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim
from tests.conformance.case import kernel

__all__ = ["Waiting", "random_waiting"]

_DEFECTS = ("few", "many", "relaxed", "late", "value", "skip", "once")
_MAX_STEPS = 200_000
#: Words are at the start of ``a``, one for each 64 bytes; data at byte 4096.
_DATA = 4096


@dataclass(frozen=True)
class Waiting:
    """One kernel, in which lane 0 of each warp is an agent.

    Attributes:
        pattern: what the agents do together.
        defect: what is wrong, or "".
    """

    pattern: str
    ctas: int
    warps: int
    rounds: int
    defect: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.pattern}-{self.ctas}x{self.warps}-{self.rounds}-{self.defect or 'right'}-{self.seed}"

    def text(self) -> str:
        """Return the PTX of the kernel."""
        return kernel(_Writer(self).text(), "a:u64 out:u64").text()

    def launch(self, loaded: sim.LoadedModule, **how: Any) -> tuple[sim.Report, list[NDArray[Any]]]:
        """Run the kernel with fresh arguments."""
        arrays = [np.zeros(_DATA // 4 + 256, np.uint32), np.zeros(self.ctas * self.warps * 32, np.uint32)]
        report = loaded.launch(
            grid=self.ctas, block=32 * self.warps, args=arrays, max_steps=_MAX_STEPS, timeout=20.0, **how
        )
        return report, arrays[1:]


class _Writer:
    """Writes the body of one kernel."""

    def __init__(self, waiting: Waiting) -> None:
        self._kernel, self._chance = waiting, Random(waiting.seed)
        self._labels = 0
        #: The place of the defect: the wait that has it.
        self._wrong = self._chance.randrange(2)
        self._waits = 0

    def text(self) -> str:
        begin = (
            "mov.u32 %r20, %ctaid.x;\n"
            f"mad.lo.u32 %r21, %r20, {self._kernel.warps}, %warp;\n"
            "mad.wide.u32 %d2, %index, 4, %out;\nmov.u32 %r22, 0;\nsetp.ne.u32 %p1, %lane, 0;\n"
            "setp.ne.u32 %p2, %thread, 0;\n"
        )
        body = {"chain": self._chain, "fan": self._fan, "barrier": self._barrier, "pong": self._pong}
        end = "st.global.u32 [%d2], %r22;\n"
        if self._kernel.pattern == "barrier":
            return begin + body["barrier"]() + end
        return begin + "@%p1 bra DONE;\n" + body[self._kernel.pattern]() + "DONE:\n" + end

    # --- patterns -------------------------------------------------------------------------------

    @property
    def _agents(self) -> int:
        return self._kernel.ctas * self._kernel.warps

    def _chain(self) -> str:
        """Agent i waits for its turn, reads what the one before wrote, and gives the turn on."""
        parts = []
        for turn in range(self._kernel.rounds):
            first = turn * self._agents
            parts.append(f"add.u32 %r23, %r21, {first};\n")
            parts.append(self._wait(0, "%r23", first))
            parts.append(self._get("%r23", -1) + self._put("%r23"))
            parts.append(
                self._chance.choice(
                    (
                        "add.u32 %r24, %r23, 1;\nst.release.gpu.global.u32 [%a], %r24;\n",
                        self._add(0, 1),
                        self._add(0, 1, "atom"),
                    )
                )
            )
        return "".join(parts)

    def _fan(self) -> str:
        """Some agents write and count, the others wait for all of them; then the other way round."""
        count = max(1, self._agents // 2)
        step, others = self._chance.choice((1, 1, 3)), self._agents - count
        parts = [f"setp.ge.u32 %p4, %r21, {count};\n"]
        for turn in range(self._kernel.rounds):
            need = step * count * (turn + 1)
            other = self._label()
            join = self._label()
            parts.append(f"@%p4 bra {other};\n")
            if turn:
                parts.append(self._wait(1, str(others * turn), 1))
            parts += [f"add.u32 %r23, %r21, {turn * 16};\n", self._put("%r23"), self._add(0, step)]
            parts.append(f"bra {join};\n{other}:\n" + self._wait(0, str(need), 1))
            parts += [self._get(str(turn * 16), number) for number in range(count)]
            parts.append(self._add(1, 1) + f"{join}:\n")
        return "".join(parts)

    def _pong(self) -> str:
        """Agents 0 and 1 hand one word to and fro; the others wait for its last value."""
        total = 2 * self._kernel.rounds
        last, one, end = self._label(), self._label(), self._label()
        parts = [f"setp.ge.u32 %p4, %r21, 2;\n@%p4 bra {last};\nsetp.eq.u32 %p4, %r21, 1;\n@%p4 bra {one};\n"]
        for turn in range(0, total, 2):
            parts.append(
                self._wait(0, str(turn), turn, exact=True) + self._get("0", 0) + self._put("0", turn)
            )
            parts.append(f"st.release.gpu.global.u32 [%a], {turn + 1};\n")
        parts.append(f"bra {end};\n{one}:\n")
        for turn in range(1, total, 2):
            parts.append(
                self._wait(0, str(turn), turn, exact=True) + self._get("0", 0) + self._put("0", turn)
            )
            parts.append(f"st.release.gpu.global.u32 [%a], {turn + 1};\n")
        parts.append(
            f"bra {end};\n{last}:\n" + self._wait(0, str(total), 1) + self._get("0", 0) + f"{end}:\n"
        )
        return "".join(parts)

    def _barrier(self) -> str:
        """Rounds of a barrier of the grid, between which each CTA reads what another one wrote."""
        kind = self._chance.choice(("count", "old", "bit", "flags"))
        ctas = self._kernel.ctas
        parts = []
        for turn in range(self._kernel.rounds):
            parts.append(f"add.u32 %r23, %r20, {16 * turn};\n@!%p2 mov.u32 %r25, 0;\n")
            here = self._label()
            parts.append(f"@%p2 bra {here};\n" + self._put("%r23") + f"{here}:\n")
            parts.append("bar.sync 0;\n")
            over = self._label()
            parts.append(f"@%p2 bra {over};\n" + self._meet(kind, turn) + f"{over}:\nbar.sync 0;\n")
            shift = self._chance.randrange(ctas)
            parts.append(
                f"add.u32 %r26, %r20, {shift};\nrem.u32 %r26, %r26, {ctas};\nadd.u32 %r26, %r26, {16 * turn};\n"
                + self._get("%r26", 0)
            )
        return "".join(parts)

    def _meet(self, kind: str, turn: int) -> str:
        ctas = self._kernel.ctas
        if kind == "flags":
            mine = f"mad.wide.u32 %d6, %r20, 64, %a;\nst.release.gpu.global.u32 [%d6], {turn + 1};\n"
            return mine + "".join(self._wait(number, str(turn + 1), 1) for number in range(ctas))
        if kind == "count":
            form = self._chance.choice(("red", "atom"))
            return self._add(0, 1, form) + self._wait(0, str(ctas * (turn + 1)), 1)
        again = self._label()
        load = f"{again}:\nld.acquire.gpu.global.u32 %r2, [%a];\n"
        if kind == "bit":
            big = 0x80000000 - (ctas - 1) + (self._kernel.defect == "few")
            return (
                f"setp.eq.u32 %p5, %r20, 0;\nselp.b32 %r4, {big}, 1, %p5;\n"
                f"atom.release.gpu.global.add.u32 %r1, [%a], %r4;\n{load}xor.b32 %r2, %r2, %r1;\n"
                f"and.b32 %r2, %r2, 0x80000000;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra {again};\n"
            )
        mask = 3 if self._kernel.defect != "few" else 1
        # With 4 or 2 arrivals in each round, all old counts of a round have the same upper bits.
        times = 4 // ctas if ctas in (2, 4) else 1
        return (
            f"atom.release.gpu.global.add.u32 %r1, [%a], {times};\nor.b32 %r1, %r1, {mask};\n{load}"
            f"setp.le.u32 %p3, %r2, %r1;\n@%p3 bra {again};\n"
        )

    # --- pieces ---------------------------------------------------------------------------------

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def _add(self, word: int, value: int, form: str = "red") -> str:
        defect = self._kernel.defect
        value += defect == "many" and self._wrong == 0
        order = "relaxed" if defect == "relaxed" and self._wrong == 0 else "release"
        result = "%r9, " if form == "atom" else ""
        return f"{form}.{order}.gpu.global.add.u32 {result}[%a+{64 * word}], {value};\n"

    def _put(self, where: str, value: int = 7) -> str:
        return (
            f"mov.u32 %r27, {where};\nmad.wide.u32 %d5, %r27, 4, %a;\nmad.lo.u32 %r28, %r21, 3, {value};\n"
            f"st.global.u32 [%d5+{_DATA + 64}], %r28;\n"
        )

    def _get(self, where: str, shift: int) -> str:
        if self._kernel.defect == "late" and self._wrong:
            shift += 1
        return (
            f"mov.u32 %r27, {where};\nmad.wide.u32 %d5, %r27, 4, %a;\n"
            f"ld.global.u32 %r28, [%d5+{_DATA + 64 + 4 * shift}];\nmad.lo.u32 %r22, %r22, 5, %r28;\n"
        )

    def _wait(self, word: int, value: str, least: int, *, exact: bool = False) -> str:
        """Wait until a word is at least ``value``; ``least`` is 0 if this is true from the beginning."""
        self._waits += 1
        defect = self._kernel.defect if (self._waits - 1) % 2 == self._wrong else ""
        if defect == "skip":
            return ""
        again = self._label()
        load = self._chance.choice(("ld.acquire.gpu.global.u32", "ld.acquire.sys.global.u32"))
        if defect == "relaxed":
            load = "ld.relaxed.gpu.global.u32"
        lower = f"sub.u32 %r29, {value}, 1;\n" if defect == "few" and least else f"mov.u32 %r29, {value};\n"
        compare = "ne" if exact or self._chance.random() < 0.2 else "lt"
        back = "" if defect == "once" else f"@%p3 bra {again};\n"
        sleep = "nanosleep.u32 20;\n" if self._chance.random() < 0.2 else ""
        used = "add.u32 %r22, %r22, %r2;\n" if defect == "value" else ""
        fence = "fence.acq_rel.gpu;\n" if self._chance.random() < 0.2 else ""
        return f"{lower}{again}:\n{sleep}{load} %r2, [%a+{64 * word}];\nsetp.{compare}.u32 %p3, %r2, %r29;\n{back}{used}{fence}"


def random_waiting(seed: int) -> Waiting:
    """Return the kernel of a seed: right, or, half of the time, with one defect."""
    chance = Random(seed)
    pattern = chance.choice(("chain", "fan", "barrier", "barrier", "pong"))
    ctas = chance.randint(1 if pattern in ("chain", "fan") else 2, 4)
    warps = chance.randint(1 if ctas > 1 else 2, 3)
    defect = chance.choice(_DEFECTS) if chance.random() < 0.5 else ""
    return Waiting(pattern, ctas, warps, chance.randint(1, 4), defect, seed)
