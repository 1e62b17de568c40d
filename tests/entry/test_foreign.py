"""Arrays of libraries that pyptx does not know, by DLPack and by the CUDA array interface."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyptx import SpecError
from tests.entry.torch_kernels import axpy

N = 64


class Array:
    """A library's array, which gives out a numpy array's memory as its own."""

    def __init__(self, data: Any, read_only: bool = False) -> None:
        self.data, self.read_only = data, read_only
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.streams.append(stream)
        return self.data.__dlpack__(stream=None, max_version=max_version)

    def __array_namespace__(self) -> Any:
        return Library


class Library:
    float32 = np.float32

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Array:
        return Array(np.empty(shape, dtype))


class OldArray(Array):
    """From before DLPack 1.0, of a library that is not described by the array API."""

    __array_namespace__ = None  # type: ignore[assignment]

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return self.data.__dlpack__(stream=None)


def numbers(start: int = 0, count: int = N) -> Any:
    # An allocation whose first element is at a multiple of 16 bytes.
    raw = np.zeros(count * 4 + 16, np.uint8)
    at = -raw.ctypes.data % 16
    view = raw[at : at + count * 4].view(np.float32)
    view[:] = np.arange(start, start + count)
    return view


def test_inputs_and_outputs_without_a_copy() -> None:
    x, y, z = (Array(numbers(start)) for start in (0, 5, 9))
    assert axpy()(x, y, 2.0, 3, out=z) is z
    assert np.array_equal(z.data, x.data * 2 + y.data + 3)
    # Host memory has no streams.
    assert x.streams == z.streams == [None]


def test_outputs_are_allocated_in_the_library_of_the_inputs() -> None:
    x = Array(numbers(1))
    z = axpy()(x, numbers(2), 1.0, 0, N=N)
    assert type(z) is Array and np.array_equal(z.data, x.data + numbers(2))
    report = axpy().simulate(x, x, 1.0, 0, N=N)
    assert type(report.outputs[0]) is Array and np.array_equal(report.outputs[0].data, 2 * x.data)


def test_a_library_that_cannot_allocate_needs_out() -> None:
    x = OldArray(numbers())
    with pytest.raises(
        SpecError, match="z cannot be allocated: tests, .* has no __array_namespace__"
    ) as error:
        axpy()(x, x, 1.0, 0, N=N)
    assert "pass it as out=" in error.value.hint
    z = numbers()
    assert axpy()(x, x, 1.0, 0, out=z) is z and np.array_equal(z, 2 * x.data)


def test_what_is_refused() -> None:
    k, x = axpy(), numbers()
    with pytest.raises(SpecError, match="x has dtype f64, expected f32"):
        k(Array(x.astype(np.float64)), x, 1.0, 0, out=x)
    with pytest.raises(SpecError, match="x is not contiguous"):
        k(Array(numbers(0, 2 * N)[::2]), x, 1.0, 0, out=x)

    class Elsewhere(Array):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (10, 0)

    with pytest.raises(SpecError, match="device of DLPack's type 10"):
        k(Elsewhere(x), x, 1.0, 0, out=x)

    class Locked(Array):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it is in use")

    with pytest.raises(SpecError, match="does not give the array out: it is in use"):
        k(Locked(x), x, 1.0, 0, out=x)
    frozen = numbers()
    frozen.flags.writeable = False
    with pytest.raises(SpecError, match=r"z is an array of tests that must not be written|readonly"):
        k(x, x, 1.0, 0, out=Array(frozen))


def test_the_loan_ends_with_the_call() -> None:
    x = Array(numbers())
    gone = weakref.ref(x)
    axpy()(x, x, 1.0, 0, N=N)
    del x
    gc.collect()
    assert gone() is None


# --- on a GPU: memory of the driver, as a library without torch has it ------------------------------------


class Memory:
    """Device memory by the CUDA array interface."""

    def __init__(self, host: Any, stream: int | None = None) -> None:
        from pyptx.runtime.driver import call

        self.host, self.stream = host, stream
        self.address = int(call("cuMemAlloc", host.nbytes))
        call("cuMemcpyHtoD", self.address, host.ctypes.data, host.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = {"shape": self.host.shape, "typestr": self.host.dtype.str, "data": (self.address, False)}
        return {**described, "version": 3, "stream": self.stream}

    def read(self) -> Any:
        from pyptx.runtime.driver import call

        call("cuCtxSynchronize")
        call("cuMemcpyDtoH", self.host.ctypes.data, self.address, self.host.nbytes)
        return self.host

    def free(self) -> None:
        from pyptx.runtime.driver import call

        call("cuMemFree", self.address)


@pytest.fixture
def context() -> Iterator[None]:
    from pyptx.runtime.driver import device_context

    with device_context(0):
        yield


@pytest.mark.gpu
@pytest.mark.usefixtures("context")
def test_device_memory_by_the_cuda_array_interface() -> None:
    from pyptx.runtime.driver import call

    side = call("cuStreamCreate", 1)
    arrays = [Memory(numbers(start), stream) for start, stream in ((0, None), (5, int(side)), (9, 1))]
    x, y, z = arrays
    k = axpy()
    for number in range(3):
        assert k(x, y, 2.0, number, out=z) is z
        assert np.array_equal(z.read(), numbers(0) * 2 + numbers(5) + number)
    k(x, y, 1.0, 0, out=z, stream=int(side))
    assert np.array_equal(z.read(), numbers(0) + numbers(5))
    with pytest.raises(SpecError, match="z cannot be allocated"):
        k(x, y, 2.0, 0, N=N)
    with pytest.raises(SpecError, match="different devices"):
        k(x, numbers(), 2.0, 0, out=z)
    for array in arrays:
        array.free()
    call("cuStreamDestroy", side)


@pytest.mark.gpu
def test_the_launch_waits_for_the_stream_that_the_library_is_told() -> None:
    torch = pytest.importorskip("torch")

    class OnGpu(Array):
        def __dlpack_device__(self) -> tuple[int, int]:
            return self.data.__dlpack_device__()

        def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
            self.streams.append(stream)
            return self.data.__dlpack__(stream=stream)

    x, z = OnGpu(torch.arange(N, device="cuda", dtype=torch.float32)), torch.empty(N, device="cuda")
    k, side = axpy(), torch.cuda.Stream()
    k(x, z.zero_(), 1.0, 0, out=z)
    with torch.cuda.stream(side):
        x.data += 1  # the library has work on another stream than the launch
    k(x, x, 1.0, 0, out=z, stream=side)
    assert x.streams == [1, side.cuda_stream, side.cuda_stream]
    side.synchronize()
    assert torch.equal(z, 2 * x.data)
