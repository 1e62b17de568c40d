"""The simulator gives the words that an H200 gave; every form and type has a case or a reason.

``python -m tests.conformance compare`` prints the disagreements as a table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyptx.isa.table import form

from .case import KernelCase
from .collect import kernel_cases, kernel_chapters, value_cases, value_chapters
from .compare import Difference, compare_kernel, compare_values
from .coverage import excused, faults, missing, missing_report, reasons
from .recording import read

#: ``test_samples.py`` has a case of each chapter for the fast tier.
pytestmark = pytest.mark.full

KERNELS = [
    pytest.param(chapter, case, id=f"{chapter}: {case.name}", marks=[pytest.mark.slow] if case.long else [])
    for chapter in kernel_chapters()
    for case in kernel_cases(chapter)
]
FORMS = [
    pytest.param(chapter, name, id=name)
    for chapter in value_chapters()
    for name in dict.fromkeys(case.form.id for case in value_cases(chapter))
]
#: Value cases of each form that the one-lane code runs when not asked for more.
SAMPLE = 1


def _shown(differences: list[Difference]) -> str:
    return "\n".join(map(str, differences))


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chapter", "name"), FORMS)
def test_value_form(chapter: str, name: str) -> None:
    chosen = [case for case in value_cases(chapter) if case.form.id == name]
    found = list(compare_values(chosen))
    assert not found, _shown(found)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chapter", "name"), FORMS)
def test_value_form_by_single_lanes(chapter: str, name: str) -> None:
    chosen = [case for case in value_cases(chapter) if case.form.id == name]
    found = list(compare_values(chosen[:: max(1, len(chosen) // SAMPLE)], single=True))
    assert not found, _shown(found)


@pytest.mark.slow
@pytest.mark.parametrize("chapter", value_chapters())
def test_all_values_by_single_lanes(chapter: str) -> None:
    found = list(compare_values(value_cases(chapter), single=True))
    assert not found, _shown(found)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chapter", "case"), KERNELS)
def test_kernel(chapter: str, case: KernelCase) -> None:
    found = list(compare_kernel(chapter, case))
    assert not found, _shown(found)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize(("chapter", "case"), KERNELS)
def test_kernel_under_schedules(chapter: str, case: KernelCase, schedule: str) -> None:
    found = list(compare_kernel(chapter, case, schedule, seed=7))
    assert not found, _shown(found)


CHAPTERS = {"values": value_chapters(), "kernels": kernel_chapters()}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("sort", "chapter"), [(sort, chapter) for sort, chapters in CHAPTERS.items() for chapter in chapters]
)
def test_recordings_hold_every_case_and_nothing_else(sort: str, chapter: str) -> None:
    cases = value_cases(chapter) if sort == "values" else kernel_cases(chapter)
    recording = read(sort, chapter)
    assert recording is not None
    assert recording.machine.gpu == "NVIDIA H200" and recording.machine.driver and recording.date
    refused = [case.name for case in cases if case.name in recording.refused]
    assert not refused, f"the GPU refused {refused}"
    assert recording.rows.keys() == {case.name for case in cases}
    stale = [case.name for case in cases if recording.rows[case.name].fingerprint != case.fingerprint]
    assert not stale, f"recorded of another kernel: {stale[:5]}"


@pytest.mark.parametrize("sort", CHAPTERS)
def test_every_recording_has_its_chapter(sort: str) -> None:
    files = Path(__file__).with_name("data").joinpath(sort).glob("*")
    assert {file.name for file in files} == {f"{chapter}.xz" for chapter in CHAPTERS[sort]}


@pytest.mark.full
def test_every_form_and_type_has_a_case_or_a_reason() -> None:
    absent = missing()
    lines = [excused(key) for key in absent]
    unexplained = [key for key, line in zip(absent, lines, strict=True) if line is None]
    assert not unexplained, unexplained
    assert missing_report() == 0
    assert not reasons().keys() - set(lines), "reasons for what has a case"
    for line in reasons():
        if "*" not in line and not line.startswith("("):
            form(line.partition(":")[0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chapter", kernel_chapters())
def test_kernel_cases_are_legal_and_cover_what_they_say(chapter: str) -> None:
    cases = [case for case in kernel_cases(chapter) if not case.long]
    found = [f"{case.name}: {fault}" for case in cases for fault in faults(case)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("chapter", kernel_chapters())
def test_ptxas_takes_the_kernel_cases(chapter: str, ptxas: object) -> None:
    found = [
        f"{case.name}: {fault}" for case in kernel_cases(chapter) for fault in faults(case, assemble=True)
    ]
    assert not found, "\n".join(found)


@pytest.mark.gpu
@pytest.mark.parametrize("chapter", ["extended", "variables"])
def test_recording_anew_gives_the_same_words(chapter: str, tmp_path: Path) -> None:
    from .record import record

    record([chapter], tmp_path, print)
    sort = "values" if chapter in value_chapters() else "kernels"
    anew, kept = read(sort, chapter, tmp_path), read(sort, chapter)
    assert anew is not None and kept is not None
    assert anew.rows == kept.rows
