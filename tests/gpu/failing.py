"""Kernels that fail on a GPU, each run in a process of its own: ``python -m tests.gpu.failing CASE``.

A kernel that traps leaves its process without a GPU.  What the cases print is for :mod:`.test_debugging`.
"""

from __future__ import annotations

import sys
from typing import Any

from pyptx import Kernel, PyptxError, Tile, kernel, ptx, smem
from pyptx.core.types import f32, u32, u64

BLOCK = 64


def hanging(starved: int = 1) -> Kernel:
    """CTA ``starved`` waits for ``full[1]``, at which one thread too few arrives."""

    @kernel(out_specs=(Tile(BLOCK, u32),), grid=3, block=BLOCK, arch="sm_90a")
    def hanging(out):  # type: ignore[no-untyped-def]
        full = smem.alloc(1, u64, stages=3, align=8)
        tid, cta = ptx.special.tid.x(), ptx.special.ctaid.x()
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(full[1], BLOCK)
        ptx.bar.sync(0)
        with ptx.if_((tid > 0) | (cta != starved)):
            ptx.mbarrier.arrive(full[1])
        with ptx.if_(tid >= 32):
            ptx.mbarrier.wait(full[1], 0)
        with ptx.if_(cta == 0):
            ptx.inst.st.global_.u32(ptx.addr(out.ptr + ptx.cvt(tid, u64) * 4), tid + 7)

    return hanging


def wild() -> Kernel:
    """Stores to an address that no allocation has."""

    @kernel(out_specs=(Tile(BLOCK, u32),), block=BLOCK, arch="sm_90a")
    def wild(out):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        ptx.inst.st.global_.u32(ptx.addr(out.ptr + (1 << 46)), tid)

    return wild


def saying() -> Kernel:
    """Prints from two lanes."""

    @kernel(out_specs=(Tile(BLOCK, u32),), block=BLOCK, arch="sm_90a")
    def saying(out):  # type: ignore[no-untyped-def]
        tid = ptx.special.tid.x()
        half = ptx.cvt(tid, f32, rounding="rn") * 0.5
        ptx.printf("[said] %d %f %s %llu\n", tid, half, "text", ptx.cvt(tid, u64) * (1 << 40), pred=tid < 2)
        ptx.inst.st.global_.u32(ptx.addr(out.ptr), tid)

    return saying


def expect(what: str, call: Any) -> None:
    """Print the error of a call, under a heading."""
    try:
        call()
    except (PyptxError, RuntimeError) as error:
        print(f"[{what}] {type(error).__name__}: {error}")
    else:
        print(f"[{what}] no error")


def main() -> None:
    import torch

    case = sys.argv[1]
    if case == "print":
        saying()(out=torch.zeros(BLOCK, dtype=torch.int32, device="cuda").view(torch.uint32))
        torch.cuda.synchronize()
        return
    out = torch.zeros(BLOCK, dtype=torch.int32, device="cuda").view(torch.uint32)
    if case == "ends":
        hanging(starved=9)(out=out)
        right = torch.equal(out.view(torch.int32).cpu(), torch.arange(BLOCK, dtype=torch.int32) + 7)
        print(f"[right] {right}")
        return
    good, bad = hanging(starved=9), wild() if case == "wild" else hanging()
    good(out=out)
    torch.cuda.synchronize()
    expect("call", lambda: bad(out=out))
    expect("torch", torch.cuda.synchronize)
    if case != "exit":
        expect("next", lambda: good(out=out))


if __name__ == "__main__":
    main()
