"""Options of launches: cooperative, dependent, priority, carve-out, clusters of 16, streams."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import ClusterSizeError, GridSizeError, SpecError, StreamError
from pyptx.core.types import f32, u32
from pyptx.dsl import Tile, TileParam, ptx, smem
from pyptx.entry import Kernel, kernel


def grid_barrier(ctas: int, **options: Any) -> Kernel:
    """Each CTA adds 1 to a counter, waits for all others, and stores what it reads."""

    @kernel(
        in_specs=(Tile(1, u32),), out_specs=(Tile(ctas, u32),), grid=ctas, block=32, arch="sm_90a", **options
    )
    def grid_barrier(count: TileParam, seen: TileParam) -> None:
        with ptx.if_(ptx.special.tid.x() == 0):
            ptx.inst.red.release.gpu.global_.add.u32(ptx.addr(count.ptr), 1)
            value = ptx.load(u32, count.ptr, sem="acquire", scope="gpu")
            with ptx.while_(lambda: value < ctas):
                ptx.inst.ld.acquire.gpu.global_.u32(value, ptx.addr(count.ptr))
            ptx.store(seen.at(ptx.special.ctaid.x()), value)

    return grid_barrier


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"carveout": 101}, "carveout is 101: expected a whole number from 0 to 100"),
        ({"carveout": -1}, "carveout is -1"),
        ({"priority": 1.5}, "priority is 1.5: expected a whole number"),
        ({"priority": True}, "priority is True"),
    ],
)
def test_options_that_cannot_be(option: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        grid_barrier(4, **option)


def test_options_reach_the_launch() -> None:
    launch = grid_barrier(4).specialize().launch
    assert (launch.cooperative, launch.dependent, launch.priority, launch.carveout) == (
        False,
        False,
        None,
        None,
    )
    launch = grid_barrier(4, cooperative=True, dependent=True, priority=-1, carveout=50).specialize().launch
    assert (launch.cooperative, launch.dependent, launch.priority, launch.carveout) == (True, True, -1, 50)


def test_the_simulator_refuses_a_cooperative_launch_that_is_too_large() -> None:
    count = np.zeros(1, np.uint32)
    k = grid_barrier(64, cooperative=True)
    assert (k(count) == 64).all()
    with pytest.raises(
        GridSizeError, match=r"its 100000 CTAs must be resident at the same time, but at most \d{4}"
    ):
        grid_barrier(100_000, cooperative=True)(count)


def test_the_simulator_has_no_streams() -> None:
    with pytest.raises(StreamError, match="the simulator has no streams"):
        grid_barrier(1)(np.zeros(1, np.uint32), stream=0)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_cooperative_launch(torch: Any) -> None:
    ctas = torch.cuda.get_device_properties(0).multi_processor_count
    k = grid_barrier(ctas, cooperative=True)
    assert (k(torch.zeros(1, dtype=torch.uint32, device="cuda")).cpu() == ctas).all()
    with pytest.raises(
        GridSizeError, match=r"its 100000 CTAs.* must be resident at the same time, but at most \d+"
    ):
        grid_barrier(100_000, cooperative=True)(torch.zeros(1, dtype=torch.uint32, device="cuda"))


@pytest.mark.gpu
def test_priority_and_carveout(torch: Any) -> None:
    count = torch.zeros(1, dtype=torch.uint32, device="cuda")
    assert (grid_barrier(8, priority=-1, carveout=100)(count).cpu() == 8).all()


def doubled(n: int, **options: Any) -> Kernel:
    """y = 2 * x, behind the previous kernel of the stream."""

    @kernel(
        in_specs=(Tile(n, f32),),
        out_specs=(Tile(n, f32),),
        grid=n // 256,
        block=256,
        arch="sm_90a",
        **options,
    )
    def doubled(x: TileParam, y: TileParam) -> None:
        i = ptx.special.ctaid.x() * 256 + ptx.special.tid.x()
        ptx.griddepcontrol.wait()
        ptx.store(y.at(i), ptx.load(f32, x.at(i)) * 2.0)
        ptx.griddepcontrol.launch_dependents()

    return doubled


@pytest.mark.gpu
def test_dependent_launches_see_what_the_previous_one_wrote(torch: Any) -> None:
    n = 1 << 20
    k = doubled(n, dependent=True)
    x = torch.rand(n, device="cuda")
    for _ in range(50):
        y = x
        for _ in range(4):
            y = k(y)
        assert torch.equal(y, 16 * x)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        z = k(k(x))
    x.copy_(torch.rand(n, device="cuda"))
    graph.replay()
    assert torch.equal(z, 4 * x)


def clustered(size: int, smem_bytes: int) -> Kernel:
    @kernel(
        out_specs=(Tile(size, u32),),
        grid=size,
        cluster=size,
        block=32,
        arch="sm_90a",
        smem=smem_bytes,
        extern_smem=True,
    )
    def clustered(y: TileParam) -> None:
        smem.base()
        ptx.store(y.at(ptx.special.ctaid.x()), ptx.special.cluster_ctarank())

    return clustered


@pytest.mark.gpu
def test_clusters_that_are_not_portable(torch: Any) -> None:
    out = torch.zeros(16, dtype=torch.uint32, device="cuda")
    assert clustered(16, 1024)(out=out).cpu().tolist() == list(range(16))


@pytest.mark.gpu
def test_outputs_for_another_stream(torch: Any) -> None:
    k = doubled(1 << 20)
    x = torch.rand(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for stream in (side, side.cuda_stream, SimpleNamespace(__cuda_stream__=lambda: (0, side.cuda_stream)), 0):
        for _ in range(20):
            y = k(x, stream=stream)
            torch.cuda.synchronize()
            assert torch.equal(y, 2 * x)
    # The memory of an output belongs to the stream that writes the output.
    with torch.cuda.stream(side):
        keep = [torch.empty_like(x) for _ in range(3)]
        addresses = {each.data_ptr() for each in keep}
        del keep
    torch.cuda.synchronize()
    assert k(x, stream=side).data_ptr() in addresses


@pytest.mark.gpu
def test_a_stream_of_another_gpu(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.rand(1 << 20, device="cuda:0")
    with pytest.raises(StreamError, match="is a stream of GPU 1, but the arrays are on GPU 0"):
        doubled(1 << 20)(x, stream=torch.cuda.Stream("cuda:1"))


@pytest.mark.gpu
def test_a_cluster_that_cannot_be_resident(torch: Any) -> None:
    from pyptx.runtime.driver import device_info

    k = clustered(16, device_info(0).max_shared_memory)
    out = torch.zeros(16, dtype=torch.uint32, device="cuda")
    try:
        assert k(out=out).cpu().tolist() == list(range(16))
    except ClusterSizeError as error:
        assert "the 16 CTAs of a cluster (16, 1, 1)" in error.message and "at most" in error.message
