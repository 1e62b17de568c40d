"""A module's check against ptxas: what it refuses ptxas refuses, and it refuses what ptxas does.

Every faulty text stands beside a twin that differs in the fault alone and is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyptx.core.errors import ParseError
from pyptx.ir import parse_module
from pyptx.isa import bind_instruction, check_module
from pyptx.toolchain import Tool, check_text


@dataclass(frozen=True)
class Case:
    """A kernel's body, what stands before it, and what the check must say (nothing: it is right)."""

    name: str
    body: str = ""
    head: str = ""
    says: str = ""
    params: str = ".param .u64 x"
    directives: str = ""
    target: str = "sm_90a"
    version: str = "8.8"

    @property
    def text(self) -> str:
        return f""".version {self.version}
.target {self.target}
.address_size 64
.global .b32 g; .global .b64 g64; .const .b32 c; .shared .b32 s; .shared .b64 s64;
{self.head}
.visible .entry k({self.params}) {self.directives}
{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .reg .f32 %f<5>; .reg .b16 %h<3>; .local .b32 l;
{self.body}
ret; }}
"""


GROUP1 = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
GROUP2 = "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;"
BLACKWELL = {"target": "sm_100a"}
TAKES = ".func f(.reg .b32 a) { ret; }"
TAKES_PARAM = ".func f(.param .align 8 .b8 a[8]) { ret; }"
GIVES = ".func (.reg .b32 r) f() { mov.b32 r, 0; ret; }"
PLAIN = ".func f() { ret; }"

CASES = [
    # state spaces of names
    Case("global", "ld.global.u32 %r1, [g];"),
    Case("shared as global", "ld.global.u32 %r1, [s];", says="s is in .shared space"),
    Case("global as shared", "ld.shared.u32 %r1, [g];", says="g is in .global space"),
    Case("shared with an offset", "ld.global.u32 %r1, [s+4];", says="s is in .shared space"),
    Case("cluster window", "ld.shared::cluster.u32 %r1, [s];"),
    Case("generic", "ld.u32 %r1, [g]; ld.u32 %r1, [s]; ld.u32 %r1, [l];"),
    Case("generic constant", "ld.u32 %r1, [c];", says="c is in .const space"),
    Case("generic parameter", "ld.u32 %r1, [x];", says="x is in .param space"),
    Case("parameter", "ld.param.u32 %r1, [x]; ld.param.u32 %r1, [x+4];"),
    Case("global as parameter", "ld.param.u32 %r1, [g];", says="g is in .global space"),
    Case("atomic on the wrong space", "atom.global.add.u32 %r1, [s], 1;", says="s is in .shared space"),
    Case("atomic", "atom.global.add.u32 %r1, [g], 1; atom.add.u32 %r1, [s], 1;"),
    Case(
        "barrier in global memory", "mbarrier.init.shared::cta.b64 [g64], 1;", says="g64 is in .global space"
    ),
    Case("barrier", "mbarrier.init.shared::cta.b64 [s64], 1;"),
    Case(
        "both of a copy",
        "cp.async.ca.shared.global [g], [s], 4;",
        says="g is in .global space",
        target="sm_80",
    ),
    Case("copy", "cp.async.ca.shared.global [s], [g], 4;"),
    Case("a function's address", "ld.global.u32 %r1, [f];", PLAIN, says="f is a function"),
    Case("a function's address moved", "mov.b64 %rd1, f;", PLAIN),
    Case("half of a global address", "mov.u32 %r1, g;", says="its address has 64 bits"),
    Case("addresses", "mov.u32 %r1, s; mov.u64 %rd1, g; mov.u32 %r1, l; mov.b64 %rd1, x;"),
    # names and labels
    Case("unknown name", "ld.global.u32 %r1, [nope];", says="nope"),
    Case("unknown register", "mov.u32 %r1, %q;", says="no such special register"),
    Case(
        "special registers",
        "mov.u32 %r1, %tid.x; mov.u32 %r1, %envreg3; mov.u64 %rd1, %clock64; mov.u32 %r1, %pm0;",
    ),
    Case("unknown label", "bra nope;", says="in scope is called nope"),
    Case("label", "L: bra L;"),
    Case("label twice", "L: bra L; L: ret;", says="a label that is not defined yet"),
    Case("label of an inner scope", "bra L; { L: mov.u32 %r1, 0; }", says="in scope is called L"),
    Case("label like a variable", "g: bra g;"),
    Case("branch to a variable", "bra g;", says="g"),
    Case("table", "T: .branchtargets L; brx.idx %r1, T; L:"),
    Case("table of nothing", "T: .branchtargets nope; brx.idx %r1, T;", says=".branchtargets names nope"),
    Case("label as table", "L: brx.idx %r1, L;", says="L is no .branchtargets list"),
    Case("branch to a table", "L: T: .branchtargets L; bra T;", says="T is no label"),
    Case("guard of bits", "@%r1 mov.u32 %r2, 0;", says="predicate"),
    Case("guard", "@!%p1 mov.u32 %r2, 0;"),
    # calls
    Case("call", "call f, (%r1); call f, (7);", TAKES),
    Case("too many arguments", "call f, (%r1, %r2);", TAKES, "f: expected 1 argument, got 2"),
    Case("too few arguments", "call f;", TAKES, "f: expected 1 argument, got 0"),
    Case("wide argument", "call f, (%rd1);", TAKES, "argument 1 of f"),
    Case("float for bits", "call f, (%f1);", TAKES),
    Case("float for unsigned", "call f, (%f1);", TAKES.replace("b32", "u32"), "argument 1 of f"),
    Case("integer for float", "call f, (1);", TAKES.replace("b32", "f32"), "argument 1 of f"),
    Case("float constant", "call f, (0f3F800000);", TAKES.replace("b32", "f32")),
    Case("a variable's name", "call f, (g);", TAKES, "g is in .global space"),
    Case("predicate", "call f, (%p1);", TAKES.replace("b32", "pred"), "cannot be passed"),
    Case("result", "call (%r1), f; call (_), f;", GIVES),
    Case("result not taken", "call f;", GIVES, "f: expected 1 result, got 0"),
    Case("result that is none", "call (%r1), f;", PLAIN, "f: expected 0 results, got 1"),
    Case("an entry", "call k2;", ".entry k2() { ret; }", "k2 is an entry"),
    Case("no such function", "call nofunc;", says="nofunc"),
    Case("by value", "{ .param .align 8 .b8 a[8]; call f, (a); }", TAKES_PARAM),
    Case("other elements", "{ .param .align 8 .b16 a[4]; call f, (a); }", TAKES_PARAM),
    Case("smaller alignment", "{ .param .align 4 .b8 a[8]; call f, (a); }", TAKES_PARAM, "aligned to 4"),
    Case("larger alignment", "{ .param .align 16 .b8 a[8]; call f, (a); }", TAKES_PARAM, "aligned to 16"),
    Case("shorter array", "{ .param .align 8 .b8 a[4]; call f, (a); }", TAKES_PARAM, "argument 1 of f"),
    Case(
        "array for a scalar",
        "{ .param .align 4 .b8 a[4]; call f, (a); }",
        TAKES.replace("reg", "param"),
        "argument 1",
    ),
    Case("indirect", "P: .callprototype _ (.reg .b32 _); call %rd1, (%r1), P;"),
    Case(
        "indirect by mistake",
        "P: .callprototype _ (.reg .b32 _); call %rd1, P;",
        says="P: expected 1 argument",
    ),
    Case("possible targets", "P: .calltargets f; call %rd1, (%r1), P;", TAKES),
    Case("impossible targets", "P: .calltargets nope; call %rd1, P;", says=".calltargets names nope"),
    # parameters, memory, directives
    Case("many parameters", params=".param .b8 x[4352]", version="8.0"),
    Case("too many for 8.0", params=".param .b8 x[4356]", version="8.0", says="4356 bytes of parameters"),
    Case("most parameters", params=".param .b8 x[32764]"),
    Case("too many parameters", params=".param .b8 x[32768]", says="32768 bytes of parameters"),
    Case("written parameter", "st.param.b32 [x], %r1;", says="x is a parameter of the function"),
    Case("parameter twice", params=".param .u32 a, .param .u32 a", says="a name that is not declared yet"),
    Case("register parameter", params=".reg .b32 a", says=".param space only"),
    Case("shared memory", "ld.shared.b32 %r1, [b];", ".shared .b8 b[232448];"),
    Case(
        "too much shared memory",
        "ld.shared.b32 %r1, [b];",
        ".shared .b8 b[232452];",
        "232452 bytes of shared",
    ),
    Case(
        "too much in sum",
        "mov.u32 %r1, b; mov.u32 %r1, d;",
        ".shared .b8 b[150000], d[150000];",
        "300000 bytes",
    ),
    Case("shared memory of nobody", head=".shared .b8 b[500000];"),
    Case(
        "shared memory without a", "mov.u32 %r1, b;", ".shared .b8 b[49156];", "49156 bytes", target="sm_90"
    ),
    Case(
        "shared memory of a callee",
        "call f;",
        ".shared .b8 b[500000]; .func f() { .reg .b32 r; mov.b32 r, b; ret; }",
        "500000 bytes",
    ),
    Case("constant memory", head=".const .b8 b[65532];"),
    Case("too much constant memory", head=".const .b8 b[65540];", says="constant memory"),
    Case("block size", directives=".maxntid 128 .minnctapersm 2"),
    Case(
        "block size twice over", directives=".maxntid 128 .reqntid 128", says=".maxntid and .reqntid exclude"
    ),
    Case(
        "cluster twice over", directives=".maxclusterrank 4 .reqnctapercluster 4", says="exclude each other"
    ),
    Case("cluster", directives=".explicitcluster .maxclusterrank 4"),
    Case(
        "blocks are clusters",
        directives=".blocksareclusters .reqntid 128 .reqnctapercluster 2",
        version="9.0",
    ),
    Case(
        "of what size",
        directives=".blocksareclusters .reqntid 128",
        version="9.0",
        says=".blocksareclusters requires",
    ),
    Case("no threads", directives=".maxntid 0", says="every value must be at least 1"),
    Case("no register", directives=".maxnreg 0", says="every value must be at least 1"),
    Case("four extents", directives=".maxntid 1, 1, 1, 1", says="has 4 values"),
    Case(
        "cluster before Hopper",
        directives=".reqnctapercluster 2",
        target="sm_80",
        says="does not exist on sm_80",
    ),
    Case(
        "cluster before 7.8",
        directives=".explicitcluster",
        version="7.7",
        target="sm_80",
        says="exists since PTX ISA 7.8",
    ),
    Case("unknown directive", directives=".maxntidd 2", says="did you mean .maxntid?"),
    Case("for functions", directives=".noreturn", says="a directive of device functions"),
    Case("for kernels", head=".func f() .maxnreg 32 { ret; }", says="a directive of kernels"),
    Case("long gone", directives=".maxnctapersm 2", says="no longer exists in PTX ISA 2.1"),
    # declarations
    Case("name twice", head=".global .b32 g;", says="g is declared twice"),
    Case("function twice", head=PLAIN + PLAIN, says="f is declared twice"),
    Case("prototype", head=".func f();" + PLAIN),
    Case("other prototype", head=".func f(.reg .b32 a);" + PLAIN, says="f is declared once with"),
    Case("value", head=".global .b32 v = 4; .const .b32 w = 4;"),
    Case("shared value", head=".shared .b32 v = 4;", says="cannot have an initial value"),
    Case("local value", "{ .local .b32 v = 4; }", says="cannot have an initial value"),
    Case("extern value", head=".extern .global .b32 v = 4;", says="cannot have an initial value"),
    Case("values", head=".global .b32 v[2][2] = {{1, 2}, {3}}; .global .v4 .b32 w = {1, 2, 3, 4};"),
    Case(
        "too many values", head=".global .b32 v[2] = {1, 2, 3};", says="more initial values than its size 2"
    ),
    Case(
        "too many inside",
        head=".global .b32 v[2][2] = {{1, 2, 3}};",
        says="more initial values than its size 2 x 2",
    ),
    Case("braces for a scalar", head=".global .b32 v = {1};", says="expected one value without braces"),
    Case("scalar for an array", head=".global .b32 v[2] = 1;", says="expected values in braces"),
    Case("open array", head=".global .b32 v[] = {1, 2, 3};"),
    Case("open and empty", head=".global .b32 v[];", says="must be .extern"),
    Case("predicate in memory", head=".global .pred v;", says="predicates exist only in registers"),
    Case("instruction type", head=".global .e4m3 v;", says="no variable can have type .e4m3"),
    # tensor memory
    Case("one cta_group", GROUP1 + GROUP1, **BLACKWELL),
    Case("two cta_groups", GROUP1 + GROUP2, says="the same .cta_group", **BLACKWELL),
    Case("two kernels", GROUP1, f".entry k2() {{ {GROUP2} ret; }}", **BLACKWELL),
    Case("called", GROUP1 + "call f;", f".func f() {{ {GROUP2} ret; }}", "the same .cta_group", **BLACKWELL),
    Case(
        "address taken",
        GROUP1 + "P: .callprototype _ (); mov.b64 %rd1, f; call %rd1, P;",
        f".func f() {{ {GROUP2} ret; }}",
        "the same .cta_group",
        **BLACKWELL,
    ),
    Case("not called", GROUP1, f".func f() {{ {GROUP2} ret; }}", **BLACKWELL),
    # what the whole module says
    Case(
        "instruction too new",
        "fence.proxy.async;",
        version="7.8",
        says="requires PTX ISA 8.0",
        target="sm_90",
    ),
    Case("instruction new enough", "fence.proxy.async;", version="8.0", target="sm_90"),
    Case("target without it", "fence.proxy.async;", target="sm_80", says="does not exist on sm_80"),
    Case("target too new", version="8.0", says="requires PTX ISA 8.6", **BLACKWELL),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_agrees_with_ptxas(case: Case, ptxas: Tool) -> None:
    report = check_text(case.text, case.target, ptxas=ptxas)
    assert bool(report.errors) == bool(case.says), report.errors
    try:
        faults = [str(fault) for fault in check_module(parse_module(case.text))]
    except ParseError as error:
        faults = [str(error)]
    assert bool(faults) == bool(case.says), faults
    assert any(case.says in fault for fault in faults) or not case.says, faults


@pytest.mark.parametrize("older", ["sm_20", "sm_52", "sm_70"])
def test_target_before_those_that_ptxas_makes_code_for(older: str, ptxas: Tool) -> None:
    for instruction, right in (("ld.global.u32 %r1, [g];", True), ("cp.async.commit_group;", False)):
        text = Case("", instruction, target=older).text
        assert check_text(text, "sm_80", ptxas=ptxas).ok == right
        assert (check_module(parse_module(text)) == []) == right
    text = Case("", target=older, version="1.5").text
    assert not check_text(text, "sm_80", ptxas=ptxas).ok
    assert any("requires PTX ISA" in fault.message for fault in check_module(parse_module(text)))


def test_target_that_never_was() -> None:
    (fault,) = check_module(parse_module(Case("", target="sm_77").text))
    assert "unknown target 'sm_77'" in fault.message


def test_every_fault_is_told_with_its_line() -> None:
    text = Case("three", "\n".join(["bra nope;", "ld.shared.u32 %r1, [g];", "add.q32 %r1, %r1, 1;"])).text
    faults = check_module(parse_module(text, "three.ptx"))
    assert [fault.location.line for fault in faults if fault.location] == [8, 9, 10]
    assert "nearest legal spelling" in faults[2].hint


def test_address_size() -> None:
    module = parse_module(".version 8.0\n.target sm_90\n.address_size 32\n.entry f() { ret; }\n")
    (fault,) = check_module(module)
    assert "addresses in kernels have 64 bits" in fault.message


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.sys.add.u32 %r1, [g], 1;",
        "atom.add.release.gpu.u32 %r1, [%rd1], 1;",
        "ld.global.relaxed.cta.L1::no_allocate.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];",
        "cvt.f32.rn.f64 %f1, %rd1;",
    ],
)
def test_text_may_have_its_modifiers_in_any_order(text: str, ptxas: Tool) -> None:
    module = Case("order", text)
    assert check_text(module.text, module.target, ptxas=ptxas).ok
    assert not check_module(parse_module(module.text))


def test_the_order_never_changes_the_meaning() -> None:
    (function,) = parse_module(Case("cvt", "cvt.u32.s16 %r1, %h1; cvt.s16.u32 %h1, %r1;").text).functions
    types = [bind_instruction(i).chosen for i in function.instructions() if i.opcode == "cvt"]
    assert [(c["dtype"], c["atype"]) for c in types] == [("u32", "s16"), ("s16", "u32")]
