"""The cases of a library's own tests: the arguments that their marks give, called without pytest."""

from __future__ import annotations

import inspect
import itertools
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.libraries._definitions import load

__all__ = ["Fixture", "Test", "bodies"]

#: Makes the value of an argument that a test gets from a fixture.
Fixture = Callable[[], Any]


class Test(NamedTuple):
    """Cases of a test: its file without the suffix, its name, how many, and arguments instead of the marks' own."""

    file: str
    name: str
    count: int = 1
    given: Mapping[str, Any] = MappingProxyType({})


def bodies(
    folder: Path, tests: Iterable[Test], variant: str, fixtures: Mapping[str, Fixture]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield a name and a function for each case of the tests. The files are loaded as ``variant``."""
    for test in tests:
        try:
            function = getattr(load((folder / f"{test.file}.py").resolve(), variant), test.name)
        except (ImportError, AttributeError) as error:
            yield f"{Path(test.file).name} {test.name}", partial(_fail, error)
            continue
        for number, case in enumerate(_chosen(function, test.count, test.given)):
            name = f"{Path(test.file).name} {test.name} {number}"
            yield name, partial(_call, function, case, fixtures)


def _fail(error: Exception) -> None:
    """Raise the error with which the file of a test could not be loaded."""
    raise error


def _chosen(function: Any, count: int, given: Mapping[str, Any], seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the arguments of ``count`` cases of a test, drawn at random; those in ``given`` are fixed.

    A test that its marks skip on this target has no cases.
    """
    marks = getattr(function, "pytestmark", [])
    if any(mark.name == "skipif" and mark.args[0] for mark in marks):
        return
    axes = [_values(mark) for mark in marks if mark.name == "parametrize"]
    cases = [
        {name: value for each in axis for name, value in each.items()} | dict(given)
        for axis in itertools.product(*axes)
    ]
    different = {repr(case): case for case in cases}
    yield from random.Random(seed).sample(list(different.values()), min(count, len(different)))


def _values(mark: Any) -> list[dict[str, Any]]:
    """Return the arguments that one mark gives, one dict for each of its cases."""
    names, values = mark.args[:2]
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    given = [value.values if hasattr(value, "marks") else value for value in values]
    if len(names) > 1:
        return [dict(zip(names, value, strict=True)) for value in given]
    return [
        {names[0]: value[0] if hasattr(v, "marks") else value} for value, v in zip(given, values, strict=True)
    ]


def _call(function: Callable[..., Any], given: Mapping[str, Any], fixtures: Mapping[str, Fixture]) -> None:
    """Call a test. Raise AssertionError if it skips itself."""
    patch = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as folder:
        known: dict[str, Fixture] = {
            "monkeypatch": lambda: patch,
            "tmp_path": lambda: Path(folder),
            **fixtures,
        }
        needed = inspect.signature(function).parameters
        made = {name: known[name]() for name in needed if name in known and name not in given}
        try:
            function(**made, **given)
        except pytest.skip.Exception as reason:
            raise AssertionError(f"skipped: {reason}") from None
        finally:
            patch.undo()
