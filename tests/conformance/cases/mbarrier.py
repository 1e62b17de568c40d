"""mbarrier: what every form returns, with the bits of states, and what the counts are afterwards.

An H200 writes the lower half of a state for ``.noComplete`` alone; of others it holds what the register held, and is not
kept.  Loads of a live object race with the operations on it: what it holds is asked by later arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..case import KernelCase, Out, kernel
from ..fragments import matches
from ..reference import Expected
from ..reference.barrier import outputs

_BARRIERS = ".shared .align 8 .b64 bars[8];"
_SPACES = {"": "%d2", ".shared": "%r1", ".shared::cta": "%r1", ".shared::cluster": "%r1"}


class Script:
    """A kernel of one warp (in each CTA of a cluster) that keeps 64-bit results: a row of the output for each."""

    def __init__(self, threads: int, ctas: int = 1) -> None:
        self.threads, self.ctas, self.rows = threads, ctas, 0
        self.lines = ["mov.u32 %r1, bars;", "cvt.u64.u32 %d2, %r1;", "cvta.shared.u64 %d2, %d2;"]
        self.lines.append("mad.wide.u32 %d1, %index, 8, %out;")

    def run(self, *lines: str) -> None:
        self.lines += lines

    def keep(self, register: str) -> None:
        self.lines.append(f"st.global.b64 [%d1+{8 * self.threads * self.ctas * self.rows}], {register};")
        self.rows += 1

    def keep_word(self, register: str) -> None:
        self.lines.append(f"cvt.u64.u32 %d9, {register};")
        self.keep("%d9")

    def keep_flag(self, predicate: str) -> None:
        self.lines.append(f"selp.u64 %d9, 1, 0, {predicate};")
        self.keep("%d9")

    def init(self, count: int, offset: int = 0, layout: str = "") -> None:
        self.lines += [
            "setp.eq.u32 %p15, %lane, 0;",
            f"@%p15 mbarrier.init{layout}.shared.b64 [%r1+{offset}], {count};",
            "bar.warp.sync 0xffffffff;",
        ]

    def token(self, instruction: str) -> None:
        self.run(instruction)
        if "noComplete" not in instruction:
            self.run("and.b64 %d10, %d10, 0xffffffff00000000;")
        self.keep("%d10")

    def case(self, name: str, *covers: str) -> KernelCase:
        lines = tuple(self.lines)
        return KernelCase(
            name,
            kernel("\n".join(lines), registers=_BARRIERS),
            (Out(np.uint64, (self.rows, self.threads * self.ctas)),),
            grid=(self.ctas,),
            block=(self.threads,),
            cluster=(self.ctas,),
            covers=covers,
            reference=lambda: [Expected(outputs(lines, self.threads, self.rows, self.ctas))],
        )


def _life() -> KernelCase:
    """One thread: arrivals, drops and transactions over three phases."""
    s = Script(1)
    s.init(7)
    for instruction in (
        "mbarrier.arrive.shared.b64 %d10, [%r1];",
        "mbarrier.arrive.shared.b64 %d10, [%r1], 2;",
        "mbarrier.arrive.noComplete.shared.b64 %d10, [%r1], 3;",
    ):
        s.token(instruction)
        s.run("mbarrier.pending_count.b64 %r4, %d10;")
        s.keep_word("%r4")
    s.token("mbarrier.arrive.shared.b64 %d10, [%r1];")
    for instruction in (
        "mbarrier.arrive.expect_tx.shared.b64 %d10, [%r1], 1048575;",
        "mbarrier.arrive_drop.shared.b64 %d10, [%r1];",
        "mbarrier.arrive_drop.shared.b64 %d10, [%r1], 2;",
        "mbarrier.arrive_drop.expect_tx.shared.b64 %d10, [%r1], 0;",
        "mbarrier.arrive_drop.noComplete.shared.b64 %d10, [%r1], 1;",
        "mbarrier.arrive.shared.b64 %d10, [%r1];",
    ):
        s.token(instruction)
    s.run("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 1048575;")
    s.token("mbarrier.arrive_drop.shared.b64 %d10, [%r1], 2;")
    s.run("mbarrier.test_wait.shared.b64 %p1, [%r1], %d10;")
    s.keep_flag("%p1")
    return s.case(
        "the life of an object",
        "mbarrier.init",
        "mbarrier.arrive",
        "mbarrier.arrive.expect_tx",
        "mbarrier.arrive.noComplete",
        "mbarrier.arrive_drop",
        "mbarrier.arrive_drop.expect_tx",
        "mbarrier.arrive_drop.noComplete",
        "mbarrier.complete_tx",
        "mbarrier.pending_count",
    )


#: Steps of the tx-count, up for bytes that are expected, down for bytes that came.
_STEPS = {
    "few": [1, 99, 1947, 1, 1, 2047, -1, -4095, 5, -5],
    "many": [600000, 448575, -1048575],
    "one early": [-1, 3, -3, 1],
    "few early": [-1, -1, -2046, -1, 2049],
    "many early": [-100000, 102048, -2048],
    "almost all early": [-524288, -524286, 1048574],
    "as many early as can be": [-1048575, 1048575],
}


def _bytes() -> Iterator[KernelCase]:
    """What states say of bytes that are expected, or that came before they were expected."""
    for amount, steps in _STEPS.items():
        s = Script(1)
        s.init(1000)
        for step in steps:
            name = "expect_tx" if step > 0 else "complete_tx"
            s.run(f"mbarrier.{name}.relaxed.cta.shared::cta.b64 [%r1], {abs(step)};")
            s.token("mbarrier.arrive.shared.b64 %d10, [%r1];")
            s.token("mbarrier.arrive.noComplete.shared.b64 %d10, [%r1], 1;")
        s.run("mov.b32 %r5, 4096;")
        s.token("mbarrier.arrive.expect_tx.shared.b64 %d10, [%r1], %r5;")
        s.token("mbarrier.arrive_drop.expect_tx.shared.b64 %d10, [%r1], %r5;")
        s.token("mbarrier.arrive.shared.b64 %d10, [%r1];")
        covers = ("mbarrier.expect_tx", "mbarrier.complete_tx", "mbarrier.arrive.expect_tx")
        yield s.case(f"states while {amount} bytes are on their way", *covers)


_ARRIVALS = {
    "mbarrier.arrive": "mbarrier.arrive.shared.b64 %d10, {place}{count};",
    "mbarrier.arrive.noComplete": "mbarrier.arrive.noComplete.shared.b64 %d10, {place}{count};",
    "mbarrier.arrive.expect_tx": "mbarrier.arrive.expect_tx.shared.b64 %d10, {place}{tx};",
    "mbarrier.arrive_drop": "mbarrier.arrive_drop.shared.b64 %d10, {place}{count};",
    "mbarrier.arrive_drop.noComplete": "mbarrier.arrive_drop.noComplete.shared.b64 %d10, {place}{count};",
    "mbarrier.arrive_drop.expect_tx": "mbarrier.arrive_drop.expect_tx.shared.b64 %d10, {place}{tx};",
}


def _warps() -> Iterator[KernelCase]:
    """A warp arrives: what each lane gets, on one object, on two and under a guard."""
    for covers, template in _ARRIVALS.items():
        counts = ["", ", 1", ", 3", ", %r5"] if "{count}" in template else [""]
        if "noComplete" in template:
            counts.remove("")
        for count in counts:
            for place, guard in (("[%r1]", ""), ("[%r6]", ""), ("[%r1]", "@%p1 "), ("[%r6]", "@%p2 ")):
                s = Script(32)
                s.init(900)
                s.init(700, 8)
                s.run(
                    "add.u32 %r5, %lane, 1;",
                    "and.b32 %r6, %lane, 1;",
                    "setp.eq.u32 %p1, %r6, 1;",
                    "mad.lo.u32 %r6, %r6, 8, %r1;",
                    "setp.gt.u32 %p2, %lane, 12;",
                    "mov.b64 %d10, 0;",
                )
                s.token(guard + template.format(place=place, count=count, tx=", %r5"))
                if "noComplete" in template:
                    s.run("mbarrier.pending_count.b64 %r4, %d10;")
                    s.keep_word("%r4")
                for barrier in ("[%r1]", "[%r1+8]"):
                    s.run("bar.warp.sync 0xffffffff;")
                    s.token(f"mbarrier.arrive.shared.b64 %d10, {barrier};")
                where = "two objects" if place == "[%r6]" else "one object"
                some = f", guarded by {guard[1:-1]}" if guard else ""
                yield s.case(f"{covers}{count} of a warp on {where}{some}", covers)


def _completing_warps() -> Iterator[KernelCase]:
    """Arrivals of a warp that complete phases. (More than are pending end the launch with an error.)"""
    for expected in (32, 64):
        s = Script(32)
        s.init(expected)
        for arrivals in range(1, 6):
            s.token("mbarrier.arrive.shared.b64 %d10, [%r1];")
            s.run("mbarrier.test_wait.shared.b64 %p1, [%r1], %d10;")
            s.keep_flag("%p1")
            s.run(f"mbarrier.test_wait.parity.shared.b64 %p1, [%r1], {arrivals % 2};")
            s.keep_flag("%p1")
        covers = ("mbarrier.arrive", "mbarrier.test_wait", "mbarrier.test_wait.parity")
        yield s.case(f"a warp arrives where {expected} are expected", *covers)


def _waits() -> Iterator[KernelCase]:
    """Every way to ask, before and after the phase completes."""
    for covers in (
        "mbarrier.test_wait",
        "mbarrier.test_wait.parity",
        "mbarrier.try_wait",
        "mbarrier.try_wait.parity",
    ):
        parity = "parity" in covers
        s = Script(1)
        s.init(2)
        for match in matches(covers):
            place = _SPACES["." + match.chosen["space"] if "space" in match.chosen else ""]
            hints = ("", ", 20") if "try_wait" in covers else ("",)
            s.run("mbarrier.inval.shared.b64 [%r1];", "mbarrier.init.shared.b64 [%r1], 2;")
            s.run("mbarrier.arrive.shared.b64 %d10, [%r1];")
            for hint in hints:
                for state in ("0", "1") if parity else ("%d10",):
                    s.run(f"{match.name} %p1, [{place}], {state}{hint};")
                    s.keep_flag("%p1")
            s.run("mbarrier.arrive.shared.b64 %d11, [%r1];")
            for hint in hints:
                for state in ("0", "1") if parity else ("%d10", "%d11"):
                    s.run(f"{match.name} %p1, [{place}], {state}{hint};")
                    s.keep_flag("%p1")
            s.run("mbarrier.arrive.shared.b64 %d12, [%r1], 2;")
            for state in ("0", "1") if parity else ("%d12", "0x7fffffffffffffff", "0x8000000000000000"):
                if state.startswith("0x"):
                    s.run(f"mov.b64 %d13, {state};")
                    state = "%d13"
                s.run(f"{match.name} %p1, [{place}], {state};")
                s.keep_flag("%p1")
        yield s.case(f"{covers}, every variant", covers)


def _variants() -> Iterator[KernelCase]:
    """Every spelling of the arrivals and transactions on one object, and what it holds after each."""
    for covers in (*_ARRIVALS, "mbarrier.arrive.remote", "mbarrier.arrive.expect_tx.remote",
                   "mbarrier.arrive_drop.remote", "mbarrier.arrive_drop.expect_tx.remote",
                   "mbarrier.expect_tx", "mbarrier.complete_tx"):  # fmt: skip
        s = Script(1)
        s.init(100000)
        for match in matches(covers):
            space = "." + match.chosen["space"] if "space" in match.chosen else ""
            place = f"[{'%r1' if covers.endswith('remote') else _SPACES[space]}]"
            counted = ", 3" if covers.endswith("_tx") or "_tx." in covers or "noComplete" in covers else ""
            state = "_, " if covers.endswith("remote") else "%d10, "
            if covers in ("mbarrier.expect_tx", "mbarrier.complete_tx"):
                state = ""
            for count in (counted,) if counted else ("", ", 4"):
                instruction = f"{match.name} {state}{place}{count};"
                if state == "%d10, ":
                    s.token(instruction)
                else:
                    s.run(instruction)
                s.token("mbarrier.arrive.shared.b64 %d10, [%r1];")
        yield s.case(f"{covers}, every variant", covers)


def _end() -> KernelCase:
    """An object ends, its memory serves for data and for another object."""
    s = Script(1)
    s.init(3)
    s.run(
        "mbarrier.inval.shared.b64 [%r1];", "mov.b64 %d10, 0x123456789abcdef;", "st.shared.b64 [%r1], %d10;"
    )
    s.run("ld.shared.b64 %d10, [%r1];")
    s.keep("%d10")
    s.init(5)
    s.token("mbarrier.arrive.b64 %d10, [%d2];")
    s.run("mbarrier.inval.b64 [%d2];")
    return s.case("the end of an object", "mbarrier.inval", "mbarrier.init")


CASES = [_life(), *_bytes(), *_warps(), *_completing_warps(), *_waits(), *_variants(), _end()]
