"""The rows of ``hopper.py`` that memory bounds, beside torch, and beside copies of as many bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from _examples import load_example
from _rows import Row

from pyptx import SharedMemoryError, SpecError, bf16, f32

__all__ = ["BACKWARD", "MEMORY", "SHAPES", "TARGETS", "TYPES", "matrices", "memory_row", "rows_of"]

SHAPES = ((8192, 8192), (2048, 8192))
TYPES = {f32: "float32", bf16: "bfloat16"}
#: The least share of the copy's rate: of forward kernels by rows and type, and of backwards.
TARGETS = {(8192, f32): 0.97, (8192, bf16): 0.97, (2048, f32): 0.95, (2048, bf16): 0.92}
BACKWARD = 0.92
#: Rows in a ring of shared memory whose results threads store, or the copy engine.
DIRECT: Mapping[str, Any] = {"design": "ring", "teams": 1, "stages": 2}
RING: Mapping[str, Any] = {**DIRECT, "store": "bulk"}
#: A CTA for each row, several on an SM in different phases; the hardware gives out the rows.
ONE: Mapping[str, Any] = {**DIRECT, "stages": 1, "keep": False}
#: What the kernels are tuned over: rows in registers, one row for each CTA, rows from a queue.
TUNINGS: tuple[Mapping[str, Any], ...] = (
    {"threads": 512},
    {"threads": 1024},
    *({**ONE, "threads": 512, "resident": 2, "prefetch": ahead} for ahead in (0, 33, 66, 132)),
    *({**ONE, "threads": 256, "resident": 4, "prefetch": ahead} for ahead in (0, 33, 66, 132)),
    *({**ONE, "threads": threads, "resident": 1024 // threads, "store": "bulk"} for threads in (256, 512)),
    # CTAs end together.
    *({**DIRECT, "threads": 512, "ctas": 132, "queue": True, "prefetch": ahead} for ahead in (0, 33, 66)),
    {**RING, "threads": 512, "ctas": 132, "queue": True},
    {**RING, "threads": 256, "ctas": 264, "queue": True},
)
#: Further ones of kernels that reduce: more rows in flight, vectors over the columns in registers.
REDUCTIONS: tuple[Mapping[str, Any], ...] = (
    {**RING, "threads": 256, "ctas": 264, "stages": 4, "queue": True},
    {**DIRECT, "threads": 512, "ctas": 132, "stages": 3, "queue": True},
    {**ONE, "threads": 512, "resident": 2, "prefetch": 66, "keep": True},
    {**ONE, "threads": 256, "resident": 4, "prefetch": 66, "keep": True},
)
#: Further ones of kernels whose elements do not depend on each other: parts of rows.
PARTS: tuple[Mapping[str, Any], ...] = (
    {"threads": 128, "parts": 8, "resident": 12},
    *({**ONE, "threads": 128, "parts": parts, "resident": 8, "store": "bulk"} for parts in (4, 8)),
    *({**ONE, "threads": 128, "parts": parts, "resident": 8} for parts in (4, 8)),
)


@dataclass(frozen=True)
class Operation:
    """One operation on rows.

    Attributes:
        file, build: the builder, below ``examples/hopper``.
        matrices: how many [M, N] it reads and writes, statistics and vectors left out.
        inputs: given torch, M, N and the type, returns the arguments.
        library: given torch, returns torch's function of the same arguments.
        reference: returns the expected outputs.
        target: least share of the copy's rate; None for :data:`TARGETS`.
        options: of the builder, where ours is not its default.
        scale: of the outputs.
        tunings: the choices of ``--candidates``.
    """

    file: str
    build: str
    matrices: tuple[int, int]
    inputs: Callable[..., tuple[Any, ...]]
    library: Callable[[Any], Callable[..., Any]]
    reference: Callable[..., Any]
    target: float | None = None
    scale: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    tunings: tuple[Mapping[str, Any], ...] = (*TUNINGS, *REDUCTIONS)


def matrices(torch: Any, M: int, N: int, kind: Any, count: int, vectors: int = 0) -> tuple[Any, ...]:
    shapes = [(M, N)] * count + [(N,)] * vectors
    return tuple(torch.randn(*shape, device="cuda", dtype=kind) for shape in shapes)


def _probabilities(torch: Any, M: int, N: int, kind: Any) -> tuple[Any, ...]:
    """Return what softmax has given, and a gradient of it."""
    y, dy = matrices(torch, M, N, kind, 2)
    return y.softmax(1), dy


def _rms(x: Any, w: Any) -> Any:
    x = x.double()
    return x * (x.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w.double()


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    x = x.double()
    centered = x - x.mean(1, keepdim=True)
    return centered * (centered.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w.double() + b.double()


def _swiglu(g: Any, u: Any) -> Any:
    g = g.double()
    return g * g.sigmoid() * u.double()


def _soft_gradient(y: Any, dy: Any) -> Any:
    y, dy = y.double(), dy.double()
    return y * (dy - (y * dy).sum(1, keepdim=True))


def _swiglu_gradient(g: Any, u: Any, dy: Any) -> tuple[Any, Any]:
    g, u, dy = g.double(), u.double(), dy.double()
    s = g.sigmoid()
    return dy * u * s * (1 + g * (1 - s)), dy * g * s


OPERATIONS = {
    "rmsnorm": Operation(
        "rmsnorm.py",
        "build_rmsnorm",
        (1, 1),
        partial(matrices, count=1, vectors=1),
        lambda torch: lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, eps=1e-5),
        _rms,
        options={"queue": True},
    ),
    "layernorm": Operation(
        "layernorm.py",
        "build_layernorm",
        (1, 1),
        partial(matrices, count=1, vectors=2),
        lambda torch: lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b),
        _layer_norm,
        options={"queue": True},
    ),
    "softmax": Operation(
        "softmax.py",
        "build_softmax",
        (1, 1),
        partial(matrices, count=1),
        lambda torch: partial(torch.softmax, dim=1),
        lambda x: x.double().softmax(1),
    ),
    "swiglu": Operation(
        "swiglu.py",
        "build_swiglu",
        (2, 1),
        partial(matrices, count=2),
        lambda torch: lambda g, u: torch.nn.functional.silu(g) * u,
        _swiglu,
        tunings=(*TUNINGS, *PARTS),
    ),
    "softmax backward": Operation(
        "softmax.py",
        "build_softmax_backward",
        (2, 1),
        _probabilities,
        lambda torch: lambda y, dy: torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype),
        _soft_gradient,
        BACKWARD,
        scale=2.0**-13,
        tunings=TUNINGS,
    ),
    "swiglu backward": Operation(
        "swiglu.py",
        "build_swiglu_backward",
        (3, 2),
        partial(matrices, count=3),
        lambda torch: (
            lambda g, u, dy: (
                torch.ops.aten.silu_backward(dy * u, g),
                dy * torch.nn.functional.silu(g),
            )
        ),
        _swiglu_gradient,
        BACKWARD,
        tunings=(*TUNINGS, *PARTS),
    ),
}


def _copies(torch: Any, nbytes: tuple[int, int]) -> dict[str, Callable[..., Any]]:
    """Return copies that read and write ``sum(nbytes)`` bytes together, half each, rotated over four buffers.

    Where twice as much is read as written, also a sum of two arrays, which has this mix.
    """
    half = sum(nbytes) // 8  # elements of 4 bytes
    buffers = [torch.empty(2, half, dtype=torch.float32, device="cuda").zero_() for _ in range(4)]
    turn = 0

    def next_pair() -> Any:
        nonlocal turn
        turn = (turn + 1) % len(buffers)
        return buffers[turn]

    def by_driver(*_: Any) -> Any:
        from cuda.bindings import driver

        target, source = next_pair()
        stream = torch.cuda.current_stream().cuda_stream
        driver.cuMemcpyDtoDAsync(target.data_ptr(), source.data_ptr(), source.nbytes, stream)
        return target

    def by_kernel(*_: Any) -> Any:
        target, source = next_pair()
        return torch.mul(source, 2.0, out=target)

    def sum_of_two(*_: Any) -> Any:
        third = 2 * half // 3 // 4 * 4
        flat = next_pair().flatten()
        return torch.add(flat[:third], flat[third : 2 * third], out=flat[2 * third : 3 * third])

    copies = {"cudaMemcpy": by_driver, "x * 2": by_kernel}
    return copies | ({"x + y": sum_of_two} if nbytes[0] == 2 * nbytes[1] else {})


def _tuned(
    tunings: Sequence[Mapping[str, Any]], build: Callable[..., Any], N: int, **given: Any
) -> dict[str, Any]:
    found = {}
    for tuning in tunings:
        # More shared memory or registers than there are.
        with contextlib.suppress(SpecError, SharedMemoryError):
            found[" ".join(f"{key}={value}" for key, value in tuning.items())] = build(N, **given, **tuning)
    return found


def memory_row(
    name: str,
    shape: tuple[int, int],
    build: Callable[..., Any],
    library: Callable[[Any], Callable[..., Any]],
    make: Callable[[Any], tuple[Any, ...]],
    reference: Callable[..., Any],
    nbytes: tuple[int, int],
    tolerance: tuple[float, float],
    target: float | None,
    tunings: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    group: str = "memory",
) -> Row:
    def inputs(torch: Any, copy: int) -> Sequence[Any]:
        torch.manual_seed(copy)
        return make(torch)

    M, N = shape
    return Row(
        name=f"{name} {M}x{N}",
        group=group,
        ours=partial(build, N, **options),
        candidates=partial(_tuned, tunings, build, N),
        rivals=lambda torch: {"torch": library(torch)},
        roofs=lambda torch: _copies(torch, nbytes),
        inputs=inputs,
        reference=reference,
        rtol=tolerance[0],
        atol=tolerance[1],
        bytes=float(sum(nbytes)),
        target=target,
        dims={"M": M},
        options={"flush": False, "copies": 4},
    )


def rows_of(shapes: Sequence[tuple[int, int]]) -> Iterator[Row]:
    """Yield the rows of every operation and type on matrices of these shapes."""
    for name, what in OPERATIONS.items():
        for dtype, word in TYPES.items():
            for M, N in shapes:

                def make(torch: Any, what: Operation = what, M: int = M, N: int = N, word: str = word) -> Any:
                    return what.inputs(torch, M, N, getattr(torch, word))

                def build(N: int, what: Operation = what, **options: Any) -> Any:
                    return getattr(load_example(f"hopper/{what.file}"), what.build)(N, **options)

                reads, writes = (count * M * N * dtype.nbytes for count in what.matrices)
                yield memory_row(
                    f"{name} {dtype}",
                    (M, N),
                    partial(build, dtype=dtype),
                    what.library,
                    make,
                    what.reference,
                    (reads, writes),
                    (1e-5, 1e-5 * what.scale) if dtype is f32 else (2.0**-7, 2.0**-7 * what.scale),
                    TARGETS.get((M, dtype)) if what.target is None else what.target,
                    what.tunings,
                    what.options,
                )


MEMORY = list(rows_of(SHAPES))
