"""Extents that a kernel reads when it runs, and launches for sizes that were never seen."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from pyptx.core.errors import OperandError, SpecError
from pyptx.core.types import f32, u32
from pyptx.dsl import Reg, Scalar, Tile, TileParam, ptx
from pyptx.entry import Kernel, kernel
from pyptx.entry.sizes import Sizes, Template
from pyptx.entry.specialize import Evaluator
from pyptx.layout import TensorMap
from pyptx.runtime import tensor_maps
from pyptx.runtime.tensor_maps import MapTemplate

BLOCK = 32


def scaled(**options: Any) -> Kernel:
    """y = x * (M + 10 * N) for M rows of 32 numbers; a CTA for 4 rows, of which the last are guarded."""

    @kernel(
        in_specs=(Tile("M", BLOCK, f32), Tile("N", f32)),
        out_specs=(Tile("M", BLOCK, f32),),
        grid=lambda M: -(-M // 4),
        block=(BLOCK, 4),
        arch="sm_90a",
        **options,
    )
    def scaled(x: TileParam, other: TileParam, y: TileParam) -> None:
        row = ptx.special.ctaid.x() * 4 + ptx.special.tid.y()
        column = ptx.special.tid.x()
        rows = x.extent(0)
        assert y.extent(-2).operand == rows.operand and x.extent(1) == BLOCK
        with ptx.if_(row < rows):
            value = ptx.load(f32, x.at(row, column))
            factor = ptx.cvt(rows + 10 * other.extent(0), f32, rounding="rn")
            ptx.store(y.at(row, column), value * factor)

    return scaled


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_one_recording_serves_every_extent(rows: int) -> None:
    k = scaled()
    for n in (1, 5):
        x = np.arange(rows * BLOCK, dtype=np.float32).reshape(rows, BLOCK)
        y = k(x, np.zeros(n, np.float32))
        np.testing.assert_array_equal(y, x * (rows + 10 * n))
    assert len(k._specializations.recorded()) == 1 and len(k._specializations) == 2


def test_the_text_has_a_parameter_for_each_extent_that_is_used() -> None:
    k = scaled()
    text = k.ptx(M=4, N=1)
    assert text == k.ptx(M=400, N=3)
    assert text.count(".param .u32 M") == 1 and text.count(".param .u32 N") == 1
    assert k.assemble(M=4, N=1).registers > 0

    @kernel(in_specs=(Tile("M", f32),), arch="sm_90a")
    def unused(x: TileParam) -> None:
        x.extent(0)

    assert ".u32" not in unused.ptx(M=4)


def test_names_that_are_taken() -> None:
    @kernel(in_specs=(Tile("M", f32), Scalar(u32)), out_specs=(Tile(1, u32),), arch="sm_90a", name="N")
    def entry(x: TileParam, M: Reg, out: TileParam) -> None:
        ptx.store(out.at(0), M + x.extent(0))

    assert entry(np.zeros(7, np.float32), 100)[0] == 107
    assert entry.assemble(M=7)


@pytest.mark.parametrize("axis", [2, -3, 0.5, "M"])
def test_there_is_no_such_axis(axis: Any) -> None:
    @kernel(in_specs=(Tile("M", 4, f32),))
    def bad(x: TileParam) -> None:
        x.extent(axis)

    with pytest.raises(OperandError, match="which has 2 dims: expected -2..1"):
        bad.ptx(M=4)


def test_extents_beyond_32_bits_are_refused() -> None:
    with pytest.raises(SpecError, match="M is 4294967296, but the kernel reads it as a u32 register"):
        scaled().ptx(M=1 << 32, N=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (7, 7),
        ((2, 3), (2, 3)),
        (lambda M: M, 4),
        (lambda M, K=1: M + K, 7),
        (lambda M, other=5: other, 5),
        (lambda N, /, *, M: (N, M), None),
        (lambda dims: dims["M"], 4),
        (lambda **dims: dims["K"], 3),
        (lambda: 9, 9),
    ],
)
def test_options_that_are_functions(option: Any, value: Any) -> None:
    values = {"M": 4, "K": 3}
    if value is None:
        with pytest.raises(
            SpecError, match="grid is a function of 'N', which is neither a dim nor a constant"
        ):
            Evaluator("grid", option, values)
    else:
        assert Evaluator("grid", option, values)(values) == value


def _encoded(shape: tuple[int, ...], box: tuple[int, ...], dtype: str) -> bytes:
    return TensorMap.tiled(0x1000, dtype=dtype, shape=shape, box=box).encode(0x1000)


@pytest.mark.parametrize(
    ("dtype", "box"),
    [("f32", (8,)), ("bf16", (64, 8)), ("u8", (2, 3, 16)), ("f64", (1, 2, 1, 4)), ("f32", (1, 1, 2, 1, 8))],
)
def test_other_extents_in_a_tensor_map(dtype: str, box: tuple[int, ...]) -> None:
    """The bytes are those of the encoding that was read off the driver (tests/layout/driver_maps.json)."""
    rank = len(box)
    seen = _encoded((16,) * rank, box, dtype)
    nbytes = {"f32": 4, "bf16": 2, "u8": 1, "f64": 8}[dtype]
    made = MapTemplate(seen, nbytes)
    for seed in range(20):
        random = np.random.default_rng(seed)
        shape = (*map(int, random.integers(2, 40, rank - 1)), int(random.integers(1, 9)) * 16)
        assert made(shape) == _encoded(shape, box, dtype)
        names = dict(zip("ABCDE", shape, strict=False))
        for some_named in (tuple(names), ("A", *shape[1:]), (shape[0], *tuple(names)[1:]), shape):
            assert made.of_dims(some_named)(names) == _encoded(shape, box, dtype)
    if rank > 1:
        assert made.of_dims(("A",) + (4,) * (rank - 2) + (3,))({"A": 4}) is None
        assert made((4,) * (rank - 1) + (3,)) is None  # rows that are no multiple of 16 bytes
    assert made((1,) + (16,) * (rank - 1)) is None and made((1 << 33,) + (16,) * (rank - 1)) is None
    outermost = made.of_dims(("A",) + (16,) * (rank - 1))
    assert outermost({"A": 1}) is None and outermost({"A": 1 << 33}) is None
    if rank > 2:
        assert made((2, 1 << 20, 1 << 20, 16)[:rank] + (16,) * (rank - 4)) is None or rank == 3


@pytest.mark.parametrize(
    "options",
    [{}, {"l2_promotion": "256B"}, {"oob_fill": "nan"}, {"element_strides": (1, 2)}, {"swizzle": "64B"}],
)
def test_a_template_keeps_the_options_of_its_map(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that encodes as the one that was read is known, whatever else the map asks for."""

    class Encoded:
        def __init__(self, tensor_map: TensorMap, pointer: int, device_index: int) -> None:
            self.image = ctypes.create_string_buffer(tensor_map.encode(pointer), 128)

        def getPtr(self) -> int:
            return ctypes.addressof(self.image)

    monkeypatch.setattr(tensor_maps, "encode", Encoded)
    made, wanted = (
        TensorMap.tiled(0x1000, dtype="bf16", shape=shape, box=(8, 32), **options)
        for shape in ((1, 64), (7, 160))
    )
    known = tensor_maps.template(made, 0x1000)
    assert known is not None and known.image == made.encode(0x1000)
    assert known((7, 160)) == wanted.encode(0x1000)


def test_what_a_kernel_keeps_is_bounded() -> None:
    @kernel(in_specs=(Tile("M", f32),), out_specs=(Tile(1, u32),), arch="sm_90a")
    def reads(x: TileParam, y: TileParam, *, READ: bool, more: int = 0) -> None:
        ptx.store(y.at(0), ptx.special.tid.x() + (x.shape[0] if READ else 0))

    kept = reads._specializations
    for m in range(1, 1100):
        reads.specialize(M=m, READ=False)
    assert len(kept.recorded()) == 1 and len(kept) == 1024
    first = reads.specialize(M=1, READ=True)
    for m in range(2, 300):
        reads.specialize(M=m, READ=True)
    assert len(kept.recorded()) == 256 and len(kept) < 1024 + 256
    again = reads.specialize(M=1, READ=True)
    assert again is not first and again.printed.text == first.printed.text
    for more in range(300):
        reads.specialize(M=5, READ=True, more=more)
    assert len(kept.recorded()) == 256 == len(kept) and len(kept._recordings) == 256


class FakePlan:
    """What :class:`Sizes` asks of a plan."""

    def __init__(self, launch: Any) -> None:
        self.launch, self.parameters = launch, ()


def test_sizes_that_the_full_checks_must_look_at() -> None:
    k = scaled(cluster=lambda M: 2 if M > 100 else 1)
    special = k.specialize(M=16, N=1)
    sizes = Sizes(k.options, special, 0, ())
    assert sizes.compiled((16, 1)) is None  # no GPU has a template yet
    calls = []

    class Entry:
        def resized(self, grid: Any, changed: Any) -> str:
            calls.append((grid, changed))
            return "launch"

    special.recorded.templates[0] = Template(
        FakePlan(special.launch), Entry(), (0, 1, 2), (), ((3, "M"), (4, "N"))
    )  # type: ignore[arg-type]
    assert sizes.compiled((9, 5)) == ("launch", ())
    assert calls == [((3, 1, 1), ((3, (9).to_bytes(8, "little")), (4, (5).to_bytes(8, "little"))))]
    assert sizes.compiled((101, 1)) is None  # another cluster
    assert sizes.compiled((9, 1 << 32)) is None


def test_a_dim_that_the_text_depends_on_has_a_recording_of_its_own() -> None:
    @kernel(in_specs=(Tile("M", f32),), out_specs=(Tile(1, u32),), arch="sm_90a")
    def reads(x: TileParam, y: TileParam) -> None:
        ptx.store(y.at(0), ptx.special.tid.x() + x.shape[0])

    first = reads.specialize(M=16)
    sizes = Sizes(reads.options, first, 0, ())
    first.recorded.templates[0] = Template(FakePlan(first.launch), None, (0, 1), (), ())  # type: ignore[arg-type]
    assert sizes._find((16,)) is not None and sizes._find((17,)) is None
    second = reads.specialize(M=17)
    assert second.siblings is first.siblings and sizes._find((17,)) is None
    second.recorded.templates[0] = first.recorded.templates[0]
    assert sizes._find((17,)) is not None
