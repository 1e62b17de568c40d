"""The types of ``ptx.inst``: they accept the table's spellings and no others, for mypy and for an editor."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

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


def test_forms_that_share_a_spelling_share_a_call() -> None:
    found = automaton("mov")
    calls = found.states[after(found, ("b64",))][0]
    assert len(match_modifiers("mov", ("b64",))) > len(calls) > 1
    for one in calls:
        assert not any(other.covers(one) for other in calls if other is not one)


def test_an_operand_that_python_cannot_write_yet_is_free() -> None:
    calls = automaton("call").states[-1][0]
    assert all(any(parameter.free for parameter in call.parameters) for call in calls)
    assert all("Any" in str(call.parameters[0]) for call in calls)


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
    "ptx.inst.add.u32(1, x, x)": "incompatible type",
    "ptx.inst.add.u32(x, x, x, x)": "Too many positional arguments",
    "ptx.inst.add.u32(x, x, x, pred=1)": "incompatible type",
}


def mypy(code: str, folder: Path) -> dict[int, str]:
    """What mypy says of ``code``, by line."""
    (folder / "user.py").write_text(code)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--cache-dir",
        str(folder / "cache"),
        "user.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_environment())
    found = re.findall(r"^user\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert done.returncode == (1 if found else 0), done.stdout + done.stderr
    return {int(line): message for line, message in found}


def _environment() -> dict[str, str]:
    return {"MYPYPATH": str(ROOT), "PATH": ""}


def test_mypy_accepts_what_is_legal_and_nothing_else(tmp_path: Path) -> None:
    legal = [
        f"{call_text(match).partition('(')[0]}.__call__"
        for entry in all_forms()
        if (match := survey(entry).shortest) is not None and call_text(match)
    ]
    code = _HEAD + _GOOD + "\n".join(legal) + "\n"
    first = len(code.splitlines()) + 1
    said = mypy(code + "\n".join(_BAD) + "\n", tmp_path)
    for line, (statement, expected) in enumerate(_BAD.items(), first):
        assert expected in said.pop(line, ""), statement
    assert not said, f"if the types are stale, run: {COMMAND}"


# --- completion in an editor --------------------------------------------------------------------


def complete(expression: str) -> set[str]:
    script = jedi.Script(f"from pyptx import ptx\n{expression}.", project=jedi.Project(ROOT))
    return {found.name for found in script.complete() if not found.name.startswith("__")}


def test_an_editor_completes_modifiers_in_their_order() -> None:
    assert complete("ptx.inst") >= {attribute_name(opcode) for opcode in opcodes()}
    assert complete("ptx.inst.mbarrier.try_wait.parity.acquire") == {"cta", "cluster"}
    assert {"_1d", "_2d"} <= complete("ptx.inst.cp.async_.bulk.tensor")
    assert {"f32", "b64"} <= complete("ptx.inst.ld.global_.v4") and "global_" not in complete(
        "ptx.inst.ld.v4"
    )


def test_an_editor_shows_operands() -> None:
    code = "from pyptx import ptx\nptx.inst.mbarrier.arrive.b64("
    (signature,) = jedi.Script(code, project=jedi.Project(ROOT)).get_signatures()
    assert [parameter.name for parameter in signature.params] == ["state", "addr", "count", "pred"]
