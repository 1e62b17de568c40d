"""Tensor copies: boxes, fills, strides, im2col, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..case import In, KernelCase, Map, Out, aligned, kernel
from ..reference import Expected
from ..reference.expected import decode
from ..reference.reductions import combined, is_float
from ..reference.tensor import TensorBox
from .bulk_copy import DECLARED, DUMP, FILL, GROUP, POLICY, ROOM, WAIT, expect, operands

#: What the room holds before: no element of a tensor.
_BEFORE = np.full(ROOM // 8, 0xA5A5A5A5A5A5A5A5, np.uint64)


def _numbers(shape: Sequence[int], dtype: Any = np.uint16) -> NDArray[Any]:
    """1, 2, 3 ..., of which none is zero."""
    return np.arange(1, int(np.prod(shape)) + 1).astype(dtype).reshape(shape)


def _point(coordinates: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, coordinates)) + "}"


def _load(
    name: str,
    tensor: NDArray[Any],
    options: dict[str, Any],
    coordinates: Sequence[int],
    *,
    mode: str = "",
    offsets: Sequence[int] = (),
    at: int = 0,
    suffix: str = "",
    extra: str = "",
    covers: str = "cp.async.bulk.tensor.load",
) -> KernelCase:
    """One box at ``coordinates``, innermost first, to ``room+at``."""
    image = Map(2, options)
    nbytes = image.tensor_map(aligned(tensor)).box_bytes
    rank = tensor.ndim
    form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes{suffix}"
    filter_offsets = f", {_point(offsets)}" if offsets else ""
    lines = [
        FILL,
        POLICY,
        "mov.b16 %h1, 1;\n",
        expect(nbytes),
        f"@%p1 {form} [%r0+{at}], [%map, {_point(coordinates)}], [%r1]{filter_offsets}{extra};",
        WAIT,
        DUMP,
    ]

    def reference() -> list[Expected]:
        room = _BEFORE.copy()
        box = TensorBox(tensor.shape, tensor.itemsize, options, coordinates, offsets, at)
        box.loaded(tensor.view(f"u{tensor.itemsize}"), room.view(np.uint8))
        return [Expected(room)]

    return KernelCase(
        name,
        kernel("".join(lines), "given:u64 out:u64 tensor:u64 map:map", registers=DECLARED),
        (In(_BEFORE), Out(np.uint64, ROOM // 8), In(tensor), image),
        covers=(covers,),
        reference=reference,
    )


def _store(
    name: str,
    shape: Sequence[int],
    options: dict[str, Any],
    coordinates: Sequence[int],
    *,
    mode: str = "",
    reduce: str = "",
    target: NDArray[Any] | None = None,
    source: NDArray[Any] | None = None,
    covers: str = "cp.async.bulk.tensor.store",
) -> KernelCase:
    """The room's first bytes to ``coordinates`` of a tensor, which is looked at."""
    tensor = np.zeros(shape, np.uint16) if target is None else target
    given = _numbers((ROOM // 8,), np.uint64) * np.uint64(0x0003000500070009) if source is None else source
    verb = f"cp.reduce.async.bulk.tensor.{len(shape)}d" if reduce else f"cp.async.bulk.tensor.{len(shape)}d"
    lines = [
        FILL,
        f"@%p1 {verb}.global.shared::cta{reduce}{mode}.bulk_group [%map, {_point(coordinates)}], [%r0];\n",
        GROUP,
        "@%p1 cp.async.bulk.wait_group 0;\n",
    ]

    def reference() -> list[Expected]:
        words = tensor.view(f"u{tensor.itemsize}").copy()
        box = TensorBox(shape, tensor.itemsize, options, coordinates)
        room = given.reshape(-1).view(np.uint8)
        if not reduce:
            box.stored(room, words)
            return [Expected(words)]
        kind = options["dtype"]
        into = decode(words, kind).reshape(shape) if is_float(kind) else words
        box.stored(room, words, combined(reduce[1:], kind), into)
        return [Expected(into.reshape(-1), kind if is_float(kind) else "")]

    return KernelCase(
        name,
        kernel("".join(lines), "given:u64 out:u64 map:map", registers=DECLARED),
        (In(given), Out(tensor.dtype, tensor.shape, initial=tensor), Map(1, options)),
        covers=(covers,),
        reference=reference,
    )


def _boxes() -> list[KernelCase]:
    cases = []
    for rank, (shape, box, where) in enumerate(
        [
            ((100,), (24,), (88,)),
            ((9, 24), (4, 16), (16, -1)),
            ((5, 6, 16), (2, 3, 16), (-8, 4, 4)),
            ((3, 4, 5, 16), (2, 2, 2, 16), (8, -1, 3, 2)),
            ((3, 2, 4, 3, 8), (2, 2, 2, 2, 8), (0, 2, -1, 1, 2)),
        ],
        1,
    ):
        cases.append(_load(f"box of rank {rank}", _numbers(shape), {"box": box}, where))
        inside = [max(0, at) for at in where]
        cases.append(_store(f"store of rank {rank}", shape, {"box": box}, inside))
    matrix = _numbers((40, 104))
    # A box whose rows are shorter than the swizzle's span.
    for swizzle, inner in (("128B", 32), ("128B", 16), ("128B", 24), ("64B", 16), ("64B", 24), ("32B", 8)):
        options = {"box": (9, inner), "swizzle": swizzle}
        cases.append(_load(f"{inner} of {swizzle}", matrix, options, (8, 3), at=256))
        cases.append(_store(f"store {inner} of {swizzle}", (40, 104), options, (8, 3)))
    plain = {"box": (8, 16)}
    cases += [
        _load(
            "a policy",
            matrix,
            plain,
            (8, 3),
            suffix=".L2::cache_hint",
            extra=", %d9",
        ),
        _load(
            "a mask of this CTA alone",
            matrix,
            plain,
            (8, 3),
            suffix=".multicast::cluster",
            extra=", %h1",
        ),
    ]
    return cases


def _fills() -> list[KernelCase]:
    """Elements of every float type, NaNs and subnormal numbers among them, half of the box outside."""
    cases = []
    for name, dtype, element in (
        ("f16", np.float16, ""),
        ("bf16", ml_dtypes.bfloat16, ""),
        ("f32", np.float32, ""),
        ("tf32", np.float32, "tf32"),
        ("f32", np.float32, "f32.ftz"),
        ("tf32", np.float32, "tf32.ftz"),
        ("f64", np.float64, ""),
    ):
        said = element or name
        words = operands("f32" if name == "tf32" else name, f"tensor {said}", 8 * 16)
        tensor = words.view(dtype).reshape(8, 16)
        for fill in ("zeros", "nan"):
            options: dict[str, Any] = {"box": (8, 16), "oob_fill": fill}
            if element:
                options |= {"dtype": name, "element": element}
            cases.append(_load(f"{said} filled with {fill}", tensor, options, (8, 2)))
    return cases


def _strides() -> list[KernelCase]:
    cube, matrix = _numbers((7, 9, 16)), _numbers((12, 24))
    return [
        _load("every second row", matrix, {"box": (7, 16), "element_strides": (2, 1)}, (8, -3)),
        _load("every third row", matrix, {"box": (8, 16), "element_strides": (3, 1)}, (0, 5)),
        _load("columns with a stride", matrix, {"box": (4, 16), "element_strides": (2, 2)}, (0, 1)),
        _load("strides of two axes", cube, {"box": (5, 7, 16), "element_strides": (2, 3, 1)}, (0, 1, 3)),
        _load(
            "a stride and a swizzle",
            cube,
            {"box": (4, 8, 16), "element_strides": (1, 2, 1), "swizzle": "32B"},
            (0, -1, 4),
        ),
        _store("store every second row", (12, 24), {"box": (7, 16), "element_strides": (2, 1)}, (8, 3)),
    ]


def _im2col() -> list[KernelCase]:
    load = "cp.async.bulk.tensor.load.im2col"
    four = _numbers((3, 5, 6, 16))
    base = {"pixels": 20, "channels": 8, "lower": (-1, -1), "upper": (-1, -1)}

    def case(
        name: str, tensor: NDArray[Any], options: dict[str, Any], where: Any, offsets: Any
    ) -> KernelCase:
        return _load(name, tensor, options, where, mode=".im2col", offsets=offsets, covers=load)

    cases = [
        case("im2col from a corner", four, base, (0, -1, -1, 0), (0, 0)),
        case("im2col with offsets", four, base, (8, 2, 3, 1), (2, 1)),
        case("im2col past the last image", four, base, (0, 3, 3, 2), (1, 2)),
        case("im2col inside", four, base | {"lower": (0, 0), "upper": (-2, -2)}, (0, 2, 1, 0), (2, 2)),
        case("im2col upper above", four, base | {"lower": (-2, -1), "upper": (1, 2)}, (0, 4, 4, 0), (0, 0)),
        case("im2col strides", four, base | {"element_strides": (1, 2, 2, 1)}, (0, -1, 1, 0), (1, 1)),
        case("im2col strides 3 and 2", four, base | {"element_strides": (1, 3, 2, 1)}, (0, 1, -1, 0), (0, 1)),
        case("im2col channels past the last", four, base | {"channels": 16}, (8, 2, 2, 0), (0, 0)),
        case("im2col swizzled", four, base | {"channels": 16, "swizzle": "32B"}, (0, 1, 1, 0), (1, 0)),
        case(
            "im2col of rank 3",
            _numbers((4, 9, 8)),
            {"pixels": 24, "channels": 8, "lower": (-3,), "upper": (2,)},
            (0, 4, 1),
            (5,),
        ),
        case(
            "im2col of rank 5",
            _numbers((2, 3, 4, 5, 8)),
            {"pixels": 48, "channels": 8, "lower": (-1, 0, -1), "upper": (0, -1, 1)},
            (0, 2, 1, 0, 0),
            (1, 0, 1),
        ),
        case(
            "im2col filled with nan",
            np.arange(3 * 5 * 6 * 8, dtype=np.float16).reshape(3, 5, 6, 8),
            base | {"oob_fill": "nan"},
            (0, 1, 2, 1),
            (0, 0),
        ),
    ]
    store = "cp.async.bulk.tensor.store.im2col"
    for name, options, where in (
        ("from the first", {"lower": (0, 0), "upper": (0, 0)}, (0, 0, 0, 0)),
        ("within a box", {"lower": (1, 1), "upper": (-1, -2)}, (8, 2, 1, 0)),
        ("past the last image", {"lower": (0, 0), "upper": (0, 0)}, (0, 3, 3, 2)),
        # Above the upper edge it is an illegal instruction.
    ):
        cases.append(
            _store(
                f"im2col store {name}",
                (3, 5, 6, 16),
                {"pixels": 20, "channels": 8, **options},
                where,
                mode=".im2col_no_offs",
                covers=store,
            )
        )
    return cases


def _reductions() -> list[KernelCase]:
    """Each operation with each element type that has it; what is outside is left out."""
    kinds = {
        "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
        "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
        "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
        "inc": ("u32",),
        "dec": ("u32",),
        **{op: ("u32", "u64") for op in ("and", "or", "xor")},
    }
    dtypes = {
        **{
            kind: np.dtype(("i" if kind[0] == "s" else "u") + str(int(kind[1:]) // 8))
            for kind in ("u32", "s32", "u64", "s64")
        },
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
    }
    cases = []
    for op, names in kinds.items():
        for kind in names:
            dtype = dtypes[kind]
            columns = 128 // dtype.itemsize
            bits = operands(kind, f"tensor target {kind}", 6 * columns)
            # Floats are compared and kept as bits.
            target = bits.view(f"u{dtype.itemsize}").reshape(6, columns)
            source = operands(kind, f"tensor source {kind}", ROOM // dtype.itemsize)
            cases.append(
                _store(
                    f"{op}.{kind}",
                    (6, columns),
                    {"box": (5, columns // 2), "dtype": kind},
                    (columns // 2, 2),
                    reduce=f".{op}",
                    target=target,
                    source=source,
                    covers="cp.reduce.async.bulk.tensor",
                )
            )
    return cases


def _prefetches() -> list[KernelCase]:
    """They change nothing."""
    four = _numbers((3, 5, 6, 16))
    shown = "mad.wide.u32 %d2, %index, 8, %given;\nld.global.b64 %d3, [%d2];\nmad.wide.u32 %d4, %index, 8, %out;\n"
    cases = []
    for name, options, line in (
        (
            "cp.async.bulk.prefetch.tensor",
            {"box": (1, 2, 3, 8)},
            "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%map, {0, 1, -1, 2}];",
        ),
        (
            "cp.async.bulk.prefetch.tensor.im2col",
            {"pixels": 20, "channels": 8, "lower": (-1, -1), "upper": (-1, -1)},
            "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%map, {0, 1, -1, 2}], {1, 0};",
        ),
    ):
        cases.append(
            KernelCase(
                name,
                kernel(f"{line}\n{shown}st.global.b64 [%d4], %d3;", "given:u64 out:u64 map:map"),
                (In(four), Out(np.uint64, 32), Map(0, options)),
                covers=(name,),
                reference=lambda: [Expected(four.reshape(-1).view(np.uint64)[:32])],
            )
        )
    return cases


CASES = [
    *_boxes(),
    *_fills(),
    *_strides(),
    *_im2col(),
    *_reductions(),
    *_prefetches(),
]
