"""Checks of what ``@kernel`` is told: its options, and the parameters of the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence

from ..core.errors import SpecError
from ..dsl import Scalar, Tile, Workspace

__all__ = ["parameter_names", "positive", "whole"]


def positive(what: str, value: int | None) -> int | None:
    """Return an option that is None or a positive number. Raises :class:`SpecError` for others."""
    if value is not None and (isinstance(value, bool) or value < 1):
        raise SpecError(f"{what} is {value!r}: expected a positive number")
    return value


def whole(what: str, value: int | None, least: int, most: int) -> int | None:
    """Return an option that is None or a whole number of a range. Raises :class:`SpecError` for others."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_whole and least <= value <= most):
        raise SpecError(f"{what} is {value!r}: expected a whole number from {least} to {most}")
    return value


def parameter_names(
    function: Callable[..., None],
    specs: Sequence[Tile | Scalar],
    inputs: int,
    workspaces: Sequence[Workspace],
    reserved: Collection[str],
) -> tuple[str, ...]:
    """Return the names of the positional parameters: of the specs, then of the workspaces.

    Args:
        function: the kernel function.
        specs: specs of the inputs and outputs.
        inputs: number of inputs.
        workspaces: the workspaces.
        reserved: keywords that a constant cannot have.

    Raises:
        SpecError: the function's parameters do not match the specs, or a spec is none.
    """
    name = function.__name__
    for space in workspaces:
        if not isinstance(space, Workspace):
            raise SpecError(f"{name}: workspaces has {space!r}: expected a Workspace")
    for spec in specs[inputs:]:
        if not isinstance(spec, Tile):
            raise SpecError(f"{name}: an output is a Tile, not {spec!r}", hint="list scalars in in_specs")
    for spec in specs[:inputs]:
        if not isinstance(spec, (Tile, Scalar)):
            raise SpecError(f"{name}: an input is a Tile or a Scalar, not {spec!r}")
    positional: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise SpecError(
                f"{name}: a kernel cannot have *{parameter.name}",
                hint="declare each parameter and constant by its name",
            )
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(parameter.name)
        elif parameter.name in reserved:
            raise SpecError(
                f"{name}: a constant cannot be called {parameter.name!r}, which is a keyword of the call",
                hint="rename the constant",
            )
    if len(positional) != len(specs) + len(workspaces):
        more = f" and {len(workspaces)} workspaces" if workspaces else ""
        raise SpecError(
            f"{name} has {len(positional)} positional parameters ({', '.join(positional)}), "
            f"but {inputs} in_specs{',' if more else ' and'} {len(specs) - inputs} out_specs{more}",
            hint="list the inputs, then the outputs; put constants after `*`, as keyword-only parameters",
        )
    return tuple(positional)
