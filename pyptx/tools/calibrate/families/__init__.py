"""The microbenchmarks, by the part of the hardware that they measure, in the order in which they run.

What a microbenchmark's arithmetic needs of another one is measured before. The first family is the chip's:
its clock turns cycles into ns.
"""

from ..bench import Microbenchmark
from . import (
    accesses,
    atomics,
    blackwell_tensor,
    chip,
    code,
    copies,
    hopper_tensor,
    launches,
    maps,
    memory,
    pages,
    pipes,
    power,
    synchronization,
    tensor_memory,
    warp_tensor,
)

__all__ = ["FAMILIES"]

#: The microbenchmarks of each family.
FAMILIES: dict[str, tuple[Microbenchmark, ...]] = {
    "chip": chip.BENCHMARKS,
    "tensor": (*hopper_tensor.BENCHMARKS, *blackwell_tensor.BENCHMARKS, *warp_tensor.BENCHMARKS),
    "copies": (*copies.BENCHMARKS, *maps.BENCHMARKS),
    "memory": memory.BENCHMARKS,
    "synchronization": synchronization.BENCHMARKS,
    "pipes": pipes.BENCHMARKS,
    "code": code.BENCHMARKS,
    "accesses": (*accesses.BENCHMARKS, *pages.BENCHMARKS),
    "atomics": atomics.BENCHMARKS,
    "tensor_memory": tensor_memory.BENCHMARKS,
    "launches": launches.BENCHMARKS,
    "power": power.BENCHMARKS,
}
