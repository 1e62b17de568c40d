"""All cases: those of value forms by chapter, and those of the files in ``cases/``."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from .case import KernelCase
from .values import CHAPTERS, ValueCase, cases, value_forms

__all__ = ["kernel_cases", "kernel_chapters", "value_cases", "value_chapters"]


def value_chapters() -> tuple[str, ...]:
    return tuple(CHAPTERS)


@cache
def value_cases(chapter: str) -> tuple[ValueCase, ...]:
    return _distinct(tuple(case for form in value_forms(chapter) for case in cases(form)), chapter)


def kernel_chapters() -> tuple[str, ...]:
    """Names of the files that hold kernel cases."""
    files = sorted(Path(__file__).with_name("cases").glob("*.py"))
    return tuple(file.stem for file in files if not file.stem.startswith("_"))


@cache
def kernel_cases(chapter: str) -> tuple[KernelCase, ...]:
    """The cases of one file."""
    return _distinct(tuple(import_module(f"{__package__}.cases.{chapter}").CASES), chapter)


_Cases = TypeVar("_Cases", tuple[ValueCase, ...], tuple[KernelCase, ...])


def _distinct(found: _Cases, chapter: str) -> _Cases:
    """The cases, whose names tell them apart in a recording."""
    twice = [name for name, count in Counter(case.name for case in found).items() if count > 1]
    assert not twice, f"{chapter} has several cases called {twice}"
    return found
