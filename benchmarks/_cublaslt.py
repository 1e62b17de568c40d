"""cuBLASLt through ctypes: the fastest of the algorithms that its heuristic proposes for a product.

torch calls the first algorithm of the heuristic.  A user who cares tries several of them, so this is the
rival.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import Any

__all__ = ["FastestProduct"]

WORKSPACE = 64 << 20
# Values of the enumerations in cublasLt.h and library_types.h.
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77
TRANSPOSE_A, TRANSPOSE_B, A_SCALE, B_SCALE = 3, 4, 17, 18
FAST_ACCUMULATION = 25
MAX_WORKSPACE = 1
R_32F = 0
TYPES = {"float32": 0, "float16": 2, "bfloat16": 14, "float8_e4m3fn": 28, "float8_e5m2": 29}


class _Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


@cache
def _library() -> tuple[Any, c_void_p]:
    import torch  # noqa: F401  loads the library

    library = None
    for version in ("13", "12"):
        try:
            library = ctypes.CDLL(f"libcublasLt.so.{version}")
            break
        except OSError:
            continue
    if library is None:
        raise OSError("libcublasLt was not found")
    handle = c_void_p()
    _check(library.cublasLtCreate(byref(handle)))
    return library, handle


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLASLt returned status {status}")


class FastestProduct:
    """``A[M, K] @ B[N, K].T`` by the fastest of up to ``tries`` algorithms, chosen at the first call.

    Calls give the two matrices, row-major and contiguous, and return D[M, N].
    """

    def __init__(self, dtype: Any, *, tries: int = 16, fast_accumulation: bool = True) -> None:
        self.dtype, self.tries, self.fast = dtype, tries, fast_accumulation
        self._plan: Any = None

    def __call__(self, a: Any, b: Any) -> Any:
        import torch

        d = torch.empty(a.shape[0], b.shape[0], device=a.device, dtype=self.dtype)
        if self._plan is None:
            self._plan = self._made(a, b, d)
        self._run(a, b, d, self._plan[-1])
        return d

    def _made(self, a: Any, b: Any, d: Any) -> Any:
        """Return descriptors and the fastest algorithm."""
        import torch

        library, handle = _library()
        (m, k), n = a.shape, b.shape[0]
        code = [TYPES[str(each.dtype).removeprefix("torch.")] for each in (b, a, d)]
        tf32 = a.dtype is torch.float32
        operation = c_void_p()
        _check(
            library.cublasLtMatmulDescCreate(
                byref(operation), COMPUTE_32F_FAST_TF32 if tf32 else COMPUTE_32F, R_32F
            )
        )
        # Column-major, as the library sees it: D.T[N, M] = B[N, K] @ A.T[K, M], each with K contiguous.
        for attribute, value in ((TRANSPOSE_A, 1), (TRANSPOSE_B, 0)):
            self._set(operation, attribute, c_int(value))
        scales = None
        if a.element_size() == 1:
            scales = torch.ones(2, device=a.device)
            self._set(operation, A_SCALE, c_void_p(scales.data_ptr()))
            self._set(operation, B_SCALE, c_void_p(scales.data_ptr() + 4))
            self._set(operation, FAST_ACCUMULATION, ctypes.c_int8(self.fast))
        layouts = []
        for kind, rows, columns in zip(code, (k, k, n), (n, m, m), strict=True):
            layout = c_void_p()
            _check(
                library.cublasLtMatrixLayoutCreate(
                    byref(layout), kind, c_uint64(rows), c_uint64(columns), c_int64(rows)
                )
            )
            layouts.append(layout)
        preference = c_void_p()
        _check(library.cublasLtMatmulPreferenceCreate(byref(preference)))
        most = c_size_t(WORKSPACE)
        _check(
            library.cublasLtMatmulPreferenceSetAttribute(
                preference, MAX_WORKSPACE, byref(most), c_size_t(ctypes.sizeof(most))
            )
        )
        found = (_Heuristic * self.tries)()
        count = c_int()
        _check(
            library.cublasLtMatmulAlgoGetHeuristic(
                handle, operation, *layouts, layouts[2], preference, self.tries, found, byref(count)
            )
        )
        workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=a.device)
        self._plan = operation, layouts, workspace, scales, None
        best = None
        for each in list(found)[: count.value]:
            times = []
            for _ in range(6):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                self._run(a, b, d, each.algorithm)
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end))
            if best is None or min(times[1:]) < best[0]:
                best = min(times[1:]), each.algorithm
        if best is None:
            raise RuntimeError("cuBLASLt has no algorithm for this product")
        return operation, layouts, workspace, scales, best[1]

    @staticmethod
    def _set(operation: c_void_p, attribute: int, value: Any) -> None:
        library, _ = _library()
        _check(
            library.cublasLtMatmulDescSetAttribute(
                operation, attribute, byref(value), c_size_t(ctypes.sizeof(value))
            )
        )

    def _run(self, a: Any, b: Any, d: Any, algorithm: Any) -> None:
        import torch

        library, handle = _library()
        operation, layouts, workspace, *_ = self._plan
        one, zero = c_float(1.0), c_float(0.0)
        _check(
            library.cublasLtMatmul(
                handle,
                operation,
                byref(one),
                c_void_p(b.data_ptr()),
                layouts[0],
                c_void_p(a.data_ptr()),
                layouts[1],
                byref(zero),
                c_void_p(d.data_ptr()),
                layouts[2],
                c_void_p(d.data_ptr()),
                layouts[2],
                algorithm,
                c_void_p(workspace.data_ptr()),
                c_size_t(WORKSPACE),
                c_void_p(torch.cuda.current_stream().cuda_stream),
            )
        )
