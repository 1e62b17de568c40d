"""Whole modules recorded by hand: everything that a parsed module can hold, exactly as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyptx import Program, Sym, ir, ptx, reg, smem
from pyptx.core.errors import (
    InstructionError,
    OperandError,
    PyptxError,
    TargetError,
    TraceError,
)
from pyptx.core.types import b8, b16, b32, b64, bf16, f32, f64, pred, u8, u32, u64
from pyptx.isa import check_module
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import rejected, says
from tests.dsl.replay import canonical, replayed

pytestmark = pytest.mark.smoke

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")


def lines_of(program: Program, name: str | None = None) -> list[str]:
    """The statements of an entry (the only one) or of the function ``name``."""
    module = program.module()
    function = module.entry() if name is None else module.by_name[name]
    return [str(statement) for statement in function.body]


def body_lines(body: Callable[..., None], *params: ir.Param, arch: str = "sm_90a") -> list[str]:
    program = Program(arch)
    program.entry("k", params=params)(body)
    return lines_of(program)


def in_program(check: Callable[[], object], arch: str = "sm_90a") -> None:
    """Run ``check`` while an entry of a program records."""

    def body() -> None:
        check()

    Program(arch).entry("k")(body)


# --- a module with everything -----------------------------------------------------------------------

EVERYTHING = """.version {version}
.target {arch}
.address_size 64
.pragma "nounroll";

.const .align 16 .f32 lut[4] = {{0f3F800000, 0f40000000, 0f40400000, 0f7FC00001}};

.visible .global .attribute(.managed) .u64 table[2] = {{generic(lut), 7}};

.global .align 4 .b32 grid[2][3] = {{{{1, 2, 3}}, {{4, 5, 6}}}};

.weak .global .v4 .f32 quad;

.global .u8 bytes[3] = {{0xff(quad), 0xff00(quad), 0}};


.extern .shared .align 16 .b8 dynamic[];

.global .u64 functions[1] = {{dot}};

.extern .func (.param .b32 result) vprintf(
    .param .b64 format,
    .param .b64 arguments
)
;

.func later(
    .reg .b32 %n
)
;

.weak .func (.reg .f32 %r) dot(
    .reg .f32 %x,
    .reg .f32 %y
)
{{
    mul.rn.f32 %r, %x, %y;
    ret;
}}

.func later(
    .reg .b32 %n
)
{{
    ret;
}}

.func never()
.noreturn
{{
    trap;
}}

.visible .entry _Z5firstPf(
    .param .u64 .ptr .global .align 16 a,
    .param .align 8 .b8 by_value[24],
    .param .u32 n
)
.maxntid 128, 1, 1
.minnctapersm 1
.pragma "nounroll";
{{
    .reg .b64 %rd<3>;
    .reg .v4 .f32 %v;
    .reg .b32 %r<3>;
    .reg .b8 %byte;
    .reg .f32 %f<2>;
    .reg .pred %p;
    .local .align 16 .b8 depot[16];
    .shared .align 8 .b64 barrier;

    ld.param.u64 %rd0, [a];
    ld.param.u32 %r0, [n+0];
    ld.param.b8 %byte, [by_value+23];
    mov.u64 %rd1, lut+4;
    ld.const.f32 %f0, [lut+4];
    ld.const.f32 %f0, lut[3];
    ld.const.f32 %f1, lut[%r0];
    ld.const.f32 %f1, lut[%r0+1];
    ld.global.v4.f32 %v, [%rd0+-16];
    ld.local.b8 %byte, [4096];
    add.f32 %f0, %v.x, %v.w;
    add.f32 %f1, %f0, 0f7FC00001;
    mov.u32 %r0, %tid.x;
    mov.b64 {{%r1, _}}, %rd1;
    setp.eq.u32 %p, %r0, 0;
    mov.u32 %r2, barrier;
    {{
    .param .b64 param0;
    .param .b64 param1;
    .param .b32 retval;
    .local .b32 scratch;
    st.param.b64 [param0], %rd0;
    st.param.b64 [param1], %rd1;
    call.uni (retval), vprintf, (param0, param1);
    ld.param.b32 %r1, [retval];
    }}
    @!%p call (%f0), dot, (%f0, %f1);
    call later, (%r0);
    @%p call never;
    mov.u64 %rd2, dot;
    signature: .callprototype (.reg .f32 _) _ (.reg .f32 _, .reg .f32 _);
    call (%f0), %rd2, (%f0, %f1), signature;
    mov.u64 %rd2, later;
    candidates: .calltargets later;
    call %rd2, (%r0), candidates;
    ts: .branchtargets $L1, $L2;
    .pragma "nounroll";
    brx.idx %r0, ts;
$L1:
    @%p bra.uni $L1;
    bra $L2;
$L2:
    exit;
}}
"""


@pytest.mark.parametrize("arch", TARGETS)
def test_a_module_with_everything_is_recorded_as_it_was_parsed(arch: str, ptxas: Tool) -> None:
    version = "8.7" if arch == "sm_120a" else "8.6"
    text = EVERYTHING.format(arch=arch, version=version)
    parsed = canonical(ir.parse_module(text))
    assert check_module(parsed) == []
    recorded = replayed(parsed)
    assert recorded == parsed
    printed = ir.print_module(recorded).text
    assert canonical(ir.parse_module(printed)) == recorded
    assert check_text(printed, ptxas=ptxas).ok


# --- what an author writes ----------------------------------------------------------------------------


def test_nothing_is_added(ptxas: Tool) -> None:
    program = Program("sm_90a", version=(8, 7), options=("texmode_independent",))

    @program.entry(params=(ir.Param("out", u64),))
    def empty(out: Any) -> None:
        pass

    assert program.ptx() == (
        ".version 8.7\n.target sm_90a, texmode_independent\n.address_size 64\n\n"
        ".visible .entry empty(\n    .param .u64 out\n)\n{\n}\n"
    )
    assert check_text(program.ptx(), ptxas=ptxas).ok


def test_spellings() -> None:
    def body(a: Any, n: Any) -> None:
        p, q = reg.declare(u64, "p"), reg.declare(pred, "q")
        x, y = reg.declare(u32, "x"), reg.declare(u32, "y")
        ptx.inst.ld.param.u64(p, ptx.addr(a))
        ptx.inst.ld.param.u32(x, ptx.addr(n, 0, zero=True))
        ptx.inst.ld.param.u32(x, ptx.addr(n + 4, 4))
        ptx.inst.ld.local.u32(x, ptx.addr(ir.Immediate(16)))
        local = ptx.variable("local", b8, shape=(8,), align=4)
        ptx.inst.mov.u64(p, local)
        ptx.inst.mov.u64(p, local + 8 - 4)
        ptx.inst.mov.u32(x, ptx.special.tid.x)
        ptx.inst.add.u32(x, ptx.plus(y, 4), 1)
        ptx.inst.vadd.s32.u32.u32(x, ptx.part(x, "b0"), ptx.part(y, "h1"))
        ptx.inst.vmad.s32.u32.u32(x, y, y, ptx.minus(x))
        ptx.inst.setp.eq.u32(ptx.pair(q, ptx.sink), x, 0)
        ptx.call((x, ptx.sink), "f", (1, x, y), uni=True, pred=~q)
        ptx.call((), "g", ())
        ptx.call(None, ptx.symbol("g"))

    program = Program("sm_90a")
    program.declare(
        "f",
        params=[ir.Param(name, u32, space="reg") for name in "abc"],
        returns=[ir.Param(name, u32, space="reg") for name in "rs"],
    )
    program.declare("g", linkage="")
    program.entry("k", params=(ir.Param("a", u64), ir.Param("n", b8, 16)))(body)
    assert lines_of(program) == [
        "ld.param.u64 %p, [a];",
        "ld.param.u32 %x, [n+0];",
        "ld.param.u32 %x, [n+8];",
        "ld.local.u32 %x, [16];",
        "mov.u64 %p, local;",
        "mov.u64 %p, local+4;",
        "mov.u32 %x, %tid.x;",
        "add.u32 %x, %y+4, 1;",
        "vadd.s32.u32.u32 %x, %x.b0, %y.h1;",
        "vmad.s32.u32.u32 %x, %y, %y, -%x;",
        "setp.eq.u32 %q|_, %x, 0;",
        "@!%q call.uni (%x, _), f, (1, %x, %y);",
        "call (), g, ();",
        "call g;",
    ]


def test_textures_take_a_sampler_between_base_and_coordinates() -> None:
    def body() -> None:
        out = reg.array(f32, 4)
        x = reg.scalar(f32, init=0.5)
        resident = reg.scalar(pred)
        address = ptx.addr(ptx.symbol("image"), extra=[ptx.symbol("filter")], coord=[x, x])
        ptx.inst["tex.2d.v4.f32.f32"](out, address)
        ptx.inst["tex.2d.v4.f32.f32"](ptx.pair(out, resident), address)
        moved = ptx.addr(address, suffix="unified")
        assert (moved.extra, moved.coordinates, moved.suffix) == (address.extra, (x, x), "unified")

    kinds = ir.nodes.OPAQUE_TYPES
    program = Program("sm_90a")
    program.global_(kinds["texref"], "image")
    program.global_(kinds["samplerref"], "filter", init=[ir.Setting("filter_mode", "nearest")])
    program.entry("k")(body)
    assert lines_of(program)[1:] == [
        "tex.2d.v4.f32.f32 {%out0, %out1, %out2, %out3}, [image, filter, {%x, %x}];",
        "tex.2d.v4.f32.f32 {%out0, %out1, %out2, %out3}|%resident, [image, filter, {%x, %x}];",
    ]
    assert ir.parse_module(program.ptx()) == program.module()


def test_registers_keep_their_names_and_types() -> None:
    def body() -> None:
        byte = reg.declare(u8, "b1")
        vector = reg.declare(f32, "v$1", vector=2)
        plain = reg.scalar(u8, name="b1")
        assert (str(byte), str(vector), str(plain)) == ("%b1", "%v$1", "%b1_1")
        ptx.inst.ld.local.v2.f32(vector, ptx.addr(ir.Immediate(8)))
        ptx.inst.add.f32(reg.scalar(f32, name="sum"), vector.x, vector.y)  # type: ignore[attr-defined]

    program = Program("sm_90a")
    program.entry("k")(body)
    function = program.module().entry()
    assert function.registers == (
        ir.Register("b1", u8),
        ir.Register("v$1", f32, 2),
        ir.Register("b1_1", b16),
        ir.Register("sum", f32),
    )
    assert str(function.body[-1]) == "add.f32 %sum, %v$1.x, %v$1.y;"


def test_parameters_from_annotations() -> None:
    program = Program("sm_90a")

    @program.entry(reqntid=128)
    def kernel(
        x: u64, y: ptx.param(u64, pointer="global", align=8), map: ptx.param(b8, 128, align=64)
    ) -> None:  # type: ignore[valid-type]
        ptx.ret()

    @program.entry(params=(u64, ptx.param(b8, 128, align=64), ir.Param("_Z1n", u32)))
    def typed(x: Sym, map: Sym, n: Sym) -> None:
        ptx.inst.ld.param.u32(reg.scalar(u32), ptx.addr(n))

    @program.func(returns=(ir.Param("r", f32, space="reg"),))
    def half(r: Any, x: ptx.param(f32, space="reg")) -> None:  # type: ignore[valid-type]
        ptx.inst.mul.f32(r, x, 0.5)

    module = program.module()
    assert [str(p) for p in module.by_name["kernel"].params] == [
        ".param .u64 x",
        ".param .u64 .ptr .global .align 8 y",
        ".param .align 64 .b8 map[128]",
    ]
    assert module.by_name["kernel"].directives == (ir.Directive("reqntid", (128,)),)
    assert [str(p) for p in module.by_name["half"].params] == [".reg .f32 %x"]
    typed_params = [".param .u64 x", ".param .align 64 .b8 map[128]", ".param .u32 _Z1n"]
    assert [str(p) for p in module.by_name["typed"].params] == typed_params


def test_types_of_parameters_are_as_many_as_these() -> None:
    def kernel(x: Sym) -> None:
        ptx.ret()

    with pytest.raises(OperandError, match=r"kernel has the parameters \(x\), and params= has 2"):
        Program("sm_90a").entry(params=(u64, u32))(kernel)


def test_the_author_may_use_the_rest_of_the_dsl() -> None:
    def body() -> None:
        i = reg.scalar(u32, init=0)
        with ptx.loop() as loop:
            i += 1
            loop.break_(pred=i > 7)
        with ptx.if_(i == 8):
            ptx.exit()
        ptx.ret()

    assert body_lines(body) == [
        "mov.u32 %i, 0;",
        "loop:",
        "add.u32 %i, %i, 1;",
        "setp.gt.u32 %p, %i, 7;",
        "@%p bra endloop;",
        "bra loop;",
        "endloop:",
        "setp.eq.u32 %p_1, %i, 8;",
        "@!%p_1 bra endif;",
        "exit;",
        "endif:",
        "ret;",
    ]


def test_numbers_of_a_call_take_the_types_of_the_parameters(ptxas: Tool) -> None:
    program = Program("sm_90a")
    kinds = {"x": f32, "y": f64, "n": u32, "w": u64}

    @program.func(params=[ir.Param(n, k, space="reg") for n, k in kinds.items()])
    def f(x: Any, y: Any, n: Any, w: Any) -> None:
        ptx.ret()

    @program.entry()
    def k() -> None:
        ptx.call(None, f, (1, 1, 1, 1))

    assert lines_of(program, "k") == ["call f, (0f3F800000, 0d3FF0000000000000, 1, 1);"]
    assert check_text(program.ptx(), ptxas=ptxas).ok


def test_several_kernels_keep_their_own_registers_labels_and_variables() -> None:
    program = Program("sm_90a")

    def body() -> None:
        x = reg.declare(u32, "x")
        ptx.variable("shared", b32, "cell")
        ptx.label("again")
        ptx.inst.add.u32(x, x, 1)
        ptx.bra("again")

    first = program.entry("first")(body)
    second = program.entry("second", linkage="weak")(body)
    assert (str(first), str(second)) == ("first", "second")
    module = program.module()
    assert module.functions[0].body == module.functions[1].body
    assert [f.linkage for f in module.functions] == ["visible", "weak"]


def test_the_version_is_the_lowest_or_the_given_one() -> None:
    def body() -> None:
        ptx.inst["fence.proxy.async"]()

    program = Program("sm_90a")
    program.entry("k")(body)
    assert program.module().version == (8, 0)
    program = Program("sm_90a", version=(8, 7))
    program.entry("k")(body)
    assert program.module().version == (8, 7)


def test_every_statement_keeps_its_python_line() -> None:
    program = Program("sm_90a")

    def helper() -> None:
        ptx.pragma("nounroll")  # 1

    @program.entry()
    def k() -> None:
        with ptx.block():  # 2
            ptx.variable("param", b32, "p")  # 3
            helper()  # 4
        ptx.branchtargets("ts", ["end"])  # 5
        ptx.label("end")  # 6
        ptx.ret()  # 7

    sources = [statement.source for statement in program.module().entry().body]  # type: ignore[union-attr]
    assert [source.text[-1] for source in sources] == list("2312567")
    assert "# 7" in program.ptx(annotate=True).splitlines()[-3]
    assert ".loc" in program.ptx(lines=True)
    assert program.printed().source_of(len(program.ptx().splitlines()) - 1) == sources[-1]
    assert sources[2].caller is not None and sources[2].caller.text.endswith("# 4")


# --- refusals ------------------------------------------------------------------------------------------


def test_refusals_while_recording() -> None:
    def check() -> None:
        x, p = reg.declare(u32, "x"), reg.scalar(pred)
        pointer = reg.scalar(u64)
        with rejected(TraceError, "%x"):
            reg.declare(u32, "x")  # rejected
        with rejected(TraceError, "special register", "%tid"):
            reg.declare(u32, "tid")  # rejected
        with rejected(TraceError, "'a.b'"):
            reg.declare(u32, "a.b")  # rejected
        with rejected(OperandError, "3"):
            reg.declare(f32, "v", vector=3)  # rejected
        with rejected(OperandError, "3.5", "constant"):
            ptx.symbol("s") + 3.5  # type: ignore[operator]  # rejected
        with rejected(OperandError, "'i'", "number"):
            ptx.symbol("s")["i"]  # type: ignore[index]  # rejected
        with rejected(TraceError, "'1s'"):
            ptx.symbol("1s")  # rejected
        with rejected(OperandError, "bits", "u32"):
            ptx.pattern(0, u32)  # rejected
        with rejected(OperandError, "4294967296"):
            ptx.pattern(1 << 32, f32)  # rejected
        with rejected(OperandError, "register of ptx.plus is 3: expected a register"):
            ptx.plus(3, 4)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "offset of ptx.plus is the register %x (.u32): expected an integer"):
            ptx.plus(x, x)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "'nowhere'", "shared"):
            ptx.variable("nowhere", u32, "v")  # rejected
        with rejected(OperandError, "align", "3"):
            ptx.variable("local", u32, "v", align=3)  # rejected
        with rejected(OperandError, "(4, 0)"):
            ptx.variable("local", u32, "v", shape=(4, 0))  # rejected
        with rejected(OperandError, "'public'"):
            ptx.variable("local", u32, "v", linkage="public")  # rejected
        ptx.variable("local", u32, "twice")
        with rejected(TraceError, "twice", "already"):
            ptx.variable("param", u32, "twice")  # rejected
        with rejected(OperandError, "needs a name"):
            print(ptx.variable("local", u32))  # rejected
        with rejected(OperandError, "signature", str(pointer)):
            ptx.call(None, pointer)  # rejected
        with rejected(OperandError, "own signature"):
            ptx.call(None, "f", prototype="p")  # rejected
        with rejected(OperandError, "function of ptx.call is 7: expected a symbol or a strin"):
            ptx.call(None, 7)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "argument 2", "1.5", "ptx.pattern"):
            ptx.call(None, "unknown", (1, 1.5))  # rejected
        with rejected(OperandError, "predicate", ".u32"):
            ptx.call(None, "unknown", pred=x)  # rejected
        with rejected(OperandError, "function"):
            ptx.calltargets("c", [])  # rejected
        ptx.label("taken")
        with rejected(TraceError, "'taken'"):
            ptx.branchtargets("taken", ["taken"])  # rejected
        with rejected(OperandError, "quotes"):
            ptx.pragma('a"b')  # rejected
        with rejected(OperandError, "index"):
            ptx.inst.brx.idx("ts")  # rejected
        with rejected(TraceError, "program.shared"):
            smem.alloc(16)  # rejected
        with rejected(InstructionError, "ld.para"):
            ptx.inst.ld.para.u32(x, ptx.symbol("n"))  # rejected
        del p

    in_program(check)


def test_a_body_that_fails_leaves_the_program_as_it_was() -> None:
    program = Program("sm_90a")

    def helper() -> None:
        ptx.inst.ret()

    @ptx.func
    def device() -> None:
        ptx.inst.trap()

    def bad() -> None:
        device()
        ptx.inst.add.u32(reg.scalar(u32), reg.scalar(bf16), 1)  # rejected

    with pytest.raises(OperandError) as caught:
        program.entry("k")(bad)
    says(caught.value, ["add.u32"])
    assert program.module(check=False).functions == ()
    program.entry("k")(helper)
    assert [f.name for f in program.module().functions] == ["k"]


def faults_of(program: Program) -> PyptxError:
    with pytest.raises(PyptxError) as caught:
        program.module()
    program.module(check=False)
    return caught.value


def test_what_only_the_module_knows_is_refused_at_its_line() -> None:
    program = Program("sm_90a")

    @program.entry()
    def k() -> None:
        ptx.inst.mov.u64(reg.scalar(u64), ptx.symbol("nothing"))  # rejected

    says(faults_of(program), ["nothing"])

    program = Program("sm_90a")
    program.declare("f", params=(ir.Param("n", u32, space="reg"),))

    @program.entry()
    def k2() -> None:
        ptx.call(None, "f", (reg.scalar(f32),))  # rejected

    says(faults_of(program), [".f32", ".u32"])


def test_labels_that_are_never_placed() -> None:
    def list_of_nothing() -> None:
        ptx.branchtargets("ts", ["nowhere"])  # rejected

    def index_of_nothing() -> None:
        ptx.inst.brx.idx(reg.scalar(u32), "ts")  # rejected

    def call_of_nothing() -> None:
        ptx.call(None, reg.scalar(u64), prototype="p")  # rejected

    for body, name in ((list_of_nothing, "nowhere"), (index_of_nothing, "ts"), (call_of_nothing, "p")):
        with pytest.raises(TraceError) as caught:
            Program("sm_90a").entry("k")(body)
        says(caught.value, [repr(name)])


def test_declarations_are_checked() -> None:
    program = Program("sm_90a")

    def body() -> None:
        pass

    with pytest.raises(OperandError, match="maxntids(.|\n)*maxntid="):
        program.entry("k", maxntids=128)(body)
    with pytest.raises(OperandError, match="maxntid is 'x'"):
        program.entry("k", maxntid="x")(body)  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="'private'"):
        program.entry("k", linkage="private")(body)
    with pytest.raises(OperandError, match=r"ir\.Param"):
        program.entry("k", params=("u32",))(body)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="'a b'"):
        program.entry("a b", params=())(body)
    with pytest.raises(OperandError, match="parameter n has no type"):
        program.entry("k")(lambda n: None)
    with pytest.raises(OperandError, match="list of bytes|list"):
        program.const(b8, "text", shape=(2,), init="ab")
    with pytest.raises(OperandError, match=r"300 .*u8|u8"):
        program.const(u8, "byte", init=300)
    with pytest.raises(OperandError, match="object"):
        program.const(u32, "thing", init=object())
    with pytest.raises(OperandError, match="directive"):
        program.directive("pragma")  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="'kernel'"):
        program.declare("f", kind="kernel")
    with pytest.raises(TargetError, match="sm_91"):
        Program("sm_91")
    assert program.module(check=False) == Program("sm_90a").module()


def test_variables_of_the_module() -> None:
    program = Program("sm_90a")
    one = program.const(f32, init=1.0)
    program.global_(b64, "pointers", shape=(0,), init=[one, one + 4, ir.SymbolAddress("one"), 3])
    program.variable("global", u8, "text", shape=(4,), init=list(b"abc\0"), linkage="visible")
    program.shared(b8, "buffer", shape=(64,), align=128)
    program.global_(f64, "grid", shape=(2, 2), init=[[1, 2], [3, 4]])
    program.directive(ir.Alias("g", "f"))
    assert [str(v) for v in program.module(check=False).variables] == [
        ".const .f32 one = 0f3F800000",
        ".global .b64 pointers[4] = {one, one+4, generic(one), 3}",
        ".visible .global .u8 text[4] = {97, 98, 99, 0}",
        ".shared .align 128 .b8 buffer[64]",
        ".global .f64 grid[2][2] = {{0d3FF0000000000000, 0d4000000000000000}, "
        "{0d4008000000000000, 0d4010000000000000}}",
    ]
    assert program.module(check=False).directives == (ir.Alias("g", "f"),)


def test_outside_of_a_recording() -> None:
    for call in (
        lambda: ptx.call(None, "f"),
        lambda: ptx.variable("local", u32, "v"),
        lambda: ptx.pragma("nounroll"),
        lambda: reg.declare(u32, "x"),
    ):
        with pytest.raises(TraceError, match="no kernel is being recorded"):
            call()
