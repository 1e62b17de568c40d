"""Parameters are packed as the kernel reads them, and a launch that cannot work never reaches the driver."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as bindings
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import ClusterSizeError, GridSizeError, SpecError, StreamError
from pyptx.core.types import TYPES, bf16, f16, f32, f64, pred, s8, s32, u8, u16, u32, u64
from pyptx.ir import Launch
from pyptx.runtime import launch as runtime_launch
from pyptx.runtime.driver import DeviceInfo
from pyptx.runtime.launch import (
    PackedArguments,
    check_residency,
    configuration,
    launch,
    pack,
    stream_handle,
)
from pyptx.runtime.loader import LoadedKernel


def values(packed: PackedArguments) -> list[bytes]:
    """What the driver would read: through the array of pointers."""
    pointers = (ctypes.c_void_p * len(packed.sizes)).from_address(packed.address)
    return [ctypes.string_at(p or 0, n) for p, n in zip(pointers, packed.sizes, strict=True)]


def test_scalars_and_pointers() -> None:
    packed = pack([0x7F12_3456_7890, (7, u32), (-2, s32), (1.5, f32), (2.5, f64), (300, u16), (1.0, bf16)])
    assert packed.sizes == (8, 4, 4, 4, 8, 2, 2)
    assert values(packed) == [
        struct.pack("<Q", 0x7F12_3456_7890), struct.pack("<I", 7), struct.pack("<i", -2),
        struct.pack("<f", 1.5), struct.pack("<d", 2.5), struct.pack("<H", 300), b"\x80\x3f",
    ]  # fmt: skip


def test_numpy_scalars_bit_types_and_packed_pairs() -> None:
    packed = pack([np.uint64(1 << 63), (np.int64(-1), s8), (-1, TYPES["b32"]), (0xFFFF_FFFF, TYPES["b32"]),
                   (np.float32(0.5), f16), (0x3C00_4000, TYPES["f16x2"]), (448, TYPES["e4m3"])])  # fmt: skip
    assert [v.hex() for v in values(packed)] == [
        "0000000000000080", "ff", "ffffffff", "ffffffff", "0038", "0040003c", "7e"
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 255), st.sampled_from([u8, u16, u32, u64])), max_size=12))
def test_every_parameter_is_aligned_to_its_size(args: list[Any]) -> None:
    packed = pack(args)
    pointers = (ctypes.c_void_p * len(args)).from_address(packed.address)
    assert all((p or 0) % n == 0 for p, n in zip(pointers, packed.sizes, strict=True))
    assert [int.from_bytes(v, "little") for v in values(packed)] == [value for value, _ in args]


def test_tensor_maps_are_passed_by_value_on_64_bytes() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    maps = [bindings.CUtensorMap() for _ in range(2)]
    contents = [bytes(range(i, 128 + i)) for i in (0, 100)]
    for each, content in zip(maps, contents, strict=True):
        ctypes.memmove(each.getPtr(), content, 128)
    packed = pack([(1, u8), maps[0], (2, u32), maps[1]])
    del maps, each
    assert packed.sizes == (1, 128, 4, 128)
    assert [values(packed)[i] for i in (1, 3)] == contents
    pointers = (ctypes.c_void_p * 4).from_address(packed.address)
    assert pointers[1] % 64 == pointers[3] % 64 == 0


def test_no_parameters() -> None:
    assert pack([]).sizes == ()
    assert pack([]).address != 0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ((-1, u32), "argument 1: -1 does not fit u32; expected 0..4294967295"),
        ((1 << 31, s32), "2147483648 does not fit s32; expected -2147483648..2147483647"),
        ((1.5, u32), "1.5 is not an integer, which type u32 requires"),
        (("x", f32), "'x' is not a number, which type f32 requires"),
        ((1e39, f32), "does not fit f32"),
        ((70000.0, f16), "does not fit f16"),
        ((True, pred), "pred cannot be a kernel parameter"),
        ((0, TYPES["b128"]), "b128 cannot"),
        (-1, "not a device address"),
        (1 << 64, "not a device address"),
        (True, "got True of type bool"),
        (1.5, "got 1.5 of type float"),
        (np.zeros(3), "of type ndarray"),
    ],
)
def test_refused_arguments(argument: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        pack([0, argument])


def test_infinities_and_nans_are_values() -> None:
    assert values(pack([(float("inf"), f32)])) == [struct.pack("<f", float("inf"))]
    assert np.isnan(np.frombuffer(values(pack([(float("nan"), f16)]))[0], np.float16))[0]


def test_streams() -> None:
    assert stream_handle(None, 0) == 0
    assert stream_handle(0x1234, 0) == 0x1234
    assert stream_handle(SimpleNamespace(cuda_stream=0x5678), 0) == 0x5678
    assert stream_handle(SimpleNamespace(ptr=0x55), 0) == 0x55  # CuPy
    assert stream_handle(SimpleNamespace(__cuda_stream__=lambda: (0, 0x77)), 0) == 0x77  # cuda.core
    assert stream_handle(bindings.CUstream(0x99), 0) == 0x99
    wrong: list[object] = ["s", 1.0, True, object(), SimpleNamespace(cuda_stream=True)]
    for stream in [*wrong, SimpleNamespace(__cuda_stream__=lambda: (1, 0x77))]:
        with pytest.raises(StreamError, match=r"expected None, an integer handle, or a stream of torch"):
            stream_handle(stream, 0)
    here = SimpleNamespace(cuda_stream=1, device=SimpleNamespace(index=1))
    assert stream_handle(here, 1) == 1
    with pytest.raises(StreamError, match="is a stream of GPU 1, but the arrays are on GPU 0"):
        stream_handle(here, 0)
    with pytest.raises(StreamError, match="is a stream of GPU 2, but"):
        stream_handle(SimpleNamespace(__cuda_stream__=lambda: (0, 5), device=SimpleNamespace(device_id=2)), 0)


def test_attributes_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_launch, "driver", lambda: bindings)
    plain = configuration(Launch((2, 3, 4), (32, 1, 1), dynamic_smem=64))
    assert (plain.gridDimX, plain.gridDimY, plain.gridDimZ, plain.sharedMemBytes) == (2, 3, 4, 64)
    assert plain.numAttrs == 0
    config = configuration(
        Launch((4, 1, 1), (32, 1, 1), (2, 1, 1), cooperative=True, dependent=True, priority=-3, carveout=75)
    )
    names = bindings.CUlaunchAttributeID
    found = {attribute.id: attribute.value for attribute in config.attrs}
    assert config.numAttrs == len(found) == 5
    size = found[names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim
    assert (size.x, size.y, size.z) == (2, 1, 1)
    assert found[names.CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative == 1
    dependent = found[names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION]
    assert dependent.programmaticStreamSerializationAllowed == 1
    assert found[names.CU_LAUNCH_ATTRIBUTE_PRIORITY].priority == -3
    assert found[names.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT].sharedMemCarveout == 75


class Occupancy:
    """A driver on which ``clusters`` clusters, and ``ctas`` CTAs for each SM, can be resident."""

    CUlaunchConfig, CUlaunchAttribute = bindings.CUlaunchConfig, bindings.CUlaunchAttribute
    CUlaunchAttributeID = bindings.CUlaunchAttributeID

    def __init__(self, clusters: int, ctas: int) -> None:
        self.cuOccupancyMaxActiveClusters = lambda function, config: (0, clusters)
        self.cuOccupancyMaxPotentialClusterSize = lambda function, config: (0, 8)
        self.cuOccupancyMaxActiveBlocksPerMultiprocessor = lambda function, threads, smem: (0, ctas)


def test_what_cannot_be_resident(monkeypatch: pytest.MonkeyPatch) -> None:
    h200 = DeviceInfo(0, "NVIDIA H200", (9, 0), 132, 232448, (13, 0))
    monkeypatch.setattr(runtime_launch, "device_info", lambda index: h200)

    def check(clusters: int, ctas: int, launch: Launch) -> None:
        monkeypatch.setattr(runtime_launch, "driver", lambda: Occupancy(clusters, ctas))
        check_residency(KERNEL, launch)

    wide = Launch((16, 1, 1), (32, 1, 1), (16, 1, 1))
    check(1, 1, wide)
    with pytest.raises(ClusterSizeError, match=r"the 16 CTAs of a cluster \(16, 1, 1\).*at most 8 can"):
        check(0, 1, wide)
    for size, wanted in (
        (264, Launch((264, 1, 1), (32, 1, 1), cooperative=True)),
        (32, replace(wide, grid=(32, 1, 1))),
    ):
        check(2, 2, replace(wanted, cooperative=True))
        check(1, 1, replace(wanted, cooperative=False))
        with pytest.raises(GridSizeError, match=rf"its {size} CTAs, .* at most {size // 2} can"):
            check(1, 1, replace(wanted, cooperative=True))


KERNEL = LoadedKernel(
    entry="gemm", device_index=0, function=None, module=None, dynamic_smem=1024, static_smem=0, registers=168,
    local_bytes=0, max_threads=384, parameter_bytes=(8, 4), info_log="",
)  # fmt: skip
FITS = Launch((4, 2, 1), (128, 1, 1), (2, 1, 1), 1024)


@pytest.mark.parametrize(
    ("change", "args", "message"),
    [
        ({}, [0], r"takes 2 parameters of \(8, 4\) bytes, got 1 of \(8,\)"),
        ({}, [0, (1, u64)], r"got 2 of \(8, 8\)"),
        ({"dynamic_smem": 2048}, None, "loaded for 1024 bytes .*needs 2048"),
        ({"block": (512, 1, 1)}, None, "512 threads, but 'gemm' with 168 registers allows at most 384"),
        ({"block": (1, 1, 65)}, None, r"block \(1, 1, 65\) is outside"),
        ({"grid": (4, 65536, 1)}, None, r"grid \(4, 65536, 1\)"),
        ({"grid": (3, 1, 1)}, None, r"grid \(3, 1, 1\) cannot be divided into whole clusters of \(2, 1, 1\)"),
        ({"grid": (32, 1, 1), "cluster": (32, 1, 1)}, None, "32 CTAs; at most 16"),
    ],
)
def test_launches_that_cannot_work(change: dict[str, Any], args: list[Any] | None, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        launch(KERNEL, replace(FITS, **change), args or [0, (1, u32)])
