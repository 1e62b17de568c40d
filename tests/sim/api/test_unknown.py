"""Arrays of which only the type and the shape are known: how they are made, found, and refused by runs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import SpecError, TensorMap, sim
from pyptx.sim.api.unknown import arrays_in, unknown_addresses

COPY = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
    .reg .b64 %p<2>; .reg .b32 %v;
    ld.param.u64 %p0, [from];
    ld.param.u64 %p1, [to];
    ld.global.u32 %v, [%p0];
    st.global.u32 [%p1], %v;
    ret;
}
"""


def test_types_and_shapes() -> None:
    assert sim.unknown((3, 4), "bf16").dtype == ml_dtypes.bfloat16
    assert sim.unknown(7, np.float32).shape == (7,)
    assert sim.unknown([np.int64(2), 5], "u8").nbytes == 10


def test_views_and_what_is_computed_are_as_unknown() -> None:
    array = sim.unknown((8, 64), "f16")
    for each in (array[2:], array.reshape(-1), array.view(np.uint16), array + 1, array.copy()):
        assert isinstance(each, sim.UnknownArray)


@pytest.mark.parametrize("shape", [(), (0, 4), (-1,), (2.5,), "64", None])
def test_wrong_shapes(shape: Any) -> None:
    with pytest.raises(SpecError, match=r"expected one or more positive integers, outermost first"):
        sim.unknown(shape, "f32")


def test_types_that_arrays_do_not_have() -> None:
    with pytest.raises(SpecError, match=r"arrays have no elements of type \.b128"):
        sim.unknown(4, "b128")


def test_they_are_found_in_every_kind_of_argument() -> None:
    a, b, c, d = (sim.unknown((8, 64), "f16") for _ in range(4))
    known = np.zeros(4, np.float32)
    tiled = TensorMap.tiled(b, box=(8, 64))
    by_address = TensorMap.tiled(known.ctypes.data, shape=(4,), dtype="f32", box=(4,))
    args = [a, 7, tiled, by_address, [c, known, np.int32(3)], {0: d, 8: b"ab"}, [[tiled]], 2.5]
    assert [id(each) for each in arrays_in(args)] == [id(each) for each in (a, b, c, known, d, b)]
    assert unknown_addresses(args) == {each.ctypes.data for each in (a, b, c, d)}


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_needs_contents(stream: bool) -> None:
    launch: dict[str, Any] = {"grid": 1, "block": 1, "args": [sim.unknown(4, "u32"), np.zeros(4, np.uint32)]}
    with pytest.raises(SpecError, match=r"contents of the array \(4,\) u32 are not known: a run needs them"):
        if stream:
            sim.Stream().launch(COPY, **launch).run()
        else:
            sim.load(COPY).launch(**launch)
