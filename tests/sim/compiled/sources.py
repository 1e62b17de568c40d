"""What is compiled: the CUDA sources with their builds, the Triton kernels with their constants.

The Triton kernels are those of ``tests/ir/corpus``, at sizes that suit a simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TEXTS = HERE / "texts"
CUDA = sorted((HERE / "sources").glob("*.cu"))
#: Compute capability of each target.
CAPABILITIES = {"sm_80": 80, "sm_90a": 90}
#: Sources that are also built for debugging: everything in local memory, few calls inlined.
DEBUG = {"exchanges", "functions", "locals", "scans", "switches"}


class Triton(NamedTuple):
    """A kernel of the corpus: the types of its arguments that are no constants, its constants, the options."""

    function: str
    types: str
    constants: dict[str, Any]
    options: dict[str, Any]


def descriptors(kind: str, *boxes: str) -> str:
    """Types of arguments that are tensor descriptors of such elements with these boxes."""
    return " ".join(f"tensordesc<{kind}[{box}]>" for box in boxes)


_SQUARE = {"BM": 32, "BN": 32, "BK": 32}
#: Two warps: four would make products of warpgroups on sm_90a, and these are to use mma.sync.
_TWO = {"num_warps": 2}
TRITON = {
    "softmax": Triton("softmax", "*fp32 *fp32 i32 i32", {"BLOCK": 256}, {}),
    "layer_norm": Triton("layer_norm", "*fp32 *fp32 *fp32 *fp32 i32 fp32", {"BLOCK": 128}, {}),
    "attention": Triton(
        "attention",
        "*fp16 *fp16 *fp16 *fp16 i32 fp32",
        {"BM": 32, "BN": 32, "D": 32, "CAUSAL": True},
        _TWO,
    ),
    "matmul_half": Triton("matmul", "*fp16 *fp16 *fp32 i32 i32 i32", _SQUARE, {**_TWO, "num_stages": 3}),
    "matmul_bfloat": Triton("matmul", "*bf16 *bf16 *bf16 i32 i32 i32", _SQUARE, {**_TWO, "num_stages": 2}),
    "matmul_float": Triton("matmul", "*fp32 *fp32 *fp32 i32 i32 i32", _SQUARE, {**_TWO, "num_stages": 2}),
    "matmul_integer": Triton("matmul_integer", "*i8 *i8 *i32 i32", _SQUARE, _TWO),
    "scans": Triton("scans", "*fp32 *fp32", {"BLOCK": 256}, {}),
    "sorts": Triton("sorts", "*i32 *i32", {"BLOCK": 64}, _TWO),
    "winners": Triton("winners", "*fp32 *fp32 *i32", {"BLOCK": 256}, {}),
    "histogram": Triton("histogram", "*i32 *i32", {"BLOCK": 512, "BINS": 64}, {}),
    "atomics": Triton("atomics", "*i32 *fp32 *i32", {"BLOCK": 128}, {}),
    "integers": Triton("integers", "*i32 *i32 i32", {"BLOCK": 128}, {}),
    "random_numbers": Triton("random_numbers", "*fp32 i32", {"BLOCK": 256}, {}),
    "transpose": Triton("transpose", "*fp16 *fp16 i32 i32", {"B": 32}, {}),
    "gathers": Triton("gathers", "*fp32 *i32 *fp32", {"B": 32}, {}),
    "cross_entropy": Triton("cross_entropy", "*fp32 *i64 *fp32 i32", {"BLOCK": 256}, {}),
    "mathematics_double": Triton("mathematics_double", "*fp64 *fp64", {"BLOCK": 128}, {}),
    "debugging": Triton("debugging", "*i32 i32", {"BLOCK": 32}, {"debug": True, "num_warps": 1}),
    "calls": Triton("calls", "*fp32 *fp32", {}, {}),
    "control": Triton("control", "*i32 *i32 i32 i1", {}, {}),
    # One element per thread: the other half of a packed conversion is an undefined register.
    "conversions_undefined": Triton(
        "conversions", "*fp32 *fp16 *bf16 *fp8e4nv *fp8e5 *fp64 i32", {"BLOCK": 128}, {}
    ),
    # fp8 by instructions: the older target has none.
    "conversions": Triton("conversions", "*fp32 *fp16 *bf16 *fp8e4nv *fp8e5 *fp64 i32", {"BLOCK": 256}, {}),
}
#: Kernels that only the newer target has.
NEW = {"conversions", "conversions_undefined"}
