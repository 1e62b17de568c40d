"""CTA barriers in every form, and fences of every kind around values handed from thread to thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyptx.isa import all_forms

from ..case import In, KernelCase, Out, kernel
from ..fragments import matches
from ..words import uniform

_SHARED = ".shared .align 16 .b32 box[1024];"
_ADDRESS = "mov.u32 %r1, box; mad.lo.u32 %r1, %thread, 4, %r1; mad.wide.u32 %d1, %index, 4, %out;"


def _handed_over() -> Iterator[KernelCase]:
    """Every thread stores, waits, and loads what its mirror image stored."""
    for match in matches("bar.sync", "barrier.sync"):
        for count, operands in (
            ("no count", ("0", "15", "%r2")),
            ("a count", ("0, 128", "15, 128", "%r2, 128", "3, %r3", "%r2, %r3")),
        ):
            body = [_ADDRESS, "mov.u32 %r2, 7;", "mov.u32 %r3, %ntid.x;", "mov.u32 %r9, 0;"]
            for number, operand in enumerate(operands):
                body += [
                    f"mad.lo.u32 %r4, %thread, 5, {number};",
                    "st.shared.u32 [%r1], %r4;",
                    f"{match.name} {operand};",
                    "mov.u32 %r5, box; mad.lo.u32 %r5, %thread, -4, %r5;",
                    "ld.shared.u32 %r6, [%r5+508];",
                    "mad.lo.u32 %r9, %r9, 31, %r6;",
                    f"{match.name} {operand};",
                ]
            body.append("st.global.u32 [%d1], %r9;")
            yield KernelCase(
                f"{match.name} with {count}",
                kernel("\n".join(body), registers=_SHARED),
                (Out(np.uint32, 128),),
                block=(128,),
                covers=(match.form.id,),
            )


def _reductions() -> Iterator[KernelCase]:
    """Votes of a CTA, of some of its warps, of a warp that is not whole, and beside exited threads."""
    for match in matches("bar.red.popc", "bar.red", "barrier.red.popc", "barrier.red"):
        flags = np.concatenate(
            [
                np.repeat([0, 1], 96),
                uniform("votes", 96) & np.uint64(1),
                np.arange(96) == 77,
                np.arange(96) != 5,
            ]
        ).astype(np.uint32)
        result = "%r20" if "popc" in match.form.id else "%p1"
        keep = "" if "popc" in match.form.id else "selp.u32 %r20, 1, 0, %p1;"
        for threads, extra in ((96, ""), (80, ""), (96, "setp.ge.u32 %p2, %thread, 70; @%p2 exit;")):
            body = [
                "mad.wide.u32 %d0, %index, 4, %given; ld.global.u32 %r0, [%d0]; setp.ne.u32 %p0, %r0, 0;",
                "mad.wide.u32 %d1, %index, 16, %out; mov.u32 %r2, 4; mov.u32 %r3, 64;",
                extra,
            ]
            for slot, operands in enumerate(("0, %p0", "%r2, !%p0", "1, 96, !%p0")):
                if extra and slot == 2:
                    break
                body += [
                    f"{match.name} {result}, {operands};",
                    keep,
                    f"st.global.u32 [%d1+{4 * slot}], %r20;",
                ]
            # The first two warps alone, with a count in a register.
            body += [
                "setp.ge.u32 %p3, %thread, 64; @%p3 bra PAST;",
                f"{match.name} {result}, 9, %r3, %p0;",
                keep,
                "st.global.u32 [%d1+12], %r20;",
                "PAST:",
            ]
            yield KernelCase(
                f"{match.name} of {threads} threads" + (" of which some have exited" if extra else ""),
                kernel("\n".join(body), "given:u64 out:u64", registers=_SHARED),
                (In(flags), Out(np.uint32, (5, threads, 4), initial=99)),
                grid=(5,),
                block=(threads,),
                covers=(match.form.id,),
            )


def _producers() -> Iterator[KernelCase]:
    """Two warps produce, two consume, over two buffers with a barrier each for full and for empty."""
    for match in matches("bar.arrive", "barrier.arrive"):
        sync = match.name.replace("arrive", "sync")
        for numbers in (("1", "2", "3", "4"), ("%r21", "%r22", "%r23", "%r24")):
            for count in ("128", "%r25"):
                full, empty = numbers[:2], numbers[2:]
                setup = [f"mov.u32 %r{21 + i}, {i + 5};" for i in range(4)]
                produce, consume = [], []
                for step in range(6):
                    slot = step % 2
                    if step > 1:
                        produce.append(f"{sync} {empty[slot]}, {count};")
                    produce += [
                        f"mad.lo.u32 %r4, %thread, 7, {step * 1000};",
                        f"st.shared.u32 [%r1+{slot * 256}], %r4;",
                        f"{match.name} {full[slot]}, {count};",
                    ]
                    consume += [
                        f"{sync} {full[slot]}, {count};",
                        f"ld.shared.u32 %r4, [%r1+{slot * 256 - 256}];",
                        "mad.lo.u32 %r9, %r9, 3, %r4;",
                    ]
                    if step < 4:
                        consume.append(f"{match.name} {empty[slot]}, {count};")
                body = [
                    _ADDRESS, "mov.u32 %r9, 0;", "mov.u32 %r25, %ntid.x;", *setup, "setp.ge.u32 %p0, %thread, 64;",
                    "@%p0 bra CONSUMER;", *produce, "bra DONE;", "CONSUMER:", *consume, "DONE:", "st.global.u32 [%d1], %r9;",
                ]  # fmt: skip
                where = "registers" if numbers[0].startswith("%") else "immediates"
                yield KernelCase(
                    f"{match.name} with barriers in {where} and {count} threads",
                    kernel("\n".join(body), registers=_SHARED),
                    (Out(np.uint32, 128),),
                    block=(128,),
                    covers=(match.form.id,),
                )


def _apart() -> KernelCase:
    """The lanes of each warp reach one barrier at two places: allowed unless it is .aligned."""
    body = f"""
        {_ADDRESS}
        and.b32 %r2, %thread, 1;
        setp.eq.u32 %p0, %r2, 0;
        st.shared.u32 [%r1], %thread;
        @%p0 bra EVEN;
        barrier.sync 1;
        ld.shared.u32 %r3, [%r1+-4];
        barrier.sync 2, 64;
        add.u32 %r3, %r3, 100;
        bra DONE;
        EVEN:
        barrier.sync 1;
        ld.shared.u32 %r3, [%r1+4];
        barrier.sync 2, 64;
        add.u32 %r3, %r3, 200;
        DONE:
        st.global.u32 [%d1], %r3;
    """
    return KernelCase(
        "lanes of a warp at two places of one barrier",
        kernel(body, registers=_SHARED),
        (Out(np.uint32, 64),),
        block=(64,),
        covers=("barrier.sync",),
    )


def _met() -> KernelCase:
    """bar.warp.sync: whole warps, halves with masks of their own, two places."""
    body = f"""
        {_ADDRESS}
        st.shared.u32 [%r1], %lane;
        bar.warp.sync 0xffffffff;
        xor.b32 %r2, %thread, 31;
        mov.u32 %r3, box;
        mad.lo.u32 %r3, %r2, 4, %r3;
        ld.shared.u32 %r4, [%r3];
        bar.warp.sync 0xffffffff;
        mad.lo.u32 %r4, %r4, 100, %thread;
        st.shared.u32 [%r1], %r4;
        setp.gt.u32 %p0, %lane, 15;
        mov.b32 %r5, 0xffff;
        @%p0 mov.b32 %r5, 0xffff0000;
        bar.warp.sync %r5;
        xor.b32 %r2, %thread, 15;
        mov.u32 %r3, box;
        mad.lo.u32 %r3, %r2, 4, %r3;
        ld.shared.u32 %r6, [%r3];
        @%p0 bra UPPER;
        bar.warp.sync 0xffffffff;
        bra DONE;
        UPPER:
        bar.warp.sync 0xffffffff;
        DONE:
        mad.lo.u32 %r6, %r6, 3, %r4;
        st.global.u32 [%d1], %r6;
    """
    return KernelCase(
        "bar.warp.sync",
        kernel(body, registers=_SHARED),
        (Out(np.uint32, 64),),
        block=(64,),
        covers=("bar.warp.sync",),
    )


#: What the driver of the recordings does not read: PTX ISA 9.1 and later, and one that only ptxas takes.
_UNREADABLE = ("fence.proxy.alias.sem", "fence.proxy.async_generic.release.read")


def _fences() -> Iterator[KernelCase]:
    """Every fence between a store and a load of what another thread stored."""
    for form in all_forms():
        if not form.id.startswith(("fence", "membar")) or form.id in _UNREADABLE:
            continue
        for match in matches(form.id):
            if match.name == "membar.proxy.async":
                continue
            operand = " [%d4], 128" if match.form.id == "fence.proxy.tensormap.acquire" else ""
            body = f"""
                mov.u32 %r1, box;
                mad.lo.u32 %r1, %thread, 4, %r1;
                mad.wide.u32 %d1, %index, 4, %out;
                mad.lo.u32 %r4, %thread, 3, 5;
                st.shared.u32 [%r1], %r4;
                mov.b64 %d4, %map;
                cvta.global.u64 %d4, %d4;
                {match.name}{operand};
                bar.sync 0;
                {match.name}{operand};
                xor.b32 %r2, %thread, 33;
                mov.u32 %r3, box;
                mad.lo.u32 %r3, %r2, 4, %r3;
                ld.shared.u32 %r4, [%r3];
                st.global.u32 [%d1], %r4;
            """
            yield KernelCase(
                match.name,
                kernel(body, "map:u64 out:u64", registers=_SHARED),
                (In(np.zeros(64, np.uint32)), Out(np.uint32, 64)),
                block=(64,),
                covers=(match.form.id,),
            )


CASES = [*_handed_over(), *_reductions(), *_producers(), _apart(), _met(), *_fences()]
