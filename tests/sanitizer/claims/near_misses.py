"""Kernels that nearly hold for every schedule: under some schedule each gives another result, or never ends.

Most are rings with one defect (:mod:`.rings`). The others are small kernels in several sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from pyptx import sim

from .choice_misses import choice_misses
from .flag_misses import flag_misses
from .launch_misses import launch_misses
from .near_miss import BLACKWELL, NearMiss, near_miss
from .rings import defective

__all__ = ["NEAR_MISSES"]


def _arrivals() -> Iterator[NearMiss]:
    """More warps arrive than a phase counts, so that some count in the next one: which ones is open."""
    for warps, count in ((2, 1), (3, 1), (4, 2), (6, 3), (4, 1), (6, 2)):
        for waits in (False, True):
            wait = "A:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;\n@!%p3 bra A;\n" if waits else ""
            body = (
                f"@%p1 mbarrier.init.shared.b64 [bar], {count};\nbar.sync 0;\n"
                f"@%p5 mbarrier.arrive.shared.b64 _, [bar];\n{wait}st.global.u32 [%d2], %thread;\n"
            )
            yield near_miss(f"arrivals-{warps}-{count}-{waits}", body, threads=32 * warps)


def _groups() -> Iterator[NearMiss]:
    """Warps that meet at one named barrier in groups: which ones meet is open."""
    for warps, count in ((4, 64), (6, 64), (6, 96), (8, 64), (8, 128)):
        for number in (1, 7):
            body = f"bar.sync {number}, {count};\nst.global.u32 [%d2], %thread;\n"
            yield near_miss(f"groups-{warps}-{count}-{number}", body, threads=32 * warps)


def _columns() -> Iterator[NearMiss]:
    """Warps of a CTA that allocate tensor memory at once, or CTAs that hold columns and wait for more."""
    take = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], {n};\n"
    free = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, {n};\n"
    for warps, columns in product((2, 3, 4), (32, 64, 128)):
        body = (
            "mov.u32 %r1, room;\nmad.lo.u32 %r1, %warp, 16, %r1;\n"
            + take.format(n=columns)
            + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\n"
            + free.format(n=columns)
        )
        yield near_miss(f"columns-{warps}-{columns}", body, threads=32 * warps, arch=BLACKWELL)
    for ctas, columns in ((2, 256), (4, 128), (4, 256)):
        body = (
            "mov.u32 %r1, room;\n" + take.format(n=columns) + "bar.warp.sync -1;\nld.shared.u32 %r2, [%r1];\n"
        )
        body += (
            "mov.u32 %r1, room;\n" + take.format(n=columns) + "bar.warp.sync -1;\nld.shared.u32 %r3, [%r1];\n"
        )
        body += free.format(n=columns) + free.replace("%r2", "%r3").format(n=columns)
        yield near_miss(f"columns-twice-{ctas}-{columns}", body, grid=ctas, threads=32, arch=BLACKWELL)


def _grids() -> Iterator[NearMiss]:
    """CTAs that wait for a count, and go on before all have counted; or that wait by atomic operations."""
    waits = {
        "acquire": "ld.acquire.gpu.global.u32 %r2, [%a];",
        "volatile": "ld.volatile.global.u32 %r2, [%a];",
        "atomic": "atom.acquire.gpu.global.add.u32 %r2, [%a], 0;",
    }
    arrivals = {
        "atom": "atom.acq_rel.gpu.global.add.u32 %r1, [%a], 1;",
        "red": "red.release.gpu.global.add.u32 [%a], 1;",
    }
    for ctas, (wait, asks), (arrive, adds) in product((3, 4, 8), waits.items(), arrivals.items()):
        body = (
            f"bar.sync 0;\n@!%p1 bra END;\n{adds}\nPOLL:\n{asks}\nsetp.lt.u32 %p3, %r2, {ctas - 1};\n"
            "@%p3 bra POLL;\nEND:\nbar.sync 0;\nst.global.u32 [%d2], %thread;\n"
        )
        yield near_miss(f"grid-{ctas}-{wait}-{arrive}", body, grid=ctas)


def _late_waits() -> Iterator[NearMiss]:
    """A warp that waits for a phase which others may complete twice, or a phase that has not begun."""
    for rounds, delay, parity in product((2, 3, 4), (0, 40), (0, 1)):
        spin = (
            f"mov.u32 %r9, 0;\nSPIN:\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p4, %r9, {delay};\n@%p4 bra SPIN;\n"
            if delay
            else ""
        )
        body = (
            "@%p1 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\nsetp.ne.u32 %p6, %warp, 0;\n@%p6 bra OTHER;\n"
            "mov.u32 %r1, 0;\nTURN:\n@%p1 mbarrier.arrive.shared.b64 _, [bar];\nand.b32 %r2, %r1, 1;\n"
            "A:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], %r2;\n@!%p3 bra A;\nadd.u32 %r1, %r1, 1;\n"
            f"setp.lt.u32 %p4, %r1, {rounds};\n@%p4 bra TURN;\nbra END;\nOTHER:\n{spin}"
            f"B:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], {parity};\n@!%p3 bra B;\nEND:\n"
            "st.global.u32 [%d2], %thread;\n"
        )
        yield near_miss(f"late-{rounds}-{delay}-{parity}", body)


def _all() -> Iterator[NearMiss]:
    for ring in defective():

        def run(ring: Any = ring, **how: Any) -> sim.Report:
            return ring.launch(sim.load(ring.text()), **how)[0]  # type: ignore[no-any-return]

        yield NearMiss(f"ring-{ring.name}", run)
    for family in (
        _arrivals,
        _groups,
        _columns,
        _grids,
        _late_waits,
        flag_misses,
        choice_misses,
        launch_misses,
    ):
        yield from family()


#: By name.
NEAR_MISSES: dict[str, NearMiss] = {one.name: one for one in _all()}
