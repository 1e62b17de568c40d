"""C++ names of functions: read from their mangling, and found by whatever part of them is enough.

Names are read by the library ``itanium-demangler``; a name that the library cannot read stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

__all__ = ["demangle", "find_names", "readable"]

_ANONYMOUS = "(anonymous namespace)"
#: The namespace's name in a mangled name. nvcc adds a hash and the name of the file.
_ANONYMOUS_NAME = re.compile(r"\b_GLOBAL__N_\w*")


@lru_cache(maxsize=4096)
def _parsed(name: str) -> Any:
    """The syntax tree of a mangled name, or None for a name that is not mangled or cannot be read."""
    if not name.startswith("_Z"):
        return None
    import itanium_demangler  # type: ignore[import-untyped]

    try:
        tree = itanium_demangler.parse(name)
    except Exception:  # of any kind, for a name that it cannot read
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
    """``_Z3fooPf`` as ``foo(float*)``; a name that is not mangled, or not readable, is itself."""
    tree = _parsed(name)
    text = name if tree is None else str(tree)
    if "<Node " in text:  # a part that the library reads and cannot write
        return name
    return re.sub(r"\)n(?=\d)", ")-", _ANONYMOUS_NAME.sub(_ANONYMOUS, text))


def readable(name: str) -> str:
    """A function for messages: ``_Z3fooPf (foo(float*))``, or the name alone if it is not mangled."""
    text = demangle(name)
    return name if text == name else f"{name} ({text})"


# --- names that are asked for -------------------------------------------------------------------

_CAST = re.compile(r"\([\w: ]+\)(?=[n-]?\d)")
#: A number among template arguments: ``n3`` is the mangling's -3; suffixes say no more than the type.
_NUMBER = re.compile(r"(?<=[<,])(n|-)?(\d+)[uUlL]*(?=[,>])")
_TRUTH = {"true": "1", "false": "0"}


@lru_cache(maxsize=4096)
def _key(text: str) -> str:
    """``text`` without what may be written in several ways: spaces, casts of numbers, a leading ``void``."""
    text = " ".join(text.replace(_ANONYMOUS, "_GLOBAL__N_").split())
    text = _ANONYMOUS_NAME.sub("_GLOBAL__N_", text)
    text = re.sub(r" ?([^\w ]) ?", r"\1", text)
    text = _NUMBER.sub(lambda m: f"{'-' if m[1] else ''}{m[2]}", _CAST.sub("", text))
    text = re.sub(r"(?<=[<,])(true|false)(?=[,>])", lambda m: _TRUTH[m[1]], text)
    return text.removeprefix("void ").replace("(void)", "()")


def _parts(text: str) -> list[str]:
    """``a<b::c>::d`` as ``a<b::c>`` and ``d``."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if depth == 0 and text.startswith("::", at):
            parts.append(text[start:at])
            start = at + 2
    return [*parts, text[start:]]


@lru_cache(maxsize=4096)
def _spellings(name: str) -> tuple[frozenset[str], ...]:
    """What a mangled name may be called, the most exact spellings first.

    The whole signature; without the parameters; without the last template arguments; without any. Each
    may lack namespaces at its beginning.
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
    """Those of ``names`` that ``wanted`` means: one, several if it is ambiguous, or none.

    A name means itself. A mangled name is also meant by its C++ name, with or without the return type,
    parameters, template arguments and namespaces: ``_Z4axpyILi4EEvPf`` by ``void axpy<(int)4>(float*)``,
    ``axpy<4>(float *)``, ``axpy<4>`` and ``axpy``. The names that need the least left out are returned.
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
