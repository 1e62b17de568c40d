"""The digest of what a kernel was made from."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from pyptx import Layout, Tile, Workspace, f32
from pyptx.core.source import SourceLocation
from pyptx.entry.content import content_digest
from tests.entry.torch_kernels import axpy


def made(text: str, **values: Any) -> Any:
    """The function ``f`` of a program in which these names have these values."""
    space = {"__name__": "program", **values}
    exec(text, space)
    return space["f"]


def test_what_a_function_refers_to_counts() -> None:
    text = "def f(x):\n    return g(x) + size"
    helper = made("def f(x): return x + 1")
    first = content_digest(made(text, g=helper, size=1))
    assert first == content_digest(made(text, g=made("def f(x): return x + 1"), size=1))
    assert first == content_digest(made("\n\n" + text, g=helper, size=1, unused=3))
    others = [
        made(text, g=helper, size=2),
        made(text, g=helper, size=1.0),
        made(text, g=helper, size=True),
        made(text, g=made("def f(x): return x + 2"), size=1),
        made("def f(x):\n    return g(x) - size", g=helper, size=1),
        made("def f(x, y=2):\n    return g(x) + size", g=helper, size=1),
    ]
    assert first not in {content_digest(each) for each in others}


def test_closures_nested_functions_and_modules() -> None:
    def outer(size: int) -> FunctionType:
        def inner(x: int) -> Any:
            return lambda: x + size

        return inner  # type: ignore[return-value]

    assert content_digest(outer(1)) == content_digest(outer(1)) != content_digest(outer(2))
    settings = ModuleType("settings")
    settings.BLOCK, settings.OTHER = 128, 1  # type: ignore[attr-defined]
    function = made("def f(): return settings.BLOCK", settings=settings)
    before = content_digest(function)
    settings.OTHER = 2  # type: ignore[attr-defined]
    assert content_digest(function) == before
    settings.BLOCK = 64  # type: ignore[attr-defined]
    assert content_digest(function) != before


def test_values() -> None:
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    values: list[Any] = [
        1,
        1.0,
        True,
        "1",
        None,
        (1, 2),
        [1, 2],
        (2, 1),
        {"a": 1},
        {"a": 2},
        {1, 2},
        Color.RED,
        Color.BLUE,
        f32,
        Tile("N", f32),
        Tile("M", f32),
        Tile("M", "N", f32, Layout.TMA_128B, tma_box=(8, 32)),
        np.arange(3),
        np.arange(3.0),
        np.arange(3)[::-1],
    ]
    assert len({content_digest(each) for each in values}) == len(values)
    assert content_digest({3, 1, 2}) == content_digest({2, 3, 1})


def test_what_does_not_count() -> None:
    assert content_digest(SourceLocation("a.py", 1)) == content_digest(SourceLocation("b.py", 2))
    endless: list[Any] = [1]
    endless.append(endless)
    assert content_digest(endless) == content_digest(endless)


class Settings:
    """A plain object; ``kept`` lies in a slot of a subclass."""

    def __init__(self, size: Any) -> None:
        self.size = size


class Slotted(Settings):
    __slots__ = ("kept",)

    def __init__(self, size: Any, kept: Any) -> None:
        super().__init__(size)
        self.kept = kept


def test_attributes_of_plain_objects_count() -> None:
    first = content_digest(Settings(2.0))
    assert first == content_digest(Settings(2.0))
    assert content_digest(Slotted(2.0, 1)) == content_digest(Slotted(2.0, 1))
    digests = [
        first,
        content_digest(Settings(3.0)),
        content_digest(Settings(2)),
        content_digest(Slotted(2.0, 1)),
        content_digest(Slotted(2.0, 2)),
        content_digest(partial(pow, 2)),
        content_digest(partial(pow, 3)),
        content_digest(axpy(3)),
        content_digest(axpy(4)),
        content_digest(Workspace(4)),
        content_digest(Workspace(8)),
        content_digest(Workspace(8, zeroed=True)),
    ]
    assert len(set(digests)) == len(digests)
    assert content_digest(axpy(3)) == digests[7] and content_digest(partial(pow, 2)) == digests[5]


def test_what_cannot_be_read_is_never_the_same() -> None:
    deep: list[Any] = []
    for _ in range(20):
        deep = [deep]
    for value in (object(), iter([1]), deep):
        assert content_digest(value) != content_digest(value)


_PROGRAM = """
from pyptx.entry.content import content_digest
from tests.entry.torch_kernels import axpy
k = axpy(3)
print(content_digest(k.function, k.options))
"""


def test_a_kernels_digest_is_the_same_in_every_process() -> None:
    k = axpy(3)
    for seed in ("1", "2"):  # the order of sets
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        root = Path(__file__).resolve().parents[2]
        said = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.strip() == content_digest(k.function, k.options)
    assert content_digest(axpy(4).function, k.options) != content_digest(k.function, k.options)
