"""What copies may take along that nothing wrote: padding for review, and nothing at all of what a store drops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.layout import TensorMap
from pyptx.sim import Report
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding

STORE = """
.shared b8 area[1024] 128
.reg u32 t a
.reg pred p lead
mov.u32 t, %tid.x
mov.u32 a, area
setp.lt.u32 p, t, WORDS
mad.lo.u32 a, t, 4, a
@p st.shared.u32 [a], t
fence.proxy.async.shared::cta
bar.sync 0
mov.u32 a, area
setp.eq.u32 lead, t, 0
@lead COPY // store
@lead cp.async.bulk.commit_group
@lead cp.async.bulk.wait_group 0
ret
"""
TILED = "cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group [map, {{{}}}], [a]"
REDUCED = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [map, {8, 0}], [a]"


def stored(copy: str, words: int, tensor_map: TensorMap) -> Report:
    """``words`` threads write a word each, then the copy."""
    kernel = Kernel(STORE.replace("WORDS", str(words)).replace("COPY", copy), "map:map")
    return kernel.run(tensor_map, block=128)


def test_a_box_over_the_edge_needs_only_what_is_kept() -> None:
    out = np.zeros((1, 16), np.uint32)
    tensor_map = TensorMap.tiled(out, box=(1, 32))
    copy = TILED.format(2, "0, 0")
    assert stored(copy, 16, tensor_map).verdict == "clean"
    np.testing.assert_array_equal(out[0], np.arange(16))
    found = finding(stored(copy, 15, tensor_map), "padding-read", "review")
    assert "offset 60" in found.message


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_kept_bytes_are_found_through_the_swizzle(swizzle: str) -> None:
    """Rows of 32 bytes, a span apart: the upper half of each is outside the tensor."""
    out = np.zeros((4, 4), np.uint32)
    tensor_map = TensorMap.tiled(out, box=(4, 8), swizzle=swizzle)
    copy = TILED.format(2, "0, 0")
    report = stored(copy, 128, tensor_map)
    assert report.verdict == "clean", report
    places = out.reshape(-1).tolist()
    text = STORE.replace("setp.lt.u32 p, t, WORDS", only_threads(places)).replace("COPY", copy)
    assert Kernel(text, "map:map").run(tensor_map, block=128).verdict == "clean"
    text = STORE.replace("setp.lt.u32 p, t, WORDS", only_threads(places[:-1])).replace("COPY", copy)
    found = finding(Kernel(text, "map:map").run(tensor_map, block=128), "padding-read", "review")
    assert f"offset {4 * places[-1]})" in found.message


def only_threads(places: list[int]) -> str:
    """``p`` holds in the threads of these numbers alone."""
    lines = ["setp.eq.u32 p, t, 9999"]
    lines += [f"setp.eq.or.u32 p, t, {place}, p" for place in places]
    return "\n".join(lines)


def test_a_reduction_over_the_edge() -> None:
    out = np.full((1, 16), 100, np.uint32)
    tensor_map = TensorMap.tiled(out, box=(1, 16))
    assert stored(REDUCED, 8, tensor_map).verdict == "clean"
    np.testing.assert_array_equal(out[0], [100] * 8 + list(range(100, 108)))
    # A reduction computes with what it reads.
    finding(stored(REDUCED, 7, tensor_map), "uninitialized-read")


def test_pixels_over_the_channels_end() -> None:
    """An im2col store keeps the channels inside the tensor."""
    out = np.zeros((1, 4, 4, 4), np.uint32)
    tensor_map = TensorMap.im2col(out, lower=(0, 0), upper=(0, 0), channels=8, pixels=4)
    copy = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [map, {0, 0, 0, 0}], [a]"
    kept = [8 * pixel + channel for pixel in range(4) for channel in range(4)]
    text = STORE.replace("setp.lt.u32 p, t, WORDS", only_threads(kept)).replace("COPY", copy)
    assert Kernel(text, "map:map").run(tensor_map, block=128).verdict == "clean"
    np.testing.assert_array_equal(out[0, 0].reshape(-1), kept)
    text = STORE.replace("setp.lt.u32 p, t, WORDS", only_threads(kept[1:])).replace("COPY", copy)
    finding(Kernel(text, "map:map").run(tensor_map, block=128), "padding-read", "review")


# --- plain ranges -------------------------------------------------------------------------------

RANGE = "cp.async.bulk.global.shared::cta.bulk_group [out], [a], 64"
MASKED = "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [out], [a], 64, mask"


def ranged(copy: str, words: int, **options: Any) -> tuple[Report, np.ndarray[Any, Any]]:
    text = STORE.replace("WORDS", str(words)).replace("COPY", copy)
    text = ".reg u16 mask\nmov.b16 mask, 0x0f0f\n" + text
    out = np.zeros(32, np.uint32)
    return Kernel(text, "out:u64").run(out, block=128, **options), out


def test_a_plain_store_takes_padding_along() -> None:
    assert ranged(RANGE, 16)[0].verdict == "clean"
    found = finding(ranged(RANGE, 13)[0], "padding-read", "review")
    assert "offset 52" in found.message
    finding(ranged(RANGE, 0)[0], "uninitialized-read")


READ_BACK = """
.shared b8 area[1024] 128
.shared b8 bar[8] 8
.reg u32 a b v
.reg u16 mask
.reg pred q
mov.u32 a, area
mov.u32 b, bar
mov.b16 mask, 0x000f
mbarrier.init.shared::cta.b64 [b], 1
st.shared.v4.u32 [a], {1, 2, 3, 4}
fence.proxy.async.shared::cta
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [data], [a], 16, mask
cp.async.bulk.commit_group
cp.async.bulk.wait_group 0
ld.global.u32 v, [data+AT] // read
st.global.u32 [out], v
ret
"""


def test_a_masked_store_writes_only_the_bytes_of_its_mask() -> None:
    """Of each 16 bytes the first four: what the mask leaves out stays as it was, and stays unwritten."""
    data, out = np.full(4, 77, np.uint32), np.zeros(1, np.uint32)
    first = Kernel(READ_BACK.replace("AT", "0"), "data:u64 out:u64")
    report = first.run(data, out, block=1, uninitialized=[0])
    assert report.verdict == "clean" and out[0] == 1 and data.tolist() == [1, 77, 77, 77]
    second = Kernel(READ_BACK.replace("AT", "4"), "data:u64 out:u64")
    found = finding(second.run(data, out, block=1, uninitialized=[0]), "uninitialized-read")
    assert "offset 4" in found.message and found.location is not None
    assert found.location.line == second.line("read")
