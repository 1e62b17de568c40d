"""Special registers whose values a launch decides, and clocks, of which only the order is compared."""

from __future__ import annotations

import numpy as np

from ..case import KernelCase, Out, kernel

#: What a launch decides, in each thread.
_PLACES = [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
_MASKS = [f"lanemask_{name}" for name in ("eq", "le", "lt", "ge", "gt")]
_CLUSTER = [
    f"{name}.{axis}"
    for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
    for axis in "xyz"
]
_CLUSTER += ["cluster_ctarank", "cluster_nctarank"]


def _read(
    name: str, registers: list[str], grid: tuple[int, ...], block: tuple[int, ...], **options: int
) -> KernelCase:
    """Each thread stores each register: ``out[register, CTA, thread]``."""
    ctas, threads = int(np.prod(grid)), int(np.prod(block))
    lines = [
        "mov.u32 %r0, %ctaid.z; mov.u32 %r1, %nctaid.y; mov.u32 %r2, %ctaid.y;",
        "mad.lo.u32 %r0, %r0, %r1, %r2;",
        "mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x;",
        "mad.lo.u32 %r0, %r0, %r1, %r2;",
        "mov.u32 %r1, %ntid.z; mov.u32 %r2, %tid.z;",
        "mad.lo.u32 %r0, %r0, %r1, %r2;",
        "mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.y;",
        "mad.lo.u32 %r0, %r0, %r1, %r2;",
        "mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;",
        "mad.lo.u32 %r0, %r0, %r1, %r2;",
        "mad.wide.u32 %d0, %r0, 4, %out;",
    ]
    for number, register in enumerate(registers):
        lines += [f"mov.u32 %r3, %{register};", f"st.global.u32 [%d0+{4 * ctas * threads * number}], %r3;"]
    return KernelCase(
        name,
        kernel("\n".join(lines)),
        (Out(np.uint32, (len(registers), ctas, threads)),),
        grid=grid,
        block=block,
        covers=("mov",),
        **options,
    )


def _flags() -> KernelCase:
    """Facts of the launch that are predicates or constants."""
    body = """
    mov.pred %p0, %is_explicit_cluster;
    selp.u32 %r0, 1, 0, %p0;
    st.global.u32 [%out], %r0;
    mov.u32 %r0, %dynamic_smem_size;
    st.global.u32 [%out+4], %r0;
    mov.u32 %r0, %laneid;
    st.global.u32 [%out+8], %r0;
    """
    return KernelCase(
        "facts of the launch",
        kernel(body),
        (Out(np.uint32, 3),),
        block=(1,),
        dynamic_smem=768,
        covers=("mov",),
    )


def _clocks() -> KernelCase:
    """Later readings are not smaller, differences of a 32-bit clock are those of the 64-bit one's low half."""
    body = """
    mov.u64 %d0, %clock64;
    mov.u32 %r0, %clock;
    mov.u32 %r1, %clock_hi;
    mov.u64 %d4, %globaltimer;
    mov.u32 %r8, 0;
    SPIN:
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p0, %r8, 200;
    nanosleep.u32 20;
    @%p0 bra SPIN;
    mov.u32 %r2, %clock;
    mov.u32 %r3, %clock_hi;
    mov.u64 %d1, %clock64;
    mov.u64 %d5, %globaltimer;
    setp.gt.u64 %p1, %d1, %d0;
    selp.u32 %r4, 1, 0, %p1;
    setp.ge.u64 %p1, %d5, %d4;
    selp.u32 %r5, 1, 0, %p1;
    sub.u32 %r6, %r2, %r0;
    setp.ne.u32 %p1, %r6, 0;
    selp.u32 %r6, 1, 0, %p1;
    setp.ge.u32 %p1, %r3, %r1;
    selp.u32 %r7, 1, 0, %p1;
    mad.wide.u32 %d6, %index, 16, %out;
    st.global.v4.u32 [%d6], {%r4, %r5, %r6, %r7};
    """
    return KernelCase(
        "clocks go forward", kernel(body), (Out(np.uint32, (64, 4)),), block=(64,), covers=("mov",)
    )


CASES = [
    _read("places in a line", [*_PLACES, *_MASKS, "laneid"], (3,), (80,)),
    _read("places in a plane", [*_PLACES, "laneid"], (2, 3), (8, 12)),
    _read("places in space", [*_PLACES, "laneid"], (2, 2, 2), (4, 3, 8)),
    _read("places in a launch without clusters", _CLUSTER, (4, 2), (32,)),
    _flags(),
    _clocks(),
]
