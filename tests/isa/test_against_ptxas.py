"""The table and ptxas: what the table accepts assembles, and a form's first version is the first that does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from pyptx import isa
from pyptx.isa import Form, Target, TargetSet, all_forms, target
from pyptx.isa.targets import KNOWN_TARGETS, VERSIONS, Version
from pyptx.toolchain import Tool, check_text
from tests.isa.near_misses import targets_in_all
from tests.isa.samples import THOROUGH, file_of, instructions, texture_mode

pytestmark = pytest.mark.full

FORMS = list(all_forms())
#: Forms that are assembled together, because ptxas takes its time to start.
CHUNK = 12
CHUNKS = [FORMS[start : start + CHUNK] for start in range(0, len(FORMS), CHUNK)]
IDS = [f"from {chunk[0].id}" for chunk in CHUNKS]
#: Instructions of a form that are assembled for two targets in two versions each; those after them for one target
#: in one version, in turn.  A load has up to 30,000.
_EVERYWHERE = 200


def _targets(binding: isa.Binding, newest: Version) -> tuple[Target, ...]:
    """Return the lowest and the highest target that the instruction claims, among those of the newest version."""
    return _lowest_and_highest(binding.on, newest)


@cache
def _lowest_and_highest(sets: tuple[TargetSet, ...], newest: Version) -> tuple[Target, ...]:
    members = [t for t in targets_in_all(sets) if t.since <= newest]
    return tuple(dict.fromkeys([members[0], members[-1]])) if members else ()


@cache
def _settings(since: Version, targets: tuple[Target, ...], newest: Version) -> list[_Setting]:
    """Return the targets, each with the oldest and the newest version that has it and the instruction."""
    both = ((version, arch) for arch in targets for version in (max(since, arch.since), newest))
    return list(dict.fromkeys(both))


_Setting = tuple[Version, Target]


class _Batches:
    """Instructions by what a file must have in common: version, target, tcgen05's one cta_group, texture mode."""

    def __init__(self) -> None:
        self.lines: dict[tuple[Version, str, str, str], list[str]] = {}

    def add(self, binding: isa.Binding, instruction: object, version: Version, arch: Target) -> None:
        line = str(instruction)
        key = (version, arch.name, binding.chosen.get("cta_group", ""), texture_mode(line))
        self.lines.setdefault(key, []).append(line)

    def refused(self, ptxas: Tool) -> Iterator[tuple[str, list[str], dict[int, str]]]:
        """Per file: what it is, its lines, and what ptxas said of which of them."""
        for (version, arch, *_), lines in self.lines.items():
            text, first = file_of(lines, version, arch)
            report = check_text(text, arch, ptxas=ptxas)
            errors = {m.line - first: m.text for m in report.errors if m.line is not None}
            whole_file = [m.text for m in report.errors if m.line is None and "due to errors" not in m.text]
            assert not whole_file, (arch, version, whole_file, lines[:3])
            yield f"{arch}, PTX {version[0]}.{version[1]}", lines, errors


#: Form -> text of instructions that ptxas takes one version earlier than the table; see its STRICTER note.
STRICTER = {"mbarrier.arrive": " _, ", "mbarrier.arrive_drop": " _, "}


def _stricter(line: str) -> bool:
    return any(line.startswith(form) and text in line for form, text in STRICTER.items())


@cache
def _version_before(version: Version) -> Version | None:
    before = [v for v in VERSIONS if v < version]
    return before[-1] if before else None


@pytest.mark.one_in(40)
@pytest.mark.parametrize("forms", CHUNKS, ids=IDS)
def test_every_variant_assembles_from_its_version_on(forms: list[Form], ptxas: Tool, newest: Version) -> None:
    """ptxas takes every variant, and refuses it in the version before its first."""
    _check(forms, ptxas, newest)


@pytest.mark.slow
@pytest.mark.parametrize("forms", CHUNKS, ids=IDS)
def test_every_operand_of_every_variant_assembles(forms: list[Form], ptxas: Tool, newest: Version) -> None:
    """The same without a limit on the instructions of a form: 600,000 in all, for every target and version."""
    _check(forms, ptxas, newest, sys.maxsize, sys.maxsize)


def _check(
    forms: list[Form],
    ptxas: Tool,
    newest: Version,
    everywhere: int = _EVERYWHERE,
    thorough: int = THOROUGH,
) -> None:
    try:
        _check_together(forms, ptxas, newest, everywhere, thorough)
    except AssertionError:
        # ptxas stops at a syntax error, and some forms in one file make it fail: each form decides alone.
        for form in forms:
            _check_together([form], ptxas, newest, everywhere, thorough)


def _check_together(forms: list[Form], ptxas: Tool, newest: Version, everywhere: int, thorough: int) -> None:
    taken, refused = _Batches(), _Batches()
    for form in forms:
        _add(form, newest, taken, refused, everywhere, thorough)
    for what, lines, errors in taken.refused(ptxas):
        shown = [f"{lines[i]} -> {message}" for i, message in list(errors.items())[:5]]
        assert not errors, f"{len(errors)} of {len(lines)} refused for {what}: {shown}"
    for what, lines, errors in refused.refused(ptxas):
        accepted = [line for i, line in enumerate(lines) if i not in errors and not _stricter(line)]
        assert not accepted, f"{what} already takes {accepted[:5]}"


def _add(
    form: Form, newest: Version, taken: _Batches, refused: _Batches, everywhere: int, thorough: int
) -> None:
    """Add the form's instructions to those that ptxas takes, and to those that it refuses in an earlier version."""
    empty = True
    for number, (binding, instruction) in enumerate(instructions(form, thorough)):
        targets = _targets(binding, newest) if binding.since <= newest else ()
        settings = _settings(binding.since, targets, newest)
        turn = number % max(1, len(settings))
        for version, arch in settings if number < everywhere else settings[turn : turn + 1]:
            taken.add(binding, instruction, version, arch)
        earlier = _version_before(binding.since)
        # The lowest target may be younger than the instruction.
        for arch in [t for t in targets if earlier and t.since <= earlier][:1]:
            refused.add(binding, instruction, earlier, arch)
        empty = empty and not targets and binding.since <= newest
    assert not empty, f"[{form.id}] has not a single variant"


@pytest.fixture(scope="module")
def by_targets() -> list[tuple[isa.Binding, object]]:
    """Of each form's first variants, one for each set of targets."""
    found = {}
    for form in all_forms():
        for binding, instruction in islice(instructions(form), 100):
            found.setdefault((form.id, tuple(map(str, binding.on))), (binding, instruction))
    return list(found.values())


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", KNOWN_TARGETS)
def test_other_targets_are_refused(
    name: str, by_targets: list[tuple[isa.Binding, object]], ptxas: Tool, newest: Version
) -> None:
    arch = target(name)
    if arch.since > newest:
        pytest.skip(f"ptxas {ptxas.version_text} does not know {name}")
    batches = _Batches()
    for binding, instruction in by_targets:
        if binding.since <= newest and not all(arch in allowed for allowed in binding.on):
            batches.add(binding, instruction, newest, arch)
    for what, lines, errors in batches.refused(ptxas):
        accepted = [line for i, line in enumerate(lines) if i not in errors]
        assert not accepted, f"{what}: ptxas takes {accepted[:5]}"
