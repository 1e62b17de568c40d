"""Kernels of NVIDIA's samples (NVIDIA/cuda-samples): their files, and how they are launched.

Grids, blocks and shared memory are those of each sample's host code on an H200. Where a sample has its size
in macros, the sizes are here; where its host copies coefficients to constant memory, they are in the text.
"""

from __future__ import annotations

from typing import Any

from _foreign import array
from _foreign_cuda import SMS, Source, ceil, line, scalar

__all__ = ["SOURCES", "checks", "launches"]

_ROOT = "cuda-samples/Samples"
_COMMON = ("cuda-samples/Common",)
_FLAGS = ("-std=c++17",)

#: Coefficients of the separable convolution, from its first to its last, and of the stencil by distance.
TAPS = tuple(round(0.02 + 0.01 * position * (17 - position) / 17, 4) for position in range(17))
STENCIL = (0.5, 0.25, -0.125, 0.0625, -0.03125)


def _source(file: str, end: str = "", **more: Any) -> Source:
    return Source(f"{_ROOT}/{file}", _FLAGS, end=end, **{"includes": _COMMON, **more})


#: Of each product on tensor cores: its sample, its kernel, bytes of an element, K of a fragment, fragments of
#: K that a CTA holds, elements that pad a row, CTAs of a multiprocessor.
_TENSOR = {
    "f16": ("cudaTensorCoreGemm", "compute_gemm", 2, 16, 4, 16, 1),
    "bf16": ("bf16TensorCoreGemm", "compute_bf16gemm_async_copy", 2, 16, 8, 16, 2),
    "tf32": ("tf32TensorCoreGemm", "compute_tf32gemm_async_copy", 4, 8, 8, 8, 2),
    "u8": ("immaTensorCoreGemm", "compute_gemm_imma", 1, 16, 8, 32, 1),
}
#: M, N, K of the products on tensor cores; the last is for the simulator.
_SIZES = {
    "f16": ((2048, 2048, 2048), (256, 256, 128)),
    "bf16": ((4096, 4096, 1024), (256, 256, 256)),
    "tf32": ((2048, 2048, 1024), (256, 256, 128)),
    "u8": ((4096, 2048, 2048), (256, 256, 256)),
}


def _tensor_text(kind: str, M: int, N: int, K: int) -> str:
    return f"sample_gemm_{kind}_{M}x{N}x{K}"


def _tensor_sources() -> dict[str, Source]:
    found = {}
    for kind, (sample, _, _, depth, *_) in _TENSOR.items():
        for M, N, K in _SIZES[kind]:
            sizes = {"M_TILES": M // 16, "N_TILES": N // 16, "K_TILES": K // depth}
            file = f"3_CUDA_Features/{sample}/{sample}.cu"
            found[_tensor_text(kind, M, N, K)] = _source(file, sizes=sizes)
    return found


#: What the host's code names of a header that no wheel brings.
_PROFILER = "#include <cuda_runtime.h>\ncudaError_t cudaProfilerStart(), cudaProfilerStop();\n"
_SHARED_STATE = "MatrixMulAsyncCopyMultiStageSharedState"
_CONCEPTS, _DOMAINS = "2_Concepts_and_Techniques", "5_Domain_Specific"
#: By the name of the text.
SOURCES = {
    "sample_transpose": _source("6_Performance/transpose/transpose.cu", only="transpose"),
    "sample_reduce": _source(f"{_CONCEPTS}/reduction/reduction_kernel.cu", only="reduce7IiLj256ELb1E"),
    "sample_scan": _source(f"{_CONCEPTS}/scan/scan.cu"),
    "sample_sort": _source(f"{_CONCEPTS}/sortingNetworks/bitonicSort.cu"),
    "sample_convolution": _source(
        f"{_CONCEPTS}/convolutionSeparable/convolutionSeparable.cu", constants={"c_Kernel": TAPS[::-1]}
    ),
    "sample_dct": _source(
        f"{_CONCEPTS}/dct8x8/dct8x8_kernel2.cuh",
        head="#define BLOCK_SIZE 8\n#define FMUL(x, y) (__mul24(x, y))",
    ),
    "sample_matmul": _source(
        "0_Introduction/matrixMul/matrixMul.cu",
        headers={"cuda_profiler_api.h": _PROFILER},
    ),
    "sample_matmul_async": _source(
        "3_CUDA_Features/globalToShmemAsyncCopy/globalToShmemAsyncCopy.cu", only=_SHARED_STATE
    ),
    "sample_options": _source(f"{_DOMAINS}/BlackScholes/BlackScholes_kernel.cuh"),
    "sample_walsh": _source(
        f"{_DOMAINS}/fastWalshTransform/fastWalshTransform_kernel.cuh", head="#include <helper_cuda.h>"
    ),
    "sample_haar": _source(f"{_DOMAINS}/dwtHaar1D/dwtHaar1D.cu"),
    "sample_sobol": _source(f"{_DOMAINS}/SobolQRNG/sobol_gpu.cu"),
    "sample_stencil": _source(
        f"{_DOMAINS}/FDTD3d/inc/FDTD3dGPUKernel.cuh",
        includes=(*_COMMON, f"{_ROOT}/{_DOMAINS}/FDTD3d/inc"),
        constants={"stencil": STENCIL},
    ),
    **_tensor_sources(),
}


# --- movement and reductions ----------------------------------------------------------------------


def transpose(height: int, width: int) -> dict[str, Any]:
    arrays = {"idata": array("f32", height, width), "odata": array("f32", width, height, role="out")}
    return line(
        f"cuda-samples transposeCoalesced {height}x{width}",
        "sample_transpose",
        "transposeCoalesced",
        (width // 32, height // 32),
        (32, 16),
        arrays,
        ["odata", "idata", width, height],
        "transposed",
        (0.0, 1e-6),
    )


def reduce(n: int, blocks: int = 64) -> dict[str, Any]:
    """Return how ``reduce`` launches its seventh kernel: 64 CTAs at most."""
    arrays = {
        "g_idata": array("s32", n, values=["integers", -1000, 1000]),
        "g_odata": array("s32", blocks, role="out"),
    }
    return line(
        f"cuda-samples reduce7 {n}",
        "sample_reduce",
        "reduce7Ii",
        (blocks,),
        (256,),
        arrays,
        ["g_idata", "g_odata", n],
        "sums of blocks",
        (0.0, 0.5),
        (256 // 32 + 1) * 4,
        parameters={"blocks": blocks, "width": 512},
    )


def scan(batch: int, length: int = 1024) -> dict[str, Any]:
    arrays = {
        "d_Src": array("s32", batch, length, values=["integers", 0, 1000]),
        "d_Dst": array("s32", batch, length, role="out"),
    }
    return line(
        f"cuda-samples scanExclusiveShared {batch}x{length}",
        "sample_scan",
        "scanExclusiveSharedP",
        (batch * length // 1024,),
        (256,),
        arrays,
        ["d_Dst", "d_Src", length],
        "exclusive sums of rows",
        (0.0, 0.5),
    )


def sort(batch: int, length: int = 1024) -> dict[str, Any]:
    """Return how ``bitonicSort`` launches for short arrays, ascending. No two keys are equal.

    A comparison decides where a thread goes, so a prediction has the keys.
    """
    arrays = {
        "keys": array("s32", batch, length, values=["permutation"], drawn=True),
        "values": array("s32", batch, length, values=["integers", 0, 1 << 30]),
        "sorted keys": array("s32", batch, length, role="out"),
        "sorted values": array("s32", batch, length, role="out"),
    }
    return line(
        f"cuda-samples bitonicSortShared {batch}x{length}",
        "sample_sort",
        "bitonicSortSharedP",
        (batch * length // 1024,),
        (512,),
        arrays,
        ["sorted keys", "sorted values", "keys", "values", length, 1],
        "sorted rows",
        (0.0, 0.5),
    )


# --- signals and images ---------------------------------------------------------------------------


def convolution(height: int, width: int) -> dict[str, Any]:
    arrays = {"d_Src": array("f32", height, width), "d_Dst": array("f32", height, width, role="out")}
    return line(
        f"cuda-samples convolutionColumnsKernel {height}x{width}",
        "sample_convolution",
        "convolutionColumnsKernel",
        (width // 16, height // 64),
        (16, 8),
        arrays,
        ["d_Dst", "d_Src", width, height, width],
        "convolution of columns",
        (1e-4, 1e-5),
        parameters={"weights": list(TAPS)},
    )


def dct(height: int, width: int) -> dict[str, Any]:
    arrays = {"src": array("f32", height, width), "dst": array("f32", height, width, role="out")}
    return line(
        f"cuda-samples CUDAkernel2DCT {height}x{width}",
        "sample_dct",
        "CUDAkernel2DCT",
        (width // 32, height // 16),
        (8, 4, 2),
        arrays,
        ["dst", "src", width],
        "cosines of blocks",
        (1e-4, 1e-4),
    )


def walsh(batch: int, log2n: int = 11) -> dict[str, Any]:
    """Return the last step of ``fwtBatchGPU``, from one array to another: there both are the same."""
    n = 1 << log2n
    arrays = {"d_Input": array("f32", batch, n), "d_Output": array("f32", batch, n, role="out")}
    return line(
        f"cuda-samples fwtBatch1Kernel {batch}x{n}",
        "sample_walsh",
        "fwtBatch1Kernel",
        (batch,),
        (n // 4,),
        arrays,
        ["d_Output", "d_Input", log2n],
        "walsh transform",
        (1e-4, 1e-3),
        n * 4,
    )


def haar(length: int, levels: int = 10) -> dict[str, Any]:
    """Return the first launch of the decomposition; what the kernel leaves out of the output is zero."""
    blocks = length // 1024
    arrays = {
        "id": array("f32", length),
        "od": array("f32", length, role="out", zeroed=True),
        "approx": array("f32", blocks, role="out"),
    }
    return line(
        f"cuda-samples dwtHaar1D {length}",
        "sample_haar",
        "dwtHaar1D",
        (blocks,),
        (512,),
        arrays,
        ["id", "od", "approx", levels, length // 2, 512],
        "haar transform",
        (1e-4, 1e-4),
        (1024 + 1024 // 16) * 4,
        parameters={"levels": levels},
    )


def stencil(depth: int, height: int, width: int) -> dict[str, Any]:
    """Return how ``fdtdGPU`` launches a step; the borders of the output stay zero."""
    radius = len(STENCIL) - 1
    shape = [extent + 2 * radius for extent in (depth, height, width)]
    arrays = {"input": array("f32", *shape), "output": array("f32", *shape, role="out", zeroed=True)}
    return line(
        f"cuda-samples FiniteDifferencesKernel {depth}x{height}x{width}",
        "sample_stencil",
        "FiniteDifferencesKernel",
        (ceil(width, 32), ceil(height, 16)),
        (32, 16),
        arrays,
        ["output", "input", width, height, depth],
        "stencil",
        (1e-4, 1e-5),
        parameters={"weights": list(STENCIL)},
    )


# --- numbers --------------------------------------------------------------------------------------


def options(n: int) -> dict[str, Any]:
    """Return how the sample prices options; its ranges of prices, strikes and years."""
    ranges = {"price": (5.0, 30.0), "strike": (1.0, 100.0), "years": (0.25, 10.0)}
    arrays = {name: array("f32", n, values=["uniform", *each]) for name, each in ranges.items()}
    arrays |= {name: array("f32", n, role="out") for name in ("call", "put")}
    rate, volatility = 0.02, 0.3
    return line(
        f"cuda-samples BlackScholesGPU {n}",
        "sample_options",
        "BlackScholesGPU",
        (ceil(n // 2, 128),),
        (128,),
        arrays,
        ["call", "put", *ranges, scalar(rate, "f32"), scalar(volatility, "f32"), n],
        "prices of options",
        (1e-4, 1e-3),
        parameters={"rate": rate, "volatility": volatility},
    )


def sobol(vectors: int, dimensions: int) -> dict[str, Any]:
    """Return how ``sobolGPU`` launches: a power of two of CTAs for each dimension."""
    most = 4 * SMS if dimensions < 4 * SMS else 1
    blocks = min(most, ceil(vectors, 64))
    directions = array("s32", dimensions, 32, values=["integers", 0, 1 << 31])
    return line(
        f"cuda-samples sobolGPU {vectors}x{dimensions}",
        "sample_sobol",
        "sobolGPU_kernel",
        (1 << (blocks - 1).bit_length(), dimensions),
        (64,),
        {"directions": directions, "output": array("f32", dimensions, vectors, role="out")},
        [vectors, dimensions, "directions", "output"],
        "sobol numbers",
        (1e-6, 1e-7),
        parameters={"vectors": vectors},
    )


# --- products -------------------------------------------------------------------------------------


def matmul(M: int, N: int, K: int) -> dict[str, Any]:
    return line(
        f"cuda-samples MatrixMulCUDA {M}x{N}x{K}",
        "sample_matmul",
        "MatrixMulCUDAILi32E",
        (N // 32, M // 32),
        (32, 32),
        {"A": array("f32", M, K), "B": array("f32", K, N), "C": array("f32", M, N, role="out")},
        ["C", "A", "B", K, N],
        "product",
        (1e-3, 1e-3 * K**0.5),
        flops=2.0 * M * N * K,
        bits=32,
    )


def matmul_async(M: int, N: int, K: int) -> dict[str, Any]:
    """Return the product whose 32 last threads copy into a ring for the others.

    The sample's other kernels of several stages fill a stage that is read, or take a row of B for one of A.
    """
    return line(
        f"cuda-samples {_SHARED_STATE} {M}x{N}x{K}",
        "sample_matmul_async",
        f"{_SHARED_STATE}ILi16E",
        (N // 16, M // 16),
        (16, 18),
        {"A": array("f32", M, K), "B": array("f32", K, N), "C": array("f32", M, N, role="out")},
        ["C", "A", "B", K, N],
        "product",
        (1e-3, 1e-3 * K**0.5),
        flops=2.0 * M * N * K,
        bits=32,
    )


def matmul_tensor(kind: str, M: int, N: int, K: int, grid: int | None = None) -> dict[str, Any]:
    """Return how a sample launches its product on tensor cores; B is stored by columns."""
    _, kernel, nbytes, depth, chunk, skew, of_an_sm = _TENSOR[kind]
    whole = kind == "u8"
    type = "f32" if kind == "tf32" else kind
    values: dict[str, Any] = {"values": ["integers", 0, 256]} if whole else {}
    out = "s32" if whole else "f32"
    added: dict[str, Any] = {"values": ["integers", -1000, 1000]} if whole else {}
    arrays = {
        "A": array(type, M, K, **values),
        "B": array(type, N, K, **values),
        "C": array(out, M, N, **added),
        "D": array(out, M, N, role="out"),
    }
    alpha, beta = (1, 1) if whole else (1.1, 1.2)
    return line(
        f"cuda-samples {kernel} {M}x{N}x{K}",
        _tensor_text(kind, M, N, K),
        f"{len(kernel)}{kernel}P",
        (grid or SMS * of_an_sm,),
        (256,),
        arrays,
        ["A", "B", "C", "D", scalar(alpha, out), scalar(beta, out)],
        "scaled product and sum",
        (0.0, 0.5) if whole else (0.01, 0.005 * K**0.5),
        max(nbytes * 128 * (chunk * depth + skew) * 2, 128 * 128 * 4),
        parameters={"alpha": alpha, "beta": beta},
        flops=2.0 * M * N * K,
        bits=8 * nbytes,
    )


# --- the lists ------------------------------------------------------------------------------------


def launches() -> list[dict[str, Any]]:
    """Return the launches that are predicted."""
    return [
        transpose(4096, 4096),
        reduce(1 << 23),
        scan(16384),
        sort(1024),
        convolution(3072, 3072),
        dct(4096, 4096),
        walsh(8192),
        haar(1 << 24),
        stencil(128, 384, 384),
        options(4_000_000),
        sobol(100_000, 100),
        matmul(1024, 1024, 512),
        matmul_async(640, 640, 640),
        *(matmul_tensor(kind, *sizes[0]) for kind, sizes in _SIZES.items()),
    ]


def checks() -> list[dict[str, Any]]:
    """Return small launches of the same kernels, for the simulator."""
    return [
        transpose(64, 96),
        reduce(1 << 12, 4),
        scan(3),
        sort(2),
        convolution(128, 32),
        dct(32, 64),
        walsh(2),
        haar(4096),
        stencil(9, 32, 64),
        options(1000),
        sobol(300, 2),
        matmul(64, 96, 64),
        matmul_async(32, 48, 96),
        *(matmul_tensor(kind, *sizes[-1], grid=2) for kind, sizes in _SIZES.items()),
    ]
