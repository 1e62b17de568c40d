"""Every rule of lint: a kernel that has the finding, at its line, and the mended kernel, which has none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import pyptx
from pyptx.core.findings import RULES
from pyptx.tools.lint import LintReport

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
#: The first line of a kernel's body.
FIRST = 6


def kernel(body: str, directives: str = ".reqntid 128", params: str = ".param .u64 A, .param .u32 n") -> str:
    registers = ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .f32 %f<200>;"
    return f"{HEAD}.visible .entry k({params}) {directives}\n{{ {registers}\n{body.strip()}\n}}\n"


@dataclass(frozen=True)
class Case:
    """A kernel with one finding: its lines, its line with the finding (from 0), and the mended kernel."""

    rule: str
    body: str
    line: int
    mended: str
    directives: str = ".reqntid 128"
    mended_directives: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    ptxas: bool = False


INDEX = """
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r2, %r1, 1048576, %r0;
ld.param.u64 %d0, [A];
mul.wide.u32 %d1, %r2, 4;
add.u64 %d2, %d0, %d1;
st.global.u32 [%d2], %r0;
ret;
"""
SHIFTED = """
mov.u32 %r1, %ctaid.y;
ld.param.u32 %r2, [n];
mul.lo.s32 %r3, %r1, %r2;
shl.b32 %r4, %r3, 2;
cvt.s64.s32 %d1, %r4;
ld.param.u64 %d0, [A];
add.s64 %d2, %d0, %d1;
atom.global.add.u32 %r5, [%d2], 1;
ret;
"""
SPECIALIZED = """
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 7;
setp.ne.u32 %p0, %r1, 0;
@%p0 bra consumer;
setmaxnreg.dec.sync.aligned.u32 40;
bra end;
consumer:
setmaxnreg.inc.sync.aligned.u32 240;
end:
ret;
"""
MANY = (
    "ld.param.u64 %d0, [A];\n"
    + "\n".join(f"ld.volatile.global.f32 %f{i}, [%d0+{4 * i}];" for i in range(150))
    + "\nbar.sync 0;\n"
    + "\n".join(f"st.volatile.global.f32 [%d0+{4 * i}], %f{i};" for i in range(150))
    + "\nret;"
)
ACCUMULATE = """
ld.param.u64 %d0, [A];
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %d0, %d0, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
st.global.f32 [%d0], %f0;
ret;
"""
LOCAL = """
.local .align 4 .b32 array[8];
mov.u32 %r0, %tid.x;
and.b32 %r1, %r0, 7;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, array;
add.u32 %r3, %r3, %r2;
st.local.u32 [%r3], %r0;
st.local.u32 [array+4], %r1;
ld.local.u32 %r4, [%r3];
ld.param.u64 %d0, [A];
st.global.u32 [%d0], %r4;
ret;
"""
BEHIND = "bra end;\nmov.u32 %r0, 1;\nadd.u32 %r0, %r0, 1;\nend:\nret;"

CASES = [
    Case("unreachable-code", BEHIND, 1, BEHIND.replace("bra end;\n", "")),
    Case(
        "undefined-register", "add.u32 %r0, %r1, 1;\nret;", 0, "mov.u32 %r1, 1;\nadd.u32 %r0, %r1, 1;\nret;"
    ),
    Case(
        "offset-wraps",
        INDEX,
        2,
        INDEX.replace("mad.lo.u32 %r2, %r1, 1048576, %r0", "mul.wide.u32 %d4, %r1, 4194304").replace(
            "mul.wide.u32 %d1, %r2, 4", "mad.wide.u32 %d1, %r0, 4, %d4"
        ),
        options={"grid": 5000},
    ),
    Case(
        "offset-wraps",
        SHIFTED,
        3,
        SHIFTED.replace("shl.b32 %r4, %r3, 2;", "").replace(
            "cvt.s64.s32 %d1, %r4", "mul.wide.s32 %d1, %r3, 4"
        ),
        options={"grid": (1, 4096), "params": {"n": (0, 262144)}},
    ),
    Case(
        "setmaxnreg",
        SPECIALIZED.replace("240", "232"),
        4,
        SPECIALIZED.replace("240", "232"),
        ".reqntid 384",
        ".reqntid 384 .minnctapersm 1",
    ),
    Case(
        "setmaxnreg",
        SPECIALIZED.replace("240", "160"),
        7,
        SPECIALIZED.replace("240", "232"),
        ".reqntid 384 .minnctapersm 1",
    ),
    Case("register-pool", SPECIALIZED, 7, SPECIALIZED.replace("240", "232"), ".reqntid 384 .minnctapersm 1"),
    Case("register-file", MANY, -2, MANY, "", ".reqntid 256", {"block": 512}, ptxas=True),
    Case("register-spill", MANY, 0, MANY, ".maxnreg 64", ".maxnreg 168", ptxas=True),
    Case(
        "local-memory",
        LOCAL,
        6,
        LOCAL.replace("%r3]", "array]"),
        ptxas=True,
    ),
    Case(
        "lost-speed",
        ACCUMULATE.replace("wgmma.commit", "add.f32 %f0, %f0, %f0;\nwgmma.commit"),
        2,
        ACCUMULATE.replace("st.global", "add.f32 %f0, %f0, %f1;\nst.global"),
        ptxas=True,
    ),
    Case("ptxas-warning", "ret;", -2, "ret;", ".maxnreg 64 .minnctapersm 2", ".maxnreg 64", ptxas=True),
]


def run(case: Case, *, mended: bool) -> LintReport:
    directives = case.mended_directives if mended and case.mended_directives else case.directives
    options = dict(case.options)
    if ".reqntid" in directives:
        options.pop("block", None)
    return pyptx.lint(kernel(case.mended if mended else case.body, directives), ptxas=case.ptxas, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.line}")
@pytest.mark.sample(3)
def test_a_failing_kernel_and_the_mended_one(case: Case, request: pytest.FixtureRequest) -> None:
    if case.ptxas:
        request.getfixturevalue("ptxas")
    report = run(case, mended=False)
    (finding,) = report.findings
    assert finding.rule is RULES[case.rule] and report.verdict is finding.severity
    if case.rule not in ("register-spill", "local-memory", "ptxas-warning"):
        assert finding.location is not None and finding.location.line == FIRST + case.line
    assert run(case, mended=True).findings == []


def test_every_rule_of_lint_has_a_case() -> None:
    """``not-executed`` needs a run: test_lint.py has its kernels."""
    assert {rule.name for rule in RULES.values() if rule.lint} - {case.rule for case in CASES} == {
        "not-executed"
    }
