"""tensormap.replace on the 128 bytes of a map, in shared and in global memory, and tensormap.cp_fenceproxy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx.layout import TensorMap
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("starve:tma", 0)]
ROOM = 2048
TENSOR = np.arange(1, 16 * 64 + 1, dtype=np.uint16).reshape(16, 64)

#: The map is copied to shared memory (and to ``place``), changed, made known, and used.
TEXT = """
.shared b8 room[2048] 1024
.shared b8 image[128] 128
.shared b8 bar[8] 8
.reg u32 t s i b x y w
.reg u64 f o v g third at64
.reg pred lead p q
mov.u32 t, %tid.x
mov.u32 s, room
mov.u32 i, image
mov.u32 b, bar
setp.eq.u32 lead, t, 0
add.u64 third, tensor, 256
mad.wide.u32 f, t, 4, map
ld.u32 w, [f]
mad.lo.u32 x, t, 4, i
st.shared.u32 [x], w
mad.wide.u32 f, t, 4, place
st.global.u32 [f], w
mad.lo.u32 x, t, 64, s
mov.u64 v, 0
mov.u32 y, 0
CLEAR:
st.shared.u64 [x], v
add.u32 x, x, 8
add.u32 y, y, 8
setp.lt.u32 p, y, 64
@p bra CLEAR
@lead mbarrier.init.shared::cta.b64 [b], 1
fence.proxy.async.shared::cta
bar.sync 0
{changes}
bar.warp.sync -1
{publish}
@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {nbytes}
@lead cp.async.bulk.tensor.{rank}d.shared::cta.global.mbarrier::complete_tx::bytes [s], [place, {{{point}}}], [b]
W:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
@!q bra W
mad.lo.u32 x, t, 64, s
mad.wide.u32 o, t, 64, out
mov.u32 y, 0
DUMP:
ld.shared.u64 v, [x]
st.global.u64 [o], v
add.u64 o, o, 8
add.u32 x, x, 8
add.u32 y, y, 8
setp.lt.u32 p, y, 64
@p bra DUMP
"""
PUBLISH = {
    "shared::cta": """
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [place], [i], 128
    fence.proxy.tensormap::generic.acquire.gpu [place], 128
    """,
    "global": """
    fence.proxy.tensormap::generic.release.gpu
    fence.proxy.tensormap::generic.acquire.gpu [place], 128
    """,
}


def kernel(changes: list[str], space: str, nbytes: int, point: str, target: str = "sm_100a") -> Kernel:
    where = "i" if space == "shared::cta" else "place"
    lines = "\n".join(
        f"@lead tensormap.replace.tile.{line.format(s=space + '.b1024', at=where)}" for line in changes
    )
    text = TEXT.format(
        changes=lines, publish=PUBLISH[space], nbytes=nbytes, point=point, rank=point.count(",") + 1
    )
    return Kernel(text, "map:map tensor:u64 place:u64 out:u64", target=target)


def aligned_place() -> NDArray[np.uint8]:
    """Room for a map, an allocation of its own."""
    return np.zeros(128, np.uint8)


def window(rows: slice, columns: slice, shape: tuple[int, int], fill: int = 0) -> NDArray[Any]:
    """A box of the tensor, filled where the tensor ends."""
    box = np.full(shape, fill, np.uint16)
    part = TENSOR[rows, columns]
    box[: part.shape[0], : part.shape[1]] = part
    return box


B32, B64 = "{s}.b32 [{at}]", "{s}.b64 [{at}]"
#: Name: changes, bytes that arrive, coordinates, what they are.
CASES: dict[str, tuple[list[str], int, str, NDArray[Any]]] = {
    "address": ([f"global_address.{B64}, third"], 256, "8, 1", window(slice(3, 11), slice(8, 24), (8, 16))),
    "rank": (
        [f"rank.{B32}, 0", f"box_dim.{B32}, 0, 32"],
        64,
        "16",
        window(slice(0, 1), slice(16, 48), (1, 32)),
    ),
    "dimension": ([f"global_dim.{B32}, 1, 5"], 256, "8, 2", window(slice(2, 5), slice(8, 24), (8, 16))),
    "dimensions": (
        [f"global_dim.{B32}, 1, 5", f"global_dim.{B32}, 0, 20"],
        256,
        "8, 2",
        window(slice(2, 5), slice(8, 20), (8, 16)),
    ),
    "stride": (
        [f"global_stride.{B64}, 0, 64"],
        256,
        "8, 2",
        TENSOR.reshape(32, 32)[2:10, 8:24],
    ),
    "box": (
        [f"box_dim.{B32}, 1, 3", f"box_dim.{B32}, 0, 24"],
        144,
        "8, 2",
        window(slice(2, 5), slice(8, 32), (3, 24)),
    ),
    "element stride": (
        [f"element_stride.{B32}, 1, 2"],
        128,
        "8, 3",
        window(slice(3, 11, 2), slice(8, 24), (4, 16)),
    ),
    "element type": (
        [f"elemtype.{B32}, 2"],
        512,
        "8, 1",
        window(slice(1, 9), slice(16, 48), (8, 32)),
    ),
    "fill": (
        [f"elemtype.{B32}, 6", f"fill_mode.{B32}, 1"],
        256,
        "56, 12",
        window(slice(12, 16), slice(56, 64), (8, 16), 0x7FF7),
    ),
    "interleave": ([f"interleave_layout.{B32}, 0"], 256, "8, 2", window(slice(2, 10), slice(8, 24), (8, 16))),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("space", PUBLISH)
@pytest.mark.parametrize("name", CASES)
def test_fields(name: str, space: str) -> None:
    """As an H200 has them (tests/conformance/cases/tensormap.py), by indexing here."""
    changes, nbytes, point, expected = CASES[name]
    built = kernel(changes, space, nbytes, point)
    for schedule, seed in SCHEDULES:
        out = np.zeros(ROOM, np.uint8)
        tensor_map = TensorMap.tiled(TENSOR, box=(8, 16))
        built.clean(tensor_map, TENSOR, aligned_place(), out, schedule=schedule, seed=seed)
        np.testing.assert_array_equal(out[:nbytes], expected.reshape(-1).view(np.uint8))
        assert not out[nbytes:].any()


@pytest.mark.parametrize("space", PUBLISH)
@pytest.mark.parametrize(
    ("changes", "before", "place"),
    [
        ([f"swizzle_mode.{B32}, 1"], "none", lambda a: a ^ (a >> 7 & 1) << 4),
        ([f"swizzle_mode.{B32}, 3", f"swizzle_atomicity.{B32}, 1"], "none", lambda a: a ^ (a >> 7 & 3) << 5),
        ([f"swizzle_atomicity.{B32}, 3"], "128B", lambda a: a ^ (a >> 7 & 1) << 6),
        ([f"swizzle_mode.{B32}, 0"], "32B", lambda a: a),
    ],
)
def test_swizzles(changes: list[str], before: str, place: Any, space: str) -> None:
    out = np.zeros(ROOM, np.uint8)
    tensor_map = TensorMap.tiled(TENSOR, box=(8, 16), swizzle=before)
    kernel(changes, space, 256, "8, 2").clean(tensor_map, TENSOR, aligned_place(), out)
    box = TENSOR[2:10, 8:24].copy().view(np.uint8).reshape(8, 32)
    # Rows begin a span of the swizzle apart.
    pitch = 128 if "128B" in before or "swizzle_mode.{s}.b32 [{at}], 3" in changes else 32
    expected = np.zeros(ROOM, np.uint8)
    for row in range(8):
        for byte in range(32):
            expected[place(row * pitch + byte)] = box[row, byte]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([f"box_dim.{B32}, 0, 12"], "24 bytes, which is not a multiple of 16"),
        ([f"box_dim.{B32}, 1, 65536"], "65536 does not fit a field of 8 bits"),
        ([f"global_stride.{B64}, 0, 40"], "40 bytes; expected a multiple of 16"),
        ([f"swizzle_atomicity.{B32}, 1"], "need the 128-byte swizzle"),
        ([f"fill_mode.{B32}, 1"], "oob_fill = 'nan'"),
        ([f"rank.{B32}, 2"], "has 2 coordinates, but the map has 3 dimensions"),
    ],
)
def test_nonsense_is_found(changes: list[str], message: str) -> None:
    out = np.zeros(ROOM, np.uint8)
    tensor_map = TensorMap.tiled(TENSOR, box=(8, 16))
    # A third dimension that a rank of 3 finds.
    changes = [f"global_dim.{B32}, 2, 1", f"box_dim.{B32}, 2, 1", f"element_stride.{B32}, 2, 1", *changes]
    report = kernel(changes, "global", 256, "8, 2").run(tensor_map, TENSOR, aligned_place(), out)
    assert message in finding(report, "bad-tensor-map").message


def test_a_replaced_tensor_is_held_to_its_allocation() -> None:
    out = np.zeros(ROOM, np.uint8)
    tensor_map = TensorMap.tiled(TENSOR, box=(8, 16))
    report = kernel([f"global_dim.{B32}, 1, 17"], "global", 256, "0, 12").run(
        tensor_map, TENSOR, aligned_place(), out
    )
    finding(report, "out-of-bounds")


def test_maps_in_constant_parameters_cannot_be_changed() -> None:
    text = f"@p {'tensormap.replace.tile.rank.b1024.b32'} [map], 0"
    built = Kernel(f".reg u32 t\n.reg pred p\nmov.u32 t, %tid.x\nsetp.eq.u32 p, t, 0\n{text}\n", "map:map")
    report = built.run(TensorMap.tiled(TENSOR, box=(8, 16)))
    assert "read-only" in finding(report, "out-of-bounds").message
