"""Interval and latency of one tensor-core instruction, from the constants of a GPU.

Owns the formulas for ``tcgen05.mma`` and ``wgmma``.  One instruction covers 32 bytes of K whatever its kind,
so its interval depends on its shape and on where A lies: the larger of what products and what operand reads
from shared memory take.
"""

from __future__ import annotations

from ..core.errors import SpecError
from .constants import Gpu

__all__ = [
    "mma_interval",
    "mma_latency",
    "mma_port_bytes",
    "tensor_pace",
    "wgmma_interval",
    "wgmma_latency",
    "wgmma_port_bytes",
    "with_pace",
]

_FORMS = {(1, 64): "g1_m64", (1, 128): "g1_m128", (2, 128): "g2_m128", (2, 256): "g2_m256"}
_WGMMA_ROWS = 64


def _form(group: int, m: int) -> str:
    form = _FORMS.get((group, m))
    if form is None:
        known = ", ".join(f"cta_group::{g} with M = {rows}" for g, rows in _FORMS)
        raise SpecError(f"tcgen05.mma, cta_group::{group}, M = {m}: its timing is known for {known}")
    return form


def mma_port_bytes(gpu: Gpu, group: int, m: int, n: int, a_in_tensor_memory: bool = False) -> float:
    """Return the bytes that one ``tcgen05.mma`` reads from the shared memory of each SM.

    Args:
        gpu: the constants.
        group: 1 or 2, the ``cta_group``.
        m: rows of A, of both CTAs together.
        n: columns of B, of both CTAs together.
        a_in_tensor_memory: True if A is not read from shared memory.

    Raises:
        SpecError: no such instruction is known.
    """
    _form(group, m)
    rows = n / group + (0 if a_in_tensor_memory else m / group)
    return rows * gpu.value("mma.k_bytes")


def mma_interval(gpu: Gpu, group: int, m: int, n: int, a_in_tensor_memory: bool = False) -> float:
    """Return the cycles between two ``tcgen05.mma`` in a full pipe.  Arguments: :func:`mma_port_bytes`."""
    form = _form(group, m)
    compute = gpu.value(f"mma.interval.{form}.per_n_clk") * n
    port = mma_port_bytes(gpu, group, m, n, a_in_tensor_memory) / gpu.value("mma.port_bytes_per_clk")
    if form == "g2_m256" and not a_in_tensor_memory:
        port += gpu.value("mma.interval.g2_m256_ss.extra_clk")
    return max(compute, port, gpu.value("mma.interval.floor_clk"))


def mma_latency(gpu: Gpu, group: int, m: int, n: int, a_in_tensor_memory: bool = False) -> float:
    """Return the cycles from issuing one ``tcgen05.mma`` to the end of the wait for its commit.

    Arguments: :func:`mma_port_bytes`.
    """
    form = f"{_form(group, m)}_{'ts' if a_in_tensor_memory else 'ss'}"
    latency = _line(gpu, f"mma.latency.{form}.base_clk", f"mma.latency.{form}.per_n_clk", n)
    if form == "g2_m128_ss":
        narrow = _line(gpu, f"mma.latency.{form}.narrow_base_clk", f"mma.latency.{form}.narrow_per_n_clk", n)
        return min(latency, narrow)
    return latency


def tensor_pace(gpu: Gpu) -> float:
    """Return the share of their arithmetic rate that tensor cores keep in a long stream of products."""
    return gpu.value("wgmma.pace") if gpu.target == "sm_90a" else 1.0


def with_pace(gpu: Gpu, toggling: float) -> Gpu:
    """Return constants with the pace of products of other data: 0 for zeros, 1 for normal data."""
    if gpu.target != "sm_90a":
        return gpu
    return gpu.with_values({"wgmma.pace": 1 - (1 - gpu.value("wgmma.pace")) * toggling})


def wgmma_port_bytes(gpu: Gpu, n: int, a_in_registers: bool = False) -> float:
    """Return the bytes that one ``wgmma`` with N = `n` reads from shared memory."""
    return (n + (0 if a_in_registers else _WGMMA_ROWS)) * gpu.value("mma.k_bytes")


def wgmma_interval(gpu: Gpu, n: int, a_in_registers: bool = False) -> float:
    """Return the cycles between two ``wgmma`` with N = `n` of an SM in a long stream of them."""
    port = wgmma_port_bytes(gpu, n, a_in_registers) / gpu.value("mma.port_bytes_per_clk")
    floor = gpu.value("wgmma.interval.floor_rs_clk" if a_in_registers else "wgmma.interval.floor_ss_clk")
    multiplied = gpu.value("wgmma.interval.per_n_clk") * n / tensor_pace(gpu)
    return max(multiplied, port, floor)


def wgmma_latency(gpu: Gpu, n: int) -> float:
    """Return the cycles from issuing one ``wgmma`` with N = `n` to the end of ``wait_group``."""
    return _line(gpu, "wgmma.latency.base_clk", "wgmma.latency.per_n_clk", n)


def _line(gpu: Gpu, base: str, slope: str, n: int) -> float:
    return gpu.value(base) + gpu.value(slope) * n
