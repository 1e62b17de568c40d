"""Runs a specialization in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import host_bytes, is_array, to_numpy
from ..core.errors import SpecError
from ..core.types import u8
from ..dsl import Tile
from ..runtime.workspaces import Space
from ..sim import Report
from ..sim.api.options import LaunchOptions
from ..sim.api.reference import expected_outputs
from ..sim.api.runs import Request, run
from .arguments import KernelArguments, allocate
from .foreign import owner_of
from .specialize import KernelOptions, Specialization, argument_of, spaces_of

__all__ = ["outputs_of", "request_of", "simulate"]

#: Every byte of an output before a simulated kernel writes it: NaN in each float type, -1 in integers.
_POISON = 0xFF


def simulate(
    special: Specialization,
    options: KernelOptions,
    arguments: KernelArguments,
    run_options: LaunchOptions | None = None,
    reference: tuple[Sequence[Any] | None, float | None, float | None] = (None, None, None),
) -> Report:
    """Run in the simulator, which writes the output arrays in place. Return the report with the outputs.

    ``reference`` has what the outputs must be, or None, and the tolerances.
    """
    request, zeroed = request_of(special, options, arguments)
    values = request.args
    wanted = _by_position(special, options, reference[0]) or {}
    wanted = {**wanted, **{n: np.zeros_like(values[n]) for n in zeroed}}
    names = {place: options.parameters[slot.index][0] for place, slot in enumerate(special.slots)}
    expected = expected_outputs(wanted or None, values, *reference[1:], names)
    request = replace(request, expected=expected)
    (report,) = run([request], LaunchOptions() if run_options is None else run_options)
    report.outputs = tuple(owner_of(each) for each in arguments.outputs)
    return report


def outputs_of(reference: Any, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """Return the outputs that a reference names, or computes from copies of the inputs; None without one."""
    if callable(reference):
        copies = [to_numpy(value).copy() if is_array(value) else value for value in inputs]
        reference = reference(*copies)
        if reference is None:
            raise SpecError("the reference returned None: expected the output, or a tuple of the outputs")
    if reference is None:
        return None
    return reference if isinstance(reference, (tuple, list)) else [reference]


def _by_position(
    special: Specialization, options: KernelOptions, wanted: Sequence[Any] | None
) -> dict[int, Any] | None:
    """Return what each output must be, by the position of an argument of the entry."""
    if wanted is None:
        return None
    names = options.names[options.inputs :]
    if len(wanted) != len(names):
        raise SpecError(f"{options.entry} has {len(names)} outputs, but the reference has {len(wanted)}")
    places: dict[int, int] = {}
    for position, slot in enumerate(special.slots):
        if slot.kind in ("map", "pointer") and options.inputs <= slot.index < len(options.names):
            places.setdefault(slot.index - options.inputs, position)
    return {place: wanted[number] for number, place in places.items()}


def _memory_of(space: Space) -> Any:
    """Return the memory of a workspace on the host, aligned as the allocators of GPUs do."""
    memory = allocate("workspace", Tile(space.nbytes, u8), {}, None)
    memory[...] = 0 if space.zeroed else _POISON
    return memory


def request_of(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, *, poison: bool = True
) -> tuple[Request, list[int]]:
    """Return the launch as the simulator takes it, and the positions of memory that must be 0 at its end.

    ``poison`` fills outputs that the call allocated.
    """
    from .. import sim

    loaded = special.loaded.get("sim")
    if loaded is None:
        loaded = special.loaded["sim"] = sim.load(special.module, check=False)
    config = special.launch
    if arguments.fresh and poison:
        for array in arguments.outputs:
            host_bytes(array)[...] = _POISON
    spaces = spaces_of(options, special.dims)
    given = [*arguments.values, *map(_memory_of, spaces)]
    count = len(arguments.values)
    arrays = [(n, slot.index) for n, slot in enumerate(special.slots) if slot.kind in ("map", "pointer")]
    fresh = [n for n, index in arrays if arguments.fresh and options.inputs <= index < count]
    undefined = [n for n, index in arrays if index >= count and not spaces[index - count].zeroed]
    zeroed = [n for n, index in arrays if index >= count and spaces[index - count].zeroed]
    values = [argument_of(special, options, slot, given[slot.index]) for slot in special.slots]
    request = loaded.request(
        special.entry,
        config.grid,
        config.block,
        config.cluster,
        config.dynamic_smem,
        values,
        undefined,
        outputs=fresh,
    )
    return replace(request, launch=config), zeroed
