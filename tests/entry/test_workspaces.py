"""Workspaces: memory that a launch needs besides its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import SpecError
from pyptx.core.types import f32, pred, u32
from pyptx.dsl import Scalar, Tile, TileParam, Workspace, ptx
from pyptx.entry import Kernel, kernel
from pyptx.runtime import workspaces
from pyptx.runtime.workspaces import Space, WorkspaceMemory

WIDTH = 64


def summed(*, resets: bool = True, **options: Any) -> Kernel:
    """y[0] = the sum of x: each CTA adds its part to a workspace, and the last one stores and resets it."""

    @kernel(
        in_specs=(Tile("N", f32),),
        out_specs=(Tile(1, f32),),
        grid=lambda N: N // WIDTH,
        block=WIDTH,
        arch="sm_90a",
        workspaces=(
            Workspace(4, f32, zeroed=True),
            Workspace(4, u32, zeroed=True),
            Workspace(lambda N: 4 * N, f32),
        ),
        **options,
    )
    def summed(x: TileParam, y: TileParam, total: TileParam, arrived: TileParam, copy: TileParam) -> None:
        i = ptx.special.ctaid.x() * WIDTH + ptx.special.tid.x()
        value = ptx.load(f32, x.at(i))
        ptx.store(copy.at(i), value)
        again = ptx.load(f32, copy.at(i))
        ptx.inst.red.global_.add.f32(total.at(0), again)
        ptx.inst.fence.acq_rel.gpu()
        ptx.bar.sync(0)
        with ptx.if_(ptx.special.tid.x() == 0):
            before = ptx.atom("add", arrived.at(0), 1, u32, sem="acq_rel", scope="gpu")
            with ptx.if_(before == ptx.special.nctaid.x() - 1):
                ptx.inst.fence.acq_rel.gpu()
                sum_ = ptx.load(f32, total.at(0))
                ptx.store(y.at(0), sum_)
                if resets:
                    ptx.store(total.at(0), 0.0, f32)
                    ptx.store(arrived.at(0), 0, u32)

    return summed


def test_the_simulator_gives_memory_and_checks_that_it_is_left_zero() -> None:
    k = summed()
    for n in (1, 3, 2):
        x = np.arange(n * WIDTH, dtype=np.float32)
        report = k.simulate(x)
        assert report.verdict == "clean", str(report)
        assert report.outputs[0][0] == x.sum()
        assert k(x)[0] == x.sum()
    # A size that the text does not depend on needs no recording of its own.
    assert len(k._specializations.recorded()) == 1
    report = summed(resets=False).simulate(np.ones(WIDTH, np.float32))
    assert [finding.rule.name for finding in report.findings] == ["wrong-result"] * 2
    assert "total" in str(report.findings[0]) and "arrived" in str(report.findings[1])


def test_a_reference_is_for_the_outputs_alone() -> None:
    x = np.ones(WIDTH, np.float32)
    assert summed().simulate(x, reference=lambda a: a.sum()[None]).verdict == "clean"
    assert summed().simulate(x, reference=lambda a: a[:1]).verdict == "error"


def test_memory_that_is_not_zeroed_is_undefined() -> None:
    @kernel(out_specs=(Tile(1, u32),), arch="sm_90a", workspaces=(Workspace(8, u32),))
    def reads(y: TileParam, scratch: TileParam) -> None:
        ptx.store(y.at(0), ptx.load(u32, scratch.at(1)))

    report = reads.simulate()
    assert report.verdict != "clean" and any("uninit" in finding.rule.name for finding in report.findings)


def test_the_text_has_a_pointer_for_each_that_is_used() -> None:
    text = summed().ptx(N=WIDTH)
    assert ".param .u64 total" in text and ".param .u64 arrived" in text and ".param .u64 copy" in text
    assert text == summed().ptx(N=5 * WIDTH)
    assert summed().assemble(N=WIDTH).spills == 0


def test_sizes_can_be_read() -> None:
    @kernel(
        in_specs=(Tile("N", u32),),
        out_specs=(Tile(2, u32),),
        arch="sm_90a",
        workspaces=(Workspace(lambda N: 8 * N, u32),),
    )
    def sizes(x: TileParam, y: TileParam, scratch: TileParam, *, baked: bool) -> None:
        ptx.store(y.at(0), scratch.extent(0))
        ptx.store(y.at(1), ptx.special.tid.x() + (scratch.shape[0] if baked else 0))

    for n in (3, 4):
        x = np.zeros(n, np.uint32)
        assert list(sizes(x, baked=False)) == [2 * n, 0] and list(sizes(x, baked=True)) == [2 * n, 2 * n]
    assert len(sizes._specializations.recorded()) == 3


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Workspace(0), "0 bytes: expected a positive number"),
        (lambda: Workspace(True), "True bytes"),
        (lambda: Workspace("N"), "'N' bytes"),  # type: ignore[arg-type]
        (lambda: Workspace(4, pred), "memory cannot hold pred"),
    ],
)
def test_what_cannot_be_a_workspace(made: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        made()


def test_declarations_that_do_not_fit() -> None:
    with pytest.raises(SpecError, match="expected a Workspace"):
        kernel(workspaces=(Scalar(u32),))(lambda a: None)  # type: ignore[arg-type]
    with pytest.raises(
        SpecError, match="1 positional parameters.*but 0 in_specs, 0 out_specs and 2 workspaces"
    ):
        kernel(workspaces=(Workspace(4), Workspace(4)))(lambda a: None)

    @kernel(in_specs=(Tile("N", u32),), workspaces=(Workspace(lambda N: N - 4, u32),), arch="sm_90a")
    def small(x: TileParam, scratch: TileParam) -> None: ...

    for n, size in ((4, 0), (5, 1)):
        with pytest.raises(
            SpecError, match=f"workspace scratch has {size} bytes: expected a positive multiple of 4"
        ):
            small.ptx(N=n)
    with pytest.raises(SpecError, match="the size of scratch is a function of 'Q'"):

        @kernel(workspaces=(Workspace(lambda Q, R: Q),), arch="sm_90a")
        def unknown(scratch: TileParam) -> None: ...

        unknown.ptx()


# --- memory on a GPU, by stand-ins ------------------------------------------------------------------


def test_memory_belongs_to_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, Space]] = []

    class Tensor:
        def __init__(self, nbytes: int) -> None:
            self.nbytes = nbytes

    def allocate(space: Space, device_index: int, stream: int) -> Tensor:
        made.append((stream, space))
        return Tensor(space.nbytes)

    capturing: set[int] = set()
    monkeypatch.setattr(WorkspaceMemory, "_allocate", staticmethod(allocate))
    monkeypatch.setattr(workspaces, "_is_capturing", lambda device, stream: stream in capturing)
    pytest.importorskip("torch")
    memory, small, large = WorkspaceMemory(), Space(16, True), Space(64, False)
    first = memory.tensors((small, large), 0, 1)
    assert memory.tensors((small, large), 0, 1) == first and len(made) == 2
    assert memory.tensors((small, large), 0, 2) != first and len(made) == 4
    # A larger launch gets larger memory; a smaller one keeps it.
    grown = memory.tensors((Space(32, True), large), 0, 1)
    assert grown[0] is not first[0] and grown[1] is first[1] and made[-1] == (1, Space(32, True))
    assert memory.tensors((small, large), 0, 1) == grown
    # Each captured launch has memory of its own.
    capturing.add(1)
    captured = [memory.tensors((small, large), 0, 1) for _ in range(2)]
    assert captured[0][0] is not captured[1][0] and captured[0][0] is not grown[0]
    assert memory._captured == [*captured[0], *captured[1]]
    capturing.clear()
    assert memory.tensors((small, large), 0, 1) == grown
    for stream in range(100, 300):
        memory.tensors((small,), 0, stream)
    assert len(memory._kept) == 64


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_launches_share_memory_in_streams_and_graphs() -> None:
    torch = pytest.importorskip("torch")
    k = summed()
    streams = [torch.cuda.Stream() for _ in range(3)]
    for n in (1, 100, 7):
        x = torch.randint(0, 10, (n * WIDTH,), device="cuda").float()
        expected = x.sum()
        torch.cuda.synchronize()
        for _ in range(50):
            results = []
            for stream in streams:
                with torch.cuda.stream(stream):
                    results.append(k(x))
            torch.cuda.synchronize()
            assert all(each[0] == expected for each in results)
        p = k.prepare(x)
        assert p()[0] == expected and p(x)[0] == expected
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = k(x)
        z = k(2 * x)
    for _ in range(100):
        graph.replay()
        assert k(x)[0] == expected and y[0] == expected and z[0] == 2 * expected
