"""C structs by value, with pointers and tensor maps in them, and tables of pointers as arguments of a launch."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from pyptx import SpecError, TensorMap, sim

#: Copies the words of a parameter of so many bytes to out.
WORDS = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry words(.param .align 64 .b8 given[{nbytes}], .param .u64 out)
{{
    .reg .b32 i, word; .reg .b64 to, place, offset; .reg .pred more;
    ld.param.u64 to, [out];
    mov.b64 place, given; mov.u32 i, 0;
again:
    ld.param.b32 word, [place]; st.global.b32 [to], word;
    add.u64 place, place, 4; add.u64 to, to, 4; add.u32 i, i, 4;
    setp.lt.u32 more, i, {nbytes}; @more bra again;
    ret;
}}
"""
#: out[i] = *table[i]
TABLE = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry gather(.param .u64 table, .param .u64 out)
{
    .reg .b32 i, word; .reg .b64 to, from, place, offset;
    ld.param.u64 from, [table]; ld.param.u64 to, [out];
    mov.u32 i, %tid.x;
    mul.wide.u32 offset, i, 8; add.u64 from, from, offset; ld.global.u64 place, [from];
    ld.global.b32 word, [place];
    mul.wide.u32 offset, i, 4; add.u64 to, to, offset; st.global.b32 [to], word;
    ret;
}
"""


def bytes_of(value: Any, nbytes: int) -> bytes:
    """What the parameter holds."""
    out = np.zeros(nbytes // 4, np.uint32)
    report = sim.load(WORDS.format(nbytes=nbytes)).launch(grid=1, block=1, args=[value, out])
    assert report.verdict == "clean", str(report)
    return out.tobytes()


def test_members_lie_at_their_alignment() -> None:
    given = [np.int8(-1), np.float64(1.5), np.uint16(7), np.int32(-2), b"abc", np.uint16(9)]
    assert bytes_of(given, 40) == struct.pack("<bxxxxxxxdHxxi3sxH", -1, 1.5, 7, -2, b"abc", 9).ljust(
        40, b"\0"
    )


def test_members_at_offsets() -> None:
    expected = bytearray(32)
    expected[4:8], expected[20:28] = struct.pack("<f", 2.5), struct.pack("<q", -3)
    assert bytes_of({20: np.int64(-3), 4: np.float32(2.5)}, 32) == expected


def test_pointers_and_nested_structs() -> None:
    """Both pointers are the address of the one array, which a kernel sees at its own base."""
    array = np.arange(6, dtype=np.float32)
    raw = bytes_of([array, (np.int32(2), (np.int32(3),)), array], 24)
    first, rows, columns, second = struct.unpack("<QiiQ", raw)
    assert first == second != 0 and (rows, columns) == (2, 3)


def test_a_tensor_map_in_a_struct() -> None:
    array = np.zeros((64, 64), np.float16)
    tensor = TensorMap.tiled(array, box=(8, 64), swizzle="128B")
    raw = bytes_of([np.int32(5), tensor, np.int32(6)], 256)
    assert raw[:4] == struct.pack("<i", 5) and raw[192:196] == struct.pack("<i", 6)
    decoded = TensorMap.decode(raw[64:192])
    assert decoded.dims == (64, 64) and decoded.swizzle == "128B" and decoded.address % 256 == 0


def test_a_table_of_pointers() -> None:
    arrays = [np.full(3, 10 * i, np.uint32) for i in range(4)]
    out = np.zeros(4, np.uint32)
    assert sim.load(TABLE).launch(grid=1, block=4, args=[arrays, out]).verdict == "clean"
    assert out.tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([np.int64(1)] * 3, "8 bytes at offset 16 does not fit parameter given, which has 16"),
        ({12: np.int64(1)}, "8 bytes at offset 12"),
        ({-4: np.int32(1)}, "at offset -4"),
        ({"x": np.int32(1)}, "'x' is not an offset"),
        ([1], "1 was given as member given.0 of a struct.* a numpy scalar"),
        (
            [TensorMap.tiled(0x7000_0000, shape=(64, 64), dtype="f16", box=(8, 64))],
            "made from the address 0x70000000, which lies",
        ),
        (7, "7 was given for parameter given of 16 bytes: pass bytes"),
    ],
)
def test_refusals(value: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        bytes_of(value, 16)


#: Loads a box of 1 x 4 words through the map at a pointer, ``which`` times 128 bytes on, into out.
COPY = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 maps, .param .u64 out, .param .u32 which, .param .u32 row)
{
    .shared .align 128 .b8 tile[16]; .shared .align 8 .b64 bar;
    .reg .b32 w, r, a, b, x; .reg .b64 map, to, offset, state; .reg .pred done;
    ld.param.u64 map, [maps]; ld.param.u64 to, [out]; ld.param.u32 w, [which]; ld.param.u32 r, [row];
    mul.wide.u32 offset, w, 128; add.u64 map, map, offset;
    mov.u32 a, tile; mov.u32 b, bar;
    mbarrier.init.shared::cta.b64 [b], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 state, [b], 16;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [a], [map, {0, r}], [b];
again:
    mbarrier.try_wait.parity.shared::cta.b64 done, [b], 0;
    @!done bra again;
    ld.shared.b32 x, [a+4]; st.global.b32 [to], x;
    ret;
}
"""


def copied(maps: Any, *others: Any, which: int = 0, row: int = 0, text: str = COPY) -> tuple[str, int]:
    out = np.zeros(1, np.uint32)
    report = sim.load(text).launch(grid=1, block=1, args=[maps, out, which, row, *others])
    return ", ".join(f.rule.name for f in report.findings), int(out[0])


def test_a_pointer_takes_a_tensor_map_or_a_list_of_them() -> None:
    """The map, or one map after the other, in device memory; the pointer is its address."""
    first, second = (
        np.arange(32, dtype=np.uint32).reshape(8, 4),
        np.arange(100, 132, dtype=np.uint32).reshape(8, 4),
    )
    maps = [TensorMap.tiled(array, box=(1, 4)) for array in (first, second)]
    assert copied(maps[0], row=3) == ("", 13)
    assert copied(maps, which=1, row=3) == ("", 113)
    with pytest.raises(SpecError, match="for the integer parameter maps"):
        copied([maps[0], first])


def test_a_map_of_an_address_is_that_of_the_array_there() -> None:
    array = np.arange(64, dtype=np.uint32).reshape(16, 4)
    address = array.ctypes.data + 128
    reaching = TensorMap.tiled(address, box=(1, 4), shape=(8, 4), dtype="u32")
    text = COPY.replace(".param .u32 row)", ".param .u32 row, .param .u64 data)")
    assert copied(reaching, array, row=3, text=text) == ("", 45)
    with pytest.raises(SpecError, match=f"the address {address:#x}, which lies in no array"):
        copied(reaching)


def test_a_map_past_its_array_runs_until_it_is_used_there() -> None:
    array = np.arange(32, dtype=np.uint32).reshape(8, 4)
    reaching = TensorMap.tiled(array, box=(1, 4), shape=(16, 4))
    assert copied(reaching, row=7) == ("", 29)
    assert copied(reaching, row=8)[0] == "out-of-bounds"
