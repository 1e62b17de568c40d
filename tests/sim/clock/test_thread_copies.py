"""cp.async: the lines that L1 looks up and keeps, by what an H200 took."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 in, .param .u64 out) {
.reg .b64 %a, %o, %b, %e; .reg .b32 %t, %i, %s; .reg .pred %p;
.shared .align 128 .b8 buffer[8192];
ld.param.u64 %a, [in]; cvta.to.global.u64 %a, %a; ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o;
mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, APART, %a; mov.u32 %s, buffer; mad.lo.u32 %s, %t, 16, %s;
mov.b32 %i, 0; setp.eq.u32 %p, %t, 0;
loop:
bar.sync 0;
mov.u64 %b, %clock64;
COPIES
cp.async.commit_group; cp.async.wait_group 0;
mov.u64 %e, %clock64;
sub.u64 %e, %e, %b; setp.eq.u32 %p, %t, 0; @%p st.volatile.global.u64 [%o], %e;
add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 4; @%p bra loop;
ret;
}
"""


def cycles(copies: int, apart: int, cache: str = "ca") -> float:
    """Return what the last round of copies takes, of 16 bytes each, ``apart`` from lane to lane."""
    lines = "\n".join(
        f"cp.async.{cache}.shared.global [%s+{512 * n}], [%a+{32 * apart * n}], 16;" for n in range(copies)
    )
    text = TEXT.replace("APART", str(apart)).replace("COPIES", lines)
    out, data = np.zeros(1, np.int64), np.zeros(1 << 16, np.float32)
    found = pyptx.predict(text, "f", grid=1, block=32, args=[data, out], gpu="h200", clock=1980.0, l2="warm")
    assert str(found.verdict) == "clean"
    return float(out[0])


@pytest.mark.parametrize(("copies", "apart", "measured"), [(1, 16, 71), (1, 128, 134), (4, 128, 325)])
def test_what_l1_keeps_is_copied_line_by_line(copies: int, apart: int, measured: float) -> None:
    assert cycles(copies, apart) == pytest.approx(measured, rel=0.12)


def test_copies_past_l1_find_nothing_there() -> None:
    # From L2 an H200 takes 326.
    assert cycles(1, 16, "cg") == pytest.approx(326, rel=0.1)
