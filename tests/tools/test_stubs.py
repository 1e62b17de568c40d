"""The types of ``ptx.inst``: they accept the table's spellings and no others, for mypy and for an editor."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import jedi
import pytest

from pyptx import transpile
from pyptx.dsl import ptx
from pyptx.dsl.inst import attribute_name
from pyptx.isa import all_forms, form, forms_of, match_modifiers, opcodes, variants
from pyptx.tools.describe import call_text, survey
from pyptx.tools.generate import COMMAND, ROOT
from pyptx.tools.stubs import Automaton, Calls, automaton, signatures_of, stubs


def after(found: Automaton, words: tuple[str, ...]) -> int:
    """The state that ``words`` lead to. Raises KeyError."""
    number = len(found.states) - 1
    for word in words:
        number = dict(found.states[number][1])[word]
    return number


def spellings(found: Automaton) -> int:
    """How many spellings the automaton has: paths from the first state to those that end one."""
    counts: list[int] = []
    for ends, edges in found.states:
        # A state is built after those that follow it.
        counts.append(bool(ends) + sum(counts[following] for _, following in edges))
    return counts[-1]


# --- the automaton ------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", ["add", "bar", "cp", "mbarrier", "mov", "setp", "tcgen05"])
def test_it_has_the_spellings_of_the_table_and_no_others(opcode: str) -> None:
    found = automaton(opcode)
    known = {match.spelling for entry in forms_of(opcode) for match in variants(entry)}
    assert all(found.states[after(found, spelling)][0] for spelling in known)
    assert spellings(found) == len(known)


@pytest.mark.full
def test_it_is_small() -> None:
    states = sum(len(automaton(opcode).states) for opcode in opcodes())
    assert states < 0.2 * sum(survey(entry).count for entry in all_forms())
    assert sum(map(len, stubs().values())) < 3_000_000


def test_modifiers_that_may_follow_are_those_of_the_running_kernel() -> None:
    found = automaton("mbarrier")
    for words in ((), ("try_wait",), ("try_wait", "parity"), ("try_wait", "parity", "acquire"), ("arrive",)):
        node = ptx.inst["mbarrier" + "".join(f".{word}" for word in words)]
        following = {attribute_name(word) for word, _ in found.states[after(found, words)][1]}
        assert following == set(dir(node))


@pytest.mark.full
def test_calls_know_their_operands() -> None:
    found = automaton("mbarrier")
    (call,) = found.states[after(found, ("arrive", "b64"))][0]
    assert [str(parameter) for parameter in call.parameters] == [
        "state: Out",
        "addr: Address",
        "count: Reg | Int",
    ]
    assert call.required == 2
    (docs,) = call.docs
    assert docs.endswith("(state: u64, [addr], count: u32)")

    (load,) = automaton("ld").states[after(automaton("ld"), ("global", "v4", "f32"))][0]
    assert str(load.parameters[0]) == "d: RegArray | Sequence[Reg]" and "d: f32 x 4" in load.docs[0]

    (elect,) = automaton("elect").states[after(automaton("elect"), ("sync",))][0]
    assert str(elect.parameters[0]) == "d: PairOf"


@pytest.mark.parametrize(
    "form_id", ["atom", "cp.async.bulk.tensor.load", "cvta", "mbarrier.arrive", "setp.half", "tex"]
)
def test_variants_share_calls_only_where_they_are_the_same(form_id: str) -> None:
    calls = Calls()
    for match in variants(form(form_id)):
        assert calls.of(match) == tuple(signatures_of(match))


def test_operands_that_may_be_left_out_in_the_middle_are_overloads() -> None:
    found = automaton("tcgen05")
    calls = found.states[after(found, ("mma", "cta_group::1", "kind::f16"))][0]
    names = [[parameter.name for parameter in call.parameters] for call in calls]
    assert ["d_tmem", "a_desc", "b_desc", "idesc", "enable_input_d", "scale_input_d"] in names
    assert any("disable_output_lane" in one for one in names)
    # .kind::f8f6f4 excludes scale-input-d.
    calls = found.states[after(found, ("mma", "cta_group::1", "kind::f8f6f4"))][0]
    assert all("scale_input_d" not in [p.name for p in call.parameters] for call in calls)


@pytest.mark.full
def test_forms_that_share_a_spelling_share_a_call() -> None:
    found = automaton("mov")
    calls = found.states[after(found, ("b64",))][0]
    assert len(match_modifiers("mov", ("b64",))) > len(calls) > 1
    for one in calls:
        assert not any(other.covers(one) for other in calls if other is not one)


def test_an_operand_that_python_cannot_write_yet_is_free() -> None:
    calls = automaton("call").states[-1][0]
    assert len(calls) == 3
    for call in calls:
        lists = [one for one in call.parameters if one.name in ("results", "params")]
        assert lists and all(one.free and ": Any" in str(one) for one in lists)
    # What Python can write has a type, where the call's other operands tell it from a list.
    assert "func: Indexed | Sym" in [str(one) for call in calls for one in call.parameters]


@pytest.mark.full
def test_the_files_are_python_without_dangling_names() -> None:
    pages = stubs()
    for name, text in pages.items():
        compile(text, name, "exec")
        defined = set(re.findall(r"^(?:class )?(\w+)(?:\(|:)", text, re.MULTILINE))
        imported = {word for words in re.findall(r"import (.*)", text) for word in words.split(", ")}
        used = set(re.findall(r"^    \w+: (\w+)$", text, re.MULTILINE))
        assert used <= defined | imported, name
    assert {name.removesuffix(".pyi") for name in pages} == {
        "__init__",
        "_base",
        *map(attribute_name, opcodes()),
    }


# --- mypy ---------------------------------------------------------------------------------------

_HEAD = """\
from pyptx import f32, pred, ptx, reg, smem, u32, u64
x, y, p, q = reg.scalar(u32), reg.scalar(f32), reg.scalar(u64), reg.scalar(pred)
buffer = smem.alloc(64)
"""
_GOOD = """\
ptx.inst.ld.global_.f32(y, ptx.addr(p))
ptx.inst.ld.global_.v4.f32([y, y, y, y], ptx.addr(p), pred=~q)
ptx.inst["ld.global.f32"](y, ptx.addr(p))
ptx.inst.st["global.v4"].b32(ptx.addr(p, 16), [x, x, 1, x])
ptx.inst.st.shared.v2.u32(buffer, reg.array(u32, 2))
ptx.inst.and_.b32(x, x, 1)
ptx.inst.mov.u32(x, ptx.special.tid.x)
ptx.inst.add.rn.f32(y, y, 1)
ptx.inst.add.rn.f32(y, y, 1.5)
ptx.inst.mbarrier.arrive.shared.b64(None, buffer)
ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(q, buffer, 0)
ptx.inst.elect.sync(ptx.pair(None, q), -1)
ptx.inst.selp.u32(x, 1, 2, ~q)
ptx.inst.tcgen05.ld.sync.aligned._32x32b.x1.b32([x], ptx.addr(x))
ptx.inst.tcgen05.wait__ld.sync.aligned()
ptx.inst.bra("again", pred=q)
ptx.inst.bra.uni(ptx.new_label())
table = ptx.symbol("table")
ptx.inst.mov.u32(x, table)
ptx.inst.mov.u32(x, table[3])
ptx.inst.mov.b32(x, 1.5)
ptx.inst.mov.f32(y, ptx.pattern(0x7FC00001, f32))
ptx.inst.st.global_.v2.b32(ptx.addr(table), [x, 1.5])
ptx.inst.add.u32(x, ~x, 1)
ptx.fence.acq_rel("gpu")
ptx.load(f32, p, sem="acquire", scope="gpu")
ptx.inst.vadd.u32.u32.u32(x, ptx.part(x, "b0"), ptx.part(x, "h1"))
"""
#: What is wrong -> a part of mypy's message.
_BAD = {
    "ptx.inst.addd": '"Instructions" has no attribute "addd"',
    "ptx.inst.ld.global_.f33(y, ptx.addr(p))": '"Ld_global" has no attribute "f33"',
    "ptx.inst.ld.global_.v4.v4": 'has no attribute "v4"',
    "ptx.inst.ld.shared.L2__cache_hint": 'has no attribute "L2__cache_hint"',
    "ptx.inst.ld.global_(y, ptx.addr(p))": '"Ld_global" not callable',
    "ptx.inst.ld.global_.f32(y)": "Too few arguments",
    "ptx.inst.ld.global_.f32(y, p)": "incompatible type",
    "ptx.inst.ld.global_.v4.f32(y, ptx.addr(p))": "incompatible type",
    "ptx.inst.add.u32(x, x, 1.5)": "incompatible type",
    "ptx.inst.add.u32(x, x, ptx.symbol('s'))": "incompatible type",
    "ptx.inst.mov.b16(x, 1.5)": "No overload variant of",
    "ptx.inst.add.u32(1, x, x)": "incompatible type",
    "ptx.inst.add.u32(x, x, x, x)": "Too many positional arguments",
    "ptx.inst.add.u32(x, x, x, pred=1)": "incompatible type",
    "ptx.fence.acq_rel('block')": "incompatible type \"Literal['block']\"; expected \"Literal['cta', 'cluster'",
    "ptx.load(f32, p, sem='release', scope='gpu')": "No overload variant of",
    "ptx.mbarrier.try_wait(p, 0, sem='release', scope='cta')": "incompatible type",
}


_TRANSPILED = """\
.version 8.7
.target sm_90a
.address_size 64
.func (.param .b32 r) twice(.param .b32 x);
.global .align 4 .u32 table[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 64 .b8 map[128]) {
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .shared .align 8 .b8 place[64];
    ld.param.u64 %rd1, [p]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
    mov.u64 %rd3, table; ld.global.u32 %r1, [%rd3+4]; mov.u32 %r2, place; mov.b32 %r3, 0f3F800000;
    not.b32 %r4, %r1; add.s32 %r5, %r4, %r3; setp.ne.s32 %p1, %r5, 0;
    { .param .b32 x; st.param.b32 [x], %r5; .param .b32 y; call.uni (y), twice, (x); ld.param.b32 %r6, [y]; }
    @!%p1 bra end;
    st.global.u32 [%rd1], %r6;
end:
    ret;
}
.func (.param .b32 r) twice(.param .b32 x) {
    .reg .b32 %r<3>; ld.param.b32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [r], %r2; ret;
}
"""


Mypy: TypeAlias = Callable[..., dict[int, str]]


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> Mypy:
    """What mypy says of a program, by line. It reads pyptx once for all of them."""
    folder = tmp_path_factory.mktemp("mypy")

    def said(code: str, *options: str) -> dict[int, str]:
        (folder / "user.py").write_text(code)
        command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", *options]
        command += ["--cache-dir", str(folder / "cache"), "user.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_environment())
        found = re.findall(r"^user\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
        assert done.returncode == (1 if found else 0), done.stdout + done.stderr
        return {int(line): message for line, message in found}

    return said


def _environment() -> dict[str, str]:
    return {"MYPYPATH": str(ROOT), "PATH": ""}


@pytest.mark.full
def test_mypy_accepts_what_is_legal_and_nothing_else(mypy: Mypy) -> None:
    legal = [
        f"{call_text(match).partition('(')[0]}.__call__"
        for entry in all_forms()
        if (match := survey(entry).shortest) is not None and call_text(match)
    ]
    code = _HEAD + _GOOD + "\n".join(legal) + "\n"
    first = len(code.splitlines()) + 1
    said = mypy(code + "\n".join(_BAD) + "\n")
    for line, (statement, expected) in enumerate(_BAD.items(), first):
        assert expected in said.pop(line, ""), statement
    assert not said, f"if the types are stale, run: {COMMAND}"


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize(
    "source", [_TRANSPILED, ROOT / "docs/assets/transpile/reduce.ptx"], ids=["text", "reduce"]
)
def test_mypy_accepts_what_transpile_writes(source: str | Path, mypy: Mypy) -> None:
    text = transpile(source)
    wrong = "    ptx.inst.addd.u32(0, 0, 0)\n"
    before, end, after = text.rpartition("    ptx.ret()\n")
    (line, message), *more = mypy(before + wrong + end + after, "--strict").items()
    assert line == before.count("\n") + 1 and '"Instructions" has no attribute "addd"' in message
    assert not more


#: A kernel function with two illegal calls; {} are its annotations.
_KERNEL = """\
from pyptx import Tile, TileParam, f32, kernel, ptx, reg
@kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(32, f32)], block=32)
def k({a}, {out}){result}:
    x = reg.scalar(f32)
    ptx.inst.ld.global_.f33(x, ptx.addr(a.ptr))
    ptx.inst.st.global_.f32(ptx.addr(out.pointer), x)
"""


@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("annotations", "options", "lines"),
    [
        ({"a": "a", "out": "out", "result": ""}, (), []),
        ({"a": "a", "out": "out", "result": ""}, ("--check-untyped-defs",), [5]),
        ({"a": "a", "out": "out", "result": " -> None"}, (), [5]),
        ({"a": "a: TileParam", "out": "out: TileParam", "result": " -> None"}, (), [5, 6]),
    ],
    ids=["nothing", "check-untyped-defs", "result", "parameters"],
)
def test_mypy_reads_kernels_that_are_annotated(
    annotations: dict[str, str], options: tuple[str, ...], lines: list[int], mypy: Mypy
) -> None:
    """docs/units/kernels.md says what catches what."""
    assert list(mypy(_KERNEL.format(**annotations), *options)) == lines


# --- completion in an editor --------------------------------------------------------------------


def complete(expression: str) -> set[str]:
    script = jedi.Script(f"from pyptx import ptx\n{expression}.", project=jedi.Project(ROOT))
    return {found.name for found in script.complete() if not found.name.startswith("__")}


@pytest.mark.full
def test_an_editor_completes_modifiers_in_their_order() -> None:
    assert complete("ptx.inst") >= {attribute_name(opcode) for opcode in opcodes()}
    assert complete("ptx.inst.mbarrier.try_wait.parity.acquire") == {"cta", "cluster"}
    assert {"_1d", "_2d"} <= complete("ptx.inst.cp.async_.bulk.tensor")
    assert {"f32", "b64"} <= complete("ptx.inst.ld.global_.v4") and "global_" not in complete(
        "ptx.inst.ld.v4"
    )


@pytest.mark.full
def test_an_editor_shows_operands() -> None:
    code = "from pyptx import ptx\nptx.inst.mbarrier.arrive.b64("
    (signature,) = jedi.Script(code, project=jedi.Project(ROOT)).get_signatures()
    assert [parameter.name for parameter in signature.params] == ["state", "addr", "count", "pred"]
