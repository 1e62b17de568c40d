"""The worker process: what it is told, and how it is lost and started again. ``fake_worker.py`` stands for a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyptx
from pyptx import Kernel, LaunchError, Layout, Scalar, Tile, bf16, f32, kernel, ptx, s32, smem, u32
from pyptx.tools.autotune import lab, tuning
from pyptx.tools.autotune.candidates import Candidate, record
from pyptx.tools.autotune.jobs import Inputs, description
from tests.tools.autotune.fakes import build_double

FAKE = Path(__file__).parent / "fake_worker.py"
X = np.arange(1024, dtype=np.float32)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Workers are those of ``fake_worker.py``; returns the file that counts them."""
    monkeypatch.setattr(lab, "COMMAND", (sys.executable, str(FAKE)))
    monkeypatch.setattr(lab, "_workers", {})
    monkeypatch.setattr(tuning, "_facts", lambda _: ("Fake", "1.0"))
    monkeypatch.setattr(tuning, "assemble_all", lambda candidates, step: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path / "opened"
    for each in lab._workers.values():
        each.end()


def _build(*, name: str, block: int = 32) -> Kernel:
    return build_double(1024, block=block, name=name)


def test_one_worker_measures_all(worker: Path) -> None:
    """Also of a second tuning; what a kernel prints is no answer."""
    for names in (["double_9", "double_5", "double_7"], ["double_3", "double_2"]):
        found = pyptx.autotune("name", names)(_build)().tune(X, gpu=0)
        assert found.configuration == {"name": min(names)} and found.restarts == 0
        assert [row["us"] for row in found.rows()] == [float(name[-1]) for name in names]
    pids = worker.read_text().split()
    assert len(pids) == 2 and len(set(pids)) == 1


@pytest.mark.full
def test_hangs_traps_and_crashes(worker: Path) -> None:
    names = [
        "first_hang_1",
        "double_9",
        "first_trap_1",
        "time_crash_1",
        "double_5",
        "time_refuse_1",
        "time_bug_1",
        "time_hang_2",
    ]
    started = time.monotonic()
    found = pyptx.autotune("name", names, deadline=0.5)(_build)().tune(X, gpu=0)
    assert time.monotonic() - started < 20
    assert found.configuration == {"name": "double_5"}
    rows = {row["configuration"][6:-1]: (row["state"], row["reason"]) for row in found.rows()}
    assert rows["first_hang_1"][0] == rows["time_hang_2"][0] == "hung"
    assert "no end within 0.5 s" in rows["first_hang_1"][1]
    assert rows["first_trap_1"] == ("failed", "CUDA_ERROR_LAUNCH_FAILED (719)")
    assert rows["time_crash_1"] == ("crashed", "the process that measures ended: it has crashed")
    assert rows["time_refuse_1"] == ("failed", "CUDA_ERROR_INVALID_CLUSTER_SIZE (912)")
    assert rows["time_bug_1"] == ("failed", "KeyError: 'bug'")
    assert rows["double_9"][0] == "slower"
    assert found.restarts == 5, "two hangs, a trap, a crash and a bug; a refusal needs none"
    assert len(set(worker.read_text().split())) == 6


@pytest.mark.full
def test_a_gpu_that_cannot_be_used(worker: Path) -> None:
    with pytest.raises(LaunchError, match="autotune cannot use GPU 7: there is no GPU 7"):
        pyptx.autotune("name", ["double_1"])(_build)().tune(X, gpu=7)


@pytest.mark.full
def test_a_worker_that_does_not_start(worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "COMMAND", (sys.executable, "-c", "raise SystemExit('no such luck')"))
    with pytest.raises(LaunchError, match="has not started: no such luck"):
        pyptx.autotune("name", ["double_1"])(_build)().tune(X, gpu=0)


@pytest.mark.full
def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    """Though a kernel of it never ends: the end of standard input is enough."""
    text = tmp_path / "k.ptx"
    text.write_text("first_hang_1")
    load = {"do": "load", "number": 0, "kernel": {"text": str(text), "entry": "first_hang_1"}}
    process = subprocess.Popen(
        [sys.executable, str(FAKE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None and process.stdout is not None
    for request in (load, {"do": "first", "number": 0}):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {}
    process.stdin.close()
    assert process.wait(timeout=10) == 0
    process.stdout.close()


@kernel(
    in_specs=(
        Tile("M", 64, bf16, Layout.TMA_128B, tma_box=(8, 64)),
        Tile("M", s32),
        Scalar(f32),
        Scalar(u32),
    ),
    out_specs=(Tile("M", 64, f32),),
    grid=lambda M, block: (M, 2),
    block=lambda block: block,
    cluster=(1, 2),
    arch="sm_90a",
)
def mixed(A: object, index: object, factor: object, count: object, D: object, *, block: int) -> None:
    A.tma_desc()  # type: ignore[attr-defined]
    rows = A.extent(0)  # type: ignore[attr-defined]
    smem.store(smem.alloc(1, u32).at(0), rows + 1)
    index.ptr, D.ptr  # type: ignore[attr-defined]  # noqa: B018
    ptx.ret()


def test_what_a_worker_is_told(tmp_path: Path) -> None:
    """Values of JSON: shapes, types, how parameters are filled; the contents of integers, of floats none."""
    index = np.array([3, 1, 2, 0, 7, 6, 5, 4], np.int32)
    arrays: list[Any] = [np.ones((8, 64), ml_dtypes.bfloat16), index, 2.5, 7]
    (candidate,) = record(lambda given: (mixed, given), [{"block": 96}], arrays, {})
    assert isinstance(candidate, Candidate)
    told = json.loads(json.dumps(description(candidate, Inputs(arrays, tmp_path), tmp_path)))
    launch = {"grid": [8, 2, 1], "block": [96, 1, 1], "cluster": [1, 2, 1], "dynamic_smem": 0}
    assert told["launch"].items() >= launch.items()
    a, i, *scalars, d = told["arrays"]
    assert a == {"role": "in", "type": "bf16", "shape": [8, 64], "contents": None}
    assert d == {"role": "out", "type": "f32", "shape": [8, 64], "contents": None}
    assert scalars == [None, None] and (i["type"], i["shape"]) == ("s32", [8])
    assert np.fromfile(i["contents"], np.int32).tolist() == index.tolist()
    kinds = [parameter["kind"] for parameter in told["parameters"]]
    assert {"map", "pointer"} <= {*kinds}
    (tensor_map,) = (each for each in told["parameters"] if each["kind"] == "map")
    described = {
        "type": "bf16",
        "box": [8, 64],
        "swizzle": "128B",
        "promotion": "none",
        "shape": [8, 64],
        "strides": None,
    }
    assert tensor_map == {"kind": "map", "array": 0, **described}
    values = [each for each in told["parameters"] if each["kind"] == "scalar"]
    extent = {"kind": "scalar", "type": "u32", "value": 8}
    assert extent in values
    values.remove(extent)
    assert values == [
        {"kind": "scalar", "type": "f32", "value": 2.5},
        {"kind": "scalar", "type": "u32", "value": 7},
    ]
    assert Path(told["text"]).read_text().count("mixed")


@pytest.mark.full
def test_the_program_of_a_worker_starts() -> None:
    """The real one, which needs no GPU to refuse a request that there is not."""
    worker = lab.WorkerProcess(lab.COMMAND)
    try:
        answer = worker.ask({"do": "nothing"}, 60.0)
    finally:
        worker.end()
    assert answer == {
        "failed": "AttributeError: 'CudaBackend' object has no attribute 'nothing'",
        "alive": False,
    }
