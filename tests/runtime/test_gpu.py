"""The whole path on a GPU: load, tensor map, cluster launch, refusals. Needs compute capability 9.0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from pyptx.core.errors import AssembleError, LaunchError, SharedMemoryError, SpecError
from pyptx.core.types import f32, u16, u32
from pyptx.ir import Launch
from pyptx.layout import TensorMap, swizzle
from pyptx.runtime import driver, tensor_maps
from pyptx.runtime.launch import launch, pack
from pyptx.runtime.loader import load

pytestmark = pytest.mark.gpu

#: y[i] = a * i + bias for i < n.
SCALE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 y, .param .u32 n, .param .f32 a, .param .u16 bias)
{
    .reg .pred %p; .reg .u16 %h; .reg .u32 %r<5>; .reg .f32 %f<4>; .reg .u64 %d<3>;
    ld.param.u64 %d0, [y];
    ld.param.u32 %r0, [n];
    ld.param.f32 %f0, [a];
    ld.param.u16 %h, [bias];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p ret;
    cvt.rn.f32.u32 %f1, %r4;
    cvt.rn.f32.u16 %f2, %h;
    fma.rn.f32 %f3, %f0, %f1, %f2;
    mul.wide.u32 %d1, %r4, 4;
    add.u64 %d2, %d0, %d1;
    st.global.f32 [%d2], %f3;
    ret;
}
"""

#: Each CTA of a cluster loads its own 8 rows x 128 bytes through the map and copies them out as they lie.
TILE = """
.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{
    .reg .pred %p, %q; .reg .u32 %r<9>; .reg .u64 %d<8>;
    .shared .align 8 .b64 bar;
    mov.b64 %d0, map;
    cvta.param.u64 %d0, %d0;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r0, [x];
    ld.param.u32 %r1, [y];
    mov.u32 %r2, %cluster_ctarank;
    mad.lo.u32 %r1, %r2, 8, %r1;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, dynamic;
    mov.u32 %r5, bar;
    setp.eq.u32 %p, %r3, 0;
    @%p mbarrier.init.shared::cta.b64 [%r5], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 1024;
    @%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r4], [%d0, {%r0, %r1}], [%r5];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%r5], 0;
    @!%q bra WAIT;
    shl.b32 %r6, %r3, 3;
    add.u32 %r7, %r4, %r6;
    ld.shared.b64 %d2, [%r7];
    mad.lo.u32 %r8, %r2, 1024, %r6;
    cvt.u64.u32 %d3, %r8;
    add.u64 %d4, %d1, %d3;
    st.global.b64 [%d4], %d2;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}
"""


class Memory:
    """Device memory for a test."""

    def __init__(self) -> None:
        self.pointers: list[Any] = []

    def put(self, array: npt.NDArray[Any]) -> int:
        pointer = driver.call("cuMemAlloc", array.nbytes)
        self.pointers.append(pointer)
        driver.call("cuMemcpyHtoD", pointer, array.ctypes.data, array.nbytes)
        return int(pointer)

    def get(self, pointer: int, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        driver.call("cuCtxSynchronize")
        result = np.empty_like(like)
        driver.call("cuMemcpyDtoH", result.ctypes.data, pointer, result.nbytes)
        return result


@pytest.fixture
def memory() -> Iterator[Memory]:
    try:
        info = driver.device_info(0)
    except LaunchError as error:
        pytest.skip(f"no GPU: {error.message}")
    if info.compute_capability < (9, 0):
        pytest.skip(f"{info.name} has compute capability {info.compute_capability}, the test needs 9.0")
    with driver.device_context(0):
        result = Memory()
        yield result
        for pointer in result.pointers:
            driver.call("cuMemFree", pointer)


def test_device_facts(memory: Memory) -> None:
    info = driver.device_info(0)
    assert driver.device_count() >= 1
    assert info.sm_count > 0 and info.max_shared_memory >= 227 * 1024 and info.driver_version >= (12, 4)
    with pytest.raises(LaunchError, match="there is no GPU 99"):
        driver.device_info(99)


def test_scalars_and_pointers_arrive(memory: Memory) -> None:
    kernel = load(SCALE, "scale", dynamic_smem=0, device_index=0)
    assert kernel.parameter_bytes == (8, 4, 4, 2)
    assert kernel.registers > 0 and kernel.local_bytes == 0
    y = np.full(300, -1, np.float32)
    pointer = memory.put(y)
    packed = pack([pointer, (290, u32), (0.5, f32), (7, u16)])
    for _ in range(2):
        launch(kernel, Launch((3, 1, 1), (128, 1, 1)), packed)
    expected = np.where(np.arange(300) < 290, 0.5 * np.arange(300) + 7, -1)
    assert (memory.get(pointer, y) == expected).all()


@pytest.mark.parametrize("mode", ["none", "128B"])
@pytest.mark.parametrize("origin", [(64, 16), (-8, 120), (1000, 4000)])
def test_a_tensor_map_parameter_in_a_cluster(memory: Memory, mode: str, origin: tuple[int, int]) -> None:
    x, y = origin
    array = np.arange(130 * 192).reshape(130, 192).astype(np.int16).view(ml_dtypes.bfloat16)
    pointer = memory.put(array)
    kernel = load(TILE, "tile", dynamic_smem=100_000, device_index=0)
    tensor_map = TensorMap.tiled(pointer, dtype=array.dtype, shape=array.shape, box=(8, 64), swizzle=mode)
    out = np.full(2048, 0xEE, np.uint8)
    target = memory.put(out)
    encoded = tensor_maps.encode(tensor_map, pointer)
    arguments = [encoded, target, (x & 0xFFFFFFFF, u32), (y, u32)]
    launch(kernel, Launch((2, 1, 1), (128, 1, 1), (2, 1, 1), 100_000), arguments)
    found = memory.get(target, out)

    padded = np.zeros((16, 64), np.uint16)
    for row in range(16):
        for column in range(64):
            if 0 <= y + row < 130 and 0 <= x + column < 192:
                padded[row, column] = array.view(np.uint16)[y + row, x + column]
    unswizzled = found[swizzle(np.arange(2048), mode)].view(np.uint16).reshape(16, 64)
    assert (unswizzled == padded).all()


@pytest.mark.parametrize("shape", [(1 << 20,), (4, 6, 8, 10, 64)])
def test_ranks_1_and_5_are_accepted(memory: Memory, shape: tuple[int, ...]) -> None:
    box = (1,) * (len(shape) - 1) + (64,)
    tensor_map = TensorMap.tiled(1 << 30, dtype="f16", shape=shape, box=box, swizzle="128B")
    assert len(tensor_maps.encode(tensor_map, 1 << 30).opaque) == 16


def test_the_drivers_refusal_lists_the_arguments(memory: Memory) -> None:
    tensor_map = TensorMap.tiled(1 << 30, dtype="f16", shape=(64, 64), box=(8, 64))
    with pytest.raises(SpecError, match=r"CUDA_ERROR_INVALID_VALUE(?s:.*)address 1073741832.*box \(64, 8\)"):
        tensor_maps.encode(tensor_map, (1 << 30) + 8)


def test_refused_texts_show_the_log(memory: Memory) -> None:
    with pytest.raises(AssembleError, match=r"CUDA_ERROR_INVALID_PTX \(218\)(?s:.*)Unknown modifier '\.f33'"):
        load(SCALE.replace("fma.rn.f32", "fma.rn.f33"), "scale", dynamic_smem=0, device_index=0)
    with pytest.raises(AssembleError, match=r"\.version 99\.0"):  # by the JIT, or by ptxas where there is one
        load(SCALE.replace(".version 8.0", ".version 99.0"), "scale", dynamic_smem=0, device_index=0)
    if driver.device_info(0).compute_capability == (9, 0):
        with pytest.raises(AssembleError, match=r"\.target sm_100a, but GPU 0"):
            text = SCALE.replace(".version 8.0", ".version 8.6").replace("sm_90", "sm_100a")
            load(text, "scale", dynamic_smem=0, device_index=0)


def test_refused_loads_and_launches(memory: Memory) -> None:
    with pytest.raises(LaunchError, match=r"'scales'(?s:.*)the entries scale"):
        load(SCALE, "scales", dynamic_smem=0, device_index=0)
    with pytest.raises(SharedMemoryError, match="300000 of dynamic"):
        load(TILE, "tile", dynamic_smem=300_000, device_index=0)
    kernel = load(SCALE, "scale", dynamic_smem=0, device_index=0)
    with pytest.raises(SpecError, match="takes 4 parameters"):
        launch(kernel, Launch((1, 1, 1), (128, 1, 1)), [0])
