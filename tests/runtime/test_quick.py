"""The compiled launch path, without a GPU: a driver and a DLPack exchange API of this file's own, made with ctypes."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError
from pyptx.core.types import TYPES
from pyptx.runtime.launch import scalar_bytes
from pyptx.runtime.quick import native

MISS = object()
CUDA, CPU = 2, 1
F32 = (2, 32, 1)
#: What the fake of ``CUlaunchConfig`` holds: grid, block, shared memory, stream, attributes, their number.
CONFIG = struct.Struct("<7I4xQQI4x")


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Tensor:
    """A tensor of the fake library."""

    def __init__(self, address: int, shape: tuple[int, ...] = (4, 8), **options: Any) -> None:
        steps = [1]
        for extent in shape[:0:-1]:
            steps.insert(0, steps[0] * extent)
        self.address = address
        self.dtype: tuple[int, int, int] = options.get("dtype", F32)
        self.device: tuple[int, int] = options.get("device", (CUDA, 0))
        self.requires_grad = options.get("requires_grad", False)
        self.negative = options.get("negative", False)
        self.inference = options.get("inference", False)
        self.readable = options.get("readable", True)
        self.offset: int = options.get("offset", 0)
        self.rank = len(shape)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*options.get("strides", steps))

    def is_neg(self) -> bool:
        return bool(self.negative)

    def is_inference(self) -> bool:
        return bool(self.inference)


class Parameter(Tensor):
    pass


class Subclass(Tensor):
    pass


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
def tensor_from_object(tensor: Any, found: Any) -> int:
    if not tensor.readable:
        return -1
    out = found.contents
    out.data, (out.device_type, out.device_id), out.ndim = tensor.address, tensor.device, tensor.rank
    out.code, out.bits, out.lanes = tensor.dtype
    out.shape, out.strides = ctypes.addressof(tensor.shape), ctypes.addressof(tensor.strides)
    out.byte_offset = tensor.offset
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def current_stream(type: int, device: int, found: Any) -> int:
    assert type == CUDA
    found[0] = 0x5000 + device
    return 0


class Api(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 3), ("tensor", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    ]  # fmt: skip


def _api(major: int = 1) -> tuple[Any, Api]:
    table = Api(major, 3)
    table.tensor = ctypes.cast(tensor_from_object, ctypes.c_void_p).value
    table.stream = ctypes.cast(current_stream, ctypes.c_void_p).value
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(table), NAME, None), table


NAME = ctypes.create_string_buffer(b"dlpack_exchange_api").raw.rstrip(b"\0")
CAPSULE, _TABLE = _api()


@dataclass
class Driver:
    """What was launched: stream, and 128 bytes of each parameter."""

    parameters: int
    status: int = 0
    #: Streams that are being captured, what the driver says of them, and those that it was asked for.
    capturing: tuple[int, ...] = ()
    unknown: int = 0
    asked: list[int] = field(default_factory=list)
    captured: bytearray = field(default_factory=lambda: bytearray(1))
    launched: list[tuple[int, list[bytes]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        @ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
        )
        def launch(config: Any, function: Any, pointers: Any, extra: Any) -> int:
            fields = CONFIG.unpack(ctypes.string_at(config, CONFIG.size))
            assert function == 0xF00 and extra is None and fields[:7] == (1, 2, 3, 4, 5, 6, 7)
            assert all(pointers[n] % 64 == 0 for n in range(self.parameters))
            if self.status == 0:
                memory = [ctypes.string_at(pointers[n], 128) for n in range(self.parameters)]
                self.launched.append((fields[7], memory))
            return self.status

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
        def is_capturing(stream: Any, found: Any) -> int:
            self.asked.append(stream)
            found[0] = int(stream in self.capturing)
            return self.unknown

        self._functions = (launch, is_capturing)
        self.address, self.is_capturing = (
            ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._functions
        )


@pytest.fixture
def quick() -> Any:
    module = native()
    if module is None:
        if os.environ.get("CI"):
            pytest.fail("CI must build pyptx.runtime._quick: it needs cc and Python.h")
        pytest.skip("pyptx.runtime._quick is not built here")
    return module


def entry(quick: Any, driver: Driver, parameters: tuple[Any, ...], device: int = 0) -> Any:
    config = CONFIG.pack(1, 2, 3, 4, 5, 6, 7, 0, 0, 0)
    return quick.Entry(
        driver.address, driver.is_capturing, 0xF00, config, device, parameters, driver.captured, None
    )


#: The tensors of each launch whose version was counted.
WRITES: list[tuple[Any, ...]] = []


class ForwardAd:
    """Stands for torch's module for tangents."""

    _current_level = -1


def tracing() -> Any:
    """The state of torch.jit.trace."""
    return STATE


STATE: Any = None


def table(quick: Any, arrays: str, grad_enabled: Any = lambda: True, modes: Any = int) -> Any:
    """``arrays`` has a letter for each argument: a for an array, n for a number."""
    specs = tuple((-1, -2) if letter == "a" else None for letter in arrays)
    return quick.Table(
        Tensor, Parameter, grad_enabled, ForwardAd, modes, tracing, WRITES.append, CAPSULE, specs, MISS
    )


def word(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "little")


def test_addresses_maps_and_streams(quick: Any) -> None:
    driver = Driver(3)
    image = bytes(range(128))
    kinds = ((quick.MAP, 64, 1, image), (quick.ADDRESS, 64, 0, None), (quick.ADDRESS, 64, 2, None))
    k = table(quick, "aaa")
    a, b, c = Tensor(0x1000), Tensor(0x2000), Tensor(0x3000)
    assert k.call((a, b), c, None) is MISS
    assert k.add((a, b), c, entry(quick, driver, kinds), (), None)
    other = Tensor(0x4000)
    assert k.call((a, other), c, None) is c
    assert k.call((b, a), [c], 7) is c
    stream = type("Stream", (), {"cuda_stream": 9})()
    assert k.call((b, a), (c,), stream) is c
    streams, memory = zip(*driver.launched, strict=True)
    assert streams == (0x5000, 7, 9)
    assert [[word(p) for p in each] for each in memory] == [
        [0x4000, 0x1000, 0x3000], [0x1000, 0x2000, 0x3000], [0x1000, 0x2000, 0x3000]
    ]  # fmt: skip
    assert all(each[0][8:] == image[8:] for each in memory)
    assert k.call((a, b), c, "main") is MISS and k.call((a, b), c, True) is MISS
    driver.status = 719
    assert k.call((a, b), c, None) is MISS
    assert len(driver.launched) == 3


def test_the_device_of_the_entry_gives_the_stream(quick: Any) -> None:
    driver, k, a = Driver(1), table(quick, "a"), Tensor(0x1000, device=(CUDA, 3))
    assert k.add((), a, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),), device=3), (), None)
    assert k.call((), a, None) is a and driver.launched[0][0] == 0x5003
    assert k.call((), Tensor(0x1000), None) is MISS


WRONG = {
    "dtype": Tensor(0x1000, dtype=(2, 16, 1)),
    "kind of dtype": Tensor(0x1000, dtype=(0, 32, 1)),
    "shape": Tensor(0x1000, (8, 4)),
    "rank": Tensor(0x1000, (32,)),
    "rank of one": Tensor(0x1000, (4, 8, 1)),
    "strides": Tensor(0x1000, strides=(16, 1)),
    "transposed": Tensor(0x1000, strides=(1, 4)),
    "device": Tensor(0x1000, device=(CUDA, 1)),
    "host": Tensor(0x1000, device=(CPU, 0)),
    "alignment": Tensor(0x1004),
    "no memory": Tensor(0),
    "gradient": Tensor(0x1000, requires_grad=True),
    "negated view": Tensor(0x1000, negative=True),
    "no plain tensor": Tensor(0x1000, readable=False),
    "byte offset": Tensor(0x1000, offset=64),
    "subclass": Subclass(0x1000),
    "number": 5,
    "none": None,
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("place", range(3))
def test_whatever_differs_is_left_to_the_checks(quick: Any, what: str, place: int) -> None:
    driver, k = Driver(1), table(quick, "aaa")
    right = [Tensor(0x1000), Tensor(0x2000), Tensor(0x3000)]
    assert k.add(tuple(right[:2]), right[2], entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)
    given = list(right)
    given[place] = WRONG[what]
    if what == "none" and place == 2:
        given = [*right[:2], [None]]  # an output that is None is one that the kernel allocates
    assert k.call(tuple(given[:2]), given[2], None) is MISS
    assert not driver.launched
    assert k.call(tuple(right[:2]), right[2], None) is right[2]


def test_numbers_of_arguments(quick: Any) -> None:
    driver, k, a = Driver(1), table(quick, "aaa"), Tensor(0x1000)
    assert k.add((a, a), a, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)
    for inputs, out in (
        ((a,), a),
        ((a, a), None),
        ((a, a, a), None),
        ((a, a, a), a),
        ((a, a), (a, a)),
        ((), []),
    ):
        assert k.call(inputs, out, None) is MISS
    # An input more and an output fewer have the same tensors, but are another call.
    assert k.call((a,), (a, a), None) is MISS
    assert k.call([a, a], a, None) is MISS
    assert not driver.launched


def test_gradients_count_where_autograd_is_on(quick: Any) -> None:
    enabled = [False]
    driver, k = Driver(1), table(quick, "a", lambda: enabled[0])
    a = Parameter(0x1000, requires_grad=True)
    assert k.add((a,), None, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)
    assert k.call((a,), None, None) is None
    enabled[0] = True
    assert k.call((a,), None, None) is MISS
    assert len(driver.launched) == 1


def test_a_launch_is_not_hidden_from_modes_and_tangents(quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = [0]
    driver, k, a = Driver(1), table(quick, "a", modes=lambda: modes[0]), Tensor(0x1000)
    assert k.add((a,), None, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)
    assert k.call((a,), None, None) is None
    modes[0] = 1
    assert k.call((a,), None, None) is MISS
    modes[0] = 0
    with monkeypatch.context() as patch:
        patch.setattr("tests.runtime.test_quick.STATE", object())
        assert k.call((), a, None) is MISS
    monkeypatch.setattr(ForwardAd, "_current_level", 0)
    assert k.call((a,), None, None) is MISS
    monkeypatch.delattr(ForwardAd, "_current_level")
    assert k.call((a,), None, None) is MISS
    assert len(driver.launched) == 1


def test_writes_are_counted(quick: Any) -> None:
    driver, k, a, b = Driver(1), table(quick, "aan"), Tensor(0x1000), Tensor(0x2000)
    made = entry(quick, driver, ((quick.ADDRESS, 64, 0, None),))
    hidden = Tensor(0x3000, inference=True)
    assert k.add((a,), b, made, (), None) and k.add((a, b, 1), None, made, (), None)
    assert k.add((a,), None, made, (lambda given: Tensor(0x9000),), None)
    WRITES.clear()
    k.call((a,), b, None)
    k.call((a,), [hidden], None)
    k.call((a, hidden, 1), None, None)
    k.call((a,), None, None)  # what the call has allocated nobody has seen
    driver.status = 1
    assert k.call((a,), b, None) is MISS
    assert [(b,), (a,)] == WRITES
    fixed = quick.Fixed(made, CAPSULE, (0x1000,), WRITES.append, (a, b))
    assert not fixed.start(None)
    driver.status = 0
    assert fixed.start(None) and WRITES[2:] == [(a, b)]


def test_a_stream_of_another_gpu(quick: Any) -> None:
    driver, k, a = Driver(1), table(quick, "a"), Tensor(0x1000)
    assert k.add((a,), None, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)

    def stream(index: Any) -> Any:
        return SimpleNamespace(cuda_stream=9, device=SimpleNamespace(index=index))

    assert k.call((a,), None, stream(1)) is MISS
    assert k.call((a,), None, stream(0)) is None and k.call((a,), None, stream(None)) is None
    assert k.call((a,), None, SimpleNamespace(cuda_stream=9)) is None


def test_an_interrupt_in_a_function_of_the_author(quick: Any) -> None:
    def sizes(extents: tuple[int, ...]) -> Any:
        raise KeyboardInterrupt

    k = table(quick, "a")
    made = entry(quick, Driver(1), ((quick.ADDRESS, 64, 0, None),))
    assert k.add((Tensor(0x1000),), None, made, (), sizes)
    with pytest.raises(KeyboardInterrupt):
        k.call((Tensor(0x1000, (5, 8)),), None, None)


def test_a_list_of_outputs_may_change_meanwhile(quick: Any) -> None:
    outs = [Tensor(0x1000, requires_grad=True)]

    def clears() -> bool:
        outs.clear()
        return False

    driver, k = Driver(1), table(quick, "a", clears)
    kept = outs[0]
    assert k.add((), (kept,), entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)
    address = kept.address
    outs[:] = [kept]
    del kept
    assert k.call((), outs, None).address == address


def test_outputs_that_the_call_allocates(quick: Any) -> None:
    driver, k = Driver(3), table(quick, "aaa")
    kinds = tuple((quick.ADDRESS, 64, place, None) for place in range(3))
    makers = (lambda given: Tensor(given[0].address + 0x100), lambda given: Tensor(0x9000))
    assert k.add((Tensor(0x1000),), None, entry(quick, driver, kinds), makers, None)
    first, second = k.call((Tensor(0x2000),), None, None)
    assert (first.address, second.address) == (0x2100, 0x9000)
    assert [word(p) for p in driver.launched[0][1]] == [0x2000, 0x2100, 0x9000]
    only = table(quick, "aa")
    assert only.add((Tensor(0x1000),), None, entry(quick, driver, kinds[:2] + kinds[:1]), makers[:1], None)
    assert only.call((Tensor(0x2000),), None, None).address == 0x2100

    def fails(given: Any) -> Any:
        raise MemoryError("no memory on the device")

    assert k.add((Tensor(0x1000, (2, 2)),), None, entry(quick, driver, kinds), (fails, fails), None)
    with pytest.raises(MemoryError, match="no memory on the device"):
        k.call((Tensor(0x1000, (2, 2)),), None, None)


def test_many_signatures(quick: Any) -> None:
    """The table keeps the newest 64; an evicted signature misses, and never finds another's entry."""
    drivers, k = [Driver(1) for _ in range(100)], table(quick, "a")
    for n, driver in enumerate(drivers):
        assert k.add(
            (Tensor(0x1000, (n + 1,)),), None, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None
        )
    for n in (99, 36, 70, 36, 99, 50):
        assert k.call((Tensor(0x1000, (n + 1,)),), None, None) is None
    assert [len(d.launched) for d in drivers] == [{99: 2, 36: 2, 70: 1, 50: 1}.get(n, 0) for n in range(100)]
    assert all(k.call((Tensor(0x1000, (n + 1,)),), None, None) is MISS for n in range(36))


def test_sizes_never_seen(quick: Any) -> None:
    """The dims go to the function that makes launches; what it returns is kept for these sizes."""
    driver, asked = Driver(3), []
    image = bytes(range(128))
    kinds = (
        (quick.MAP, 64, 0, image),
        (quick.CONSTANT, 64, 0, (4).to_bytes(8, "little")),
        (quick.ADDRESS, 64, 1, None),
    )
    made = entry(quick, driver, kinds)
    makers = (lambda given: Tensor(0x9000),)

    def sizes(extents: tuple[int, ...]) -> Any:
        asked.append(extents)
        m = extents[0]
        if m == 13:
            raise ZeroDivisionError
        if m == 14:
            return None
        changed = ((0, bytes([m]) * 128), (1, m.to_bytes(8, "little")))
        return made.resized((1, 2, 3), changed), makers

    k = quick.Table(
        Tensor,
        Parameter,
        bool,
        ForwardAd,
        int,
        tracing,
        WRITES.append,
        CAPSULE,
        ((-1, 8), (-2, -1), None),
        MISS,
    )
    numbers = table(quick, "an")
    assert k.add((Tensor(0x1000, (4, 8)), Tensor(0x2000, (5, 4))), None, made, makers, sizes)
    assert k.add((Tensor(0x1000, (4, 8)),), None, made, makers, sizes)
    for _ in range(2):
        for m, n in ((7, 9), (7, 8), (4, 5), (8, 9)):
            found = k.call((Tensor(0x1000, (m, 8)), Tensor(0x2000, (n, m))), None, None)
            assert found.address == 0x9000
    assert asked == [(7, 9), (7, 8), (8, 9)]
    first, constant, second = driver.launched[0][1]
    assert (word(first), first[8:], word(constant), word(second)) == (0x1000, bytes([7]) * 120, 7, 0x2000)
    first, constant, second = driver.launched[2][1]
    assert (first[8:], word(constant)) == (image[8:], 4)
    asked.clear()
    for m, wide, n, also in ((7, 9, 9, 7), (7, 8, 9, 8), (7, 8, 0, 7)):  # shapes that fit no spec
        assert k.call((Tensor(0x1000, (m, wide)), Tensor(0x2000, (n, also))), None, None) is MISS
    assert k.call((Tensor(0x1000, (7, 8, 1)), Tensor(0x2000, (9, 7))), None, None) is MISS
    assert k.call((Tensor(0x1000, (7, 8)),), None, None) is MISS  # the second dim is not determined
    assert not asked
    for m in (13, 14, 13):
        assert k.call((Tensor(0x1000, (m, 8)), Tensor(0x2000, (5, m))), None, None) is MISS
    assert k.call((Tensor(0x1000, (7, 8), dtype=(2, 16, 1)), Tensor(0x2000, (5, 7))), None, None) is MISS
    assert [m for m, _ in asked] == [13, 14, 13]
    assert numbers.call((Tensor(0x1000), 5), None, None) is MISS


def test_what_a_resized_launch_refuses(quick: Any) -> None:
    made = entry(quick, Driver(1), ((quick.ADDRESS, 64, 0, None),))
    for changed in (((1, b""),), ((-1, b""),), ((0, bytes(129)),)):
        with pytest.raises(ValueError, match="no such parameter, or its image is too long"):
            made.resized((1, 1, 1), changed)


KINDS = {"u8": "UNSIGNED", "u32": "UNSIGNED", "u64": "UNSIGNED", "s16": "SIGNED", "s32": "SIGNED", "s64": "SIGNED", "f32": "SINGLE", "f64": "DOUBLE"}  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.sampled_from([0, -1, 255, 256, 1 << 31, (1 << 32) - 1, 1 << 63, -(1 << 63)]),
    st.floats(), st.sampled_from([1e39, 3.5e38, -1e39, 1e-46, float("inf")]),
)  # fmt: skip


@given(st.sampled_from(list(KINDS)), NUMBERS)
def test_numbers_are_encoded_as_by_python_or_missed(name: str, value: Any) -> None:
    module = native()
    if module is None:
        return
    kind, driver = TYPES[name], Driver(1)
    k = table(module, "n")
    assert k.add(
        (0,), None, entry(module, driver, ((getattr(module, KINDS[name]), kind.bits, 0, None),)), (), None
    )
    done = k.call((value,), None, None)
    try:
        expected = scalar_bytes(value, kind, "a number")
    except SpecError:
        assert done is MISS and not driver.launched
        return
    if done is MISS:  # Python takes some numbers of other classes: whole numbers for floats
        assert isinstance(value, int) and name.startswith("f")
        return
    assert driver.launched[0][1][0][: kind.nbytes] == expected


def test_fixed(quick: Any) -> None:
    driver = Driver(2)
    kinds = ((quick.ADDRESS, 64, 1, None), (quick.SIGNED, 32, 0, None))
    fixed = quick.Fixed(entry(quick, driver, kinds, device=2), CAPSULE, (-5, 0x1230), WRITES.append, ())
    assert fixed.start(None) and fixed.start(11)
    assert not fixed.start("main")
    assert [stream for stream, _ in driver.launched] == [0x5002, 11]
    assert [(word(a), word(n) & 0xFFFF_FFFF) for _, (a, n) in driver.launched] == [
        (0x1230, (1 << 32) - 5)
    ] * 2
    driver.status = 1
    assert not fixed.start(None)
    for values in ((1 << 31, 0x1230), (1.0, 0x1230), (5,), ()):
        with pytest.raises(ValueError, match="a value is missing, is of another type, or does not fit"):
            quick.Fixed(entry(quick, driver, kinds), CAPSULE, values, WRITES.append, ())


def test_the_last_launches_are_known(quick: Any) -> None:
    """The newest first, those of Python among them; a launch that the driver refuses is none."""
    driver = Driver(1)
    k = table(quick, "a")
    assert k.add((Tensor(0x1000),), None, entry(quick, driver, ((quick.ADDRESS, 64, 0, None),)), (), None)
    for function in range(1, 40):
        quick.note_launch(function)
    k.call((Tensor(0x2000),), None, 7)
    quick.note_launch((1 << 64) - 2)
    driver.status = 1
    assert k.call((Tensor(0x2000),), None, 7) is MISS
    assert quick.recent_launches() == ((1 << 64) - 2, 0xF00, *range(39, 9, -1))
    for wrong in (-1, 1 << 64, "1"):
        with pytest.raises((OverflowError, TypeError)):
            quick.note_launch(wrong)


def test_other_versions_are_refused(quick: Any) -> None:
    capsule, kept = _api(major=2)
    with pytest.raises(ValueError, match="another DLPack exchange API than version 1"):
        quick.Table(Tensor, Parameter, bool, ForwardAd, int, tracing, WRITES.append, capsule, ((-1,),), MISS)
    assert kept.major == 2
    with pytest.raises(ValueError, match="another CUlaunchConfig"):
        quick.Entry(1, 2, 3, b"\0" * 48, 0, (), bytearray(1), None)
    with pytest.raises(ValueError, match="or no byte"):
        quick.Entry(1, 2, 3, b"\0" * 56, 0, (), bytearray(), None)
    with pytest.raises(ValueError, match="too many parameters"):
        quick.Entry(1, 2, 3, b"\0" * 56, 0, ((quick.ADDRESS, 64, 0, None),) * 65, bytearray(1), None)


def test_captured_launches_are_noted(quick: Any) -> None:
    """The default stream is not asked for: it cannot be captured."""
    driver, k, a = Driver(1, capturing=(9,)), table(quick, "a"), Tensor(0x1000)
    kinds = ((quick.ADDRESS, 64, 0, None),)
    assert k.add((), a, entry(quick, driver, kinds), (), None)
    for stream, captured in ((0, 0), (7, 0), (9, 1), (7, 1)):
        assert k.call((), a, stream) is a and driver.captured[0] == captured
    assert driver.asked == [7, 9, 7]
    unknown = Driver(1, unknown=400)
    resized = entry(quick, unknown, kinds).resized((1, 2, 3), ())
    assert quick.Fixed(resized, CAPSULE, (0x1000,), WRITES.append, ()).start(7) and unknown.captured[0] == 1
    refused = Driver(1, status=400, capturing=(9,))
    assert not quick.Fixed(entry(quick, refused, kinds), CAPSULE, (0x1000,), WRITES.append, ()).start(9)
    assert not refused.asked


def test_no_reference_is_kept_or_lost(quick: Any) -> None:
    driver = Driver(3)
    kinds = (*((quick.ADDRESS, 64, place, None) for place in range(2)), (quick.SINGLE, 32, 2, None))
    k = table(quick, "aana")
    a, b, out, number = Tensor(0x1000), Tensor(0x2000), Tensor(0x3000), 1.5
    maker = lambda given: Tensor(0x4000)  # noqa: E731
    made, makers = entry(quick, driver, kinds), (maker,)
    assert k.add((a, b, number), out, made, (), None) and k.add((a, b, number), None, made, makers, None)
    fixed = quick.Fixed(made, CAPSULE, (0x1000, 0x2000, 1.5), WRITES.append, ())

    def calls() -> None:
        given = (a, b, number)
        assert k.call(given, out, None) is out and k.call(given, [out], 3) is out
        assert k.call(given, None, None).address == 0x4000
        assert k.call((b, a, 1 << 40), out, None) is MISS and k.call((a, None, number), out, None) is MISS
        assert k.call(given, out, "main") is MISS and fixed.start(None) and not fixed.start(object())
        driver.status = 1
        assert k.call(given, out, None) is MISS and k.call(given, None, None) is MISS
        driver.status = 0
        assert quick.Fixed(made, CAPSULE, (0x1000, 0x2000, 1.5), WRITES.append, ()).start(7)
        driver.launched.clear()
        WRITES.clear()

    calls()
    kept = (MISS, a, b, out, maker, makers, made, CAPSULE, Tensor, Parameter, None, True)
    before = [sys.getrefcount(each) for each in kept]
    for _ in range(200):
        calls()
    after = [sys.getrefcount(each) for each in kept]
    assert all(abs(now - then) < 20 for now, then in zip(after, before, strict=True)), (before, after)
    for n in range(200):  # signatures that are replaced let go of what they held
        k.add((a, b, number), Tensor(0x1000, (n + 1,)), made, (), None)
    assert sys.getrefcount(made) < before[6] + 70
    k = fixed = None
    gc.collect()
    assert sys.getrefcount(made) <= before[6] and sys.getrefcount(maker) <= before[4]
