"""DeepGEMM's products: the problems that are compiled, the kernel its library chooses for each, the call.

The kernels are compiled for these problems alone, so the rows take their sizes from here.  ``choose`` follows
the library's own arithmetic for Hopper (``csrc/jit_kernels/heuristics/sm90.hpp``) step by step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from _rivals import address, launched, library, stream

__all__ = ["BF16", "CONTIGUOUS", "MASKED", "NORMAL", "Choice", "Problem", "choose", "deepgemm"]

SMS = 132  # The kernels are compiled for this number of multiprocessors: the H100's and the H200's.
BLOCK = 128  # elements of K that share a scale, and rows to which a group is rounded up
SHARED = 232448  # bytes of shared memory of a CTA
STAGES = 16  # at most
L1, L2 = 128 * SMS, min(64 * SMS, int(8e6 / 1.3e3))  # bytes of a cycle in the library's model
NEVER = 2**63 - 1


@dataclass(frozen=True)
class Problem:
    """A product to bf16, of e4m3 with scales of 1x128 of A and 128x128 of B or of bf16.

    Attributes:
        kind: one product; groups one after the other, each of a multiple of 128 rows; or slabs.
        M: rows of A; of each group's slab if masked.
        N, K: columns of D, and the length of the sums.
        groups: how many weight matrices.
        expected: rows of a group that the caller tells the library to expect, if masked.
        element: of A and B.
    """

    kind: Literal["normal", "contiguous", "masked"]
    M: int
    N: int
    K: int
    groups: int = 1
    expected: int = 0
    element: Literal["e4m3", "bf16"] = "e4m3"

    @property
    def scaled(self) -> bool:
        """Whether the operands have scales of blocks."""
        return self.element == "e4m3"

    @property
    def sizes(self) -> list[int]:
        """Rows of each group, 0.7 to 1.3 times the mean; if contiguous multiples of 128 that sum to M."""
        step = BLOCK if self.kind == "contiguous" else 1
        mean = self.expected if self.kind == "masked" else self.M // self.groups
        # Seven and the numbers of groups have no divisor in common, so the sizes are shuffled.
        spread = [0.7 + 0.6 * (7 * group % self.groups) / (self.groups - 1) for group in range(self.groups)]
        sizes = [round(mean * each / step) * step for each in spread]
        if self.kind == "contiguous":
            sizes[-1] += self.M - sum(sizes)
        return sizes

    def defined(self, d: Any) -> Any:
        """Return what of D is defined: of masked slabs the rows that the groups have."""
        if self.kind != "masked":
            return d
        return [slab[:size] for slab, size in zip(d, self.sizes, strict=True)]


#: Of the sizes that the library's own tests time, those of a few layers.
NORMAL = tuple(
    Problem("normal", M, N, K)
    for M, N, K in (
        (4096, 7168, 2048),
        (4096, 4096, 7168),
        (4096, 7168, 16384),
        (4096, 24576, 1536),
        (128, 7168, 2048),
        (128, 4096, 7168),
    )
)
CONTIGUOUS = (
    Problem("contiguous", 8 * 1024, 4096, 4096, 8),
    Problem("contiguous", 8 * 4096, 4096, 4096, 8),
    Problem("contiguous", 4 * 8192, 6144, 7168, 4),
)
MASKED = (
    Problem("masked", 4096, 4096, 4096, 6, 1024),
    Problem("masked", 4096, 4096, 2048, 32, 192),
    Problem("masked", 4096, 4096, 4096, 32, 20),
)
BF16 = (
    Problem("contiguous", 8 * 1024, 4096, 4096, 8, element="bf16"),
    Problem("masked", 4096, 4096, 4096, 6, 1024, element="bf16"),
)


@dataclass(frozen=True)
class Choice:
    """A kernel of the library.

    Attributes:
        tile: rows and columns of D that a CTA computes at a time.
        cluster: CTAs of a cluster along M, which share B, and along N, which share A; two at most in all.
        stages: depth of the ring.
        shared: bytes of shared memory.
    """

    tile: tuple[int, int]
    cluster: tuple[int, int]
    stages: int
    shared: int

    @property
    def swizzle(self) -> int:
        """Bytes of the swizzle of D's staging, 16 for none."""
        return next(mode for mode in (128, 64, 32, 16) if 2 * self.tile[1] % mode == 0)

    @property
    def math_threads(self) -> int:
        """Threads that multiply."""
        return 128 if self.tile[0] <= 64 else 256


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _ring(problem: Problem, tile: tuple[int, int]) -> tuple[int, int]:
    """Return the stages that fit and the bytes of shared memory."""
    rows, columns = tile
    fixed = _up(rows * columns * 2, 1024) + STAGES * 16
    stage = (rows + columns) * 128  # bytes of a row of A and of B, whatever the elements
    if problem.scaled:
        fixed += _up(-(-problem.K // BLOCK) * 4 * (1 if BLOCK % columns == 0 else 2), 8)
        stage += _up(rows * 4, 128)
    stages = min((SHARED - fixed) // stage, STAGES)
    return stages, fixed + stages * stage


def _candidates(problem: Problem) -> Iterator[Choice]:
    if problem.kind == "normal":
        few = [rows for rows in (16, 32) if rows >= problem.M]
        heights = [64, 128, *few, 256]
    else:
        heights = [64, 128] if problem.kind == "masked" else [128]
    for cluster in ((1, 1), (1, 2), (2, 1)):
        for rows, columns in itertools.product(heights, range(16, 193 if problem.scaled else 257, 16)):
            over = columns - BLOCK
            if problem.scaled and over > 0 and columns % over and BLOCK % over:
                continue  # a tile lies in at most two blocks of B's scales, cut where the code is unrolled
            if problem.kind == "masked" and -(-problem.N // columns) % max(cluster):
                continue
            if rows > 128 and columns > 128:
                continue
            stages, shared = _ring(problem, (rows, columns))
            if stages < (4 if rows * columns < 128 * 192 else 3):
                continue
            yield Choice((rows, columns), cluster, stages, shared)


def _cycles(problem: Problem, choice: Choice) -> int:
    """Return the cycles that the library's model gives a kernel."""
    (rows, columns), (along_m, along_n) = choice.tile, choice.cluster
    expected, groups = problem.M, 1
    if problem.kind == "masked":
        expected, groups = problem.expected, problem.groups
    blocks = -(-expected // rows) * -(-problem.N // columns) * groups
    waves = -(-blocks // SMS)
    if max(choice.cluster) > 1 and waves <= 1:
        return NEVER
    d, depth = rows * columns * 2, problem.K if problem.scaled else 2 * problem.K
    from_l2 = depth * (rows // along_n + columns // along_m) + d
    from_l1 = depth * (rows + columns) + depth * (max(64, rows) + columns) + 2 * d
    # In f32, as the library has it: ties are decided by what is rounded away.
    efficiency = np.float32(blocks) / np.float32(waves * SMS)
    return int(np.float32(max(from_l1 * blocks // L1, from_l2 * blocks // L2)) / efficiency)


def choose(problem: Problem) -> Choice:
    """Return the kernel that the library chooses: the first of those with the fewest cycles."""
    return min(_candidates(problem), key=lambda choice: _cycles(problem, choice))


def instances(problems: tuple[Problem, ...]) -> str:
    """Return the text that a file of ``rivals`` includes: a line ``KERNEL(...)`` for each problem."""
    types = {"normal": "Normal", "contiguous": "MGroupedContiguous", "masked": "MGroupedMasked"}
    lines = []
    for problem in problems:
        choice = choose(problem)
        multicast = choice.cluster[0] * choice.cluster[1]
        on_a = int(choice.cluster[1] > 1)
        sizes = problem.groups, problem.M, problem.N, problem.K
        threads = choice.math_threads, multicast, on_a, choice.shared
        numbers = *sizes, *choice.tile, choice.swizzle, choice.stages, *threads
        lines.append(f"KERNEL({types[problem.kind]}, {', '.join(map(str, numbers))})\n")
    return "".join(lines)


#: The numbers of the library's ``GemmType``.
_KINDS = {"normal": 0, "contiguous": 1, "masked": 2}


def deepgemm(torch: Any, problem: Problem) -> dict[str, Callable[..., Any]]:
    """Return the library's product by its name, or nothing if it is absent.

    The function takes A, B, of e4m3 scales of A ``[K / 128, M]`` (masked: with ``groups`` in front) and of B
    ``[N / 128, K / 128]`` (grouped: with ``groups`` in front), and, if grouped, s32: the group of each row
    (contiguous) or the rows of each group (masked).  It returns D.
    """
    found = library("deepgemm" if problem.scaled else "deepgemm_bf16")
    if found is None:
        return {}
    if torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count != SMS:
        return {}

    def run(a: Any, b: Any, *others: Any) -> Any:
        d = torch.empty((*a.shape[:-1], problem.N), device=a.device, dtype=torch.bfloat16)
        scales, layout = (others[:2], others[2:]) if problem.scaled else ((), others)
        operands = (a, scales[0], b, scales[1]) if scales else (a, b)
        where = address(layout[0]) if layout else None
        sizes = _KINDS[problem.kind], problem.groups, problem.M, problem.N, problem.K
        function = found.deepgemm_fp8 if scales else found.deepgemm_bf16
        launched("DeepGEMM", function(*sizes, *map(address, operands), where, address(d), stream(torch)))
        return d

    return {"DeepGEMM": run}
