"""The rows of ``hopper.py`` for what training and 8-bit inputs need beside ``_hopper_memory``.

The norm of a sum, backwards of norms with their weight gradients (two launches), cross-entropy with its
gradient, and quantization to e4m3 by rows and by blocks of 128.  Their reads and writes of matrices count,
vectors and partial sums do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from _examples import load_example
from _hopper_memory import BACKWARD, SHAPES, TARGETS, TYPES, matrices, memory_row
from _rows import Composed, Row

from pyptx import bf16, f32

__all__ = ["FACTOR", "TRAINING"]

#: The least share of the copy's rate of quantization.
QUANTIZE = 0.95
EPSILON = 1e-5
#: Rows and logits of cross-entropy.
VOCABULARIES = ((4096, 32768), (4096, 128256))
#: The factor that cross-entropy gives its gradient.
FACTOR = 1.0
#: Rows in a ring of persistent CTAs, and a CTA for each row, which the copy engine brings.
RING: Mapping[str, Any] = {"design": "ring", "teams": 1}
ONE: Mapping[str, Any] = {**RING, "stages": 1}
#: What backwards of norms are tuned over: threads, stages, who stores, CTAs that pool their sums.
BACKWARDS: tuple[Mapping[str, Any], ...] = (
    *({"threads": threads, "ctas": 132} for threads in (512, 1024)),
    {"ctas": 132, "ahead": True},
    *(
        {**RING, "threads": threads, "stages": stages, "ctas": ctas, "store": store, "pool": pool}
        for threads in (512, 1024)
        for stages in (2, 3)
        for ctas in (128, 132)
        for store in ("direct", "bulk")
        for pool in (1, 2)
    ),
)
#: What a norm of a sum is tuned over.
SUMS: tuple[Mapping[str, Any], ...] = tuple(
    {**ONE, "threads": threads, "resident": 1024 // threads, "keep": False, "prefetch": ahead}
    for threads in (256, 512, 1024)
    for ahead in (0, 33, 66)
)
#: What cross-entropy is tuned over: rows that are held in registers, and rows read from shared memory twice.
ENTROPIES: tuple[Mapping[str, Any], ...] = (
    {"threads": 1024, "resident": 1, "held": 4},
    *({**RING, "threads": 1024, "stages": stages, "ctas": 132, "held": 4} for stages in (2, 3)),
    *({**ONE, "threads": 512, "resident": 2, "held": 1, "prefetch": ahead} for ahead in (0, 33, 66)),
    *(
        {
            **ONE,
            "threads": threads,
            "cluster": 4,
            "resident": resident,
            "held": 1,
            "prefetch": ahead,
        }
        for threads, resident in ((256, 3), (512, 3), (512, 2))
        for ahead in (0, 16, 32)
    ),
)
QUANTIZATIONS: tuple[Mapping[str, Any], ...] = (
    *({"threads": threads} for threads in (128, 256, 512, 1024)),
    *(
        {**ONE, "threads": threads, "resident": 1024 // threads, "store": store}
        for threads in (128, 256, 512)
        for store in ("direct", "bulk")
    ),
)


def _tolerance(dtype: Any) -> tuple[float, float]:
    return (1e-5, 1e-5) if dtype is f32 else (2.0**-7, 2.0**-7)


def _of_sum() -> Iterator[Row]:
    """Yield the rows of RMSNorm of a sum, which is stored, too."""

    def library(torch: Any) -> Callable[..., Any]:
        def run(x: Any, r: Any, w: Any) -> Any:
            s = x + r
            return torch.nn.functional.rms_norm(s, w.shape, w, eps=EPSILON), s

        return run

    def reference(x: Any, r: Any, w: Any) -> Any:
        s = x + r
        wide = s.double()
        return wide * (wide.square().mean(1, keepdim=True) + EPSILON).rsqrt() * w.double(), s

    for dtype, word in TYPES.items():
        for M, N in SHAPES:

            def make(torch: Any, M: int = M, N: int = N, word: str = word) -> Any:
                return matrices(torch, M, N, getattr(torch, word), 2, 1)

            def build(N: int, dtype: Any = dtype, **options: Any) -> Any:
                return load_example("hopper/rmsnorm.py").build_rmsnorm(
                    N, dtype=dtype, residual=True, **options
                )

            nbytes = 2 * M * N * dtype.nbytes
            yield memory_row(
                f"residual + rmsnorm {dtype}",
                (M, N),
                build,
                library,
                make,
                reference,
                (nbytes, nbytes),
                _tolerance(dtype),
                TARGETS[M, dtype],
                SUMS,
                {},
                "training",
            )


def _backward(name: str, M: int, N: int, dtype: Any, **tuning: Any) -> Composed:
    """Return both kernels of a norm's backward as one function of x, dy, w and the statistics."""
    file = load_example(f"hopper/{name}.py")
    first = getattr(file, f"build_{name}_backward")(N, dtype=dtype, **tuning)
    first.ptx(M=M)  # raises if a candidate has no room for the sums that a pool exchanges
    second_of = file.build_weight_gradient if name == "rmsnorm" else file.build_weight_gradients
    parts = first.options.specs[-1].dims[0]
    second = second_of(parts, N, dtype=dtype)

    def run(*given: Any) -> Any:
        dx, sums = first(*given)
        weights = second(sums)
        return (dx, weights) if name == "rmsnorm" else (dx, weights[:N], weights[N:])

    return Composed(run, [(first, {"M": M}), (second, {})])


def _inputs_of_backward(torch: Any, name: str, M: int, N: int, kind: Any) -> tuple[Any, ...]:
    x, dy, w = matrices(torch, M, N, kind, 2, 1)
    wide = x.float()
    if name == "rmsnorm":
        return x, dy, w, (wide.square().mean(1) + EPSILON).rsqrt()
    mean = wide.mean(1)
    return x, dy, w, mean, ((wide - mean[:, None]).square().mean(1) + EPSILON).rsqrt()


def _rms_gradient(x: Any, dy: Any, w: Any, rstd: Any) -> Any:
    x, dy, w, rstd = x.double(), dy.double(), w.double(), rstd.double()[:, None]
    n, h = x * rstd, dy * w
    return (h - n * (h * n).mean(1, keepdim=True)) * rstd, (dy * n).sum(0)


def _layer_gradient(x: Any, dy: Any, w: Any, mean: Any, rstd: Any) -> Any:
    x, dy, w, rstd = x.double(), dy.double(), w.double(), rstd.double()[:, None]
    n, h = (x - mean.double()[:, None]) * rstd, dy * w
    dx = (h - h.mean(1, keepdim=True) - n * (h * n).mean(1, keepdim=True)) * rstd
    return dx, (dy * n).sum(0), dy.sum(0)


def _library_backward(torch: Any, name: str) -> Callable[..., Any]:
    if name == "rmsnorm":
        backward = torch.ops.aten._fused_rms_norm_backward
        return lambda x, dy, w, rstd: backward(dy, x, w.shape, rstd[:, None], w, [True, True])
    backward = torch.ops.aten.native_layer_norm_backward
    return lambda x, dy, w, mean, rstd: backward(
        dy, x, w.shape, mean[:, None], rstd[:, None], w, w, [True, True, True]
    )


def _backwards() -> Iterator[Row]:
    """Yield the rows of the backwards of norms. A sum over the rows has errors of its terms' size."""
    for name, gradient in {"rmsnorm": _rms_gradient, "layernorm": _layer_gradient}.items():
        for dtype, word in TYPES.items():
            for M, N in SHAPES:

                def make(torch: Any, name: str = name, M: int = M, N: int = N, word: str = word) -> Any:
                    return _inputs_of_backward(torch, name, M, N, getattr(torch, word))

                nbytes = M * N * dtype.nbytes
                yield memory_row(
                    f"{name} backward {dtype}",
                    (M, N),
                    lambda N, name=name, M=M, dtype=dtype, **tuning: _backward(name, M, N, dtype, **tuning),
                    partial(_library_backward, name=name),
                    make,
                    gradient,
                    (2 * nbytes, nbytes),
                    (1e-4, 1e-3) if dtype is f32 else (2.0**-6, 2.0**-5),
                    BACKWARD,
                    BACKWARDS,
                    {},
                    "training",
                )


def _entropies() -> Iterator[Row]:
    """Yield the rows of cross-entropy with a gradient of its own, which in place is as many bytes."""

    def library(torch: Any) -> Callable[..., Any]:
        def run(x: Any, target: Any, factor: float) -> Any:
            x = x.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
            (gradient,) = torch.autograd.grad(loss, x, torch.full_like(loss, factor))
            return gradient, loss.detach().float(), torch.logsumexp(x.detach().float(), dim=1)

        return run

    def reference(x: Any, target: Any, factor: float) -> Any:
        import torch

        wide = x.float()
        lse = wide.logsumexp(1)
        gradient = (wide - lse[:, None]).exp_()
        rows = torch.arange(len(x), device=x.device)
        gradient[rows, target] -= 1
        return gradient * factor, lse - wide[rows, target], lse

    for M, V in VOCABULARIES:

        def make(torch: Any, M: int = M, V: int = V) -> Any:
            (x,) = matrices(torch, M, V, torch.bfloat16, 1)
            return x, torch.randint(0, V, (M,), device="cuda"), FACTOR

        def build(V: int, **tuning: Any) -> Any:
            file = load_example("hopper/cross_entropy.py")
            return file.build_cross_entropy(V, dtype=bf16, gradient="output", **tuning)

        nbytes = 2 * M * V
        yield memory_row(
            "cross-entropy bf16",
            (M, V),
            build,
            library,
            make,
            reference,
            (nbytes, nbytes),
            (2.0**-6, 2.0**-12),
            BACKWARD,
            ENTROPIES,
            {},
            "training",
        )


def _quantizations() -> Iterator[Row]:
    """Yield the rows of quantization from bf16 to e4m3. Every bit is that of the reference."""

    def library(torch: Any, block: int | None) -> Callable[..., Any]:
        def run(x: Any) -> Any:
            M, N = x.shape
            blocks = x.float().view(M, -1, block or N)
            amax = blocks.abs().amax(dim=2, keepdim=True).clamp(min=1e-10)
            scales = amax * (1 / 448)
            return (blocks * (torch.full_like(amax, 448) / amax)).to(torch.float8_e4m3fn).view(M, N), (
                scales.view(M, -1) if block else scales.view(M)
            )

        return run

    def reference(x: Any, block: int | None) -> Any:
        import torch

        return library(torch, block)(x)

    for block in (None, 128):
        for M, N in SHAPES:

            def make(torch: Any, M: int = M, N: int = N) -> Any:
                return matrices(torch, M, N, torch.bfloat16, 1)

            def build(N: int, block: int | None = block, **tuning: Any) -> Any:
                return load_example("hopper/quantize.py").build_quantize(N, dtype=bf16, block=block, **tuning)

            yield memory_row(
                f"quantize {'rows' if block is None else 'blocks'} bf16",
                (M, N),
                build,
                partial(library, block=block),
                make,
                partial(reference, block=block),
                (2 * M * N, M * N),
                (1e-6, 0.0),
                QUANTIZE,
                QUANTIZATIONS,
                {},
                "training",
            )


TRAINING = [*_of_sum(), *_backwards(), *_entropies(), *_quantizations()]
