"""Runs a specialization in the simulator or on the GPU."""

from __future__ import annotations

from typing import Any

from ..core.arrays import host_bytes
from ..dsl import Tile
from ..layout import TensorMap
from ..sim import Report
from ..sim.api.options import LaunchOptions
from ..sim.api.runs import run
from .arguments import KernelArguments
from .specialize import KernelOptions, Specialization, tensor_map

__all__ = ["launch", "simulate"]

#: Every byte of an output before a simulated kernel writes it: NaN in each float type, -1 in integers.
_POISON = 0xFF


def simulate(
    special: Specialization,
    options: KernelOptions,
    arguments: KernelArguments,
    run_options: LaunchOptions | None = None,
) -> Report:
    """Run in the simulator, which writes the output arrays in place. Return the report with the outputs."""
    from .. import sim

    loaded = special.loaded.get("sim")
    if loaded is None:
        loaded = special.loaded["sim"] = sim.load(special.module, check=False)
    config = special.launch
    if arguments.fresh:
        for array in arguments.outputs:
            host_bytes(array)[...] = _POISON
    fresh = [
        position
        for position, slot in enumerate(special.slots)
        if arguments.fresh and slot.index >= options.inputs and slot.kind != "scalar"
    ]
    request = loaded.request(
        special.entry,
        config.grid,
        config.block,
        config.cluster,
        config.dynamic_smem,
        _simulator_arguments(special, options, arguments),
        (),
        outputs=fresh,
    )
    (report,) = run([request], LaunchOptions() if run_options is None else run_options)
    report.outputs = arguments.outputs
    return report


def _map(options: KernelOptions, index: int, value: Any) -> TensorMap:
    spec = options.specs[index]
    assert isinstance(spec, Tile)
    return tensor_map(options.names[index], spec, value, dtype=spec.dtype)


def _simulator_arguments(
    special: Specialization, options: KernelOptions, arguments: KernelArguments
) -> list[Any]:
    return [
        _map(options, slot.index, arguments.values[slot.index])
        if slot.kind == "map"
        else arguments.values[slot.index]
        for slot in special.slots
    ]


def launch(
    special: Specialization,
    options: KernelOptions,
    arguments: KernelArguments,
    device_index: int,
    stream: Any,
) -> None:
    """Enqueue one launch on the GPU, without waiting for it to finish."""
    from ..runtime.launch import launch as enqueue
    from ..runtime.loader import load
    from ..runtime.tensor_maps import encode

    key = ("cuda", device_index)
    loaded = special.loaded.get(key)
    if loaded is None:
        loaded = special.loaded[key] = load(
            special.lined,
            special.entry,
            dynamic_smem=special.launch.dynamic_smem,
            device_index=device_index,
        )
    packed: list[Any] = []
    for slot in special.slots:
        value, info = arguments.values[slot.index], arguments.infos[slot.index]
        if info is None:
            packed.append((value, slot.param.type))
        elif slot.kind == "map":
            packed.append(encode(_map(options, slot.index, value), info.pointer, device_index))
        else:
            packed.append(info.pointer)
    enqueue(loaded, special.launch, packed, stream)
