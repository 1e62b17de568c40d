"""The tcgen05 suite: every probe is right under every schedule, and what probes are for shows when it is left out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.ir import Immediate, Instruction, Sink
from pyptx.toolchain import Tool

from .loading import EXAMPLES, load_example

pytestmark = pytest.mark.one_in(2)

suite = load_example("blackwell/tcgen05_suite.py")
LESSON = suite.LESSON
SCHEDULES = [*suite.ALL_SCHEDULES, *(f"starve:{engine}" for engine in ("tma", "mma", "ld", "st", "cp"))]


@cache
def cases(name: str) -> list[Any]:
    return list(LESSON[name].cases())


# --- every probe ----------------------------------------------------------------------------------


def check(name: str, schedule: str) -> None:
    for case in cases(name):
        verdict, error, report = suite.simulated(case, schedule)
        assert verdict == "clean" and error <= 1, f"{case.label}: error {error}\n{report}"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", LESSON)
def test_right(name: str) -> None:
    """Under a seed of its own: ``test_programs`` runs the suite as a program under eager, late and seed 1."""
    check(name, "random#2")


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LESSON)
def test_right_under_every_schedule(name: str, schedule: str) -> None:
    check(name, schedule)


def test_a_probe_is_a_primitive_with_an_explanation() -> None:
    assert len(LESSON) == len(suite.PROBES) >= 20
    for name, probe in LESSON.items():
        assert name == name.lower() and len(probe.shows) <= 100 and probe.shows.endswith("."), name
        assert len(probe.text) > 60, name


def test_the_page_lists_the_lesson() -> None:
    page = (EXAMPLES.parent / "docs" / "tcgen05_suite.md").read_text()
    rows = re.findall(r"^\| `([a-z][a-z0-9-]*)` \| (.*) \|$", page.replace("\\", ""), re.MULTILINE)
    assert rows == [(name, probe.shows) for name, probe in LESSON.items()]


#: What the family has, by theme: words of instructions, each of which some probe must record.
PRIMITIVES = {
    "allocation": "alloc dealloc relinquish_alloc_permit",
    "registers": "ld st wait::ld wait::st 32x32b 16x64b 16x128b 16x256b 16x32bx2 pack::16b unpack::16b red",
    "copies": "cp 128x256b 128x128b 4x256b 64x128b 32x128b warpx2::02_13 warpx2::01_23 warpx4 b4x16_p64 b6x16_p32",
    "order": "commit fence::before_thread_sync fence::after_thread_sync multicast::cluster shared::cluster",
    "kinds": "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4",
    "products": "mma ws sp shift ashift collector::a::fill collector::b1::lastuse cta_group::1 cta_group::2",
}


@pytest.mark.full
def test_the_whole_family_is_there() -> None:
    wanted = {word for words in PRIMITIVES.values() for word in words.split()}
    words = {
        word
        for name in LESSON
        for case in cases(name)
        for statement in case.kernel.module().functions[0].body
        if isinstance(statement, Instruction) and statement.opcode == "tcgen05"
        for word in statement.modifiers
    }
    assert wanted <= words, wanted - words


@pytest.mark.full
@pytest.mark.parametrize("name", ["mma-f16", "mma-f16-d16", "mma-f8f6f4", "mma-i8", "ld-red", "pair-mma-256"])
def test_tensors_of_torch(name: str) -> None:
    """What a launch on a GPU does with arrays; in host memory the same call ends in the simulator."""
    torch = pytest.importorskip("torch")
    for case in cases(name):
        assert suite.launched(torch, case, "cpu") <= 1


# --- the program ----------------------------------------------------------------------------------


Program = Callable[..., str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs the program with arguments: what it printed."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tcgen05_suite.py", *arguments])
        suite.main()
        return capsys.readouterr().out

    return run


def test_list(said: Program) -> None:
    listed = said("--list", "mma-f16", "alloc")
    assert listed.startswith("mma-f16 (kinds)\n    kind::f16: products")
    assert "\n\nalloc (memory)\n" in listed


def test_emit_prints_ptx(said: Program) -> None:
    emitted = said("--emit", "shift")
    assert emitted.startswith(".version") and "tcgen05.shift.cta_group::1.down" in emitted


def test_json(said: Program, ptxas: Tool) -> None:
    (record,) = json.loads(said("--json", "--schedule", "late", "--schedule", "eager", "cp-several"))
    assert record["name"] == "cp-several" and record["right"] is True
    (case,) = record["cases"]
    assert case["spilled_bytes"] == 0 and case["warnings"] == [] and case["registers"] > 0
    assert case["schedules"] == {s: {"verdict": "clean", "error": 0.0} for s in ("late", "eager")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "no probe 'nonsense'"),
        (("shift", "--schedule", "sometimes"), "no schedule 'sometimes'"),
    ],
)
def test_what_does_not_exist(
    said: Program, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        said(*arguments)
    assert ended.value.code == 2 and words in capsys.readouterr().err


def test_what_is_wrong_ends_with_status_1(
    said: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ptxas: Tool
) -> None:
    """One cell is expected to be another."""
    (case,) = LESSON["cp-several"].cases()
    case.expected = case.expected.copy()
    case.expected[77, 3] += 1
    monkeypatch.setitem(LESSON, "cp-several", replace(LESSON["cp-several"], cases=lambda: iter([case])))
    with pytest.raises(SystemExit) as ended:
        said("cp-several", "shift")
    assert ended.value.code == "wrong: cp-several"  # a message, and status 1
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("cp-several", "shift"))]
    assert ["WRONG" in row for row in rows] == [True, False]


@pytest.mark.parametrize(("wrong", "error"), [(0.0, 0.0), (0.5, 0.5), (2.0, 2.0), (np.nan, np.inf)])
def test_an_error_is_measured_against_its_bound(wrong: float, error: float) -> None:
    case = next(LESSON["mma-f16"].cases())
    output = case.expected.copy()
    output[3, 4] += wrong * case.bound[3, 4]
    assert case.error(output) == pytest.approx(error, rel=1e-6)
    case.bound = 0.0
    assert case.error(output) == (np.inf if wrong else 0)


# --- broken twins: what a probe is about, left out -------------------------------------------------

Edit = Callable[[Instruction], list[Instruction]]


def dropped(*words: str, keep: int = 0) -> Edit:
    """Leaves out instructions with these words, but the first ``keep``."""
    seen = 0

    def edit(instruction: Instruction) -> list[Instruction]:
        nonlocal seen
        if not set(words) <= {instruction.opcode, *instruction.modifiers}:
            return [instruction]
        seen += 1
        return [instruction] if seen <= keep else []

    return edit


def arriving(number: int = 0) -> Edit:
    """An ordinary arrival in place of commit ``number``: it tells that work was issued, not that it is done."""
    seen = -1

    def edit(instruction: Instruction) -> list[Instruction]:
        nonlocal seen
        if "commit" not in instruction.modifiers:
            return [instruction]
        seen += 1
        if seen != number:
            return [instruction]
        return [Instruction("mbarrier", ("arrive", "shared::cta", "b64"), (Sink(), instruction.operands[0]))]

    return edit


def unicast() -> Edit:
    """Commits without their multicast mask: only the issuing CTA is told."""

    def edit(instruction: Instruction) -> list[Instruction]:
        if "multicast::cluster" not in instruction.modifiers:
            return [instruction]
        modifiers = tuple(word for word in instruction.modifiers if word != "multicast::cluster")
        return [replace(instruction, modifiers=modifiers, operands=instruction.operands[:1])]

    return edit


def renumbered(opcode: str, old: int, new: int) -> Edit:
    """Another number in instructions of this opcode."""

    def edit(instruction: Instruction) -> list[Instruction]:
        if instruction.opcode != opcode:
            return [instruction]
        operands = (
            Immediate(new) if isinstance(o, Immediate) and o.value == old else o for o in instruction.operands
        )
        return [replace(instruction, operands=tuple(operands))]

    return edit


def outcome(name: str, edit: Edit, schedule: str) -> tuple[set[str], bool]:
    """Rules that the run of an edited kernel breaks, and whether its output is right."""
    case = next(LESSON[name].cases())
    special = case.kernel.specialize()
    function = special.module.functions[0]
    body: list[Any] = []
    for statement in function.body:
        body += edit(statement) if isinstance(statement, Instruction) else [statement]
    assert tuple(body) != function.body, "nothing was edited"
    special.loaded["sim"] = sim.load(
        replace(special.module, functions=(replace(function, body=tuple(body)),))
    )
    _, error, report = suite.simulated(case, schedule)
    return {finding.rule.name for finding in report.findings}, error <= 1


RACES = ({"data-race"}, True)
RACES_WRONG = ({"data-race"}, False)
WRONG: tuple[set[str], bool] = (set(), False)
TOO_LATE = ({"uninitialized-read", "tensor-memory"}, False)
UNWRITTEN = ({"uninitialized-read"}, False)
UNSEEN = ({"exit-in-flight"}, True)
DEADLOCK = ({"deadlock"}, False)
#: Where K-major descriptors of 64-byte rows without an address differ from those of 128-byte rows.
WIDE, NARROW = 0x4000404000010000, 0x8000402000010000

#: What is done to a probe, and what comes of it under eager and under late.
TWINS: dict[str, tuple[str, Callable[[], Edit], tuple[set[str], bool], tuple[set[str], bool]]] = {
    "loads not waited for": ("wait-ld", lambda: dropped("wait::ld"), RACES, RACES_WRONG),
    "stores not waited for": ("alloc-again", lambda: dropped("wait::st"), RACES, TOO_LATE),
    "an accumulator not waited for": ("fence-st-to-mma", lambda: dropped("wait::st"), RACES, TOO_LATE),
    "metadata not waited for": ("sp-mma", lambda: dropped("wait::st"), RACES, TOO_LATE),
    "an A not waited for": ("mma-a-in-tensor-memory", lambda: dropped("wait::st"), RACES, TOO_LATE),
    "no fence before": ("fence-two-issuers", lambda: dropped("fence::before_thread_sync", keep=1), RACES, UNWRITTEN),
    "no fence after": ("fence-two-issuers", lambda: dropped("fence::after_thread_sync", keep=1), RACES, UNWRITTEN),
    "a stage handed back too early": ("commit-frees-a-stage", arriving, RACES, RACES_WRONG),
    "a copy reported too early": ("cp-several", arriving, UNSEEN, UNWRITTEN),
    "nobody commits": ("commit-covers-all", lambda: dropped("commit"), DEADLOCK, DEADLOCK),
    "scales not copied": ("mma-mxf8f6f4", lambda: dropped("cp", "32x128b", keep=1), UNWRITTEN, UNWRITTEN),
    "the wrong swizzle": ("mma-f16", lambda: renumbered("or", WIDE, NARROW), WRONG, WRONG),
    "columns never freed": ("alloc", lambda: dropped("dealloc", keep=4), ({"tensor-memory"}, True), ({"tensor-memory"}, True)),
    "another warp's lanes": ("lane-quarters", lambda: renumbered("and", 3, 1), ({"tensor-memory"}, False), ({"tensor-memory"}, False)),
    "only one CTA is told": ("pair-frees-a-stage", unicast, DEADLOCK, DEADLOCK),
    "bytes counted by the wrong CTA": ("pair-mma-256", lambda: renumbered("and", 0xFEFFFFFF, 0xFFFFFFFF), DEADLOCK, DEADLOCK),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_shows(twin: str, schedule: str) -> None:
    name, edit, *expected = TWINS[twin]
    rules, right = expected[schedule == "late"]
    found, output_right = outcome(name, edit(), schedule)
    assert rules <= found and bool(rules) == bool(found)
    assert output_right == right
