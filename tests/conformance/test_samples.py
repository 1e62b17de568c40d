"""One recorded case of each chapter, for the fast tier; ``test_conformance.py`` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .collect import kernel_cases, kernel_chapters, value_cases
from .compare import compare_kernel, compare_values

#: Chapters with recorded words of value forms.
VALUE_CHAPTERS = sorted(path.stem for path in (Path(__file__).parent / "data" / "values").glob("*.xz"))


@pytest.mark.sample(4)
@pytest.mark.parametrize("chapter", kernel_chapters())
def test_the_first_kernel_of_a_chapter(chapter: str) -> None:
    case = next(case for case in kernel_cases(chapter) if not case.long)
    found = list(compare_kernel(chapter, case))
    assert not found, "\n".join(map(str, found))


@pytest.mark.sample(1, by="chapter")
@pytest.mark.parametrize("chapter", VALUE_CHAPTERS)
def test_the_first_value_form_of_a_chapter(chapter: str) -> None:
    cases = value_cases(chapter)
    found = list(compare_values([case for case in cases if case.form is cases[0].form]))
    assert not found, "\n".join(map(str, found))
