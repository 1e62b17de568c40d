"""The handler of XLA's custom call, with call frames as XLA makes them (xla/ffi/api/c_api.h): no JAX is needed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from pyptx.core.types import f32
from pyptx.entry import jax_call
from tests.entry.test_foreign import numbers
from tests.entry.torch_kernels import axpy

N = 64
STREAM = 0x77

pointer, size_t = ctypes.c_void_p, ctypes.c_size_t
handler = ctypes.CFUNCTYPE(pointer, pointer)


def words(*values: Any) -> Any:
    """Memory of 8-byte words: numbers, and addresses of other memory."""
    given = [
        value if isinstance(value, int) else 0 if value is None else ctypes.addressof(value)
        for value in values
    ]
    memory = (ctypes.c_uint64 * len(given))(*given)
    memory.kept = values
    return memory


class Xla:
    """The side that calls the handler."""

    def __init__(
        self, name: str, inputs: list[Any], outputs: list[Any], stage: int = 3, extension: Any = None
    ) -> None:
        self.errors: list[tuple[str, int]] = []
        self.stream_get = handler(self._stream)
        self.error_create = handler(self._error)
        functions = [ctypes.cast(each, pointer).value or 0 for each in (self.error_create, self.stream_get)]
        version = [24, 0, (7 << 32) | 0]  # struct_size, extension, minor 7 and major 0
        api = words(200, 0, *version, 0, functions[0], 0, 0, 0, functions[1])
        self.text = ctypes.create_string_buffer(name.encode())
        span = words(self.text, len(name))
        arguments, results = self._buffers(inputs), self._buffers(outputs)
        one = words(span)
        kinds = (ctypes.c_int * 8)(1, 1, 1, 1, 1, 1, 1, 1)
        self.frame = words(
            *(200, extension, api, 0x99, stage),
            *(40, 0, len(inputs), kinds, arguments),
            *(40, 0, len(outputs), kinds, results),
            *(48, 0, 1, kinds, words(span), one),
        )

    def _buffers(self, arrays: list[Any]) -> Any:
        described = []
        for array in arrays:
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            described.append(words(48, 0, 11, array.ctypes.data, array.ndim, shape))
        return words(*described)

    def _stream(self, address: int) -> None:
        asked = (ctypes.c_uint64 * 4).from_address(address)
        assert asked[0] == 32 and asked[2] == 0x99
        asked[3] = STREAM

    def _error(self, address: int) -> int:
        asked = (ctypes.c_uint64 * 4).from_address(address)
        self.errors.append((ctypes.string_at(asked[2]).decode(), asked[3] & 0xFFFFFFFF))
        return 0x5EED

    def call(self, on_gpu: bool = False) -> int | None:
        return jax_call._answer(ctypes.addressof(self.frame), on_gpu)


def name_of(kernel: Any, **keywords: Any) -> str:
    return jax_call._name(jax_call._Call(kernel, {2: 2.0, 3: 3}, keywords, (f32, f32, f32)))


def test_a_call_runs_the_kernel_with_xlas_buffers() -> None:
    x, y, z = numbers(0), numbers(5), numbers(9)
    xla = Xla(name_of(axpy(), TWICE=True), [x, y], [z])
    assert xla.call() is None and not xla.errors
    assert np.array_equal(z, (x * 2 + y + 3) * 2)


def test_on_a_gpu_the_stream_is_xlas(monkeypatch: pytest.MonkeyPatch) -> None:
    k, seen = axpy(), []
    monkeypatch.setattr(k, "run", lambda *arguments: seen.append(arguments))
    monkeypatch.setattr(jax_call, "call", lambda function, attribute, address: 3)
    monkeypatch.setattr(jax_call, "driver", lambda: _Attributes)
    x, y, z = numbers(0), numbers(5), numbers(9)
    xla = Xla(name_of(k, N=N), [x, y], [z])
    assert xla.call(on_gpu=True) is None and not xla.errors
    ((inputs, outputs, stream, keywords),) = seen
    assert stream == STREAM and keywords == {"N": N} and inputs[2:] == [2.0, 3]
    found = [*inputs[:2], *outputs]
    assert [each.pointer for each in found] == [each.ctypes.data for each in (x, y, z)]
    assert {(each.device, each.device_index, each.shape, each.contiguous) for each in found} == {
        ("cuda", 3, (N,), True)
    }


class _Attributes:
    class CUpointer_attribute:
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9


def test_an_error_goes_back_to_xla() -> None:
    x = numbers(0)
    xla = Xla("axpy_unknown", [x, x], [x])
    assert xla.call() == 0x5EED
    ((message, code),) = xla.errors
    assert "no kernel call axpy_unknown" in message and code == 13
    xla = Xla(name_of(axpy(), N=N), [x, x[:8]], [x])
    assert xla.call() == 0x5EED
    assert "K is 64 by dimension 0 of x and 8 by dimension 0 of y" in xla.errors[0][0]


def test_other_stages_and_the_version() -> None:
    x, z = numbers(0), numbers(9)
    name = name_of(axpy(), N=N)
    assert Xla(name, [x, x], [z], stage=2).call() is None
    assert np.array_equal(z, numbers(9))
    metadata = (ctypes.c_uint64 * 6)(48, 24, 0, 0, 0xFFFF, 0)
    extension = words(32, 1, 0, metadata)
    assert Xla(name, [x, x], [z], extension=extension).call() is None
    # The version of XLA itself: the layout that is read here only grows.
    assert list(metadata)[1:5] == [24, 0, 7 << 32, 0xFFFF & 0xFFFFFFFF00000000]


def test_the_name_is_kept_for_a_call_and_another_for_another() -> None:
    k = axpy()
    names = {
        name_of(k, N=N),
        name_of(k, N=2 * N),
        name_of(k, TWICE=True),
        name_of(k, TWICE=1),
        name_of(axpy(), N=N),
    }
    assert len(names) == 5 and name_of(k, N=N) in names
