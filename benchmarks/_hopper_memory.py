"""The rows of ``hopper.py`` that memory bounds: norms beside torch, and beside a copy of as many bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _examples import load_example
from _rows import Row

from pyptx import SpecError, bf16, f32

__all__ = ["MEMORY"]

SHAPES = ((8192, 8192), (2048, 8192))
TYPES = {f32: "float32", bf16: "bfloat16"}
#: The least share of the copy's rate, by rows and type.
TARGETS = {(8192, f32): 0.97, (8192, bf16): 0.97, (2048, f32): 0.95, (2048, bf16): 0.92}


def _copies(torch: Any) -> dict[str, Callable[..., Any]]:
    """Return copies of the first argument: by a kernel of torch, and by the driver."""
    kept: dict[Any, Any] = {}

    def buffer(x: Any) -> Any:
        key = x.shape, x.dtype
        if key not in kept:
            kept[key] = torch.empty_like(x)
        return kept[key]

    def by_driver(x: Any, *_: Any) -> Any:
        from cuda.bindings import driver

        y = buffer(x)
        stream = torch.cuda.current_stream().cuda_stream
        driver.cuMemcpyDtoDAsync(y.data_ptr(), x.data_ptr(), x.nbytes, stream)
        return y

    # torch's copy_ of contiguous arrays calls the driver's: a sum with 0 is a kernel.
    return {
        "copy_": lambda x, *_: buffer(x).copy_(x),
        "cudaMemcpy": by_driver,
        "x + 0": lambda x, *_: torch.add(x, 0, out=buffer(x)),
    }


def _candidates(build: Callable[..., Any], N: int, dtype: Any) -> dict[str, Any]:
    found = {}
    tunings = [{"design": "direct", "threads": threads} for threads in (128, 256, 512, 1024)] + [
        {"design": design, "threads": threads, "teams": teams, "ctas": ctas, "stages": stages, "store": store}
        for design in ("ring",)
        for threads, teams in ((256, 1), (512, 1), (256, 2))
        for ctas in (132, 264)
        for stages in (2, 3, 4)
        for store in ("direct", "bulk")
    ]
    for tuning in tunings:
        try:
            found[" ".join(f"{key}={value}" for key, value in tuning.items())] = build(
                N, dtype=dtype, **tuning
            )
        except SpecError:  # more shared memory or registers than there are
            continue
    return found


def _rmsnorm_rows() -> Iterator[Row]:
    def build(N: int, **options: Any) -> Any:
        return load_example("hopper/rmsnorm.py").build_rmsnorm(N, **options)

    for dtype, word in TYPES.items():
        for M, N in SHAPES:

            def inputs(torch: Any, copy: int, M: int = M, N: int = N, word: str = word) -> tuple[Any, Any]:
                torch.manual_seed(copy)
                kind = getattr(torch, word)
                return tuple(torch.randn(*shape, device="cuda", dtype=kind) for shape in ((M, N), (N,)))

            def rivals(torch: Any, N: int = N) -> dict[str, Callable[..., Any]]:
                return {"torch": lambda x, w: torch.nn.functional.rms_norm(x, (N,), w, eps=1e-5)}

            def reference(x: Any, w: Any) -> Any:
                x, w = x.double(), w.double()
                return x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * w

            yield Row(
                name=f"rmsnorm {M}x{N} {dtype}",
                group="memory",
                ours=partial(build, N, dtype=dtype),
                candidates=partial(_candidates, build, N, dtype),
                rivals=rivals,
                roofs=_copies,
                inputs=inputs,
                reference=reference,
                rtol=1e-5 if dtype is f32 else 2.0**-7,
                atol=1e-6,
                bytes=2.0 * M * N * dtype.nbytes,
                target=TARGETS[M, dtype],
                dims={"M": M},
                options={"flush": False, "copies": 8},
            )


MEMORY = list(_rmsnorm_rows())
