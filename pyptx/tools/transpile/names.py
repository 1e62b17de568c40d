"""Makes Python identifiers from PTX names; names of C++ functions are demangled."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from functools import lru_cache

from ...ir.mangling import demangle

__all__ = ["PythonNames", "short_name", "word"]

_NOT_WORD = re.compile(r"\W", re.ASCII)
#: Matches the mangled name of a function's own variable: ``_ZZ3fooPfE4tile``.
_LOCAL = re.compile(r"_ZZ.*?E(\d+)([A-Za-z_]\w*?)(?:_\d+)?$")
_OPERATORS = {"()": "call", "[]": "item", "=": "assign", "==": "equal", "!=": "differ", "<": "less"}


def _without_arguments(text: str) -> str:
    """Shorten a C++ function's name: ``void a::b<int>(float*)`` becomes ``a::b``."""
    kept: list[str] = []
    depth = 0
    for at, letter in enumerate(text):
        if letter == "<" or (letter == "(" and text[at : at + 2] != "()"):
            if letter == "(" and depth == 0 and kept:
                break
            depth += 1
        elif (letter == ">" and depth) or (letter == ")" and depth):
            depth -= 1
        elif letter == "(" and depth == 0 and "".join(kept).rpartition("::")[2].strip() != "operator":
            break
        elif depth == 0:
            kept.append(letter)
    return "".join(kept)


@lru_cache(maxsize=4096)
def short_name(name: str) -> str:
    """Return the last word of a name as an identifier.

    ``_ZN1a1bIiEEvPf`` is ``b``, ``_ZZ1fvE4tile`` is ``tile``.
    """
    local = _LOCAL.match(name)
    if local is not None and len(local[2]) >= int(local[1]):
        return word(local[2][: int(local[1])])
    text = demangle(name)
    if text == name:
        return word(name.lstrip("_") if name.startswith("__") else name)
    text = _without_arguments(text.split(" [clone")[0])
    parts = text.split("::")
    last = parts[-1].strip()
    owner = parts[-2].split()[-1] if len(parts) > 1 else ""
    if last == "{ctor}":
        return word(f"{owner}_init")
    if last == "{dtor}":
        return word(f"{owner}_del")
    if last.startswith("operator"):
        symbol = last.removeprefix("operator").strip()
        return word(f"{owner}_{_OPERATORS.get(symbol, 'operator')}".lstrip("_"))
    return word(last.split()[-1] if last.split() else name)


def word(text: str) -> str:
    """Return ``text`` changed to a Python identifier that is not a keyword."""
    found = _NOT_WORD.sub("_", text).strip("_") or "x"
    if found[0].isdigit():
        found = f"x{found}"
    return found + "_" if keyword.iskeyword(found) else found


class PythonNames:
    """The identifiers in use. A name that is already in use gets a number."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *dir(builtins)}
        self._next: dict[str, int] = {}

    def new(self, wish: str) -> str:
        """Return and reserve ``wish``, or the first free one of ``wish_1``, ``wish_2`` ..."""
        name = wish
        while name in self._taken:
            self._next[wish] = self._next.get(wish, 0) + 1
            name = f"{wish}_{self._next[wish]}"
        self._taken.add(name)
        return name

    def within(self) -> PythonNames:
        """Return the names for a function inside this scope; they do not repeat the names of this scope."""
        inner = PythonNames()
        inner._taken = set(self._taken)
        return inner
