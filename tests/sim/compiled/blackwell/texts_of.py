"""What is compiled: the CUDA sources, and the kernels in Triton and Gluon with types, constants and options."""

from __future__ import annotations

from pathlib import Path

from ..sources import Triton, descriptors

__all__ = ["CORPUS", "CUDA", "GLUON", "TEXTS", "TRITON"]

HERE = Path(__file__).parent
TEXTS = HERE / "texts"
CUDA = sorted((HERE / "sources").glob("*.cu"))


#: Of ``tests/ir/corpus``, at sizes that suit a simulator.
CORPUS = {
    "halves": Triton(
        "matmul", "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 128, "BN": 32, "BK": 64}, {"num_stages": 3}
    ),
    "integers": Triton("matmul_integer", "*i8 *i8 *i32 i32", {"BM": 64, "BN": 64, "BK": 32}, {}),
    "descriptors": Triton(
        "matmul_descriptor",
        "*fp16 *fp16 *fp16 i32 i32 i32",
        {"BM": 128, "BN": 64, "BK": 64, "SPECIAL": False},
        {"num_stages": 3},
    ),
    "specialised": Triton(
        "matmul_descriptor",
        "*fp16 *fp16 *fp16 i32 i32 i32",
        {"BM": 128, "BN": 64, "BK": 64, "SPECIAL": True},
        {"num_stages": 2},
    ),
    "persistent": Triton(
        "matmul_persistent",
        "*bf16 *bf16 *bf16 i32 i32 i32",
        {"BM": 128, "BN": 64, "BK": 64, "PROGRAMS": 2},
        {"num_stages": 3},
    ),
    "eights_scaled": Triton(
        "scaled_matmul", "*fp8e4nv *u8 *fp8e4nv *u8 *fp32", {"BM": 128, "BN": 32, "BK": 128}, {}
    ),
    "attention_causal": Triton(
        "attention",
        "*bf16 *bf16 *bf16 *bf16 i32 fp32",
        {"BM": 128, "BN": 64, "D": 64, "CAUSAL": True},
        {"num_warps": 8},
    ),
}
TRITON = {
    "eights": Triton(
        "product",
        descriptors("fp8e4nv", "128,128", "64,128") + " " + descriptors("fp16", "128,64") + " i32",
        {"BM": 128, "BN": 64, "BK": 128},
        {"num_stages": 3},
    ),
    "cluster": Triton(
        "product",
        descriptors("fp16", "256,64", "64,64", "256,64") + " i32",
        {"BM": 256, "BN": 64, "BK": 64},
        {"num_ctas": 2},
    ),
    "attention_specialised": Triton(
        "attention",
        descriptors("fp16", "128,64", "64,64", "64,64", "128,64") + " i32 fp32",
        {"BM": 128, "BN": 64, "D": 64, "SPECIAL": True},
        {"num_stages": 2},
    ),
    "fours_scaled": Triton(
        "fours",
        "tensordesc<u8[128,128]> *u8 tensordesc<u8[128,128]> *u8 tensordesc<fp32[128,128]> i32",
        {"BM": 128, "BN": 128, "BK": 256},
        {"num_stages": 2},
    ),
}
GLUON = {
    "roles": Triton(
        "roles", "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 128, "BN": 64, "BK": 64, "STAGES": 3}, {}
    ),
    "scaled": Triton("scaled", "*fp8e4nv *fp8e4nv *u8 *u8 *fp32 i32", {"BM": 128, "BN": 128, "BK": 128}, {}),
    "pair": Triton("pair", "*bf16 *bf16 *fp32 i32 i32 i32", {"BM": 256, "BN": 64, "BK": 64}, {"num_ctas": 2}),
    "launch_control": Triton("launch_control", "*fp32 *fp32 i32", {"BLOCK": 128}, {}),
    "packed": Triton("packed", "*fp32 *fp32 *fp32 i32", {"BLOCK": 512}, {}),
}
