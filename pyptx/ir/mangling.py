"""C++ names of functions: demangles them, and finds a function by an unambiguous part of its name.

The library ``itanium-demangler`` does the demangling; a name that the library cannot read stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

__all__ = ["demangle", "find_names", "readable"]

_ANONYMOUS = "(anonymous namespace)"
#: Name of the anonymous namespace in a mangled name. nvcc appends a hash and the file's name.
_ANONYMOUS_NAME = re.compile(r"\b_GLOBAL__N_\w*")


@lru_cache(maxsize=4096)
def _parsed(name: str) -> Any:
    """Return the syntax tree of a mangled name, or None if the name is not mangled or cannot be read."""
    if not name.startswith("_Z"):
        return None
    import itanium_demangler  # type: ignore[import-untyped]

    try:
        tree = itanium_demangler.parse(name)
    except Exception:  # the library raises various exceptions for a name that it cannot read
        return None
    if tree is None or tree.kind != "func":
        return tree
    types: list[Any] = []
    for node in tree.arg_tys:
        pack = node.kind == "expand_arg_pack" and node.value.kind == "tpl_arg_pack"
        types += node.value.value if pack else [node]
    return tree._replace(arg_tys=tuple(types))


@lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """Return ``foo(float*)`` for ``_Z3fooPf``; a name that is not mangled or not readable is unchanged."""
    tree = _parsed(name)
    text = name if tree is None else str(tree)
    if "<Node " in text:  # the library has parsed a part that it cannot print
        return name
    return re.sub(r"\)n(?=\d)", ")-", _ANONYMOUS_NAME.sub(_ANONYMOUS, text))


def readable(name: str) -> str:
    """Return a name for messages: ``_Z3fooPf (foo(float*))``, or only the name if it is not mangled."""
    text = demangle(name)
    return name if text == name else f"{name} ({text})"


# --- finding a function by name -----------------------------------------------------------------

_CAST = re.compile(r"\([\w: ]+\)(?=[n-]?\d)")
#: A number among template arguments: mangling writes -3 as ``n3``; a suffix only repeats the type.
_NUMBER = re.compile(r"(?<=[<,])(n|-)?(\d+)[uUlL]*(?=[,>])")
_TRUTH = {"true": "1", "false": "0"}


@lru_cache(maxsize=4096)
def _key(text: str) -> str:
    """Return a C++ name for comparisons: without spaces, casts of numbers and a leading ``void``."""
    text = " ".join(text.replace(_ANONYMOUS, "_GLOBAL__N_").split())
    text = _ANONYMOUS_NAME.sub("_GLOBAL__N_", text)
    text = re.sub(r" ?([^\w ]) ?", r"\1", text)
    text = _NUMBER.sub(lambda m: f"{'-' if m[1] else ''}{m[2]}", _CAST.sub("", text))
    text = re.sub(r"(?<=[<,])(true|false)(?=[,>])", lambda m: _TRUTH[m[1]], text)
    return text.removeprefix("void ").replace("(void)", "()")


def _parts(text: str) -> list[str]:
    """Split a C++ name at the ``::`` outside angle brackets: ``a<b::c>::d`` into ``a<b::c>`` and ``d``."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if depth == 0 and text.startswith("::", at):
            parts.append(text[start:at])
            start = at + 2
    return [*parts, text[start:]]


@lru_cache(maxsize=4096)
def _spellings(name: str) -> tuple[frozenset[str], ...]:
    """Return the spellings that mean a mangled name, in four groups, the most exact ones first.

    The groups are: the whole signature, without parameters, also without the last template arguments, and
    without any template arguments. Each group includes spellings without leading namespaces.
    """
    tree = _parsed(name)
    if tree is None:
        return ()
    if tree.kind != "func":
        return (frozenset({_key(str(tree))}),)
    path = _parts(str(tree.name))
    parameters = str(tree._replace(ret_ty=None)).removeprefix(str(tree.name))
    last = path[-1].partition("<")[0]
    plain = [part.partition("<")[0] for part in path]
    return tuple(
        frozenset(_key("::".join(parts[start:]) + end) for start in range(len(parts)))
        for parts, end in ((path, parameters), (path, ""), ([*path[:-1], last], ""), (plain, ""))
    )


def find_names(wanted: str, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that ``wanted`` means: one, several if it is ambiguous, or none.

    A name always means itself. A mangled name can also be given as its C++ name, with or without the return
    type, parameters, template arguments and namespaces: ``_Z4axpyILi4EEvPf`` as
    ``void axpy<(int)4>(float*)``, ``axpy<4>(float *)``, ``axpy<4>`` or ``axpy``. If several names match,
    those for which ``wanted`` is the most exact spelling are returned.
    """
    known = list(names)
    if wanted in known:
        return [wanted]
    key = _key(wanted)
    ranked: dict[int, list[str]] = {}
    for name in known:
        rank = next((n for n, spellings in enumerate(_spellings(name)) if key in spellings), None)
        if rank is not None:
            ranked.setdefault(rank, []).append(name)
    return ranked[min(ranked)] if ranked else []
