"""Loading a module into the simulator and launching its entries.

Owns the way from arguments (arrays, tensor maps, numbers) to the bytes of the parameter space, and the
public face of the simulator: :func:`load`, :class:`LoadedModule`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import describe, host_bytes, is_array
from ..core.errors import SpecError
from ..core.findings import Finding
from ..ir import Function, Launch, Module, Param, parse_module
from ..layout.tensor_map import TensorMap
from .code.image import Image
from .code.program import Program
from .limits import Limits, Progress
from .machine import Machine
from .memory import Fault, Memory, Segment
from .report import Report
from .schedule import make_policy

__all__ = ["LoadedModule", "load"]

#: CTAs of a cluster, at most: what is beyond 8 a launch has to ask for.
LARGEST_CLUSTER = 16


def load(module: Module | str) -> LoadedModule:
    """Make a module, or PTX text from anywhere, ready to launch in the simulator.

    Raises:
        ParseError: text that is not PTX.
        SpecError: neither a module nor text.
    """
    if isinstance(module, str):
        module = parse_module(module)
    if not isinstance(module, Module):
        raise SpecError(f"sim.load takes an ir.Module or PTX text, got {type(module).__name__}")
    return LoadedModule(module)


class LoadedModule:
    """A module in the simulator. Blocks of code are translated once, for all launches."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._image: Image | None = None
        self._programs: dict[tuple[str, bool], Program] = {}

    @property
    def image(self) -> Image:
        """The module laid out in memory: its variables keep their contents from launch to launch."""
        if self._image is None:
            self._image = Image(self.module)
        return self._image

    def variable(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a ``.global`` or ``.const`` variable, to read and to write between launches."""
        found = self.image.find(name)
        if found is None:
            known = sorted(v.name for v in self.module.variables if v.space in ("global", "const"))
            raise SpecError(f"no variable {name!r}; the module has {', '.join(known) or 'none'}")
        return found

    def launch(
        self,
        entry: str | None = None,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        cluster: int | Sequence[int] = (1, 1, 1),
        dynamic_smem: int = 0,
        args: Sequence[Any] = (),
        schedule: str = "eager",
        seed: int = 0,
        sanitize: bool | str = True,
        max_steps: int | None = None,
        timeout: float | None = None,
        memory: int = Limits.memory,
        progress: Callable[[Progress], None] | None = None,
        uninitialised: Sequence[int] = (),
    ) -> Report:
        """Run ``entry`` (the only one if None) to its end and report.

        Args:
            grid, block, cluster: extents in x, y, z.
            dynamic_smem: bytes of dynamic shared memory.
            args: one per parameter: arrays and CPU tensors (global pointers; written in place),
                :class:`TensorMap` values, numbers for scalars, bytes or structured numpy scalars for structs.
            schedule: ``eager``, ``late``, ``random`` (with ``seed``) or ``starve:tma|mma|ld|store``.
            sanitize: bounds, alignment and initialisation are always checked; ``"strict"`` promotes
                findings for review to errors.
            max_steps: warp-instructions after which the run ends as ``incomplete``: 10**9 if None.
            timeout: seconds after which it does.
            memory: bytes of the host's memory for the threads of the CTAs that run at once; fewer do where
                it is not enough for as many as the GPU would run.
            progress: called about once a second with a :class:`Progress`.
            uninitialised: positions of array arguments whose contents count as never written.

        Raises:
            SpecError: arguments or extents that do not fit the entry. What the kernel does wrong is in the
                report, not raised.
        """
        try:
            function = self.module.entry(entry)
        except KeyError as error:
            raise SpecError(str(error.args[0])) from None
        try:
            launch = Launch(
                Launch.extent(grid), Launch.extent(block), Launch.extent(cluster), int(dynamic_smem)
            )
        except ValueError as error:
            raise SpecError(str(error)) from None
        required = function.directive("reqnctapercluster")
        if required is not None and launch.cluster == (1, 1, 1):
            # As the driver: what the kernel was built for, where the launch does not say.
            launch = replace(launch, cluster=Launch.extent(required))
        _check_launch(function, launch)
        policy = make_policy(schedule, seed)
        started = time.perf_counter()
        findings: list[Finding] = []
        steps = events = 0
        printed: list[str] = []
        try:
            limits = Limits(Limits.max_steps if max_steps is None else max_steps, timeout, memory)
            machine = Machine(self._program(function, launch), launch, policy, limits, progress=progress)
        except Fault as fault:
            findings.append(fault.finding)
        else:
            bind_arguments(machine.memory, machine.program, args, frozenset(uninitialised))
            machine.run()
            findings, steps, events = machine.findings, machine.steps, machine.engines.executed
            printed = machine.printed
        name = f"{schedule} (seed {seed})" if schedule == "random" else schedule
        return Report(
            function.name,
            name,
            findings,
            steps,
            events,
            time.perf_counter() - started,
            strict=sanitize == "strict",
            printed="".join(printed),
        )

    def _program(self, function: Function, launch: Launch) -> Program:
        clustered = launch.cluster != (1, 1, 1)
        program = self._programs.get((function.name, clustered))
        if program is None:
            program = Program(self.image, function, clustered=clustered)
            self._programs[function.name, clustered] = program
        return program


def _check_launch(function: Function, launch: Launch) -> None:
    threads = int(np.prod(launch.block))
    if launch.dynamic_smem < 0:
        raise SpecError(f"{launch.dynamic_smem} bytes of dynamic shared memory")
    if threads > 1024:
        raise SpecError(f"block {launch.block} has {threads} threads; a CTA has at most 1024")
    exact = function.directive("reqntid")
    if exact is not None and (*exact, 1, 1)[:3] != launch.block:
        raise SpecError(f"block {launch.block}, but {function.name} was built for {exact} (.reqntid)")
    most = function.directive("maxntid")
    if most is not None and threads > int(np.prod(most)):
        raise SpecError(f"block {launch.block} exceeds {function.name}'s .maxntid {most}")
    required = function.directive("reqnctapercluster")
    if required is not None and (*required, 1, 1)[:3] != launch.cluster:
        raise SpecError(
            f"cluster {launch.cluster}, but {function.name} was built for {required} (.reqnctapercluster)"
        )
    size = int(np.prod(launch.cluster))
    if size > LARGEST_CLUSTER:
        raise SpecError(f"cluster {launch.cluster} has {size} CTAs; a cluster has at most {LARGEST_CLUSTER}")
    if any(grid % extent for grid, extent in zip(launch.grid, launch.cluster, strict=True)):
        raise SpecError(f"grid {launch.grid} is not whole clusters of {launch.cluster}")


def bind_arguments(
    memory: Memory, program: Program, args: Sequence[Any], uninitialised: frozenset[int]
) -> None:
    """Map arrays into global memory and write the parameter space."""
    params = program.function.params
    if len(args) != len(params):
        names = ", ".join(p.name for p in params)
        raise SpecError(f"{len(args)} arguments given; {program.function.name} has {len(params)}: {names}")
    raw = np.zeros(max(program.entry.param_bytes, 1), np.uint8)
    mapped: dict[tuple[int, int], Segment] = {}
    for position, (param, value) in enumerate(zip(params, args, strict=True)):
        offset = program.entry.symbols[param.name][1]
        data = _encode(memory, mapped, param, value, position in uninitialised)
        raw[offset : offset + param.nbytes] = np.frombuffer(data, np.uint8)
    memory.params = Segment("parameters", "param", 0, raw, tracked=False)


def _encode(
    memory: Memory, mapped: dict[tuple[int, int], Segment], param: Param, value: Any, tracked: bool
) -> bytes:
    if isinstance(value, TensorMap):
        if param.nbytes != 128:
            raise SpecError(f"a tensor map for parameter {param.name}, which has {param.nbytes} bytes")
        if value.array is None:
            raise SpecError(
                f"the tensor map for {param.name} was made from an address; the simulator needs the array"
            )
        start = _map_array(memory, mapped, param.name, value.array, tracked)
        return value.encode(start + value.address - describe(value.array).pointer)
    if is_array(value) and np.ndim(value) > 0:
        if param.nbytes != 8:
            raise SpecError(f"an array for parameter {param.name}, which has {param.nbytes} bytes, not 8")
        return _map_array(memory, mapped, param.name, value, tracked).to_bytes(8, "little")
    if isinstance(value, (bytes, np.void)):
        raw = value if isinstance(value, bytes) else value.tobytes()
        if len(raw) != param.nbytes:
            raise SpecError(f"{len(raw)} bytes for parameter {param.name}, which has {param.nbytes}")
        return raw
    if param.count is not None or isinstance(value, str):
        raise SpecError(
            f"{value!r} for parameter {param.name} of {param.nbytes} bytes: pass bytes, "
            "or a structured numpy scalar"
        )
    return _encode_scalar(param, value)


def _encode_scalar(param: Param, value: Any) -> bytes:
    number = value.item() if isinstance(value, np.generic) else value
    if param.type.is_float:
        return np.array(number, param.type.dtype).tobytes()
    if isinstance(number, float) and isinstance(value, np.floating):
        # An untyped parameter takes the bits of a numpy float of its own width.
        raw = value.tobytes()
        if len(raw) == param.nbytes:
            return raw
    if not isinstance(number, int):
        raise SpecError(f"{value!r} for the integer parameter {param.name} (.{param.type})")
    bits = param.type.bits
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise SpecError(f"{number} does not fit parameter {param.name} (.{param.type})")
    return (number & ((1 << bits) - 1)).to_bytes(param.nbytes, "little")


def _map_array(
    memory: Memory, mapped: dict[tuple[int, int], Segment], name: str, array: Any, tracked: bool
) -> int:
    info = describe(array)
    if info.device != "cpu":
        raise SpecError(f"{name} is on {info.device}; the simulator takes numpy arrays and CPU tensors")
    key = (info.pointer, info.extent)
    segment = mapped.get(key)
    if segment is None:
        data = host_bytes(array)
        # CUDA allocations are 256-byte aligned; a view that starts inside one is not.
        inside = (info.pointer - _owner_pointer(array, info.pointer)) % 256
        segment = memory.map_global(
            f"{name} {info.shape} {info.type}", data, misalignment=inside, tracked=tracked
        )
        mapped[key] = segment
    return segment.base


def _owner_pointer(array: Any, pointer: int) -> int:
    """Address of the allocation that ``array`` is a view of."""
    if isinstance(array, np.ndarray):
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return int(owner.ctypes.data)
    return pointer - int(array.storage_offset()) * int(array.element_size())
