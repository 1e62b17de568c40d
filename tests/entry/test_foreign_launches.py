"""Arrays of other libraries on a GPU: what the driver is asked for, by a stand-in for the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from pyptx import SpecError
from pyptx.entry import foreign
from pyptx.runtime import driver as owner
from tests.entry.torch_kernels import axpy
from tests.runtime.fake_driver import OK, FakeDriver

N = 64
EVENT = 555


class Driver(FakeDriver):
    """Keeps what launches get, and the order of calls that concern streams."""

    def __init__(self) -> None:
        super().__init__()
        self.parameters = (8, 8, 4, 4, 8)
        self.seen: list[tuple[Any, ...]] = []
        #: The GPUs of the modules.
        self.homes: list[int] = []

    def cuModuleLoadData(self, image: bytes) -> Any:
        self.homes.append(self.contexts[-1] - 1000)
        return super().cuModuleLoadData(image)

    def cuPointerGetAttribute(self, attribute: Any, pointer: int) -> Any:
        assert attribute.name.endswith("DEVICE_ORDINAL")
        return OK, 1

    def cuEventCreate(self, flags: Any) -> Any:
        return OK, EVENT

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self.seen.append(("record", event, stream))
        return (OK,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Any:
        self.seen.append(("wait", stream, event))
        return (OK,)

    def cuEventDestroy(self, event: int) -> Any:
        return (OK,)

    def cuLaunchKernelEx(self, config: Any, function: int, parameters: int, extra: int) -> Any:
        pointers = (ctypes.c_uint64 * 5).from_address(parameters)
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_float, ctypes.c_int32, ctypes.c_uint64)
        values = [kind.from_address(pointer).value for kind, pointer in zip(kinds, pointers, strict=True)]
        self.seen.append(("launch", int(config.hStream), *values))
        return (OK,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    fake = Driver()
    caches = (owner.device_info, owner._primary_context)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(owner, "_initialized", lambda: fake)
    monkeypatch.setattr(foreign, "driver", lambda: fake)
    monkeypatch.setenv("PYPTX_PURE", "1")
    monkeypatch.setattr("pyptx.runtime.launch.driver", lambda: fake)
    monkeypatch.setattr("pyptx.runtime.plan.driver", lambda: fake)
    yield fake
    for cache in caches:
        cache.cache_clear()


class ByInterface:
    def __init__(
        self, address: int, stream: int | None = None, shape: tuple[int, ...] = (N,), **more: Any
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            "stream": stream,
            **more,
        }


class _Managed(ctypes.Structure):
    """DLManagedTensor of DLPack 0.x."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class ByDLPack:
    """An array on GPU 1, with the capsule that its library would give out."""

    def __init__(self, address: int, code: int = 2, bits: int = 32, lanes: int = 1) -> None:
        self.shape = (ctypes.c_int64 * 1)(N)
        self.streams: list[Any] = []
        self.managed = _Managed(address - 32, 2, 1, 1, code, bits, lanes, self.shape, None, 32, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor", None)


def test_addresses_device_and_stream(driver: Driver) -> None:
    x, y, z = ByInterface(0x1000), ByDLPack(0x2000), ByInterface(0x3000)
    k = axpy()
    assert k(x, y, 2.0, 3, out=z, stream=77) is z
    assert driver.seen == [("launch", 77, 0x1000, 0x2000, 2.0, 3, 0x3000)]
    assert y.streams == [77]
    # Other arrays of the same kind: nothing of the first call is left.
    k(ByInterface(0x4000), ByDLPack(0x5000), 0.5, 4, out=ByInterface(0x6000), stream=78)
    assert driver.seen[1:] == [("launch", 78, 0x4000, 0x5000, 0.5, 4, 0x6000)]
    assert driver.homes == [1]
    # The default stream has the number 1 in the protocol, and 0 for the driver.
    k(x, y, 2.0, 3, out=z)
    assert y.streams[-1] == 1 and driver.seen[-1][1] == 0


def test_the_launch_waits_for_the_stream_of_the_array(driver: Driver) -> None:
    x, ours = ByInterface(0x1000, stream=9), ByInterface(0x2000, stream=77)
    axpy()(x, ours, 2.0, 3, out=ours, stream=77)
    assert driver.seen[:2] == [("record", EVENT, 9), ("wait", 77, EVENT)]
    assert [each[0] for each in driver.seen] == ["record", "wait", "launch"]


def test_what_is_refused(driver: Driver) -> None:
    k, x = axpy(), ByInterface(0x1000)
    wrong = {
        "x is not contiguous": ByInterface(0x1000, strides=(8,)),
        "not a multiple of 16 bytes": ByInterface(0x1004),
        "x has dtype f64": ByDLPack(0x1000, bits=64),
        "DLPack's type 2 with 32 bits in 2 lanes": ByDLPack(0x1000, lanes=2),
        "x has no memory": ByInterface(0),
        "K is 32 by dimension 0 of x": ByInterface(0x1000, shape=(32,)),
    }
    for said, value in wrong.items():
        with pytest.raises(SpecError, match=said):
            k(value, x, 2.0, 3, out=x)
    with pytest.raises(SpecError, match="z is an array of tests that must not be written"):
        k(x, x, 2.0, 3, out=ByInterface(0x1000, data=(0x1000, True)))
    k(ByInterface(0x1000, data=(0x1000, True)), x, 2.0, 3, out=x)
    assert len(driver.seen) == 1
