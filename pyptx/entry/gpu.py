"""Launches specializations on GPUs.

Owns the plan of each specialization on each GPU, the template of each recording, and the values that a call
gives to a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.arrays import ArrayInfo, is_tensor
from ..core.errors import UnsupportedError
from ..dsl import Scalar, Tile
from ..runtime.debug_options import debug_options
from ..runtime.launch import launch as enqueue
from ..runtime.launch import stream_handle
from ..runtime.loader import LoadedKernel, load
from ..runtime.plan import Address, Constant, MapImage, Number, Parameter, Plan
from ..runtime.quick import entry, fixed
from ..runtime.tensor_maps import encode, template
from ..runtime.watching import make_plan, watched
from .arguments import KernelArguments, check_scalar
from .prepared import Prepared
from .ready import Ready, allocator_like, versioned
from .signatures import Signatures
from .sizes import Output, Sizes, Template
from .specialize import KernelOptions, Specialization, map_of, spaces_of

__all__ = ["launch", "prepare"]


def launch(
    special: Specialization,
    options: KernelOptions,
    arguments: KernelArguments,
    device_index: int,
    stream: Any,
) -> tuple[Ready, Sizes] | None:
    """Enqueue one launch, without waiting for it to finish; return what further launches need.

    These are the launch for the same signature, and the launches for the same dtypes and other sizes.  None
    if such launches must be packed anew, as with arrays of other libraries than torch.
    """
    spaces = spaces_of(options, special.dims)
    plan = _plan_of(special, options, arguments, device_index)
    if plan is not None:
        handle = stream_handle(stream, device_index)
        held = special.memory.tensors(spaces, device_index, handle) if spaces else []
        flat = [*_flat(arguments), *(tensor.data_ptr() for tensor in held)]
        plan([flat[place] for place in special.recorded.places], handle)
        arrays = [value for value in arguments.values if not isinstance(value, (int, float))]
        if not all(map(is_tensor, arrays)):
            return None
        outputs = _outputs(options, arguments)
        return _ready(special, options, plan, outputs), Sizes(options, special, device_index, outputs)
    if spaces:
        raise _no_template(options.entry, "this driver's tensor maps", "call a kernel without workspaces")
    packed: list[Any] = []
    for slot in special.slots:
        value, info = arguments.values[slot.index], arguments.infos[slot.index]
        if slot.kind == "extent":
            packed.append((special.dims[slot.dim], slot.param.type))
        elif info is None:
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
        raise _no_template(f"{options.entry}.prepare", "a prepared launch", "call the kernel")
    inputs, outputs = arguments.values[: options.inputs], arguments.outputs
    signatures = Signatures(options.specs)
    ready = _ready(special, options, plan, ())
    signatures.add(inputs, outputs or None, {}, ready, None)
    made = _outputs(options, replace(arguments, fresh=True))
    signatures.add(inputs, None, {}, _ready(special, options, plan, made), None)
    infos = zip(options.names, arguments.infos, strict=True)
    places = special.recorded.places
    flat = _flat(arguments)
    spaces = bool(options.workspaces)
    return Prepared(
        f"{options.entry}, prepared for {', '.join(_described(name, info) for name, info in infos)}",
        plan,
        [] if spaces else [flat[place] for place in places],
        arguments,
        signatures,
        partial(_launch_with_spaces, ready, flat, arguments.outputs)
        if spaces
        else fixed(plan, places, flat, versioned(arguments.written)),
    )


def _launch_with_spaces(ready: Ready, flat: Sequence[Any], outputs: Sequence[Any], stream: Any) -> bool:
    """Launch with the addresses and numbers in ``flat``, and with the workspaces of the stream."""
    ready.launch((), list(flat), list(outputs), stream)
    return True


def _described(name: str, info: ArrayInfo | None) -> str:
    return (
        name if info is None else f"{name} {info.type}{list(info.shape)} on {info.device}:{info.device_index}"
    )


def _no_template(who: str, what: str, hint: str) -> UnsupportedError:
    return UnsupportedError(
        f"{who}: pyptx does not know how this driver encodes tensor maps, which {what} needs", hint=hint
    )


def _ready(special: Specialization, options: KernelOptions, plan: Plan, outputs: Sequence[Output]) -> Ready:
    """Return what launches with the signature of these arguments need."""
    places = special.recorded.places
    allocators = tuple(output.allocator(special.dims) for output in outputs)
    device_index = plan.kernel.device_index
    return Ready(plan, places, device_index, allocators, spaces_of(options, special.dims), special.memory)


def _outputs(options: KernelOptions, arguments: KernelArguments) -> list[Output]:
    """Return the outputs that were allocated for this call, and that further calls allocate."""
    if not arguments.fresh:
        return []
    found = []
    for spec, tensor in zip(options.specs[options.inputs :], arguments.outputs, strict=True):
        assert isinstance(spec, Tile)
        like = next(
            (
                number
                for number, (other, value) in enumerate(
                    zip(options.specs[: options.inputs], arguments.values, strict=False)
                )
                if is_tensor(value)
                and isinstance(other, Tile)
                and (other.dims, value.dtype) == (spec.dims, tensor.dtype)
            ),
            None,
        )
        allocate = None if like is None else allocator_like(like)
        found.append(Output(spec.dims, tensor.dtype, tensor.device, allocate))
    return found


def _loaded(special: Specialization, device_index: int) -> LoadedKernel:
    """Return the kernel on a GPU; the first use loads it."""
    key = ("cuda", device_index)
    loaded: LoadedKernel | None = special.loaded.get(key)
    if loaded is None and (seconds := debug_options().waits) is not None:
        from ..runtime.wait_reports import load_bounded

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
            plain=lambda: special.printed.text,
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

    None if this driver encodes tensor maps in another way than known: then each launch packs anew.
    """
    if device_index not in special.plans:
        special.plans[device_index] = _make_plan(special, options, arguments, device_index)
    plan: Plan | None = special.plans[device_index]
    return plan


def _make_plan(
    special: Specialization, options: KernelOptions, arguments: KernelArguments, device_index: int
) -> Plan | None:
    """Make a launch; the first one of a recording becomes the template for other sizes."""
    parameters: list[Parameter] = []
    maps = []
    extents = []
    for number, slot in enumerate(special.slots):
        name, spec = options.parameters[slot.index]
        if isinstance(spec, Scalar):
            parameters.append(Number(spec.type, partial(check_scalar, name, spec)))
        elif slot.kind == "extent":
            parameters.append(Constant(special.dims[slot.dim].to_bytes(8, "little")))
            extents.append((number, slot.dim))
        elif slot.kind == "pointer":
            parameters.append(Address())
        else:
            info = arguments.infos[slot.index]
            assert info is not None
            tensor_map = map_of(options, slot.index, arguments.values[slot.index])
            made = template(tensor_map, info.pointer, device_index)
            if made is None:
                return None
            parameters.append(MapImage(made.image))
            if spec.tma_shape is None:  # else its dims are numbers, and the map never changes
                maps.append((number, made.of_dims(spec.dims)))
    plan = make_plan(_loaded(special, device_index), special.launch, parameters)
    places = special.recorded.places
    # The compiled path does not know workspaces.
    compiled = None if options.workspaces else entry(plan, places)
    special.recorded.templates.setdefault(
        device_index, Template(plan, compiled, places, tuple(maps), tuple(extents))
    )
    return plan
