"""Every matrix product of ``examples/blackwell``: how it is built, a size for the simulator, and its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from pyptx import bf16, e4m3, e5m2, f16, f32
from tests.examples.loading import load_example

__all__ = ["PRODUCTS", "VARIANTS", "Product", "Shape", "run_time_sizes"]

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Product:
    """One kernel.

    Attributes:
        name: of the kernel in the table.
        file: below ``examples/blackwell``.
        build: returns the kernel for M, N and K.
        inputs: returns A and B for M, N and K.
        error: of A, B and D, as a fraction of its bound.
        dtype: of D.
        shape: M, N and K of the simulated run: small, with several tiles and tiles that are not full. With cluster
            launch control, for three clusters: they have 13 assignments, of which each is run.
        small: further options of ``build`` for the simulated run.
        also: a further size with options of ``build``, for tiles that the simulated run does not have; its run is
            for evidence alone.
        mutants: name of the kernel in ``tests.mutants``; empty if no bugs are planted into it.
    """

    name: str
    file: str
    build: Callable[..., Any]
    inputs: Callable[[int, int, int], tuple[Any, Any]]
    error: Callable[[Any, Any, Any], float]
    dtype: Any
    shape: Shape
    mutants: str = ""
    small: Mapping[str, int] = field(default_factory=dict)
    also: tuple[Shape, Mapping[str, int]] | None = None


#: A size of the persistent GEMM with tiles of 256 and of 192 columns, as 4096 x 4096 has them.
TWO_WIDTHS: tuple[Shape, Mapping[str, int]] = ((272, 1008, 160), {"clusters": 5})


def run_time_sizes(kernel: Any, M: int) -> dict[str, int]:
    """Return the number of rows by name if the kernel takes it when it runs, and nothing if it was built for it."""
    return {"M": M} if "M" in kernel.options.dims else {}


def _gemms() -> list[Product]:
    file = "gemm_highperf_blackwell.py"
    gemm = load_example(f"blackwell/{file}")

    def made(name: str, build: Callable[..., Any], shape: Shape, mutants: str, **options: Any) -> Product:
        return Product(
            name,
            file,
            lambda M, N, K, **small: build(M, N, K, **options, **small),
            gemm.make_inputs,
            gemm.worst_error,
            np.float32,
            shape,
            mutants,
            also=TWO_WIDTHS if mutants.startswith("blackwell-persistent") else None,
        )

    uneven = (257, 260, 72)
    return [
        made("gemm", gemm.build_gemm, (256, 256, 192), "blackwell-gemm", epilogue="tma"),
        made("gemm-2sm", gemm.build_gemm_2sm, (512, 256, 192), "blackwell-gemm-2sm"),
        made("persistent", gemm.build_gemm_persistent, uneven, "blackwell-persistent"),
        made(
            "launch-control",
            gemm.build_gemm_persistent,
            (513, 100, 72),
            "blackwell-launch-control",
            schedule="clc",
        ),
        made("persistent-1sm", gemm.build_gemm_persistent, uneven, "blackwell-persistent-1sm", ctas=1),
    ]


def _tiles() -> list[Product]:
    """The default tile by one pair, and by two pairs that share A by multicast; the variants have other tiles."""
    file = "gemm_tiles.py"
    module = load_example(f"blackwell/{file}")
    return [
        Product(
            name,
            file,
            partial(module.build_gemm_tiles, cluster_n=pairs),
            module.make_inputs,
            module.gemm.worst_error,
            np.float16,
            shape,
            f"blackwell-{name}",
            {"clusters": 1},
        )
        for name, pairs, shape in (("tiles", 1, (257, 264, 72)), ("tiles-two-pairs", 2, (257, 520, 72)))
    ]


def _ladder() -> list[Product]:
    parts = load_example("blackwell/ladder/parts.py")
    found = []
    for rung in ("v1a", "v1b", "v2a", "v2b", "v3", "v4", "v5", "v6", "v7"):
        file = f"ladder/{rung}.py"
        build = getattr(load_example(f"blackwell/{file}"), f"build_{rung}")
        found.append(
            Product(
                rung,
                file,
                build,
                parts.make_inputs,
                parts.worst_error,
                ml_dtypes.bfloat16,
                (600, 200, 128) if rung == "v7" else (300, 264, 256),
                f"ladder-{rung}",
                # Three whole tiles: without this, the tiles are cut into six halves.
                {"pairs": 3} if rung == "v7" else {},
                ((300, 264, 256), {}) if rung == "v7" else None,
            )
        )
    return found


def _tilus() -> list[Product]:
    harness = load_example("blackwell/tilus/tilus_harness.py")
    tiles = {"block_m": 128, "block_n": 64, "block_k": 32}
    found = []

    three = {"v5": (260, 72, 80), "v6": (600, 72, 80)}

    def add(name: str, file: str, build: Callable[..., Any], **chosen: int) -> None:
        made = lambda M, N, K: build(N, K, **chosen)  # noqa: E731
        shape = three.get(name.removeprefix("tilus-"), (200, 72, 80))
        found.append(
            Product(name, file, made, harness.make_inputs, harness.worst_error, np.float16, shape, name)
        )

    for version, more in (("v0", {}), ("v1", {"e_block_n": 16})):
        file = f"tilus/matmul_{version}.py"
        module = load_example(f"blackwell/{file}")
        build = getattr(module, f"build_matmul_{version}").what
        add(f"tilus-{version}", file, build, **tiles, **more)
    later = load_example("blackwell/tilus/matmul.py")
    for version, (fixed, _) in later.VERSIONS.items():
        add(f"tilus-{version}", "tilus/matmul.py", later.build_matmul, **fixed, **later.CHOSEN[version])
    return found


def _cutile() -> list[Product]:
    file = "cutile/matmul_tcgen05.py"
    module = load_example(f"blackwell/{file}")
    harness = load_example("blackwell/cutile/cutile_harness.py")
    return [
        Product(
            "cutile",
            file,
            lambda M, N, K: module.build_matmul(N, K),
            harness.make_inputs,
            lambda a, b, d: harness.worst_error(a, b, d, module.TF32_ROUNDING),
            np.float16,
            (200, 77, 100),
            "cutile-tcgen05",
        )
    ]


def _variants() -> list[Product]:
    """Options of the persistent GEMM, tiles of the one with many, the GEMM that spells its memory out, the third generation."""
    file = "gemm_highperf_blackwell.py"
    gemm = load_example(f"blackwell/{file}")
    shape = (304, 528, 160)
    found = []
    for options in (
        {"dtype": f16, "out_dtype": f16},
        {"dtype": f32},
        {"dtype": f32, "a_major": "MN", "b_major": "MN"},
        {"dtype": f32, "b_major": "MN", "ctas": 1},
        {"dtype": e4m3, "out_dtype": bf16},
        {"dtype": e4m3, "a_major": "MN", "b_major": "MN"},
        {"dtype": e5m2, "out_dtype": e5m2},
        {"a_major": "MN"},
        {"b_major": "MN"},
        {"out_dtype": e4m3},
        {"parts": 4},
        {"epilogue": "direct"},
        {"dependent": True},
    ):
        majors = {key: value for key, value in options.items() if key.endswith("_major")}
        found.append(
            Product(
                "persistent " + " ".join(f"{key}={value}" for key, value in options.items()),
                file,
                partial(gemm.build_gemm_persistent, **options),
                partial(gemm.make_inputs, dtype=options.get("dtype", bf16), **majors),
                partial(gemm.worst_error, **majors),
                gemm.NUMPY[options.get("out_dtype", f32)],
                shape,
                small={"clusters": 2},
                also=TWO_WIDTHS if "parts" not in options and options.get("b_major") != "MN" else None,
            )
        )
    file = "gemm_tiles.py"
    module = load_example(f"blackwell/{file}")
    for m, n, pairs in ((128, 64, 1), (128, 256, 2), (256, 192, 2)):
        found.append(
            Product(
                f"tiles {m}x{n} pairs={pairs}",
                file,
                partial(module.build_gemm_tiles, mma_m=m, mma_n=n, cluster_n=pairs),
                module.make_inputs,
                module.gemm.worst_error,
                np.float16,
                (130, 72, 136),
                small={"clusters": 1},
            )
        )
    spelled = "gemm_spelled_out.py"
    build = load_example(f"blackwell/{spelled}").build_gemm
    made = (gemm.make_inputs, gemm.worst_error, np.float32, (256, 256, 192))
    found.append(Product("spelled-out", spelled, build, *made))
    parts = load_example("blackwell/ladder/parts.py")
    third = "ladder/generations.py"
    build = load_example(f"blackwell/{third}").build_blackwell
    made = (parts.make_inputs, parts.worst_error, ml_dtypes.bfloat16, (256, 128, 192))
    return [*found, Product("generations", third, build, *made)]


#: The kernels, in the order of the table.
PRODUCTS = (*_gemms(), *_tiles(), *_ladder(), *_tilus(), *_cutile())
#: Further kernels, of which the evidence alone is looked at.
VARIANTS = tuple(_variants())
