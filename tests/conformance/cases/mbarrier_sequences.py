"""mbarrier: long sequences on objects, drawn so that every step is legal, and arrivals across a cluster.

A sequence asks after each step: with the newest state and one of the phase before, with both parities, with and
without a hint how long to wait.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ..case import KernelCase
from ..reference.barrier import Phases
from .mbarrier import Script

_FORMS = (
    *("mbarrier.init", "mbarrier.inval", "mbarrier.pending_count"),
    *("mbarrier.arrive", "mbarrier.arrive.noComplete", "mbarrier.arrive.expect_tx"),
    *("mbarrier.arrive_drop", "mbarrier.arrive_drop.noComplete", "mbarrier.arrive_drop.expect_tx"),
    *("mbarrier.expect_tx", "mbarrier.complete_tx"),
    *("mbarrier.test_wait", "mbarrier.test_wait.parity", "mbarrier.try_wait", "mbarrier.try_wait.parity"),
)


class _Sequence:
    """One thread's steps on one object, %r1; its newest state is %d11, one of the phase before %d12."""

    def __init__(self, name: str, counts: tuple[int, ...], bytes_at_once: int) -> None:
        self.draw = random.Random(name)
        self.script = Script(1)
        self.counts, self.bytes_at_once = counts, bytes_at_once
        self.begin()

    def begin(self) -> None:
        count = self.draw.choice(self.counts)
        self.script.init(count)
        self.model = Phases(count)
        self.newest = self.older = False

    def token(self, instruction: str, count: int, *, drop: bool, nbytes: int = 0) -> None:
        phase = self.model.phase
        if nbytes:
            self.model.expect(nbytes)
        self.model.arrive(count, drop=drop)
        self.script.token(instruction)
        self.script.run("mov.b64 %d11, %d10;")
        self.newest = True
        if self.model.phase != phase:
            # This state is now one of the phase before.
            self.script.run("mov.b64 %d12, %d11;")
            self.newest, self.older = False, True

    def arrival(self) -> None:
        model, draw = self.model, self.draw
        drop = model.expected > 3 and draw.random() < 0.3
        name = "mbarrier.arrive_drop" if drop else "mbarrier.arrive"
        most = min(model.pending, model.expected - 2) if drop else model.pending
        kind = draw.choice(("", "", "count", "noComplete", "expect_tx"))
        count = draw.randint(1, most) if draw.random() < 0.7 else most
        if kind == "noComplete":
            count = min(count, model.pending - 1)
            if count:
                self.token(f"{name}.noComplete.shared.b64 %d10, [%r1], {count};", count, drop=drop)
                self.script.run("mbarrier.pending_count.b64 %r4, %d11;")
                self.script.keep_word("%r4")
        elif kind == "expect_tx":
            nbytes = draw.randint(0, self.bytes_at_once)
            if model.tx + nbytes < 1 << 20:
                self.token(f"{name}.expect_tx.shared.b64 %d10, [%r1], {nbytes};", 1, drop=drop, nbytes=nbytes)
        elif kind:
            self.token(f"{name}.shared.b64 %d10, [%r1], {count};", count, drop=drop)
        else:
            self.token(f"{name}.shared.b64 %d10, [%r1];", 1, drop=drop)

    def transaction(self) -> None:
        model, draw = self.model, self.draw
        amount = draw.randint(1, self.bytes_at_once)
        if model.tx and draw.random() < 0.6:
            # What is due, or what came early, exactly.
            amount = -model.tx
        elif draw.random() < 0.5:
            amount = -amount
        if abs(model.tx + amount) >= 1 << 20:
            return
        phase = model.phase
        name = "expect_tx" if amount > 0 else "complete_tx"
        model.expect(amount)
        self.script.run(f"mbarrier.{name}.relaxed.cta.shared::cta.b64 [%r1], {abs(amount)};")
        if model.phase != phase:
            if self.newest:
                self.script.run("mov.b64 %d12, %d11;")
            self.newest, self.older = False, self.newest

    def ask(self) -> None:
        draw = self.draw
        states = ["%d11"] * self.newest + ["%d12"] * self.older
        for kind in ("test_wait", "try_wait"):
            if states and draw.random() < 0.6:
                asked, parity = draw.choice(states), ""
                complete = asked == "%d12"
            else:
                asked, parity = str(draw.randint(0, 1)), ".parity"
                complete = self.model.completed(int(asked))
            # An H200 goes on to what follows while a try_wait without a hint is still undecided: where the
            # thread's own next step completes the phase, it answers true.
            hint = "" if kind == "test_wait" else draw.choice(("", ", 20")) if complete else ", 20"
            self.script.run(f"mbarrier.{kind}{parity}.shared.b64 %p1, [%r1], {asked}{hint};")
            self.script.keep_flag("%p1")

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.draw.random() < 0.05:
                self.script.run("mbarrier.inval.shared.b64 [%r1];")
                self.begin()
            if self.model.pending and self.draw.random() < 0.6:
                self.arrival()
            else:
                self.transaction()
            self.ask()
        if self.model.pending:
            self.script.token("mbarrier.arrive.shared.b64 %d10, [%r1];")


#: What objects expect, and how many bytes a transaction counts.
_SORTS = {
    "few": ((1, 2, 3, 4, 5), 4096),
    "many": ((100, 1000, 65536), 200000),
    "as many as can be": ((1048575, 524288), 1048575),
}


def _sequences() -> Iterator[KernelCase]:
    for sort, (counts, nbytes) in _SORTS.items():
        for number in range(4):
            name = f"a sequence of {sort}, {number}"
            sequence = _Sequence(name, counts, nbytes)
            sequence.run(40)
            text = "\n".join(sequence.script.lines)
            yield sequence.script.case(name, *(form for form in _FORMS if _occurs(form, text)))


def _occurs(form: str, text: str) -> bool:
    """Whether the text has the form: modifiers follow each other, or stand behind ``noComplete``."""
    return f"{form}.shared" in text or f"{form}.b64" in text or f"{form}.relaxed" in text


def _parities() -> KernelCase:
    """Of a parity only the lowest bit counts."""
    s = Script(1)
    s.init(1)
    for _ in range(3):
        for number in (2, 3, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000000, 0x7FFFFFFF, 256, 257):
            s.run(f"mov.b32 %r6, {number};")
            for kind, hint in (("test_wait", ""), ("try_wait", ", 20")):
                s.run(f"mbarrier.{kind}.parity.shared.b64 %p1, [%r1], %r6{hint};")
                s.keep_flag("%p1")
        s.token("mbarrier.arrive.shared.b64 %d10, [%r1];")
    return s.case("parities of more bits", "mbarrier.test_wait.parity", "mbarrier.try_wait.parity")


#: Spellings of an operation on another CTA's object: whether it has a count, and bytes.
_REMOTE = {
    "mbarrier.arrive.remote": "mbarrier.arrive{}.shared::cluster.b64 _, [%r11];",
    "mbarrier.arrive.remote, counted": "mbarrier.arrive{}.shared::cluster.b64 _, [%r11], %r12;",
    "mbarrier.arrive.expect_tx.remote": "mbarrier.arrive.expect_tx{}.shared::cluster.b64 _, [%r11], %r13;",
    "mbarrier.arrive_drop.remote": "mbarrier.arrive_drop{}.shared::cluster.b64 _, [%r11];",
    "mbarrier.arrive_drop.remote, counted": "mbarrier.arrive_drop{}.shared::cluster.b64 _, [%r11], %r12;",
    "mbarrier.arrive_drop.expect_tx.remote": "mbarrier.arrive_drop.expect_tx{}.shared::cluster.b64 _, [%r11], %r13;",
}
_MEET = ("barrier.cluster.arrive;", "barrier.cluster.wait;")


def _remote(ctas: int) -> Iterator[KernelCase]:
    """Every warp on the object of the next CTA, then of all on that of the last one; each CTA asks its own."""
    for label, template in _REMOTE.items():
        s = Script(32, ctas)
        s.init(2000)
        s.init(40000, 8)
        s.run(
            "mov.u32 %r10, %cluster_ctarank;",
            "add.u32 %r12, %r10, 2;",
            "mad.lo.u32 %r13, %r10, 512, 768;",
            f"add.u32 %r14, %r10, 1;\nrem.u32 %r14, %r14, {ctas};",
            "mapa.shared::cluster.u32 %r11, %r1, %r14;",
            "setp.lt.u32 %p2, %lane, 5;",
            *_MEET,
            template.format(""),
            "@%p2 " + template.format(".relaxed.cluster"),
            f"mapa.shared::cluster.u32 %r11, %r1, {ctas - 1};",
            "add.u32 %r11, %r11, 8;",
            template.format(".release.cluster"),
            *_MEET,
        )
        for offset in (0, 8):
            s.run("mov.b64 %d10, 0;")
            s.token(f"@%p15 mbarrier.arrive.shared.b64 %d10, [%r1+{offset}];")
            s.run(f"mbarrier.test_wait.parity.shared.b64 %p1, [%r1+{offset}], 0;")
            s.keep_flag("%p1")
        s.run(*_MEET)
        covers = label.partition(",")[0]
        yield s.case(
            f"{label} in a cluster of {ctas}", covers, "barrier.cluster.arrive", "barrier.cluster.wait"
        )


def _completed_from_afar(ctas: int) -> Iterator[KernelCase]:
    """The last arrivals, and the last bytes, of a phase come from other CTAs."""
    for relaxed in (False, True):
        s = Script(32, ctas)
        s.init(32 * ctas)
        s.init(1, 8)
        word = ".relaxed.cluster" if relaxed else ""
        s.run(
            "mov.u32 %r10, %cluster_ctarank;",
            "setp.eq.u32 %p2, %r10, 0;",
            f"@%p15 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+8], {64 * 32 * ctas};",
            *_MEET,
        )
        for rank in range(ctas):
            s.run(
                f"mapa.shared::cluster.u32 %r11, %r1, {rank};",
                f"mbarrier.arrive{word}.shared::cluster.b64 _, [%r11];",
                "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r11+8], 64;",
                "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r11+8], 128;",
            )
        s.run(*_MEET)
        for offset in (0, 8):
            for parity in (0, 1):
                s.run(f"mbarrier.test_wait.parity.acquire.cluster.shared.b64 %p1, [%r1+{offset}], {parity};")
                s.keep_flag("%p1")
                s.run(f"mbarrier.try_wait.parity.shared.b64 %p1, [%r1+{offset}], {parity}, 50;")
                s.keep_flag("%p1")
            s.run("mov.b64 %d10, 0;")
            s.token(f"@%p15 mbarrier.arrive.shared.b64 %d10, [%r1+{offset}];")
        s.run(*_MEET)
        covers = (
            "mbarrier.arrive.remote",
            "mbarrier.expect_tx",
            "mbarrier.complete_tx",
            "mbarrier.test_wait.parity",
        )
        yield s.case(f"phases completed from {ctas} CTAs{', relaxed' if relaxed else ''}", *covers)


CASES = [
    *_sequences(),
    _parities(),
    *[case for ctas in (2, 4, 8) for case in (*_remote(ctas), *_completed_from_afar(ctas))],
]
