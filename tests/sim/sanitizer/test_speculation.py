"""Loads that race, and whose value does not matter: guesses of a compare-and-swap, loads that only the writer uses."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
{function}
.visible .entry k(.param .u64 out_param) .reqntid 64
{{
.reg .pred p, q, r, done; .reg .b32 tid, x, y, z, w; .reg .b64 out, at, wide;
.param .b32 given; .param .b32 taken;
ld.param.u64 out, [out_param]; mov.u32 tid, %tid.x; setp.eq.u32 p, tid, 0;
"""
_DOUBLES = """
.func (.param .b32 result) doubles(.param .b32 number)
{{ .reg .b32 x; ld.param.b32 x, [number]; add.u32 x, x, x; st.param.b32 [result], x; ret; }}
"""
_LOOP = """
ld.global.u32 x, [out];
TRY: {before}
mov.u32 y, x; add.u32 z, y, 3;
atom.global.cas.b32 x, [{at}], y, z;
setp.ne.u32 q, x, y; @q bra TRY;
"""
_ADDS = _LOOP.format(before="", at="out")


def _rules(body: str, function: str = "") -> set[str]:
    text = _HEAD.format(function=function.format()) + body + "ret;\n}\n"
    report = sim.load(text).launch(grid=1, block=64, args=[np.zeros(8, np.uint32)])
    return {finding.rule.name for finding in report.findings} - {"store-collision"}


@pytest.mark.parametrize(
    "body",
    [
        _ADDS,
        # The value decides whether a swap is tried.
        _LOOP.format(before="setp.ge.u32 r, x, 400; @r bra DONE;", at="out") + "DONE:\n",
        _ADDS.replace("ld.global.u32 x, [out];", "{ add.u64 out, out, 8; ld.global.u32 x, [out]; }"),
    ],
    ids=["adds", "may leave", "address computed before"],
)
def test_the_guess_of_a_compare_and_swap(body: str) -> None:
    assert _rules(body) == {"speculative-load"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "body",
    [
        _ADDS.replace("TRY:", "st.global.u32 [out+8], x; TRY:"),
        _ADDS.replace("TRY:", "shfl.sync.idx.b32 w, x, 0, 31, -1; TRY:"),
        _ADDS.replace("TRY:", "mul.wide.u32 at, x, 0; add.u64 at, at, out; ld.global.u32 w, [at+16]; TRY:"),
        "mov.u64 at, out;" + _ADDS.replace("TRY:", "add.u64 out, out, 4; TRY:") + "red.global.add.u32 [at], 1;",
        # Another word is swapped.
        _LOOP.format(before="", at="out+4") + "red.global.add.u32 [out], 1;",
        # Polls with ordinary loads, and swaps then.
        "WAIT: ld.global.u32 x, [out]; setp.gt.u32 q, x, 1000; @q bra WAIT;" + _ADDS.replace("ld.global.u32 x, [out];", ""),
        # Of another size than the swap.
        _ADDS.replace("ld.global.u32 x, [out];", "ld.global.u16 x, [out];"),
        # No swap.
        "ld.global.u32 x, [out]; setp.eq.u32 q, x, 0; @!q bra DONE; red.global.add.u32 [out], 1;\nDONE:\n",
        # The guess of a swap that failed is stored.
        _ADDS + "st.global.u32 [out+8], y;",
    ],
    ids=["stored", "shuffled", "an address", "address moved", "another word", "polled", "size", "no swap", "kept"],
)  # fmt: skip
def test_a_value_that_is_used_is_no_guess(body: str) -> None:
    assert "data-race" in _rules(body)


_CALL = "st.param.b32 [given], x; call (taken), doubles, (given); ld.param.b32 x, [taken];"
_OWN = "mov.u32 w, %ctaid.x; mul.wide.u32 wide, w, 4; add.u64 out, out, wide;"


@pytest.mark.parametrize(
    ("body", "function"),
    [
        (_OWN + "ld.global.u32 x, [out]; add.u32 x, x, 1; @p st.global.u32 [out], x;", ""),
        (_OWN + "ld.volatile.global.u32 x, [out]; @p st.global.u32 [out], x;", ""),
        (_OWN + "ld.global.u32 x, [out];" + _CALL + "@p st.global.u32 [out], x;", _DOUBLES),
        (
            _OWN
            + "ld.global.u32 x, [out]; and.b32 y, tid, 63; setp.lt.s32 q, y, 1; @q st.global.u32 [out], x;",
            "",
        ),
        (
            _OWN
            + "ld.global.u32 y, [out+16]; setp.eq.u32 q, y, 0; and.pred r, p, q;"
            + "ld.global.u32 x, [out]; @r st.global.u32 [out], x;",
            "",
        ),
    ],
    ids=["scalar", "volatile", "through a call", "computed guard", "guard that depends on memory, too"],
)
def test_only_the_writer_uses_the_value(body: str, function: str) -> None:
    assert _rules(body, function) == {"speculative-load"}


@pytest.mark.parametrize(
    "body",
    [
        # Another thread uses the value.
        _OWN + "ld.global.u32 x, [out]; @p st.global.u32 [out], 1; @!p st.global.u32 [out+16], x;",
        # No thread does, or one that does not write.
        _OWN + "ld.global.u32 x, [out]; @p st.global.u32 [out], 1;",
        _OWN + "ld.global.u32 x, [out]; @p st.global.u32 [out], 1; setp.eq.u32 q, tid, 32; @q st.global.u32 [out+16], x;",
        # It decides where threads go.
        _OWN + "ld.global.u32 x, [out]; @p st.global.u32 [out], x; setp.eq.u32 q, x, 0; @q bra DONE;\nDONE:\n",
        # The guard depends on memory.
        _OWN + "ld.global.u32 x, [out]; ld.global.u32 w, [out+16]; setp.eq.u32 q, w, 0; @q st.global.u32 [out], x;",
    ],
    ids=["another thread", "unused", "one thread", "branch", "unknown guard"],
)  # fmt: skip
def test_a_value_that_a_thread_may_use_races(body: str) -> None:
    assert "data-race" in _rules(body)
