"""``pyptx transpile``: what a program looks like, that it records the same, and what is said where it cannot."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import pyptx
from pyptx import Program, ptx, reg
from pyptx.core.errors import OperandError, ParseError, PyptxError, SpecError, UnsupportedError
from pyptx.core.types import TYPES
from pyptx.ir import Instruction, Module, Raw, parse_module
from pyptx.tools.cli import cli
from pyptx.tools.transpile.api import transpiled
from pyptx.tools.transpile.check import run
from pyptx.tools.transpile.module import written
from pyptx.tools.transpile.names import PythonNames, short_name, word
from pyptx.tools.transpile.operators import OPERATIONS, result_type

#: What docs/transpile.md shows: PTX, and the program beside it.
SHOWN = Path(__file__).resolve().parents[3] / "docs/assets/transpile"
HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"
DECLARED = ".reg .pred %p<20>; .reg .b16 %rs<20>; .reg .b32 %r<99>; .reg .b64 %rd<99>; .reg .f32 %f<99>;\n"


def kernel(statements: str, params: str = "", declared: str = DECLARED) -> str:
    """A module with one kernel ``k``."""
    return f"{HEADER}.visible .entry k({params}) {{\n{declared}{statements}\n}}\n"


def body(statements: str, **options: Any) -> str:
    """The lines of the kernel's Python function, which was checked."""
    found = transpiled(kernel(statements, **options))
    assert found.checked and found.flat == ()
    function = next(n for n in ast.parse(found.text).body if isinstance(n, ast.FunctionDef))
    lines = found.text.split("\n")[function.body[0].lineno - 1 : function.end_lineno]
    return textwrap.dedent("\n".join(lines))


def expect(statements: str, lines: str, **options: Any) -> None:
    assert body(statements, **options) == textwrap.dedent(lines).strip("\n")


# --- lines ----------------------------------------------------------------------------------------


def test_operators_where_they_record_the_instruction() -> None:
    expect(
        """ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2; add.s32 %r4, %r3, %r1;
        sub.s32 %r5, 7, %r4; mul.lo.s32 %r6, %r5, %r5; st.shared.u32 [%r6+16], %r4; ret;""",
        """
        r1 = ptx.load(u32, n, space="param").view(s32)
        tid_x = ptx.special.tid.x().view(s32)
        r4 = (tid_x << 2) + r1
        r5 = 7 - r4
        ptx.inst.st.shared.u32(ptx.addr(r5 * r5, 16), r4)
        ptx.ret()
        """,
        params=".param .u32 n",
    )


def test_types_keep_what_operators_cannot_say() -> None:
    """add.u32 of a register that is compared as signed, an unrounded float add, a carry."""
    expect(
        """mov.u32 %r1, 5; setp.lt.s32 %p1, %r1, 4; setp.gt.s32 %p2, %r1, 9; add.u32 %r2, %r1, 1;
        mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, 0f3DCCCCCD; add.rn.f32 %f3, %f2, %f1;
        @%p1 st.shared.u32 [%r2], %r1; @!%p2 st.shared.f32 [%r2], %f3; ret;""",
        """
        r1 = reg.scalar(s32)
        r2 = reg.scalar(u32)
        f2 = reg.scalar(f32)
        ptx.inst.mov.u32(r1, 5)
        p1 = r1 < 4
        p2 = r1 > 9
        ptx.inst.add.u32(r2, r1, 1)
        f1 = reg.scalar(f32, init=1.0)
        ptx.inst.add.f32(f2, f1, 0.1)
        f3 = f2 + f1
        ptx.inst.st.shared.u32(ptx.addr(r2), r1, pred=p1)
        ptx.inst.st.shared.f32(ptx.addr(r2), f3, pred=~p2)
        ptx.ret()
        """,
    )


def test_results_stand_where_they_are_read_only_in_order() -> None:
    """%r4 is computed last and read first: %r3 cannot stand behind it, and has a line of its own."""
    expect(
        """mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; add.u32 %r3, %r1, 1; add.u32 %r4, %r2, 2;
        sub.u32 %r5, %r4, %r3; st.shared.u32 [%r5], %r1; ret;""",
        """
        tid_x = ptx.special.tid.x()
        ntid_x = ptx.special.ntid.x()
        r3 = tid_x + 1
        ptx.inst.st.shared.u32(ptx.addr((ntid_x + 2) - r3), tid_x)
        ptx.ret()
        """,
    )


def test_numbers() -> None:
    expect(
        """mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; and.b32 %r3, %r2, 4294967040; mov.b32 %r4, 1000;
        mov.b32 %r5, -1; lop3.b32 %r6, %r3, %r4, %r5, 0xe8; mov.f32 %f1, 0f7FC00001; mov.f32 %f2, 0fFF800000;
        st.shared.v2.f32 [%r6], {%f1, %f2}; ret;""",
        """
        f1 = reg.scalar(f32)
        tid_x = ptx.special.tid.x()
        r3 = (tid_x & 0x1f) & 0xffffff00
        r4 = reg.scalar(b32, init=1000)
        r5 = reg.scalar(b32, init=-1)
        r6 = ptx.lop3(r3, r4, r5, 0xe8)
        ptx.inst.mov.f32(f1, ptx.pattern(0x7FC00001, f32))
        f2 = reg.scalar(f32, init=float("-inf"))
        ptx.inst.st.shared.v2.f32(ptx.addr(r6), [f1, f2])
        ptx.ret()
        """,
    )


def test_results_of_functions() -> None:
    """What a function of ptx records and returns; a wider register than the load needs is none."""
    expect(
        """mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; mad.lo.u32 %r2, %r1, %r1, 7; cvt.u64.u32 %rd2, %r2;
        ld.global.f32 %f1, [%rd1+8]; ld.global.nc.f32 %f2, [%rd2]; fma.rn.f32 %f3, %f1, %f2, %f1;
        selp.f32 %f4, %f3, %f1, %p1; ld.global.u16 %r3, [%rd1]; mov.u32 %r6, 0xffffffff; mov.u32 %r7, 31;
        shfl.sync.down.b32 %r4|%p2, %r2, 8, %r7, %r6; st.global.f32 [%rd1], %f4; st.global.u32 [%rd1], %r4;
        st.global.u16 [%rd2], %r3; ret;""",
        """
        p1 = reg.scalar(pred)
        r3 = reg.scalar(b32)
        tid_x = ptx.special.tid.x()
        rd1 = ptx.mul(tid_x, 4, half="wide")
        r2 = ptx.mad(tid_x, tid_x, 7)
        rd2 = ptx.cvt(r2, u64)
        f1 = ptx.load(f32, ptx.addr(rd1, 8), space="global")
        f2 = ptx.load(f32, rd2, space="global", nc=True)
        f3 = ptx.fma(f1, f2, f1, rounding="rn")
        f4 = ptx.selp(f3, f1, p1)
        ptx.inst.ld.global_.u16(r3, ptx.addr(rd1))
        r6 = reg.scalar(u32, init=0xffffffff)
        r7 = reg.scalar(u32, init=31)
        r4, p2 = ptx.warp.shfl_down(r2, 8, clamp=r7, mask=r6, with_pred=True)
        ptx.inst.st.global_.f32(ptx.addr(rd1), f4)
        ptx.inst.st.global_.u32(ptx.addr(rd1), r4)
        ptx.inst.st.global_.u16(ptx.addr(rd2), r3)
        ptx.ret()
        """,
    )


def test_units() -> None:
    expect(
        """mov.u32 %r1, 64; mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
        elect.sync _|%p1, 0xffffffff; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;
        cp.async.bulk.wait_group.read 0; wgmma.fence.sync.aligned; ret;""",
        """
        r1 = reg.scalar(u32, init=64)
        ptx.mbarrier.init(ptx.addr(r1), 1)
        ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        elected = ptx.warp.elect()
        ptx.mbarrier.arrive_expect_tx(ptx.addr(r1), 4096, pred=elected)
        ptx.cp.async_.bulk.wait_group(0, read=True)
        ptx.wgmma.fence()
        ptx.ret()
        """,
    )


# --- blocks ---------------------------------------------------------------------------------------


def test_if_and_else() -> None:
    expect(
        """mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 8; @%p1 bra E; st.shared.u32 [%r1], 1; bra.uni D;
        E: st.shared.u32 [%r1], 2; D: @!%p1 bra X; st.shared.u32 [%r1], 3; X: ret;""",
        """
        tid_x = ptx.special.tid.x()
        p1 = tid_x >= 8
        with ptx.if_(~p1):
            ptx.inst.st.shared.u32(ptx.addr(tid_x), 1)
        with ptx.else_(uni=True):
            ptx.inst.st.shared.u32(ptx.addr(tid_x), 2)
        with ptx.if_(p1):
            ptx.inst.st.shared.u32(ptx.addr(tid_x), 3)
        ptx.ret()
        """,
    )


def test_do_while_with_break() -> None:
    expect(
        """mov.u32 %r1, %tid.x; L: add.u32 %r1, %r1, 4; setp.eq.u32 %p1, %r1, 77; @%p1 bra D;
        setp.lt.u32 %p2, %r1, 100; @%p2 bra L; D: ret;""",
        """
        tid_x = ptx.special.tid.x()
        with ptx.do_while(lambda: tid_x < 100) as loop:
            tid_x += 4
            loop.break_(pred=tid_x == 77)
        ptx.ret()
        """,
    )


def test_loop_and_while() -> None:
    expect(
        """mov.u32 %r1, %tid.x; A: setp.ge.u32 %p1, %r1, 100; @%p1 bra B; add.u32 %r1, %r1, 4; bra A;
        B: add.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 200; @%p2 bra B;
        C: add.u32 %r1, %r1, 3; setp.gt.u32 %p3, %r1, 300; @%p3 bra D; st.shared.u32 [%r1], 0; bra.uni C; D: ret;""",
        """
        tid_x = ptx.special.tid.x()
        with ptx.while_(lambda: ~(tid_x >= 100)):
            tid_x += 4
        with ptx.do_while(lambda: tid_x != 200):
            tid_x += 1
        with ptx.loop(uni=True) as loop:
            tid_x += 3
            loop.break_(pred=tid_x > 300)
            ptx.inst.st.shared.u32(ptx.addr(tid_x), 0)
        ptx.ret()
        """,
    )


def test_spin_wait() -> None:
    spin = "{ .reg .pred P1; W: mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1+8], %r2; @!P1 bra{} W; }"
    for uni, argument in (("", ""), (".uni", ", uni=True")):
        expect(
            f"mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; {spin.replace('{}', uni)} ret;",
            f"""
            tid_x = ptx.special.tid.x()
            tid_y = ptx.special.tid.y()
            ptx.mbarrier.wait(ptx.addr(tid_x, 8), tid_y{argument})
            ptx.ret()
            """,
        )


def test_a_spin_with_more_in_it_is_a_loop() -> None:
    found = body(
        """mov.u32 %r1, %tid.x; W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; nanosleep.u32 20;
        @!%p1 bra W; ret;"""
    )
    assert "with ptx.do_while(lambda: ~p1):" in found and "mbarrier.wait" not in found


def test_irregular_flow_keeps_labels() -> None:
    """A jump into a loop's middle: no block has it."""
    found = body(
        """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra M; L: add.u32 %r1, %r1, 1; M: add.u32 %r1, %r1, 2;
        setp.lt.u32 %p2, %r1, 50; @%p2 bra L; ret;"""
    )
    assert 'ptx.bra("M", pred=tid_x == 0)' in found and 'ptx.label("M")' in found
    assert 'ptx.bra("L", pred=tid_x < 50)' in found and "with" not in found


def test_branch_table() -> None:
    found = body(
        """mov.u32 %r1, %tid.x; T: .branchtargets A, B; brx.idx %r1, T; A: st.shared.u32 [%r1], 1; ret;
        B: st.shared.u32 [%r1], 2; ret;"""
    )
    assert 'ptx.branchtargets("T", ["A", "B"])' in found and 'ptx.inst.brx.idx(tid_x, "T")' in found


# --- arrays and repetitions -----------------------------------------------------------------------


def test_repetitions_are_loops() -> None:
    loads = "".join(
        f"ld.shared.v4.b32 {{%r{i + 10}, %r{i + 11}, %r{i + 12}, %r{i + 13}}}, [%r1+{4 * i}];"
        for i in range(0, 16, 4)
    )
    adds = "".join(f"add.s32 %r{i + 40}, %r{i + 10}, {3 * i};" for i in range(16))
    stores = "".join(f"st.shared.b32 [%r1+{128 - 4 * i}], %r{i + 40};" for i in range(16))
    expect(
        f"mov.u32 %r1, %tid.x; {loads}{adds}{stores} ret;",
        """
        loaded = reg.array(s32, 16)
        tid_x = ptx.special.tid.x()
        for i in range(4):
            ptx.inst.ld.shared.v4.b32(loaded[4 * i : 4 * i + 4], ptx.addr(tid_x, 16 * i))
        total = [loaded[i] + 3 * i for i in range(16)]
        for i in range(16):
            ptx.inst.st.shared.b32(ptx.addr(tid_x, -4 * i + 128), total[i])
        ptx.ret()
        """.replace("loaded[i] + 3 * i", "loaded[i] + (3 * i)"),
    )


def test_repetitions_with_registers_of_their_own() -> None:
    pieces = "".join(
        f"shl.b32 %r{i + 20}, %r1, {i}; not.b32 %r{i + 30}, %r{i + 20}; st.shared.b32 [%r{i + 30}], %r1;"
        for i in range(5)
    )
    expect(
        f"mov.u32 %r1, %tid.x; {pieces} ret;",
        """
        tid_x = ptx.special.tid.x()
        for i in range(5):
            ptx.inst.st.shared.b32(ptx.addr(~(tid_x << i)), tid_x)
        ptx.ret()
        """,
    )


def test_registers_shared_by_repetitions_are_made_once() -> None:
    pieces = "".join(
        f"add.u32 %r9, %r1, {i}; not.b32 %r8, %r9; st.shared.u32 [%r8], %r9;" for i in range(4, 9)
    )
    expect(
        f"mov.u32 %r1, %tid.x; {pieces} ret;",
        """
        r9, r8 = reg.array(u32, 2)
        tid_x = ptx.special.tid.x()
        for i in range(5):
            ptx.inst.add.u32(r9, tid_x, i + 4)
            ptx.inst.not_.b32(r8, r9)
            ptx.inst.st.shared.u32(ptx.addr(r8), r9)
        ptx.ret()
        """,
    )


def test_accumulators_are_one_array() -> None:
    """Products one after another share an array, which the moves before them fill."""
    moves = "mov.f32 %f10, 0f00000000;" + "".join(f"mov.f32 %f{i}, %f10;" for i in range(11, 26))
    product = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    vectors = ["{" + ", ".join(f"%f{i + k}" for k in range(4)) + "}" for i in range(10, 26, 4)]
    products = "".join(f"{product} {v}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {v};" for v in vectors)
    found = body(f"{moves} {products} st.shared.f32 [%r1], %f15; ret;")
    assert (
        "acc = reg.array(f32, 16)" in found
        and "for i in range(15):\n    ptx.inst.mov.f32(acc[i + 1], acc[0])" in found
    )
    assert (
        "acc[4 * i : 4 * i + 4],\n        [r1, r2, r3, r4],\n        [r5, r6],\n        acc[4 * i : 4 * i + 4],"
        in found
    )
    assert "ptx.addr(r1), acc[5])" in found


def test_three_are_no_repetition() -> None:
    stores = "".join(f"st.shared.b32 [%r1+{4 * i}], 0;" for i in range(3))
    assert "for " not in body(f"mov.u32 %r1, %tid.x; {stores} ret;")


def test_uneven_steps_are_no_repetition() -> None:
    stores = "".join(f"st.shared.b32 [%r1+{i * i}], 0;" for i in range(8))
    assert "for " not in body(f"mov.u32 %r1, %tid.x; {stores} ret;")


# --- modules --------------------------------------------------------------------------------------

MODULE = (
    HEADER
    + """.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 $str[6] = {104, 101, 108, 108, 111, 10};
.const .align 4 .f32 scale[2] = {0f3DCCCCCD, 0f40000000};
.global .align 8 .u64 message = generic($str);
.global .align 4 .u32 idle;
.func (.param .b32 out) _Z5twicei(.param .b32 x) {
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [out], %r2; ret;
}
.visible .entry _Z4mainPfi(.param .u64 .ptr .global .align 4 p, .param .u32 n) .maxntid 128, 1, 1 {
    .reg .b32 %r<5>; .reg .b64 %rd<5>;
    ld.param.b32 %r1, [n];
    { .param .b32 param0; st.param.b32 [param0], %r1; .param .b32 retval0;
      call.uni (retval0), _Z5twicei, (param0); ld.param.b32 %r2, [retval0]; }
    mov.u64 %rd1, $str+2; ld.const.u32 %r3, [scale+4]; st.global.u32 [%rd1], %r3; ret;
}
.visible .entry other() { ret; }
"""
)


def test_a_module() -> None:
    text = pyptx.transpile(MODULE)
    for line in (
        'str_1 = program.global_(b8, "$str", shape=(6,), align=1, init=list(b"hello\\n"))',
        "scale = program.const(f32, shape=(2,), align=4, init=[0.1, 2.0])",
        'message = program.global_(u64, align=8, init=ir.SymbolAddress("$str"))',
        'vprintf = program.declare(\n    "vprintf",\n    returns=(ir.Param("r", b32),),\n',
        '@program.func("_Z5twicei", returns=(ir.Param("out", b32),), params=(b32,))',
        "def twice(out: Sym, x: Sym) -> None:",
        '    """``twice(int)``"""',
        '@program.entry("_Z4mainPfi", params=(pointer, u32), maxntid=(128, 1, 1))',
        "        ptx.call((retval0,), twice, (param0,), uni=True)",
        "    ptx.inst.mov.u64(rd1, str_1 + 2)",
        '    r3 = ptx.load(u32, ptx.addr(scale, 4), space="const")',
    ):
        assert line in text, line
    recorded = run(text, "<test>")
    assert [f.name for f in recorded.functions] == ["vprintf", "_Z5twicei", "_Z4mainPfi", "other"]
    assert pyptx.diff(MODULE, recorded).equal


def test_kinds_of_parameters_have_names() -> None:
    """What a type does not say is said once; the parameters' names are those of the text."""
    text = pyptx.transpile(
        kernel(
            "ret;",
            params=".param .u64 .ptr .global .align 4 p, .param .align 64 .b8 map[128], .param .u64 .ptr .global .align 4 q",
        )
    )
    assert (
        'pointer = ptx.param(u64, pointer="global", align=4)\nbytes_128 = ptx.param(b8, 128, align=64)\n'
        in text
    )
    assert (
        "@program.entry(params=(pointer, bytes_128, pointer))\ndef k(p: Sym, map_1: Sym, q: Sym) -> None:"
        in text
    )


def test_a_function_that_was_declared_keeps_its_name() -> None:
    text = pyptx.transpile(
        HEADER
        + """\
.func (.param .b32 r) twice(.param .b32 x);
.visible .entry k() { ret; }
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<2>;
    ld.param.b32 %r1, [x]; st.param.b32 [r], %r1; ret; }
"""
    )
    assert 'twice = program.declare("twice", ' in text
    assert '@program.func("twice", ' in text and "def define_twice(r: Sym, x: Sym) -> None:" in text


def test_one_kernel_with_what_it_reaches() -> None:
    module = transpiled(MODULE, entry="_Z4mainPfi").module
    assert [f.name for f in module.functions] == ["_Z5twicei", "_Z4mainPfi"]
    assert [v.name for v in module.variables] == ["$str", "scale"]
    assert transpiled(MODULE, entry="main").module == module
    with pytest.raises(SpecError, match=r"no entry 'man'.*_Z4mainPfi \(main\(float\*, int\)\), other"):
        transpiled(MODULE, entry="man")


def test_a_program_runs_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(pyptx.transpile(MODULE))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert pyptx.diff(MODULE, done.stdout).equal


def test_the_text_keeps_the_names() -> None:
    text = run(
        pyptx.transpile(kernel("mov.u32 %r1, 3; mov.u32 %r2, 4; add.u32 %r3, %r1, %r2; ret;")), "<test>"
    )
    assert {r.name for r in text.functions[0].registers} == {"r1", "r2", "r3"}


def test_lines_in_comments() -> None:
    text = (
        HEADER
        + '.file 1 "a.cu"\n.visible .entry k() {\n.reg .b32 %r<3>;\n.loc 1 7 0\nbar.sync 0;\n.loc 1 7 9\nbar.sync 1;\n'
    )
    text += ".loc 1 9 0\nret;\n}\n"
    found = pyptx.transpile(text, lines=True)
    assert "    # a.cu:7\n    ptx.bar.sync(0)\n    ptx.bar.sync(1)\n    # a.cu:9\n    ptx.ret()" in found
    assert "#" not in pyptx.transpile(text)


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_change_is_seen() -> None:
    module = parse_module(kernel("mov.u32 %r1, 1234; st.shared.u32 [%r1], %r1; ret;"))
    text = written(module, '"""x"""').text
    assert pyptx.diff(module, run(text, "<test>")).equal
    assert not pyptx.diff(module, run(text.replace("1234", "1235"), "<test>")).equal
    assert not pyptx.diff(module, run(text.replace("ptx.ret()", "ptx.ret(); ptx.ret()"), "<test>")).equal


def test_functions_that_fail_are_written_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an operator recorded something else, the check would find it, and the function would do without."""
    text = kernel("mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1; st.shared.u32 [%r2], %r1; ret;")
    key = ("add", ("u32",))
    monkeypatch.setitem(OPERATIONS, key, replace(OPERATIONS[key], symbol="-"))
    found = transpiled(text)
    assert found.flat == ("k",) and "ptx.inst.add.u32(r2, r1, 1)" in found.text
    assert "tid_x - 1" in transpiled(text, check=False).text


def test_an_unknown_instruction_is_named() -> None:
    with pytest.raises(PyptxError, match="add.u33"):
        pyptx.transpile(kernel("add.u33 %r1, %r1, 1;"))


def test_raw_text_is_refused() -> None:
    module = parse_module(kernel("ret;"))
    function = replace(module.functions[0], body=(Raw("mystery;"), *module.functions[0].body))
    with pytest.raises(UnsupportedError, match="raw text cannot be transpiled: 'mystery;'"):
        pyptx.transpile(replace(module, functions=(function,)))


def test_what_is_no_ptx() -> None:
    with pytest.raises(ParseError, match="line 1"):
        pyptx.transpile("int main() {}")


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, short",
    [
        ("_Z5scaleIfET_S0_6Params", "scale"),
        ("_ZN2nv4cuda4copyILm4EEEvPv", "copy"),
        ("_ZN6SquareC1Ef", "Square_init"),
        ("_ZNK5AdderclEi", "Adder_operator"),
        ("_ZZ6matmulIdLi8EEvPKT_S2_PS0_iE4left", "left"),
        ("__assertfail", "assertfail"),
        ("$str$1", "str_1"),
        ("for", "for_"),
    ],
)
def test_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_names_are_taken_once() -> None:
    names = PythonNames(["ptx"])
    assert [names.new(word(n)) for n in ("a", "a", "ptx", "len", "9x")] == [
        "a",
        "a_1",
        "ptx_1",
        "len_1",
        "x9x",
    ]
    inner = names.within()
    assert inner.new("a") == "a_2" and names.new("b") == inner.new("b") == "b"


# --- operators, against the DSL itself ------------------------------------------------------------


def _recorded(symbol: str, kinds: list[Any]) -> tuple[Instruction, Any] | None:
    """What Python's operator records for registers of these types and these numbers."""
    program = Program("sm_90a")
    made: list[Any] = []

    def record() -> None:
        given = [k if isinstance(k, int) else reg.scalar(k) for k in kinds]
        expression = f"{symbol}a" if len(given) == 1 else f"a {symbol} b"
        made.append(eval(expression, dict(zip("ab", given, strict=False))))

    record.__name__ = "k"
    try:
        program.entry()(record)
    except (OperandError, UnsupportedError):
        return None
    recorded = list(program.module(check=False).functions[0].instructions())
    return (recorded[0], made[0].type) if len(recorded) == 1 else None


@pytest.mark.parametrize(
    "opcode, modifiers", OPERATIONS, ids=lambda value: "_".join(value) if isinstance(value, tuple) else value
)
def test_operators_are_those_of_the_dsl(opcode: str, modifiers: tuple[str, ...]) -> None:
    """For every combination of types, the operator is used exactly where it records this instruction."""
    operation = OPERATIONS[opcode, modifiers]
    bits = operation.kind.bits
    near = [TYPES[f"{k}{bits}"] for k in "usb"] if bits > 1 else []
    near += [TYPES[f"f{bits}"]] if bits in (32, 64) else [TYPES["pred"]]
    seconds: list[Any] = [*near, 3, -3] if bits > 1 else near
    if operation.what == "shift":
        seconds = [TYPES["u32"], TYPES["b32"], TYPES["u64"], 3, -3]
    rows = [[k] for k in near] if operation.what == "unary" else [[a, b] for a in near for b in seconds]
    used = 0
    for kinds in rows:
        expected = result_type(operation, kinds)
        found = _recorded(operation.symbol, kinds)
        right = found is not None and (found[0].opcode, found[0].modifiers) == (opcode, modifiers)
        assert (expected is not None) == right, (kinds, expected, found)
        if right:
            assert found is not None and found[1] is expected
            used += 1
    assert used


# --- the command ----------------------------------------------------------------------------------


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["transpile", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "module.ptx"
    path.write_text(MODULE)
    return path


def test_command_writes_a_program(file: Path) -> None:
    out = file.with_suffix(".py")
    result = command(str(file), "-o", str(out))
    assert result.exit_code == 0 and result.stdout == ""
    assert f"{file}: 13 instructions, recorded again, the same" in result.stderr
    assert out.read_text().startswith('"""module.ptx (PTX 8.7, sm_90a) as a program')
    assert command(str(file)).stdout == out.read_text()


def test_command_options(file: Path) -> None:
    result = command(str(file), "--entry", "other", "--no-check")
    assert "def other" in result.stdout and "def main" not in result.stdout
    assert "1 instructions, not checked" in result.stderr


def test_command_errors(file: Path) -> None:
    assert command(str(file.with_name("no.ptx"))).exit_code == 2
    result = command(str(file), "--entry", "nothing")
    assert result.exit_code == 1 and isinstance(result.exception, SpecError)


def test_module_is_kept(file: Path) -> None:
    module: Module = transpiled(file).module
    assert module == parse_module(MODULE, file.name)
    assert ptx.ret.__module__ == "pyptx.dsl.control"


@pytest.mark.parametrize("source", sorted(SHOWN.glob("*.ptx")), ids=lambda path: path.stem)
def test_the_programs_in_the_docs_are_what_transpile_writes(source: Path) -> None:
    program = source.with_suffix(".py").read_text()
    assert pyptx.transpile(source) == program, (
        f"pyptx transpile {source.name} -o {source.with_suffix('.py').name}"
    )
    assert program.count("\n") < source.read_text().count("\n")


def test_targets_before_the_table() -> None:
    """Their instructions are those of the first target that the table knows."""
    text = kernel("ld.param.u64 %rd1, [x];\nadd.s32 %r1, %r2, %r3;\nret;", ".param .u64 x").replace(
        "sm_90a", "sm_20"
    )
    found = transpiled(text.replace(".version 8.7", ".version 3.1"))
    assert found.checked and found.flat == ()
    assert 'Program("sm_20", version=(3, 1))' in found.text
    assert "r1 = r2 + r3" in found.text


def test_variables_of_a_function_keep_their_values() -> None:
    declared = ".global .b32 from[4] = {1, 2, 3, 4};\n.global .u64 place = from;\n" + DECLARED
    found = transpiled(kernel("mov.u64 %rd1, from;\nret;", declared=declared))
    assert found.checked
    assert "init=[1, 2, 3, 4]" in found.text
