"""Switching one rule of the sanitizer off: a function of it gets the code of its text with one piece replaced."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ..reference.compare import launch
from ..reference.notation import parse
from ..reference.printing import to_ptx
from ..twins.corpus import TWINS

__all__ = ["Switch", "Verdict", "off", "verdict"]

#: A kernel's findings: rule and line.
Verdict = frozenset[tuple[str, int]]
_PACKAGE = "pyptx.sim.sanitizer"


@dataclass(frozen=True)
class Switch:
    """One rule, edge, comparison or object of the sanitizer, and a kernel whose verdict needs it.

    Attributes:
        name: what is switched off.
        where: module and function, ``order.may_conflict`` or ``flags.Flags.write``.
        old: a piece of the function's text that occurs in it once.
        new: what stands there while the rule is off.
    """

    name: str
    where: str
    old: str
    new: str


def _function(where: str) -> FunctionType:
    module, *names = where.split(".")
    found: Any = importlib.import_module(f"{_PACKAGE}.{module}")
    for name in names:
        found = inspect.getattr_static(found, name)
        if isinstance(found, property):
            found = found.fget
        if isinstance(found, staticmethod):
            found = found.__func__
    assert isinstance(found, FunctionType), where
    return found


@contextmanager
def off(switch: Switch) -> Iterator[None]:
    """Switch a rule off. Fails if the function's text has changed: then the switch must be written anew."""
    function = _function(switch.where)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(switch.old) == 1, (
        f"{switch.name}: {switch.where} has {switch.old!r} {text.count(switch.old)} times"
    )
    lines = text.replace(switch.old, switch.new)
    while lines.startswith("@"):
        lines = lines.partition("\n")[2]
    names: dict[str, Any] = {}
    exec(
        compile("from __future__ import annotations\n" + lines, switch.name, "exec"),
        function.__globals__,
        names,
    )
    before = function.__code__
    function.__code__ = names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


def verdict(witness: str) -> Verdict:
    """The findings of a kernel under eager, or what it raises.

    ``witness`` is the name of a twin with ``/right`` or ``/wrong``, or a program in the notation of the reference.
    """
    try:
        if "/" in witness:
            name, _, which = witness.rpartition("/")
            findings = TWINS[name].run("right" if which == "right" else "wrong").findings
        else:
            program = parse(witness)
            findings = launch(program, to_ptx(program)).findings
    except Exception as error:
        return frozenset({(type(error).__name__, 0)})
    return frozenset((f.rule.name, 0 if f.location is None else f.location.line) for f in findings)
