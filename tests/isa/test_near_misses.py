"""Rejected means refused: near misses of every entry, judged by the table and by ptxas.

The two agree but for the rules of :mod:`tests.isa.stricter`; each rule occurs; a fault that is planted in the
table is found; and the limits that ptxas names in its messages are the table's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from pyptx import isa
from pyptx.ir import Instruction, parse_module
from pyptx.isa import Form, all_forms, binding, form, table, target
from pyptx.isa.chapters import split_chapter
from pyptx.isa.index.encoding import encoded, row_of
from pyptx.isa.reader import read_form
from pyptx.toolchain import Tool, check_text
from tests.isa import near_misses
from tests.isa.agreement import Outcome, compare, judged, newest_version, ptxas_says
from tests.isa.near_misses import LEAST, VERSIONS, NearMiss, claimed_targets, legal
from tests.isa.samples import file_of
from tests.isa.stricter import RULES, Rule

FORMS = list(all_forms())
#: Near misses of one kind from one entry.
PER_KIND = 8
#: Entries whose near misses are judged together, because ptxas takes its time to start.
CHUNK = 20

#: Every third chunk's taken near misses are assembled, too.
ASSEMBLED = 3


@pytest.mark.sample(1)
@pytest.mark.one_in(80)
@pytest.mark.parametrize(
    "start", [pytest.param(n, id=f"from {FORMS[n].id}") for n in range(0, len(FORMS), CHUNK)]
)
def test_table_and_ptxas_agree(start: int, ptxas: Tool) -> None:
    outcomes = judged(FORMS[start : start + CHUNK], ptxas, PER_KIND)
    counts = Counter(outcome.miss.form for outcome in outcomes)
    assert [entry.id for entry in FORMS[start : start + CHUNK] if counts[entry.id] < LEAST] == []
    differ = [str(outcome) for outcome in outcomes if not outcome.agrees and outcome.rule is None]
    assert not differ, f"{len(differ)} of {len(outcomes)} near misses: " + "\n".join(differ[:5])
    if start % (ASSEMBLED * CHUNK) == 0:
        check_what_is_taken(outcomes, ptxas)


def check_what_is_taken(outcomes: list[Outcome], ptxas: Tool) -> None:
    """No code is generated for near misses: what is checked without, holds with it."""
    taken = [o for o in outcomes if not o.table and not o.ptxas and o.miss.kind not in ("target", "version")]
    for outcome in taken[:3]:
        text, _ = file_of([outcome.text], outcome.miss.version, outcome.miss.target.name)
        report = check_text(text, outcome.miss.target.name, ptxas=ptxas)
        assert report.ok, f"{outcome.text}: {report.errors}"


def read(line: str) -> Instruction:
    """The instruction of one line of PTX."""
    (function,) = parse_module(file_of([line], (9, 0), "sm_100a")[0]).functions
    return next(function.instructions())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_occurs(rule: Rule, ptxas: Tool) -> None:
    instruction = read(rule.example)
    shown = NearMiss("", "", instruction, rule.version, target("sm_100a"), instruction)
    (outcome,) = compare([shown], ptxas)
    assert outcome.table and not outcome.ptxas
    assert outcome.rule is rule
    assert rule.anchor and rule.reason.endswith(".")


# --- the harness finds what is wrong ------------------------------------------------------------


def _forget() -> None:
    """Empty every cache of what the table says."""
    for module in (table, binding, near_misses):
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
    binding._shapes.clear()


@contextmanager
def planted(identifier: str, right: str, wrong: str) -> Iterator[Form]:
    """The table with one fault in one entry."""
    chapter = table.chapter_of(identifier)
    entry = split_chapter(import_module(f"pyptx.isa.forms.{chapter}").TEXT)[identifier]
    assert entry.text.count(right) == 1
    altered = encoded(read_form(entry.text.replace(right, wrong), entry.heads))
    rows = table._rows(chapter) | {identifier: row_of(altered)}
    known = table._rows
    try:
        with pytest.MonkeyPatch.context() as patch:
            _forget()
            patch.setattr(table, "_rows", lambda given: rows if given == chapter else known(given))
            yield table.form(identifier)
    finally:
        _forget()


#: What is planted: the entry, the right text, the wrong one, the kind of near miss that finds it, who is stricter.
FAULTS = {
    "a version too early": ("szext", "since 7.6", "since 7.5", "version", "ptxas"),
    "a version too late": ("szext", "since 7.6", "since 7.7", "version", "table"),
    "a target too many": ("griddepcontrol", "on sm_90+", "on sm_80+", "target", "ptxas"),
    "a target too few": ("griddepcontrol", "on sm_90+", "on sm_100+", "target", "table"),
    "an illegal member of a set": ("popc", ".b32, .b64", ".b32, .b64, .u32", "type replaced", "ptxas"),
    "a member missing": (
        "sad",
        "c: .type;",
        "c: .type;\n  .type = { .u16, .u32, .u64, .s16, .s64 }",
        "type replaced",
        "table",
    ),
    "a type too loose": ("popc", "=d: u32", "=d: u32|u64", "register type", "ptxas"),
    "a wider register allowed": ("brev", "a: .type", "a: .type+", "register type", "ptxas"),
    "a range too wide": ("pmevent", "0..15", "0..16", "immediate value", "ptxas"),
    "a wrong length": ("mov.pack.b32", "b16 x 2 reg", "b16 x 3 reg", "version", "ptxas"),
    "an operand that may be absent": (
        "bfi",
        ", d: u32 0..255",
        "{, d: u32 0..255}",
        "operand count",
        "ptxas",
    ),
    "a kind of operand too many": ("bfi", "=f: .type", "=f: .type reg sink", "operand kind", "ptxas"),
    "a modifier that may be absent": ("prmt", "prmt.b32{", "prmt{.b32}{", "modifier dropped", "ptxas"),
}


@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("identifier", "right", "wrong", "kind", "stricter"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(
    identifier: str, right: str, wrong: str, kind: str, stricter: str, ptxas: Tool
) -> None:
    def unexplained(entry: Form) -> list[Outcome]:
        misses = near_misses.near_misses(entry, newest_version(ptxas), 400)
        outcomes = compare([miss for miss in misses if miss.kind == kind], ptxas)
        return [outcome for outcome in outcomes if not outcome.agrees and outcome.rule is None]

    assert not unexplained(form(identifier))
    with planted(identifier, right, wrong) as faulty:
        found = unexplained(faulty)
    assert found
    assert all(bool(o.ptxas if stricter == "ptxas" else o.table) for o in found)


def test_a_member_that_is_never_legal_is_found() -> None:
    fault = planted("fma.half", ".oob excludes .ftz", ".oob excludes .type")
    with fault as faulty, pytest.raises(AssertionError, match="never legal"):
        legal(faulty)


# --- what ptxas's own messages say --------------------------------------------------------------

_VERSION = re.compile(r"requires PTX ISA \.version (\d+)\.(\d+) or later")
_TARGET = re.compile(r"requires \.target sm_(\d+)[af]? or higher")


@pytest.mark.full
def test_limits_are_those_of_ptxas_messages(ptxas: Tool) -> None:
    newest = newest_version(ptxas)
    asked = []
    for entry in FORMS:
        for given in legal(entry):
            first = min(claimed_targets(given.binding), key=lambda t: t.since)
            if first.since < given.binding.since:
                asked.append((given, (str(given.instruction), first.since, first.name)))
            asked.append((given, (str(given.instruction), newest, "sm_75")))
    named = set()
    wrong = []
    for (given, line), said in zip(asked, ptxas_says([line for _, line in asked], ptxas), strict=True):
        text = "; ".join(said)
        if line[1] != newest and (versions := _VERSION.findall(text)):
            named.add((given.binding.form_id, "since"))
            if max((int(a), int(b)) for a, b in versions) != given.binding.since:
                wrong.append(f"[{given.binding.form_id}] {line}: since {given.binding.since}; {text}")
        if line[1] == newest and (numbers := _TARGET.findall(text)):
            named.add((given.binding.form_id, "on"))
            lowest = min(t.number for t in claimed_targets(given.binding))
            # Where a feature is of some architectures alone, ptxas names the others' lowest target only.
            partial = "not supported" in text or "for arch" in text
            if max(map(int, numbers)) > lowest or (max(map(int, numbers)) < lowest and not partial):
                wrong.append(f"[{given.binding.form_id}] {line[0]}: on {given.binding.on}; {text}")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:10])
    # ptxas names a limit for most entries that have one; the others are found by trying.
    assert len(named) > len(FORMS) / 3


# --- how ptxas is asked -------------------------------------------------------------------------


@pytest.mark.full
def test_verdicts_do_not_depend_on_neighbors(ptxas: Tool) -> None:
    outcomes = judged(FORMS[:1], ptxas, PER_KIND)[::2]
    lines = [(o.text, o.miss.version, o.miss.target.name) for o in outcomes]
    alone = [bool(ptxas_says([line], ptxas)[0]) for line in lines]
    assert alone == [bool(outcome.ptxas) for outcome in outcomes]
    assert any(alone) and not all(alone)


def test_every_version_is_known(ptxas: Tool) -> None:
    assert newest_version(ptxas) in VERSIONS
    assert all(target(name).since in VERSIONS for name in isa.KNOWN_TARGETS)
