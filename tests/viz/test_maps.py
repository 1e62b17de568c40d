"""Tensor maps: the boxes cover the tensor, the chosen box is clipped, and the arguments are the driver's."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import SpecError, TensorMap, UnsupportedError, f16, viz
from tests.viz.reading import cells


def test_a_box_that_hangs_over_the_edge() -> None:
    array = np.zeros((300, 192), np.float16)
    map = TensorMap.tiled(array, box=(128, 64), swizzle="128B")
    figure = viz.tensor_map(map, (64, 256))
    boxes = cells(figure, slice=-1, columns=...)
    times = np.zeros(array.shape, int)
    for each in boxes:
        if "box" not in each.data:
            row, column = each.number("row"), each.number("column")
            times[row : row + each.number("rows"), column : column + each.number("columns")] += 1
    assert (times == 1).all()
    (inside,) = cells(figure, box="inside")
    assert [inside.number(name) for name in ("row", "column", "rows", "columns")] == [256, 64, 44, 64]
    (whole,) = cells(figure, box="whole")
    assert whole.height / inside.height == pytest.approx(128 / 44, rel=1e-3) and whole.width == inside.width
    arguments, driver = groups_of(figure), map.driver_arguments()
    assert arguments["globalDim"] == ", ".join(str(n) for n in driver.dims) == "192, 300"
    assert arguments["globalStrides"] == f"{driver.strides[0]} bytes" == "384 bytes"
    assert arguments["boxDim"] == ", ".join(str(n) for n in driver.box) == "64, 128"
    assert (arguments["swizzle"], arguments["coordinates"]) == ("128B", "64, 256")


def groups_of(figure: viz.Figure) -> dict[str, str]:
    from tests.viz.reading import root_of

    return {
        each.attrib["data-argument"]: each.attrib["data-value"]
        for each in root_of(figure).iter()
        if "data-argument" in each.attrib
    }


def test_slices() -> None:
    array = np.zeros((128, 256), np.float16)
    map = TensorMap.tiled(array, shape=(4, 128, 64), strides=(128, 512, 2), box=(2, 64, 64), swizzle="128B")
    figure = viz.tensor_map(map, (0, 64, 1))
    assert not cells(figure, box="whole")
    assert [(each.number("slice"), each.number("row")) for each in cells(figure, box="inside")] == [
        (1, 64),
        (2, 64),
    ]
    assert groups_of(figure)["globalStrides"] == "512, 128 bytes"


def test_errors_have_the_line_of_the_call() -> None:
    map = TensorMap.tiled(np.zeros((128, 64), np.float16), box=(64, 64))
    line = TensorMap.tiled(np.zeros(64, np.float16), box=(32,))
    small = TensorMap.tiled(0x1000, dtype=f16, shape=(4096, 4096), box=(8, 8))
    for call, error in (
        (lambda: viz.tensor_map(map, (0,)), SpecError),
        (lambda: viz.tensor_map(map, (64, 0)), SpecError),
        (lambda: viz.tensor_map(small), SpecError),
        (lambda: viz.tensor_map(line), UnsupportedError),
    ):
        with pytest.raises(error) as caught:
            call()
        location = caught.value.location  # type: ignore[attr-defined]
        assert location is not None and location.file == __file__, caught.value
