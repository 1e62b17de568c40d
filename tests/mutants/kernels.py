"""The kernels of which mutants are made: right ones, at small sizes, each with its arguments and what it must compute.

Every kernel is printed and read back first: then each statement has a line of its own, which findings can name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from pyptx import Kernel, ScalarType, bf16, f32
from pyptx.entry.specialize import tensor_map
from pyptx.ir import Function, Module, parse_module, print_module
from pyptx.sim import LoadedModule, Report
from tests.conformance.case import In, Map, Out, Run
from tests.conformance.reference import Expected
from tests.examples.loading import load_example
from tests.sim.compiled import recorded
from tests.sim.compiled.cases import run_of
from tests.sim.compiled.check import differences, passed
from tests.sim.compiled.hopper.cases import CASES as HOPPER

from .texts import EXCHANGE, MESSAGE

__all__ = ["KERNELS", "Subject", "subject"]

#: Launches a module under options; answers the report and whether all outputs are right.
Launch = Callable[..., tuple[Report, bool]]


@dataclass(frozen=True)
class Subject:
    """One kernel that is right.

    Attributes:
        name: short name, which the tables show.
        module: the kernel alone, read from its printed text, so that locations are lines of that text.
        launch: runs a loaded module with fresh arguments; keywords are options of the run.
    """

    name: str
    module: Module
    launch: Launch

    @property
    def function(self) -> Function:
        """The entry."""
        return next(f for f in self.module.functions if f.kind == "entry")


#: The version that has .relaxed for mbarriers, which some operators write.
_VERSION = (8, 6)


def _alone(module: Module, entry: str | None = None) -> Module:
    """The module with one entry of it, read from its own text."""
    chosen = module.entry(entry)
    functions = tuple(f for f in module.functions if f is chosen or f.kind != "entry")
    version = max(module.version, _VERSION)
    return parse_module(print_module(replace(module, functions=functions, version=version)).text)


def _recorded(
    name: str,
    kernel: Kernel,
    inputs: Sequence[Any],
    output: Any,
    right: Callable[[Any], bool],
    **options_of_runs: Any,
) -> Subject:
    """A kernel of the DSL with one output, which is the last of its arrays."""
    options = kernel.options
    dims = {}
    for spec, value in zip(options.specs, (*inputs, output), strict=True):
        extents = getattr(spec, "dims", ())
        dims |= {
            d: n for d, n in zip(extents, getattr(value, "shape", ()), strict=False) if isinstance(d, str)
        }
    special = kernel.specialize(**dims)

    def launch(loaded: LoadedModule, **run: Any) -> tuple[Report, bool]:
        values = [*inputs, output.copy()]
        arguments = [
            tensor_map(options.names[s.index], spec, values[s.index], dtype=spec.dtype)
            if s.kind == "map"
            else np.uint32(dims[s.dim])
            if s.kind == "extent"
            else values[s.index]
            for s in special.slots
            for spec in (options.specs[s.index],)
        ]
        config = special.launch
        report = loaded.launch(
            grid=config.grid,
            block=config.block,
            cluster=config.cluster,
            dynamic_smem=config.dynamic_smem,
            args=arguments,
            **options_of_runs,
            **run,
        )
        return report, right(values[-1])

    return Subject(name, _alone(special.module), launch)


def _launched(name: str, made: Run, right: Callable[[list[Any]], bool]) -> Subject:
    """A kernel in text, with the arguments of a conformance case."""

    def launch(loaded: LoadedModule, **run: Any) -> tuple[Report, bool]:
        given = [passed(a) for a in made.arguments]
        arguments = [a.tensor_map(given[a.of]) if isinstance(a, Map) else a for a in given]
        report = loaded.launch(
            grid=made.grid,
            block=made.block,
            cluster=made.cluster,
            dynamic_smem=made.dynamic_smem,
            args=arguments[: made.parameters],
            **run,
        )
        pairs = zip(arguments, made.arguments, strict=True)
        return report, right([array for array, argument in pairs if isinstance(argument, Out)])

    return Subject(name, _alone(made.module, made.entry), launch)


#: Bytes of the host's memory for CTAs: room for one cluster at a time, which cancels those that wait.
_ONE_CLUSTER = 1 << 19

# --- the examples -----------------------------------------------------------------------------


def _blackwell(name: str, *, pair: bool) -> Subject:
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    build = gemm.build_gemm_2sm if pair else gemm.build_gemm
    shape = (256, 256, 256) if pair else (128, 256, 256)
    kernel = build(*shape, stages=2, epilogue="direct" if pair else "tma")
    a, b = gemm.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, np.float32)
    return _recorded(name, kernel, (a, b), output, lambda d: bool(gemm.worst_error(a, b, d) <= 1))


def _tilus(name: str, version: str, **chosen: int) -> Subject:
    module = load_example(f"blackwell/tilus/matmul_{version}.py")
    kernel = getattr(module, f"build_matmul_{version}").what(
        64, 96, block_m=128, block_n=64, block_k=32, **chosen
    )
    a, b = module.harness.make_inputs(128, 64, 96)
    right = lambda c: bool(module.harness.worst_error(a, b, c) <= 1)  # noqa: E731
    return _recorded(name, kernel, (a, b), np.full((128, 64), np.nan, np.float16), right)


def _tilus_ring(name: str, version: str, shape: tuple[int, int, int], **chosen: int) -> Subject:
    """A version with a ring of two stages and an epilogue of four strips."""
    module = load_example("blackwell/tilus/matmul.py")
    fixed, _ = module.VERSIONS[version]
    options = {"block_n": 64, "block_k": 16, "e_block_n": 16, "stages": 2}
    _, n, k = shape
    kernel = module.build_matmul(n, k, **fixed, **options, **chosen)
    a, b = module.harness.make_inputs(*shape)
    right = lambda c: bool(module.harness.worst_error(a, b, c) <= 1)  # noqa: E731
    return _recorded(name, kernel, (a, b), np.full(shape[:2], np.nan, np.float16), right, memory=_ONE_CLUSTER)


def _spelled_out(name: str) -> Subject:
    """One tile and five slices in two stages."""
    module = load_example("blackwell/gemm_spelled_out.py")
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    shape = (128, 256, 320)
    a, b = gemm.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, np.float32)
    right = lambda d: bool(gemm.worst_error(a, b, d) <= 1)  # noqa: E731
    return _recorded(name, module.build_gemm(*shape, stages=2), (a, b), output, right)


def _cutile_tcgen05(name: str) -> Subject:
    """One tile, of which 100 rows are of A, and five slices in two stages."""
    module = load_example("blackwell/cutile/matmul_tcgen05.py")
    shape = (100, 256, 320)
    a, b = module.harness.make_inputs(*shape)
    right = lambda c: bool(module.harness.worst_error(a, b, c, module.TF32_ROUNDING) <= 1)  # noqa: E731
    kernel = module.build_matmul(256, 320, stages=2)
    return _recorded(name, kernel, (a, b), np.full(shape[:2], np.nan, np.float16), right)


def _cutile(name: str) -> Subject:
    module = load_example("blackwell/cutile/matmul_mma_sync.py")
    a, b = module.harness.make_inputs(64, 40, 136, f32)
    right = lambda c: bool(module.harness.worst_error(a, b, c, module.TF32_ROUNDING) <= 1)  # noqa: E731
    kernel = module.build_matmul(40, 136, f32)
    return _recorded(name, kernel, (a, b), np.full((64, 40), np.nan, np.float32), right)


def _persistent(name: str, schedule: str, ctas: int = 2, out_dtype: ScalarType = f32) -> Subject:
    """Six tiles for one cluster at a time: every ring wraps, and a cluster cancels those that wait for room."""
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    shape = (768 * ctas, 256, 192)
    kernel = gemm.build_gemm_persistent(
        *shape, ctas=ctas, stages=2, clusters=1, schedule=schedule, out_dtype=out_dtype
    )
    a, b = gemm.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, np.float32 if out_dtype is f32 else a.dtype)
    right = lambda d: bool(gemm.worst_error(a, b, d) <= 1)  # noqa: E731
    return _recorded(name, kernel, (a, b), output, right, memory=_ONE_CLUSTER)


def _tiles(name: str, pairs: int, shape: tuple[int, int, int], **options: int) -> Subject:
    """Six tiles of one cluster: the ring and the chunks of the epilogue wrap within a tile, the accumulators between tiles."""
    module = load_example("blackwell/gemm_tiles.py")
    kernel = module.build_gemm_tiles(*shape, stages=2, clusters=1, mma_n=64, cluster_n=pairs, **options)
    a, b = module.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, a.dtype)
    right = lambda d: bool(module.gemm.worst_error(a, b, d) <= 1)  # noqa: E731
    return _recorded(name, kernel, (a, b), output, right, memory=_ONE_CLUSTER)


def _ladder(name: str, rung: str, shape: tuple[int, int, int], **options: int) -> Subject:
    parts = load_example("blackwell/ladder/parts.py")
    kernel = getattr(load_example(f"blackwell/ladder/{rung}.py"), f"build_{rung}")(*shape, **options)
    a, b = parts.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, a.dtype)
    right = lambda d: bool(parts.worst_error(a, b, d) <= 1)  # noqa: E731
    return _recorded(name, kernel, (a, b), output, right, memory=_ONE_CLUSTER)


def _generation(name: str, of: str, rows: int) -> Subject:
    """One tile, three rounds of K."""
    parts = load_example("blackwell/ladder/parts.py")
    shape = (rows, 64, 192)
    kernel = getattr(load_example("blackwell/ladder/generations.py"), f"build_{of}")(*shape)
    a, b = parts.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, a.dtype)
    return _recorded(name, kernel, (a, b), output, lambda d: bool(parts.worst_error(a, b, d) <= 1))


def _hopper(name: str, epilogue: str) -> Subject:
    gemm = load_example("hopper/gemm_highperf_hopper.py")
    # Two tiles for one cluster, and ten steps of K each: a barrier that counts one arrival too few gives a stage back
    # too early only when all warps of a warpgroup lag behind, after four rounds.
    shape = (512, 256, 640)
    kernel = gemm.build_gemm(*shape, stages=2, clusters=1, epilogue=epilogue)
    a, b = gemm.make_inputs(*shape)
    output = np.full(shape[:2], np.nan, np.float32)
    return _recorded(name, kernel, (a, b), output, lambda d: bool(gemm.worst_error(a, b, d) <= 1))


def _rmsnorm(name: str, rows: int = 4, **tuning: Any) -> Subject:
    module = load_example("hopper/rmsnorm.py")
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((rows, 1024), np.float32), rng.standard_normal(1024, np.float32)
    right = lambda y: bool(module.worst_error(x, weight, y, **tuning) <= 1)  # noqa: E731
    return _recorded(name, module.build_rmsnorm(1024, **tuning), (x, weight), np.full_like(x, np.nan), right)


def _tma_copy(name: str) -> Subject:
    kernel = load_example("hopper/tma_copy.py").tma_copy
    gemm = load_example("hopper/gemm_highperf_hopper.py")
    a = gemm.make_inputs(128, 128, 128)[0]
    return _recorded(name, kernel, (a,), np.zeros_like(a), lambda b: bool(np.array_equal(a, b)))


def _tma_store(name: str) -> Subject:
    kernel = load_example("hopper/tma_store.py").outer
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(100, np.float32), rng.standard_normal(256, np.float32)
    inputs = (x, y, np.uint32(100), np.uint32(256))
    output = np.full((100, 256), np.nan, np.float32)
    return _recorded(name, kernel, inputs, output, lambda d: bool(np.array_equal(d, np.outer(x, y))))


def _probe(name: str, probe: str) -> Subject:
    (case,) = load_example("blackwell/tcgen05_suite.py").LESSON[probe].cases()
    return _recorded(name, case.kernel, case.inputs, case.poisoned(), lambda d: bool(case.error(d) <= 1))


# --- texts ------------------------------------------------------------------------------------


def _agree(expected: Sequence[Expected]) -> Callable[[list[Any]], bool]:
    return lambda found: all(bool(m.agrees(a).all()) for a, m in zip(found, expected, strict=True))


def _compiled(name: str, case: str) -> Subject:
    """A compiled kernel whose outputs a GPU recorded."""
    run = run_of(f"sm_90a/{case}")
    words = recorded.outputs(f"sm_90a/{case}", len(run.outputs))

    def right(found: list[Any]) -> bool:
        every = zip(found, words, run.outputs, strict=True)
        return not any(differences(array, word, output.bound) for array, word, output in every)

    return _launched(name, run, right)


def _cluster(name: str, case: str) -> Subject:
    """A compiled kernel of Hopper's engines, with a reference in numpy."""
    return _launched(name, HOPPER[case].run(), _agree(HOPPER[case].must_give()))


def _exchange(name: str) -> Subject:
    given = np.random.default_rng(1).integers(0, 1 << 32, (6, 32), np.uint32)
    run = Run(name, EXCHANGE, (In(given), Out(np.uint32, (6, 32))), block=(64,))
    return _launched(name, run, lambda found: bool(np.array_equal(found[0], np.roll(given, -1, axis=1))))


def _message(name: str) -> Subject:
    given = np.random.default_rng(2).integers(1, 1 << 32, 64, np.uint32)
    arguments = (In(given), Out(np.uint32, 64), Out(np.uint32, 1), Out(np.uint32, 64), Out(np.uint32, 1))
    run = Run(name, MESSAGE, arguments, grid=(2,), block=(64,))
    total = np.uint32(2 * int(given.sum(dtype=np.uint64)) & 0xFFFFFFFF)

    def right(found: list[Any]) -> bool:
        return bool(np.array_equal(found[2], given[::-1]) and found[3][0] == total)

    return _launched(name, run, right)


_MAKE: dict[str, Callable[[str], Subject]] = {
    "blackwell-gemm": lambda name: _blackwell(name, pair=False),
    "blackwell-gemm-2sm": lambda name: _blackwell(name, pair=True),
    "blackwell-persistent": lambda name: _persistent(name, "static"),
    "blackwell-launch-control": lambda name: _persistent(name, "clc"),
    "blackwell-persistent-1sm": lambda name: _persistent(name, "static", ctas=1, out_dtype=bf16),
    "blackwell-tiles": lambda name: _tiles(name, 1, (1536, 64, 192)),
    "blackwell-tiles-two-pairs": lambda name: _tiles(name, 2, (768, 128, 192), mma_m=128),
    "blackwell-spelled-out": _spelled_out,
    "ladder-v1a": lambda name: _ladder(name, "v1a", (128, 256, 512)),
    "ladder-v1b": lambda name: _ladder(name, "v1b", (128, 256, 512)),
    "ladder-v2a": lambda name: _ladder(name, "v2a", (128, 256, 512)),
    "ladder-v2b": lambda name: _ladder(name, "v2b", (128, 256, 512)),
    "ladder-v3": lambda name: _ladder(name, "v3", (128, 256, 640)),
    "ladder-v4": lambda name: _ladder(name, "v4", (128, 128, 960)),
    "ladder-v5": lambda name: _ladder(name, "v5", (256, 256, 960)),
    "ladder-v6": lambda name: _ladder(name, "v6", (1536, 256, 512), pairs=1),
    "ladder-v7": lambda name: _ladder(name, "v7", (1280, 256, 192), pairs=2),
    "generation-ampere": lambda name: _generation(name, "ampere", 64),
    "generation-hopper": lambda name: _generation(name, "hopper", 64),
    "generation-blackwell": lambda name: _generation(name, "blackwell", 128),
    "hopper-gemm": lambda name: _hopper(name, "direct"),
    "hopper-gemm-tma": lambda name: _hopper(name, "tma"),
    "rmsnorm": _rmsnorm,
    # Each of two teams goes three times and more through its ring and its staged rows.
    "rmsnorm-ring": partial(
        _rmsnorm, rows=13, threads=64, teams=2, ctas=1, design="ring", stages=2, store="bulk"
    ),
    "tma-copy": _tma_copy,
    "tma-store": _tma_store,
    "tcgen05-stage": lambda name: _probe(name, "commit-frees-a-stage"),
    "tcgen05-chain": lambda name: _probe(name, "mma-to-ld-to-mma"),
    "block-sums": lambda name: _compiled(name, "reductions.block_sums"),
    "look-back-scan": lambda name: _compiled(name, "scans.chained_scan"),
    "cp-async": lambda name: _cluster(name, "copies.filled"),
    "dsmem-ring": lambda name: _cluster(name, "clusters.ring"),
    "named-barriers": _exchange,
    "message": _message,
    "tilus-v0": lambda name: _tilus(name, "v0"),
    "tilus-v1": lambda name: _tilus(name, "v1", e_block_n=16),
    "tilus-v2": lambda name: _tilus_ring(name, "v2", (128, 64, 80), block_m=128),
    "tilus-v3": lambda name: _tilus_ring(name, "v3", (128, 64, 80), block_m=128),
    "tilus-v4": lambda name: _tilus_ring(name, "v4", (128, 128, 80), block_m=128, swizzle_size=4),
    "tilus-v5": lambda name: _tilus_ring(
        name, "v5", (640, 64, 48), block_m=128, swizzle_size=4, mma_stages=2
    ),
    "tilus-v6": lambda name: _tilus_ring(name, "v6", (1280, 64, 48), block_m=256, swizzle_size=4),
    "cutile": _cutile,
    "cutile-tcgen05": _cutile_tcgen05,
}

#: Names of the kernels, in the order of the tables.
KERNELS = tuple(_MAKE)


@cache
def subject(name: str) -> Subject:
    """The kernel of a name."""
    return _MAKE[name](name)
