"""The launches of Triton's texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .inputs import F32, F64, I32, I64, bits, floats, ints, specials
from .launches import SHARES, SHIFTED, Argument, Bound, Case, In, Number, i32, out
from .sources import TRITON


def _triton(
    name: str,
    make: Callable[[], tuple[Argument, ...]],
    grid: tuple[int, ...] = (1,),
    **flags: bool,
) -> Case:
    """A launch of a text of Triton, which has two more parameters: scratch memory that these kernels do not need."""
    scratch = (Number(0, "u64"), Number(0, "u64"))
    kernel = TRITON[name]
    threads = 32 * kernel.options.get("num_warps", 4)
    return Case(
        f"triton.{name}",
        kernel.function,
        lambda: (*make(), *scratch),
        grid=grid,
        block=(threads,),
        **flags,
    )


def _product(name: str, dtype: Any, result: Any, m: int, n: int, k: int) -> Case:
    def make() -> tuple[Argument, ...]:
        a, b = (
            In((ints(f"{name}.{side}", size, -8, 9) * 0.25).astype(dtype))
            for side, size in (("a", m * k), ("b", k * n))
        )
        return a, b, out(result, m, n), i32(m), i32(n), i32(k)

    return _triton(name, make, grid=(m // 32, n // 32))


def _converted(count: int) -> tuple[Argument, ...]:
    results = (out(np.uint16, count), out(np.uint16, count), out(np.uint8, count), out(np.uint8, count))
    return In(specials(F32, count, "t.conversions")), *results, out(F64, count), i32(count)


TRITON_CASES = [
    _triton(
        "softmax",
        lambda: (
            In(floats("t.softmax", 800, -9, 9)),
            out(F32, 4, 200, bound=SHARES),
            i32(200),
            i32(200),
        ),
        (4,),
    ),
    _triton(
        "layer_norm",
        lambda: (
            In(floats("t.layer", 900, -2, 3)),
            In(floats("t.layer.w", 300)),
            In(floats("t.layer.b", 300)),
            out(F32, 3, 300, bound=SHIFTED),
            i32(300),
            Number(1e-5, "f32"),
        ),
        (3,),
    ),
    _triton(
        "attention",
        lambda: (
            *(In(floats(f"t.attention.{which}", 96 * 32, dtype=np.float16)) for which in "qkv"),
            out(
                np.float16,
                96,
                32,
                bound=Bound(
                    "weights through ex2.approx, rounded to f16; sums of a tensor core", ulps=1, absolute=2e-4
                ),
            ),
            i32(96),
            Number(0.25, "f32"),
        ),
        (3,),
    ),
    _product("matmul_half", np.float16, F32, 64, 32, 128),
    _product("matmul_bfloat", ml_dtypes.bfloat16, np.uint16, 32, 64, 64),
    _product("matmul_float", F32, F32, 32, 32, 96),
    _triton(
        "matmul_integer",
        lambda: (
            In(bits("t.int.a", 32 * 96, np.int8)),
            In(bits("t.int.b", 32 * 96, np.int8)),
            out(I32, 32, 32),
            i32(96),
        ),
    ),
    _triton("scans", lambda: (In(floats("t.scans", 256, 0.5, 1.5)), out(F32, 256))),
    _triton("sorts", lambda: (In(bits("t.sorts", 64, I32)), out(I32, 64))),
    _triton("winners", lambda: (In(floats("t.winners", 1024)), out(F32, 4), out(I32, 4)), (4,)),
    _triton("histogram", lambda: (In(ints("t.histogram", 512, 0, 64)), out(I32, 64))),
    _triton(
        "atomics",
        lambda: (
            out(I32, 128, initial=ints("t.atomics", 128)),
            out(F32, 128, initial=0.25),
            out(I32, 1),
        ),
    ),
    _triton("integers", lambda: (In(bits("t.integers", 256, I32)), out(I32, 256), i32(37)), (1, 2)),
    _triton(
        "random_numbers",
        lambda: (
            out(
                F32,
                512,
                bound=Bound("lg2.approx and cos.approx under a sum of up to 2**31", ulps=2, absolute=1e-5),
            ),
            i32(7),
        ),
        (2,),
    ),
    _triton(
        "transpose",
        lambda: (In(bits("t.transpose", 2048, np.uint16)), out(np.uint16, 64, 32), i32(32), i32(64)),
        (1, 2),
    ),
    _triton(
        "gathers",
        lambda: (In(floats("t.gathers", 1024)), In(ints("t.gathers.at", 1024, 0, 32)), out(F32, 1024)),
    ),
    _triton(
        "cross_entropy",
        lambda: (
            In(floats("t.cross", 2100, -6, 6)),
            In(ints("t.target", 3, 0, 700, I64)),
            out(F32, 3, bound=SHIFTED),
            i32(700),
        ),
        (3,),
    ),
    _triton("mathematics_double", lambda: (In(floats("t.double", 128, 0.1, 30, F64)), out(F64, 128))),
    _triton("debugging", lambda: (out(I32, 32, initial=ints("t.debug", 32)), i32(100)), prints=True),
    _triton("calls", lambda: (In(floats("t.calls", 1)), out(F32, 1, initial=3.0))),
    _triton("control", lambda: (In(ints("t.control", 9, -5, 9)), out(I32, 1), i32(9), Number(0, "u8"))),
    _triton("conversions", lambda: _converted(256)),
    _triton("conversions_undefined", lambda: _converted(128), undefined=True),
]
