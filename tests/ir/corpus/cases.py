"""What is compiled of the kernels in Triton and Gluon: types, constants and options of each case.

No compiler is imported here, so that tests can be listed without one.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """One kernel; ``types`` are those of its arguments that are no constants, ``on`` compute capabilities."""

    module: str
    function: str
    types: str
    constants: dict[str, Any]
    options: dict[str, Any]
    on: tuple[int, ...]


ALL = (80, 90, 100)
NEW = (90, 100)
_LARGE = {"BM": 128, "BN": 128, "BK": 64}
_SMALL = {"BM": 64, "BN": 64, "BK": 32}
CASES: dict[str, Case] = {
    "vector_add": Case("triton_kernels", "vector_add", "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}, {}, ALL),
    "vector_add_half": Case(
        "triton_kernels", "vector_add", "*fp16 *fp16 *fp16 i32", {"BLOCK": 2048}, {"num_warps": 8}, ALL
    ),
    "vector_add_long": Case(
        "triton_kernels", "vector_add", "*i64 *i64 *i64 i64", {"BLOCK": 128}, {"num_warps": 1}, ALL
    ),
    "vector_add_byte": Case("triton_kernels", "vector_add", "*i8 *i8 *i8 i32", {"BLOCK": 512}, {}, ALL),
    "softmax": Case("triton_kernels", "softmax", "*fp32 *fp32 i32 i32", {"BLOCK": 1024}, {}, ALL),
    "softmax_bfloat": Case(
        "triton_kernels", "softmax", "*bf16 *bf16 i32 i32", {"BLOCK": 4096}, {"num_warps": 8}, ALL
    ),
    "layer_norm": Case(
        "triton_kernels", "layer_norm", "*fp32 *fp32 *fp32 *fp32 i32 fp32", {"BLOCK": 1024}, {}, ALL
    ),
    "matmul_half": Case(
        "triton_kernels", "matmul", "*fp16 *fp16 *fp16 i32 i32 i32", _LARGE, {"num_stages": 3}, ALL
    ),
    "matmul_bfloat": Case(
        "triton_kernels",
        "matmul",
        "*bf16 *bf16 *fp32 i32 i32 i32",
        _LARGE,
        {"num_warps": 8, "num_stages": 4},
        ALL,
    ),
    "matmul_float": Case(
        "triton_kernels", "matmul", "*fp32 *fp32 *fp32 i32 i32 i32", _SMALL, {"num_stages": 2}, ALL
    ),
    "matmul_fp8": Case(
        "triton_kernels", "matmul", "*fp8e5 *fp8e5 *fp16 i32 i32 i32", _LARGE, {"num_stages": 3}, ALL
    ),
    "matmul_integer": Case("triton_kernels", "matmul_integer", "*i8 *i8 *i32 i32", _SMALL, {}, ALL),
    "matmul_descriptor": Case(
        "triton_kernels",
        "matmul_descriptor",
        "*fp16 *fp16 *fp16 i32 i32 i32",
        {**_LARGE, "SPECIAL": False},
        {"num_stages": 3},
        ALL,
    ),
    "matmul_specialized": Case(
        "triton_kernels",
        "matmul_descriptor",
        "*fp16 *fp16 *fp16 i32 i32 i32",
        {**_LARGE, "SPECIAL": True},
        {"num_stages": 3},
        NEW,
    ),
    "matmul_persistent": Case(
        "triton_kernels",
        "matmul_persistent",
        "*bf16 *bf16 *bf16 i32 i32 i32",
        {**_LARGE, "PROGRAMS": 132},
        {"num_warps": 8},
        ALL,
    ),
    "scaled_matmul": Case(
        "triton_kernels",
        "scaled_matmul",
        "*fp8e4nv *u8 *fp8e4nv *u8 *fp32",
        {"BM": 128, "BN": 128, "BK": 128},
        {},
        NEW,
    ),
    "attention": Case(
        "triton_kernels",
        "attention",
        "*fp16 *fp16 *fp16 *fp16 i32 fp32",
        {"BM": 64, "BN": 64, "D": 64, "CAUSAL": False},
        {},
        ALL,
    ),
    "attention_causal": Case(
        "triton_kernels",
        "attention",
        "*bf16 *bf16 *bf16 *bf16 i32 fp32",
        {"BM": 128, "BN": 64, "D": 64, "CAUSAL": True},
        {"num_warps": 8},
        ALL,
    ),
    "scans": Case("triton_kernels", "scans", "*fp32 *fp32", {"BLOCK": 1024}, {}, ALL),
    "sorts": Case("triton_kernels", "sorts", "*i32 *i32", {"BLOCK": 128}, {}, ALL),
    "winners": Case("triton_kernels", "winners", "*fp32 *fp32 *i32", {"BLOCK": 512}, {}, ALL),
    "histogram": Case("triton_kernels", "histogram", "*i32 *i32", {"BLOCK": 1024, "BINS": 64}, {}, ALL),
    "atomics": Case("triton_kernels", "atomics", "*i32 *fp32 *i32", {"BLOCK": 128}, {}, ALL),
    "conversions": Case(
        "triton_kernels",
        "conversions",
        "*fp32 *fp16 *bf16 *fp8e4nv *fp8e5 *fp64 i32",
        {"BLOCK": 256},
        {},
        NEW,
    ),
    "mathematics": Case("triton_kernels", "mathematics", "*fp32 *fp32", {"BLOCK": 256}, {}, ALL),
    "mathematics_double": Case(
        "triton_kernels", "mathematics_double", "*fp64 *fp64", {"BLOCK": 128}, {}, ALL
    ),
    "integers": Case("triton_kernels", "integers", "*i32 *i32 i32", {"BLOCK": 256}, {}, ALL),
    "random_numbers": Case("triton_kernels", "random_numbers", "*fp32 i32", {"BLOCK": 1024}, {}, ALL),
    "transpose": Case("triton_kernels", "transpose", "*fp16 *fp16 i32 i32", {"B": 64}, {}, ALL),
    "shapes": Case("triton_kernels", "shapes", "*i32 *i32", {"B": 256}, {}, ALL),
    "gathers": Case("triton_kernels", "gathers", "*fp32 *i32 *fp32", {"B": 32}, {}, ALL),
    "embedding": Case("triton_kernels", "embedding", "*i64 *bf16 *bf16", {"WIDTH": 1024}, {}, ALL),
    "cross_entropy": Case(
        "triton_kernels", "cross_entropy", "*fp32 *i64 *fp32 i32", {"BLOCK": 2048}, {}, ALL
    ),
    "debugging": Case("triton_kernels", "debugging", "*i32 i32", {"BLOCK": 64}, {"debug": True}, ALL),
    "assembly": Case("triton_kernels", "assembly", "*i32 *i32", {"BLOCK": 128}, {}, ALL),
    "calls": Case("triton_kernels", "calls", "*fp32 *fp32", {}, {}, ALL),
    "control": Case("triton_kernels", "control", "*i32 *i32 i32 i1", {}, {}, ALL),
    "tensor_copy": Case("triton_kernels", "tensor_copy", "*fp32 *fp32 i32 i32", {"B": 32}, {}, ALL),
    "grouped": Case("triton_kernels", "grouped", "*i32 *i64 *fp32 i32", {"BLOCK": 256}, {}, ALL),
    "gluon_copy": Case("gluon_kernels", "copy", "*fp32 *fp32 i32", {"BLOCK": 1024}, {}, ALL),
    "gluon_copy_half": Case("gluon_kernels", "copy", "*fp16 *fp16 i32", {"BLOCK": 2048}, {}, ALL),
    "gluon_through_shared": Case("gluon_kernels", "through_shared", "*fp16 *fp16", {"B": 64}, {}, ALL),
    "gluon_staged": Case("gluon_kernels", "staged", "*fp32 *fp32", {"B": 32, "STAGES": 3}, {}, ALL),
    "gluon_tensor_core": Case(
        "gluon_kernels", "tensor_core", "*fp16 *fp16 *fp32", {"M": 64, "N": 64, "K": 32}, {}, ALL
    ),
    "gluon_reduce_rows": Case("gluon_kernels", "reduce_rows", "*fp32 *fp32", {"M": 64, "N": 64}, {}, ALL),
    "gluon_bulk_copy": Case("gluon_kernels", "bulk_copy", "*fp16 *fp16 i32 i32", {"B": 64}, {}, NEW),
    "gluon_warpgroup": Case(
        "gluon_kernels", "warpgroup", "*fp16 *fp16 *fp32 i32", {"M": 64, "N": 128, "BK": 64}, {}, (90,)
    ),
    "gluon_tensor_memory": Case(
        "gluon_kernels", "tensor_memory", "*fp16 *fp16 *fp32 i32", {"M": 128, "N": 128, "BK": 64}, {}, (100,)
    ),
    "gluon_specialized": Case("gluon_kernels", "specialized", "*fp32 *fp32 i32", {"B": 128}, {}, NEW),
}
#: Every text of these kernels: case, compute capability.
TRITON = [(name, capability) for name, case in CASES.items() for capability in case.on]
