"""Foreign arrays are described and viewed without a copy, and everything else is refused by name."""

from __future__ import annotations

import gc
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core import arrays
from pyptx.core.errors import SpecError
from pyptx.core.types import TYPES

torch = pytest.importorskip("torch")

NUMPY_TYPES = {
    "u8": np.uint8,
    "s8": np.int8,
    "u16": np.uint16,
    "s16": np.int16,
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "pred": np.bool_,
}


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_numpy_arrays_of_every_type(name: str) -> None:
    array = np.zeros((3, 5), NUMPY_TYPES[name])
    info = arrays.describe(array)
    assert info.type is TYPES[name]
    assert (info.shape, info.strides) == ((3, 5), array.strides)
    assert info.pointer == array.ctypes.data
    assert (info.device, info.device_index) == ("cpu", 0)
    assert info.nbytes == info.extent == array.nbytes
    assert info.itemsize == array.itemsize
    assert info.contiguous and info.obj is array


@pytest.mark.parametrize("name", [n for n, t in TYPES.items() if t.torch_name])
def test_cpu_tensors_of_every_type(name: str) -> None:
    tensor = torch.zeros((4, 6), dtype=getattr(torch, TYPES[name].torch_name))
    info = arrays.describe(tensor)
    assert info.type is TYPES[name]
    assert info.shape == (4, 6)
    assert info.strides == (6 * tensor.element_size(), tensor.element_size())
    assert info.pointer == tensor.data_ptr()
    assert (info.device, info.device_index, info.contiguous) == ("cpu", 0, True)
    assert arrays.to_numpy(tensor).dtype == TYPES[name].dtype


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4).flatmap(
        lambda shape: st.tuples(
            st.just(tuple(shape)),
            st.permutations(range(len(shape))),
            st.lists(st.integers(1, 3), min_size=len(shape), max_size=len(shape)),
        )
    )
)
def test_contiguity_and_extent_are_numpys(case: tuple[tuple[int, ...], list[int], list[int]]) -> None:
    shape, order, steps = case
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape).transpose(order)
    array = array[tuple(slice(None, None, s) for s in steps)]
    info = arrays.describe(array)
    assert info.contiguous == array.flags.c_contiguous
    last = sum(s * (n - 1) for n, s in zip(array.shape, array.strides, strict=True))
    assert info.extent == (last + 4 if array.size else 0)
    assert arrays.host_bytes(array).size == info.extent


def test_host_bytes_of_a_view_starts_at_its_first_element_and_spans_the_gaps() -> None:
    base = np.arange(40, dtype=np.uint16).reshape(5, 8)
    view = base[1:4:2, 2:7:2]
    raw = arrays.host_bytes(view)
    assert raw.size == 2 * (2 * 8 + 2 * 2) + 2
    assert raw.view(np.uint16)[0] == base[1, 2]
    raw[:2] = 0xFF
    assert base[1, 2] == 0xFFFF


def test_host_bytes_writes_reach_a_tensor_and_keep_it_alive() -> None:
    tensor = torch.zeros(8, dtype=torch.bfloat16)
    raw = arrays.host_bytes(tensor)
    raw.view(ml_dtypes.bfloat16)[3] = 2.5
    assert float(tensor[3]) == 2.5
    del tensor
    gc.collect()
    junk = [torch.ones(8, dtype=torch.bfloat16) for _ in range(64)]
    assert raw.view(ml_dtypes.bfloat16)[3] == 2.5
    del junk


def test_to_numpy_shares_memory() -> None:
    array = np.zeros(3)
    assert arrays.to_numpy(array) is array
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).t()
    twin = arrays.to_numpy(tensor)
    assert twin.shape == (4, 3)
    assert (twin.astype(np.float32) == tensor.float().numpy()).all()
    twin[1, 2] = -7
    assert float(tensor[1, 2]) == -7


def test_empty_arrays() -> None:
    for empty in (np.zeros((0, 4), np.float32), torch.zeros((4, 0))):
        assert arrays.describe(empty).extent == 0
        assert arrays.host_bytes(empty).size == 0
        assert arrays.to_numpy(empty).shape == tuple(empty.shape)


def test_is_array() -> None:
    assert arrays.is_array(np.zeros(1)) and arrays.is_array(torch.zeros(1))
    assert not any(map(arrays.is_array, (1, [1, 2], np.float32(1), None, "x", b"x")))


def test_dtypes_by_any_name() -> None:
    bf16 = TYPES["bf16"]
    names = (bf16, "bf16", ".bf16", "bfloat16", ml_dtypes.bfloat16, torch.bfloat16)
    assert all(arrays.dtype_of(n) is bf16 for n in names)
    assert arrays.dtype_of("tf32") is TYPES["tf32"]
    for wrong in ("float7", None, np.complex64, object(), ">f4", torch.complex64):
        with pytest.raises(SpecError, match="no PTX type corresponds"):
            arrays.dtype_of(wrong)


@pytest.mark.parametrize("wrong", [7, [1, 2], None, "text", np.float32(1.0)])
def test_what_is_no_array_is_refused_by_its_type(wrong: object) -> None:
    with pytest.raises(SpecError, match=type(wrong).__qualname__):
        arrays.describe(wrong)


def test_refusals() -> None:
    with pytest.raises(SpecError, match="complex256"):
        arrays.describe(np.zeros(2, np.complex256))
    with pytest.raises(SpecError, match="conjugated"):
        arrays.describe(torch.zeros(2, dtype=torch.complex64).conj())
    with pytest.raises(SpecError, match="on meta"):
        arrays.describe(torch.zeros(2, device="meta"))
    with pytest.raises(SpecError, match="sparse"):
        arrays.describe(torch.eye(3).to_sparse())
    with pytest.raises(SpecError, match="negated"):
        arrays.describe(torch.imag(torch.zeros(2, dtype=torch.complex64).conj()))
    with pytest.raises(SpecError, match=r"\(-4,\)"):
        arrays.host_bytes(np.zeros(4, np.float32)[::-1])
    with pytest.raises(SpecError, match="read-only"):
        arrays.host_bytes(np.broadcast_to(np.float32(1), (4,)))


@pytest.mark.parametrize("name, nbytes", [("complex64", 8), ("complex128", 16)])
def test_complex_numbers_are_elements_without_a_type(name: str, nbytes: int) -> None:
    array = np.full((3, 2), 1 + 2j, name)
    tensor = torch.full((3, 2), 1 + 2j, dtype=getattr(torch, name))
    for one in (array, tensor):
        info = arrays.describe(one)
        assert (info.type.name, info.itemsize, info.nbytes) == (f"b{8 * nbytes}", nbytes, 6 * nbytes)
        assert info.contiguous and info.extent == len(arrays.host_bytes(one)) == 6 * nbytes
        seen = arrays.to_numpy(one)
        assert seen.dtype == np.dtype(name) and (seen == 1 + 2j).all()


def test_device_memory_is_not_viewed() -> None:
    info = arrays.describe(np.zeros(4))
    on_gpu = arrays.ArrayInfo(info.type, (4,), (8,), 0x7F00, "cuda", 1, 32, True, None)
    with pytest.raises(SpecError, match="cuda:1"):
        arrays.host_bytes(on_gpu)


def test_torch_and_cuda_stay_unimported() -> None:
    code = (
        "import sys, numpy; from pyptx.core import arrays; import pyptx.layout;"
        "from pyptx.runtime import driver, launch, loader, tensor_maps;"
        "arrays.describe(numpy.zeros(3));"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('torch', 'cuda')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
