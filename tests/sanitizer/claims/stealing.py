"""Persistent kernels by cluster launch control, right ones and ones with a defect that only some assignments show.

Warp 0 requests clusters, warp 1 loads each tile in steps through a ring in shared memory, and warp 2 stores it. The
answers lie in a ring of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx import sim
from pyptx.sim.threads.assignment import Assignment

__all__ = ["DEFECTS", "Stealing", "defective", "every_assignment", "random_stealing"]

_TEXT = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry stealing(.param .u64 given, .param .u64 out)
{{
    .shared .align 16 .b8 answers[{answer_bytes}];
    .shared .align 16 .b8 data[{data_bytes}];
    .shared .align 8 .b64 full[{answers}], empty[{answers}], loaded[{slots}], stored[{slots}];
    .reg .pred %lead, %leader, %done, %more, %wrap, %p<4>;
    .reg .b32 %tile, %last, %seen, %lane, %warp, %thread, %at, %base, %x, %y, %ai, %ap, %ep, %ds, %dp, %r<4>;
    .reg .b64 %given, %out, %to, %d<3>;
    .reg .b128 %response;
    ld.param.u64 %given, [given];
    ld.param.u64 %out, [out];
    mov.u32 %thread, %tid.x;
    and.b32 %lane, %thread, 31;
    shr.u32 %warp, %thread, 5;
    setp.eq.u32 %lead, %thread, 0;
    setp.eq.u32 %leader, %lane, 0;
    mov.u32 %tile, %ctaid.x;
    mov.u32 %last, %tile;
    mov.u32 %seen, 0;
    mov.u32 %ai, 0;
    mov.u32 %ap, 0;
    mov.u32 %ep, 1;
    mov.u32 %ds, 0;
    mov.u32 %dp, 0;
    @!%lead bra READY;
{init}
READY:
    bar.sync 0;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra LOADER;
    setp.eq.u32 %p1, %warp, 2;
    @%p1 bra STORER;
    @!%lead bra END;
{scheduler}
    bra END;
LOADER:
    xor.b32 %dp, %dp, 1;
{loader}
    bra END;
STORER:
{storer}
END:
    ret;
}}
"""
_TRY = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
_QUERY = "clusterlaunchcontrol.query_cancel"


def _at(name: str, index: str, size: int, to: str = "%at") -> str:
    return f"mov.u32 %base, {name};\nmad.lo.u32 {to}, {index}, {size}, %base;\n"


def _wait(label: str, name: str, index: str, parity: str) -> str:
    return (
        _at(name, index, 8) + f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%at], {parity};\n"
        f"@!%done bra {label};\n"
    )


def _advance(index: str, parity: str, count: int) -> str:
    return (
        f"add.u32 {index}, {index}, 1;\nsetp.eq.u32 %wrap, {index}, {count};\n"
        f"@%wrap mov.u32 {index}, 0;\n@%wrap xor.b32 {parity}, {parity}, 1;\n"
    )


def _ask(index: str) -> str:
    return (
        _at("answers", index, 16, "%x")
        + _at("full", index, 8, "%y")
        + f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%y], 16;\n{_TRY} [%x], [%y];\n"
    )


#: What is wrong with a kernel, by name.
DEFECTS = {
    "phase": "the storer begins each tile with the first slot and parity of the ring: wrong for a second tile",
    "stale": "the loader does so",
    "early": "the storer hands a slot back before it reads it",
    "reuse": "the scheduler does not wait until an answer has been read",
    "count": "the barriers that hand answers back count one reader too few",
    "refusal": "the storer takes the coordinates in a refusal for those of a tile",
    "blind": "the coordinates are read before the refusal is tested",
    "by hand": "the answer is decoded by its bits",
    "fake": "bits that are no answer are decoded",
    "two in flight": "two requests at once: if the first is refused, the tile that the second gets is not done",
    "after refusal": "one more request after a refusal",
    "canceled": "a tile gets another value if its cluster was canceled instead of launched",
    "own": "tile 0 gets another value if another worker does it",
    "third": "the third tile of a worker gets another value",
    "list": "tile 0 gets another value if its worker did tile 1 right before",
    "read": "a worker that has done two tiles reads words of tile 0, which another worker may be writing",
    "halo": "workers that have done two tiles store to the same words",
    "last": "each tile stores its number to the same words: the last one stays",
    "most": "the largest number of tiles that a worker has done is stored",
    "ticket": "each tile takes a ticket",
    "waits": "worker 0 waits for tile 1, which may be behind its own tile in its own list",
}


@dataclass(frozen=True)
class Stealing:
    """One kernel.

    Attributes:
        clusters: number of clusters, of one CTA each.
        answers: slots of the ring of answers.
        slots: slots of the ring of data.
        steps: steps in which a tile is loaded.
        defect: what is wrong, a name of :data:`DEFECTS`; empty if nothing is.
    """

    clusters: int = 3
    answers: int = 2
    slots: int = 2
    steps: int = 1
    defect: str = ""

    @property
    def name(self) -> str:
        return f"{self.defect or 'right'}-{self.clusters}-{self.answers}-{self.slots}-{self.steps}"

    # --- the text -------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the PTX."""
        return _TEXT.format(
            answers=self.answers,
            slots=self.slots,
            answer_bytes=16 * self.answers,
            data_bytes=128 * self.slots,
            init=self._init(),
            scheduler=self._scheduler(),
            loader=self._role("L", self._load),
            storer=self._role("S", self._store),
        )

    def _if(self, defect: str, then: str, otherwise: str = "") -> str:
        return then if self.defect == defect else otherwise

    def _init(self) -> str:
        readers = self._if("count", "1", "2")
        lines = []
        for name, number, count in (
            ("full", self.answers, "1"),
            ("empty", self.answers, readers),
            ("loaded", self.slots, "32"),
            ("stored", self.slots, "32"),
        ):
            lines += [f"mbarrier.init.shared::cta.b64 [{name}+{8 * n}], {count};" for n in range(number)]
        return "\n".join(lines)

    def _scheduler(self) -> str:
        if self.defect == "two in flight":
            return self._pairs()
        free = self._if("reuse", "", _wait("FREE", "empty", "%ai", "%ep"))
        text = f"REQUEST:\n{free}" + self._request("ANSWER") + "@%more bra REQUEST;\n"
        if self.defect == "after refusal":
            text += _wait("LAST_FREE", "empty", "%ai", "%ep") + self._request("LAST")
        return text

    def _request(self, label: str) -> str:
        """Ask for a cluster, and wait for the answer."""
        return (
            _ask("%ai")
            + _wait(label, "full", "%ai", "%ap")
            + self._answer("%more")
            + "fence.proxy.async.shared::cta;\n"
            + _advance("%ai", "%ap", self.answers)
            + "@%wrap xor.b32 %ep, %ep, 1;\n"
        )

    def _pairs(self) -> str:
        """Two requests in flight, for two slots of answers."""
        text = "REQUEST:\n"
        for slot in range(2):
            text += f"mov.u32 %ai, {slot};\n" + _wait(f"FREE{slot}", "empty", "%ai", "%ep") + _ask("%ai")
        for slot, more in enumerate(("%more", "%p3")):
            text += (
                f"mov.u32 %ai, {slot};\n" + _wait(f"ANSWER{slot}", "full", "%ai", "%ap") + self._answer(more)
            )
        return (
            text + "fence.proxy.async.shared::cta;\nxor.b32 %ap, %ap, 1;\nxor.b32 %ep, %ep, 1;\n"
            "and.pred %more, %more, %p3;\n@%more bra REQUEST;\n"
        )

    def _answer(self, more: str) -> str:
        if self.defect == "by hand":
            return (
                _at("answers", "%ai", 16)
                + f"ld.shared.u32 %x, [%at+8];\nsetp.ne.u32 {more}, %x, 0;\nld.shared.u32 %y, [%at];\n"
            )
        return _at("answers", "%ai", 16) + (
            f"ld.shared.b128 %response, [%at];\n{_QUERY}.is_canceled.pred.b128 {more}, %response;\n"
        )

    def _role(self, label: str, work: Callable[[int], str]) -> str:
        """The loop of one warp over its tiles."""
        storer = label == "S"
        first = f"{_QUERY}.get_first_ctaid::x.b32.b128 %tile, %response;\n"
        take = f"@%more {first}"
        if self.defect == "by hand":
            take = "@%more mov.u32 %tile, %y;\n"
        elif self.defect == "blind":
            take = first
        elif self.defect == "refusal" and storer:
            # The coordinates in a refusal are taken for those of no tile.
            take = f"{first}setp.lt.u32 %more, %tile, {self.clusters};\n"
        reset = {"phase": storer, "stale": not storer}.get(self.defect, False)
        parity = 0 if storer else 1
        return (
            f"{label}_TILE:\n"
            + "".join(work(step) for step in range(self.steps))
            + (self._besides() if storer else "")
            + _wait(f"{label}_NEXT", "full", "%ai", "%ap")
            + self._answer("%more")
            + f"mov.u32 %last, %tile;\nadd.u32 %seen, %seen, 1;\n{take}"
            + "fence.proxy.async.shared::cta;\nbar.warp.sync -1;\n"
            + _at("empty", "%ai", 8)
            + "@%leader mbarrier.arrive.shared::cta.b64 _, [%at];\n"
            + _advance("%ai", "%ap", self.answers)
            + (f"mov.u32 %ds, 0;\nmov.u32 %dp, {parity};\n" if reset else "")
            + f"@%more bra {label}_TILE;\n"
        )

    def _address(self, base: str, step: int, to: str) -> str:
        return (
            f"mad.lo.u32 %x, %tile, {self.steps}, {step};\nmad.lo.u32 %x, %x, 32, %lane;\n"
            f"mad.wide.u32 {to}, %x, 4, {base};\n"
        )

    def _load(self, step: int) -> str:
        return (
            _wait(f"L_FREE{step}", "stored", "%ds", "%dp")
            + self._address("%given", step, "%d1")
            + "ld.global.u32 %y, [%d1];\n"
            + _at("data", "%ds", 128)
            + "mad.lo.u32 %at, %lane, 4, %at;\nst.shared.u32 [%at], %y;\n"
            + _at("loaded", "%ds", 8)
            + "mbarrier.arrive.shared::cta.b64 _, [%at];\n"
            + _advance("%ds", "%dp", self.slots)
        )

    def _store(self, step: int) -> str:
        load = _at("data", "%ds", 128) + "mad.lo.u32 %at, %lane, 4, %at;\nld.shared.u32 %y, [%at];\n"
        free = _at("stored", "%ds", 8) + "mbarrier.arrive.shared::cta.b64 _, [%at];\n"
        return (
            _wait(f"S_FULL{step}", "loaded", "%ds", "%dp")
            + (free + load if self.defect == "early" else load + free)
            + "mad.lo.u32 %y, %y, 3, 1;\n"
            + self._value()
            + self._address("%out", step, "%d1")
            + "st.global.u32 [%d1], %y;\n"
            + _advance("%ds", "%dp", self.slots)
        )

    def _value(self) -> str:
        """Change the stored value if the kernel's history is a certain one."""
        wrong = {
            "canceled": "setp.ne.u32 %p2, %seen, 0;\n",
            "third": "setp.eq.u32 %p2, %seen, 2;\n",
            "list": "setp.eq.u32 %p2, %last, 1;\nsetp.eq.and.u32 %p2, %tile, 0, %p2;\n",
            "own": "mov.u32 %x, %ctaid.x;\nsetp.ne.u32 %p2, %x, 0;\nsetp.eq.and.u32 %p2, %tile, 0, %p2;\n",
        }.get(self.defect)
        return f"{wrong}@%p2 add.u32 %y, %y, 7;\n" if wrong else ""

    def _besides(self) -> str:
        """What the storer does besides, once for each tile."""
        last = f"mad.wide.u32 %to, %lane, 4, %out;\nadd.u64 %to, %to, {4 * self.words};\n"
        again = "setp.eq.u32 %p2, %seen, 0;\n@%p2 bra NONE;\n"
        besides = {
            "read": f"{again}mad.wide.u32 %to, %lane, 4, %out;\nld.global.u32 %x, [%to];\nNONE:\n",
            "halo": f"{again}st.global.u32 [%to], %tile;\nNONE:\n",
            "last": "st.relaxed.gpu.global.u32 [%to], %tile;\n",
            "most": "add.u32 %x, %seen, 1;\nred.relaxed.gpu.global.max.u32 [%to], %x;\n",
            "ticket": "@%leader atom.relaxed.gpu.global.add.u32 %x, [%to], 1;\n@%leader st.global.u32 [%to+4], %x;\n",
            "fake": (
                "mov.b64 %d1, 0;\nmov.b128 %response, {%d1, %d1};\n"
                f"{_QUERY}.is_canceled.pred.b128 %p2, %response;\n@%p2 st.global.u32 [%to], 9;\n"
            ),
            "waits": (
                "setp.eq.u32 %p2, %tile, 1;\n@%p2 st.release.gpu.global.u32 [%to], 1;\n"
                "mov.u32 %x, %ctaid.x;\nsetp.ne.u32 %p2, %x, 0;\n@%p2 bra NONE;\n"
                "POLL:\nld.acquire.gpu.global.u32 %x, [%to];\nsetp.ne.u32 %p2, %x, 1;\n@%p2 bra POLL;\nNONE:\n"
            ),
        }.get(self.defect)
        return last + besides if besides else ""

    # --- runs -----------------------------------------------------------------------------------

    @property
    def words(self) -> int:
        return 32 * self.steps * self.clusters

    def launch(self, **how: Any) -> tuple[sim.Report, NDArray[np.uint32]]:
        """Run the kernel; return the report and its output."""
        given = np.arange(self.words + 32, dtype=np.uint32) * 5 + 2
        out = np.zeros(self.words + 32, np.uint32)
        how.setdefault("max_steps", 100_000)
        loaded = _loaded(self.text())
        report = loaded.launch(grid=self.clusters, block=96, args=[given, out], **how)
        return report, out

    def right(self, out: NDArray[np.uint32]) -> bool:
        """True if the output is that of the kernel without a defect."""
        wanted = (np.arange(self.words, dtype=np.uint32) * 5 + 2) * 3 + 1
        return bool((out[: self.words] == wanted).all())


@cache
def _loaded(text: str) -> sim.LoadedModule:
    return sim.load(text)


def every_assignment(clusters: int) -> Iterator[Assignment]:
    """Yield the assignments without refusals between grants: each order of the clusters, cut at each set of places."""
    found = set()
    for order in permutations(range(clusters)):
        for cuts in product(("/", ","), repeat=clusters - 1):
            text = "".join(f"{number}{cut}" for number, cut in zip(order, (*cuts, ""), strict=True))
            found.add(Assignment.of(text))
    yield from sorted(found, key=str)


def defective() -> Iterator[Stealing]:
    """Yield kernels with defects, each with sizes for which some assignment shows it."""
    for defect in DEFECTS:
        # An answer's slot is used again only if a worker requests more often than there are slots.
        counts = (1, 2) if defect in ("reuse", "count") else (2,) if defect == "two in flight" else (1, 3)
        for answers in counts:
            slots = 2 if defect in ("phase", "stale") else 1
            yield Stealing(3, answers, slots, 1 if defect != "early" else 2, defect)
    for defect in ("phase", "canceled", "list", "reuse"):
        yield Stealing(2, 1, 2, 3, defect)


def random_stealing(seed: int) -> Stealing:
    """Return a kernel without a defect."""
    random = Random(seed)
    return Stealing(
        random.choice((2, 3, 3)), random.randint(1, 3), random.randint(1, 3), random.randint(1, 3)
    )
