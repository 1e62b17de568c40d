"""Kernels of LeetCUDA and apex: what they are compiled from, and how they are launched.

The projects are xlite-dev/LeetCUDA and NVIDIA/apex. Grids, blocks, shared memory and templates are those of
their launchers. Of torch's headers the files need what the host's code names, which is stood in for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _foreign import array
from _foreign_cuda import TORCH_FLAGS, Source, ceil, line, scalar

__all__ = ["SOURCES", "checks", "launches"]

_TORCH = """\
#pragma once
#include <cuda_runtime.h>
#include <iostream>
#include <stdexcept>
namespace torch {
enum Dtype { kFloat32, kFloat, kHalf, kInt32 };
struct Options { Dtype dtype() const; };
std::ostream &operator<<(std::ostream &, Options);
struct Tensor {
  Options options() const;
  int dim() const;
  int size(int) const;
  void *data_ptr() const;
  template <typename T> T *data_ptr() const;
};
struct Module { template <typename F> void def(const char *, F, const char *); };
}
#define PYBIND11_MODULE(name, m) static void bindings(torch::Module m)
"""
_C10 = """\
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define C10_WARP_SIZE 32
#define C10_CUDA_KERNEL_LAUNCH_CHECK()
#define TORCH_INTERNAL_ASSERT(...)
namespace c10 { using BFloat16 = __nv_bfloat16; using Half = __half; }
namespace at { namespace cuda { cudaStream_t getCurrentCUDAStream(); } }
"""
_EMPTY = "#pragma once\n"
_STOOD_IN = {
    "torch/extension.h": _TORCH,
    "torch/types.h": _EMPTY,
    "c10/macros/Macros.h": _C10,
    "ATen/ATen.h": _EMPTY,
    "ATen/cuda/CUDAContext.h": _EMPTY,
}
_FLAGS = (*TORCH_FLAGS, "-O3", "--use_fast_math", "--expt-extended-lambda", "-DNO_MMA_HGEMM_BIN")
_APEX = "apex/csrc/megatron"


def _template(*values: int | bool) -> str:
    """Return numbers as the name of a template's instance has them."""
    return "I" + "".join(f"L{'b' if isinstance(each, bool) else 'i'}{int(each)}E" for each in values) + "E"


def _leet(file: str, only: str, *includes: str) -> Source:
    folders = tuple(f"LeetCUDA/kernels/{each}" for each in includes)
    return Source(f"LeetCUDA/kernels/{file}.cu", _FLAGS, includes=folders, headers=_STOOD_IN, only=only)


#: The kernels.
_NN = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_swizzle_kernel"
_TN = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_tn_swizzle_x2_kernel"
_SHARED_KV = "flash_attn_mma_stages_split_q_shared_kv_kernel"
_TILING = "flash_attn_mma_stages_split_q_tiling_qkv_acc_f32_kernel"
_TF32 = "sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages_kernel"
_SGEMM = "sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf_async_kernel"
_SOFTMAX = "online_safe_softmax_f32x4_pack_per_token_kernel"
_NORM = "layer_norm_f16x8_pack_f32_kernel"
_TRIANGLE, _APEX_ROPE = "scaled_upper_triang_masked_softmax_warp_forward", "fused_rope_forward"
#: By the name of the text.
SOURCES = {
    "leet_hgemm_nn": _leet("hgemm/mma/swizzle/hgemm_mma_stage_swizzle", _NN, "hgemm/utils"),
    "leet_hgemm_tn": _leet("hgemm/mma/swizzle/hgemm_mma_stage_tn_swizzle_x2", _TN, "hgemm/utils"),
    "leet_attention_shared": _leet(
        "flash-attn/mma/basic/flash_attn_mma_share_kv", f"{_SHARED_KV}ILi64E", "flash-attn/utils"
    ),
    "leet_attention_tiling": _leet(
        "flash-attn/mma/basic/flash_attn_mma_tiling_qkv_F32F16F16F32",
        f"{_TILING}ILi128E",
        "flash-attn/utils",
    ),
    "leet_sgemm_tf32": _leet("sgemm/sgemm_wmma_tf32_stage", _TF32),
    "leet_sgemm_async": _leet("sgemm/sgemm_async", _SGEMM),
    "leet_hgemv": _leet("hgemv/hgemv", "hgemv_k128_f16x4_kernel"),
    "leet_rope": _leet("rope/rope", "rope_f32x4_pack_kernel"),
    "leet_norm": _leet("layer-norm/layer_norm", _NORM),
    "leet_softmax": _leet("softmax/softmax", _SOFTMAX),
    "apex_triangle": Source(
        f"{_APEX}/scaled_upper_triang_masked_softmax.h",
        (*TORCH_FLAGS, "-O3"),
        end=f"namespace {{ template __global__ void {_TRIANGLE}<__half, __half, float, 11>"
        "(__half *, const __half *, float, int, int, int); }",
        headers=_STOOD_IN,
        only=_TRIANGLE,
    ),
    "apex_rope": Source(
        f"{_APEX}/fused_rotary_positional_embedding.h",
        (*TORCH_FLAGS, "-O3"),
        end=f"namespace {{ template __global__ void {_APEX_ROPE}<float>(int, int, int, {'int, ' * 8}"
        "const float *, const float *, float *); }",
        headers=_STOOD_IN,
        only=_APEX_ROPE,
    ),
}


# --- products -------------------------------------------------------------------------------------


def hgemm(transposed: bool, M: int, N: int, K: int, stages: int = 3, stride: int = 2048) -> dict[str, Any]:
    """Return a product in halves; transposed, B is stored by columns. CTAs go over strips of ``stride``."""
    strips = ceil(N, stride)
    b = 128 * (16 + 8) if transposed else 16 * (128 + 8)
    kernel = (_TN if transposed else _NN) + _template(16, 8, 16, 2, 4, 4, 4, 2, 0, 8, stages, True, True)
    shape = (N, K) if transposed else (K, N)
    return line(
        f"LeetCUDA hgemm-{'tn' if transposed else 'nn'} {M}x{N}x{K}",
        f"leet_hgemm_{'tn' if transposed else 'nn'}",
        kernel,
        (ceil(ceil(N, 128), strips), ceil(M, 128), strips),
        (256,),
        {"A": array("f16", M, K), "B": array("f16", *shape), "C": array("f16", M, N, role="out")},
        ["A", "B", "C", M, N, K],
        "product of transposed" if transposed else "product",
        (0.02, 0.06 * K**0.5),  # of sums in halves
        stages * (128 * 16 + b) * 2 * 2,
        flops=2.0 * M * N * K,
        bits=16,
    )


def _single(
    name: str,
    text: str,
    kernel: str,
    size: Sequence[int],
    grid: Sequence[int],
    block: Sequence[int],
    tolerance: float,
    bits: int,
) -> dict[str, Any]:
    """Return a product of arrays in single precision."""
    M, N, K = size
    return line(
        f"LeetCUDA {name} {M}x{N}x{K}",
        text,
        kernel,
        grid,
        block,
        {"A": array("f32", M, K), "B": array("f32", K, N), "C": array("f32", M, N, role="out")},
        ["A", "B", "C", M, N, K],
        "product",
        (1e-2, tolerance * K**0.5),
        flops=2.0 * M * N * K,
        bits=bits,
    )


def sgemm_tf32(M: int, N: int, K: int, stages: int = 3, stride: int = 2048) -> dict[str, Any]:
    """Return the product by tensor cores, whose launcher would round the arrays to tf32 before."""
    strips = ceil(N, stride)
    grid = (ceil(ceil(N, 128), strips), ceil(M, 128), strips)
    kernel = _TF32 + _template(16, 16, 8, 4, 2, 2, 4, 0, 0, stages, True)
    return _single("sgemm-tf32", "leet_sgemm_tf32", kernel, (M, N, K), grid, (256,), 5e-3, 32)


def sgemm_async(M: int, N: int, K: int) -> dict[str, Any]:
    kernel, grid = _SGEMM + _template(128, 128, 16, 8, 8, 0), (ceil(N, 128), ceil(M, 128))
    return _single("sgemm-async", "leet_sgemm_async", kernel, (M, N, K), grid, (16, 16), 1e-3, 32)


def hgemv(M: int, K: int) -> dict[str, Any]:
    """Return a product with a vector, whose sums are halves."""
    return line(
        f"LeetCUDA hgemv_k128_f16x4 {M}x{K}",
        "leet_hgemv",
        "hgemv_k128_f16x4_kernel",
        (ceil(M, 4),),
        (32, 4),
        {"x": array("f16", K), "a": array("f16", M, K), "y": array("f16", M, role="out")},
        ["a", "x", "y", M, K],
        "product with a vector",
        (0.02, 0.02 * K**0.5),
    )


def attention(tiling: bool, heads: int, rows: int, width: int, stages: int = 2) -> dict[str, Any]:
    """Return an attention of 128 rows of queries for a CTA; tiled, it also goes along a head's elements."""
    keys = 16 if tiling else 8  # the tiles of 8 of a block of keys, at these widths
    numbers = (width, 16, 8, 16, 8, 1, 8, 1, 1, keys, 1, width // 8, 1, stages, 8, 8, 8)
    if tiling:
        smem = stages * max((128 + 8 * keys) * (16 + 8), 8 * keys * (16 + 8)) * 2
    else:
        smem = (128 + stages * 8 * keys) * (width + 8) * 2
    return line(
        f"LeetCUDA attention-{'tiling' if tiling else 'shared'} {heads}x{rows}x{width}",
        f"leet_attention_{'tiling' if tiling else 'shared'}",
        (_TILING if tiling else _SHARED_KV) + _template(*numbers),
        (rows // 128, heads),
        (256,),
        {
            **{name: array("f16", heads * rows, width) for name in "QKV"},
            "O": array("f16", heads * rows, width, role="out"),
        },
        [*"QKVO", rows, heads],
        "output of attention",
        (0.02, 0.02),
        smem,
        parameters={"scale": width**-0.5, "heads": heads},
        flops=4.0 * heads * rows * rows * width,
        bits=16,
    )


# --- rows -----------------------------------------------------------------------------------------


def rope(tokens: int, width: int) -> dict[str, Any]:
    return line(
        f"LeetCUDA rope_f32x4_pack {tokens}x{width}",
        "leet_rope",
        "rope_f32x4_pack_kernel",
        (ceil(tokens * width // 4, 256),),
        (256,),
        {"x": array("f32", tokens, width), "out": array("f32", tokens, width, role="out")},
        ["x", "out", tokens, width // 4],
        "rotation of pairs",
        (0.03, 0.03),
    )


def layer_norm(rows: int, columns: int) -> dict[str, Any]:
    scale, shift = 1.5, 0.25
    return line(
        f"LeetCUDA layer_norm_f16x8_pack_f32 {rows}x{columns}",
        "leet_norm",
        _NORM + _template(columns // 8),
        (rows,),
        (columns // 8,),
        {"x": array("f16", rows, columns), "y": array("f16", rows, columns, role="out")},
        ["x", "y", scalar(scale, "f32"), scalar(shift, "f32"), rows, columns],
        "scaled norm",
        (0.01, 0.01),
        parameters={"scale": scale, "shift": shift},
    )


def softmax(rows: int, columns: int) -> dict[str, Any]:
    """Return a softmax of 4096 columns; with fewer threads its last step reads what no warp wrote."""
    return line(
        f"LeetCUDA online_safe_softmax_f32x4_pack {rows}x{columns}",
        "leet_softmax",
        _SOFTMAX + _template(columns // 4),
        (rows,),
        (columns // 4,),
        {"x": array("f32", rows, columns), "y": array("f32", rows, columns, role="out")},
        ["x", "y", rows * columns],
        "softmax",
        (1e-3, 1e-6),
    )


def triangle(batches: int, length: int = 2048) -> dict[str, Any]:
    """Return apex's causal softmax, with a warp for a row; its text is for 1025 to 2048 elements."""
    scale = 0.125
    return line(
        f"apex scaled_upper_triang_masked_softmax {batches}x{length}",
        "apex_triangle",
        _TRIANGLE,
        (length, batches // 4),
        (32, 4),
        {
            "src": array("f16", batches, length, length),
            "dst": array("f16", batches, length, length, role="out"),
        },
        ["dst", "src", scalar(scale, "f32"), batches * length, length, length],
        "scaled causal softmax",
        (0.01, 1e-4),
        parameters={"scale": scale},
    )


def apex_rope(length: int, batch: int, heads: int, width: int) -> dict[str, Any]:
    """Return apex's rotary embedding of halves of a head, f32, whose angles are an array.

    The largest angles, of more than 100,000, would go another way.
    """
    strides = [batch * heads * width, heads * width, width, 1]
    shape, angles = (length, batch, heads, width), ["uniform", 0.0, 2048.0]
    arrays = {"src": array("f32", *shape), "freqs": array("f32", length, width, values=angles)}
    return line(
        f"apex fused_rope_forward {length}x{batch}x{heads}x{width}",
        "apex_rope",
        _APEX_ROPE,
        (length, batch),
        (32, 4 if heads < 16 else 8),
        {**arrays, "dst": array("f32", *shape, role="out")},
        [heads, width, width, *strides, *strides, "src", "freqs", "dst"],
        "rotation of halves",
        (1e-3, 1e-3),
        contents="zeros",
    )


# --- the lists ------------------------------------------------------------------------------------


def launches() -> list[dict[str, Any]]:
    """Return the launches that are predicted."""
    return [
        hgemm(False, 4096, 4096, 2048),
        hgemm(True, 6144, 2048, 2048),
        attention(False, 16, 4096, 64),
        attention(True, 16, 2048, 128),
        sgemm_tf32(2048, 2048, 1024),
        sgemm_async(2048, 2048, 512),
        hgemv(16384, 4096),
        rope(2048, 4096),
        layer_norm(16384, 2048),
        softmax(8192, 4096),
        triangle(16),
        apex_rope(2048, 4, 16, 128),
    ]


def checks() -> list[dict[str, Any]]:
    """Return small launches of the same kernels, for the simulator."""
    return [
        hgemm(False, 128, 256, 128),
        hgemm(True, 128, 256, 128),
        attention(False, 2, 256, 64),
        attention(True, 2, 256, 128),
        sgemm_tf32(128, 256, 64),
        sgemm_async(128, 256, 64),
        hgemv(8, 512),
        rope(16, 1024),
        layer_norm(3, 2048),
        softmax(3, 4096),
        triangle(4, 1028),
        apex_rope(3, 2, 16, 128),
    ]
