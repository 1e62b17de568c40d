"""Tensor copies: every swizzle with every inner box and number of rows, every type, every edge of every rank.

Each kernel makes many copies (:mod:`..rounds`): what differs is a map, coordinates and a shared address.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..case import KernelCase
from ..rounds import Round, loads, stores
from .bulk_copy import operands

_SPANS = {"none": 256, "32B": 32, "64B": 64, "128B": 128}
#: Inner boxes in bytes; without a swizzle there is no greatest one.
_INNER = {"none": (16, 32, 48, 80, 128, 256), "32B": (16, 32), "64B": (16, 32, 48, 64)}
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12)


def _numbers(count: int, dtype: Any = np.uint16, first: int = 1) -> NDArray[Any]:
    return np.arange(first, first + count).astype(dtype)


def _rooms(count: int, dtype: Any = np.uint16, room: int = 2048) -> NDArray[Any]:
    """What is stored from: other numbers in each room."""
    each = room // np.dtype(dtype).itemsize
    return np.stack([_numbers(each, dtype, 1 + 1000 * number) for number in range(count)])


# --- swizzles -----------------------------------------------------------------------------------


def _swizzled() -> Iterator[KernelCase]:
    """Rows 1 to 8 and more, from every line of the pattern; also beyond the tensor, where all is filled."""
    matrix = _numbers(24 * 256).reshape(24, 256)
    for swizzle in _SPANS:
        for inner in _INNER.get(swizzle, tuple(range(16, 129, 16))):
            maps = [{"box": (rows, inner // 2), "swizzle": swizzle} for rows in _ROWS]
            pitch = inner if swizzle == "none" else _SPANS[swizzle]
            rounds = []
            for number, rows in enumerate(_ROWS):
                # As far into the room as the box allows, another line of the pattern for each.
                most = (4096 - rows * pitch) // 128
                at = 128 * min(most, (3 * number + 1) % 8)
                rounds.append(Round(number, (8 * (number % 5), number), at=at))
            rounds.append(Round(7, (8, -3), at=0))
            rounds.append(Round(8, (248, 20), at=128))
            name = f"{inner} bytes of {swizzle}"
            yield loads(name, matrix, maps, rounds, room=4096)
            inside = [
                Round(
                    one.map, (one.coordinates[0], max(0, one.coordinates[1])), at=one.at % 1024 // 128 * 128
                )
                for one in rounds
            ]
            if inner in (16, 48, 64, 128):
                target = np.zeros((24, 256), np.uint16)
                yield stores(f"store {name}", target, maps, inside, _rooms(len(inside), room=4096), room=4096)


# --- types --------------------------------------------------------------------------------------

_TYPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "u8": (np.uint8, {}),
    "u16": (np.uint16, {}),
    "u32": (np.uint32, {}),
    "s32": (np.int32, {}),
    "u64": (np.uint64, {}),
    "s64": (np.int64, {}),
    "f16": (np.float16, {}),
    "bf16": (ml_dtypes.bfloat16, {}),
    "f32": (np.float32, {}),
    "f64": (np.float64, {}),
    "f32.ftz": (np.float32, {"dtype": "f32", "element": "f32.ftz"}),
    "tf32": (np.float32, {"dtype": "tf32", "element": "tf32"}),
    "tf32.ftz": (np.float32, {"dtype": "tf32", "element": "tf32.ftz"}),
}


def _typed() -> Iterator[KernelCase]:
    """Each type with each swizzle, some axes in steps, with what fills the outside."""
    for name, (dtype, element) in _TYPES.items():
        size = np.dtype(dtype).itemsize
        unit = 16 // size
        plain = np.dtype(dtype).kind in "ui"
        if plain:
            words = _numbers(6 * 5 * 12 * unit, dtype)
        else:
            words = operands(name.split(".")[0].replace("tf32", "f32"), f"typed {name}", 6 * 5 * 12 * unit)
        tensor = words.view(dtype).reshape(6, 5, 12 * unit)
        maps: list[dict[str, Any]] = [
            {"box": (2, 3, inner * unit), "swizzle": swizzle, **element}
            for swizzle, inner in (("none", 3), ("32B", 2), ("64B", 3), ("128B", 8))
        ]
        maps.append({"box": (3, 4, 2 * unit), "element_strides": (2, 3, 1), **element})
        if not plain:
            maps.append({"box": (2, 3, 4 * unit), "oob_fill": "nan", **element})
        rounds = [
            Round(number, (unit * along, across, deep), at=128 * (number % 3))
            for number in range(len(maps))
            for along, across, deep in ((1, 1, 2), (10, -1, 5), (-2, 3, -1))
        ]
        yield loads(f"elements of {name}", tensor, maps, rounds)
        inside = [
            Round(one.map, tuple(max(0, at) for at in one.coordinates), at=one.at)
            for one in rounds
            if one.coordinates[1] >= 0
        ]
        target = np.zeros((6, 5, 12 * unit), f"u{size}").view(dtype)
        given = _rooms(len(inside), f"u{size}")
        yield stores(f"store elements of {name}", target, maps, inside, given)


# --- edges --------------------------------------------------------------------------------------


def _around(extent: int, length: int, unit: int) -> list[int]:
    """Where a box of ``length`` begins, from wholly before an axis to wholly behind it."""
    candidates = (
        -length - unit,
        -length,
        -length + 1,
        -1,
        0,
        extent - length,
        extent - 1,
        extent,
        extent + length,
    )
    return list(dict.fromkeys(one // unit * unit for one in candidates))


def _edges() -> Iterator[KernelCase]:
    """Of every rank each axis partly and wholly outside, at either side, the others inside."""
    shapes = ((72,), (9, 40), (5, 6, 24), (4, 3, 5, 24), (3, 4, 3, 4, 16))
    for rank, shape in enumerate(shapes, 1):
        tensor = _numbers(int(np.prod(shape))).reshape(shape)
        box = (*(2, 3, 2, 3)[: rank - 1], 16)
        maps: list[dict[str, Any]] = [{"box": box}]
        if rank > 1:
            maps += [
                {"box": box, "swizzle": "32B"},
                {"box": (*(4, 5, 3, 3)[: rank - 1], 16), "element_strides": (*(2, 3, 1, 2)[: rank - 1], 1)},
            ]
        rounds = []
        for axis in range(rank):
            unit = 8 if axis == rank - 1 else 1
            for first in _around(shape[axis], box[axis], unit):
                where = [1] * (rank - 1) + [8]
                where[axis] = first
                rounds.append(Round(len(rounds) % len(maps), tuple(where[::-1])))
        for corner in itertools.product((0, 1), repeat=rank):
            where = [(-1, shape[axis] - 1)[side] for axis, side in enumerate(corner)]
            where[-1] = where[-1] // 8 * 8
            rounds.append(Round(len(rounds) % len(maps), tuple(where[::-1])))
        yield loads(f"edges of rank {rank}", tensor, maps, rounds)
        inside = [one for one in rounds if min(one.coordinates) >= 0]
        target = np.zeros(shape, np.uint16)
        yield stores(f"store at edges of rank {rank}", target, maps, inside, _rooms(len(inside)))


def _far() -> Iterator[KernelCase]:
    """Coordinates far outside, and a tensor that is one view of its array."""
    cube = _numbers(6 * 8 * 32).reshape(6, 8, 32)
    maps: list[dict[str, Any]] = [
        {"box": (2, 2, 8)},
        {"box": (2, 2, 8), "shape": (3, 4, 16), "strides": (1024, 128, 2), "dtype": "u16"},
        {"box": (4, 1, 8), "shape": (4, 6, 32), "strides": (0, 512, 2), "dtype": "u16"},
    ]
    far = (1 << 31) - 8
    points = (
        (8, 1, 1),
        (far, 0, 0),
        (0, far, 1),
        (0, 1, far),
        (-far, 0, 0),
        (0, -far, 1),
        (0, 1, -far),
        (8, 3, 2),
    )
    rounds = [Round(number, point) for number in range(len(maps)) for point in points]
    yield loads("far outside", cube, maps, rounds, room=512)
    inside = [one for one in rounds if min(one.coordinates) >= 0 and one.map == 0]
    yield stores(
        "store far outside", np.zeros_like(cube), maps[:1], inside, _rooms(len(inside), room=512), room=512
    )


# --- im2col -------------------------------------------------------------------------------------


def _pixels() -> Iterator[KernelCase]:
    """Of each rank boxes with corners in and out, steps, swizzles; filters anywhere in them; channels outside."""
    shapes = {3: (3, 11, 24), 4: (2, 5, 6, 24), 5: (2, 3, 4, 3, 24)}
    corners: dict[int, list[tuple[Any, Any, Any]]] = {
        3: [((-1,), (-1,), (1,)), ((2,), (1,), (1,)), ((-3,), (3,), (2,)), ((0,), (0,), (3,))],
        4: [((-1, -1), (-1, -1), (1, 1)), ((0, 1), (0, -2), (1, 1)), ((-2, 0), (2, 1), (2, 1)), ((-1, 1), (0, 0), (2, 3))],
        5: [
            ((-1, -1, -1), (-1, -1, -1), (1, 1, 1)), ((0, 0, 0), (0, 0, 0), (1, 1, 1)),
            ((0, -2, 1), (1, 0, 0), (1, 2, 1)), ((-1, 0, -1), (1, 1, 1), (2, 1, 2)),
        ],
    }  # fmt: skip
    for rank, shape in shapes.items():
        tensor = _numbers(int(np.prod(shape))).reshape(shape)
        maps: list[dict[str, Any]] = []
        for number, (lower, upper, steps) in enumerate(corners[rank]):
            swizzle = ("none", "32B", "64B", "128B")[number]
            maps.append({
                "pixels": (13, 24, 9, 15)[number], "channels": (8, 16, 24, 16)[number], "lower": lower, "upper": upper,
                "element_strides": (1, *steps, 1), "swizzle": swizzle,
            })  # fmt: skip
        rounds = []
        for number, (lower, upper, _) in enumerate(corners[rank]):
            last = [extent - 1 + high for extent, high in zip(shape[1:-1], upper, strict=True)]
            middle = [(a + b) // 2 for a, b in zip(lower, last, strict=True)]
            for start, image, channel, shift in (
                (lower, 0, 0, 0),
                (last, 1, 8, 2),
                (middle, 0, 16, 1),
                (middle, -1, -8, 0),
            ):
                offsets = (
                    tuple((shift + axis) % 3 for axis in range(rank - 2)) if shift else (0,) * (rank - 2)
                )
                rounds.append(Round(number, (channel, *start[::-1], image), offsets))
        yield loads(
            f"pixels of rank {rank}", tensor, maps, rounds, mode=".im2col", covers="cp.async.bulk.tensor.load.im2col"
        )  # fmt: skip
        # Stores must not leave the image but past the last one.
        options: list[dict[str, Any]] = [
            {"pixels": 10, "channels": channels, "lower": (0,) * (rank - 2), "upper": (0,) * (rank - 2), "swizzle": swizzle}
            for channels, swizzle in ((8, "none"), (16, "64B"))
        ]  # fmt: skip
        places = [
            Round(number, (channel, *(extent - 1 - back for extent in shape[-2:0:-1]), image))
            for number in (0, 1)
            for channel, back, image in ((0, 2, 0), (8, 0, 0), (16, 1, shape[0] - 1))
        ]
        target = np.zeros(shape, np.uint16)
        yield stores(
            f"store pixels of rank {rank}", target, options, places, _rooms(len(places)), mode=".im2col_no_offs",
            covers="cp.async.bulk.tensor.store.im2col",
        )  # fmt: skip
        words = _numbers(int(np.prod(shape)), np.uint32).reshape(shape)
        wide = [{**one, "channels": one["channels"] // 2} for one in options]
        yield stores(
            f"add to pixels of rank {rank}", words, wide, places, _rooms(len(places), np.uint32),
            mode=".im2col_no_offs", reduce=("add", "u32"), covers="cp.reduce.async.bulk.tensor",
        )  # fmt: skip


# --- reductions ---------------------------------------------------------------------------------


def _reduced() -> Iterator[KernelCase]:
    """Of every rank, through swizzles, in steps and over the edge."""
    shapes = ((72,), (9, 40), (5, 6, 24), (4, 3, 5, 24), (3, 4, 3, 4, 16))
    ops = (("add", "u32"), ("max", "s32"), ("xor", "u32"), ("min", "u32"), ("inc", "u32"))
    for rank, (shape, (op, kind)) in enumerate(zip(shapes, ops, strict=True), 1):
        dtype = np.int32 if kind == "s32" else np.uint32
        box = (*(2, 3, 2, 3)[: rank - 1], 8)
        maps: list[dict[str, Any]] = [{"box": box}]
        if rank > 1:
            maps += [
                {"box": box, "swizzle": "32B"},
                {"box": (*(4, 5, 3, 3)[: rank - 1], 16), "element_strides": (*(2, 3, 1, 2)[: rank - 1], 1), "swizzle": "64B"},
            ]  # fmt: skip
        rounds = []
        for axis in range(rank):
            unit = 4 if axis == rank - 1 else 1
            for first in _around(shape[axis], box[axis], unit):
                where = [1] * (rank - 1) + [8]
                where[axis] = first
                if first >= 0:
                    rounds.append(
                        Round(len(rounds) % len(maps), tuple(where[::-1]), at=128 * (len(rounds) % 5))
                    )
        tensor = _numbers(int(np.prod(shape)), dtype, -50 if kind == "s32" else 1).reshape(shape)
        yield stores(
            f"{op}.{kind} over edges of rank {rank}", tensor, maps, rounds, _rooms(len(rounds), dtype),
            reduce=(op, kind), covers="cp.reduce.async.bulk.tensor",
        )  # fmt: skip
    for kind, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)):
        size = np.dtype(dtype).itemsize
        tensor = operands(kind, f"edges {kind}", 6 * 128 // size).view(dtype).reshape(6, 128 // size)
        source = operands(kind, f"edge sums {kind}", 2048 // size)
        maps = [{"box": (5, 64 // size), "swizzle": "64B", "element_strides": (2, 1)}]
        yield stores(
            f"sums of {kind} over an edge", tensor, maps, [Round(0, (96 // size, 3), at=256)], source,
            reduce=("add", kind), covers="cp.reduce.async.bulk.tensor",
        )  # fmt: skip


CASES = [*_swizzled(), *_typed(), *_edges(), *_far(), *_pixels(), *_reduced()]
