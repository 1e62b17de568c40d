"""Launches of Triton's kernels of flash-linear-attention, unsloth and FlagGems.

The projects are fla-org/flash-linear-attention, unslothai/unsloth and FlagOpen/FlagGems. Each launch has the
grid that the project's wrapper gives it; where the project tunes, blocks, warps and stages are one of the
choices that it tries.
"""

from __future__ import annotations

from typing import Any

from _foreign import array
from _foreign_cuda import SMS, ceil
from _foreign_triton import Made

__all__ = ["checks", "launches"]

FLA = "flash-linear-attention/fla"
UNSLOTH = "unsloth/unsloth/kernels"
GEMS = "FlagGems/src/flag_gems"
#: What a launcher's kernel has where the launcher says nothing: Triton's defaults.
WARPS, STAGES = 4, 3
#: Rows of a chunk of the linear attentions.
CHUNK = 64


def _close(bound: float) -> dict[str, float]:
    return {"rtol": bound, "atol": bound}


# --- flash-linear-attention -----------------------------------------------------------------------


def chunk_o(B: int, T: int, H: int, K: int, V: int, block: int = 128, warps: int = 8) -> Made:
    """The output of a gated linear attention, from the states before each chunk."""
    chunks = ceil(T, CHUNK)
    arrays = {
        "q": array("bf16", B, T, H, K),
        "k": array("bf16", B, T, H, K),
        "v": array("bf16", B, T, H, V),
        "h": array("bf16", B, chunks, H, K, V),
        "g": array("f32", B, T, H, values=["uniform", -1.0, 0.0]),
        "o": array("bf16", B, T, H, V, role="out"),
    }
    scale = K**-0.5
    absent = dict.fromkeys(("g_gamma", "cu_seqlens", "chunk_indices"))
    constants = {"H": H, "HV": H, "K": K, "V": V, "BT": CHUNK, "BK": block, "BV": block}
    flags = {"USE_G": True, "USE_G_GAMMA": False, "STATE_V_FIRST": False, "IS_VARLEN": False}
    return Made(
        f"fla chunk_fwd_o {B}x{T}x{H}x{K}x{V}",
        "common/chunk_o.py",
        "chunk_fwd_kernel_o",
        {**{name: name for name in arrays}, "scale": scale, "T": T},
        {**constants, **flags, **absent},
        arrays,
        warps,
        3,
        (ceil(V, block), chunks, B * H),
        {"reference": "chunks of attention", "parameters": {"scale": scale, "chunk": CHUNK}, **_close(0.1)},
        ("scale",),
        f"{FLA}/ops",
        {"": "utils/op.py"},
        ("T",),
    )


def chunk_kkt(B: int, T: int, H: int, K: int, block: int = 64) -> Made:
    """The products of a chunk's keys with each other, below the diagonal."""
    arrays = {
        "k": array("bf16", B, T, H, K),
        "g": array("f32", B, T, H, values=["uniform", -1.0, 0.0]),
        "beta": array("bf16", B, T, H, values=["uniform", 0.0, 1.0]),
        "A": array("f32", B, T, H, CHUNK, role="out"),
    }
    constants = {"H": H, "HV": H, "K": K, "BT": CHUNK, "BK": block, "IS_VARLEN": False, "USE_G": True}
    return Made(
        f"fla chunk_scaled_dot_kkt_fwd {B}x{T}x{H}x{K}",
        "common/chunk_scaled_dot_kkt.py",
        "chunk_scaled_dot_kkt_fwd_kernel",
        {**{name: name for name in arrays}, "T": T},
        {**constants, **dict.fromkeys(("cu_seqlens", "chunk_indices"))},
        arrays,
        4,
        3,
        (ceil(T, CHUNK), B * H, 1),
        {"reference": "products of keys", "parameters": {"chunk": CHUNK}, **_close(0.05)},
        (),
        f"{FLA}/ops",
        {"": "utils/op.py"},
        ("T",),
    )


def delta_states(B: int, T: int, H: int, K: int, V: int, block: int = 32) -> Made:
    """The states of the gated delta rule before each chunk, and the new values.

    With small keys and gates below one the states do not grow.
    """
    small: dict[str, Any] = {"values": ["uniform", -0.05, 0.05]}
    arrays = {
        "k": array("bf16", B, T, H, K, **small),
        "v": array("bf16", B, T, H, V),
        "w": array("bf16", B, T, H, K, **small),
        "g": array("f32", B, T, H, values=["uniform", -1.0, 0.0]),
        "h": array("bf16", B, ceil(T, CHUNK), H, K, V, role="out"),
        "v_new": array("bf16", B, T, H, V, role="out"),
    }
    constants = {"H": H, "HV": H, "K": K, "V": V, "BT": CHUNK, "BV": block, "USE_G": True, "USE_GK": False}
    constants |= {"USE_INITIAL_STATE": False, "STORE_FINAL_STATE": False, "SAVE_NEW_VALUE": True}
    constants |= {"STATE_V_FIRST": False, "IS_VARLEN": False}
    absent = dict.fromkeys(("gk", "h0", "ht", "cu_seqlens", "chunk_offsets"))
    return Made(
        f"fla chunk_gated_delta_rule_fwd_h {B}x{T}x{H}x{K}x{V}",
        "common/chunk_delta_h.py",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        {**{name: name for name in arrays}, "T": T},
        {**constants, **absent},
        arrays,
        4,
        3,
        (ceil(V, block) * B * H, 1, 1),
        {"reference": "states of the delta rule", "parameters": {"chunk": CHUNK}, **_close(0.05)},
        (),
        f"{FLA}/ops",
        {"": "utils/op.py"},
        ("T",),
    )


def l2norm(T: int, D: int, rows: int = 32, warps: int = 4) -> Made:
    arrays = {
        "x": array("bf16", T, D),
        "y": array("bf16", T, D, role="out"),
        "rstd": array("f32", T, role="out"),
    }
    return Made(
        f"fla l2norm_fwd {T}x{D}",
        "l2norm.py",
        "l2norm_fwd_kernel",
        {"x": "x", "y": "y", "rstd": "rstd", "eps": 1e-6, "T": T},
        {"D": D, "BD": 1 << (D - 1).bit_length(), "NB": ceil(T, 2048 * 32), "BT": rows},
        arrays,
        warps,
        STAGES,
        (ceil(T, rows), 1, 1),
        {"reference": "l2 norm", "parameters": {"eps": 1e-6}, **_close(0.01)},
        ("eps",),
        f"{FLA}/modules",
        general=("T",),
    )


def rotary(B: int, T: int, H: int, D: int) -> Made:
    arrays = {
        "x": array("bf16", B, T, H, D),
        "cos": array("bf16", T, D // 2),
        "sin": array("bf16", T, D // 2),
        "y": array("bf16", B, T, H, D, role="out"),
    }
    rows = min(128, 1 << (ceil(T, SMS) - 1).bit_length())
    constants = {"B": B, "H": H, "D": D, "R": D // 2, "TR": T, "BT": rows, "BD": D}
    flags = ("IS_SEQLEN_OFFSETS_TENSOR", "IS_VARLEN", "INTERLEAVED", "CONJUGATE")
    return Made(
        f"fla rotary_embedding {B}x{T}x{H}x{D}",
        "rotary.py",
        "rotary_embedding_kernel",
        {**{name: name for name in arrays}, "seq_offsets": 0, "T": T},
        {**constants, **dict.fromkeys(flags, False), **dict.fromkeys(("cu_seqlens", "chunk_indices"))},
        arrays,
        4,
        3,
        (ceil(T, rows), B, H),
        {"reference": "rotation by cosines", **_close(0.03)},
        (),
        f"{FLA}/modules",
        general=("T",),
    )


def convolution(B: int, T: int, D: int, W: int = 4, block: int = 64) -> Made:
    """The causal convolution of each channel, with SiLU."""
    arrays = {
        "x": array("bf16", B, T, D),
        "weight": array("bf16", D, W),
        "y": array("bf16", B, T, D, role="out"),
    }
    arguments = {"x": "x", "y": "y", "weight": "weight", "B": B, "T": T}
    arguments |= {"stride_x_n": T * D, "stride_x_t": D, "stride_x_d": 1}
    constants = {
        "D": D,
        "W": W,
        "BT": 64,
        "BW": W,
        "BD": block,
        "NB": ceil(B * T, 1024),
        "ACTIVATION": "silu",
    }
    flags = {"HAS_WEIGHT": True, **dict.fromkeys(("HAS_BIAS", "HAS_RESIDUAL", "USE_INITIAL_STATE"), False)}
    absent = dict.fromkeys(("bias", "residual", "cu_seqlens", "initial_state", "chunk_indices"))
    return Made(
        f"fla causal_conv1d_fwd {B}x{T}x{D}x{W}",
        "conv/triton/kernels.py",
        "causal_conv1d_fwd_kernel",
        arguments,
        {**constants, "ACTIVATION": "silu", **flags, "IS_VARLEN": False, **absent},
        arrays,
        4,
        STAGES,
        (ceil(D, block), ceil(T, 64), B),
        {"reference": "causal convolution", **_close(0.03)},
        (),
        f"{FLA}/modules",
    )


def gated_norm(M: int, N: int) -> Made:
    """The product of an RMS norm and a gate, whose SiLU comes after the norm."""
    arrays = {
        "x": array("bf16", M, N),
        "w": array("bf16", N),
        "z": array("bf16", M, N),
        "y": array("bf16", M, N, role="out"),
        "rstd": array("f32", M, role="out"),
    }
    arguments = {"X": "x", "Y": "y", "W": "w", "Z": "z", "Rstd": "rstd", "M": M, "N": N, "eps": 1e-5}
    arguments |= {f"stride_{name}_row": N for name in "xyz"}
    block = 1 << (N - 1).bit_length()
    flags = {"HAS_BIAS": False, "HAS_Z": True, "NORM_BEFORE_GATE": True, "IS_RMS_NORM": True}
    return Made(
        f"fla layernorm_gated {M}x{N}",
        "layernorm_gated.py",
        "layer_norm_fwd_kernel",
        arguments,
        {"BLOCK_N": block, **flags, "B": None, "Mean": None},
        arrays,
        min(max(block // 256, 1), 8),
        STAGES,
        (M, 1, 1),
        {"reference": "gated rms norm", "parameters": {"eps": 1e-5}, **_close(0.03)},
        ("eps",),
        f"{FLA}/modules",
    )


# --- unsloth --------------------------------------------------------------------------------------


def geglu(n: int) -> Made:
    """The exact GELU and a product; the error function goes one way for small numbers, so these are known."""
    arrays = {"e": array("bf16", n, drawn=True), "g": array("bf16", n), "h": array("bf16", n, role="out")}
    return Made(
        f"unsloth geglu_exact_forward {n}",
        "geglu.py",
        "_exact_forward_kernel",
        {"e": "e", "g": "g", "h": "h", "n_elements": n},
        {"BLOCK_SIZE": 1024, "LONG_INDEXING": 0},
        arrays,
        WARPS,
        STAGES,
        (ceil(n, 1024), 1, 1),
        {"reference": "exact geglu", **_close(0.02)},
        folder=UNSLOTH,
    )


def dequantize(M: int, N: int, block: int = 128) -> Made:
    arrays = {
        "x": array("e4m3", M, N),
        "s": array("f32", ceil(M, block), ceil(N, block), values=["uniform", 0.5, 1.5]),
        "y": array("bf16", M, N, role="out"),
    }
    return Made(
        f"unsloth weight_dequant {M}x{N}",
        "fp8.py",
        "weight_dequant_kernel",
        {"x_ptr": "x", "s_ptr": "s", "y_ptr": "y", "M": M, "N": N},
        {"BLOCK_SIZE": block},
        arrays,
        WARPS,
        STAGES,
        (ceil(M, block), ceil(N, block), 1),
        {"reference": "product of blocks with scales", "parameters": {"block": block}, **_close(0.01)},
        folder=UNSLOTH,
    )


def product_fp8(M: int, N: int, K: int, block: int = 128) -> Made:
    """The product with scales of blocks, as DeepGEMM's, but with scales of A by its rows."""
    scales: dict[str, Any] = {"values": ["uniform", 0.5, 1.5]}
    arrays = {
        "a": array("e4m3", M, K),
        "b": array("e4m3", N, K),
        "a_s": array("f32", M, K // block, **scales),
        "b_s": array("f32", N // block, K // block, **scales),
        "c": array("bf16", M, N, role="out"),
    }
    arguments = {"A": "a", "B": "b", "C": "c", "As": "a_s", "Bs": "b_s", "M": M, "N": N, "K": K}
    arguments |= {"group_n": block, "group_k": block, "stride_am": K, "stride_ak": 1, "stride_bk": 1}
    arguments |= {"stride_bn": K, "stride_cm": N, "stride_cn": 1, "stride_As_m": K // block, "stride_As_k": 1}
    arguments |= {"stride_Bs_k": 1, "stride_Bs_n": K // block}
    sizes = {f"BLOCK_SIZE_{name}": block for name in "MNK"}
    more = {"reference": "product with scales of rows", "rtol": 0.02, "atol": 0.02 * K**0.5}
    return Made(
        f"unsloth w8a8_block_fp8_matmul {M}x{N}x{K}",
        "fp8.py",
        "_w8a8_block_fp8_matmul",
        arguments,
        {**sizes, "GROUP_SIZE_M": 8},
        arrays,
        WARPS,
        STAGES,
        (ceil(M, block) * ceil(N, block), 1, 1),
        {**more, "flops": 2.0 * M * N * K, "bits": 8},
        folder=UNSLOTH,
    )


# --- FlagGems -------------------------------------------------------------------------------------

_HELPERS = {"tle": "utils/triton_lang_extension.py", "": "utils/limits.py"}


def log_softmax(M: int, N: int) -> Made:
    """The logarithm of a softmax, read twice: eight rows for a program, 256 columns at a time.

    Whether a sum is finite decides which way its logarithm goes.
    """
    return Made(
        f"FlagGems log_softmax {M}x{N}",
        "ops/log_softmax.py",
        "log_softmax_kernel",
        {"output_ptr": "y", "input_ptr": "x", "M": M, "N": N, "K": 1},
        {"BLOCK_M": 8, "BLOCK_N": 256},
        {"x": array("bf16", M, N), "y": array("bf16", M, N, role="out")},
        8,
        STAGES,
        (ceil(M, 8), 1, 1),
        {"reference": "log softmax", "contents": "zeros", **_close(0.02)},
        folder=GEMS,
        helpers=_HELPERS,
    )


def matvec(N: int, M: int, rows: int = 8, block: int = 128) -> Made:
    arrays = {"x": array("bf16", M), "a": array("bf16", N, M), "y": array("bf16", N, role="out")}
    arguments = {"A": "a", "B": "x", "C": "y", "N": N, "M": M, "stride_an": M, "stride_am": 1}
    return Made(
        f"FlagGems mv {N}x{M}",
        "ops/mv.py",
        "mv_kernel",
        {**arguments, "stride_bm": 1, "stride_cn": 1},
        {"BLOCK_N": rows, "BLOCK_M": block},
        arrays,
        4,
        3,
        (ceil(N, rows), 1, 1),
        {"reference": "product with a vector", "rtol": 0.02, "atol": 0.02 * M**0.5},
        folder=GEMS,
        helpers=_HELPERS,
    )


def batched(batch: int, M: int, N: int, K: int) -> Made:
    """The product of each matrix of a batch, by tiles of 128x128x32 in groups of two."""
    arrays = {
        "a": array("bf16", batch, M, K),
        "b": array("bf16", batch, K, N),
        "o": array("bf16", batch, M, N, role="out"),
    }
    more = {"reference": "product", "rtol": 0.02, "atol": 0.02 * K**0.5, "flops": 2.0 * batch * M * N * K}
    divisible = {f"DIVISIBLE_{name}": True for name in "MNK"}
    return Made(
        f"FlagGems bmm {batch}x{M}x{N}x{K}",
        "ops/bmm.py",
        "bmm_kernel",
        {"A": "a", "B": "b", "O": "o", "M": M, "N": N, "K": K},
        {"TILE_M": 128, "TILE_N": 128, "TILE_K": 32, "GROUP_M": 2, **divisible},
        arrays,
        4,
        2,
        (ceil(M, 128), ceil(N, 128), batch),
        {**more, "bits": 16},
        folder=GEMS,
        helpers=_HELPERS,
    )


def max_pool(N: int, C: int, H: int, W: int) -> Made:
    """The greatest of windows of 3x3, two apart, and where it lies in its image."""
    height, width = ((extent - 1) // 2 + 1 for extent in (H, W))
    arrays = {
        "x": array("f32", N, C, H, W),
        "y": array("f32", N, C, height, width, role="out"),
        "indices": array("s64", N, C, height, width, role="out"),
    }
    arguments = {"input_ptr": "x", "output_ptr": "y", "indices_ptr": "indices", "in_stride_n": C * H * W}
    arguments |= {"in_stride_c": H * W, "in_stride_h": W, "in_stride_w": 1, "in_c": C, "in_h": H, "in_w": W}
    constants = {f"{name}_{axis}": value for axis in "hw" for name, value in _WINDOW.items()}
    return Made(
        f"FlagGems max_pool2d {N}x{C}x{H}x{W}",
        "ops/max_pool2d_with_indices.py",
        "max_pool2d_forward_kernel",
        {**arguments, "out_h": height, "out_w": width},
        {**constants, "BLOCK_H": 32, "BLOCK_W": 32},
        arrays,
        8,
        2,
        (N * C, ceil(height, 32) * ceil(width, 32), 1),
        {"reference": "greatest of windows", **_close(1e-6)},
        folder=GEMS,
        helpers=_HELPERS,
    )


_WINDOW = {"kernel": 3, "stride": 2, "padding": 1, "dilation": 1}


# --- the lists ------------------------------------------------------------------------------------


def launches() -> list[Made]:
    """Return the launches that are predicted."""
    return [
        chunk_o(1, 8192, 16, 128, 128),
        chunk_kkt(1, 16384, 16, 128),
        delta_states(4, 4096, 16, 128, 128),
        l2norm(262144, 128),
        rotary(4, 4096, 16, 128),
        convolution(4, 4096, 2048),
        gated_norm(16384, 2048),
        geglu(12 << 20),
        dequantize(4096, 14336),
        product_fp8(2048, 4096, 4096),
        log_softmax(4096, 8192),
        matvec(16384, 4096),
        batched(16, 1024, 1024, 1024),
        max_pool(16, 64, 224, 224),
    ]


def checks() -> list[Made]:
    """Return small launches of the same kernels, for the simulator."""
    return [
        chunk_o(1, 128, 2, 128, 128),
        chunk_kkt(1, 128, 2, 128),
        delta_states(1, 192, 2, 128, 128),
        l2norm(96, 128),
        rotary(2, 1024, 2, 128),
        convolution(2, 128, 128),
        gated_norm(3, 2048),
        geglu(2048 + 16),
        dequantize(256, 128),
        product_fp8(256, 256, 512),
        log_softmax(16, 1024),
        matvec(16, 512),
        batched(2, 256, 256, 128),
        max_pool(1, 2, 80, 64),
    ]
