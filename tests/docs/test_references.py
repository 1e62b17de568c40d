"""What the pages reference exists, is complete, and describes arguments that exist."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pyptx.dsl.units
import pyptx.kit

PAGES = Path(__file__).resolve().parents[2] / "docs"
#: Modules of the units that no author calls: what several of them share.
SHARED = {"answers", "descriptor_address", "fragments", "places", "qualifiers", "values", "tcgen05.arguments"}
#: What an author calls beside the units and the kit.
OTHERS = {
    "calls",
    "control",
    "functions",
    "loops",
    "operands",
    "params",
    "program",
    "reg",
    "smem",
    "special",
    "symbols",
}

_REFERENCE = re.compile(r"^::: (\S+)$", re.MULTILINE)
_ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n|\n)*)", re.MULTILINE)
_NAMES = re.compile(r"^    (\w+(?:, \w+)*):", re.MULTILINE)


def referenced() -> Counter[str]:
    """How often each module or name has a reference."""
    return Counter(name for page in PAGES.rglob("*.md") for name in _REFERENCE.findall(page.read_text()))


def modules_of(package: ModuleType) -> Iterator[str]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.ispkg:
            yield found.name


def resolve(name: str) -> Any:
    """The module, or what a module has, of this dotted name."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(import_module(module), attribute)


def test_every_unit_has_one_reference() -> None:
    units = {name for name in modules_of(pyptx.dsl.units) if name.split("units.")[1] not in SHARED}
    expected = units | set(modules_of(pyptx.kit)) | {f"pyptx.dsl.{name}" for name in OTHERS}
    assert expected - set(referenced()) == set()
    assert {name for name, times in referenced().items() if times > 1} == set()


def described(docstring: str) -> list[str]:
    """Names under ``Args:``; several may share one description."""
    return [
        name
        for section in _ARGUMENTS.findall(docstring + "\n")
        for names in _NAMES.findall(section)
        for name in names.split(", ")
    ]


def callables(name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions and methods that a reference shows."""
    home = resolve(name)
    members = [getattr(home, each) for each in home.__all__] if isinstance(home, ModuleType) else [home]
    for member in members:
        if inspect.isroutine(member):
            yield f"{name}: {member.__name__}", member
            continue
        owner = member if inspect.isclass(member) else type(member)
        for attribute in vars(owner):
            method = getattr(owner, attribute)
            if inspect.isfunction(method) or inspect.ismethod(method):
                yield f"{name}: {owner.__name__}.{attribute}", method


def unknown(function: Callable[..., Any]) -> set[str]:
    """Described arguments that the function does not take."""
    return set(described(inspect.getdoc(function) or "")) - set(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", sorted(referenced()))
def test_described_arguments_exist(name: str) -> None:
    assert {where: unknown(each) for where, each in callables(name) if unknown(each)} == {}


def test_an_argument_that_does_not_exist_is_found() -> None:
    def example(a: int, *rest: int, b: int) -> None:
        """Do.

        Args:
            a, d: x.
                more, f: words
            rest, b: y.

        Raises:
            Error: z.
        """

    assert unknown(example) == {"d"}
