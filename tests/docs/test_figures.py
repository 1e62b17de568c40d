"""The figures of the pages are those that ``python docs/figures.py`` writes, and each stands on a page."""

from __future__ import annotations

import re
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _figures() -> ModuleType:
    spec = util.spec_from_file_location("docs_figures", ROOT / "docs" / "figures.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


figures = _figures()


@pytest.mark.parametrize("name", figures.FIGURES)
@pytest.mark.sample(4)
def test_up_to_date(name: str) -> None:
    written = (figures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert written == figures.FIGURES[name]().svg, "run python docs/figures.py"


def test_every_figure_is_on_a_page() -> None:
    shown = {
        name
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"\]\([./]*assets/figures/(\w+)\.svg\)", page.read_text(encoding="utf-8"))
    }
    assert shown == set(figures.FIGURES) == {path.stem for path in figures.FOLDER.glob("*.svg")}
