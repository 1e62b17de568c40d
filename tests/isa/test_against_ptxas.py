"""The table held against ptxas: what it accepts assembles, and its since-versions are the first that do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyptx import isa
from pyptx.isa import Form, Target, all_forms, target
from pyptx.isa.targets import KNOWN_TARGETS, Version
from pyptx.toolchain import Tool, check_text
from tests.isa.samples import file_of, instructions

FORMS = [pytest.param(form, id=form.id) for form in all_forms()]
#: Highest PTX version of the oldest ptxas that CI may have (13.0).
NEWEST = (9, 0)


def _targets(binding: isa.Binding) -> list[Target]:
    """Lowest and highest target that the instruction claims."""
    members = [t for t in map(target, KNOWN_TARGETS) if all(t in allowed for allowed in binding.on)]
    return list(dict.fromkeys([members[0], members[-1]]))


class _Batches:
    """Instructions by what a file must have in common: version, target and tcgen05's one cta_group."""

    def __init__(self) -> None:
        self.lines: dict[tuple[Version, str, str], list[str]] = {}

    def add(self, binding: isa.Binding, instruction: object, version: Version, arch: Target) -> None:
        key = (version, arch.name, binding.chosen.get("cta_group", ""))
        self.lines.setdefault(key, []).append(str(instruction))

    def refused(self, ptxas: Tool) -> Iterator[tuple[str, list[str], dict[int, str]]]:
        """Per file: what it is, its lines, and what ptxas said of which of them."""
        for (version, arch, _), lines in self.lines.items():
            text, first = file_of(lines, version, arch)
            report = check_text(text, arch, ptxas=ptxas)
            errors = {m.line - first: m.text for m in report.errors if m.line is not None}
            whole_file = [m.text for m in report.errors if m.line is None and "due to errors" not in m.text]
            assert not whole_file, (arch, version, whole_file, lines[:3])
            yield f"{arch}, PTX {version[0]}.{version[1]}", lines, errors


@pytest.mark.parametrize("form", FORMS)
def test_every_variant_assembles(form: Form, ptxas: Tool) -> None:
    batches = _Batches()
    for binding, instruction in instructions(form):
        for arch in _targets(binding):
            for version in {max(binding.since, arch.since), NEWEST}:
                batches.add(binding, instruction, version, arch)
    assert batches.lines, "a form without a single variant"
    for what, lines, errors in batches.refused(ptxas):
        shown = [f"{lines[i]} -> {message}" for i, message in list(errors.items())[:5]]
        assert not errors, f"{len(errors)} of {len(lines)} refused for {what}: {shown}"


#: Form -> text of instructions that ptxas takes one version earlier than the table; see its STRICTER note.
STRICTER = {"mbarrier.arrive": " _, ", "mbarrier.arrive_drop": " _, "}


def _version_before(version: Version) -> Version | None:
    known = [(6, n) for n in range(3, 6)] + [(7, n) for n in range(9)] + [(8, n) for n in range(9)]
    before = [v for v in known if v < version]
    return before[-1] if before else None


@pytest.mark.parametrize("form", FORMS)
def test_one_version_earlier_is_refused(form: Form, ptxas: Tool) -> None:
    batches = _Batches()
    for binding, instruction in instructions(form):
        arch = _targets(binding)[0]
        earlier = _version_before(binding.since)
        if earlier is not None and earlier >= arch.since:
            batches.add(binding, instruction, earlier, arch)
    for what, lines, errors in batches.refused(ptxas):
        exempt = STRICTER.get(form.id, "\n")
        accepted = [line for i, line in enumerate(lines) if i not in errors and exempt not in line]
        assert not accepted, f"{what} already takes {accepted[:5]}"
