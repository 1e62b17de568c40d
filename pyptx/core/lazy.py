"""Names that a package, or a module that gathers names, imports at their first use.

Owns :func:`lazily`, which makes the ``__getattr__`` of such a namespace.  For type checkers the namespace
imports the same names under ``TYPE_CHECKING``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .collection import uncollected

__all__ = ["lazily"]


def lazily(
    namespace: str,
    owned: Mapping[str, Sequence[str]],
    *,
    package: str = "",
    prepare: Callable[[str, Any], Any] | None = None,
) -> Callable[[str], Any]:
    """Return ``__getattr__`` for a namespace, which imports a name when it is first asked for.

    Args:
        namespace: the ``__name__`` of the package or module.
        owned: the names that each module owns.  A module whose names are ``()`` is itself a name.  No other
            name of a package may be that of one of its modules: an import of the module would take its place.
        package: the package that the modules belong to; the namespace itself if it is empty.
        prepare: makes the value that the name gets, from the name and what the module has.
    """
    home = package or namespace
    homes = {name: (module, name) for module, names in owned.items() for name in names}
    homes |= {module.rpartition(".")[2]: (module, "") for module, names in owned.items() if not names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {namespace!r} has no attribute {name!r}")
        module, attribute = homes[name]
        with uncollected():
            value: Any = import_module(f"{home}.{module}")
            if attribute:
                value = getattr(value, attribute)
        if prepare is not None:
            value = prepare(name, value)
        setattr(sys.modules[namespace], name, value)
        return value

    return __getattr__
