"""Right kernels of compilers and of this project: what lint reports on them without ptxas, for a large grid."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyptx
from tests.sanitizer.unusual.unusuals import UNUSUAL

TEXTS = Path(__file__).parents[2] / "sim/compiled"
FILES = sorted(
    file
    for folder in ("texts/sm_90a", "hopper/texts", "blackwell/texts")
    for file in (TEXTS / folder).glob("*.ptx")
)
#: A text that is kept because it reads registers that no instruction writes.
UNDEFINED = "triton.conversions_undefined.ptx"


@pytest.mark.one_in(8)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}-{file.stem}")
def test_texts_of_compilers(file: Path) -> None:
    found = pyptx.lint(file, ptxas=False, grid=(4096, 64, 8)).findings
    assert [f.rule.name for f in found] == (["undefined-register"] * 2 if file.name == UNDEFINED else [])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_kernels(name: str) -> None:
    assert pyptx.lint(UNUSUAL[name].text, ptxas=False, grid=(4096, 64, 8)).findings == []
