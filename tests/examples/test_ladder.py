"""The ladder from a basic tcgen05 kernel to a persistent one: every rung is right under every schedule and for
sizes that are no multiples of its tile, and assembles for both targets without spills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pyptx import (
    OperandTile,
    SpecError,
    Tcgen05SmemDescriptor,
    TensorMap,
    Tile,
    b32,
    b64,
    bf16,
    kernel,
    kit,
    ptx,
    reg,
    smem,
    u32,
)
from pyptx.timeline import TrackKind
from pyptx.toolchain import Tool
from pyptx.tools.load import load_module
from tests.blackwell.evidence.forms import facts_of_text
from tests.blackwell.evidence.proof import proofs, unproven
from tests.counting import calls_in

from .loading import EXAMPLES, load_example

RUNGS = ["v1a", "v1b", "v2a", "v2b", "v3", "v4", "v5", "v6", "v7"]
#: What K of a rung must be a multiple of.
UNIT_K = {"v1a": 8, "v1b": 8, "v2a": 8, "v7": 8}
#: Fewer pairs of CTAs than tiles, so that each computes several.
SIMULATED: dict[str, dict[str, Any]] = {"v6": {"pairs": 2}, "v7": {"pairs": 3, "schedule": "static"}}
SCHEDULES = ["eager", "late", "random", "starve:tma", "starve:mma", "starve:ld"]
TARGETS = ["sm_100a", "sm_103a", "sm_100f"]


def rung(name: str) -> ModuleType:
    return load_example(f"blackwell/ladder/{name}.py")


def parts() -> ModuleType:
    rung("v1a")  # it makes its folder importable
    import ladder.parts

    module: ModuleType = ladder.parts
    return module


def build(name: str, *shape: int, **options: Any) -> Any:
    return getattr(rung(name), f"build_{name}")(*shape, **options)


def _unit(name: str) -> int:
    return UNIT_K.get(name, 64)


@pytest.mark.one_in(6)
@pytest.mark.full
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RUNGS)
def test_right(name: str, schedule: str) -> None:
    """Several rounds, and tiles that hang over each edge; the last slice of K is not whole where it may be."""
    unit = _unit(name)
    shape = (300, 264, 7 * 64 if unit == 64 else 520)
    report, error = parts().simulate(build(name, *shape, **SIMULATED.get(name, {})), shape, schedule, seed=1)
    assert report.verdict == "clean", str(report)
    assert report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.one_in(12)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize("size", ["smallest", "one tile", "wide", "tall"])
def test_sizes(name: str, size: str) -> None:
    unit = _unit(name)
    shape = {
        "smallest": (1, 8, unit),
        "one tile": (rung(name).SHAPES[0][0], 256, 256),
        "wide": (64, 776, 3 * 64),
        "tall": (700, 16, 5 * 64),
    }[size]
    report, error = parts().simulate(build(name, *shape, **SIMULATED.get(name, {})), shape)
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert error <= 1


def test_a_rung() -> None:
    """The case of the fast tier: the smallest one."""
    report, error = parts().simulate(build("v2b", 40, 24, 128), (40, 24, 128))
    assert report.verdict == "clean" and report.holds == "every schedule" and error <= 1


def test_an_all_zero_output_is_wrong() -> None:
    a, b = parts().make_inputs(128, 128, 64)
    assert parts().worst_error(a, b, np.zeros((128, 128), a.dtype)) > 100


@pytest.mark.one_in(7)
@pytest.mark.full
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("name", RUNGS)
def test_assembles_without_spills_or_warnings(name: str, arch: str, ptxas: Tool) -> None:
    for shape in ((4096, 4096, 4096), (1000, 1000, 1024)):
        assembly = build(name, *shape, arch=arch).assemble()
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS)
def test_one_instruction_per_product_and_copy(name: str, ptxas: Tool, nvdisasm: Tool) -> None:
    """No loop over lanes around them, as ptxas makes where a thread index guards them."""
    sass = build(name, 4096, 4096, 4096).sass()
    assert "UTCHMMA" in sass and "UTMALDG" in sass and "BRA.U.ANY" not in sass


@pytest.mark.full
@pytest.mark.parametrize(("name", "most"), [("v3", {"all": 90}), ("v6", {"products": 50, "copies": 40})])
def test_main_loops(
    name: str, most: dict[str, int], ptxas: Tool, nvdisasm: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No division, and no other instruction that only some versions of ptxas remove."""
    benchmarks = EXAMPLES.parent / "benchmarks"
    monkeypatch.syspath_prepend(str(benchmarks))
    loops = load_module(benchmarks / "main_loops.py")
    (lines,) = loops.functions(build(name, 4096, 4096, 4096).sass()).values()
    for what, limit in most.items():
        wanted = {kind: number for kind, number in loops.LOOPS[name][what].items() if number}
        loop = loops.loop_of(lines, wanted)
        assert loop is not None and 10 < loop.total <= limit
        assert loop.counts["barrier"] == (4 if what == "all" else 2)


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS)
def test_the_text_does_not_grow_with_the_problem(name: str) -> None:
    lines = {
        build(name, *size).ptx().count("\n") for size in ((4096,) * 3, (8192, 4096, 65536), (32768,) * 3)
    }
    assert len(lines) == 1


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS)
def test_the_work_of_recording_grows_with_the_lines_alone(name: str) -> None:
    """``benchmarks/record_gemm.py`` prints the time; here calls are counted, which no busy machine changes."""

    def record() -> None:
        build(name, 4096, 4096, 4096).module()

    record()  # reads the instruction table
    assert calls_in(record) < 250 * build(name, 4096, 4096, 4096).ptx().count("\n")


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize(("axis", "words"), [(1, ("N = 12", "8", "16 bytes")), (2, ("K = ", "pad K"))])
def test_sizes_that_are_refused(name: str, axis: int, words: tuple[str, ...]) -> None:
    shape = [256, 256, 256]
    shape[axis] = 12 if axis == 1 else 256 + _unit(name) // 2
    with pytest.raises(SpecError) as caught:
        build(name, *shape)
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(SpecError):
        build(name, 0, 256, 256)


@pytest.mark.one_in(9)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS)
def test_the_program(name: str, ptxas: Tool) -> None:
    program = EXAMPLES / f"blackwell/ladder/{name}.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All products are right." in done.stdout
    if name != "v7":
        assert f"{rung(name).PUBLISHED:.2f} TFLOP/s" in program.read_text()


@pytest.mark.full
@pytest.mark.parametrize(("name", "warps"), [("v4", 4), ("v5", 4), ("v6", 6), ("v7", 8)])
def test_marks(name: str, warps: int) -> None:
    """A profile shows each role; without a trace the text has no marks."""
    shape = (300, 264, 448)
    options = SIMULATED.get(name, {})
    ctas, counted = rung(name).launch_of(*shape, **options)
    assert counted == warps
    trace = kit.Trace(ctas=ctas, warps=warps, events=128)
    buffers = trace.buffers()
    a, b = parts().make_inputs(*shape)
    d = np.full(shape[:2], np.nan, a.dtype)
    report = build(name, *shape, trace=trace, **options).simulate(*buffers, a, b, out=d)
    assert report.verdict == "clean" and parts().worst_error(a, b, d) <= 1
    timeline = trace.timeline(buffers, simulated=True)
    names = {event.name for event in timeline.events}
    assert {"setup", "issue copies", "issue products", "epilogue"} <= names
    assert not timeline.dropped
    assert "clock64" not in build(name, *shape, **options).ptx()


@pytest.mark.one_in(6)
@pytest.mark.full
@pytest.mark.parametrize("name", ["v4", "v5", "v6", "v7"])
def test_the_profile_of_the_program(name: str, tmp_path: Path) -> None:
    page = tmp_path / "profile.html"
    program = EXAMPLES / f"blackwell/ladder/{name}.py"
    done = subprocess.run(
        [sys.executable, str(program), "--profile", str(page)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "issue products" in page.read_text()


def _all_threads_wait(M: int, N: int, K: int) -> Any:
    """v2b as the article writes it: every thread runs the loop and waits for the mbarrier."""
    v1a, v2b = rung("v1a"), rung("v2b")

    @kernel(
        in_specs=(v2b.operand(M, K, v1a.BM), v2b.operand(N, K, v1a.BN)),
        out_specs=(Tile(M, N, bf16),),
        block=128,
        arch="sm_100a",
        extern_smem=True,
    )
    def everyone(A: Any, B: Any, D: Any) -> None:
        warp = ptx.special.tid.x() >> 5
        tile_a, tile_b = v2b.tile(v1a.BM), v2b.tile(v1a.BN)
        mbar, slot = smem.alloc(1, b64), smem.alloc(1, b32)
        with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(mbar, 1)
        with ptx.if_(warp == 1):
            ptx.tcgen05.alloc(slot, v1a.BN)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        tmem = smem.load(b32, slot)
        idesc = reg.scalar(b32, init=v1a.IDESC)
        desc_a, desc_b = (
            ptx.tcgen05.masked_descriptor(tile.addr, const_bits=v2b.fields(0)) for tile in (tile_a, tile_b)
        )
        with ptx.for_(0, K, v1a.BK) as k:
            with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
                ptx.mbarrier.arrive_expect_tx(mbar, (v1a.BM + v1a.BN) * v1a.BK * 2)
                v2b.load(A, B, tile_a, tile_b, k, 0, 0, mbar)
            parts().wait(mbar, 0)
            with ptx.if_(warp == 0), ptx.if_(ptx.warp.elect()):
                v1a.multiply(tmem, desc_a, desc_b, idesc, v2b.STEPS, accumulate=k != 0)
                ptx.tcgen05.commit(mbar, space="cluster")
            parts().wait(mbar, 1)
        ptx.tcgen05.fence_after_thread_sync()
        zero = reg.scalar(u32, init=0)
        parts().store_tile(tmem, warp, D, zero, zero, v1a.BN)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.fence_after_thread_sync()
            ptx.tcgen05.dealloc(tmem, v1a.BN)

    return everyone


@pytest.mark.full
def test_a_wait_of_all_threads_may_be_lapped() -> None:
    """Why one thread waits in v1 to v3: with the article's loop another schedule may end in a deadlock."""
    shape = (128, 256, 1024)
    report, error = parts().simulate(_all_threads_wait(*shape), shape)
    assert report.verdict == "clean" and error <= 1, str(report)
    assert report.holds == "this schedule"
    assert any("the next phase may end before the wait looks" in one.what for one in report.competing)


# --- what speaks for silicon -----------------------------------------------------------------------

#: Forms that the article's kernels do not have, with the reason why they are safe.
OTHERS = {
    "bar.warp.sync": "ordinary synchronization of a warp, which an H200 runs",
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64": "theirs has a hint, which only bounds the suspension",
    "tcgen05.fence::before_thread_sync": "no machine instruction",
    "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned": "CUTLASS's kernels for pairs have it",
}
_FAMILIES = ("bar", "barrier", "cp", "elect", "fence", "mbarrier", "tcgen05")


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("name", RUNGS[:-1])
def test_forms_that_have_run_on_a_b200(name: str) -> None:
    """v1 to v6 consist of forms that the article's kernels have, and of a few others that are listed."""
    forms = {
        fact
        for fact in facts_of_text(build(name, 4096, 4096, 4096).module())
        if fact.name.partition(".")[0] in _FAMILIES
    }
    assert len(forms) > 10
    other = {fact for fact in forms if all(use.project != "learn_cuda" for use in proofs(fact))}
    assert {fact.name for fact in other} <= OTHERS.keys()
    assert unproven(other) == []


# --- the last rung: even waves and cluster launch control ------------------------------------------


@pytest.mark.parametrize(
    ("side", "whole", "halves"),
    # 256 tiles: three rounds of 74, and 34 tiles more; 1024 tiles: 62 more than 13 rounds, too many to cut.
    [(4096, 222, 68), (8192, 1024, 0), (16384, 4070, 52), (256, 0, 2)],
)
def test_even_waves(side: int, whole: int, halves: int) -> None:
    """The tiles of the last round are cut where their halves fit into one round."""
    assert rung("v7").split(side, side) == (whole, halves)
    assert 2 * whole + halves == 2 * (side // 256) ** 2


@pytest.mark.one_in(2)
@pytest.mark.full
@pytest.mark.parametrize("schedule", ["eager", "late", "random", "starve:mma"])
def test_launch_control(schedule: str) -> None:
    """Which clusters are canceled is the only thing that another schedule may decide in another way."""
    shape = (300, 776, 136)
    kernel = build("v7", *shape, pairs=3)
    report, error = parts().simulate(kernel, shape, schedule, seed=4)
    assert report.verdict == "clean" and error <= 1, str(report)
    assert {one.what.split(".")[0] for one in report.competing} == {"clusterlaunchcontrol"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "pairs", "count"),
    [((200, 200, 136), 74, 3), pytest.param((600, 200, 64), 2, 73, marks=pytest.mark.slow)],
)
def test_launch_control_holds_for_every_schedule(shape: tuple[int, int, int], pairs: int, count: int) -> None:
    """Two halves of a tile; two whole tiles beside two halves."""
    kernel = build("v7", *shape, pairs=pairs)
    report, error = parts().simulate(kernel, shape, launch_control="every")
    assert report.verdict == "clean" and report.holds == "every schedule" and error <= 1, str(report)
    assert report.assignments.ran == count


def test_a_schedule_that_does_not_exist() -> None:
    with pytest.raises(SpecError, match="'dynamic'"):
        build("v7", 256, 256, 256, schedule="dynamic")


# --- what the text spells by hand ----------------------------------------------------------------


@pytest.mark.parametrize(("name", "swizzle"), [("v1a", "none"), ("v2a", "128B")])
def test_descriptors(name: str, swizzle: str) -> None:
    """LBO, SBO and the steps along K, against the layout that pyptx derives from the tile."""
    module = rung(name)
    base = rung("v1a")
    for rows, side in ((base.BM, 0), (base.BN, 1)):
        tile = OperandTile(rows, base.BK, 16, "K", swizzle)
        assert module.fields(rows) == tile.descriptor(0).encode()
        assert Tcgen05SmemDescriptor.decode(module.fields(rows)).swizzle == swizzle
        assert [step[side] for step in module.STEPS] == [tile.k_offset(k) for k in range(0, base.BK, 16)]


def test_tensor_maps() -> None:
    """What the driver gets: dimensions from the innermost one, strides in bytes."""
    M, K = 640, 1024
    given = {}
    for name in ("v1a", "v1b", "v2a", "v2b"):
        spec = rung(name).operand(M, K, 128)
        made = TensorMap.tiled(
            0, dtype=spec.dtype, shape=spec.tma_shape, strides=spec.tma_strides, box=spec.tma_box
        )
        arguments = made.driver_arguments()
        given[name] = (arguments.dims, arguments.strides, arguments.box, spec.layout.swizzle)
    assert given == {
        "v1a": ((K, M), (2 * K,), (8, 128), "none"),
        "v1b": ((8, M, K // 8), (2 * K, 16), (8, 128, 32), "none"),
        "v2a": ((K, M), (2 * K,), (64, 128), "128B"),
        "v2b": ((64, M, K // 64), (2 * K, 128), (64, 128, 4), "128B"),
    }


def test_the_wait_is_spelled_as_the_text_has_it() -> None:
    text = build("v1a", 128, 256, 256).ptx()
    assert "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64" in text
    assert f", {0x989680};" in text


@pytest.mark.full
def test_copies_of_a_round() -> None:
    """BK / 8 (or BK / 64) copies for each operand by 2-D maps, one by 3-D maps."""
    counts = {}
    for name in ("v1a", "v1b", "v2a", "v2b"):
        a, b = parts().make_inputs(128, 256, 256)
        timeline = build(name, 128, 256, 256).simulate(a, b, timeline=True).timeline
        engines = {n for n, track in enumerate(timeline.tracks) if track.kind is TrackKind.ENGINE}
        copies = [
            e for e in timeline.events if e.name.startswith("cp.async.bulk.tensor") and e.track in engines
        ]
        counts[name] = len(copies)
    assert counts == {"v1a": 64, "v1b": 2, "v2a": 8, "v2b": 2}


@pytest.mark.gpu
@pytest.mark.parametrize("name", RUNGS)
def test_on_the_gpu(name: str) -> None:
    torch, why = parts().blackwell()
    if torch is None:
        pytest.skip(why)
    for shape in ((256, 256, 1024), (1000, 520, 4096)):
        assert parts().launch(torch, build(name, *shape), shape) <= 1
