"""The launches of the CUDA texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .inputs import F32, F64, I32, I64, U32, U64, bits, divisors, floats, ints, mixed_bits, quarters, specials
from .launches import APPROXIMATE, SCALED, SHARES, Case, In, Number, i32, out, tensor_sums

_REDUCTIONS = [
    Case(
        "reductions",
        "warp_shuffles",
        lambda: (In(ints("shuffles", 256)), out(I64, 256), out(F32, 256), out(I32, 256)),
        grid=(2,),
    ),
    Case(
        "reductions",
        "warp_redux",
        lambda: (In(ints("redux", 128, -5000, 5000)), out(U32, 512)),
        grid=(2,),
        block=(64,),
    ),
    Case(
        "reductions",
        "apart",
        lambda: (In(ints("apart", 64)), out(U32, 64)),
        block=(64,),
    ),
    Case(
        "reductions",
        "block_sums",
        lambda: (In(floats("block", 3000)), out(F64, 4), out(F32, 4), i32(3000)),
        grid=(4,),
        block=(160,),
    ),
    Case(
        "reductions",
        "group_reductions",
        lambda: (In(ints("groups", 192)), out(I32, 192), out(F32, 192)),
        grid=(2,),
        block=(96,),
    ),
]
_SCANS = [
    Case(
        "scans",
        "inclusive_scan",
        lambda: (In(ints("scan", 1024, dtype=U32)), out(U32, 1024)),
        grid=(4,),
        block=(256,),
    ),
    Case(
        "scans",
        "chained_scan",
        lambda: (
            In(ints("chain", 1536, dtype=U32)),
            out(U32, 1536),
            out(U32, 12),
            out(U32, 12),
            out(U32, 1),
        ),
        grid=(12,),
    ),
    Case(
        "scans",
        "tree_scan",
        lambda: (In(floats("tree", 256, dtype=F64)), out(F64, 256)),
        dynamic_smem=2048,
    ),
]
_NORMS = [
    Case(
        "norms",
        "softmax",
        lambda: (In(floats("softmax", 1200, -8, 8)), out(F32, 4, 300, bound=SHARES), i32(300)),
        grid=(4,),
    ),
    Case(
        "norms",
        "layer_norm",
        lambda: (
            In(floats("layer", 1200, -2, 3, np.float16)),
            In(floats("layer.w", 300, -2, 2, np.float16)),
            In(floats("layer.b", 300, dtype=np.float16)),
            out(np.float16, 4, 300),
            i32(150),
        ),
        grid=(4,),
        block=(64,),
    ),
    Case(
        "norms",
        "rms_norm",
        lambda: (
            In(floats("rms", 4096, -4, 4)),
            In(floats("rms.w", 1024)),
            out(F32, 4, 1024, bound=SCALED),
            i32(256),
            Number(1e-5, "f32"),
        ),
        grid=(4,),
    ),
    Case(
        "norms",
        "row_maxima",
        lambda: (In(bits("maxima", 1024, np.uint16)), out(np.uint16, 2, 2), i32(256)),
        grid=(2,),
        block=(32,),
    ),
]


_GEMMS = [
    Case(
        "gemms",
        "pipelined_gemm",
        lambda: (
            In(quarters("piped.a", 64 * 160)),
            In(quarters("piped.b", 128 * 160)),
            out(F32, 64, 128),
            i32(160),
        ),
        grid=(1, 2),
        dynamic_smem=3 * 2 * 4096,
    ),
    Case(
        "gemms",
        "wmma_gemm",
        lambda: (
            In(floats("wmma.a", 32 * 48, dtype=np.float16)),
            In(floats("wmma.b", 32 * 48, dtype=np.float16)),
            In(floats("wmma.bias", 32)),
            out(F32, 32, 32, bound=tensor_sums(48)),
            i32(48),
        ),
    ),
    Case(
        "gemms",
        "wmma_bytes",
        lambda: (
            In(bits("bytes.a", 32 * 64, np.int8)),
            In(bits("bytes.b", 64 * 8, np.int8)),
            out(I32, 8, 32),
            i32(64),
        ),
        block=(32,),
    ),
    Case(
        "gemms",
        "wmma_doubles",
        lambda: (
            In(floats("doubles.a", 128, dtype=F64)),
            In(floats("doubles.b", 128, dtype=F64)),
            out(F64, 8, 8),
        ),
        block=(32,),
    ),
    Case(
        "gemms",
        "threads_gemm",
        lambda: (
            In(floats("threads.a", 32 * 32)),
            In(floats("threads.b", 32 * 32)),
            out(F32, 32, 32),
            i32(32),
        ),
        grid=(2, 2),
        block=(16, 16),
    ),
]
_ATOMICS = [
    Case(
        "atomics",
        "histogram",
        lambda: (In(bits("histogram", 3000, np.uint8)), out(U32, 64), i32(3000)),
        grid=(3,),
        block=(192,),
    ),
    Case(
        "atomics",
        "swap_loops",
        lambda: (
            In(floats("swaps", 192, -3, 9)),
            out(U32, 1, initial=np.float32(0.5).view(U32)),
            out(U64, 1, initial=np.float64(1.5).view(U64)),
            out(np.uint16, 2, initial=[3, 0xBEEF]),
        ),
        grid=(3,),
        block=(64,),
    ),
    Case(
        "atomics",
        "exact_sums",
        lambda: (
            In(ints("sums", 256)),
            out(F32, 1, initial=0.5),
            out(F32, 256),
            out(F64, 1),
            out(np.uint16, 4),
            out(np.uint16, 2),
        ),
        grid=(2,),
    ),
    Case(
        "atomics",
        "every_atomic",
        lambda: (
            In(ints("atomics", 256, -60000, 60000)),
            out(I32, 4, initial=[0, 5, 1 << 30, -(1 << 30)]),
            out(U32, 7, initial=[0xFFFFFFFF, 0, 0xFFFFFFFF, 0, 0, 0, 50]),
            out(U64, 6, initial=[0, 0xFFFFFFFFFFFFFFFF, 0, 0, 0xFFFFFFFFFFFFFFFF, 0]),
            out(U32, 256, initial=ints("atomics.old", 256, dtype=U32)),
        ),
        grid=(2,),
    ),
    Case(
        "atomics",
        "aggregated",
        lambda: (In(bits("keys", 256)), out(U32, 11), out(U32, 256)),
        grid=(2,),
    ),
]


def _tree() -> NDArray[Any]:
    """Children of fifteen nodes: a binary tree with some leaves cut off."""
    children = [(2 * n + 1, 2 * n + 2) for n in range(15)]
    return np.array([[c if c < 15 and c not in (5, 12) else -1 for c in pair] for pair in children], I32)


_FUNCTIONS = [
    Case(
        "functions",
        "calls",
        lambda: (In(ints("calls", 64, -300, 300)), out(I32, 64), out(F64, 64), out(F32, 64)),
        block=(64,),
    ),
    Case("functions", "recursion", lambda: (In(_tree()), out(I32, 40)), block=(40,)),
    Case(
        "functions",
        "table_of_functions",
        lambda: (In(ints("table", 128)), out(I32, 128)),
        grid=(2,),
        block=(64,),
    ),
    Case(
        "functions",
        "virtual_functions",
        lambda: (In(ints("shapes", 64, 0, 500)), out(F32, 64)),
        block=(64,),
    ),
    Case("functions", "functors", lambda: (In(ints("functors", 72, -50, 50)), out(I32, 64)), block=(64,)),
]
_LOCALS = [
    Case(
        "locals",
        "sort_locally",
        lambda: (In(ints("sorting", 64 * 24, -99, 99)), out(I32, 64, 24)),
        grid=(2,),
        block=(32,),
    ),
    Case(
        "locals",
        "bytes_locally",
        lambda: (In(bits("shuffling", 512, np.uint8)), out(U32, 64)),
        block=(64,),
    ),
    Case(
        "locals",
        "constants",
        lambda: (In(bits("constants", 384, np.uint8)), out(U32, 96), out(F32, 96)),
        block=(96,),
    ),
    Case("locals", "variables", lambda: (out(I64, 64),), block=(64,)),
]
_SWITCHES = [
    Case(
        "switches",
        "interpreter",
        lambda: (
            In(bits("program", 40, np.uint8)),
            In(ints("registers", 64, -9999, 9999)),
            out(I32, 64),
            i32(40),
        ),
        block=(64,),
    ),
    Case(
        "switches",
        "far_cases",
        lambda: (
            In(np.array([-7, 3, 4, 1000000007, 1 << 40, 12, 13, 14, 15, -8, 0, 1 << 41] * 4, I64)),
            out(I32, 48, initial=-1),
        ),
        block=(48,),
    ),
    Case(
        "switches",
        "escapes",
        lambda: (
            out(np.uint8, 16, 64),
            Number(-2.1, "f64"),
            Number(-1.2, "f64"),
            Number(0.05, "f64"),
            i32(64),
            i32(60),
        ),
        grid=(1, 16),
        block=(64,),
    ),
    Case(
        "switches",
        "branch_table",
        lambda: (In(ints("branches", 96, 0, 1 << 20)), out(I32, 96)),
        block=(96,),
    ),
]


_DIVISIONS = [
    Case(
        "divisions",
        "divide_32",
        lambda: (In(mixed_bits("32.a", 256, I32)), In(divisors("32.b", 256, I32)), out(I32, 256, 4)),
        grid=(2,),
    ),
    Case(
        "divisions",
        "divide_64",
        lambda: (In(mixed_bits("64.a", 128, I64)), In(divisors("64.b", 128, I64)), out(I64, 128, 4)),
        block=(128,),
    ),
    Case(
        "divisions",
        "divide_128",
        lambda: (In(mixed_bits("128.a", 128, U64)), In(divisors("128.b", 128, U64)), out(U64, 64, 4)),
        block=(64,),
    ),
]
_CONVERSIONS = [
    Case(
        "conversions",
        "halves",
        lambda: (In(specials(F32, 256, "halves")), out(np.uint16, 256, 8), out(F32, 256)),
        grid=(2,),
    ),
    Case(
        "conversions",
        "bfloats",
        lambda: (In(specials(F32, 256, "bfloats")), out(np.uint16, 256, 6), out(F32, 256)),
        grid=(2,),
    ),
    Case(
        "conversions",
        "eights",
        lambda: (In(specials(F32, 256, "eights")), out(U32, 128, 2), out(F32, 256)),
        block=(128,),
    ),
    Case(
        "conversions",
        "numbers",
        lambda: (
            In(specials(F32, 128, "numbers")),
            In(specials(F64, 128, "numbers.wide")),
            out(I32, 128, 8),
            out(I64, 128, 4),
            out(F64, 128, 4),
        ),
    ),
]
_EXCHANGES = [
    Case(
        "exchanges",
        "transpose",
        lambda: (In(floats("transpose", 50 * 70)), out(F32, 70, 50), i32(70), i32(50)),
        grid=(3, 2),
        block=(32, 8),
    ),
    Case(
        "exchanges",
        "transpose_bytes",
        lambda: (In(bits("bytes", 1024, np.uint8)), out(np.uint8, 32, 32)),
        block=(8, 32),
    ),
    Case(
        "exchanges",
        "bitonic",
        lambda: (In(bits("bitonic", 512)), out(U32, 512)),
        grid=(2,),
        block=(256,),
        dynamic_smem=1024,
    ),
    Case(
        "exchanges",
        "saxpy",
        lambda: (
            Number(2.5, "f32"),
            In(floats("saxpy", 1000)),
            out(F32, 1000, initial=floats("saxpy.y", 1000)),
            i32(1000),
        ),
        grid=(3,),
        block=(96,),
    ),
    Case("exchanges", "producer_consumers", lambda: (In(ints("produced", 7 * 96)), out(I32, 96), i32(7))),
    Case("exchanges", "votes", lambda: (In(ints("votes", 128)), out(I32, 128))),
]
_GROUPS = [
    Case("groups", "tiled", lambda: (In(ints("tiled", 192)), out(I32, 192)), grid=(2,), block=(96,)),
    Case("groups", "barrier_object", lambda: (In(ints("barrier", 128)), out(I32, 128), i32(3))),
]
_BITS = [
    Case(
        "bits",
        "bit_tricks",
        lambda: (In(mixed_bits("bits.a", 128)), In(mixed_bits("bits.b", 128)), out(U32, 128, 8)),
    ),
    Case(
        "bits",
        "packed_bytes",
        lambda: (In(bits("packed.a", 128)), In(bits("packed.b", 128)), out(U32, 128, 6)),
    ),
    Case("bits", "chacha", lambda: (In(bits("key", 8)), out(U32, 64, 16)), grid=(2,), block=(32,)),
    Case("bits", "whereabouts", lambda: (out(U32, 8 * 60, 4),), grid=(2, 1, 4), block=(5, 4, 3)),
]
_MATHEMATICS = [
    Case(
        "mathematics",
        "double_functions",
        lambda: (In(floats("doubles", 128, -40, 40, F64)), out(F64, 128, 8)),
    ),
    Case(
        "mathematics",
        "double_special",
        lambda: (In(specials(F64, 192, "special")), out(F64, 192, 4)),
        block=(192,),
    ),
    Case(
        "mathematics",
        "float_functions",
        lambda: (In(specials(F32, 192, "functions")), out(F32, 192, 8)),
        block=(192,),
    ),
    Case(
        "mathematics",
        "approximate",
        lambda: (In(floats("approximate", 128, -30, 30)), out(F32, 128, 8, bound=APPROXIMATE)),
    ),
]
_PRINTING = [
    Case(
        "printing",
        "prints",
        lambda: (In(ints("printed", 9, 0, 20)), In(floats("printed.wide", 4, -50, 50, F64))),
        block=(64,),
        prints=True,
    ),
    Case("printing", "holds", lambda: (In(ints("holds", 64)), out(I32, 64)), block=(64,)),
    Case(
        "printing",
        "fails",
        lambda: (In(ints("fails", 64)), out(I32, 64)),
        block=(64,),
        fails="CUDA_ERROR_ASSERT",
    ),
]

CUDA_CASES = [
    *(_REDUCTIONS + _SCANS + _NORMS + _GEMMS + _ATOMICS + _FUNCTIONS + _LOCALS + _SWITCHES),
    *(_DIVISIONS + _CONVERSIONS + _EXCHANGES + _GROUPS + _BITS + _MATHEMATICS + _PRINTING),
]
