"""What a report says when a run goes wrong, and that nothing of such a run is left for the next one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.findings import RULES, Finding
from pyptx.sim import LoadedModule, Report
from pyptx.sim.threads.builtins import formatted


def test_a_report_is_short_in_a_notebook() -> None:
    finding = Finding(RULES["trap"], "x" * 1000)
    report = Report("k", "late", [finding], 3, 0, 0.1, outputs=(np.zeros(1000),))
    assert repr(report) == "<report of k under late: error, 1 finding>"
    assert repr(Report("k", "eager", [], 3, 0, 0.1)) == "<report of k under eager: clean, 0 findings>"


_SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]


def loaded(body: str, module: str = "") -> LoadedModule:
    return sim.load(
        f""".version 8.8
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 t, .param .b64 a);
.extern .func (.param .b64 r) malloc (.param .b64 n);
{module}
.visible .entry k(.param .u64 out) {{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .f32 %f<8>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.u64 %d1, %d1, %d0;
{body}
ret;
}}
"""
    )


def launch(module: LoadedModule, block: int = 128, **options: Any) -> Report:
    return module.launch(grid=1, block=block, args=[np.zeros(256, np.uint32)], max_steps=20_000, **options)


# --- collectives and divergence -------------------------------------------------------------------

#: Both halves of a warp execute it, each at its own place.
_PARTED = "setp.lt.u32 %p0, %r0, 16; @%p0 bra B; {0}; bra E; B: {0}; E:"
_DEPENDENT = {
    "barrier.sync.aligned 0": "barrier.sync 0",
    "bar.sync 0": "barrier.sync 1",
    "barrier.red.aligned.popc.u32 %r1, 0, %p0": "barrier.red.popc.u32 %r1, 0, %p0",
    "bar.arrive 2, 32": "barrier.arrive 2, 32",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0}, {%r0}, {%f4, %f4, %f4, %f4}": "bar.warp.sync -1",
    "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0": "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1",
    "wgmma.fence.sync.aligned": "vote.sync.ballot.b32 %r1, 1, -1",
    "setmaxnreg.inc.sync.aligned.u32 64": "match.any.sync.b32 %r1, %r0, -1",
}


@pytest.mark.parametrize("text", _DEPENDENT)
@pytest.mark.parametrize(("schedule", "seed"), _SCHEDULES)
def test_aligned_means_all_lanes_together(text: str, schedule: str, seed: int) -> None:
    body = "mov.f32 %f4, 0f00000000; " + _PARTED.format(text)
    report = launch(loaded(body), 32, schedule=schedule, seed=seed)
    assert report.verdict == "error"
    rules = {finding.rule.name for finding in report.findings}
    assert rules in ({"divergent-collective"}, {"barrier-misuse"} if "barrier" in text else set())
    assert text.partition(" ")[0].split(".")[0] in str(report)


@pytest.mark.parametrize("text", sorted(set(_DEPENDENT.values())))
@pytest.mark.parametrize(("schedule", "seed"), _SCHEDULES)
def test_without_aligned_lanes_come_from_anywhere(text: str, schedule: str, seed: int) -> None:
    report = launch(loaded(_PARTED.format(text)), 32, schedule=schedule, seed=seed)
    assert report.verdict == "clean", report


# --- what is not modeled -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("mov.b32 %r1, %envreg7;", "%envreg7"),
        ("ld.global.u32 %r1, [elsewhere];", "elsewhere"),
        ("call absent;", "absent"),
        ("setp.eq.u32 %p0, %r0, 77; @%p0 mov.b32 %r1, %envreg7;", "%envreg7"),
    ],
)
@pytest.mark.parametrize("block", [1, 32, 128])
def test_an_incomplete_run_names_what_is_missing(body: str, named: str, block: int) -> None:
    module = loaded(body, ".extern .global .u32 elsewhere; .extern .func absent();")
    report = launch(module, block)
    if "%p0" in body and block < 78:
        return
    assert report.verdict == "incomplete"
    (finding,) = report.findings
    assert finding.rule.name == "not-modeled"
    assert named in finding.message
    assert finding.location is not None


# --- who ------------------------------------------------------------------------------------------

_ONE = "setp.eq.u32 %p0, %r0, 70; "
_WRONG = {
    "out-of-bounds": "selp.b64 %d2, 8, %d1, %p0; st.u32 [%d2], 1;",
    "misaligned": "add.u64 %d2, %d1, 2; selp.b64 %d2, %d2, %d1, %p0; st.global.u32 [%d2], 1;",
    "uninitialized-read": """.shared .b32 s[128]; mov.u32 %r2, s; mad.lo.u32 %r2, %r0, 4, %r2;
        @!%p0 st.shared.u32 [%r2], 1; ld.shared.u32 %r3, [%r2]; st.global.u32 [%d1], %r3;""",
    "undefined-register": "@!%p0 mov.u32 %r4, 1; add.u32 %r5, %r4, 1;",
    "trap": "@%p0 trap;",
}
_BRANCH = "{0} @!%p0 bra E; st.u32 [%d0+4096], 1; E:"


@pytest.mark.parametrize("rule", _WRONG)
@pytest.mark.parametrize(("schedule", "seed"), _SCHEDULES)
def test_the_thread_is_named(rule: str, schedule: str, seed: int) -> None:
    """Four warps run as one; the fault is thread 70's."""
    report = launch(loaded(_ONE + _WRONG[rule]), schedule=schedule, seed=seed)
    (finding,) = report.findings
    assert finding.rule.name == rule
    assert finding.thread.endswith("warp 2 lane 6")


@pytest.mark.parametrize(("schedule", "seed"), _SCHEDULES)
def test_the_thread_in_a_branch_of_its_own(schedule: str, seed: int) -> None:
    report = launch(loaded(_BRANCH.format(_ONE)), schedule=schedule, seed=seed)
    assert report.findings[0].thread.endswith("warp 2 lane 6")


def test_lanes_of_one_warp_in_a_branch() -> None:
    body = "setp.ge.u32 %p0, %r0, 100; @!%p0 bra E; add.u32 %r1, %r0, 1; st.u32 [%d1+4096], %r1; E:"
    report = launch(loaded(body))
    assert report.findings[0].thread.endswith("warp 3 lane 4")


# --- what was printed -----------------------------------------------------------------------------

_HELLO = """{ .param .b64 t; .param .b64 a; .param .b32 r; mov.u64 %d2, text; cvta.global.u64 %d2, %d2;
st.param.b64 [t], %d2; st.param.b64 [a], 0; call (r), vprintf, (t, a); }"""
_TEXT = ".global .align 1 .b8 text[4] = {72, 105, 10, 0};"


@pytest.mark.parametrize(
    "after",
    [
        "trap;",
        "st.u32 [%d3], 1;",
        "L: bra L;",
        "L: st.global.u32 [%d0], %r0; bra L;",
        "mov.b32 %r1, %envreg7;",
    ],
)
def test_what_was_printed_stays(after: str) -> None:
    report = launch(loaded(_HELLO + after, _TEXT), 1)
    assert report.verdict in ("error", "incomplete")
    assert report.printed == "Hi\n"


# --- the next launch ------------------------------------------------------------------------------

_STATEFUL = (
    _HELLO
    + """
.shared .b32 s[32]; .local .b32 l[8];
ld.local.u32 %r1, [l]; st.local.u32 [l], 77; add.u32 %r2, %r2, 5; setp.eq.u32 %p0, %r0, 0;
mov.u32 %r6, s; mad.lo.u32 %r6, %r0, 4, %r6; st.shared.u32 [%r6], %r0; bar.sync 0; ld.shared.u32 %r4, [%r6];
@%p0 atom.global.add.u32 %r5, [count], 1;
{ .param .b64 n; .param .b64 p; st.param.b64 [n], 65536; call (p), malloc, (n); ld.param.b64 %d3, [p]; }
setp.ne.u64 %p1, %d3, 0; selp.u32 %r7, 1000, 0, %p1; add.u32 %r7, %r7, %r1; add.u32 %r7, %r7, %r2; add.u32 %r7, %r7, %r4;
st.global.u32 [%d1], %r7; ld.global.u32 %r8, [%d0+512]; setp.eq.u32 %p2, %r8, 1; @%p2 trap; setp.eq.u32 %p2, %r8, 2;
@!%p2 bra DONE; setp.lt.u32 %p3, %r0, 3; @%p3 bra DONE; L: bra L; DONE:
"""
)


@pytest.mark.parametrize(("schedule", "seed"), _SCHEDULES)
def test_nothing_but_module_variables_is_left(schedule: str, seed: int) -> None:
    """Launches that fault, hang or stop in between change nothing for the others."""
    module = loaded(_STATEFUL, _TEXT + ".global .u32 count = 40;")
    seen: list[tuple[Any, ...]] = []
    how = [0, 1, 0, 2, 0, 3, 0]
    for number, accident in enumerate(how):
        out = np.zeros(256, np.uint32)
        out[128] = accident
        report = module.launch(
            grid=1,
            block=32,
            args=[out],
            schedule=schedule,
            seed=seed,
            max_steps=5 if accident == 3 else 10_000,
        )
        count = 40 + sum(1 for earlier in how[: number + 1] if earlier != 3)
        assert module.variable("count").view(np.uint32)[0] == count
        if accident:
            assert report.verdict in ("error", "incomplete")
        else:
            seen.append(
                (str(report.verdict), report.steps, report.printed, out.tolist(), len(report.findings))
            )
    assert seen[0][3][:32] == [1005 + lane for lane in range(32)]
    assert seen[0][2] == "Hi\n" * 32
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize(
    ("template", "words", "printed"),
    [
        (b"%.*d|", (-5, 7), "7|"),
        (b"%*d|", (-4, 7), "7   |"),
        (b"%*.*d|", (6, 3, 7), "   007|"),
        (b"%.5o|%#o", (83, 83), "00123|0123"),
        (b"%8.4x|%-6u|", (255, 9), "    00ff|9     |"),
    ],
)
def test_fields(template: bytes, words: tuple[int, ...], printed: str) -> None:
    """As C prints them: a negative width means left, a negative precision none."""
    packed = np.array(words, np.int32).tobytes()
    text, _ = formatted(template, lambda offset, size: packed[offset : offset + size], lambda address: b"")
    assert text == printed


@pytest.mark.parametrize("template", [b"%5000d", b"%.5000d", b"%*d", b"%s" * 2000])
def test_fields_that_nobody_means(template: bytes) -> None:
    word = (1 << 30).to_bytes(8, "little")
    with pytest.raises(OverflowError, match="printf (with|of more than)"):
        formatted(template, lambda offset, size: word[:size], lambda address: b"x" * 65536)
