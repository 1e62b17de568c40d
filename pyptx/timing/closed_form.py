"""Times by a few lines of arithmetic: the roofline, and a closed form of GEMMs.

Owns what stands beside a prediction for comparison.  The closed form is

    launch + max(rounds * (k-blocks * step + turnaround) + fill + epilogue, HBM traffic)

where a step is the larger of what the tensor core (or its operand port) and the fabric take for a k-block.
The form knows shapes and tiles, and nothing of the kernel's instructions.
"""

from __future__ import annotations

import math
from enum import Enum

from ..core.errors import SpecError
from ..core.records import dataclass
from .constants import Gpu
from .tensor import mma_interval, mma_latency, mma_port_bytes, wgmma_interval, wgmma_latency, wgmma_port_bytes

__all__ = ["Bound", "Estimate", "Form", "Gemm", "Tile", "closed_form", "clusters_at_once", "roofline"]

_WGMMA_ROWS = 64
_PEAKS = {4: "4bit", 8: "8bit", 16: "16bit", 32: "tf32"}


class Bound(Enum):
    """What a time consists of for the most part."""

    TENSOR = "tensor"
    PORT = "port"
    FABRIC = "fabric"
    HBM = "hbm"
    EPILOGUE = "epilogue"


@dataclass(frozen=True)
class Estimate:
    """A time by arithmetic.

    Attributes:
        ns: the time.
        bound: what binds it.
        rounds: rounds of tiles; 0 where the arithmetic has none.
    """

    ns: float
    bound: Bound
    rounds: int = 0


@dataclass(frozen=True)
class Gemm:
    """A product D[m, n] = A[m, k] B[n, k]^T.

    Attributes:
        m: rows of D.
        n: columns of D.
        k: length of the sums.
        bits: bits of an element of A and B.
        out_bytes: bytes of an element of D.
    """

    m: int
    n: int
    k: int
    bits: int = 16
    out_bytes: int = 2


@dataclass(frozen=True)
class Tile:
    """How a kernel divides a GEMM.

    Attributes:
        m: rows of the tile of a CTA, or of a pair of CTAs.
        n: its columns.
        group: 2 where two CTAs share a tile (``cta_group::2``), else 1.
        cluster_m: CTAs of a cluster side by side in M; a pair counts two.
        cluster_n: CTAs of a cluster side by side in N.
        k_bytes: bytes of a row of K that a stage has.
    """

    m: int
    n: int
    group: int = 1
    cluster_m: int = 1
    cluster_n: int = 1
    k_bytes: int = 128


@dataclass(frozen=True)
class Form:
    """The parameters of the closed form.

    Attributes:
        launch_ns: what a launch takes besides its tiles.
        turnaround_clk: cycles between two tiles of an SM.
        fill_clk: cycles before the first product and after the last, once.
        epilogue_clk_per_column: cycles that a column of D takes to leave; a round takes at least a tile's.
        fabric_bytes_per_ns: bytes that all SMs get.
        hbm_bytes_per_ns: traffic with memory.
        sharpness: exponent of the sum of tensor core and fabric; infinite for the larger of both.
        miss_share: the share of requests that miss L2 where A and B are many times its size.
        miss_bytes: size of A and B at which 63% of this share miss.
    """

    launch_ns: float
    turnaround_clk: float
    fill_clk: float
    epilogue_clk_per_column: float
    fabric_bytes_per_ns: float
    hbm_bytes_per_ns: float
    sharpness: float = math.inf
    miss_share: float = 0.0
    miss_bytes: float = 1.0

    @classmethod
    def of(cls, gpu: Gpu, *, persistent: bool = True) -> Form:
        """Return the parameters that follow from a GPU's constants, with an L2 that misses nothing twice.

        Args:
            gpu: the constants.
            persistent: True for a kernel whose CTAs take one tile after the other and store D meanwhile.
        """
        clk_per_ns = gpu.value("sm.clock_max_mhz") / 1000
        first = gpu.value("tma.latency_hbm_ns") * clk_per_ns + _latency(gpu)
        turnaround = gpu.value("mbarrier.wake_clk")
        if not persistent:
            turnaround += gpu.value("cta.turnaround_ns") * clk_per_ns + first
        return cls(
            launch_ns=gpu.value("launch.ns"),
            turnaround_clk=turnaround,
            fill_clk=first,
            epilogue_clk_per_column=128 * 2 / gpu.value("ldg.sm_bytes_per_clk"),
            fabric_bytes_per_ns=gpu.value("l2.fabric_bytes_per_ns"),
            hbm_bytes_per_ns=gpu.value("hbm.mixed_bytes_per_ns"),
        )


def roofline(gpu: Gpu, flops: float, hbm_bytes: float, mhz: float, bits: int = 16) -> Estimate:
    """Return the larger of what the tensor cores take for FLOPs and HBM for bytes.

    Args:
        gpu: the constants.
        flops: operations of the tensor cores.
        hbm_bytes: bytes to and from memory, each once.
        mhz: the clock of the SMs.
        bits: of an operand's element: 4, 8, 16, or 32 for tf32.

    Raises:
        SpecError: no peak is known for this many bits, or the clock is not positive.
    """
    _check(bits, mhz)
    per_ns = gpu.value("sm.count") * gpu.value(f"tensor.flops_per_clk_{_PEAKS[bits]}") * mhz / 1000
    tensor, memory = flops / per_ns, hbm_bytes / gpu.value("hbm.read_bytes_per_ns")
    return Estimate(max(tensor, memory), Bound.TENSOR if tensor >= memory else Bound.HBM)


def clusters_at_once(gpu: Gpu, size: int) -> int:
    """Return how many clusters of `size` CTAs fit on the chip, one CTA on an SM.

    A cluster lies within one GPC.

    Raises:
        SpecError: no GPC has so many SMs.
    """
    found = sum(int(sms) // size for sms in gpu.series("gpc.sizes"))
    if found == 0:
        raise SpecError(f"no GPC of {gpu.title} has {size} SMs for a cluster")
    return found


def closed_form(gpu: Gpu, gemm: Gemm, tile: Tile, mhz: float, form: Form) -> Estimate:
    """Return the time of a GEMM by the closed form.

    Args:
        gpu: the constants.
        gemm: the product.
        tile: how the kernel divides it.
        mhz: the clock of the SMs.
        form: the parameters.

    Raises:
        SpecError: an instruction that is not known, a cluster that fits no GPC, or a clock that is not
            positive.
    """
    _check(gemm.bits, mhz)
    clk_per_ns = mhz / 1000
    tiles = math.ceil(gemm.m / (tile.m * tile.cluster_m // tile.group)) * math.ceil(
        gemm.n / (tile.n * tile.cluster_n)
    )
    size = tile.cluster_m * tile.cluster_n
    at_once = min(clusters_at_once(gpu, size), tiles)
    rounds = math.ceil(tiles / at_once)
    blocks = math.ceil(gemm.k * gemm.bits / 8 / tile.k_bytes)

    interval, port = _products(gpu, tile)
    a_rows, b_rows = tile.m / tile.group, tile.n / tile.group
    fabric = (a_rows + b_rows) * tile.k_bytes * at_once * size / form.fabric_bytes_per_ns * clk_per_ns
    step = _power_sum(interval, fabric, form.sharpness)
    epilogue = form.epilogue_clk_per_column * tile.n
    work = rounds * (max(blocks * step, epilogue) + form.turnaround_clk) + epilogue + form.fill_clk

    operands = (gemm.m + gemm.n) * gemm.k * gemm.bits / 8
    requested = a_rows / tile.cluster_n + b_rows * tile.group / tile.cluster_m
    missed = form.miss_share * -math.expm1(-operands / form.miss_bytes)
    read = max(operands, tiles * size * blocks * requested * tile.k_bytes * missed)
    memory = (read + gemm.m * gemm.n * gemm.out_bytes) / form.hbm_bytes_per_ns

    if memory > work / clk_per_ns:
        bound = Bound.HBM
    elif epilogue > blocks * step:
        bound = Bound.EPILOGUE
    elif fabric > interval:
        bound = Bound.FABRIC
    else:
        bound = Bound.PORT if port >= interval else Bound.TENSOR
    return Estimate(form.launch_ns + max(work / clk_per_ns, memory), bound, rounds)


def _power_sum(a: float, b: float, exponent: float) -> float:
    larger, smaller = max(a, b), min(a, b)
    return (
        larger
        if math.isinf(exponent)
        else larger * float((1 + (smaller / larger) ** exponent) ** (1 / exponent))
    )


def _products(gpu: Gpu, tile: Tile) -> tuple[float, float]:
    """Return the cycles of the products of a k-block, and those of their operand reads alone."""
    instructions = tile.k_bytes / gpu.value("mma.k_bytes")
    if gpu.target == "sm_90a":
        warpgroups = tile.m / _WGMMA_ROWS
        interval, read = wgmma_interval(gpu, tile.n) * warpgroups, wgmma_port_bytes(gpu, tile.n) * warpgroups
    else:
        interval = mma_interval(gpu, tile.group, tile.m, tile.n)
        read = mma_port_bytes(gpu, tile.group, tile.m, tile.n)
    return instructions * interval, instructions * read / gpu.value("mma.port_bytes_per_clk")


def _latency(gpu: Gpu) -> float:
    return wgmma_latency(gpu, 256) if gpu.target == "sm_90a" else mma_latency(gpu, 1, 128, 256)


def _check(bits: int, mhz: float) -> None:
    if bits not in _PEAKS:
        raise SpecError(f"elements of {bits} bits: expected one of {', '.join(map(str, _PEAKS))}")
    if not mhz > 0:
        raise SpecError(f"a clock of {mhz} MHz: expected a positive number")
