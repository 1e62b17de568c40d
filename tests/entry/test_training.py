"""A torch module whose activation and its derivative are kernels, trained: the weights are those of torch's own."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.entry.torch_kernels import network, ours, theirs

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
ROWS = 8


def steps_of(count: int, device: str) -> Any:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(count, ROWS, 16, generator=generator).to(device)


def train(activation: Any, inputs: Any, *, graph: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return the losses and the weights after a step for each input; options are torch.compile's."""
    net = network(torch, activation, inputs.device.type)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    run = torch.compile(net, **options) if options else net
    x, losses = inputs[0].clone(), []

    def step() -> Any:
        loss = (run(x) - x.sin()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not graph)
        return loss.detach()

    replay = captured(step, net, optimizer) if graph else step
    for each in inputs:
        x.copy_(each)
        losses.append(replay().clone())
    return torch.stack(losses), torch.nn.utils.parameters_to_vector(net.parameters()).detach()


def captured(step: Any, net: Any, optimizer: Any) -> Any:
    """The step as a CUDA graph, after steps that leave nothing behind but memory."""
    before = [each.detach().clone() for each in net.parameters()]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), before, strict=True):
            parameter.copy_(value)
            parameter.grad.zero_()
        for state in optimizer.state.values():
            state["momentum_buffer"].zero_()

    def replay() -> Any:
        graph.replay()
        return loss

    return replay


@pytest.mark.full
def test_a_hundred_steps_in_the_simulator() -> None:
    inputs = steps_of(100, "cpu")
    losses, weights = train(theirs, inputs)
    assert losses[-10:].mean() < losses[:10].mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"fullgraph": True, "backend": "aot_eager"}):
            ours_losses, ours_weights = train(ours, inputs, **options)
            assert torch.equal(ours_losses, losses)
            assert torch.equal(ours_weights, weights)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"graph": True},
        {"fullgraph": True},
        {"fullgraph": True, "dynamic": True},
        {"fullgraph": True, "graph": True},
        {"fullgraph": True, "mode": "reduce-overhead"},
    ],
    ids=["eager", "graph", "compile", "dynamic", "compile in a graph", "compile with graphs"],
)
def test_a_hundred_steps_on_a_gpu(options: dict[str, Any]) -> None:
    inputs = steps_of(100, "cuda")
    losses, weights = train(theirs, inputs)
    assert losses[-10:].mean() < losses[:10].mean()
    torch._dynamo.reset()
    ours_losses, ours_weights = train(ours, inputs, **options)
    # torch.compile fuses what torch's own kernels round in several places.
    exact = "fullgraph" not in options
    torch.testing.assert_close(ours_losses, losses, **({"rtol": 0, "atol": 0} if exact else {}))
    torch.testing.assert_close(
        ours_weights, weights, **({"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-5})
    )
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.full
def test_compiled_code_of_an_earlier_process(tmp_path: Path, place: str) -> None:
    """torch.compile finds the backward on disk, and does not trace it: its operators must be there."""
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "tests.entry.compiled_twice", place],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=ROOT,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert said == [["equal", "0"], ["equal", "1"]]
