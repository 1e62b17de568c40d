"""Clusters of one CTA: the barrier, and addresses that hold a rank."""

from __future__ import annotations

import numpy as np

from ..case import KernelCase, Out, kernel

_THREADS = 96


def _barrier(aligned: str) -> KernelCase:
    """What threads write before they arrive, others read after they have waited, several times."""
    lines = ["mov.u64 %d28, room;", "mov.u32 %r1, %index;"]
    for number, (arrive, wait) in enumerate(
        (("", ""), (".release", ".acquire"), (".release", ""), ("", ".acquire"))
    ):
        step = 2 * number + 1
        lines += [
            "mad.wide.u32 %d1, %index, 4, %d28;",
            "st.shared.u32 [%d1], %r1;",
            f"barrier.cluster.arrive{arrive}{aligned};",
            f"mul.lo.u32 %r2, %index, {step};",
            f"barrier.cluster.wait{wait}{aligned};",
            f"add.u32 %r2, %index, {step * 7};",
            f"rem.u32 %r2, %r2, {_THREADS};",
            "mad.wide.u32 %d2, %r2, 4, %d28;",
            "ld.shared.u32 %r3, [%d2];",
            "mad.lo.u32 %r1, %r3, 5, %r1;",
            f"barrier.cluster.arrive.relaxed{aligned};",
            f"barrier.cluster.wait{aligned};",
        ]
    lines += ["mad.wide.u32 %d3, %index, 4, %out;", "st.global.u32 [%d3], %r1;"]
    return KernelCase(
        f"cluster barrier{aligned}",
        kernel("\n".join(lines), registers=".shared .align 16 .b8 room[512];"),
        (Out(np.uint32, _THREADS),),
        block=(_THREADS,),
        covers=("barrier.cluster.arrive", "barrier.cluster.wait"),
        races=True,
    )


def _ended() -> KernelCase:
    """Threads that have ended are not waited for."""
    body = """
    setp.ge.u32 %p1, %index, 40;
    @%p1 exit;
    mov.u64 %d28, room;
    mad.wide.u32 %d1, %index, 4, %d28;
    st.shared.u32 [%d1], %index;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    sub.u32 %r2, 39, %index;
    mad.wide.u32 %d2, %r2, 4, %d28;
    ld.shared.u32 %r3, [%d2];
    mad.wide.u32 %d3, %index, 4, %out;
    st.global.u32 [%d3], %r3;
    """
    return KernelCase(
        "cluster barrier of the threads that are left",
        kernel(body, registers=".shared .align 16 .b8 room[512];"),
        (Out(np.uint32, _THREADS),),
        block=(_THREADS,),
        covers=("barrier.cluster.arrive", "barrier.cluster.wait"),
    )


def _ranks() -> KernelCase:
    """mapa to rank 0 is the own address; getctarank of it is 0; both for addresses of either kind."""
    body = """
    mov.u32 %r1, room;
    mov.u64 %d1, room;
    mul.lo.u32 %r2, %index, 4;
    add.u32 %r1, %r1, %r2;
    mad.wide.u32 %d1, %index, 4, %d1;
    cvta.shared.u64 %d2, %d1;
    mov.u32 %r9, %cluster_ctarank;
    mapa.shared::cluster.u32 %r3, %r1, %r9;
    mapa.shared::cluster.u64 %d3, %d1, 0;
    mapa.u64 %d4, %d2, %r9;
    getctarank.shared::cluster.u32 %r4, %r3;
    getctarank.shared::cluster.u64 %r5, %d3;
    getctarank.u64 %r6, %d4;
    st.shared.u32 [%r1], %index;
    ld.shared::cluster.u32 %r7, [%r3];
    ld.shared::cluster.u32 %r8, [%d3];
    ld.u32 %r10, [%d4];
    sub.u32 %r3, %r3, %r1;
    sub.u64 %d3, %d3, %d1;
    sub.u64 %d4, %d4, %d2;
    cvt.u32.u64 %r11, %d3;
    cvt.u32.u64 %r12, %d4;
    mad.wide.u32 %d5, %index, 48, %out;
    st.global.v4.u32 [%d5], {%r3, %r4, %r5, %r6};
    st.global.v4.u32 [%d5+16], {%r7, %r8, %r10, %r11};
    st.global.v4.u32 [%d5+32], {%r12, %r9, %r9, %r9};
    """
    return KernelCase(
        "ranks in addresses",
        kernel(body, registers=".shared .align 16 .b8 room[512];"),
        (Out(np.uint32, (32, 12)),),
        covers=("mapa", "getctarank"),
    )


CASES = [_barrier(""), _barrier(".aligned"), _ended(), _ranks()]
