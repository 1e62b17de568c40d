"""The table and ptxas: what the table accepts assembles, and a form's first version is the first that does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice

import pytest

from pyptx import isa
from pyptx.ir import Instruction
from pyptx.isa import Form, Target, TargetSet, all_forms, target
from pyptx.isa.targets import KNOWN_TARGETS, VERSIONS, Version
from pyptx.toolchain import Tool, check_text
from tests.isa.samples import file_of, instructions, texture_mode

FORMS = [pytest.param(form, id=form.id) for form in all_forms()]
#: Instructions of a form that are assembled for two targets in two versions each; those after them for one target
#: in one version, in turn.  A load has up to 30,000.
_EVERYWHERE = 200


def _targets(binding: isa.Binding, newest: Version) -> tuple[Target, ...]:
    """Return the lowest and the highest target that the instruction claims, among those of the newest version."""
    return _lowest_and_highest(binding.on, newest)


@cache
def _lowest_and_highest(sets: tuple[TargetSet, ...], newest: Version) -> tuple[Target, ...]:
    members = [
        t for t in map(target, KNOWN_TARGETS) if t.since <= newest and all(t in allowed for allowed in sets)
    ]
    return tuple(dict.fromkeys([members[0], members[-1]])) if members else ()


@cache
def _settings(binding_since: Version, targets: tuple[Target, ...], newest: Version) -> list[_Setting]:
    """Return the targets, each with the oldest and the newest version that has it and the instruction."""
    versions = {arch: (max(binding_since, arch.since), newest) for arch in targets}
    return list(dict.fromkeys((version, arch) for arch in targets for version in versions[arch]))


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


@cache
def _version_before(version: Version) -> Version | None:
    before = [v for v in VERSIONS if v < version]
    return before[-1] if before else None


@pytest.mark.parametrize("form", FORMS)
def test_every_variant_assembles_from_its_version_on(form: Form, ptxas: Tool, newest: Version) -> None:
    """ptxas takes every variant, and refuses it in the version before its first."""
    _check(form, instructions(form), _EVERYWHERE, ptxas, newest)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_operand_of_every_variant_assembles(form: Form, ptxas: Tool, newest: Version) -> None:
    """The same without a limit on the instructions of a form: 600,000 in all, for every target and version."""
    _check(form, instructions(form, sys.maxsize), sys.maxsize, ptxas, newest)


def _check(
    form: Form,
    given: Iterable[tuple[isa.Binding, Instruction]],
    everywhere: int,
    ptxas: Tool,
    newest: Version,
) -> None:
    taken, refused = _Batches(), _Batches()
    later = False
    for number, (binding, instruction) in enumerate(given):
        if binding.since > newest:
            later = True
            continue
        targets = _targets(binding, newest)
        settings = _settings(binding.since, targets, newest)
        turn = number % max(1, len(settings))
        for version, arch in settings if number < everywhere else settings[turn : turn + 1]:
            taken.add(binding, instruction, version, arch)
        earlier = _version_before(binding.since)
        # The lowest target may be younger than the instruction.
        for arch in [t for t in targets if earlier and t.since <= earlier][:1]:
            refused.add(binding, instruction, earlier, arch)
    if later and not taken.lines:
        pytest.skip(f"ptxas {ptxas.version_text} takes PTX {newest[0]}.{newest[1]} at most")
    assert taken.lines, f"[{form.id}] has not a single variant"
    for what, lines, errors in taken.refused(ptxas):
        shown = [f"{lines[i]} -> {message}" for i, message in list(errors.items())[:5]]
        assert not errors, f"{len(errors)} of {len(lines)} refused for {what}: {shown}"
    for what, lines, errors in refused.refused(ptxas):
        exempt = STRICTER.get(form.id, "\n")
        accepted = [line for i, line in enumerate(lines) if i not in errors and exempt not in line]
        assert not accepted, f"{what} already takes {accepted[:5]}"


@pytest.fixture(scope="module")
def by_targets() -> list[tuple[isa.Binding, object]]:
    """Of each form's first variants, one for each set of targets."""
    found = {}
    for form in all_forms():
        for binding, instruction in islice(instructions(form), 100):
            found.setdefault((form.id, tuple(map(str, binding.on))), (binding, instruction))
    return list(found.values())


@pytest.mark.full
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
