"""``pyptx.diff``, and ``assert_same_ptx`` for tests."""

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
    """The comparison of two modules, A and B; its ``str()`` is the report. True if there is a difference.

    Attributes:
        a, b: names of the two sides.
        modules: the IR of both sides.
        differences: all differences: first those outside of functions, then those of each function.
        functions: the comparison of each function of A that has a counterpart in B.
        summary: counts of both sides; also registers, spills and machine code if the caller asked for them.
    """

    def __str__(self) -> str:
        return report(self)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values; docs/diff.md has the schema."""
        return as_json(self)


def diff(a: Any, b: Any, *, header: bool = True, types: bool = True, machine: bool = False) -> Diff:
    """Compare two kernels by their instructions, not by their spelling.

    Names of registers, labels, parameters and of a function's own variables, the order of declarations,
    comments and debug data are not compared. Instructions are compared in their order. See docs/diff.md.

    Args:
        a, b: each side is PTX text, a ``pathlib.Path`` to PTX text, an :class:`~pyptx.ir.Module`, a kernel,
            the result of ``kernel.specialize(...)``, or a recording. Bind a kernel's constants with
            ``functools.partial``.
        header: whether to compare PTX version, target and address size too.
        types: whether to compare types that only give a width: those of `mov`, `ld`, `st`, `selp`, and of
            `setp` for equality of integers. If false, `.u32` equals `.b32` there.
        machine: whether to run ptxas and nvdisasm, so that the summary has registers, spills and machine
            code.

    Returns:
        A :class:`Diff`, which is true if there is a difference. It has ``equal``, ``differences`` and
        ``summary``; its ``str()`` is the report.

    Raises:
        ParseError: a text is not PTX.
        TypeError: an argument holds no PTX.
    """
    first, second = side_of(a, _name(a, "A")), side_of(b, _name(b, "B"))
    return compare(first, second, header=header, types=types, machine=machine)


def _name(given: Any, otherwise: str) -> str:
    """Return the name that the report shows for ``given``, or ``otherwise`` if it has none."""
    if isinstance(given, Path):
        return str(given)
    kernel = given.func if isinstance(given, functools.partial) else given
    return repr(kernel) if isinstance(kernel, Kernel) else otherwise


def compare(first: Side, second: Side, *, header: bool, types: bool, machine: bool) -> Diff:
    """Compare two sides that are already loaded; :func:`diff` describes the comparison."""
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
    """Raise AssertionError with the report as its message if :func:`diff` finds a difference.

    The arguments and the other errors are those of :func:`diff`.
    """
    found = diff(a, b, header=header, types=types)
    if not found.equal:
        raise AssertionError(str(found))
