"""What a worker process is told about a candidate, as values that JSON can hold.

Owns the description of a launch: the file with the text, the configuration, the arrays by dtype, shape and
contents, and how each parameter is filled. No Python object of the user goes to the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...core.arrays import ArrayInfo, describe, host_bytes, is_array
from ...core.types import ScalarType
from ...dsl import Tile
from ...entry.arguments import check_scalar
from ...entry.specialize import KernelOptions
from .candidates import Candidate

__all__ = ["Inputs", "description", "is_random"]


def is_random(type: ScalarType) -> bool:
    """True if a worker fills arrays of this type with random numbers, False if with the caller's contents.

    Random integers could be indices that lead anywhere, and random exponents are no scales.
    """
    return type.kind == "f" and type.lanes == 1 and type.dtype is not None and type.name != "ue8m0"


class Inputs:
    """The inputs of a tuning: their types and shapes, and the contents of those that are not random.

    Args:
        arrays: the inputs of the call.
        folder: where contents are written for the worker.
    """

    def __init__(self, arrays: Sequence[Any], folder: Path) -> None:
        self.values = tuple(arrays)
        self.infos: list[ArrayInfo | None] = []
        self._files: dict[int, str] = {}
        for number, value in enumerate(arrays):
            info = describe(value) if is_array(value) else None
            self.infos.append(info)
            if info is not None and not is_random(info.type):
                held = value.cpu() if info.device == "cuda" else value
                path = folder / f"input{number}.bin"
                path.write_bytes(host_bytes(held).tobytes())
                self._files[number] = str(path)

    def array(self, number: int, spec: Tile, dims: dict[str, int], options: KernelOptions) -> dict[str, Any]:
        """Describe the array of kernel parameter ``number``: an input, an output, or a workspace."""
        inputs = options.inputs
        info = self.infos[number] if number < inputs else None
        return {
            "role": "in" if number < inputs else "out" if number < len(options.specs) else "workspace",
            "type": (info.type if info is not None else spec.dtype).name,
            "shape": list(spec.shape(dims)),
            "contents": self._files.get(number) if number < inputs else None,
        }


def description(candidate: Candidate, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Describe the launch of a candidate, and write its text into ``folder``."""
    kernel, special = candidate.kernel, candidate.special
    assert kernel is not None and special is not None
    options = kernel.options
    text = folder / f"candidate{candidate.number}.ptx"
    text.write_text(special.lined.text, encoding="utf-8")
    arrays = [
        inputs.array(number, spec, special.dims, options) if isinstance(spec, Tile) else None
        for number, (_, spec) in enumerate(options.parameters)
    ]
    parameters: list[dict[str, Any]] = []
    for slot in special.slots:
        name, spec = options.parameters[slot.index]
        if slot.kind == "extent":
            extent = special.dims[slot.dim]
            parameters.append({"kind": "scalar", "type": slot.param.type.name, "value": extent})
        elif not isinstance(spec, Tile):
            value = check_scalar(name, spec, inputs.values[slot.index])
            parameters.append({"kind": "scalar", "type": spec.type.name, "value": value})
        elif slot.kind == "map":
            assert spec.tma_box is not None
            parameters.append(
                {
                    "kind": "map",
                    "array": slot.index,
                    "type": spec.dtype.name,
                    "box": list(spec.tma_box),
                    "swizzle": spec.layout.swizzle,
                    "promotion": spec.tma_promotion,
                    "shape": spec.tma_shape or spec.shape(special.dims),
                    "strides": spec.tma_strides,
                }
            )
        else:
            parameters.append({"kind": "pointer", "array": slot.index})
    return {
        "text": str(text),
        "entry": special.entry,
        "launch": asdict(special.launch),
        "arrays": arrays,
        "parameters": parameters,
    }
