"""Rings of stages between a producing warp and consuming warps: right ones, and ones with one defect.

A right ring may claim to hold for every schedule. A ring with a defect may not: its waits can be lapped, its arrivals
can count in another phase, or a wait that is not over has an effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import numpy as np

from pyptx import sim
from tests.conformance.case import kernel

__all__ = ["DEFECTS", "Ring", "defective", "random_ring"]

#: What is wrong with a ring, by name.
DEFECTS = {
    "few": "the empty barriers count one warp too few",
    "unasked": "the producer does not wait until a stage is empty",
    "early": "a consumer gives a stage back before it waits for it",
    "stale": "the consumers begin with the other parity: their first wait is over at once",
    "bounded": "a consumer tries a limited number of times, and then goes on",
    "peek": "a consumer asks once, and skips the stage if the answer is no",
    "counted": "a consumer stores how often it asked",
}


@dataclass(frozen=True)
class Ring:
    """One ring.

    Attributes:
        stages: the stages, each with a full and an empty mbarrier.
        rounds: how many times the producer fills a stage.
        consumers: consuming warps.
        elected: True if one lane of a consuming warp gives the stage back, False if all lanes do.
        bulk: True if bulk copies fill the stages, False if ordinary stores do.
        together: True if the consumers meet at a named barrier in each round.
        defect: one of :data:`DEFECTS`, or empty.
    """

    stages: int
    rounds: int
    consumers: int
    elected: bool = False
    bulk: bool = False
    together: bool = False
    defect: str = ""

    @property
    def name(self) -> str:
        """A name for messages."""
        flags = [word for word in ("elected", "bulk", "together") if getattr(self, word)]
        return "-".join(
            [f"{self.stages}x{self.rounds}x{self.consumers}", *flags, *([self.defect] if self.defect else [])]
        )

    def text(self) -> str:
        """The kernel as PTX."""
        setup = "".join(
            f"@%p1 mbarrier.init.shared.b64 [full+{8 * stage}], {1 if self.bulk else 32};\n"
            f"@%p1 mbarrier.init.shared.b64 [empty+{8 * stage}], {self._returns()};\n"
            for stage in range(self.stages)
        )
        # Where nobody waits for an empty stage, each round has bytes of its own: the accesses do not race.
        slots = self.rounds if self.defect in ("unasked", "early") else self.stages
        body = _BODY.format(
            setup=setup,
            ask="" if self.defect == "unasked" else _ASK,
            fill=_BULK if self.bulk else _WORDS,
            slot="%r10" if slots == self.rounds else "%r11",
            early=self._give_back() if self.defect == "early" else "",
            parity=int(self.defect == "stale"),
            take=_TAKES.get(self.defect, _TAKE),
            meet=f"bar.sync 1, {32 * self.consumers};" if self.together else "",
            back="" if self.defect == "early" else self._give_back(),
            step=_STEP.format(stages=self.stages),
            rounds=self.rounds,
        )
        shared = (
            f".shared .align 128 .b8 room[{128 * slots}]; .shared .align 8 .b64 full[{self.stages}];"
            f" .shared .align 8 .b64 empty[{self.stages}];"
        )
        return kernel(body, "data:u64 out:u64", registers=shared).text()

    def _returns(self) -> int:
        warps = self.consumers - (self.defect == "few")
        return warps if self.elected else 32 * warps

    def _give_back(self) -> str:
        if self.elected:
            return "bar.warp.sync -1; @%p5 mbarrier.arrive.shared.b64 _, [%r21];"
        return "mbarrier.arrive.shared.b64 _, [%r21];"

    def launch(self, loaded: sim.LoadedModule, **how: Any) -> tuple[sim.Report, Any]:
        """Run the ring; return the report and what the consumers summed."""
        data = np.arange(32 * self.rounds, dtype=np.uint32) + 7
        out = np.zeros(32 * self.consumers, np.uint32)
        threads = 32 * (1 + self.consumers)
        report = loaded.launch(grid=1, block=threads, args=[data, out], max_steps=200_000, **how)
        return report, out


_ASK = """
xor.b32 %r13, %r12, 1;
EMPTY:
mbarrier.try_wait.parity.shared.b64 %p3, [%r21], %r13;
@!%p3 bra EMPTY;
"""
_WORDS = """
mad.lo.u32 %r14, %r10, 128, 0;
cvt.u64.u32 %d3, %r14;
add.u64 %d3, %data, %d3;
mad.wide.u32 %d3, %lane, 4, %d3;
ld.global.u32 %r15, [%d3];
mad.lo.u32 %r16, %lane, 4, %r22;
st.shared.u32 [%r16], %r15;
mbarrier.arrive.shared.b64 _, [%r20];
"""
_BULK = """
mad.lo.u32 %r14, %r10, 128, 0;
cvt.u64.u32 %d3, %r14;
add.u64 %d3, %data, %d3;
@%p5 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 128;
@%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r22], [%d3], 128, [%r20];
"""
_TAKE = """
FULL:
mbarrier.try_wait.parity.shared.b64 %p4, [%r20], %r12;
@!%p4 bra FULL;
"""
_TAKES = {
    "bounded": """
mov.u32 %r40, 0;
FULL:
mbarrier.try_wait.parity.shared.b64 %p4, [%r20], %r12;
@%p4 bra TAKEN;
add.u32 %r40, %r40, 1;
setp.lt.u32 %p6, %r40, 50;
@%p6 bra FULL;
TAKEN:
""",
    "peek": """
mbarrier.try_wait.parity.shared.b64 %p4, [%r20], %r12;
@!%p4 bra SKIP;
""",
    "counted": """
FULL:
add.u32 %r30, %r30, 1;
mbarrier.try_wait.parity.shared.b64 %p4, [%r20], %r12;
@!%p4 bra FULL;
""",
}
_STEP = """
add.u32 %r10, %r10, 1;
add.u32 %r11, %r11, 1;
setp.eq.u32 %p7, %r11, {stages};
@%p7 mov.u32 %r11, 0;
@%p7 xor.b32 %r12, %r12, 1;
"""
_BODY = """
setp.eq.u32 %p1, %thread, 0;
setp.eq.u32 %p2, %warp, 0;
setp.eq.u32 %p5, %lane, 0;
{setup}
bar.sync 0;
mov.u32 %r17, full;
mov.u32 %r18, empty;
mov.u32 %r19, room;
mov.u32 %r30, 0;
mov.u32 %r10, 0;
mov.u32 %r11, 0;
mov.u32 %r12, 0;
@!%p2 bra OTHERS;
PRODUCE:
mad.lo.u32 %r20, %r11, 8, %r17;
mad.lo.u32 %r21, %r11, 8, %r18;
mad.lo.u32 %r22, {slot}, 128, %r19;
{ask}
{fill}
{step}
setp.lt.u32 %p8, %r10, {rounds};
@%p8 bra PRODUCE;
bra DONE;
OTHERS:
mov.u32 %r12, {parity};
CONSUME:
mad.lo.u32 %r20, %r11, 8, %r17;
mad.lo.u32 %r21, %r11, 8, %r18;
mad.lo.u32 %r22, {slot}, 128, %r19;
{early}
{take}
mad.lo.u32 %r16, %lane, 4, %r22;
ld.shared.u32 %r15, [%r16];
mad.lo.u32 %r30, %r30, 3, %r15;
{meet}
SKIP:
{back}
{step}
setp.lt.u32 %p8, %r10, {rounds};
@%p8 bra CONSUME;
sub.u32 %r31, %thread, 32;
mad.wide.u32 %d4, %r31, 4, %out;
st.global.u32 [%d4], %r30;
DONE:
"""


def defective() -> list[Ring]:
    """Rings with one defect, in many sizes."""
    made = []
    for defect, (stages, rounds), consumers, elected in product(
        DEFECTS, ((1, 3), (2, 5), (3, 7)), (1, 2, 3), (False, True)
    ):
        if defect == "few" and consumers == 1:
            continue
        made.append(Ring(stages, rounds, consumers, elected, bulk=defect != "early", defect=defect))
        if not elected and defect not in ("stale",):
            made.append(Ring(stages, rounds, consumers, elected, defect=defect))
    return made


def random_ring(chance: Random) -> Ring:
    """A right ring."""
    stages = chance.randint(1, 3)
    return Ring(
        stages,
        chance.randint(1, 3 * stages + 1),
        chance.randint(1, 3),
        chance.random() < 0.5,
        chance.random() < 0.5,
        chance.random() < 0.3,
    )
