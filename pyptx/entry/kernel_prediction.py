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

__all__ = ["predict_launch", "with_arrays"]


def predict_launch(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, conditions: Conditions
) -> Prediction:
    """Return the prediction of a launch. Arguments and errors are those of :meth:`.Kernel.predict`."""
    request, zeroed = request_of(special, options, arguments, poison=False)
    return predict_request(request, conditions, frozenset(zeroed))


def with_arrays(options: KernelOptions, given: Sequence[Any], dims: Mapping[str, int]) -> list[Any]:
    """Return the inputs with an array of unknown contents for each shape; without inputs, for the dims.

    Raises:
        SpecError: a shape with other than positive integers; without inputs, a kernel that takes numbers, or
            dims that are not given.
    """
    found: list[Any] = []
    if not given:
        given = _shapes_of(options, dims)
    for value, name, spec in zip_longest(given, options.names[: len(given)], options.specs[: len(given)]):
        if isinstance(value, tuple) and isinstance(spec, Tile):
            if not all(isinstance(n, int) and n > 0 for n in value):
                raise SpecError(f"{name} = {value!r}: expected an array, or a shape of positive integers")
            value = unknown(value, spec.dtype)
        found.append(value)
    return found


def _shapes_of(options: KernelOptions, dims: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Return the shapes of a kernel's inputs from its dims."""
    specs = options.specs[: options.inputs]
    numbers = [name for name, spec in zip(options.names, specs, strict=False) if not isinstance(spec, Tile)]
    if numbers:
        raise SpecError(
            f"{options.entry} takes numbers ({', '.join(numbers)}), which no dim gives",
            hint="give all inputs in order: arrays or shapes, and numbers",
        )
    missing = [name for name in options.dims if name not in dims]
    if missing:
        raise SpecError(
            f"{options.entry} has dims that were not given: {', '.join(missing)}",
            hint=f"give {missing[0]}=..., or the shapes of the inputs",
        )
    return [spec.shape(dict(dims)) for spec in specs if isinstance(spec, Tile)]
