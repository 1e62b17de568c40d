"""``pyptx.diff``: what counts and what does not, one planted edit of a text at a time."""

from __future__ import annotations

import functools
import itertools
import random
import re
from pathlib import Path

import pytest

import pyptx
from pyptx import b32, ptx, reg
from pyptx.core.errors import ParseError
from pyptx.ir import parse_module
from pyptx.tools.diff import KINDS, Diff, assert_same_ptx, diff
from pyptx.tools.diff.names import bijection

#: Parameters, shared memory, a loop, guards, a call, a table in constant memory, tensor core and barriers.
KERNEL = """\
.version 8.0
.target sm_90
.address_size 64

.const .align 4 .b32 table[4] = {1, 2, 3, 4};
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .b32 counter = 7;

.visible .func (.reg .b32 %out) twice(.reg .b32 %in)
{
    add.s32 %out, %in, %in;
    ret;
}

.visible .entry work(
    .param .u64 src,
    .param .u64 .ptr .global .align 16 dst,
    .param .u32 n
)
.maxntid 128, 1, 1
.minnctapersm 2
{
    .reg .pred %p<4>;
    .reg .b32 %r<20>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<8>;
    .shared .align 16 .b8 tile[1024];

    ld.param.u64 %rd1, [src];
    ld.param.u64 %rd2, [dst];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, tile;
    shl.b32 %r5, %r2, 2;
    add.s32 %r6, %r4, %r5;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.u32 %rd4, %r2, 4;
    add.s64 %rd5, %rd3, %rd4;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r7, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra $end;
$loop:
    ld.global.nc.f32 %f2, [%rd5+16];
    ld.global.nc.f32 %f3, [%rd5+32];
    st.shared.f32 [%r6], %f2;
    bar.sync 0;
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.s32 %r7, %r7, 1;
    setp.lt.u32 %p2, %r7, %r1;
    @%p2 bra $loop;
$end:
    setp.ne.s32 %p3, %r3, 0;
    @!%p3 bra $last;
    call (%r8), twice, (%r7);
    ld.const.u32 %r9, [table+8];
    add.u32 %r10, %r8, %r9;
    cvt.rn.f32.u32 %f4, %r10;
    add.f32 %f1, %f1, %f4;
$last:
    shfl.sync.bfly.b32 %r11|%p1, %r7, 16, 31, -1;
    ld.shared.v2.b32 {%r12, %r13}, [tile];
    xor.b32 %r14, %r12, %r13;
    cvta.to.global.u64 %rd6, %rd2;
    st.global.f32 [%rd6], %f1;
    atom.global.add.u32 %r15, [counter], %r14;
    ret;
}
"""

HARMLESS = {
    "comments": ("    bar.sync 0;", "    bar.sync 0; // all have stored\n    /* so that all may read */"),
    "white space": ("    mov.u32 %r7, 0;", "\n\n\tmov.u32   %r7,0 ;"),
    "register renamed": ("%r7", "%count", ".reg .b32 %r<20>", ".reg .b32 %r<20>, %count"),
    "registers exchanged": ("%f2", "%f3", "%f3", "%f2"),
    "registers declared singly": (".reg .pred %p<4>;", ".reg .pred %p1; .reg .pred %p3, %p2;"),
    "registers declared in another order": (
        "    .reg .pred %p<4>;\n    .reg .b32 %r<20>;",
        "    .reg .b32 %r<30>;\n    .reg .pred %p<9>;",
    ),
    "registers of another kind and the same width": (".reg .f32 %f<8>", ".reg .b32 %f<8>"),
    "unused registers": (".reg .b64 %rd<8>;", ".reg .b64 %rd<80>; .reg .f64 %never;"),
    "relabeled": ("$loop", "$L__BB0_2"),
    "labels exchanged": ("$loop", "$last", "$last", "$loop"),
    "a label that nothing refers to": ("    bar.sync 0;", "$unused:\n    bar.sync 0;"),
    "parameter renamed": ("src", "work_param_0"),
    "variable of the function renamed": ("tile", "buffer"),
    "variable without linkage renamed": ("table", "numbers"),
    "variables in another order": (
        ".const .align 4 .b32 table[4] = {1, 2, 3, 4};\n.extern .shared .align 16 .b8 dynamic[];\n",
        ".extern .shared .align 16 .b8 dynamic[];\n.const .align 4 .b32 table[4] = {1, 2, 3, 4};\n",
    ),
    "constants spelled otherwise": ("%r2, 2;", "%r2, 0x2;", "0f00000000", "0F00000000"),
    "extents left out": (".maxntid 128, 1, 1", ".maxntid 128"),
    "directives in another order": (
        ".maxntid 128, 1, 1\n.minnctapersm 2",
        ".minnctapersm 2\n.maxntid 128, 1, 1",
    ),
    "line information": (
        "    bar.sync 0;",
        "    .loc 1 12 3\n    bar.sync 0;",
        ".const .align 4",
        '.file 1 "a.cu"\n.const .align 4',
    ),
    "scope": ("    bar.sync 0;", "    {\n    bar.sync 0;\n    }"),
    "a prototype of what is defined": (
        ".visible .func (.reg",
        ".visible .func (.reg .b32 %a) twice(.reg .b32 %b);\n.visible .func (.reg",
    ),
    "modifiers in another legal order": ("atom.global.add.u32", "atom.add.global.u32"),
}


def edited(*edits: str) -> str:
    """The kernel with each first string replaced by the second, all at once."""
    text = KERNEL
    for number, old in enumerate(edits[::2]):
        assert old in text
        text = text.replace(old, f"\0{number}\0")
    for number, new in enumerate(edits[1::2]):
        text = text.replace(f"\0{number}\0", new)
    return text


@pytest.mark.parametrize("edits", HARMLESS.values(), ids=HARMLESS)
def test_harmless(edits: tuple[str, ...]) -> None:
    text = edited(*edits)
    assert text != KERNEL
    for found in (diff(KERNEL, text), diff(text, KERNEL)):
        assert found.equal and found.same_code and not found, str(found)


#: What is replaced, by what, and what is reported: kind, message, line of A, line of B.
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "inserted": ("    bar.sync 0;", "    bar.sync 0;\n    membar.cta;", "inserted", "inserted: membar.cta;"),
    "inserted in front": (
        "    ld.param.u64 %rd1",
        "    mov.u32 %r19, %laneid;\n    ld.param.u64 %rd1",
        "inserted",
        "inserted: mov.u32 %r19, %laneid;",
    ),
    "inserted at the end": ("    ret;\n}\n", "    ret;\n}\n", "", ""),
    "inserted twin": ("    add.s32 %r7, %r7, 1;", "    add.s32 %r19, %r18, 1;\n    add.s32 %r7, %r7, 1;", "inserted", "inserted: add.s32 %r19, %r18, 1;"),
    "deleted": ("    bar.sync 0;\n", "", "deleted", "deleted: bar.sync 0;"),
    "deleted behind a label": ("    ld.global.nc.f32 %f2, [%rd5+16];\n", "", "deleted", "deleted: ld.global.nc.f32 %f2, [%rd5+16];"),
    "modifier": ("fma.rn.f32", "fma.rz.f32", "modifier", "modifier .rn -> .rz"),
    "modifier added": ("    add.f32 %f1", "    add.rn.ftz.f32 %f1", "modifier", "modifier none -> .rn.ftz"),
    "modifier dropped": ("ld.global.nc.f32 %f3", "ld.global.f32 %f3", "modifier", "modifier .nc -> none"),
    "type": ("setp.ne.s32", "setp.ne.u32", "modifier", "modifier .s32 -> .u32"),
    "opcode": ("xor.b32", "and.b32", "opcode", "instruction xor.b32 -> and.b32"),
    "use": ("[%rd6], %f1;", "[%rd6], %f4;", "operand", "operand 2: %f1 -> %f4"),
    "definition": ("mov.u32 %r7, 0;", "mov.u32 %r8, 0;", "operand", "operand 1: %r7 -> %r8"),
    "operands exchanged": ("add.s32 %r6, %r4, %r5;", "add.s32 %r6, %r5, %r5;", "operand", "operand 2: %r4 -> %r5"),
    "base of an address": ("st.shared.f32 [%r6]", "st.shared.f32 [%r4]", "operand", "operand 1: %r6 -> %r4"),
    "register to constant": ("mul.wide.u32 %rd4, %r2, 4;", "mul.wide.u32 %rd4, 9, 4;", "operand", "operand %r2 -> 9"),
    "element of a vector": ("{%r12, %r13}, [tile]", "{%r12, %r5}, [tile]", "operand", "operand 1: %r13 -> %r5"),
    "variable": ("[counter], %r14", "[table], %r14", "operand", "operand [counter] -> [table]"),
    "parameter read": ("%rd2, [dst]", "%rd2, [src]", "operand", "operand [dst] -> [src]"),
    "immediate": ("shl.b32 %r5, %r2, 2;", "shl.b32 %r5, %r2, 3;", "immediate", "immediate 2 -> 3"),
    "float": ("0f00000000", "0f80000000", "immediate", "immediate 0f00000000 -> 0f80000000"),
    "offset": ("[%rd5+32]", "[%rd5+48]", "offset", "offset [%rd5+32] -> [%rd5+48]"),
    "offset of a symbol": ("[table+8]", "[table+4]", "offset", "offset [table+8] -> [table+4]"),
    "special register": ("%r3, %ctaid.x", "%r3, %ctaid.y", "special", "special register %ctaid.x -> %ctaid.y"),
    "guard dropped": ("@%p2 bra", "bra", "guard", "guard @%p2 -> none"),
    "guard added": ("    bar.sync 0;", "    @%p1 bar.sync 0;", "guard", "guard none -> @%p1"),
    "guard negated": ("@!%p3 bra", "@%p3 bra", "guard", "guard @!%p3 -> @%p3"),
    "another guard": ("@%p2 bra", "@%p3 bra", "guard", "guard @%p2 -> @%p3"),
    "branch": ("@!%p3 bra $last", "@!%p3 bra $loop", "branch", "branch to $last (before shfl.sync.bfly.b32"),
    "label": ("$last:\n    shfl.sync.bfly.b32 %r11|%p1, %r7, 16, 31, -1;", "    shfl.sync.bfly.b32 %r11|%p1, %r7, 16, 31, -1;\n$last:", "branch", "branch to $last (before shfl"),
    "directive": (".maxntid 128, 1, 1", ".maxntid 256, 1, 1", "directive", "directive .maxntid 128, 1, 1 -> .maxntid 256, 1, 1"),
    "directive dropped": (".minnctapersm 2\n", "", "directive", "directive .minnctapersm 2 -> none"),
    "pragma": ("$loop:", '$loop:\n    .pragma "nounroll";', "inserted", 'inserted: .pragma "nounroll";'),
    "size of shared memory": ("tile[1024]", "tile[2048]", "variable", "tile[1024] -> .shared .align 16 .b8 tile[2048]"),
    "alignment": (".extern .shared .align 16", ".extern .shared .align 128", "variable", ".align 16 .b8 dynamic[] -> "),
    "initial value": ("{1, 2, 3, 4}", "{1, 2, 3, 5}", "variable", "{1, 2, 3, 4} -> "),
    "variable deleted": (".extern .shared .align 16 .b8 dynamic[];\n", "", "variable", "variable deleted: .extern .shared"),
    "type of a parameter": (".param .u32 n", ".param .u64 n", "parameter", "parameter .param .u32 n -> .param .u64 n"),
    "parameter inserted": (".param .u32 n\n", ".param .u32 n,\n    .param .u32 m\n", "parameter", "parameter inserted: .param .u32 m"),
    "parameter inserted in front": (".param .u64 src,", ".param .u32 first,\n    .param .u64 src,", "parameter", "parameter inserted: .param .u32 first"),
    "pointer of a parameter": (".ptr .global .align 16 dst", ".ptr .global .align 32 dst", "parameter", ".align 16 dst -> "),
    "kernel renamed": (".entry work(", ".entry labor(", "renamed", "kernel work is named labor"),
    "linkage": (".visible .func", ".weak .func", "linkage", "linkage visible -> weak"),
    "width of a register": (".reg .b64 %rd<8>;", ".reg .b64 %rd1, %rd2, %rd3, %rd4, %rd5;\n    .reg .b32 %rd6;", "register", "register %rd6 .b64 -> %rd6 .b32"),
    "version": (".version 8.0", ".version 8.3", "header", ".version 8.0 -> 8.3"),
    "target": (".target sm_90", ".target sm_90a", "header", ".target sm_90 -> sm_90a"),
    "function": (".visible .entry work", ".visible .func extra() { ret; }\n.visible .entry work", "function", "device function inserted: extra"),
}  # fmt: skip
del PLANTED["inserted at the end"]


@pytest.mark.parametrize("old, new, kind, message", PLANTED.values(), ids=PLANTED)
def test_planted(old: str, new: str, kind: str, message: str) -> None:
    assert KERNEL.count(old) == 1
    found = diff(KERNEL, KERNEL.replace(old, new))
    assert [d.kind for d in found.differences] == [kind], str(found)
    assert kind in KINDS
    assert message in found.differences[0].message
    assert not found.equal and found.same_code == (kind == "header")


def test_moved_up_and_down() -> None:
    line = "    mov.u32 %r7, 0;\n"
    for before in ("    mov.u32 %r2, %tid.x;\n", "    shfl.sync.bfly"):
        moved = KERNEL.replace(line, "").replace(before, line + before)
        (only,) = diff(KERNEL, moved).differences
        assert (only.kind, only.count, only.message) == ("moved", 1, "moved: mov.u32 %r7, 0;")
        assert only.a is not None and only.b is not None
        assert KERNEL.splitlines()[only.a.line - 1] == line.rstrip() == moved.splitlines()[only.b.line - 1]


def test_a_moved_run_is_one_difference() -> None:
    run = "    mov.u32 %r4, tile;\n    shl.b32 %r5, %r2, 2;\n    add.s32 %r6, %r4, %r5;\n"
    before = "    setp.eq.u32 %p1, %r1, 0;\n"
    (only,) = diff(KERNEL, KERNEL.replace(run, "").replace(before, run + before)).differences
    # Either the three moved down or the five between moved up.
    assert (only.kind, only.count) in (("moved", 3), ("moved", 5))


def test_places_are_lines_of_either_text() -> None:
    other = KERNEL.replace("    bar.sync 0;\n", "    // here\n    bar.sync 0;\n").replace("fma.rn", "fma.rz")
    (only,) = diff(KERNEL, other).differences
    assert only.a is not None and only.b is not None
    assert "fma.rn.f32" in KERNEL.splitlines()[only.a.line - 1]
    assert "fma.rz.f32" in other.splitlines()[only.b.line - 1]
    assert only.function == "work" and str(only).startswith(f"work: line {only.a.line}: modifier")


def test_a_changed_definition_is_one_difference() -> None:
    """The three later uses of %r7 do not differ."""
    text = KERNEL.replace("    add.s32 %r7, %r7, 1;", "    add.s32 %r19, %r7, 1;")
    (only,) = diff(KERNEL, text).differences
    assert only.kind == "operand" and only.message == "operand 1: %r7 -> %r19"


def test_a_second_register_is_said_once() -> None:
    """%p1 has two lives; in B they have a register each."""
    text = KERNEL.replace("%p1, %r1, 0;", "%p0, %r1, 0;").replace("@%p1 bra", "@%p0 bra")
    text = text.replace(".reg .pred %p<4>", ".reg .pred %p<9>")
    found = diff(KERNEL, text)
    assert not found.equal and len(found.differences) <= 2


def test_several_edits_are_several_differences() -> None:
    text = (
        KERNEL.replace("fma.rn", "fma.rz").replace("    bar.sync 0;\n", "").replace("[%rd5+16]", "[%rd5+8]")
    )
    assert diff(KERNEL, text).counts == {"deleted": 1, "modifier": 1, "offset": 1}


def test_functions_correspond_by_content_where_names_differ() -> None:
    text = KERNEL.replace("twice", "_Z5twicei")
    (only,) = diff(KERNEL, text).differences
    assert (only.kind, only.message) == ("renamed", "device function twice is named _Z5twicei")


def test_kernels_of_other_names_are_compared_where_there_is_one() -> None:
    tiny = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry tiny() { bar.sync 0; ret; }\n"
    found = diff(KERNEL, tiny)
    assert [f.b for f in found.functions] == ["tiny"]
    assert {"renamed", "deleted", "parameter", "variable", "function"} <= set(found.counts)


def test_header_may_be_left_out() -> None:
    other = KERNEL.replace(".version 8.0", ".version 8.6").replace("sm_90", "sm_100a")
    assert [d.kind for d in diff(KERNEL, other).differences] == ["header", "header"]
    assert diff(KERNEL, other, header=False).equal
    assert_same_ptx(KERNEL, other, header=False)


def test_types_may_be_left_out() -> None:
    other = edited(
        *("mov.u32 %r7, 0;", "mov.b32 %r7, 0;"),
        *("st.global.f32", "st.global.b32"),
        *("ld.global.nc.f32 %f2", "ld.global.nc.u32 %f2"),
        *("ld.shared.v2.b32", "ld.shared.v2.s32"),
        *("setp.ne.s32", "setp.ne.b32"),
    )
    assert diff(KERNEL, other).counts == {"modifier": 5}
    assert diff(KERNEL, other, types=False).equal
    # It says more than a width: how a load extends, what is computed.
    for old, new in (("setp.lt.u32", "setp.lt.s32"), ("atom.global.add.u32", "atom.global.add.s32")):
        assert not diff(KERNEL, KERNEL.replace(old, new), types=False).equal
    narrow = KERNEL.replace("ld.const.u32 %r9", "ld.const.u16 %r9")
    assert not diff(narrow, narrow.replace("ld.const.u16", "ld.const.s16"), types=False).equal


def test_what_occurs_often_is_told_first() -> None:
    text = KERNEL.replace("ld.param.u64", "ld.param.b64").replace("cvta.to.global.u64", "cvta.to.global.b64")
    shown = str(diff(KERNEL, text)).splitlines()
    assert shown[0] == "4 differences: 4 modifier" and shown[1].split() == [
        "4",
        "times",
        "modifier",
        ".u64",
        "->",
        ".b64",
    ]


def test_the_assertion_shows_the_report() -> None:
    assert_same_ptx(KERNEL, edited("$loop", "$again"))
    with pytest.raises(AssertionError) as caught:
        assert_same_ptx(KERNEL, KERNEL.replace("fma.rn", "fma.rz"))
    shown = str(caught.value)
    assert "1 difference: 1 modifier" in shown and "^ modifier .rn -> .rz" in shown
    assert "~" in shown and "fma.rz.f32 %f1, %f2, %f3, %f1;" in shown


def test_registers_of_a_signature_correspond_by_position() -> None:
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .func (.reg .b32 %out) minus(.reg .b32 %a, .reg .b32 %b) {\n"
        "    sub.s32 %out, %a, %b;\n    ret;\n}\n"
    )
    assert diff(text, text.replace("%b", "%x").replace("%a", "%b").replace("%x", "%a")).equal
    exchanged = text.replace("(.reg .b32 %a, .reg .b32 %b)", "(.reg .b32 %b, .reg .b32 %a)")
    assert not diff(text, exchanged).equal


def test_every_kind_is_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs/diff.md").read_text()
    table = page[page.index("| kind |") : page.index("Functions correspond")]
    assert set(re.findall(r"`([a-z]+)`", table)) >= KINDS.keys()


# --- what can be compared ---------------------------------------------------------------------


@pyptx.kernel(block=32, arch="sm_90a")
def recorded(*, amount: int = 3) -> None:
    x = reg.scalar(b32, init=amount)
    ptx.inst.add.u32(x, x, 1)


def test_sides(tmp_path: Path) -> None:
    text = recorded.ptx()
    path = tmp_path / "recorded.ptx"
    path.write_text(text)
    sides = [text, path, parse_module(text), recorded, recorded.module(), recorded.specialize()]
    sides += [functools.partial(recorded, amount=3), pyptx.sim.load(text)]
    for side in sides:
        assert pyptx.diff(recorded, side).equal
    (only,) = diff(recorded, functools.partial(recorded, amount=4)).differences
    assert only.kind == "immediate"
    assert only.a is not None and only.a.source is not None
    assert Path(only.a.source.file) == Path(__file__) and "init=amount" in only.a.source.text


def test_what_holds_no_ptx_is_refused() -> None:
    with pytest.raises(TypeError, match=r"A is a int: expected PTX text"):
        diff(3, KERNEL)
    with pytest.raises(ParseError):
        diff(KERNEL, "no PTX")


def test_python_lines_are_shown() -> None:
    shown = str(diff(recorded, functools.partial(recorded, amount=4)))
    assert "# " in shown and "x = reg.scalar(b32, init=amount)" in shown
    recorder = next(line for line in shown.splitlines() if line.startswith("A recorded by "))
    assert Path(recorder.removeprefix("A recorded by ")).resolve() == Path(__file__).resolve()


def test_summary_counts() -> None:
    summary = diff(KERNEL, KERNEL.replace("    bar.sync 0;\n", "")).summary
    lines = len(re.findall(r"^    [a-z@].*;$", KERNEL, re.MULTILINE))
    assert (summary.a.instructions, summary.b.instructions) == (lines, lines - 1)
    assert (summary.a.barriers, summary.b.barriers) == (1, 0)
    assert summary.a.categories["data movement"] > 5
    assert sum(summary.a.categories.values()) == lines
    assert summary.machines is None


def test_raw_text_counts() -> None:
    @pyptx.kernel(block=32, arch="sm_90a")
    def raw(*, text: str) -> None:
        ptx.raw(text)

    first = functools.partial(raw, text="membar.gl;")
    assert diff(first, functools.partial(raw, text="  membar.gl; ")).equal
    one, other = (f".reg .b32 %{n}; mov.u32 %{n}, %tid.x;" for n in "xy")
    assert diff(functools.partial(raw, text=one), functools.partial(raw, text=other)).equal
    found = diff(first, functools.partial(raw, text="membar.cta;"))
    assert not found.equal and isinstance(found, Diff)


# --- names ------------------------------------------------------------------------------------


def test_a_bijection_is_one_to_one_and_better_than_greedy() -> None:
    # Heaviest first takes a-x and is left with nothing for b and y.
    votes = {("a", "x"): 3.0, ("a", "y"): 2.5, ("b", "x"): 2.5}
    assert bijection(votes) == {"a": "y", "b": "x"}
    rng = random.Random(0)
    for _ in range(200):
        drawn = {
            (f"a{rng.randrange(5)}", f"b{rng.randrange(5)}"): rng.choice([1.0, 1.5, 2.0, 5.5])
            for _ in range(9)
        }
        found = bijection(drawn)
        assert len(set(found.values())) == len(found)
        assert all(pair in drawn for pair in found.items())
        heaviest = max(
            sum(drawn.get((f"a{i}", f"b{j}"), 0.0) for i, j in enumerate(order))
            for order in itertools.permutations(range(5))
        )
        assert sum(drawn[pair] for pair in found.items()) >= 0.75 * heaviest
