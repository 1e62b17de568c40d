"""cuDNN's attention on e4m3: absent without the frontend, asked for what the row gives, the fastest plan."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pyptx.tools.load import load_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FACTORS = {"descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o", "amax_s", "amax_o"}


class Array:
    """As much of a tensor as the calls read; its address is a number that a test can find again."""

    made = 0

    def __init__(self, *shape: int, **kind: Any) -> None:
        Array.made += 1
        self.shape, self.kind, self.at = shape, kind, 0x1000 * Array.made
        self.device, self.dtype = "cuda", kind.get("dtype", "e4m3")

    def stride(self, axis: int) -> int:
        found = 1
        for size in self.shape[axis + 1 :]:
            found *= size
        return found

    def data_ptr(self) -> int:
        return self.at


class Port:
    """A tensor of the graph."""

    count = 0

    def __init__(self, **given: Any) -> None:
        Port.count += 1
        self.given, self.number = given, Port.count

    def get_uid(self) -> int:
        return self.number

    def set_output(self, _: bool) -> Port:
        return self

    def set_dim(self, dim: list[int]) -> Port:
        self.given["dim"] = dim
        return self

    def set_stride(self, stride: list[int]) -> Port:
        self.given["stride"] = stride
        return self

    def set_data_type(self, kind: str) -> Port:
        self.given["data_type"] = kind
        return self


class Graph:
    """A graph with three plans, of which the first one fails."""

    plans = ("broken", "slow", "fast")

    def __init__(self, **_: Any) -> None:
        self.ran: list[tuple[int, dict[int, int]]] = []

    def tensor(self, **given: Any) -> Port:
        return Port(**given)

    def sdpa_fp8(self, **given: Any) -> tuple[Port, None, Port, Port]:
        self.asked = given
        self.found = Port(), Port(), Port()
        return self.found[0], None, *self.found[1:]

    def get_execution_plan_count(self) -> int:
        return len(self.plans)

    def get_plan_name_at_index(self, index: int) -> str:
        return self.plans[index]

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        return 100 * index

    def execute_plan_at_index(self, given: dict[int, int], workspace: int, index: int, handle: str) -> None:
        if self.plans[index] == "broken":
            raise RuntimeError("not supported")
        self.ran.append((index, given))

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name in (
            "validate",
            "build_operation_graph",
            "create_execution_plans",
            "check_support",
            "build_plans",
        ):
            return lambda *_: None
        raise AttributeError(name)


@pytest.fixture
def rival(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    stream = SimpleNamespace(cuda_stream=7)
    torch = SimpleNamespace(
        empty=lambda *shape, **kind: Array(*(shape[0] if isinstance(shape[0], tuple) else shape), **kind),
        ones=Array,
        uint8="uint8",
        cuda=SimpleNamespace(current_stream=lambda: stream),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return load_module(BENCHMARKS / "_cudnn_fp8.py")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    made: list[Graph] = []
    cudnn = SimpleNamespace(
        pygraph=lambda **given: made.append(Graph(**given)) or made[-1],
        data_type=SimpleNamespace(FP8_E4M3="e4m3", FLOAT="f32"),
        heur_mode=SimpleNamespace(A="A"),
        build_plan_policy=SimpleNamespace(ALL="all"),
        cudnnGraphNotSupportedError=type("cudnnGraphNotSupportedError", (Exception,), {}),
        create_handle=lambda: "handle",
        set_stream=lambda handle, stream: None,
    )
    monkeypatch.setitem(sys.modules, "cudnn", cudnn)  # type: ignore[arg-type]
    return made


def test_it_is_absent_without_the_frontend(rival: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cudnn", None)  # type: ignore[arg-type]
    assert rival.cudnn_attention(None, 128, False) == {}


def test_it_is_absent_for_heads_that_it_fails_for(rival: ModuleType, graphs: list[Graph]) -> None:
    assert rival.cudnn_attention(None, 256, False) == {}
    assert list(rival.cudnn_attention(None, 128, False)) == ["cuDNN"]


@pytest.mark.parametrize("causal", [False, True])
def test_the_fastest_plan_gets_the_arrays(
    rival: ModuleType, graphs: list[Graph], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = rival.cudnn_attention(None, 128, causal).values()
    times = {1: 2.0, 2: 1.0}

    def measured(self: Any, *given: Any) -> float:
        self._run(*given)
        return times[given[-1]]

    monkeypatch.setattr(rival.Attention8, "_timed", measured)
    q, k, v = (Array(2, 300, 4, 128) for _ in range(3))
    o = run(q, k, v, "further", "arguments")
    (graph,) = graphs
    assert run.plans() == ["fast", "broken", "slow"]
    index, given = graph.ran[-1]
    assert index == 2 and graph.asked["use_causal_mask"] is causal
    assert math.isclose(graph.asked["attn_scale"], 128**-0.5)
    for name, array in (("q", q), ("k", k), ("v", v)):
        port = graph.asked[name]
        assert port.given["dim"] == [2, 4, 300, 128]
        assert port.given["stride"] == [300 * 4 * 128, 128, 4 * 128, 1]
        assert given[port.get_uid()] == array.at
    assert given[graph.found[0].get_uid()] == o.at and graph.found[0].given["data_type"] == "e4m3"
    assert {name for name in graph.asked if "scale_" in name} == {
        name for name in FACTORS if "scale_" in name
    }
    assert len(given) == 4 + len(FACTORS)
    run(q, k, v)
    assert len(graphs) == 1 and graph.ran[-1][0] == 2
