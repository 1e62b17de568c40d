"""Launches specializations on GPUs.

Owns the plan of each specialization on each GPU, and the values that a call gives to the plan.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.arrays import ArrayInfo
from ..core.errors import UnsupportedError
from ..dsl import ParameterSlot, Scalar, Tile
from ..runtime.debug_options import debug_options
from ..runtime.launch import launch as enqueue
from ..runtime.launch import stream_handle
from ..runtime.loader import LoadedKernel, load
from ..runtime.plan import Address, MapImage, Number, Parameter, Plan
from ..runtime.quick import fixed
from ..runtime.tensor_maps import encode, image
from ..runtime.wait_reports import load_bounded
from ..runtime.watching import make_plan, watched
from .arguments import KernelArguments, check_scalar
from .prepared import Prepared
from .signatures import Ready, Signatures
from .specialize import KernelOptions, Specialization, map_of

__all__ = ["launch", "prepare"]


def launch(
    special: Specialization,
    options: KernelOptions,
    arguments: KernelArguments,
    device_index: int,
    stream: Any,
) -> Ready | None:
    """Enqueue one launch, without waiting for it to finish; return what launches of the same signature need.

    None if such a launch must be packed anew.
    """
    plan = _plan_of(special, options, arguments, device_index)
    if plan is not None:
        flat = _flat(arguments)
        plan([flat[slot.index] for slot in special.slots], stream_handle(stream, device_index))
        return _ready_of(special, options, arguments, plan)
    packed: list[Any] = []
    for slot in special.slots:
        value, info = arguments.values[slot.index], arguments.infos[slot.index]
        if info is None:
            packed.append((value, slot.param.type))
        elif slot.kind == "map":
            packed.append(encode(map_of(options, slot.index, value), info.pointer, device_index))
        else:
            packed.append(info.pointer)
    loaded = _loaded(special, device_index)
    with watched(loaded, special.launch, stream_handle(stream, device_index)):
        enqueue(loaded, special.launch, packed, stream)
    return None


def prepare(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, device_index: int
) -> Prepared:
    """Load the kernel and pack the parameters for launches that only need to be started."""
    plan = _plan_of(special, options, arguments, device_index)
    if plan is None:
        raise UnsupportedError(
            f"{options.entry}.prepare: pyptx does not know where this driver keeps a tensor map's address",
            hint="call the kernel",
        )
    inputs, outputs = arguments.values[: options.inputs], arguments.outputs
    signatures = Signatures([isinstance(spec, Tile) for spec in options.specs])
    for fresh, out in ((False, outputs), (True, None)):
        ready = _ready_of(special, options, replace(arguments, fresh=fresh), plan)
        signatures.add(inputs, out, {}, ready)
    infos = zip(options.names, arguments.infos, strict=True)
    places = tuple(slot.index for slot in special.slots)
    flat = _flat(arguments)
    return Prepared(
        f"{options.entry}, prepared for {', '.join(_described(name, info) for name, info in infos)}",
        plan,
        [flat[place] for place in places],
        arguments,
        signatures,
        fixed(plan, places, flat),
    )


def _described(name: str, info: ArrayInfo | None) -> str:
    return (
        name if info is None else f"{name} {info.type}{list(info.shape)} on {info.device}:{info.device_index}"
    )


def _ready_of(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, plan: Plan
) -> Ready:
    """Return what launches with the signature of these arguments need."""
    made = arguments.outputs if arguments.fresh else ()
    inputs = arguments.values[: options.inputs]
    outputs = tuple(_allocator(tensor, inputs) for tensor in made)
    return Ready(plan, tuple(slot.index for slot in special.slots), plan.kernel.device_index, outputs)


def _allocator(tensor: Any, inputs: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """Return a function of a call's inputs that allocates a tensor like this one."""
    torch = sys.modules["torch"]
    for number, each in enumerate(inputs):
        if isinstance(each, torch.Tensor) and (each.shape, each.dtype) == (tensor.shape, tensor.dtype):
            return lambda given: torch.empty_like(given[number])
    empty = partial(torch.empty, tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return lambda given: empty()


def _loaded(special: Specialization, device_index: int) -> LoadedKernel:
    """Return the kernel on a GPU; the first use loads it."""
    key = ("cuda", device_index)
    loaded: LoadedKernel | None = special.loaded.get(key)
    if loaded is None and (seconds := debug_options().waits) is not None:
        loaded = special.loaded[key] = load_bounded(
            special.module,
            special.entry,
            dynamic_smem=special.launch.dynamic_smem,
            device_index=device_index,
            seconds=seconds,
        )
    if loaded is None:
        loaded = special.loaded[key] = load(
            special.lined,
            special.entry,
            dynamic_smem=special.launch.dynamic_smem,
            device_index=device_index,
        )
    return loaded


def _flat(arguments: KernelArguments) -> list[Any]:
    """Return the address or the number of each argument."""
    pairs = zip(arguments.values, arguments.infos, strict=True)
    return [value if info is None else info.pointer for value, info in pairs]


def _plan_of(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, device_index: int
) -> Plan | None:
    """Return the launch of a specialization on a GPU, made at its first use.

    None if this driver keeps addresses elsewhere in tensor maps than known: then each launch packs anew.
    """
    if device_index not in special.plans:
        parameters = [_parameter(slot, options, arguments, device_index) for slot in special.slots]
        special.plans[device_index] = (
            None
            if None in parameters
            else make_plan(
                _loaded(special, device_index), special.launch, [p for p in parameters if p is not None]
            )
        )
    plan: Plan | None = special.plans[device_index]
    return plan


def _parameter(
    slot: ParameterSlot, options: KernelOptions, arguments: KernelArguments, device_index: int
) -> Parameter | None:
    """Return how the plan fills a parameter of the entry; None for a tensor map that cannot be patched."""
    spec, info = options.specs[slot.index], arguments.infos[slot.index]
    if isinstance(spec, Scalar):
        return Number(spec.type, partial(check_scalar, options.names[slot.index], spec))
    assert info is not None
    if slot.kind == "pointer":
        return Address()
    raw = image(map_of(options, slot.index, arguments.values[slot.index]), info.pointer, device_index)
    return None if raw is None else MapImage(raw)
