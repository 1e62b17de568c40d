"""The runs of an exploration: bounds, the file to resume from, executors, names of interleavings."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx import TensorMap, sim
from pyptx.core.errors import SpecError
from pyptx.sim import Report
from pyptx.sim.threads.limits import Progress
from tests.sim.build import Kernel

from .kernels import LOCK, LOST_UPDATE, ONE_OF_MANY, TICKETS, WRITERS


class Pickling(Executor):
    """Runs each task at once, as another process would get it."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **keywords: Any) -> Future[Any]:
        copied, arguments = pickle.loads(pickle.dumps((function, given)))
        future: Future[Any] = Future()
        future.set_result(pickle.loads(pickle.dumps(copied(*arguments))))
        return future


def explore(kernel: Kernel, *, grid: int = 4, **options: Any) -> Report:
    return kernel.run(np.zeros(8, np.uint32), grid=grid, block=1, schedule="all", **options)


def results(kernel: Kernel, report: Report, *, grid: int = 4) -> set[bytes]:
    """The contents that the outcomes of a report leave."""
    assert report.exploration is not None
    found = set()
    for name in report.exploration.outcomes:
        words = np.zeros(8, np.uint32)
        kernel.run(words, grid=grid, block=1, schedule=name)
        found.add(words.tobytes())
    return found


def test_a_bound_is_reached_and_said() -> None:
    report = explore(TICKETS, max_runs=10)
    assert report.exploration is not None
    assert (report.exploration.runs, report.exploration.complete) == (10, False)
    assert "explored: 10 interleavings, bound reached (max_runs=10); interleavings only" in str(report)


def test_the_time_of_all_runs_is_bounded() -> None:
    report = explore(TICKETS, timeout=0.001, max_runs=10**6)  # one run takes about as long
    assert report.exploration is not None and not report.exploration.complete
    assert report.exploration.bound == "timeout=0.001 s" and report.exploration.interleavings < 24


@pytest.mark.full
@pytest.mark.parametrize("kernel", [TICKETS, LOCK])
def test_an_exploration_resumes_where_it_ended(kernel: Kernel, tmp_path: Path) -> None:
    grid = 3 if kernel is LOCK else 4
    whole = explore(kernel, grid=grid)
    path, explored = tmp_path / "file", []
    for _ in range(40):
        part = explore(kernel, grid=grid, max_runs=3, resume=path)
        assert part.exploration is not None
        explored.append(part.exploration.runs)
        if part.exploration.complete:
            break
    assert len(explored) > 2 and explored == sorted(explored)
    assert part.exploration == whole.exploration
    assert [str(finding) for finding in part.findings] == [str(finding) for finding in whole.findings]
    again = explore(kernel, grid=grid, resume=path)
    assert again.exploration == whole.exploration


@pytest.mark.full
def test_findings_survive_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    first = explore(ONE_OF_MANY, grid=2, resume=str(path))
    assert json.loads(path.read_text())["pyptx exploration"]
    second = explore(ONE_OF_MANY, grid=2, resume=str(path))
    assert second.findings == first.findings and second.verdict == "error"


@pytest.mark.full
def test_a_file_of_another_launch_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    explore(TICKETS, max_runs=3, resume=path)
    with pytest.raises(SpecError, match="belongs to another launch"):
        explore(TICKETS, grid=3, resume=path)
    with pytest.raises(SpecError, match="belongs to another launch"):
        TICKETS.run(np.ones(8, np.uint32), grid=4, block=1, schedule="all", resume=path)
    path.write_text("{}")
    with pytest.raises(SpecError, match="not the file of an exploration"):
        explore(TICKETS, resume=path)


@pytest.mark.full
@pytest.mark.parametrize("kernel", [TICKETS, LOCK, LOST_UPDATE])
def test_an_executor_explores_the_same(kernel: Kernel) -> None:
    grid = 4 if kernel is TICKETS else 3
    here, there = explore(kernel, grid=grid), explore(kernel, grid=grid, executor=Pickling())
    assert here.exploration is not None and there.exploration is not None
    assert there.exploration.complete
    assert there.exploration.interleavings == here.exploration.interleavings
    assert results(kernel, there, grid=grid) == results(kernel, here, grid=grid)


@pytest.mark.full
def test_an_executor_that_is_bounded_can_be_resumed(tmp_path: Path) -> None:
    whole, path = explore(TICKETS), tmp_path / "file"
    for _ in range(10):
        with ThreadPoolExecutor(2) as executor:
            part = explore(TICKETS, max_runs=7, resume=path, executor=executor)
    assert part.exploration is not None and whole.exploration is not None
    assert part.exploration.complete
    assert part.exploration.interleavings == whole.exploration.interleavings
    assert results(TICKETS, part) == results(TICKETS, whole)


@pytest.mark.full
def test_processes_explore_the_same() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        there = explore(LOCK, grid=3, executor=executor)
    here = explore(LOCK, grid=3)
    assert results(LOCK, there, grid=3) == results(LOCK, here, grid=3)
    assert there.verdict == here.verdict


def test_an_executor_gets_module_variables_and_tensor_maps() -> None:
    module = sim.load("""
.version 8.0
.target sm_80
.address_size 64
.global .u32 total = 5;
.visible .entry count(.param .u64 out)
{
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [out];
    atom.global.add.u32 %r1, [total], 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
""")
    module.variable("total").view(np.uint32)[0] = 7
    out = np.zeros(1, np.uint32)
    report = module.launch(grid=2, block=1, args=[out], schedule="all", executor=Pickling(), sanitize=False)
    assert report.exploration is not None and report.exploration.interleavings == 4
    assert out[0] in (7, 8) and module.variable("total").view(np.uint32)[0] == 9
    with pytest.raises(SpecError, match="tensor maps that were made from arrays"):
        by_address = TensorMap.tiled(4096, box=(8, 8), dtype="f32", shape=(8, 8))
        module.launch(grid=1, block=1, args=[by_address], schedule="all", executor=Pickling())


def test_the_arrays_hold_what_the_first_interleaving_leaves() -> None:
    words, eager = np.zeros(8, np.uint32), np.zeros(8, np.uint32)
    report = WRITERS.run(words, grid=3, block=1, schedule="all")
    assert report.exploration is not None
    WRITERS.run(eager, grid=3, block=1, schedule=report.exploration.outcomes[0])
    assert words.tolist() == eager.tolist()


@pytest.mark.full
def test_progress_tells_what_is_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyptx.sim.api.exploration._SHOWN", 0.0)
    shown: list[Progress] = []
    explore(TICKETS, progress=shown.append)
    assert shown[0].interleavings == 1 and shown[-1].interleavings == 24
    assert max(each.left for each in shown) > 0 and shown[-1].left == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_runs": 0}, "max_runs is 0: expected an integer of at least 1"),
        ({"resume": 3}, "resume is 3: expected the path of a file"),
        ({"executor": 4}, "executor is 4: expected a concurrent.futures.Executor"),
        ({"executor": Pickling(), "observers": [sim.Recorder()]}, "executor= and observers= exclude"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        explore(TICKETS, **options)


@pytest.mark.parametrize("name", ["replay:x", "replay:eNqLjgUAARUAuQ==!", "replay:eNoDAAAAAAE"])
def test_a_name_of_no_interleaving_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="not an interleaving"):
        TICKETS.run(np.zeros(8, np.uint32), grid=4, block=1, schedule=name)


def test_a_name_of_another_kernel_is_refused() -> None:
    report = explore(ONE_OF_MANY, grid=2)
    assert report.exploration is not None
    with pytest.raises(SpecError, match="the launch cannot follow it at its step"):
        TICKETS.run(np.zeros(8, np.uint32), grid=1, block=1, schedule=report.exploration.failing)
