"""Predicts how long a launch of a pyptx kernel takes.

Owns how a kernel's inputs, which may be shapes, become the arrays of a launch, and its workspaces memory that
is zero when the launch begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ..core.errors import SpecError
from ..dsl import Tile
from ..sim import unknown
from .arguments import KernelArguments
from .execute import request_of
from .prediction import Conditions, Prediction, predict_request
from .specialize import KernelOptions, Specialization

__all__ = ["numbers_of", "predict_launch", "with_arrays"]


def predict_launch(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, conditions: Conditions
) -> Prediction:
    """Return the prediction of a launch. Arguments and errors are those of :meth:`.Kernel.predict`."""
    request, zeroed = request_of(special, options, arguments, poison=False)
    return predict_request(request, conditions, frozenset(zeroed))


def numbers_of(options: KernelOptions, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords that are numbers which a kernel takes: none of its dims, but a scalar input."""
    specs = zip(options.names, options.specs[: options.inputs], strict=False)
    scalars = {name for name, spec in specs if not isinstance(spec, Tile)} - set(options.dims)
    return {name: value for name, value in keywords.items() if name in scalars}


def with_arrays(
    options: KernelOptions, given: Sequence[Any], dims: Mapping[str, int], numbers: Mapping[str, Any]
) -> list[Any]:
    """Return the inputs with an array of unknown contents for each shape.

    Args:
        options: the kernel's.
        given: the inputs in order, or none.
        dims: without inputs, what gives their shapes.
        numbers: without inputs, the numbers that the kernel takes.

    Raises:
        SpecError: a shape with other than positive integers; numbers by name beside inputs; without inputs,
            numbers or dims that are not given.
    """
    found: list[Any] = []
    if given and numbers:
        raise SpecError(
            f"{options.entry} got inputs in order, and {', '.join(numbers)} by name",
            hint="give all inputs in order, or none of them: dims and numbers by name say what they are",
        )
    if not given:
        given = _inputs_of(options, dims, numbers)
    for value, name, spec in zip_longest(given, options.names[: len(given)], options.specs[: len(given)]):
        if isinstance(value, tuple) and isinstance(spec, Tile):
            if not all(isinstance(n, int) and n > 0 for n in value):
                raise SpecError(f"{name} = {value!r}: expected an array, or a shape of positive integers")
            value = unknown(value, spec.dtype)
        found.append(value)
    return found


def _inputs_of(options: KernelOptions, dims: Mapping[str, int], numbers: Mapping[str, Any]) -> list[Any]:
    """Return the shapes of a kernel's inputs from its dims, and its numbers."""
    specs = list(zip(options.names, options.specs[: options.inputs], strict=False))
    lacking = [name for name, spec in specs if not isinstance(spec, Tile) and name not in numbers]
    if lacking:
        raise SpecError(
            f"{options.entry} takes numbers that were not given: {', '.join(lacking)}",
            hint=f"give {lacking[0]}=..., or all inputs in order: arrays or shapes, and numbers",
        )
    missing = [name for name in options.dims if name not in dims]
    if missing:
        raise SpecError(
            f"{options.entry} has dims that were not given: {', '.join(missing)}",
            hint=f"give {missing[0]}=..., or the shapes of the inputs",
        )
    return [spec.shape(dict(dims)) if isinstance(spec, Tile) else numbers[name] for name, spec in specs]
