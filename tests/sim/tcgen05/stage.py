"""A stage for one thread's tcgen05 instructions: shared memory and tensor memory before, tensor memory after.

For one CTA, or for a pair, where one thread of either CTA has the instructions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.sim import Report
from tests.sim.build import Kernel
from tests.sim.tcgen05.test_mma import SIZE, Operand

__all__ = [
    "COLUMNS",
    "COMMIT",
    "COMMIT_PAIR",
    "Cells",
    "cells_of",
    "perform",
    "perform_pair",
    "played",
    "played_pair",
    "report_of",
]

Cells = NDArray[np.uint32]

#: Columns of tensor memory that the stage has.
COLUMNS = 256
_PARAMS = "image:u64 cells:u64 out:u64 a:u64 b:u64 c:u64 e:u64 v:u32 w:u32"
_PART = 64
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar]"
#: To the barriers of both CTAs of a pair.
COMMIT_PAIR = (
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], both"
)


@cache
def _kernel(code: str, then: tuple[str, str, str] | None, target: str, issuer: int | None = None) -> Kernel:
    """``issuer``: the rank of the CTA of a pair whose thread executes ``code``; None without a pair."""
    release, acquire, second = then or ("", "", "")
    group = 1 if issuer is None else 2
    sync, commit = "bar.sync 0", COMMIT
    if issuer is not None:
        sync, commit = "barrier.cluster.arrive.aligned\nbarrier.cluster.wait.aligned", COMMIT_PAIR
    follow = f"""
    {release}
    {sync}
    {acquire}
    setp.ne.u32 q, warp, 1
    @q bra WAITING
    setp.ne.u32 q, rank, {0 if issuer is None else 1 - issuer}
    @q bra WAITING
    elect.sync _|q, -1
    @!q bra WAITING
    {second}
    {commit}
    """
    copies = "\n".join(
        f"ld.global.v4.b32 {{r0, r1, r2, r3}}, [i+{2048 * n}]\nst.shared.v4.b32 [s+{2048 * n}], {{r0, r1, r2, r3}}"
        for n in range(SIZE // 2048)
    )
    registers = "{" + ", ".join(f"r{n}" for n in range(_PART)) + "}"
    quads = ["{" + ", ".join(f"r{n + i}" for i in range(4)) + "}" for n in range(0, _PART, 4)]
    fills = dumps = ""
    for first in range(0, COLUMNS, _PART):
        at = [4 * first + 16 * n for n in range(len(quads))]
        fills += "\n".join(f"ld.global.v4.b32 {q}, [i+{o}]" for q, o in zip(quads, at, strict=True))
        fills += f"\nadd.u32 tc, tl, {first}\ntcgen05.st.sync.aligned.32x32b.x{_PART}.b32 [tc], {registers}\n"
        dumps += f"add.u32 tc, tl, {first}\ntcgen05.ld.sync.aligned.32x32b.x{_PART}.b32 {registers}, [tc]\n"
        dumps += "\n".join(f"st.global.v4.b32 [o+{o}], {q}" for q, o in zip(quads, at, strict=True)) + "\n"
    text = f"""
    .shared b8 mem[{SIZE}] 1024
    .shared b8 slot[32] 8
    .reg b32 r0..r{_PART - 1} x0..x7 n m tm tl tc d
    .reg u32 t s warp bar rank
    .reg u16 both
    .reg u64 i o
    .reg pred others q never always
    mov.u32 t, %tid.x
    mov.u32 rank, %cluster_ctarank
    mov.u16 both, 3
    mov.u32 s, mem
    mad.lo.u32 s, t, 16, s
    mad.wide.u32 image, rank, {SIZE}, image
    mad.wide.u32 cells, rank, {4 * 128 * COLUMNS}, cells
    mad.wide.u32 out, rank, {4 * 128 * COLUMNS}, out
    mad.wide.u32 i, t, 16, image
    mov.u32 bar, slot
    shr.u32 warp, t, 5
    {copies}
    setp.ne.u32 others, warp, 0
    setp.ne.u32 never, warp, warp
    setp.eq.u32 always, warp, warp
    @others bra ALLOCATED
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [bar+8], {COLUMNS}
    elect.sync _|q, -1
    @q mbarrier.init.shared::cta.b64 [bar], {2 if then else 1}
    ALLOCATED:
    fence.proxy.async.shared::cta
    bar.sync 0
    ld.shared.b32 tm, [bar+8]
    shl.b32 tl, warp, 21
    add.u32 tl, tl, tm
    mad.wide.u32 i, t, {4 * COLUMNS}, cells
    {fills}
    tcgen05.wait::st.sync.aligned
    tcgen05.fence::before_thread_sync
    {sync}
    tcgen05.fence::after_thread_sync
    mov.b32 d, tm
    @others bra ISSUED
    setp.ne.u32 q, rank, {issuer or 0}
    @q bra ISSUED
    elect.sync _|q, -1
    @!q bra ISSUED
    {code}
    {commit}
    ISSUED:
    {follow if then else ""}
    WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0
    @!q bra WAITING
    tcgen05.fence::after_thread_sync
    mad.wide.u32 o, t, {4 * COLUMNS}, out
    {dumps}
    tcgen05.wait::ld.sync.aligned
    {sync}
    @others bra END
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 tm, {COLUMNS}
    END:
    ret
    """
    return Kernel(text, _PARAMS, target=target)


def cells_of(seed: int = 0) -> Cells:
    """Tensor memory full of words that no test expects by chance."""
    return np.random.default_rng(seed).integers(1 << 20, 1 << 22, (128, COLUMNS)).astype(np.uint32)


def played(
    code: str,
    operands: list[Operand],
    cells: Cells,
    words: dict[str, int],
    *,
    schedule: str = "eager",
    seed: int = 0,
    sanitize: bool = True,
    then: tuple[str, str, str] | None = None,
    target: str = "sm_100a",
) -> tuple[Report, Cells]:
    """Run ``code`` in one thread; it has ``tm`` (and ``d``), descriptors a b c e and words v w.

    ``then``: what all threads execute before and after a barrier behind it, and the code of a second thread.
    """
    image = np.zeros(SIZE, np.uint8)
    for operand in operands:
        operand.put(image)
    out = np.zeros((128, COLUMNS), np.uint32)
    given: list[Any] = [words.get(name, 0) for name in "abcevw"]
    report = _kernel(code, then, target).run(
        image, cells.copy(), out, *given, block=128, schedule=schedule, seed=seed, sanitize=sanitize
    )
    return report, out


def perform(code: str, operands: list[Operand], cells: Cells, words: dict[str, int], **options: Any) -> Cells:
    """As :func:`played`; the verdict must be clean."""
    report, out = played(code, operands, cells, words, **options)
    assert report.verdict == "clean", report
    return out


def report_of(
    code: str, operands: list[Operand], cells: Cells, words: dict[str, int], **options: Any
) -> Report:
    return played(code, operands, cells, words, **options)[0]


def played_pair(
    code: str,
    operands: tuple[list[Operand], list[Operand]],
    cells: Cells,
    words: dict[str, int],
    *,
    schedule: str = "eager",
    seed: int = 0,
    sanitize: bool = True,
    then: tuple[str, str, str] | None = None,
    issuer: int = 0,
    target: str = "sm_100a",
) -> tuple[Report, Cells]:
    """As :func:`played`, in a pair: ``operands`` and ``cells[2, 128, COLUMNS]`` are each CTA's own.

    ``then``'s second thread is one of the CTA that is not the issuer's.
    """
    image = np.zeros((2, SIZE), np.uint8)
    for mine, placed in zip(image, operands, strict=True):
        for operand in placed:
            operand.put(mine)
    out = np.zeros_like(cells)
    given: list[Any] = [words.get(name, 0) for name in "abcevw"]
    report = _kernel(code, then, target, issuer).run(
        image,
        cells.copy(),
        out,
        *given,
        grid=2,
        cluster=2,
        block=128,
        schedule=schedule,
        seed=seed,
        sanitize=sanitize,
    )
    return report, out


def perform_pair(
    code: str,
    operands: tuple[list[Operand], list[Operand]],
    cells: Cells,
    words: dict[str, int],
    **options: Any,
) -> Cells:
    """As :func:`played_pair`; the verdict must be clean."""
    report, out = played_pair(code, operands, cells, words, **options)
    assert report.verdict == "clean", report
    return out
