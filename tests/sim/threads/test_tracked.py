"""Undefined bits are followed from the load of unwritten bytes to the instruction that uses them.

In each kernel, ``area`` has 16 bytes for each thread, of which ``_start`` writes the first 8. Bytes 8 to 15
are unwritten: ``w2`` and ``w3`` of a vector load.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.findings import Finding
from pyptx.sim import Report

HEAD = """
.version 8.6
.target sm_90a
.address_size 64
FUNCTIONS
.visible .entry kernel(.param .u64 out)
{
    .reg .pred p, q, r; .reg .b16 h0, h1, h2, h3; .reg .b32 t, a, w0, w1, w2, w3, x, y, z, u<8>;
    .reg .b64 to, d, e, f; .reg .f32 g, f0; .reg .b128 b;
    .shared .align 128 .b8 area[2048]; .shared .align 128 .b8 other[2048]; .local .align 16 .b8 own[64];
    ld.param.u64 to, [out]; mov.u32 t, %tid.x; mad.wide.u32 to, t, 8, to;
    mov.u32 a, area; mad.lo.u32 a, t, 16, a;
    st.shared.v2.u32 [a], {t, 5};
    mov.u32 x, 3; mov.u64 d, 3; setp.lt.u32 p, t, 1000; setp.gt.u32 q, t, 1000;
"""
LOAD = "ld.shared.v4.u32 {w0, w1, w2, w3}, [a]; // load\n"
TAIL = "\nst.global.u32 [to], x; // store\nDONE:\n ret;\n}\n"
SCHEDULES = [("eager", 1), ("eager", 32), ("eager", 96), ("late", 64), ("random", 33)]


def launched(
    body: str, threads: int = 32, schedule: str = "eager", functions: str = ""
) -> tuple[str, Report, Any]:
    text = HEAD.replace("FUNCTIONS", functions) + body + TAIL
    out = np.zeros(128, np.uint64)
    report = sim.load(text).launch(grid=1, block=threads, args=[out], schedule=schedule)
    return text, report, out


def line(text: str, mark: str) -> int:
    (found,) = [number for number, row in enumerate(text.splitlines(), 1) if row.endswith(f"// {mark}")]
    return found


def used(
    body: str, threads: int = 32, schedule: str = "eager", functions: str = "", at: str = "use"
) -> Finding:
    """The only finding: an error at the load that names the line of the use."""
    text, report, _ = launched(body, threads, schedule, functions)
    (finding,) = report.findings
    assert finding.rule.name == "uninitialized-read", report
    assert finding.location is not None and finding.location.line == line(text, "load"), report
    ((_, where),) = finding.other
    assert where is not None and where.line == line(text, at), report
    assert "was never written" in finding.message
    return finding


def unused(body: str, threads: int = 32, schedule: str = "eager", functions: str = "") -> Finding:
    """The only finding: the load, for review."""
    text, report, _ = launched(body, threads, schedule, functions)
    (finding,) = report.findings
    assert finding.rule.name in ("padding-read", "undefined-load") and report.verdict == "review", report
    assert finding.location is not None and finding.location.line == line(text, "load"), report
    assert not finding.other
    return finding


# --- what is a use -----------------------------------------------------------------------------------

USES = {
    "a global store": "st.global.u32 [to], w2; // use",
    "a global store of a vector": "st.global.v2.u32 [to], {w3, w2}; // use",
    "a global store of a computed element": "add.u32 y, w2, 1;\nst.global.v2.u32 [to], {w0, y}; // use",
    "a branch": "setp.eq.u32 r, w2, 7;\n@r bra DONE; // use",
    "a guard of an effect": "setp.eq.u32 r, w2, 7;\n@r st.shared.u32 [a], t; // use",
    "an address": "add.u32 y, a, w2;\nst.shared.u32 [y], t; // use",
    "an address of a load": "cvt.u64.u32 e, w2; add.u64 e, e, to;\nld.global.u32 y, [e]; // use",
    "an atomic's operand": "red.shared.add.u32 [a], w2; // use",
    "an atomic's operand in global memory": "atom.global.add.u32 y, [to], w2; // use",
    "a barrier": "and.b32 y, w2, 1;\nbar.sync y; // use",
    "a member mask": "or.b32 y, w2, -1; xor.b32 y, y, w3; or.b32 y, y, 1;\nshfl.sync.idx.b32 z, t, 0, 31, y; // use",
    "a wait": "nanosleep.u32 w2; // use",
}


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
@pytest.mark.parametrize("case", USES)
def test_uses(case: str, schedule: str, threads: int) -> None:
    used(LOAD + USES[case], threads, schedule)


def test_both_lines_and_threads_are_named() -> None:
    finding = used(LOAD + "setp.eq.u32 r, t, 4;\n@r st.global.u32 [to], w3; // use", 64)
    assert "read of 16 bytes in shared memory of CTA (0, 0, 0)" in finding.message
    assert "offset 76) was never written: area, byte 76 of 2048" in finding.message
    assert finding.thread == "CTA (0, 0, 0) warp 0 lane 4"
    assert "stored to global memory with st.global.u32 by CTA (0, 0, 0) warp 0 lane 4" in finding.other[0][0]
    assert "at:" in str(finding) and "stored to global memory" in str(finding)


def test_one_error_for_each_load() -> None:
    again = LOAD.replace("// load", "// again").replace("w2, w3", "u2, u3")
    body = LOAD + again + "st.global.u32 [to], w2;\nst.global.u32 [to], w3;\nst.global.u32 [to], u3;"
    text, report, _ = launched(body)
    assert [f.location.line for f in report.findings if f.location] == [
        line(text, "load"),
        line(text, "again"),
    ]


# --- what is not --------------------------------------------------------------------------------------

UNUSED = {
    "nothing": "",
    "a move": "mov.u32 y, w2;",
    "arithmetic": "mad.lo.u32 y, w2, w3, t; cvt.rn.f32.u32 g, y; fma.rn.f32 g, g, g, g; setp.gt.f32 r, g, 0f00000000;",
    "the other words": "add.u32 x, w0, w1;",
    "selp": "selp.b32 x, t, w2, p; selp.b32 x, w2, x, q;",
    "a guarded move": "@q mov.u32 x, w2;",
    "overwritten": "mov.u32 w2, 5; mov.u32 w3, w2; add.u32 x, w2, w3;",
    "overwritten where a guard is true": "@p mov.u32 w2, 5; mov.u32 x, w2;",
    "packed and unpacked": "mov.b64 d, {w1, w2}; mov.b64 {x, y}, d;",
    "packed in two steps": "mov.b64 d, {w0, w2}; mov.b64 e, {w3, w1}; mov.b128 b, {d, e}; mov.b128 {f, f}, b; mov.b128 {d, e}, b; mov.b64 {x, y}, d;",
    "masked": "and.b32 y, w2, 0; or.b32 y, y, t; mov.u32 x, y;",
    "shifted out": "mov.b64 d, {w1, w2}; shl.b64 d, d, 32; shr.u64 d, d, 32; cvt.u32.u64 x, d;",
    "a field": "mov.b64 d, {w1, w2}; bfe.u64 d, d, 3, 20; cvt.u32.u64 x, d;",
    "inserted over": "bfi.b32 y, t, w2, 0, 32; mov.u32 x, y;",
    "permuted": "prmt.b32 x, w1, w2, 0x3210;",
    "logic of three": "lop3.b32 x, w2, t, t, 0xC0; lop3.b32 x, w2, w0, w1, 0xCC;",
    "the lower half of a sum": "mov.b64 d, {w1, w2}; add.u64 d, d, 5; mad.lo.u64 d, d, 3, d; cvt.u32.u64 x, d;",
    "half of a pair": "mov.b32 {h0, h1}, w2; mov.b32 {h2, h3}, w1; mov.b32 y, {h2, h1}; add.rn.f16x2 y, y, y; mov.b32 {h2, h3}, y; cvt.u32.u16 x, h2;",
    "converted to half of a pair": "mov.b32 g, w2; mov.b32 y, 0f3F800000; mov.b32 f0, y; cvt.rn.f16x2.f32 y, g, f0; and.b32 x, y, 0xFFFF;",
    "a predicate that the other decides": "setp.eq.u32 r, w2, 7; and.pred r, r, q;\n@r bra DONE;",
    "a shuffle of words": "shfl.sync.bfly.b32 y, w2, 1, 31, -1; shfl.sync.bfly.b32 x, w1, 1, 31, -1;",
    "a vote": "setp.eq.u32 r, w2, 7; vote.sync.ballot.b32 y, r, -1; redux.sync.add.u32 z, w3, -1;",
    "a copy of a padded structure": "st.global.v2.u32 [to], {w0, w2}; mov.b64 d, {w1, w3}; st.global.u64 [to], d;",
    "a copy through shared memory": "st.shared.v4.u32 [a], {w0, w1, w2, w3}; ld.shared.v2.u64 {d, e}, [a]; mov.b128 b, {d, e}; mov.b128 {d, e}, b; st.shared.v2.u64 [a], {d, e};",
    "a register that is loaded again": "ld.shared.v2.u32 {w2, w3}, [a]; add.u32 x, w2, w3;",
}


@pytest.mark.parametrize(
    ("schedule", "threads"), [("eager", 32), ("eager", 96), ("late", 64), ("random", 64)]
)
@pytest.mark.parametrize("case", UNUSED)
def test_not_uses(case: str, schedule: str, threads: int) -> None:
    assert unused(LOAD + UNUSED[case], threads, schedule).rule.name == "padding-read"


def test_whole_loads_that_nothing_uses() -> None:
    assert unused("ld.shared.u32 w2, [a+8]; // load\n").rule.name == "undefined-load"


def test_results_are_those_of_the_plain_run() -> None:
    body = (
        LOAD
        + "mul.lo.u32 y, w0, 3; mad.lo.u32 x, w1, 7, y; shfl.sync.down.b32 z, x, 1, 31, -1; add.u32 x, x, z;"
    )
    _, _, out = launched(body, 64)
    plain = body.replace("{w0, w1, w2, w3}", "{w0, w1}").replace("v4", "v2")
    _, report, expected = launched(plain, 64)
    assert report.verdict == "clean"
    np.testing.assert_array_equal(out, expected)


# --- what passes them on -------------------------------------------------------------------------------

PASSED = {
    "mov": "mov.u32 x, w2;",
    "selp": "selp.b32 x, w2, t, p;",
    "slct": "slct.b32.s32 x, w2, t, 1;",
    "an undefined choice": "setp.eq.u32 r, w2, 7; selp.b32 x, 1, 2, r;",
    "a guarded move": "@p mov.u32 x, w2;",
    "an undefined guard": "setp.eq.u32 r, w2, 7; @r mov.u32 x, 5;",
    "an undefined guard that is overwritten": "setp.eq.u32 r, w2, 7; @r setp.eq.u32 r, t, t; selp.b32 x, 1, 2, r;",
    "a conversion": "cvt.rn.f32.u32 g, w2; cvt.rzi.u32.f32 x, g;",
    "a narrow conversion": "cvt.u16.u32 h0, w2; cvt.u32.u16 x, h0;",
    "a pack": "mov.b64 d, {w1, w2}; mov.b64 {y, x}, d;",
    "128 bits": "mov.b64 d, {w1, w2}; mov.b128 b, {d, d}; mov.b128 {e, f}, b; mov.b64 {y, x}, f;",
    "a sign": "mov.b64 d, {w1, w2}; shr.s64 d, d, 63; cvt.u32.u64 x, d;",
    "a carry": "mov.b64 d, {w1, w2}; mul.lo.u64 d, d, 3; mov.b64 {y, x}, d;",
    "the carry flag": "add.cc.u32 y, w2, t; addc.u32 x, t, 0;",
    "a chain of carries": "add.cc.u32 y, t, 1; addc.cc.u32 y, w2, t; addc.u32 x, t, 0;",
    "logic": "or.b32 x, w2, 7; and.b32 x, x, 8;",
    "logic of three": "lop3.b32 x, w2, t, 7, 0x96;",
    "a shift": "mov.b64 d, {w1, w2}; shr.u64 d, d, 16; cvt.u32.u64 x, d;",
    "a shift amount": "shl.b32 x, t, w2;",
    "a comparison": "set.eq.u32.u32 x, w2, 5;",
    "half of a pair": "mov.b32 {h0, h1}, w2; mov.b32 {h2, h3}, w1; mov.b32 y, {h2, h1}; add.rn.f16x2 y, y, y; mov.b32 {h2, h3}, y; cvt.u32.u16 x, h3;",
    "converted to half of a pair": "mov.b32 g, w2; mov.b32 f0, 0f3F800000; cvt.rn.f16x2.f32 y, g, f0; shr.u32 x, y, 16;",
    "a shuffle": "shfl.sync.idx.b32 x, w2, 3, 31, -1;",
    "a shuffle with an undefined source lane": "shfl.sync.idx.b32 x, t, w2, 31, -1;",
    "a vote": "setp.eq.u32 r, w2, 7; vote.sync.ballot.b32 x, r, -1;",
    "a reduction": "redux.sync.add.u32 x, w2, -1;",
    "a match": "match.any.sync.b32 x, w2, -1;",
    "shared memory": "st.shared.u32 [a+4], w2; ld.shared.u32 x, [a+4];",
    "a part of a vector in shared memory": "st.shared.v4.u32 [a], {t, t, w3, t}; ld.shared.v2.u32 {x, y}, [a+8];",
    "another thread": "st.shared.u32 [a+4], w2; bar.warp.sync -1; xor.b32 y, a, 16; ld.shared.u32 x, [y+4];",
    "local memory": "st.local.u32 [own+8], w2; ld.local.u32 x, [own+8];",
    "bytes in local memory": "st.local.u32 [own+8], t; st.local.u8 [own+10], w2; ld.local.u32 x, [own+8]; add.u32 x, x, 1;",
    "copied twice": "st.shared.u32 [a+4], w2; ld.shared.u32 y, [a+4]; st.local.u32 [own], y; ld.local.u32 x, [own];",
}


@pytest.mark.parametrize(
    ("schedule", "threads"), [("eager", 32), ("eager", 96), ("late", 64), ("random", 64)]
)
@pytest.mark.parametrize("case", PASSED)
def test_passed_on(case: str, schedule: str, threads: int) -> None:
    if "shuffle" in case or "sync" in PASSED[case]:
        threads = max(threads, 32)
    used(LOAD + PASSED[case], threads, schedule, at="store")


@pytest.mark.parametrize("case", [name for name in PASSED if "sync" not in PASSED[name]])
def test_passed_on_by_one_thread(case: str) -> None:
    used(LOAD + PASSED[case], 1, at="store")


def test_a_shuffle_names_the_thread_that_loaded() -> None:
    finding = used(LOAD + "shfl.sync.idx.b32 x, w2, 3, 31, -1;", at="store")
    assert finding.thread.endswith("lane 3") and "offset 56)" in finding.message
    assert "lane 0" in finding.other[0][0]


def test_a_byte_written_over_is_defined_again() -> None:
    body = "st.shared.u32 [a+4], w2; st.shared.u32 [a+4], t; ld.shared.u32 x, [a+4];"
    unused(LOAD + body)
    unused(
        LOAD
        + "st.local.u32 [own], w2; st.local.u16 [own], t; st.local.u16 [own+2], t; ld.local.u32 x, [own];"
    )


# --- control flow ------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [32, 64])
def test_only_lanes_that_loaded_unwritten_bytes(threads: int) -> None:
    """The even threads write their third word; only the odd threads store it."""
    some = "and.b32 y, t, 1; setp.eq.u32 r, y, 0;\n@r st.shared.u32 [a+8], t;\n"
    unused(some + LOAD + "@r mov.u32 x, w2;", threads)
    finding = used(some + LOAD + "@!r mov.u32 x, w2;", threads, at="store")
    assert finding.thread.endswith("lane 1")


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_through_divergent_branches(schedule: str, threads: int) -> None:
    body = """
    and.b32 y, t, 1; setp.eq.u32 r, y, 0;
    @r bra EVEN;
    mov.u32 x, w0;
    bra JOIN;
    EVEN:
    add.u32 x, w2, 1;
    JOIN:
    """
    used(LOAD + body, threads, schedule, at="store")
    unused(LOAD + body.replace("w2", "w1"), threads, schedule)


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_through_a_loop(schedule: str, threads: int) -> None:
    loop = """
    mov.u32 u0, 0; mov.u32 u1, 0;
    AGAIN:
    add.u32 u1, u1, {}; add.u32 u0, u0, 1; setp.lt.u32 r, u0, 5;
    @r bra AGAIN;
    mov.u32 x, u1;
    """
    used(LOAD + loop.format("w3"), threads, schedule, at="store")
    unused(LOAD + loop.format("w1"), threads, schedule)


def test_lanes_that_exchange_at_two_places() -> None:
    body = """
    and.b32 y, t, 1; setp.eq.u32 r, y, 0;
    @r bra EVEN;
    shfl.sync.idx.b32 x, {}, 1, 31, -1;
    bra JOIN;
    EVEN:
    shfl.sync.idx.b32 x, t, 1, 31, -1;
    JOIN:
    """
    used(LOAD + body.format("w2"), at="store")
    unused(LOAD + body.format("w1"))


CALLS = """
.func (.reg .b32 back) through(.reg .b32 given) { add.u32 back, given, 1; ret; }
.func (.param .b32 back) stored(.param .align 16 .b8 given[16])
{ .reg .b32 v0, v1, v2, v3; ld.param.v4.b32 {v0, v1, v2, v3}, [given]; WHICH; ret; }
"""


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_through_calls(schedule: str, threads: int) -> None:
    used(
        LOAD + "call (x), through, (w2);",
        threads,
        schedule,
        CALLS.replace("WHICH", "st.param.b32 [back], v0"),
        "store",
    )
    call = """{
    .param .align 16 .b8 given[16]; .param .b32 back;
    st.param.v4.b32 [given], {w0, w1, w2, w3};
    call (back), stored, (given);
    ld.param.b32 x, [back];
    }"""
    for which, found in (("v0", unused), ("v2", None)):
        functions = CALLS.replace("WHICH", f"st.param.b32 [back], {which}")
        if found is None:
            used(LOAD + call, threads, schedule, functions, "store")
        else:
            found(LOAD + call, threads, schedule, functions)


SYSTEM = """
.extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 arguments);
.extern .func (.param .b64 place) malloc (.param .b64 size);
.global .align 1 .b8 format[] = {37, 100, 10, 0};
"""


def test_functions_of_the_system() -> None:
    """An argument, and a value that printf reads."""
    body = """
    cvt.u64.u32 d, {};
    {{
    .param .b64 size; .param .b64 place;
    st.param.b64 [size], d;
    call (place), malloc, (size); // use
    ld.param.b64 e, [place];
    }}"""
    used(LOAD + body.format("w2"), functions=SYSTEM, at="use")
    unused(LOAD + body.format("w1"), functions=SYSTEM)
    body = """
    st.local.u32 [own], {}; mov.u64 d, format; cvta.global.u64 d, d; mov.u64 e, own; cvta.local.u64 e, e;
    {{
    .param .b64 text; .param .b64 values; .param .b32 status;
    st.param.b64 [text], d; st.param.b64 [values], e;
    call (status), vprintf, (text, values); // use
    }}"""
    used(LOAD + body.format("w2"), functions=SYSTEM, at="use")
    unused(LOAD + body.format("w1"), functions=SYSTEM)


def test_instructions_that_are_not_modeled() -> None:
    _, report, _ = launched(LOAD + "mov.u32 y, %envreg3; add.u32 x, w2, y;")
    assert report.verdict == "incomplete", report
    assert {finding.rule.name for finding in report.findings} == {"not-modeled", "padding-read"}


# --- local memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "threads"), SCHEDULES)
def test_local_vectors(schedule: str, threads: int) -> None:
    """Compilers load whole variables: only a use is a finding, and no finding says that nothing is used."""
    body = "st.local.u32 [own], t;\nld.local.v4.u32 {w0, w1, w2, w3}, [own]; // load\n"
    _, report, _ = launched(body + "add.u32 x, w0, 1;", threads, schedule)
    assert report.verdict == "clean", report
    used(body + "add.u32 x, w1, 1;", threads, schedule, at="store")


def test_a_new_activation_has_no_values_of_an_old_one() -> None:
    functions = """
    .func fill() { .reg .b32 v; .local .align 4 .b8 mine[16]; mov.u32 v, 7; st.local.u32 [mine+4], v; ret; }
    .func (.reg .b32 back) fetch()
    {
        .local .align 4 .b8 mine[16];
        ld.local.u32 back, [mine+4]; // load
        ret;
    }
    """
    used("call fill;\ncall (x), fetch;", functions=functions, at="store")
