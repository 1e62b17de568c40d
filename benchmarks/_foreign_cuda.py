"""Kernels of SGEMM_CUDA, learn-cuda and llm.c: how they are launched; and how files of CUDA become PTX.

The projects are siboehm/SGEMM_CUDA, gau-nernst/learn-cuda, and karpathy/llm.c, of which only ``dev/cuda``
is read. Their files are compiled whole and unchanged, with the flags of their own builds; what no wheel
brings, the headers of cuBLAS, is stood in for. Choices of templates, grids, blocks and shared memory are
those of each project's launcher. SGEMM_CUDA's are in ``runner.cu``, where alpha and beta are arguments: here
they are 1 and 0. Kernels that update an array or add to it are not here: another launch gives another result.
"""

from __future__ import annotations

import random
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _foreign import array
from rivals.build import toolkit

__all__ = [
    "SMS",
    "SOURCES",
    "TORCH_FLAGS",
    "Source",
    "ceil",
    "checks",
    "compiled",
    "indices",
    "launches",
    "line",
    "scalar",
]

SMS, THREADS_OF_AN_SM = 132, 2048


@dataclass(frozen=True)
class Source:
    """A file of a project that one text is compiled from.

    Attributes:
        file: among the sources.
        flags: of nvcc, those of the project's build that matter for the device's code.
        head: what precedes the file, as the files that include it have it.
        end: what follows the file: templates that only another file instantiates.
        includes: further folders of headers, among the sources.
        headers: stand-ins for headers that no wheel brings, by their names.
        sizes: new values of the file's macros that are numbers: sizes that the project sets there.
        constants: the values of the kernel's arrays in constant memory, f32, which its host copies there.
        only: a part of the names of the kernels that the text keeps; all have it unless it is given.
    """

    file: str
    flags: tuple[str, ...]
    head: str = ""
    end: str = ""
    includes: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Sequence[float]] = field(default_factory=dict)
    only: str = ""


#: Of a release of SGEMM_CUDA's build, of PyTorch's extensions and of llm.c's Makefile.
_SGEMM_FLAGS = ("-std=c++20", "-O3", "-DNDEBUG")
TORCH_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr")
_LLMC_FLAGS = ("-std=c++17", "-O3", "--use_fast_math")


def _sgemm(file: str, kernel: str, pointer: str = "float *", head: str = "") -> Source:
    end = ""
    if "<" in kernel:
        sizes, inputs = "int, int, int, float", f"{pointer}, {pointer}"
        end = f"template __global__ void {kernel}({sizes}, {inputs}, float, float *);"
    return Source(f"SGEMM_CUDA/src/kernels/{file}.cuh", _SGEMM_FLAGS, head, end)


def _learn(file: str, *flags: str) -> Source:
    return Source(f"learn-cuda/{file}.cu", (*TORCH_FLAGS, *flags))


def _llmc(file: str) -> Source:
    return Source(f"llm.c/dev/cuda/{file}.cu", _LLMC_FLAGS)


_CONST = "const float *"
#: By the name of the text.
SOURCES = {
    "sgemm_1": _sgemm("1_naive", "sgemm_naive"),
    "sgemm_2": _sgemm("2_kernel_global_mem_coalesce", "sgemm_global_mem_coalesce<32>", _CONST),
    "sgemm_3": _sgemm("3_kernel_shared_mem_blocking", "sgemm_shared_mem_block<32>", _CONST),
    "sgemm_4": _sgemm("4_kernel_1D_blocktiling", "sgemm1DBlocktiling<64, 64, 8, 8>", _CONST),
    "sgemm_5": _sgemm("5_kernel_2D_blocktiling", "sgemm2DBlocktiling<128, 128, 8, 8, 8>", _CONST),
    "sgemm_6": _sgemm("6_kernel_vectorize", "sgemmVectorize<128, 128, 8, 8, 8>"),
    "sgemm_9": _sgemm("9_kernel_autotuned", "sgemmAutotuned<128, 128, 16, 8, 8>"),
    "sgemm_10": _sgemm("10_kernel_warptiling", "sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>"),
    "sgemm_12": _sgemm(
        "12_kernel_double_buffering",
        "runSgemmDoubleBuffering2<128, 128, 16, 64, 64, 4, 8, 4, 128>",
        head='#include "10_kernel_warptiling.cuh"',  # whose WARPSIZE it takes
    ),
    "matmul_v1": _learn("02b_matmul_sm80/matmul_v1", "-O3"),
    "matmul_v5": _learn("02b_matmul_sm80/matmul_v5", "-O3"),
    "matmul_v6": _learn("02b_matmul_sm80/matmul_v6", "-O3"),
    "sum": _learn("03_sum/sum", "-O3", "--use_fast_math"),
    "softmax": _learn("04_softmax/softmax", "-O3", "--use_fast_math"),
    "attention_v1": _learn("07_attention/attention_v1"),
    "attention_v5": _learn("07_attention/attention_v5"),
    "gemv_v1": _learn("11_gemv/cuda_v1", "-O3"),
    "gemv_persistent_v1": _learn("11_gemv/cuda_persistent_v1", "-O3"),
    "classifier_fused": _llmc("classifier_fused"),
    "encoder_forward": _llmc("encoder_forward"),
    "fused_residual_forward": _llmc("fused_residual_forward"),
    "gelu_backward": _llmc("gelu_backward"),
    "gelu_forward": _llmc("gelu_forward"),
    "layernorm_forward": _llmc("layernorm_forward"),
    "permute": _llmc("permute"),
    "residual_forward": _llmc("residual_forward"),
    "softmax_forward": _llmc("softmax_forward"),
}
#: Stands in for the headers of cuBLAS: what the host's code of the files names, and what they include.
_CUBLAS = """\
#pragma once
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef void *cublasHandle_t, *cublasLtHandle_t;
typedef int cublasStatus_t, cublasComputeType_t, cublasMath_t;
enum { CUBLAS_STATUS_SUCCESS, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 };
enum { CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
cublasStatus_t cublasCreate(cublasHandle_t *);
cublasStatus_t cublasLtCreate(cublasLtHandle_t *);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
"""


# --- the launches ---------------------------------------------------------------------------------


def indices(below: int, *shape: int) -> dict[str, Any]:
    """Return an array of indices, which are in the file of launches."""
    draw = random.Random(0)
    count = 1
    for extent in shape:
        count *= extent
    return array("s32", *shape, data=[draw.randrange(below) for _ in range(count)])


def scalar(value: float, type: str = "s32") -> dict[str, Any]:
    return {"number": value, "type": type}


def ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def line(
    name: str,
    text: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    arrays: Mapping[str, Any],
    args: Sequence[Any],
    reference: str,
    tolerance: tuple[float, float],
    smem: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """Return what the file of launches has.

    In ``args`` a string is an array's name, an int is one of 32 bits; ``tolerance`` is relative and absolute.
    """
    rtol, atol = tolerance
    given = [{"array": a} if isinstance(a, str) else scalar(a) if isinstance(a, int) else a for a in args]
    return {
        "name": name,
        "text": text,
        "entry": entry,
        "grid": [*grid, 1, 1][:3],
        "block": [*block, 1, 1][:3],
        "cluster": [1, 1, 1],
        "smem": smem,
        "arrays": dict(arrays),
        "args": given,
        "reference": reference,
        "rtol": rtol,
        "atol": atol,
        **more,
    }


#: Of each kernel: its name, rows and columns of a CTA's tile, its threads.
_SGEMM = {
    1: ("sgemm_naive", 32, 32, (32, 32)),
    2: ("sgemm_global_mem_coalesce", 32, 32, (32 * 32,)),
    3: ("sgemm_shared_mem_block", 32, 32, (32 * 32,)),
    4: ("sgemm1DBlocktiling", 64, 64, (512,)),
    5: ("sgemm2DBlocktiling", 128, 128, (256,)),
    6: ("sgemmVectorize", 128, 128, (256,)),
    9: ("sgemmAutotuned", 128, 128, (256,)),
    10: ("sgemmWarptiling", 128, 128, (128,)),
    12: ("runSgemmDoubleBuffering2", 128, 128, (128,)),
}


def sgemm(number: int, M: int, N: int, K: int) -> dict[str, Any]:
    """Return how ``run_kernel`` launches a kernel of SGEMM_CUDA."""
    kernel, rows, columns, block = _SGEMM[number]
    down, across = ceil(M, rows), ceil(N, columns)
    # C is read too, though beta is 0.
    out = array("f32", M, N, role="out", zeroed=True)
    return line(
        f"SGEMM_CUDA {number} {M}x{N}x{K}",
        f"sgemm_{number}",
        kernel,
        (down, across) if number < 4 else (across, down),
        block,
        {"A": array("f32", M, K), "B": array("f32", K, N), "C": out},
        [M, N, K, scalar(1.0, "f32"), "A", "B", scalar(0.0, "f32"), "C"],
        "product",
        (1e-3, 1e-3 * K**0.5),
        flops=2.0 * M * N * K,
        bits=32,
    )


#: Of each version: its text, its kernel, and how many stages of a ring it has.
_MATMUL = {
    "v1": ("matmul_v1", "matmul_v1_kernelILi128ELi128ELi64ELi2ELi2ELi64ELb0ELb0E", 1),
    "v5": ("matmul_v5", "matmul_v5_kernel", 1),
    "v6": ("matmul_v6", "matmul_v6_kernelILi128ELi128ELi64ELi2ELi2ELi2ELi0E", 2),
    "v6b": ("matmul_v6", "matmul_v6_kernelILi128ELi128ELi64ELi2ELi2ELi2ELi8E", 2),
}


def matmul(version: str, M: int, N: int, K: int) -> dict[str, Any]:
    """Return how ``matmul_vN`` launches; B is stored by columns."""
    text, entry, stages = _MATMUL[version]
    return line(
        f"learn-cuda matmul_{version} {M}x{N}x{K}",
        text,
        entry,
        (ceil(M, 128) * ceil(N, 128),),
        (128,),
        {"A": array("bf16", M, K), "B": array("bf16", N, K), "C": array("bf16", M, N, role="out")},
        ["A", "B", "C", M, N, K],
        "product of transposed",
        (0.02, 0.02 * K**0.5),
        (128 + 128) * 64 * 2 * stages,
        flops=2.0 * M * N * K,
        bits=16,
    )


#: Of each version: rows of queries of a CTA, and rows of 128 elements in shared memory.
_ATTENTION = {"v1": (128, 64 * 2), "v5": (64, 64 * 3)}


def attention(version: str, heads: int, queries: int, keys: int) -> dict[str, Any]:
    """Return how ``attention_vN`` launches for 128 elements a head; ``heads`` are those of all batches."""
    rows, held = _ATTENTION[version]
    names = {"Q": queries, "K": keys, "V": keys}
    arrays = {name: array("bf16", heads * length, 128) for name, length in names.items()}
    return line(
        f"learn-cuda attention_{version} {heads}x{queries}x{keys}",
        f"attention_{version}",
        f"attention_{version}_kernel",
        (heads * ceil(queries, rows),),
        (128,),
        {**arrays, "O": array("bf16", heads * queries, 128, role="out")},
        ["Q", "K", "V", "O", heads, queries, keys],
        "output of attention",
        (0.02, 0.02),
        max(rows, held) * 128 * 2,
        parameters={"scale": 128**-0.5, "heads": heads},
        flops=4.0 * heads * queries * keys * 128,
        bits=16,
    )


def softmax_online(M: int, N: int) -> dict[str, Any]:
    """Return how ``softmax_online`` launches; ``softmax_naive`` has a race in shared memory."""
    threads = 256 if N <= 1024 else 1024
    return line(
        f"learn-cuda softmax_online {M}x{N}",
        "softmax",
        "softmax_online_kernel",
        (M,),
        (threads,),
        {"input": array("f32", M, N), "output": array("f32", M, N, role="out")},
        ["input", "output", M, N],
        "softmax",
        (1e-4, 1e-6),
        4 * threads * 2,
    )


def row_sums(M: int, N: int, threads: int) -> dict[str, Any]:
    """Return how ``sum_v1`` launches, in which one thread adds a row."""
    return line(
        f"learn-cuda sum_v1 {M}x{N}",
        "sum",
        "sum_v1_kernel",
        (ceil(M, threads),),
        (threads,),
        {"input": array("f32", M, N), "output": array("f32", M, role="out")},
        ["input", "output", M, N],
        "sums of rows",
        (1e-4, 1e-3),
    )


def gemv(version: str, N: int, K: int) -> dict[str, Any]:
    """Return how ``cuda_v1`` or ``cuda_persistent_v1`` launches."""
    persistent = version == "persistent_v1"
    warps = 8 if persistent else 4
    arrays = {"x": array("bf16", K), "w": array("bf16", N, K), "y": array("bf16", N, role="out")}
    return line(
        f"learn-cuda gemv_{version} {N}x{K}",
        f"gemv_{version}",
        f"cuda_{version}_kernelILi{K}E",
        (SMS if persistent else N // warps,),
        (32 * warps,),
        arrays,
        ["x", "w", "y", *([N] if persistent else [])],
        "product with a vector",
        (0.02, 0.02 * K**0.5),
    )


def layernorm_forward(number: int, N: int, C: int, threads: int) -> dict[str, Any]:
    """Return how ``layernorm_forward4`` or ``layernorm_forward6`` launches."""
    warps = threads // 32
    arrays = {
        "inp": array("f32", N, C),
        "weight": array("f32", C),
        "bias": array("f32", C),
        "out": array("f32", N, C, role="out"),
        "mean": array("f32", N, role="out"),
        "rstd": array("f32", N, role="out"),
    }
    return line(
        f"llm.c layernorm_forward{number} {N}x{C}",
        "layernorm_forward",
        f"layernorm_forward_kernel{number}",
        (ceil(N, warps),),
        (32, warps) if number == 6 else (threads,),
        arrays,
        ["out", "mean", "rstd", "inp", "weight", "bias", N, C],
        "layer norm",
        (1e-3, 1e-3),
        (2 + warps) * C * 4 if number == 6 else 0,
    )


def softmax_forward(number: int, N: int, C: int, threads: int) -> dict[str, Any]:
    """Return how ``softmax_forward7`` or ``softmax_forward_online8`` launches.

    The fourth kernel has a race in shared memory.
    """
    online = number == 8
    # A warp of the eighth branches on what is larger.
    more = {"contents": "zeros"} if online else {}
    return line(
        f"llm.c softmax_forward{number} {N}x{C}",
        "softmax_forward",
        f"softmax_forward_{'online_' if online else ''}kernel{number}",
        (ceil(N * 32, threads) if online else N,),
        (threads,),
        {"inp": array("f32", N, C), "out": array("f32", N, C, role="out")},
        ["out", "inp", N, C],
        "softmax",
        (1e-3, 1e-6),
        0 if online else 2 * threads // 32 * 4,
        **more,
    )


def _elementwise(
    file: str, entry: str, inputs: Sequence[str], out: str, N: int, threads: int
) -> dict[str, Any]:
    """Return how the second version of an elementwise kernel of llm.c launches, eight elements a thread."""
    arrays = {**{name: array("bf16", N) for name in inputs}, out: array("bf16", N, role="out")}
    return line(
        f"llm.c {file}2 {N}",
        file,
        entry,
        (ceil(N, threads * 8),),
        (threads,),
        arrays,
        [out, *inputs, N],
        {"gelu_forward": "gelu", "gelu_backward": "gradient of gelu", "residual_forward": "sum"}[file],
        (0.02, 0.02),
    )


def gelu_forward(N: int, threads: int) -> dict[str, Any]:
    return _elementwise("gelu_forward", "gelu_forward_kernel2", ["inp"], "out", N, threads)


def gelu_backward(N: int, threads: int) -> dict[str, Any]:
    return _elementwise("gelu_backward", "gelu_backward2", ["inp", "dout"], "dinp", N, threads)


def residual_forward(N: int, threads: int) -> dict[str, Any]:
    return _elementwise("residual_forward", "residual_forward_kernel2", ["inp1", "inp2"], "out", N, threads)


def fused_residual_forward(N: int, C: int, threads: int) -> dict[str, Any]:
    """Return how ``fused_residual_forward6`` launches: warps share a token, and CTAs loop over tokens."""
    of_a_token = max(1, C // 8 // 32)
    warps = threads // 32
    tokens = max(1, warps // of_a_token)
    arrays = {
        "inp1": array("bf16", N, C),
        "inp2": array("bf16", N, C),
        "weight": array("bf16", C),
        "bias": array("bf16", C),
        "residual": array("bf16", N, C, role="out"),
        "normed": array("bf16", N, C, role="out"),
        "mean": array("bf16", N, role="out"),
        "rstd": array("bf16", N, role="out"),
    }
    return line(
        f"llm.c fused_residual_forward6 {N}x{C}",
        "fused_residual_forward",
        "fused_residual_forward_kernel6",
        (max(1, THREADS_OF_AN_SM * SMS // threads),),
        (32, max(1, warps // tokens), tokens),
        arrays,
        ["residual", "normed", "mean", "rstd", "inp1", "inp2", "weight", "bias", N, C],
        "layer norm of a sum",
        (0.02, 0.03),
        (2 + tokens) * C * 2 + 64 * 4 * tokens,
    )


def fused_classifier(rows: int, V: int, threads: int) -> dict[str, Any]:
    """Return how ``fused_classifier4`` launches, for one batch of unpadded rows."""
    arrays = {
        "logits": array("f32", rows, V),
        "dlosses": array("f32", rows),
        "targets": indices(V, rows),
        "dlogits": array("f32", rows, V, role="out"),
        "losses": array("f32", rows, role="out"),
    }
    return line(
        f"llm.c fused_classifier4 {rows}x{V}",
        "classifier_fused",
        "fused_classifier_kernel4",
        (rows,),
        (threads,),
        arrays,
        ["dlogits", "losses", scalar(0, "u64"), "logits", "dlosses", "targets", 1, rows, V, V],
        "fused classifier",
        (1e-3, 1e-5),
    )


def encoder_forward(B: int, T: int, C: int, V: int, threads: int) -> dict[str, Any]:
    """Return how ``encoder_forward3`` launches for a vocabulary of V."""
    arrays = {
        "inp": indices(V, B, T),
        "wte": array("bf16", V, C),
        "wpe": array("bf16", T, C),
        "out": array("bf16", B, T, C, role="out"),
    }
    return line(
        f"llm.c encoder_forward3 {B}x{T}x{C}",
        "encoder_forward",
        "encoder_forward_kernel3",
        (ceil(B * T * C, threads * 8),),
        (threads,),
        arrays,
        ["out", "inp", "wte", "wpe", B, T, C],
        "embedding",
        (0.02, 0.02),
    )


def permute(*shape: int) -> dict[str, Any]:
    """Return how the ``main`` of ``permute.cu`` launches."""
    one, two, three, four = shape
    out = array("f32", four, three, one, two, role="out")
    return line(
        f"llm.c permute {'x'.join(map(str, shape))}",
        "permute",
        "permute_kernel",
        (ceil(one * two * three * four, 256),),
        (256,),
        {"matrix": array("f32", *shape), "out": out},
        ["matrix", "out", *shape],
        "permutation",
        (0.0, 1e-6),
    )


def launches() -> list[dict[str, Any]]:
    """Return the launches that are predicted."""
    tokens, width, vocabulary = 16 * 1024, 768, 50304  # of GPT-2, its vocabulary padded
    return [
        *(sgemm(number, 512, 512, 256) for number in (1, 2)),
        *(sgemm(number, 1024, 1024, 512) for number in (3, 4)),
        *(sgemm(number, 2048, 2048, 512) for number in (5, 6, 9, 10, 12)),
        *(sgemm(number, 3072, 1024, 384) for number in (4, 10)),
        *(matmul(version, 4096, 4096, 4096) for version in ("v1", "v5", "v6")),
        matmul("v6b", 6144, 2048, 4096),
        attention("v1", 16, 2048, 4096),
        attention("v5", 16, 4096, 4096),
        softmax_online(8192, 8192),
        softmax_online(65536, 518),
        row_sums(64, 32000, 1),
        gemv("v1", 4096, 4096),
        gemv("persistent_v1", 14336, 4096),
        layernorm_forward(4, tokens, width, 256),
        layernorm_forward(6, tokens, width, 256),
        softmax_forward(7, 1024, 50257, 512),
        softmax_forward(8, 1024, 50257, 128),
        gelu_forward(4 * tokens * width, 256),
        gelu_backward(4 * tokens * width, 256),
        residual_forward(2 * tokens * width, 512),
        fused_residual_forward(tokens, width, 256),
        fused_classifier(1024, vocabulary, 1024),
        encoder_forward(16, 1024, width, vocabulary, 256),
        permute(96, 84, 40, 64),
    ]


def checks() -> list[dict[str, Any]]:
    """Return small launches of the same kernels, for the simulator."""
    return [
        *(sgemm(number, 128, 192, 64) for number in (1, 2, 3, 4)),
        *(sgemm(number, 128, 256, 64) for number in (5, 6, 9, 10, 12)),
        *(matmul(version, 256, 384, 256) for version in ("v1", "v5", "v6", "v6b")),
        attention("v1", 2, 256, 192),
        attention("v5", 2, 128, 192),
        softmax_online(3, 518),
        softmax_online(3, 2052),
        row_sums(4, 500, 1),
        gemv("v1", 16, 4096),
        gemv("persistent_v1", 64, 4096),
        layernorm_forward(4, 20, 768, 256),
        layernorm_forward(6, 20, 768, 256),
        softmax_forward(7, 3, 1031, 512),
        softmax_forward(8, 5, 1031, 128),
        gelu_forward(4096, 256),
        gelu_backward(4096, 256),
        residual_forward(8192, 512),
        fused_residual_forward(40, 768, 256),
        fused_classifier(3, 5000, 1024),
        encoder_forward(2, 16, 768, 100, 256),
        permute(4, 6, 5, 8),
    ]


# --- compiling ------------------------------------------------------------------------------------


def compiled(
    sources: Path,
    cuda: Path | None,
    some: Mapping[str, Source],
    lines: Mapping[str, Sequence[dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield, of each launch, the key that it is under, what the file of launches has, and the PTX.

    Args:
        sources: a folder with the projects.
        cuda: the CUDA toolkit; the wheels' by default.
        some: what each text is compiled from.
        lines: what the file of launches has, by key.

    A file that does not compile is left out, and said.
    """
    folder = toolkit(cuda)
    texts = {name: _compile(source, sources, folder) for name, source in some.items()}
    for key, each in lines.items():
        for described in each:
            text = texts[described["text"]]
            if text is not None:
                yield key, described, text


def _compile(source: Source, sources: Path, folder: Path) -> str | None:
    """Return the PTX of a file, or None if it does not compile."""
    with tempfile.TemporaryDirectory() as scratch:
        for header, text in {"cublas_v2.h": _CUBLAS, "cublasLt.h": _CUBLAS, **source.headers}.items():
            path = Path(scratch, header)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        file, out = Path(scratch, "kernel.cu"), Path(scratch, "kernel.ptx")
        file.write_text("\n".join([source.head, _body(source, sources), source.end, ""]), encoding="utf-8")
        command = [str(folder / "bin" / "nvcc"), *source.flags, "-w", "-arch=sm_90a", "-ptx"]
        includes = [(sources / source.file).parent, *(sources / each for each in source.includes)]
        command += [f"-I{each}" for each in (scratch, *includes, folder / "include" / "cccl")]
        done = subprocess.run(
            [*command, "-o", str(out), str(file)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{source.file} does not compile:\n{done.stderr[-2000:]}")
            return None
        text = _only(out.read_text(encoding="utf-8"), source.only)
        return _without_hashes(_with_constants(text, source.constants))


def _only(text: str, part: str) -> str:
    """Return a text without the kernels whose names do not have a part."""
    ends = r"(?=^\t// \.globl|^\.(?:visible|weak|extern|entry|func|global|const)\b|\Z)"
    entries = re.compile(rf"(?ms)^(?:\.visible )?\.entry (\w+)\(.*?{ends}")
    return entries.sub(lambda match: match[0] if part in match[1] else "", text)


def _body(source: Source, sources: Path) -> str:
    """Return what includes the file, or its text with other sizes."""
    if not source.sizes:
        return f'#include "{Path(source.file).name}"'
    text = (sources / source.file).read_text(encoding="utf-8")
    for name, value in source.sizes.items():
        text, found = re.subn(rf"(?m)^(#define {name}\s+)\d+\b", rf"\g<1>{value}", text)
        assert found == 1, f"{source.file} has {found} macros {name}"
    return text


def _without_hashes(text: str) -> str:
    """Return a text in whose names the path of the file is not, so that it is equal when it is made again.

    It is in the names of what a nameless namespace has, and of empty objects that no kernel uses.
    """
    text = re.sub(r"(?m)^\s*\.global \.align 1 \.b8 _ZN\d+_INTERNAL_\w+\[1\];\n", "", text)
    for length in set(re.findall(r"_ZN(\d+)_GLOBAL__N_", text)):
        hashed = rf"_ZN{length}_GLOBAL__N_\w{{{int(length) - len('_GLOBAL__N_')}}}"
        text = re.sub(hashed, "_ZN11_GLOBAL__N_", text)
    return text


def _with_constants(text: str, constants: Mapping[str, Sequence[float]]) -> str:
    """Return a text whose constant memory has values from the beginning; a launch alone cannot copy them."""
    for name, values in constants.items():
        image = ", ".join(str(byte) for byte in struct.pack(f"<{len(values)}f", *values))
        declared = rf"(?m)^((?:\.visible )?\.const [^;=]*\b{name}\[{4 * len(values)}\]);"
        text, found = re.subn(declared, rf"\g<1> = {{{image}}};", text)
        assert found == 1, f"a text has {found} constant arrays {name}"
    return text
