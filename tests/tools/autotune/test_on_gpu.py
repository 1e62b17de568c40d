"""The worker's side of a measurement on a driver that is none: its memory is host memory, and its kernel is Python."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyptx
from pyptx.core.errors import LaunchError
from pyptx.ir import Launch
from pyptx.runtime import driver as owner
from pyptx.tools.autotune import lab, on_gpu, tuning
from pyptx.tools.autotune.candidates import record
from pyptx.tools.autotune.jobs import Inputs, description
from pyptx.tools.autotune.on_gpu import CudaBackend
from tests.runtime.fake_driver import STATUS, installed
from tests.tools.autotune.fakes import build_double
from tests.tools.autotune.host_driver import HostDriver, N


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostDriver]:
    monkeypatch.setenv("PYPTX_CACHE", "0")
    with installed(monkeypatch):
        found = HostDriver()
        monkeypatch.setattr(owner, "_initialized", lambda: found)
        yield found


def _told(tmp_path: Path, x: Any, **options: Any) -> dict[str, Any]:
    """What a worker is told of a kernel that doubles ``x``."""
    (candidate,) = record(
        lambda _: (build_double(N, block=32, name="double_7", **options), {}), [{}], [x], {}
    )
    return description(candidate, Inputs([x], tmp_path), tmp_path)


def _read(address: int, count: int, dtype: Any = np.float32) -> Any:
    return np.frombuffer(ctypes.string_at(address, count * np.dtype(dtype).itemsize), dtype)


def test_a_measurement(driver: HostDriver, tmp_path: Path) -> None:
    """Launches take sets of arrays in turns; the inputs of all sets are equal; the outputs are compared."""
    backend = CudaBackend()
    facts = backend.open(0, str(tmp_path))
    assert facts == {"gpu": "Fake GPU", "driver": "13.0", "multiprocessors": 132}
    backend.load(4, _told(tmp_path, np.zeros(N, np.float32)))
    assert backend.first(4) == {"us": 7.0, "group": 0}
    assert backend.time(4, 6) == {"us": 7.0} and backend.time(4, 6) == {"us": 7.0}
    assert len(driver.graphs) == 1, "the second interval launches the same graph"
    first, graph = driver.launches[0], [values for _, values in driver.graphs[0]]
    sets = 4  # of 8 KiB each, for twice 16 KiB of cache
    assert len({tuple(values) for values in graph}) == sets and graph[0] == first == graph[4]
    assert len(driver.launches) == 1 + 3 * 6, "a graph is launched once more, to upload it"
    inputs = [_read(a, N) for a, _ in graph[:sets]]
    assert all(np.array_equal(inputs[0], each) for each in inputs)
    assert abs(inputs[0].mean()) < 0.2 and 0.9 < inputs[0].std() < 1.1, "normally distributed"
    assert np.array_equal(_read(first[1], N), 2 * inputs[0])


def test_a_launch_keeps_all_its_options(driver: HostDriver, tmp_path: Path) -> None:
    backend = CudaBackend()
    backend.open(0, str(tmp_path))
    told = _told(tmp_path, np.zeros(N, np.float32))
    launch = Launch((32, 1, 1), (32, 1, 1), (2, 1, 1), 0, True, True, -1, 50)
    backend.load(0, json.loads(json.dumps({**told, "launch": asdict(launch)})))
    assert backend._loaded[0].launch == launch


def test_candidates_share_arrays_and_groups(driver: HostDriver, tmp_path: Path) -> None:
    """Another worker, after a restart, knows the groups of the one before."""
    told = _told(tmp_path, np.zeros(N, np.float32))
    backend = CudaBackend()
    backend.open(0, str(tmp_path))
    backend.load(0, told)
    backend.load(1, told)
    assert backend.first(0)["group"] == backend.first(1)["group"] == 0
    assert driver.launches[0] == driver.launches[1]
    again = CudaBackend()
    again.open(0, str(tmp_path))
    again.load(0, told)
    assert again.first(0)["group"] == 0 and driver.launches[2] != driver.launches[0]


def test_an_output_that_is_not_written_is_another_group(
    driver: HostDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = CudaBackend()
    backend.open(0, str(tmp_path))
    backend.load(0, _told(tmp_path, np.zeros(N, np.float32)))
    assert backend.first(0)["group"] == 0
    monkeypatch.setattr(driver, "_run", lambda name, values: None)
    assert backend.first(0)["group"] == 1, "not the outputs of the launch before"


def test_a_closed_tuning_leaves_nothing(driver: HostDriver, tmp_path: Path) -> None:
    """The next one makes its own arrays: the contents of integers may have changed."""
    backend = CudaBackend()
    path = tmp_path / "given"
    given = {**_array("s32", [5]), "contents": str(path)}
    for start in (0, 10):
        np.arange(start, start + 5, dtype=np.int32).tofile(path)
        backend.open(0, str(tmp_path))
        (address,) = backend._array(0, given, 1)
        assert _read(address, 5, np.int32).tolist() == list(range(start, start + 5))
    backend.load(0, _told(tmp_path, np.zeros(N, np.float32)))
    backend.time(0, 2)
    assert driver.memory and driver.graphs
    assert backend.close() == {}
    assert not driver.memory and not driver.graphs


def test_a_gpu_with_little_memory(driver: HostDriver, tmp_path: Path) -> None:
    """Launches then take fewer sets of arrays in turns; without room for one set the candidate fails."""
    backend = CudaBackend()
    backend.open(0, str(tmp_path))
    driver.room = 5 * 4 * N
    backend.load(0, _told(tmp_path, np.zeros(N, np.float32)))
    assert len(backend._loaded[0].packed) == 1, "room for four inputs and one output"
    backend.time(0, 2)
    backend.open(0, str(tmp_path))
    driver.room = 4 * N
    with pytest.raises(LaunchError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        backend.load(0, _told(tmp_path, np.zeros(N, np.float32)))


def test_a_context_that_is_broken(driver: HostDriver, tmp_path: Path) -> None:
    backend = CudaBackend()
    backend.open(0, str(tmp_path))
    backend.load(0, _told(tmp_path, np.zeros(N, np.float32)))
    assert backend.alive()
    driver.status = STATUS.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(LaunchError, match="CUDA_ERROR_LAUNCH_FAILED"):
        backend.first(0)
    assert not backend.alive()


def test_what_arrays_hold(driver: HostDriver, tmp_path: Path) -> None:
    """Random numbers repeat beyond the block that was drawn; contents are those of the caller."""
    backend = CudaBackend()
    backend.open(0, str(tmp_path))
    block = on_gpu._DRAWN
    (a,) = backend._array(0, _array("bf16", [3, block // 2 + 8]), 1)
    held = _read(a, 3 * (block // 2 + 8), ml_dtypes.bfloat16)
    assert np.array_equal(held[block:].view(np.uint16), held[: held.size - block].view(np.uint16))
    assert 0.99 < held[:block].astype(np.float32).std() < 1.01
    path = tmp_path / "given"
    np.arange(5, dtype=np.int32).tofile(path)
    first, second = backend._array(1, {**_array("s32", [5]), "contents": str(path)}, 2)
    assert _read(first, 5, np.int32).tolist() == _read(second, 5, np.int32).tolist() == [0, 1, 2, 3, 4]


def _array(type: str, shape: list[int]) -> dict[str, Any]:
    return {"role": "in", "type": type, "shape": shape, "contents": None}


def test_pieces_of_a_large_output(driver: HostDriver) -> None:
    """They lie within it, begin at elements, and the first and last bytes are among them."""
    from pyptx import f32

    assert on_gpu._pieces(4096, f32) == [(0, 4096)]
    nbytes = 4 * 50_000_001
    pieces = on_gpu._pieces(nbytes, f32)
    assert all(start % 4 == 0 and start + size <= nbytes for start, size in pieces)
    assert pieces[0][0] == 0 and nbytes - sum(pieces[-1]) < 16 * 4
    assert sum(size for _, size in pieces) == on_gpu._COMPARED


def test_parameters_of_every_kind(driver: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map is encoded for the address of its set, with the shape, strides and type of the spec."""
    from pyptx import f32

    encoded: list[Any] = []
    monkeypatch.setattr(on_gpu, "encode", lambda *given: encoded.append(given) or "the map")
    backend = CudaBackend()
    arrays = [{"shape": [64, 128], "type": "bf16"}, None]
    held = [[4096, 8192], []]
    shape = {"shape": [2, 64, 64], "strides": [128, 256, 2]}
    tensor_map = {
        "kind": "map",
        "array": 0,
        "type": "bf16",
        "box": [2, 8, 64],
        "swizzle": "128B",
        "promotion": "none",
        **shape,
    }
    assert backend._argument(tensor_map, arrays, held, 1) == "the map"
    ((described, pointer, device),) = encoded
    assert (described.box, described.shape, described.swizzle) == ((2, 8, 64), (2, 64, 64), "128B")
    assert described.strides == (128, 256, 2)
    assert (pointer, device) == (8192, 0)
    assert backend._argument({"kind": "pointer", "array": 0}, arrays, held, 0) == 4096
    assert backend._argument({"kind": "scalar", "type": "f32", "value": 2.5}, arrays, held, 0) == (2.5, f32)


@pytest.mark.full
def test_a_whole_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the call to the choice, through a worker process: a hang, a trap, a wrong kernel, and the fastest."""
    pytest.importorskip("cuda.bindings.driver")
    monkeypatch.setattr(lab, "COMMAND", (sys.executable, "-m", "tests.tools.autotune.host_driver"))
    monkeypatch.setattr(lab, "_workers", {})
    monkeypatch.setattr(tuning, "_facts", lambda _: ("Fake GPU", "13.0"))
    monkeypatch.setattr(tuning, "assemble_all", lambda candidates, step: False)
    names = ["double_9", "hang_1", "double_5", "trap_1", "wrong_1", "double_6", "double_20"]
    tuned = pyptx.autotune("name", names, deadline=1.0)(lambda *, name: build_double(N, block=32, name=name))
    try:
        found = tuned().tune(np.zeros(N, np.float32), gpu=0)
    finally:
        for worker in lab._workers.values():
            worker.end()
    rows = {row["configuration"][6:-1]: (row["state"], row["us"]) for row in found.rows()}
    assert found.configuration == {"name": "double_5"} and found.restarts == 2, str(found)
    assert rows == {
        "double_9": ("slower", 9.0),
        "hang_1": ("hung", None),
        "double_5": ("best", 5.0),
        "trap_1": ("failed", None),
        "wrong_1": ("wrong", None),
        "double_6": ("slower", 6.0),
        "double_20": ("slower", 20.0),
    }
