"""Namespaces that import names at their first use."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyptx
from pyptx.core.lazy import lazily

ROOT = Path(pyptx.__file__).parent
NAMESPACES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if "__getattr__ = lazily(" in path.read_text()
)


def parts(namespace: str) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the names that a namespace imports for type checkers, and those that it imports at their use."""
    module = importlib.import_module(namespace)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    checked: dict[str, tuple[str, ...]] = {}
    owned: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for entry in node.body:
                assert isinstance(entry, ast.ImportFrom)
                names = tuple(name.name for name in entry.names)
                if entry.level > 1:
                    continue  # from another room, for annotations
                if entry.module in (None, "units"):  # modules that are names themselves
                    prefix = "" if entry.module is None else f"{entry.module}."
                    checked.update({f"{prefix}{name}": () for name in names})
                else:
                    assert entry.module is not None
                    checked[entry.module] = names
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__getattr__":
            assert isinstance(node.value, ast.Call)
            owned = ast.literal_eval(node.value.args[1])
    return checked, owned


@pytest.mark.sample(10)
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_type_checkers_see_the_names_that_are_imported(namespace: str) -> None:
    checked, owned = parts(namespace)
    assert owned
    assert {m: sorted(names) for m, names in checked.items()} == {m: sorted(n) for m, n in owned.items()}
    names = {name or module for module, names in owned.items() for name in names or (module,)}
    module = importlib.import_module(namespace)
    assert {name.rpartition(".")[2] for name in names} <= set(module.__all__)


@pytest.mark.sample(10)
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_is_that_of_its_module(namespace: str) -> None:
    _, owned = parts(namespace)
    module = importlib.import_module(namespace)
    package = module.__package__
    for home, names in owned.items():
        for name in names:
            value = getattr(module, name)
            found = getattr(importlib.import_module(f"{package}.{home}"), name)
            assert getattr(value, "__wrapped__", value) is getattr(found, "__wrapped__", found)
            if hasattr(module, "__path__"):
                assert name not in [Path(path).stem for path in Path(module.__path__[0]).iterdir()]
        if not names:
            assert isinstance(getattr(module, home.rpartition(".")[2]), ModuleType)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    find = lazily("pyptx.layout", {"swizzle": ("swizzle",)})
    with pytest.raises(AttributeError, match=r"module 'pyptx\.layout' has no attribute 'swizle'"):
        find("swizle")


def test_the_arguments_of_units_are_checked_however_they_were_imported() -> None:
    """A unit that pyptx itself imported first has its checks as soon as an author names it."""
    probe = (
        "import pyptx.dsl.units.math, pyptx.dsl.units.fence\n"
        "from pyptx import OperandError, ptx\n"
        "for function in (ptx.add, ptx.fence.proxy_async, ptx.printf):\n"
        "    print(hasattr(function, '__wrapped__'))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["True"] * 3, "")
