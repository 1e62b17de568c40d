"""Kernels compiled for Hopper's engines compute what an H200 computed, and what they must, under every schedule."""

from __future__ import annotations

from functools import cache
from itertools import cycle

import pytest

from pyptx import sim
from tests.sim.compiled.check import differences, found_rules, simulated
from tests.sim.compiled.hopper import recorded
from tests.sim.compiled.hopper.cases import CASES

#: Seeds of the random schedule.
_SEEDS = range(1, 11)


@pytest.mark.parametrize("name", CASES)
def test_what_the_gpu_computed_is_right(name: str) -> None:
    expected = CASES[name].must_give()
    for index, (words, must) in enumerate(zip(recorded.outputs(name, len(expected)), expected, strict=True)):
        right = must.agrees(words)
        assert right.all(), f"output {index}: {int((~right).sum())} of {right.size} are not as they must be"


@cache
def _loaded(text: str) -> sim.LoadedModule:
    """No kernel here has variables that stay: its launches share the code."""
    return sim.load(text)


def _check(name: str, schedule: str, seed: int) -> None:
    case = CASES[name]
    run = case.run()
    assert recorded.about()["fingerprints"][name] == run.fingerprint, (
        "the recording is of another text or input"
    )
    report, found = simulated(run, schedule, seed, module=_loaded(run.text))
    assert found_rules(report, name) == case.review, str(report)
    expected = case.must_give()
    words = recorded.outputs(name, len(found))
    for index, (array, output, recording, must) in enumerate(
        zip(found, run.outputs, words, expected, strict=True)
    ):
        wrong = differences(array, recording, output.bound)
        assert not wrong, f"output {index}: {len(wrong)} of {array.size} differ: {'; '.join(wrong[:4])}"
        assert must.agrees(array).all(), f"output {index} is not as it must be"


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_compiled(name: str, schedule: str) -> None:
    _check(name, schedule, 0)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "seed"), list(zip(CASES, cycle(_SEEDS), strict=False)))
def test_in_random_order(name: str, seed: int) -> None:
    _check(name, "random", seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", _SEEDS)
def test_in_ten_random_orders(name: str, seed: int) -> None:
    _check(name, "random", seed)


def test_the_engines_are_there() -> None:
    """The texts have, all together, what this file is about."""
    texts = "\n".join(case.run().text for case in CASES.values())
    for instruction in _ENGINES:
        assert instruction in texts, instruction


_ENGINES = """\
wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32
wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3
wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8
wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16
stmatrix
cp.async.mbarrier.arrive.noinc
setmaxnreg.inc
setmaxnreg.dec
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
cp.async.bulk.tensor.4d.shared::cluster.global.im2col
cp.async.bulk.tensor.3d.global.shared::cta
cp.reduce.async.bulk.tensor.2d
cp.reduce.async.bulk.shared::cluster.shared::cta
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
st.async
red.async
mapa
barrier.cluster.arrive.relaxed
mbarrier.arrive.release.cluster.shared::cluster
tensormap.replace
tensormap.cp_fenceproxy
griddepcontrol.wait
griddepcontrol.launch_dependents""".splitlines()
