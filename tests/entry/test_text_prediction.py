"""Predictions of PTX texts: a kernel's own text, texts of other compilers, shapes without memory, errors."""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from examples.blackwell.gemm_tiles import build_gemm_tiles
from examples.hopper import gemm_highperf_hopper, vector_add
from pyptx import Kernel, SpecError, TargetError, Tile, ToolNotFoundError, predict, sim
from pyptx.core.errors import ParseError
from pyptx.entry.prediction import Prediction
from pyptx.entry.specialize import argument_of, spaces_of
from pyptx.toolchain.schedule import statements
from tests.conformance.case import Map, Run
from tests.sim.clock.test_counters import counting
from tests.sim.compiled.blackwell.test_compiled_blackwell import CASES as BLACKWELL
from tests.sim.compiled.cases import run_of
from tests.sim.compiled.check import passed
from tests.sim.compiled.hopper.cases import CASES as HOPPER

#: Stores the first number of a list if it is less than a count.
FOLLOW = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry follow(.param .u64 list, .param .u64 out, .param .u32 count) {
    .reg .b64 %p<2>; .reg .b32 %v<2>; .reg .pred %q;
    ld.param.u64 %p0, [list];
    ld.param.u64 %p1, [out];
    ld.param.u32 %v1, [count];
    ld.global.u32 %v0, [%p0];
    setp.ge.u32 %q, %v0, %v1;
    @%q bra END;
    st.global.u32 [%p1], %v0;
END:
    ret;
}
.visible .entry other() { ret; }
"""
COUNT = 2


def through_text(kernel: Kernel, **asked: Any) -> Prediction:
    """Return the prediction of the text that a kernel prints, launched as the kernel is."""
    special = kernel.specialize()
    spaces = spaces_of(kernel.options, special.dims)
    count = len(kernel.options.names)
    arrays = []
    for _, spec in kernel.options.parameters:
        assert isinstance(spec, Tile)
        arrays.append(sim.unknown(spec.shape(special.dims), spec.dtype))
    args = [argument_of(special, kernel.options, slot, arrays[slot.index]) for slot in special.slots]
    zeroed = [
        place
        for place, slot in enumerate(special.slots)
        if slot.index >= count and spaces[slot.index - count].zeroed
    ]
    launch = special.launch
    return predict(
        kernel.ptx(),
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        dynamic_smem=launch.dynamic_smem,
        args=args,
        zeroed=zeroed,
        **asked,
    )


KERNELS: dict[str, Callable[[], Kernel]] = {
    "wgmma and clusters": lambda: gemm_highperf_hopper.build_gemm(512, 512, 512),
    "tcgen05": lambda: build_gemm_tiles(512, 512, 512),
    "a counter": lambda: counting("add"),
}


@pytest.mark.one_in(2)
@pytest.mark.sample(1)
@pytest.mark.parametrize("schedule", ["ptxas", pytest.param("default", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_and_its_text_take_as_long(
    name: str, schedule: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if schedule == "default":
        monkeypatch.setattr(statements, "find_ptxas", Mock(side_effect=ToolNotFoundError("no ptxas")))
    else:
        request.getfixturevalue("nvdisasm")
    kernel = KERNELS[name]()
    found, expected = through_text(kernel, clock=1300.0), kernel.predict(clock=1300.0)
    assert found.verdict == expected.verdict == "clean"
    assert found.schedule == expected.schedule == schedule
    assert (found.cycles, found.interval, found.bound) == (expected.cycles, expected.interval, expected.bound)
    assert (found.busy, found.timing.traffic) == (expected.busy, expected.timing.traffic)
    # A Python line may have recorded several instructions, whose waits are one.
    assert waits(found) == pytest.approx(waits(expected))


def waits(found: Prediction) -> dict[str, float]:
    """Return for how many cycles warps wait, by the cause and the warp."""
    sums: dict[str, float] = {}
    for each in found.stalls:
        for warp in each.warps:
            key = f"{each.cause.value} {warp}"
            sums[key] = sums.get(key, 0.0) + each.cycles / len(each.warps)
    return sums


@pytest.mark.full
def test_a_text_of_another_compiler(nvdisasm: object) -> None:
    """Lines are those of the text, and every further question has an answer."""
    count = 1 << 20
    loaded = sim.load(run_of("sm_90a/exchanges.saxpy").text)
    x, y = sim.unknown(count, "f32"), sim.unknown(count, "f32")
    launch: dict[str, Any] = {"grid": count // 256, "block": 256, "args": [2.5, x, y, count]}
    found = predict(loaded, "saxpy", **launch, clock=1700.0)
    assert found.entry == "saxpy" and found.gpu == "NVIDIA H200 SXM" and found.schedule == "ptxas"
    least = 12 * count / found.constants.value("hbm.read_bytes_per_ns") / 1000
    assert least < found.microseconds < 3 * least + 3
    assert found.interval[0] <= found.microseconds <= found.interval[1]
    (wait, *_) = found.waits
    assert wait.name == "fma.rn.f32" and wait.location is not None
    assert "fma.rn.f32" in run_of("sm_90a/exchanges.saxpy").text.splitlines()[wait.location.line - 1]
    assert found.without("latency").cycles < found.cycles
    assert found.timeline().unit == "ns"
    twice = predict(loaded, "saxpy", **{**launch, "grid": count // 512}, clock=1700.0)
    assert twice.cycles < found.cycles


OTHERS: dict[str, Callable[[], Run]] = {
    **{
        name: partial(run_of, f"sm_90a/{name}")
        for name in ("norms.layer_norm", "gemms.wmma_doubles", "triton.scans")
    },
    **{
        name: HOPPER[name].run
        for name in ("gemms.cluster_gemm", "triton.specialised.product", "gluon.roles.roles")
    },
    **{
        name: BLACKWELL[name].run
        for name in ("pair.pair", "triton.descriptors.matmul_descriptor", "gluon.pair.pair")
    },
}


@pytest.mark.one_in(5)
@pytest.mark.sample(2)
@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
def test_texts_of_other_compilers(name: str, nvdisasm: object) -> None:
    run = OTHERS[name]()
    given = [passed(argument) for argument in run.arguments]
    args = [each.tensor_map(given[each.of]) if isinstance(each, Map) else each for each in given]
    found = predict(
        run.text,
        run.entry,
        grid=run.grid,
        block=run.block,
        cluster=run.cluster,
        dynamic_smem=run.dynamic_smem,
        args=args[: run.parameters],
    )
    assert found.verdict == "clean" and found.schedule == "ptxas", str(found)
    assert found.microseconds > found.constants.value("launch.ns") / 1000
    assert found.bound and found.stalls


def follow(first: Any, **asked: Any) -> Prediction:
    out = np.zeros(4, np.uint32)
    return predict(FOLLOW, "follow", grid=1, block=32, args=[first, out, COUNT], clock=1700.0, **asked)


def test_shapes_take_no_memory() -> None:
    words = 1 << 30
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    args = [sim.unknown(words, "u32"), sim.unknown(words, "u32"), COUNT]
    found = predict(FOLLOW, "follow", grid=1, block=32, args=args, clock=1700.0, contents="zeros")
    assert found.verdict == "clean"
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < words


@pytest.mark.full
def test_contents_that_decide_are_needed() -> None:
    found = follow(sim.unknown(4, "u32"))
    assert [finding.rule.name for finding in found.findings] == ["needs-data"]
    assert follow(sim.unknown(4, "u32"), contents="zeros").verdict == "clean"
    assert follow(np.zeros(4, np.uint32)).verdict == "clean"


def test_contents_of_arrays_that_the_kernel_fills_are_unknown() -> None:
    assert follow(np.zeros(4, np.uint32), uninitialized=[0]).verdict == "incomplete"


TURN = """
.version 8.0
.target sm_90a
.address_size 64
.visible .global .u32 rounds = 5;
.visible .entry turn(.param .u64 out) {
    .reg .b64 %p<2>; .reg .b32 %v; .reg .pred %q;
    ld.param.u64 %p0, [out];
    mov.u64 %p1, rounds;
LOOP:
    st.global.u32 [%p0], 1;
    atom.global.add.u32 %v, [%p1], -1;
    setp.gt.s32 %q, %v, 1;
    @%q bra LOOP;
    ret;
}
"""


def test_variables_are_as_before_in_each_run_and_afterwards() -> None:
    loaded = sim.load(TURN)
    out = np.zeros(4, np.uint32)
    found = [predict(loaded, grid=1, block=1, args=[out], clock=1700.0).cycles for _ in range(2)]
    assert found[0] == found[1]
    assert loaded.variable("rounds").view(np.uint32) == 5
    loaded.variable("rounds").view(np.uint32)[...] = 50
    assert predict(loaded, grid=1, block=1, args=[out], clock=1700.0).cycles > found[0] + 45 * 100


@pytest.mark.full
def test_a_kernel_takes_arrays_of_unknown_contents_as_shapes() -> None:
    count = 4096
    given, shapes = [sim.unknown(count, "f32")] * 2, [(count,)] * 2
    found, expected = (vector_add.vector_add.predict(*each, count, clock=1700.0) for each in (given, shapes))
    assert found.verdict == "clean"
    assert found.cycles == pytest.approx(expected.cycles, rel=0.05)  # one array is loaded twice


def test_errors() -> None:
    launch: dict[str, Any] = {"grid": 1, "block": 32}
    array = np.zeros(4, np.uint32)
    good = [array, array, COUNT]
    with pytest.raises(SpecError, match=r"which entry is meant\? The module has: follow, other"):
        predict(FOLLOW, **launch, args=good)
    with pytest.raises(SpecError, match="no entry 'fellow'"):
        predict(FOLLOW, "fellow", **launch, args=good)
    with pytest.raises(SpecError, match="2 arguments were given, but follow takes 3: list, out, count"):
        predict(FOLLOW, "follow", **launch, args=good[:2])
    with pytest.raises(SpecError, match="the kernel is for sm_90a, but the NVIDIA B200 is sm_100a"):
        predict(FOLLOW, "follow", **launch, args=good, gpu="b200")
    with pytest.raises(SpecError, match="no constants of a GPU 'b9'"):
        predict(FOLLOW, "follow", **launch, args=good, gpu="b9")
    with pytest.raises(SpecError, match="l2 = 'hot': expected one of 'rotating'"):
        predict(FOLLOW, "follow", **launch, args=good, l2="hot")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="zeroed contains 3, but there are 3 arguments"):
        predict(FOLLOW, "follow", **launch, args=good, zeroed=[3])
    with pytest.raises(SpecError, match="zeroed names argument 2, which is 2: expected an array"):
        predict(FOLLOW, "follow", **launch, args=good, zeroed=[2])
    with pytest.raises(ParseError):
        predict("int main() {}", **launch)
    with pytest.raises(TargetError, match="uses what .target sm_90a with .version 8.0 does not have"):
        predict(
            FOLLOW.replace(
                "ret;\n}\n.visible", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n}\n.visible"
            ),
            "follow",
            **launch,
            args=good,
        )


def test_an_error_names_the_line_of_the_caller() -> None:
    with pytest.raises(SpecError) as raised:
        predict(FOLLOW, "follow", grid=1, block=32, args=[])
    assert raised.value.location is not None and raised.value.location.file == __file__


#: Reads a register that nothing wrote, and ends before its copy has read shared memory.
CARELESS = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry careless(.param .u64 out) {
    .reg .b64 %p0; .reg .b32 %v<3>; .reg .pred %q;
    .shared .align 16 .b8 tile[16];
    ld.param.u64 %p0, [out];
    mov.u32 %v0, tile;
    mov.u32 %v2, %tid.x;
    setp.ne.u32 %q, %v2, 0;
    @%q bra END;
    st.shared.v4.u32 [%v0], {%v1, %v1, %v1, %v1};
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%p0], [%v0], 16;
    cp.async.bulk.commit_group;
END:
    ret;
}
"""


def test_what_a_gpu_forgives_leaves_a_prediction() -> None:
    launch: dict[str, Any] = {"grid": 1, "block": 32}
    report = sim.load(CARELESS).launch(**launch, args=[np.zeros(4, np.uint32)])
    assert report.verdict == "error"
    assert {finding.rule.name for finding in report.findings} >= {"exit-in-flight", "undefined-register"}
    found = predict(CARELESS, **launch, args=[sim.unknown(4, "u32")], gpu="h200", clock="burst")
    assert found.verdict == "clean" and found.microseconds > 1
