"""Kernels of DeepGEMM (github.com/deepseek-ai/DeepGEMM) for sm_90a and sm_100a, by its own host code and tests.

The source is a checkout with its submodules ``third-party/cutlass`` and ``third-party/fmt``; it needs nvcc, g++ and
torch. Its extension module is built from the source against CPU tensors, whose memory is the device's; products by
cuBLAS are left out. Inputs and references are those of the library's ``tests/generators.py``, with small shapes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.libraries.host.compile import cuda_home, kept_folder, run_compiler
from tests.libraries.launches import Kernel, Launch, WrongResult

# What the extension includes of libraries that nothing here calls.
_HEADERS = {
    "cublasLt.h": """#pragma once
typedef void *cublasLtHandle_t;
typedef int cublasStatus_t;
enum { CUBLAS_STATUS_SUCCESS };
inline const char *cublasGetStatusString(cublasStatus_t) { return "cuBLAS is not there"; }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
""",
    "nvrtc.h": """#pragma once
#include <cstddef>
typedef void *nvrtcProgram;
enum nvrtcResult { NVRTC_SUCCESS, NVRTC_ABSENT };
inline const char *nvrtcGetErrorString(nvrtcResult) { return "NVRTC is not there"; }
template <class... Any> nvrtcResult nvrtc_absent(Any...) { return NVRTC_ABSENT; }
#define nvrtcVersion nvrtc_absent
#define nvrtcCreateProgram nvrtc_absent
#define nvrtcCompileProgram nvrtc_absent
#define nvrtcGetProgramLogSize nvrtc_absent
#define nvrtcGetProgramLog nvrtc_absent
#define nvrtcGetPTXSize nvrtc_absent
#define nvrtcGetPTX nvrtc_absent
#define nvrtcGetCUBINSize nvrtc_absent
#define nvrtcGetCUBIN nvrtc_absent
#define nvrtcDestroyProgram nvrtc_absent
""",
    "ATen/cuda/CUDAContext.h": """#pragma once
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
namespace at::cuda {
struct Stream {
    operator cudaStream_t() const { return nullptr; }
    long id() const { return 0; }
};
inline Stream getCurrentCUDAStream() { return {}; }
inline cublasLtHandle_t getCurrentCUDABlasLtHandle() { return nullptr; }
}
namespace c10::cuda { using at::cuda::getCurrentCUDAStream; }
""",
    "jit_kernels/impls/smxx_cublaslt.hpp": """#pragma once
#include "../../utils/exception.hpp"
namespace deep_gemm {
template <class... Any> void cublaslt_gemm(const Any &...) { DG_HOST_UNREACHABLE("no cuBLAS"); }
template <class... Any> void cublaslt_bhr_hdr_bhd(const Any &...) { DG_HOST_UNREACHABLE("no cuBLAS"); }
template <class... Any> void cublaslt_bhd_hdr_bhr(const Any &...) { DG_HOST_UNREACHABLE("no cuBLAS"); }
}
""",
}

# CPU tensors made after the module is loaded lie in the device's memory.
_EXTENSION = """
#include "python_api.cpp"
#include <c10/core/Allocator.h>
#include <cstring>
struct DeviceMemory final : c10::Allocator {
    static void release(void *start) { cudaFree(start); }
    c10::DataPtr allocate(size_t bytes) override {
        void *start = nullptr;
        if (bytes && cudaMallocManaged(&start, bytes) != cudaSuccess)
            throw std::bad_alloc();
        return {start, start, &release, c10::DeviceType::CPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void *to, const void *from, size_t bytes) const override { memcpy(to, from, bytes); }
};
static DeviceMemory device_memory;
static bool installed = (c10::SetAllocator(c10::kCPU, &device_memory, 255), true);
"""

# The module that a kernel is compiled to is its PTX.
_NVCC = """#!/bin/bash
exec NVCC "${@/#-cubin/-ptx}"
"""


def kernels(source: Path | None) -> Iterator[Kernel]:
    assert source is not None
    for arch, cases in ((9, _HOPPER), (10, _BLACKWELL)):
        for name in cases:
            yield Kernel(f"sm{arch}0_{name}", partial(_run, source.resolve(), arch, name))


# --- the package, built once ------------------------------------------------------------------------


def _package(source: Path) -> Path:
    """Build the library and return the folder that contains the package."""
    csrc = sorted((source / "csrc").rglob("*.[ch]pp"))
    headers = sorted((source / "deep_gemm" / "include").rglob("*.cuh"))
    folder = kept_folder(
        __doc__ or "", _EXTENSION, *_HEADERS.values(), *(p.read_text() for p in (*csrc, *headers))
    )
    package = folder / "deep_gemm"
    if (package / "_C.so").exists():
        return folder
    for part in (source / "deep_gemm").iterdir():
        if part.name != "include":
            _link(package / part.name, part)
    _link(package / "include" / "deep_gemm", source / "deep_gemm" / "include" / "deep_gemm")
    for part in (source / "third-party" / "cutlass" / "include").iterdir():
        _link(package / "include" / part.name, part)
    for file in csrc:
        copy = folder / "csrc" / file.relative_to(source / "csrc")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text().replace("kCUDA", "kCPU"))
    for name, text in _HEADERS.items():
        (folder / "csrc" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "csrc" / name).write_text(text)
    (folder / "csrc" / "extension.cpp").write_text(_EXTENSION)
    (folder / "nvcc").write_text(_NVCC.replace("NVCC", str(cuda_home() / "bin" / "nvcc")))
    (folder / "nvcc").chmod(0o755)
    _build(folder, source)
    return folder


def _link(at: Path, to: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.unlink(missing_ok=True)
    at.symlink_to(to)


def _build(folder: Path, source: Path) -> None:
    """Compile the extension module."""
    from torch.utils.cpp_extension import include_paths

    given = [folder / "csrc", source / "deep_gemm" / "include", *(source / "third-party").glob("*/include")]
    include = [*given, *include_paths(), cuda_home() / "include", cuda_home() / "include" / "cccl"]
    include.append(sysconfig.get_paths()["include"])
    flags = ["-std=c++20", "-O0", "-fPIC", "-shared", "-w", "-DTORCH_EXTENSION_NAME=_C"]
    to = folder / "deep_gemm" / "_C.so"
    part = to.with_suffix(".part")
    run_compiler(
        ["g++", *flags, *(f"-I{path}" for path in include), folder / "csrc" / "extension.cpp", "-o", part]
    )
    part.rename(to)


# --- one kernel, in a process of its own --------------------------------------------------------------


def _run(source: Path, arch: int, name: str, schedule: str, seed: int) -> list[Launch]:
    _package(source)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        launches, right = executor.submit(_launches, source, arch, name, schedule, seed).result()
    if not right:
        raise WrongResult("the result differs from the library's reference", launches)
    return launches


def _launches(source: Path, arch: int, name: str, schedule: str, seed: int) -> tuple[list[Launch], bool]:
    """Run a case in this process: the library keeps kernels and properties of the device for its lifetime."""
    import torch

    from tests.libraries.host.device import Device

    folder = _package(source)
    os.environ |= {
        "CUDA_HOME": str(cuda_home()),
        "DG_JIT_NVCC_COMPILER": str(folder / "nvcc"),
        "DG_JIT_CACHE_DIR": str(folder / "kernels"),
        "DG_USE_TEMP_CUBLASLT_WORKSPACE": "1",
    }
    device = Device((arch, 0), _MULTIPROCESSORS, schedule, seed)
    torch.cuda.get_device_capability = lambda *_: (arch, 0)
    # The extension module finds torch's functions among those that the process has loaded for all.
    for part in ("c10", "torch_cpu", "torch_python"):
        ctypes.CDLL(str(Path(torch.__path__[0], "lib", f"lib{part}.so")), mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, str(folder))
    library = importlib.import_module("deep_gemm")
    generators = _generators(source / "tests" / "generators.py")
    generators.reset_seed(seed)
    case = (_HOPPER if arch == 9 else _BLACKWELL)[name]
    right = bool(case(torch, library, generators))
    device.check()
    return device.launches, right


def _generators(file: Path) -> Any:
    """The library's generators of inputs, with tensors on the CPU."""
    spec = importlib.util.spec_from_loader("generators", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generators"] = module
    exec(compile(file.read_text().replace("'cuda'", "'cpu'"), str(file), "exec"), vars(module))
    return module


# --- the cases ----------------------------------------------------------------------------------------

#: Few, so that persistent kernels compute several tiles in a CTA.
_MULTIPROCESSORS = 4
#: Rows, columns and depth of the plain products: partial tiles, and several in a CTA.
_M, _N, _K = 200, 384, 640

_Case = Callable[[Any, Any, Any], bool]


def _near(library: Any, found: Any, expected: Any, most: float = 1e-3) -> bool:
    return bool(library.testing.calc_diff(found, expected) < most)


def _majors(generators: Any, transposed: bool) -> tuple[Any, Any]:
    kind = generators.MajorTypeAB
    return (kind.MNMajor, kind.MNMajor) if transposed else (kind.KMajor, kind.KMajor)


def _bf16(
    torch: Any, library: Any, generators: Any, *, transposed: bool = False, accumulate: bool = False
) -> bool:
    out = torch.float if accumulate else torch.bfloat16
    majors = _majors(generators, transposed)
    kind = generators.KernelType.KernelNoSF
    a, b, c, d, expected = generators.generate_normal(
        _M, _N, _K, *majors, accumulate, out, kind, use_bf16=True
    )
    library.bf16_gemm_nt(a, b, d, c=c)
    return _near(library, d, expected, 1e-5)


def _fp8(
    torch: Any,
    library: Any,
    generators: Any,
    *,
    accumulate: bool = False,
    packed: bool = False,
    block: bool = True,
) -> bool:
    """A product with scales: of one operand in 4 bits (``packed``), of blocks of 128 x 128 of B (``block``)."""
    scaled = generators.get_ue8m0_usage(generators.KernelType.Kernel1D1D)
    kind = generators.KernelType.Kernel1D2D if block and not scaled else generators.KernelType.Kernel1D1D
    quantized = generators.QuantConfig((128, 32, False, True)) if packed else generators.QuantConfig()
    recipe, recipe_a, recipe_b = quantized.get_recipes(is_wgrad=kind.is_1d1d() and accumulate)
    out = torch.float if accumulate else torch.bfloat16
    a, b, c, d, expected = generators.generate_normal(
        _M,
        _N,
        _K,
        *_majors(generators, False),
        accumulate,
        out,
        kind,
        use_ue8m0=scaled,
        quant_config=quantized,
    )
    given = {"recipe": recipe, "recipe_a": recipe_a, "recipe_b": recipe_b}
    library.fp8_fp4_gemm_nt(a, b, d, c=c, disable_ue8m0_cast=not scaled, **given)
    return _near(library, d, expected, quantized.max_diff())


def _contiguous(torch: Any, library: Any, generators: Any, *, bf16: bool, running: bool = False) -> bool:
    """Groups of rows, one after the other; ``running``: given by the ends of the groups."""
    library.set_mk_alignment_for_contiguous_layout(
        library.get_theoretical_mk_alignment_for_contiguous_layout()
    )
    scaled = generators.get_ue8m0_usage(generators.KernelType.Kernel1D1D)
    _, a, b, layout, d, expected = generators.generate_m_grouped_contiguous(
        3, 150, _N, 384, *_majors(generators, False), use_ue8m0=scaled, use_bf16=bf16, use_psum_layout=running
    )
    if bf16:
        library.m_grouped_bf16_gemm_nt_contiguous(a, b, d, layout, use_psum_layout=running)
    else:
        library.m_grouped_fp8_fp4_gemm_nt_contiguous(
            a, b, d, layout, disable_ue8m0_cast=not scaled, use_psum_layout=running
        )
    if not running:
        return _near(library, d, expected)
    start, right = 0, True
    for end in layout.tolist():
        right &= _near(library, d[start:end], expected[start:end])
        start = generators.align(end, library.get_mk_alignment_for_contiguous_layout())
    return right


def _masked(torch: Any, library: Any, generators: Any, *, bf16: bool) -> bool:
    """Groups of rows of which only the first ones count."""
    library.set_mk_alignment_for_contiguous_layout(
        library.get_theoretical_mk_alignment_for_contiguous_layout(48)
    )
    scaled = generators.get_ue8m0_usage(generators.KernelType.Kernel1D1D)
    a, b, rows, _, d, expected = generators.generate_m_grouped_masked(
        3, 128, 40, _N, 384, use_ue8m0=scaled, use_bf16=bf16
    )
    if bf16:
        library.m_grouped_bf16_gemm_nt_masked(a, b, d, rows, 48)
    else:
        library.m_grouped_fp8_fp4_gemm_nt_masked(a, b, d, rows, 48, disable_ue8m0_cast=not scaled)
    return all(_near(library, d[g, :many], expected[g, :many]) for g, many in enumerate(rows.tolist()))


def _depth_groups(torch: Any, library: Any, generators: Any, *, bf16: bool) -> bool:
    """Groups along K: a product for each."""
    hopper = generators.get_arch_major() == 9
    library.set_mk_alignment_for_contiguous_layout(128)
    depths = [256, 128, 384]
    majors = _majors(generators, bf16 or not hopper)
    scaled = generators.get_ue8m0_usage(generators.KernelType.Kernel1D1D)
    _, a, b, c, d, expected, layout, _ = generators.generate_k_grouped_contiguous(
        3, 256, 256, *majors, depths, use_ue8m0=scaled, use_bf16=bf16
    )
    if bf16:
        library.k_grouped_bf16_gemm_tn_contiguous(a, b, d, depths, layout, c)
    else:
        run = library.k_grouped_fp8_gemm_nt_contiguous if hopper else library.k_grouped_fp8_gemm_tn_contiguous
        run(a, b, d, depths, layout, c, recipe=(1, 1, 128))
    return _near(library, d, expected)


def _einsum(torch: Any, library: Any, generators: Any) -> bool:
    """A sum over batches and depth, by atomic additions."""
    del generators
    a, b = torch.randn((9, 128, 128), dtype=torch.bfloat16), torch.randn((9, 256, 128), dtype=torch.bfloat16)
    d = torch.randn((128, 256))
    expected = d + torch.bmm(a.float(), b.float().mT).sum(0)
    library.einsum("bmk,bnk->mn", a, b, d, c=d)
    return _near(library, d, expected, 1e-5)


def _hyperconnection(torch: Any, library: Any, generators: Any, *, splits: int | None) -> bool:
    del generators
    m, n, k = 137, 24, 1024
    a, b = torch.randn((m, k), dtype=torch.bfloat16), torch.randn((n, k))
    parts = () if splits is None else (splits,)
    d, s = torch.empty((*parts, m, n)), torch.empty((*parts, m))
    library.tf32_hc_prenorm_gemm(a, b, d, s, num_splits=splits)
    d, s = (d, s) if splits is None else (d.sum(0), s.sum(0))
    return _near(library, d, a.float() @ b.T, 1e-6) and _near(library, s, a.float().square().sum(-1), 1e-6)


def _of_attention_tests(function: str, cases: Callable[[Any], list[Any]]) -> _Case:
    """A function of the library's tests of attention with cases of our own, without its repetitions."""

    def case(torch: Any, library: Any, generators: Any) -> bool:
        file = Path(library.__path__[0], "__init__.py").resolve().parents[1] / "tests" / "test_attention.py"
        tests: dict[str, Any] = {"__name__": "test_attention"}
        exec(compile(file.read_text().replace("'cuda'", "'cpu'"), str(file), "exec"), tests)
        repetitions = 20
        tests["range"] = lambda *given: range(0) if given == (repetitions,) else range(*given)
        tests["sample_mqa_cases"] = lambda name, known: cases(torch)
        tests["reset_cuda_peak_memory_stats"] = lambda: None
        tests["bench_kineto"] = lambda run, names, **_: (1.0, 1.0)
        tests[function]()
        return True

    return case


_SHARED: dict[str, _Case] = {
    "bf16_gemm": _bf16,
    "bf16_gemm_transposed_accumulating": partial(_bf16, transposed=True, accumulate=True),
    "fp8_gemm": _fp8,
    "fp8_gemm_1d1d_accumulating": partial(_fp8, accumulate=True, block=False),
    "m_grouped_bf16_contiguous": partial(_contiguous, bf16=True),
    "m_grouped_fp8_contiguous": partial(_contiguous, bf16=False),
    "m_grouped_bf16_masked": partial(_masked, bf16=True),
    "m_grouped_fp8_masked": partial(_masked, bf16=False),
    "k_grouped_bf16": partial(_depth_groups, bf16=True),
    "k_grouped_fp8": partial(_depth_groups, bf16=False),
    "einsum_bmk_bnk_mn": _einsum,
    "hyperconnection": partial(_hyperconnection, splits=None),
    "hyperconnection_split": partial(_hyperconnection, splits=4),
}
_HOPPER: dict[str, _Case] = {
    **_SHARED,
    "mqa_logits": _of_attention_tests(
        "test_mqa_logits",
        lambda torch: [(False, torch.float, torch.float, False, True, 64, 512, 32, 64, True)],
    ),
    "paged_mqa_logits": _of_attention_tests(
        "test_paged_mqa_logits",
        lambda torch: [(False, False, torch.float, torch.float, 64, True, False, 3, 2, 1, 32, 128, 200)],
    ),
}
_BLACKWELL: dict[str, _Case] = {
    **_SHARED,
    "fp8_fp4_gemm": partial(_fp8, packed=True),
    "m_grouped_bf16_running": partial(_contiguous, bf16=True, running=True),
    "m_grouped_fp8_running": partial(_contiguous, bf16=False, running=True),
    "mqa_logits_fp8": _of_attention_tests(
        "test_mqa_logits",
        lambda torch: [(False, torch.float, torch.float, False, True, 64, 512, 32, 64, True)],
    ),
    "mqa_logits_fp4": _of_attention_tests(
        "test_mqa_logits",
        lambda torch: [(True, torch.bfloat16, torch.float, True, False, 64, 512, 64, 128, True)],
    ),
    "paged_mqa_logits_fp8": _of_attention_tests(
        "test_paged_mqa_logits",
        lambda torch: [(False, False, torch.float, torch.float, 64, True, False, 3, 1, 1, 32, 128, 200)],
    ),
    "paged_mqa_logits_fp4": _of_attention_tests(
        "test_paged_mqa_logits",
        lambda torch: [(False, True, torch.float, torch.float, 64, True, False, 3, 1, 1, 64, 128, 200)],
    ),
}
