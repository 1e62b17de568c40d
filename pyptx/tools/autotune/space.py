"""The search space of a tuning: named choices, row by row, and the product of stacked decorators.

Owns :class:`Axis`, one decorator's names and rows, the checks of what a decorator was given, and the list of
all configurations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.errors import SpecError
from ...core.records import dataclass

__all__ = ["Axis", "Configuration", "axis", "check_names", "configurations", "written"]

#: The tuned names with their values.
Configuration = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """What one decorator varies.

    Attributes:
        names: the tuned names.
        rows: the values of the names, one tuple for each choice.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def axis(names: str, rows: Iterable[Any]) -> Axis:
    """Return the axis that a decorator describes.

    Args:
        names: one name, or several with commas between them.
        rows: for each choice a list or tuple of values, one for each name. For a single name a row may be the
            value itself.

    Raises:
        SpecError: the names or rows are not of this form, or a row occurs twice.
    """
    if not isinstance(names, str):
        raise SpecError(f"autotune: the names are {names!r}: expected text such as 'block_m, block_n'")
    words = tuple(word.strip() for word in names.split(","))
    for word in words:
        if not word.isidentifier():
            raise SpecError(f"autotune: {word!r} in {names!r} is not a name")
        if words.count(word) > 1:
            raise SpecError(f"autotune: {names!r} has {word!r} twice")
    if isinstance(rows, (str, bytes, dict)) or not isinstance(rows, Iterable):
        raise SpecError(f"autotune: the rows of {names!r} are {rows!r}: expected a list of rows")
    found = tuple(_row(words, number, row) for number, row in enumerate(rows))
    if not found:
        raise SpecError(f"autotune: {names!r} has no rows: expected at least one choice")
    for number, row in enumerate(found):
        for earlier in range(number):
            if _same(row, found[earlier]):
                raise SpecError(f"autotune: row {number} of {names!r} repeats row {earlier}: {written(row)}")
    return Axis(words, found)


def _row(names: tuple[str, ...], number: int, row: Any) -> tuple[Any, ...]:
    if len(names) == 1 and not (isinstance(row, list) and len(row) == 1):
        return (row,)
    if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
        raise SpecError(
            f"autotune: row {number} is {row!r}: expected {len(names)} values, for {', '.join(names)}"
        )
    if len(row) != len(names):
        raise SpecError(
            f"autotune: row {number} has {len(row)} values, {list(row)!r}, "
            f"for {len(names)} names: {', '.join(names)}"
        )
    return tuple(row)


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    # 1, True and 1.0 compare equal, but they are different values of a constant.
    return all(type(x) is type(y) and bool(x == y) for x, y in zip(a, b, strict=True))


def check_names(axes: Sequence[Axis], known: Iterable[str] | None, what: str) -> None:
    """Raise :class:`SpecError` if two decorators vary one name, or if ``what`` has no parameter of a name.

    ``known`` are the parameters; None if ``what`` takes any keyword.
    """
    varied: set[str] = set()
    for each in axes:
        for name in each.names:
            if name in varied:
                raise SpecError(f"autotune: two decorators of {what} vary {name!r}")
            varied.add(name)
    if known is None:
        return
    choices = list(known)
    for name in varied:
        if name not in choices:
            raise SpecError(
                f"autotune: {what} has no parameter {name!r}; it has: {', '.join(choices) or 'none'}"
            )


def configurations(axes: Sequence[Axis]) -> list[Configuration]:
    """Return every combination of one row of each axis, the last axis varying fastest."""
    found = []
    for rows in itertools.product(*(each.rows for each in axes)):
        found.append(
            {
                name: value
                for each, row in zip(axes, rows, strict=True)
                for name, value in zip(each.names, row, strict=True)
            }
        )
    return found


def written(values: Configuration | Sequence[Any]) -> str:
    """Return a configuration, or a row of values, for messages and tables; a function by its name."""

    def one(value: Any) -> str:
        return str(getattr(value, "__name__", None) or repr(value))

    if isinstance(values, dict):
        return ", ".join(f"{name}={one(value)}" for name, value in values.items())
    return ", ".join(map(one, values))
