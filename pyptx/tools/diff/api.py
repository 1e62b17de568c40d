"""``pyptx.diff`` and the assertion for tests."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ...entry import Kernel
from .inputs import Side, side_of
from .model import Comparison
from .modules import compare_modules
from .show import as_json, report
from .summary import summarize

__all__ = ["Diff", "assert_same_ptx", "compare", "diff"]


class Diff(Comparison):
    """The comparison of two modules; its ``str()`` is the report.

    Attributes:
        a, b: what was compared, in words.
        modules: their IR.
        differences: all of them: of the modules, then function by function.
        functions: the functions that stand for each other.
        summary: counts of both sides; registers, spills and machine code where they were asked for.
    """

    def __str__(self) -> str:
        return report(self)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values; docs/diff.md has the schema."""
        return as_json(self)


def diff(a: Any, b: Any, *, header: bool = True, types: bool = True, machine: bool = False) -> Diff:
    """Compare two kernels by what they do, not by how they are spelled.

    Names of registers, labels, parameters and of a function's own variables, the order of declarations,
    comments and debug data do not count; instructions are compared in their order. See docs/diff.md.

    Args:
        a, b: each PTX text, a ``pathlib.Path`` to it, an :class:`~pyptx.ir.Module`, a kernel (its constants
            bound by ``functools.partial``, or what ``kernel.specialize(...)`` gives), or a recording.
        header: compare PTX version, target and address size too.
        types: compare types that say no more than a width: of `mov`, `ld`, `st`, `selp` and `setp` for
            equality of integers; without, `.u32` is `.b32` there.
        machine: ask ptxas and nvdisasm for registers, spills and machine code, for the summary.

    Returns:
        A :class:`Diff`, true if there is a difference; ``equal``, ``differences``, ``summary``; its ``str()``
        is the report.

    Raises:
        ParseError: text that is not PTX.
        TypeError: something that holds no PTX.
    """
    first, second = side_of(a, _name(a, "A")), side_of(b, _name(b, "B"))
    return compare(first, second, header=header, types=types, machine=machine)


def _name(given: Any, otherwise: str) -> str:
    """What a report calls a side."""
    if isinstance(given, Path):
        return str(given)
    kernel = given.func if isinstance(given, functools.partial) else given
    return repr(kernel) if isinstance(kernel, Kernel) else otherwise


def compare(first: Side, second: Side, *, header: bool, types: bool, machine: bool) -> Diff:
    """:func:`diff` of sides."""
    differences, functions = compare_modules(first, second, header=header, types=types)
    texts = (lambda: first.ptx, lambda: second.ptx) if machine else None
    return Diff(
        first.name,
        second.name,
        (first.module, second.module),
        tuple(differences),
        tuple(functions),
        summarize((first.module, second.module), texts),
    )


def assert_same_ptx(a: Any, b: Any, *, header: bool = True, types: bool = True) -> None:
    """Raise AssertionError, with the report as its message, unless ``diff`` of the same arguments is equal.

    Arguments and other errors are those of :func:`diff`.
    """
    found = diff(a, b, header=header, types=types)
    if not found.equal:
        raise AssertionError(str(found))
