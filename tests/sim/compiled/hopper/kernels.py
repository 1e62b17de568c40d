"""What is compiled: the CUDA sources, and the kernels in Triton and Gluon with types, constants and options."""

from __future__ import annotations

from ..sources import Triton, descriptors
from .launches import HERE

__all__ = ["CUDA", "GLUON", "TRITON"]

CUDA = sorted((HERE / "sources").glob("*.cu"))

_TILE = {"BM": 64, "BN": 64, "BK": 64}


_SQUARES = descriptors("fp16", "64,64", "64,64", "64,64")
TRITON = {
    "product": Triton("product", f"{_SQUARES} i32", {**_TILE, "SPECIAL": False}, {"num_stages": 3}),
    "specialised": Triton("product", f"{_SQUARES} i32", {**_TILE, "SPECIAL": True}, {"num_stages": 2}),
    "persistent": Triton(
        "persistent_product",
        "*bf16 *bf16 *bf16 i32 i32 i32",
        {"BM": 64, "BN": 128, "BK": 64, "PROGRAMS": 2},
        {"num_stages": 3},
    ),
    "eights": Triton(
        "eights",
        descriptors("fp8e4nv", "64,128", "64,128") + " " + descriptors("fp16", "64,64") + " i32",
        {"BM": 64, "BN": 64, "BK": 128},
        {"num_stages": 2},
    ),
    "bytes": Triton(
        "bytes_and_bias",
        descriptors("i8", "64,64", "64,64") + " *i32 " + descriptors("i32", "64,64") + " i32",
        _TILE,
        {"num_stages": 2},
    ),
    "attention": Triton(
        "attention",
        descriptors("fp16", "64,64", "64,64", "64,64", "64,64") + " i32 fp32",
        {"BM": 64, "BN": 64, "D": 64},
        {"num_stages": 2},
    ),
    "groups": Triton("groups", "*i32 *fp16 *fp16 *fp16 i32 i32", _TILE, {"num_stages": 2}),
    "reductions": Triton("reductions", descriptors("i32", *["32,32"] * 5), {"B": 32}, {}),
    "cluster_product": Triton(
        "product", f"{_SQUARES} i32", {**_TILE, "SPECIAL": False}, {"num_stages": 2, "num_ctas": 2}
    ),
    "cluster_softmax": Triton("softmax", "*fp32 *fp32 i32", {"BLOCK": 1024}, {"num_ctas": 2}),
}


def _layout(span: int, bits: int, cga: str = "[]", rank: int = 2) -> str:
    return (
        f"NVMMASharedLayout(swizzle_byte_width={span},element_bitwidth={bits},rank={rank},"
        f"transposed=False,fp4_padded=False,cga_layout={cga})"
    )


def _tiles(kind: str, *boxes: str, cga: tuple[str, ...] = (), mode: str = "tensordesc") -> str:
    layouts = cga or ("[]",) * len(boxes)
    return " ".join(
        f"{mode}<{kind}[{box}],{_layout(min(128, 2 * int(box.split(',')[1])), 16, of)}>"
        for box, of in zip(boxes, layouts, strict=True)
    )


GLUON = {
    "ring_product": Triton(
        "ring_product", _tiles("fp16", "64,64", "64,64", "64,64") + " i32", {"STAGES": 3}, {}
    ),
    "roles": Triton("roles", _tiles("bf16", "64,64", "64,64", "64,64") + " i32 i32 i32", {"STAGES": 3}, {}),
    "chained": Triton("chained", "*bf16 *bf16 *bf16 *fp32", {"M": 64, "N": 64, "K": 64}, {}),
    "patches": Triton(
        "patches",
        _tiles("fp16", "64,32", mode="tensordesc_im2col") + " " + _tiles("fp16", "32,32") + " *fp32 i32 i32",
        {"PIXELS": 64, "CHANNELS": 32, "FILTERS": 32},
        {},
    ),
    "cluster_product": Triton(
        "cluster_product",
        _tiles("fp16", "128,64", "64,64", "128,64", cga=("[[1,0]]", "[[0,0]]", "[[1,0]]")) + " i32",
        {},
        {"num_ctas": 2},
    ),
}
