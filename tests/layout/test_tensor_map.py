"""Tensor maps accept and refuse what an H200's driver was measured to, and their bytes can be patched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.core.errors import SpecError, UnsupportedError
from pyptx.core.types import TYPES
from pyptx.layout import FIELDS, DecodedMap, TensorMap
from pyptx.layout.tensor_map_image import pack
from pyptx.layout.tensor_map_rules import ELEMENTS

BASE = 0x7000_0000

#: Arguments, innermost axis first, and the first 64 bytes that a driver (580.159, H200) made of them on
#: 2026-11-21; tests/runtime/test_driver_maps.py asks the driver at hand again.
DRIVER_MAPS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "driver_maps.json").read_text())


def tiled(shape: tuple[int, ...] = (512, 512), dtype: str = "bf16", **options: object) -> TensorMap:
    options.setdefault("box", (1,) * (len(shape) - 1) + (64,))
    return TensorMap.tiled(BASE, dtype=dtype, shape=shape, **options)  # type: ignore[arg-type]


# --- from arrays ----------------------------------------------------------------------------------


def test_an_array_in_numpy_order_becomes_driver_arguments_innermost_first() -> None:
    array = np.zeros((3, 256, 128), ml_dtypes.bfloat16)
    m = TensorMap.tiled(array, box=(1, 64, 32), swizzle="64B", l2_promotion="128B", oob_fill="nan")
    assert m.array is array and m.type is TYPES["bf16"] and m.rank == 3
    assert m.strides == (65536, 256, 2)
    assert m.box_bytes == 64 * 32 * 2
    arguments = m.driver_arguments()
    assert arguments == (
        9,
        3,
        array.ctypes.data,
        (128, 256, 3),
        (256, 65536),
        (32, 64, 1),
        (1, 1, 1),
        0,
        2,
        2,
        1,
    )
    assert arguments.dims == (128, 256, 3) and arguments.strides == (256, 65536)


@pytest.mark.parametrize(
    ("name", "code"),
    [("u8", 0), ("s8", 0), ("e4m3", 0), ("e5m2", 0), ("ue8m0", 0), ("u16", 1), ("s16", 1), ("u32", 2),
     ("s32", 3), ("u64", 4), ("s64", 5), ("f16", 6), ("f32", 7), ("f64", 8), ("bf16", 9), ("tf32", 11)],
)  # fmt: skip
def test_driver_data_types(name: str, code: int) -> None:
    m = tiled((64, 64), name, box=(8, 16))
    assert m.type is TYPES[name]
    assert m.driver_arguments().data_type == code
    assert m.box_bytes == 8 * 16 * TYPES[name].nbytes


def test_views_bring_their_strides_and_pointer() -> None:
    base = np.zeros((64, 256), np.float32)
    m = TensorMap.tiled(base[8:40:2, 4:132], box=(16, 32))
    assert (m.address, m.shape, m.strides) == (base.ctypes.data + 8 * 1024 + 16, (16, 128), (2048, 4))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros((64, 128), dtype=torch.bfloat16)
    m = TensorMap.tiled(tensor, box=(64, 64), swizzle="128B")
    assert (m.address, m.type, m.strides) == (tensor.data_ptr(), TYPES["bf16"], (256, 2))
    again = TensorMap.tiled(tensor, box=(64, 64), dtype=torch.float16)
    assert again.type is TYPES["f16"]


def test_axes_of_one_element_may_have_any_stride() -> None:
    array = np.zeros((1, 20), np.int16)  # 40 bytes between rows that do not exist
    assert TensorMap.tiled(array, box=(1, 8)).strides == (48, 2)
    column = np.zeros((32, 16), np.int32)[:, :1]
    assert TensorMap.tiled(column, box=(1, 4)).strides == (64, 4)
    assert TensorMap.tiled(np.zeros((8, 4, 32), np.int32)[:, :, ::32], box=(1, 1, 4)).strides[-1] == 4


def test_reinterpretation() -> None:
    array = np.zeros((128, 64), np.float32)
    assert TensorMap.tiled(array, box=(8, 8), dtype="tf32").driver_arguments().data_type == 11
    halves = TensorMap.tiled(array, box=(8, 64), dtype="bf16", shape=(128, 128))
    assert (halves.shape, halves.strides) == ((128, 128), (256, 2))
    blocked = TensorMap.tiled(array, box=(1, 8, 8), shape=(8, 128, 8), strides=(32, 256, 4))
    assert blocked.driver_arguments().strides == (256, 32)
    assert tiled((4, 6, 64), box=(1, 1, 64)).strides == (768, 128, 2)
    assert (
        TensorMap.tiled(np.int64(BASE), box=(8,), dtype="u16", shape=(64,)).driver_arguments().strides == ()
    )


def test_reinterpretation_says_what_it_needs() -> None:
    array = np.zeros((128, 64), np.float32)
    with pytest.raises(SpecError, match=r"dtype bf16 has 2 bytes, but .* \(f32\) has 4 bytes"):
        TensorMap.tiled(array, box=(8, 8), dtype="bf16")
    with pytest.raises(SpecError, match="not contiguous"):
        TensorMap.tiled(array[:, ::2], box=(8, 8), shape=(64, 64))
    with pytest.raises(SpecError, match="needs dtype and shape"):
        TensorMap.tiled(BASE, box=(8,), shape=(64,))
    with pytest.raises(SpecError, match="got builtins.list"):
        TensorMap.tiled([1, 2], box=(8,))


def test_a_map_may_reach_past_its_array_as_the_driver_has_it() -> None:
    array = np.zeros((128, 64), np.float32)
    reaching = TensorMap.tiled(array, box=(8, 8), shape=(129, 64))
    assert reaching.extent == array.nbytes + 256 and reaching.array is array


def test_equality_is_by_value() -> None:
    array = np.zeros((16, 64), np.float16)
    one, two = (TensorMap.tiled(array, box=(8, 64), swizzle="128B") for _ in range(2))
    assert one == two and hash(one) == hash(two)
    assert one != TensorMap.tiled(array, box=(8, 64))
    assert "array(" not in repr(one)


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"box": (256, 64)},
        {"box": (1, 8)},  # 16 bytes
        {"box": (1, 64), "swizzle": "128B"},
        {"box": (1, 32), "swizzle": "64B"},
        {"box": (1, 16), "swizzle": "32B"},
        {"strides": ((1 << 40) - 16, 2)},
        {"element_strides": (8, 1)},
        {"shape": (1 << 32, 64)},
        {"shape": (8,)},
        {"shape": (2, 2, 2, 2, 64)},
        {"shape": (4, 16), "box": (256, 128)},  # box larger than the tensor
        {"strides": (16, 2)},  # rows that overlap
        {"strides": (0, 2)},
        {"oob_fill": "nan"},
        {"dtype": "f32", "box": (227, 256)},  # 232,448 bytes exactly
    ],
)
def test_accepted(options: dict[str, object]) -> None:
    m = tiled(**options)  # type: ignore[arg-type]
    assert TensorMap.decode(m.encode(BASE)).dims == m.shape[::-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box": (257, 64)}, r"box\[0\] = 257 is outside 1..256"),
        ({"box": (0, 64)}, r"box\[0\] = 0"),
        ({"box": (1, 4)}, "4 elements of 2 bytes is 8 bytes, which is not a multiple of 16"),
        ({"box": (1, 128), "swizzle": "128B"}, "256 bytes; swizzle '128B' allows at most 128"),
        ({"box": (1, 64), "swizzle": "64B"}, "128 bytes; swizzle '64B' allows at most 64"),
        ({"box": (1, 32), "swizzle": "32B"}, "64 bytes; swizzle '32B' allows at most 32"),
        ({"strides": (1 << 40, 2)}, r"strides\[0\] = 1099511627776"),
        ({"strides": (1000, 2)}, r"strides\[0\] = 1000 bytes is not a multiple of 16"),
        ({"strides": (-1024, 2)}, r"strides\[0\] = -1024"),
        ({"strides": (1024, 4)}, r"strides\[1\] = 4 bytes: the innermost axis must be contiguous \(2 bytes"),
        ({"strides": (1024,)}, "1 entries for a tensor of rank 2"),
        ({"box": (64,)}, "box = .64,. has 1 entries"),
        ({"box": 64}, "box = 64 is not a sequence"),
        ({"box": (1, 64.0)}, "not a sequence of integers"),
        ({"element_strides": (9, 1)}, r"element_strides\[0\] = 9 is outside 1..8"),
        ({"element_strides": (0, 1)}, r"element_strides\[0\] = 0"),
        ({"shape": ((1 << 32) + 1, 64)}, r"shape\[0\] = 4294967297 is outside 1..2\*\*32"),
        ({"shape": (0, 64)}, r"shape\[0\] = 0"),
        ({"shape": (2, 2, 2, 2, 2, 64)}, "rank 6"),
        ({"shape": (), "box": ()}, "rank 0"),
        ({"dtype": "f32", "box": (256, 256)}, "262144 bytes; .* 232448"),
        ({"dtype": "s8", "oob_fill": "nan"}, "oob_fill = 'nan' with elements that TMA moves as u8"),
        ({"dtype": "e4m3", "oob_fill": "nan"}, "elements that TMA moves as u8"),
        ({"dtype": "pred"}, "elements of type pred"),
        ({"swizzle": "256B"}, "'256B'"),
        ({"interleave": "64B"}, "interleave = '64B' is not one of 'none', '16B', '32B'"),
        ({"interleave": "16B"}, "rank 2 .*expected 3..5 with interleave '16B'"),
        ({"shape": (4, 4, 64), "interleave": "32B", "swizzle": "64B"}, "needs swizzle '32B', got '64B'"),
        ({"l2_promotion": "512B"}, "l2_promotion = '512B'"),
        ({"oob_fill": "ones"}, "oob_fill = 'ones'"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        tiled(**options)  # type: ignore[arg-type]


def test_addresses_are_aligned() -> None:
    with pytest.raises(SpecError, match="0x70000008 is not a multiple of 16"):
        TensorMap.tiled(BASE + 8, dtype="f16", shape=(64,), box=(8,))
    with pytest.raises(SpecError, match="0x70000010 is not a multiple of 32"):
        TensorMap.tiled(
            BASE + 16, dtype="f16", shape=(8, 8, 64), box=(1, 1, 16), interleave="32B", swizzle="32B"
        )
    with pytest.raises(SpecError, match="0x18 is not a multiple of 16"):
        tiled().encode(0x18)


def test_not_modeled() -> None:
    with pytest.raises(UnsupportedError, match="96B"):
        tiled(swizzle="96B")


def test_element_strides_thin_the_box_except_innermost() -> None:
    m = tiled((64, 64, 64), box=(9, 8, 64), element_strides=(2, 3, 4))
    assert m.box_shape == (5, 3, 64)
    assert m.box_bytes == 5 * 3 * 64 * 2
    decoded = TensorMap.decode(m.encode(0))
    assert decoded.box_shape == (64, 3, 5) and decoded.box_bytes == m.box_bytes


# --- the simulated 128 bytes ----------------------------------------------------------------------


@st.composite
def maps(draw: st.DrawFn) -> TensorMap:
    rank = draw(st.integers(1, 5))
    name = draw(st.sampled_from(["u8", "s16", "f16", "bf16", "tf32", "f32", "s64", "f64"]))
    nbytes = TYPES[name].nbytes
    swizzle = draw(st.sampled_from(["none", "32B", "64B", "128B"]))
    inner = draw(st.sampled_from([16, 32])) // nbytes
    outer = st.integers(1, 6)
    return TensorMap.tiled(
        draw(st.integers(0, 2**40)) * 16,
        dtype=name,
        shape=[draw(st.integers(1, 2**32)) for _ in range(rank)],
        strides=[draw(st.integers(0, 2**36 - 1)) * 16 for _ in range(rank - 1)] + [nbytes],
        box=[draw(outer) for _ in range(rank - 1)] + [inner],
        element_strides=[draw(st.integers(1, 8)) for _ in range(rank)],
        swizzle=swizzle,
        l2_promotion=draw(st.sampled_from(["none", "64B", "128B", "256B"])),
        oob_fill=draw(st.sampled_from(["zeros", "nan"])) if TYPES[name].is_float else "zeros",
    )


@given(maps(), st.integers(0, 2**60 - 1))
def test_round_trip(m: TensorMap, address: int) -> None:
    raw = m.encode(address * 16)
    assert len(raw) == 128
    decoded = TensorMap.decode(raw)
    arguments = m.driver_arguments()
    assert decoded == DecodedMap(
        address=address * 16,
        type=TYPES["u16"] if m.type is TYPES["s16"] else m.type,
        rank=m.rank,
        dims=arguments.dims,
        strides=(m.type.nbytes, *arguments.strides),
        box=arguments.box,
        element_strides=arguments.element_strides,
        swizzle=m.swizzle,
        interleave=m.interleave,
        oob_fill=m.oob_fill,
    )
    assert decoded.box_bytes == m.box_bytes


def patched(raw: bytes, name: str, value: int, ordinal: int = 0) -> bytes:
    return FIELDS[name].set(int.from_bytes(raw, "little"), value, ordinal).to_bytes(128, "little")


def test_fields_are_patched_one_by_one_with_the_codes_of_tensormap_replace() -> None:
    raw = tiled((8, 512, 512), "f16", box=(1, 8, 16)).encode(BASE)
    before = TensorMap.decode(raw)

    def change(name: str, value: int, ordinal: int = 0) -> dict[str, object]:
        after = TensorMap.decode(patched(raw, name, value, ordinal))
        names = DecodedMap.__slots__
        return {n: getattr(after, n) for n in names if getattr(after, n) != getattr(before, n)}

    assert change("global_address", 0x1230) == {"address": 0x1230}
    assert change("global_dim", 77, 2) == {"dims": (512, 512, 77)}
    assert change("global_stride", 4096, 0) == {"strides": (2, 4096, 524288)}
    assert change("global_stride", 4096, 1) == {"strides": (2, 1024, 4096)}
    assert change("box_dim", 200, 1) == {"box": (16, 200, 1)}
    assert change("element_stride", 5, 2) == {"element_strides": (1, 1, 5)}
    assert change("elemtype", 10) == {"type": TYPES["bf16"]}
    assert change("elemtype", 7) == {"type": TYPES["f32"], "strides": (4, 1024, 524288)}
    assert change("swizzle_mode", 3) == {"swizzle": "128B"}
    assert change("fill_mode", 1) == {"oob_fill": "nan"}
    assert change("interleave_layout", 1) == {"interleave": "16B"}
    after = TensorMap.decode(patched(raw, "rank", 1))
    assert (after.rank, after.dims, after.strides) == (2, (512, 512), (2, 1024))


@pytest.mark.parametrize(
    ("name", "value", "ordinal", "message"),
    [
        ("rank", 5, 0, "rank 6"),
        ("elemtype", 16, 0, "element type code 16"),
        ("swizzle_mode", 5, 0, "5 does not fit"),
        ("swizzle_mode", 4, 0, "4 does not fit"),
        ("interleave_layout", 3, 0, "interleave code 3"),
        ("fill_mode", 2, 0, "2 does not fit"),
        ("box_dim", 257, 0, "257 does not fit"),
        ("global_stride", 1 << 40, 0, "does not fit"),
        ("global_address", 8, 0, "0x8 is not a multiple of 16"),
    ],
)
def test_nonsense_patched_in_is_found(name: str, value: int, ordinal: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        TensorMap.decode(patched(tiled().encode(BASE), name, value, ordinal))


def test_low_bits_of_a_stride_are_not_kept() -> None:
    """A map has no room for them."""
    assert TensorMap.decode(patched(tiled().encode(BASE), "global_stride", 4096 + 8)).strides[1] == 4096


@pytest.mark.parametrize("record", DRIVER_MAPS, ids=lambda record: f"{record['kind']}-{record['number']}")
def test_maps_are_the_driver_s(record: dict[str, Any]) -> None:
    """What a driver of an H200 wrote for these arguments; bytes 64 and on it keeps for itself."""
    given = {k: v for k, v in record.items() if k not in ("kind", "number", "bytes")}
    given["element"] = ELEMENTS[given["element"]]
    words = bytes.fromhex(record["bytes"])
    assert pack(**given)[:64] == words
    decoded = TensorMap.decode(words + bytes(range(64)))
    assert (decoded.address, list(decoded.dims)) == (record["address"], record["dims"])
    assert list(decoded.strides[1:]) == record["strides"] and list(decoded.box) == record["box"]
    assert list(decoded.element_strides) == record["element_strides"] and decoded.kind == given["element"]
    assert (decoded.swizzle, decoded.interleave) == (record["swizzle"], record["interleave"])
    assert decoded.oob_fill == record["oob_fill"]
    assert (list(decoded.lower), list(decoded.upper)) == (record.get("lower", []), record.get("upper", []))


# --- elements that no dtype names, im2col ------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "code", "driver", "row", "held"),
    [
        ("f32.ftz", 8, 10, 128 * 4, 128 * 4),
        ("tf32.ftz", 12, 12, 128 * 4, 128 * 4),
        ("b4x16", 13, 13, 64, 64),
        ("b4x16_p64", 14, 14, 64, 128),
        ("b6x16_p32", 15, 15, 96, 128),
    ],
)
def test_other_elements(element: str, code: int, driver: int, row: int, held: int) -> None:
    """Codes of tensormap.replace and of the driver; bytes of 128 elements in global and in shared memory."""
    m = TensorMap.tiled(BASE, shape=(16, 128), box=(4, 128), element=element)
    assert m.strides[0] == row and m.extent == 16 * row
    assert m.box_bytes == 4 * held
    assert m.transaction_bytes == 4 * row
    assert m.driver_arguments().data_type == driver
    raw = m.encode(BASE)
    assert FIELDS["elemtype"].read(raw) == (code,)
    decoded = TensorMap.decode(raw)
    assert decoded.kind.name == element and decoded.box_bytes == 4 * held


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"element": "b4x16_p64", "shape": (16, 64)}, r"shape\[-1\] = 64 .*not a multiple of 128"),
        (
            {"element": "b6x16_p32", "box": (4, 64)},
            r"box\[-1\] = 64 with elements of b6x16_p32; expected 128 elements",
        ),
        ({"element": "b6x16_p32", "swizzle": "64B"}, "swizzle = '64B' with elements of b6x16_p32"),
        ({"element": "b5x16"}, "b5x16"),
    ],
)
def test_packed_elements_refused(options: dict[str, object], message: str) -> None:
    given = {"shape": (16, 128), "box": (4, 128)} | options
    with pytest.raises(SpecError, match=message):
        TensorMap.tiled(BASE, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("swizzle", "codes"),
    [("128B_ATOM_32B", (3, 1)), ("128B_ATOM_32B_FLIP_8B", (3, 2)), ("128B_ATOM_64B", (3, 3))],
)
def test_swizzles_of_larger_atoms(swizzle: str, codes: tuple[int, int]) -> None:
    raw = tiled(swizzle=swizzle).encode(BASE)
    assert (*FIELDS["swizzle_mode"].read(raw), *FIELDS["swizzle_atomicity"].read(raw)) == codes
    assert TensorMap.decode(raw).swizzle == swizzle
    with pytest.raises(SpecError, match="need the 128-byte swizzle"):
        TensorMap.decode(patched(raw, "swizzle_mode", 1))


@pytest.mark.parametrize(
    ("shape", "lower", "upper", "wrong"),
    [
        ((4, 9, 64), (-(2**15),), (2**15 - 1,), (-(2**15) - 1,)),
        ((4, 9, 9, 64), (-128, 127), (-1, -2), (0, 128)),
        ((4, 9, 9, 9, 64), (-16, 15, 0), (-1, 3, 15), (-17, 0, 0)),
    ],
)
def test_im2col_maps_keep_their_corners(
    shape: tuple[int, ...], lower: tuple[int, ...], upper: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    array = np.zeros(shape, np.float16)
    m = TensorMap.im2col(array, pixels=1024, channels=16, lower=lower, upper=upper, swizzle="32B")
    assert m.box_shape == (1024, 16) and m.box_bytes == 1024 * 32
    decoded = TensorMap.decode(m.encode(BASE))
    assert decoded.im2col and (decoded.lower, decoded.upper) == (lower[::-1], upper[::-1])
    assert (decoded.box, decoded.box_bytes) == ((16, 1024), m.box_bytes)
    for corner in (wrong, (*upper, 0)):
        with pytest.raises(SpecError, match="signed bits"):
            TensorMap.im2col(array, pixels=8, channels=16, lower=lower, upper=corner)
    with pytest.raises(SpecError, match="pixels and channels"):
        TensorMap.im2col(array, pixels=1025, channels=16, lower=lower, upper=upper)


def test_ordinals_are_bounded() -> None:
    with pytest.raises(SpecError, match=r"ordinal 4 .*outside 0..3"):
        FIELDS["global_stride"].get(0, 4)


@given(st.binary(min_size=128, max_size=128))
def test_garbage_is_recognized(raw: bytes) -> None:
    with pytest.raises(SpecError, match="not a tensor map"):
        TensorMap.decode(raw)


def test_incomplete_maps_are_recognized() -> None:
    raw = tiled().encode(BASE)
    with pytest.raises(SpecError, match="128 bytes, got 64"):
        TensorMap.decode(raw[:64])
    with pytest.raises(SpecError, match="not a tensor map"):
        TensorMap.decode(bytes(64) + raw[:64])


def test_the_first_half_says_everything() -> None:
    raw = tiled().encode(BASE)
    assert TensorMap.decode(raw[:64] + bytes(range(64))) == TensorMap.decode(raw)


def test_fields_do_not_overlap() -> None:
    """All bits of one entry set change no other entry."""
    for name, field in FIELDS.items():
        for ordinal in range(field.count):
            changed = {}
            for value in (field.less, 15 if name == "elemtype" else (1 << 64) - 1):
                while True:
                    try:
                        image = field.set(0, value, ordinal)
                        break
                    except SpecError:
                        value >>= 1
                changed[value] = image
            low, high = changed.values()
            for other, place in FIELDS.items():
                for entry in range(place.count):
                    if (other, entry) != (name, ordinal):
                        assert place.get(low, entry) == place.get(high, entry)
