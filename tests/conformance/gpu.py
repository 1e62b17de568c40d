"""Running cases on a GPU: in worker processes, each replaced when a kernel spoils its context."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import queue
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pyptx.ir import Launch

from .case import In, Map, Number, Out, Run, aligned

if TYPE_CHECKING:
    from pyptx.runtime.launch import PackedArguments
    from pyptx.runtime.loader import LoadedKernel

__all__ = ["Machine", "Pool", "Refused", "machine"]

#: Seconds that a case may take before it counts as hung; assembling it is most of that.
_LIMIT = 20.0
#: Processes that assemble and launch side by side.
_WORKERS = 8

Outputs = list[NDArray[Any]]


@dataclass(frozen=True)
class Refused:
    """A case that the GPU did not run to its end, and what the driver said."""

    reason: str


@dataclass(frozen=True)
class Machine:
    """What words are recorded on."""

    gpu: str
    driver: str
    cuda: str


def machine() -> Machine:
    """The first GPU. Raises LaunchError where there is none."""
    from pyptx.runtime.driver import device_info

    info = device_info(0)
    asked = ["nvidia-smi", "--id=0", "--query-gpu=driver_version", "--format=csv,noheader"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return Machine(info.name, version, "{}.{}".format(*info.driver_version))


def _enqueue(run: Run, loaded: LoadedKernel, packed: PackedArguments, *, dependent: bool) -> None:
    """Enqueue one launch, as a programmatic dependent launch of the one before if ``dependent``."""
    from pyptx.runtime import driver
    from pyptx.runtime.launch import launch

    extents = map(Launch.extent, (run.grid, run.block, run.cluster))
    shape = Launch(*extents, run.dynamic_smem)
    if not dependent:
        launch(loaded, shape, packed)
        return
    cuda = driver.driver()
    config, attribute = cuda.CUlaunchConfig(), cuda.CUlaunchAttribute()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes = shape.dynamic_smem
    attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config.attrs, config.numAttrs = [attribute], 1
    driver.call("cuLaunchKernelEx", config, loaded.function, packed.address, 0)


def _launch(run: Run) -> Outputs:
    """Load, launch and read back, in the current context."""
    from pyptx.runtime import driver
    from pyptx.runtime.launch import PackedArguments
    from pyptx.runtime.loader import load
    from pyptx.runtime.tensor_maps import encode
    from pyptx.runtime.unloading import unload_unused

    entries = re.findall(r"\.entry\s+([\w$]+)", run.text)
    kernels = {
        entry: load(run.text, entry, dynamic_smem=run.dynamic_smem, device_index=0)
        for entry in {step.entry or entries[0] for step in run.launches}
    }
    held: list[tuple[Any, NDArray[Any], bool]] = []
    arguments: list[bytes] = []
    pointers: dict[int, tuple[NDArray[Any], int]] = {}
    for argument in run.arguments:
        if isinstance(argument, Number):
            arguments.append(argument.encode())
            continue
        if isinstance(argument, Map):
            # Made below: the array may be a later argument.
            arguments.append(b"")
            continue
        array = aligned(argument.array) if isinstance(argument, In) else argument.before()
        pointer = driver.call("cuMemAlloc", max(array.nbytes, 1))
        driver.call("cuMemcpyHtoD", pointer, array.ctypes.data, array.nbytes)
        held.append((pointer, array, isinstance(argument, Out)))
        arguments.append(int(pointer).to_bytes(8, "little"))
        pointers[len(arguments) - 1] = (array, int(pointer))
    for position, argument in enumerate(run.arguments):
        if isinstance(argument, Map):
            array, address = pointers[argument.of]
            encoded = encode(argument.tensor_map(array), address)
            arguments[position] = ctypes.string_at(encoded.getPtr(), 128)
    for step in run.launches:
        packed = PackedArguments([arguments[position] for position in step.arguments])
        _enqueue(run, kernels[step.entry or entries[0]], packed, dependent=step.dependent)
    driver.call("cuCtxSynchronize")
    for pointer, array, written in held:
        if written:
            driver.call("cuMemcpyDtoH", array.ctypes.data, pointer, array.nbytes)
        driver.call("cuMemFree", pointer)
    kernels.clear()
    unload_unused()
    return [array for _, array, written in held if written]


def _work(connection: Connection) -> None:
    """Answer each run with its outputs, until told to stop."""
    from pyptx.runtime.driver import device_context

    with device_context(0):
        while (run := connection.recv()) is not None:
            try:
                connection.send(_launch(run))
            except Exception as error:
                # Whatever it was, the parent writes it down beside the case.
                connection.send(Refused(f"{type(error).__name__}: {' '.join(str(error).split())}"))


class _Worker:
    """A process with a context of its own."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, run: Run) -> Outputs | Refused:
        with contextlib.suppress(EOFError, OSError):
            self.connection.send(run)
            if not self.connection.poll(_LIMIT):
                return Refused(f"no answer after {_LIMIT:.0f} s")
            answer: Outputs | Refused = self.connection.recv()
            return answer
        return Refused("the process ended")

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self.process.join(5)
        self.process.kill()
        self.process.join()


class Pool:
    """Workers on one GPU, for the length of a ``with`` block."""

    def __init__(self, workers: int = _WORKERS) -> None:
        self.workers = workers
        self.idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()

    def __enter__(self) -> Pool:
        for _ in range(self.workers):
            self.idle.put(_Worker())
        return self

    def __exit__(self, *_: object) -> None:
        for _ in range(self.workers):
            self.idle.get().stop()

    def run(self, runs: Sequence[Run]) -> Iterator[Outputs | Refused]:
        """The outputs of every run, in order; a failure costs the run that failed, and no other."""
        with ThreadPoolExecutor(self.workers) as threads:
            yield from threads.map(self._one, runs)

    def _one(self, run: Run) -> Outputs | Refused:
        worker = self.idle.get()
        try:
            answer = worker.run(run)
            if isinstance(answer, Refused) and not answer.reason.startswith("AssembleError"):
                # The context may be lost: the next run gets a new one.
                worker.stop()
                worker = _Worker()
            return answer
        finally:
            self.idle.put(worker)
