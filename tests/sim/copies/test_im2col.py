"""Tensor copies in im2col order: the walk through the bounding box, offsets, strides, edges, stores."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from pyptx.layout import TensorMap
from tests.conformance.reference.tensor import walk
from tests.sim.copies.test_boxes import load_kernel, loaded, store_kernel, stored
from tests.sim.copies.test_tma import AREA, POISON
from tests.sim.memory.test_memory import finding


def pixel_case(rank: int, generator: random.Random) -> dict[str, Any]:
    axes = rank - 2
    spatial = tuple(generator.randint(2, 6) for _ in range(axes))
    lower = tuple(generator.randint(-2, 1) for _ in range(axes))
    upper = tuple(generator.randint(-1, 2) for _ in range(axes))
    # The box may not be empty.
    upper = tuple(max(u, low - n + 1) for u, low, n in zip(upper, lower, spatial, strict=True))
    start = tuple(
        generator.randint(low, n - 1 + high) for low, n, high in zip(lower, spatial, upper, strict=True)
    )
    return {
        "shape": (generator.randint(1, 3), *spatial),
        "lower": lower,
        "upper": upper,
        "steps": tuple(generator.randint(1, 3) for _ in range(axes)),
        "start": (generator.randint(0, 2), *start),
        "offsets": tuple(generator.randint(0, 2) for _ in range(axes)),
        "pixels": generator.randint(1, 60),
        "channel": 8 * generator.randint(-1, 3),
        "channels": 8 * generator.randint(1, 2),
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("fill", ["zeros", "nan"])
def test_loads(rank: int, fill: str) -> None:
    generator = random.Random(f"im2col {rank} {fill}")
    for number in range(10):
        case = pixel_case(rank, generator)
        offsets = ", {" + ", ".join(map(str, case["offsets"][::-1])) + "}"
        load = load_kernel(f"{rank}d", ".im2col", rank, offsets)
        shape = (*case["shape"], 24)
        tensor = np.arange(1, int(np.prod(shape)) + 1).astype(np.float16).reshape(shape)
        tensor_map = TensorMap.im2col(
            tensor,
            pixels=case["pixels"],
            channels=case["channels"],
            lower=case["lower"],
            upper=case["upper"],
            element_strides=(1, *case["steps"], 1),
            oob_fill=fill,
        )
        nbytes = case["pixels"] * case["channels"] * 2
        where = (case["channel"], *case["start"][::-1])
        got = loaded(load, tensor_map, nbytes, where, number)
        outside = 0x7FF7 if fill == "nan" else 0
        expected = []
        bases = walk(
            case["shape"], case["lower"], case["upper"], case["steps"], case["start"], case["pixels"]
        )
        for base in bases:
            at = (base[0], *(b + o for b, o in zip(base[1:], case["offsets"], strict=True)))
            within = all(0 <= i < n for i, n in zip(at, shape[:-1], strict=True))
            for channel in range(case["channel"], case["channel"] + case["channels"]):
                there = within and 0 <= channel < 24
                expected.append(int(tensor[(*at, channel)].view(np.uint16)) if there else outside)
        assert got[:nbytes].view(np.uint16).tolist() == expected, case
        assert (got[nbytes:] == POISON).all()


def test_an_example_of_the_manual() -> None:
    """Its first one, with fewer channels: the box goes from -1 to 7 in both directions."""
    shape = (14, 9, 9)
    bases = list(walk(shape, (-1, -1), (-1, -1), (1, 1), (4, 7, 7), 64))
    assert bases[:3] == [(4, 7, 7), (5, -1, -1), (5, -1, 0)]
    tensor = np.arange(14 * 9 * 9 * 8, dtype=np.uint16).reshape(14, 9, 9, 8)
    tensor_map = TensorMap.im2col(tensor, pixels=64, channels=8, lower=(-1, -1), upper=(-1, -1))
    load = load_kernel("4d", ".im2col", 4, ", {0, 0}")
    got = loaded(load, tensor_map, 64 * 16, (0, 7, 7, 4), 1)[: 64 * 16].view(np.uint16).reshape(64, 8)
    assert (got[0] == tensor[4, 7, 7]).all()
    # Row -1 of the next image is outside, then each row begins with a column outside.
    assert not got[1:10].any() and not got[10].any()
    assert (got[11:19] == tensor[5, 0, :8]).all()
    assert not got[19].any() and (got[20] == tensor[5, 1, 0]).all()


def test_a_swizzled_column() -> None:
    tensor = np.arange(1, 3 * 5 * 6 * 64 + 1, dtype=np.uint16).reshape(3, 5, 6, 64)
    tensor_map = TensorMap.im2col(tensor, pixels=20, channels=64, lower=(0, 0), upper=(0, 0), swizzle="128B")
    load = load_kernel("4d", ".im2col", 4, ", {0, 0}")
    got = loaded(load, tensor_map, 20 * 128, (0, 2, 1, 1), 2)
    pixels = tensor.reshape(-1, 64)[30 + 6 + 2 :]
    for pixel, chunk in itertools.product(range(20), range(8)):
        start = pixel * 128 + (chunk ^ pixel % 8) * 16
        assert got[start : start + 16].view(np.uint16).tolist() == pixels[pixel, 8 * chunk :][:8].tolist()


def test_stores() -> None:
    """What is past the last image is dropped."""
    store = store_kernel("4d", ".im2col_no_offs", 4)
    generator = random.Random("im2col stores")
    for number, (lower, upper, start) in enumerate(
        [((0, 0), (0, 0), (0, 0, 0)), ((1, 1), (-1, -2), (1, 1, 2)), ((0, 0), (0, 0), (2, 3, 3))]
    ):
        target = np.zeros((3, 5, 6, 16), np.uint16)
        area = np.frombuffer(generator.randbytes(AREA), np.uint8).copy()
        tensor_map = TensorMap.im2col(target, pixels=20, channels=8, lower=lower, upper=upper)
        stored(store, tensor_map, area, (8, *start[::-1]), number)
        expected = np.zeros((3, 5, 6, 16), np.uint16)
        values = area.view(np.uint16).reshape(-1, 8)
        for pixel, at in enumerate(walk((3, 5, 6), lower, upper, (1, 1), start, 20)):
            if at[0] < 3:
                expected[(*at, slice(8, 16))] = values[pixel]
        np.testing.assert_array_equal(target, expected)


def test_reductions() -> None:
    target = np.ones((3, 5, 6, 8), np.uint32)
    area = np.arange(AREA // 4, dtype=np.uint32)
    tensor_map = TensorMap.im2col(target, pixels=20, channels=4, lower=(0, 0), upper=(0, 0))
    store = store_kernel("4d", ".im2col_no_offs", 4, ".add")
    stored(store, tensor_map, area.view(np.uint8), (4, 1, 2, 2), 1)
    expected = np.ones((3 * 5 * 6, 8), np.uint32)
    first = 2 * 30 + 2 * 6 + 1
    expected[first:, 4:] += area[:68].reshape(17, 4)
    np.testing.assert_array_equal(target.reshape(-1, 8), expected)


def test_a_store_beside_an_image_is_found() -> None:
    """An H200 stops with an illegal instruction."""
    target = np.zeros((3, 5, 6, 8), np.uint16)
    tensor_map = TensorMap.im2col(target, pixels=20, channels=8, lower=(0, 0), upper=(1, 1))
    area = np.zeros(AREA, np.uint8)
    report = store_kernel("4d", ".im2col_no_offs", 4).run(
        tensor_map, area, area.copy(), 0, 0, 0, 4, 3, 0, block=128
    )
    assert "outside an image" in finding(report, "bad-tensor-map").message
    assert not target.any()


def test_a_store_names_the_mode_that_its_map_does_not_fit() -> None:
    target = np.zeros((3, 5, 6, 8), np.uint16)
    area = np.zeros(AREA, np.uint8)
    tiled = TensorMap.tiled(target, box=(1, 1, 4, 8))
    report = store_kernel("4d", ".im2col_no_offs", 4).run(
        tiled, area, area.copy(), 0, 0, 0, 0, 0, 0, block=128
    )
    message = finding(report, "bad-tensor-map").message
    assert message == "a tiled tensor map is used by a copy in the mode .im2col_no_offs"
