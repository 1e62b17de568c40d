"""Instructions that only take time or tell others: a kernel around each still gives its values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..case import KernelCase, Out, kernel


def _case(name: str, body: str, *covers: str, directives: str = "") -> KernelCase:
    text = kernel(
        f"""
        mad.wide.u32 %d1, %index, 4, %out;
        mad.lo.u32 %r0, %thread, 11, 3;
        mov.u32 %r1, %thread;
        {body}
        mad.lo.u32 %r0, %r0, 7, %r1;
        st.global.u32 [%d1], %r0;
        """,
        directives=directives,
    )
    return KernelCase(name, text, (Out(np.uint32, 128),), block=(128,), covers=covers)


def _cases() -> Iterator[KernelCase]:
    yield _case("nanosleep", "nanosleep.u32 50; nanosleep.u32 %r1; nanosleep.u32 0;", "nanosleep")
    yield _case("pmevent", "pmevent 0; pmevent 15; pmevent.mask 5;", "pmevent", "pmevent.mask")
    yield _case(
        "griddepcontrol without dependents",
        "griddepcontrol.wait; add.u32 %r1, %r1, 1; griddepcontrol.launch_dependents;",
        "griddepcontrol",
    )
    yield _case(
        "setmaxnreg",
        "setmaxnreg.dec.sync.aligned.u32 40; add.u32 %r1, %r1, 2; setmaxnreg.inc.sync.aligned.u32 56;",
        "setmaxnreg",
        directives=".maxntid 128 .minnctapersm 1 .maxnreg 64",
    )


CASES = list(_cases())
