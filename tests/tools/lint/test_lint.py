"""``pyptx.lint``: runs, sizes of arrays, what stays quiet, waivers, and what it takes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import Tile, kernel, ptx, reg, sim, u32, u64
from pyptx.core.errors import SpecError
from pyptx.toolchain import Tool

from .test_rules import HEAD
from .test_rules import kernel as text

OFFSET = """
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
ld.param.u64 %d0, [A];
{}
add.u64 %d2, %d0, %d1;
st.global.u32 [%d2], %r0;
ret;
"""


@kernel(
    in_specs=(Tile("N", u32),), out_specs=(Tile("N", u32),), grid=lambda N: N // 128, block=128, arch="sm_90a"
)
def doubled(A: Any, D: Any) -> None:
    i = ptx.special.ctaid.x() * 128 + ptx.special.tid.x()
    a = reg.scalar(u32)
    ptx.inst.ld.global_.u32(a, A.at(i))
    with ptx.if_(a > 100):
        ptx.inst.add.u32(a, a, a)  # large
    ptx.inst.st.global_.u32(D.at(i), a)


def rules(report: pyptx.tools.lint.LintReport) -> list[str]:  # type: ignore[name-defined]
    return [finding.rule.name for finding in report.findings]


# --- offsets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "offset",
    [
        # Nothing limits the grid or the parameter.
        "ld.param.u32 %r2, [n]; mul.lo.u32 %r3, %r1, %r2; mul.wide.u32 %d1, %r3, 4;",
        "mad.lo.s32 %r3, %r1, 128, %r0; mul.wide.s32 %d1, %r3, 4;",
        # The bits wrap, and are then cut.
        "mul.lo.u32 %r3, %r0, 2654435761; and.b32 %r3, %r3, 1023; mul.wide.u32 %d1, %r3, 4;",
        "mul.lo.u32 %r3, %r0, 2654435761; shr.u32 %r3, %r3, 22; mul.wide.u32 %d1, %r3, 4;",
        # A constant of the upper half is negative.
        "add.u32 %r3, %r0, 4294967295; mul.wide.s32 %d1, %r3, 4;",
        # A difference that may be negative is usually guarded.
        "sub.u32 %r3, %r0, 1; mul.wide.u32 %d1, %r3, 4;",
        # The comparison limits the value.
        "setp.gt.u32 %p0, %r1, 9; @%p0 ret; mul.lo.u32 %r3, %r1, 268435456; cvt.u64.u32 %d1, %r3;",
        # Not an address of global memory.
        "mul.lo.u32 %r3, %r0, 268435456; cvt.u64.u32 %d3, %r3; mov.u64 %d1, 0;",
        "mul.lo.u32 %r3, %r0, 268435456; cvt.u64.u32 %d3, %r3; st.shared.u32 [%d3], %r0; mov.u64 %d1, 0;",
        # A sum that a loop of known length does not carry too far.
        "mov.u32 %r2, 0; mov.u32 %r3, 0; loop: add.u32 %r3, %r3, 1048576; add.u32 %r2, %r2, 1; "
        "setp.lt.u32 %p0, %r2, 4095; @%p0 bra loop; cvt.u64.u32 %d1, %r3;",
        # As far as the type goes.
        "mul.lo.u32 %r3, %r0, 33554432; cvt.u64.u32 %d1, %r3;",
    ],
)
@pytest.mark.sample(20)
def test_quiet(offset: str) -> None:
    assert rules(pyptx.lint(text(OFFSET.format(offset)), ptxas=False)) == []


@pytest.mark.parametrize(
    "offset",
    [
        "mul.lo.u32 %r3, %r0, 33818641; cvt.u64.u32 %d1, %r3;",
        "mul.lo.u32 %r3, %r0, 33554432; cvt.s64.s32 %d1, %r3;",
        "mul.lo.u32 %r3, %r0, 33818641; mov.b64 %d1, {%r3, 0};",
        "shl.b32 %r3, %r0, 26; mad.wide.u32 %d1, %r3, 4, %d3;",
        "setp.gt.u32 %p0, %r1, 99; @%p0 ret; mul.lo.u32 %r3, %r1, 268435456; cvt.u64.u32 %d1, %r3;",
        "mov.u32 %r3, 0; loop: add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 1000; @%p0 bra loop; "
        "mul.lo.u32 %r3, %r3, 16777216; cvt.u64.u32 %d1, %r3;",
        "mov.u32 %r2, 0; mov.u32 %r3, 0; loop: add.u32 %r3, %r3, 1048576; add.u32 %r2, %r2, 1; "
        "setp.lt.u32 %p0, %r2, 4097; @%p0 bra loop; cvt.u64.u32 %d1, %r3;",
    ],
)
@pytest.mark.sample(20)
def test_one_step_further_is_a_finding(offset: str) -> None:
    body = OFFSET.format("mov.u64 %d3, 0; " + offset)
    assert rules(pyptx.lint(text(body), ptxas=False)) == ["offset-wraps"]


def test_a_finding_says_what_it_assumes() -> None:
    body = OFFSET.format("mad.lo.s32 %r3, %r1, 128, %r0; mul.wide.s32 %d1, %r3, 4;")
    (finding,) = pyptx.lint(text(body), ptxas=False, grid=2**25).findings
    assert finding.why == "assumed: grid (33554432, 1, 1), block (128, 1, 1)"
    assert "can reach 4,294,967,295, but as .s32 the 32 bits end at 2,147,483,647" in finding.message
    notes = [note for note, _ in finding.other]
    assert notes[0].startswith("widened to 64 bits by mul.wide.s32") and "st.global" in notes[1]
    assert finding.advice.ptx == "mad.wide.s32 %wide, %r1, 128, %c64;"
    assert rules(pyptx.lint(text(body), ptxas=False, grid=2**24)) == []


def test_only_an_array_that_is_large_enough_counts() -> None:
    """Of a kernel, launch and sizes are known: the same index is right for the array that it fits."""
    assert rules(pyptx.lint(doubled, N=2**32, ptxas=False)) == []
    (finding,) = pyptx.lint(doubled, N=2**33, ptxas=False).findings
    assert (
        finding.rule.name == "offset-wraps" and "(8589934592) u32 of 34,359,738,368 bytes" in finding.message
    )
    assert finding.location is not None and "ctaid.x() * 128" in finding.location.text

    @kernel(in_specs=(Tile(64, u32),), out_specs=(Tile(64, u32),), grid=4096, block=32, arch="sm_90a")
    def small(A: Any, D: Any) -> None:
        wide = reg.scalar(u64)
        ptx.inst.cvt.u64.u32(wide, ptx.special.ctaid.x() * 2**21)
        ptx.inst.st.global_.u32(ptx.addr(D.ptr + wide), 1)

    assert rules(pyptx.lint(small, ptxas=False)) == []


# --- runs -------------------------------------------------------------------------------------


def test_lines_that_no_run_executed() -> None:
    report = pyptx.lint(doubled, np.arange(64, 192, dtype=np.uint32), ptxas=False)
    assert report.findings == [] and "not-executed" not in report.skipped
    doubled_again = kernel(
        in_specs=(Tile("N", u32),), out_specs=(Tile("N", u32),), grid=1, block=128, arch="sm_90a"
    )(doubled.function)
    few = np.arange(128, dtype=np.uint32) % 100
    (finding,) = pyptx.lint(doubled_again, few, ptxas=False).findings
    assert finding.rule.name == "not-executed" and finding.location is not None
    assert finding.location.text.endswith("# large")
    # An earlier run counts, too.
    report = pyptx.lint(doubled_again, few + 128, ptxas=False)
    assert report.findings == []


PATHS = """
ld.param.u32 %r0, [n];
setp.gt.u32 %p0, %r0, 5;
@%p0 bra big;
mov.u32 %r1, 1;
bra end;
big:
mov.u32 %r1, 2;
add.u32 %r1, %r1, 2;
end:
setp.eq.u32 %p0, %r0, 99;
@%p0 bra bad;
ld.param.u64 %d0, [A];
st.global.u32 [%d0], %r1;
ret;
bad:
mov.u32 %r1, 3;
trap;
"""


def test_a_loaded_module_has_the_runs_so_far() -> None:
    module = sim.load(text(PATHS, ".reqntid 1"))
    array = np.zeros(1, np.uint32)
    assert pyptx.lint(module, ptxas=False).findings == []  # nothing has run
    module.launch("k", grid=1, block=1, args=[array, 3])
    (finding,) = pyptx.lint(module, ptxas=False).findings
    assert finding.location is not None and finding.location.line == 12
    assert "these 2 instructions: mov.u32 %r1, 2;" in finding.message
    assert module.executed()["k"] >= {0, 1, 3} and not module.executed()["k"] & {6, 7}
    module.launch("k", grid=1, block=1, args=[array, 6])
    assert pyptx.lint(module, ptxas=False).findings == []


def test_a_run_that_failed_says_nothing_about_paths() -> None:
    @kernel(in_specs=(Tile(4, u32),), out_specs=(Tile(4, u32),), block=32, arch="sm_90a")
    def outside(A: Any, D: Any) -> None:
        ptx.inst.st.global_.u32(D.at(ptx.special.tid.x()), 1)

    report = pyptx.lint(outside, np.zeros(4, np.uint32), ptxas=False)
    assert report.skipped["not-executed"] == "the run ended as error: see its report"


# --- registers --------------------------------------------------------------------------------


def test_undefined_bits_that_are_only_moved_are_quiet() -> None:
    moved = "prmt.b32 %r1, %r2, %r3, 0x3340;\nmov.b64 %d0, {%r1, %r4};\nret;"
    assert rules(pyptx.lint(text(moved), ptxas=False)) == []
    assert rules(pyptx.lint(text("add.u32 %r1, %r2, 1;\nret;"), ptxas=False)) == ["undefined-register"]


ROLES = """
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 7;
setp.eq.u32 %p0, %r1, {};
@%p0 bra producer;
setmaxnreg.inc.sync.aligned.u32 {};
ret;
producer:
setmaxnreg.dec.sync.aligned.u32 {};
ret;
"""


@pytest.mark.parametrize(
    "threads, producer, more, less, found",
    [
        (384, 0, 232, 40, []),
        (384, 2, 232, 40, []),
        (384, 0, 240, 24, []),
        (384, 0, 240, 32, ["register-pool"]),
        (384, 3, 232, 40, ["register-pool"]),
        (256, 1, 232, 24, []),
        (512, 0, 160, 32, []),
        (512, 0, 168, 32, ["register-pool"]),
    ],
)
@pytest.mark.sample(8)
def test_the_sum_of_the_warpgroups(
    threads: int, producer: int, more: int, less: int, found: list[str]
) -> None:
    body = ROLES.format(producer, more, less)
    directives = f".reqntid {threads} .minnctapersm 1"
    if threads == 256:
        directives = ".reqntid 256 .maxnreg 128"
    assert rules(pyptx.lint(text(body, directives), ptxas=False)) == found


def test_the_stated_registers_of_all_threads() -> None:
    body = ROLES.format(0, 184, 120)
    (finding,) = pyptx.lint(text(body, ".reqntid 512 .maxnreg 168"), ptxas=False).findings
    assert finding.rule.name == "register-file" and "168 registers in each of 512 threads" in finding.message
    assert rules(pyptx.lint(text(body, ".reqntid 384 .maxnreg 168"), ptxas=False)) == []
    assert rules(pyptx.lint(text("ret;", ".reqntid 512 .maxnreg 168"), ptxas=False)) == []


# --- waivers ----------------------------------------------------------------------------------


def test_a_waiver_of_the_author_counts_in_lint_alone() -> None:
    @kernel(in_specs=(Tile(4, u32),), out_specs=(Tile(4, u32),), block=1, arch="sm_90a")
    def waived(A: Any, D: Any) -> None:
        a = reg.scalar(u32)
        ptx.inst.ld.global_.u32(a, A.at(0))
        with ptx.waive("not-executed", "only for large input"), ptx.if_(a > 100):
            ptx.inst.add.u32(a, a, a)
        with ptx.waive("unreachable-code", "there is none"):
            ptx.inst.st.global_.u32(D.at(0), a)

    few = np.zeros(4, np.uint32)
    report = pyptx.lint(waived, few, ptxas=False)
    assert rules(report) == ["unused-waiver"] and [f.rule.name for f, _ in report.waived] == ["not-executed"]
    assert "waived: 1 finding" in str(report) and "only for large input" in str(report)
    assert [f.rule.name for f in waived.simulate(few).findings if f.rule.name == "unused-waiver"] == []
    # Without a run, the rule was not checked: its waiver may be needed.
    assert len(pyptx.lint(waived, ptxas=False).findings) == 1


def test_a_waiver_by_line() -> None:
    body = text("add.u32 %r1, %r2, 1;\nret;")
    waiver = sim.Waiver("undefined-register", "<ptx>", 6, "known")
    report = pyptx.lint(body, ptxas=False, waivers=[waiver])
    assert report.verdict == "clean" and [f.rule.name for f, _ in report.waived] == ["undefined-register"]


# --- what it takes ----------------------------------------------------------------------------


def test_what_can_be_examined(tmp_path: Path, ptxas: Tool) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(text("add.u32 %r1, %r2, 1;\nret;"))
    module = pyptx.ir.parse_module(file.read_text())
    for given in (file, file.read_text(), module, sim.load(module)):
        report = pyptx.lint(given)
        assert rules(report) == ["undefined-register"] and report.resources[0].function == "k"
    (finding,) = pyptx.lint(file).findings
    assert finding.location is not None and finding.location.text == "add.u32 %r1, %r2, 1;"
    assert rules(pyptx.lint(functools.partial(doubled, N=128))) == []


def test_target_and_a_missing_ptxas(monkeypatch: pytest.MonkeyPatch, ptxas: Tool) -> None:
    plain = text("ret;").replace("sm_90a", "sm_90").replace("8.6", "8.0")
    assert pyptx.lint(plain, target="sm_120").findings == []
    monkeypatch.setenv("PYPTX_PTXAS", "/nowhere/ptxas")
    report = pyptx.lint(plain)
    assert report.findings == [] and "ptxas was not found" in report.skipped["register-spill"]


def test_raw_text_is_said() -> None:
    @kernel(out_specs=(Tile(4, u32),), block=1, arch="sm_90a")
    def raw(D: Any) -> None:
        ptx.raw("mov.u32 %r0, 1;")

    (finding,) = pyptx.lint(raw, ptxas=False).findings
    assert finding.rule.name == "not-modeled" and pyptx.lint(raw, ptxas=False).verdict == "incomplete"


@pytest.mark.parametrize(
    "options, said",
    [
        ({"block": 0}, "block: expected one to three positive integers"),
        ({"params": {"m": (0, 1)}}, "no parameter 'm'; there are: A, n"),
        ({"params": {"n": (5, 1)}}, "the first is larger than the last"),
        ({"N": 5}, "N= given for a str: only a kernel takes them"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said.replace("(", r"\(")):
        pyptx.lint(text("ret;"), ptxas=False, **options)
    with pytest.raises(SpecError, match="defines its launch itself"):
        pyptx.lint(doubled, N=128, grid=3, ptxas=False)
    with pytest.raises(TypeError, match="got a int"):
        pyptx.lint(3)


@pytest.mark.full
def test_the_lines_of_spills(ptxas: Tool, nvdisasm: Tool) -> None:
    """A finding about spills names the lines with the most accesses to local memory."""
    loads = "\n".join(f"ld.volatile.global.f32 %f{i}, [%d0+{4 * i}];" for i in range(150))
    stores = "\n".join(f"st.volatile.global.f32 [%d0+{4 * i}], %f{i};" for i in range(150))
    body = f"ld.param.u64 %d0, [A];\n{loads}\nbar.sync 0;\n{stores}\nret;"
    (finding,) = pyptx.lint(text(body, ".maxnreg 64")).findings
    assert finding.rule.name == "register-spill" and finding.location is not None
    lines = {place.line for _, place in finding.other if place is not None}
    first = text(body).splitlines().index("ld.param.u64 %d0, [A];") + 1
    assert lines and all(first < line <= first + 302 for line in lines)
    assert HEAD in text(body)


@pytest.mark.full
def test_spills_of_a_kernel_name_its_python_lines(ptxas: Tool, nvdisasm: Tool) -> None:
    @kernel(
        in_specs=(Tile(128, 100, u32),),
        out_specs=(Tile(128, 100, u32),),
        block=128,
        arch="sm_90a",
        max_registers=40,
    )
    def spilled(A: Any, D: Any) -> None:
        i = ptx.special.tid.x()
        values = [reg.scalar(u32) for _ in range(100)]
        for j, value in enumerate(values):
            ptx.inst.ld.volatile.global_.u32(value, A.at(i, j))
        ptx.bar.sync(0)
        for j, value in enumerate(values):
            ptx.inst.st.volatile.global_.u32(D.at(i, j), value)

    (finding,) = pyptx.lint(spilled).findings
    assert finding.rule.name == "register-spill" and finding.location is not None
    lines = {place.text for _, place in finding.other if place is not None}
    assert "ptx.inst.st.volatile.global_.u32(D.at(i, j), value)" in lines
    waived = pyptx.lint(
        spilled, waivers=[sim.Waiver("register-spill", __file__, finding.location.line, "few")]
    )
    assert waived.findings == [] and len(waived.waived) == 1
