"""The launches of the texts of Triton and Gluon, and what they must compute."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.conformance.case import In, Map, Number, Out

from ..hopper.launches import Expected, flat, near, product
from ..inputs import F32, I32
from ..launches import i32, out
from .launches import (
    BF16,
    E4M3,
    Array,
    Case,
    attended,
    box,
    dense,
    few,
    fours,
    nibbles,
    scale_bytes,
    spread_scales,
    uniform,
)
from .texts_of import CORPUS, GLUON, TEXTS, TRITON

F16 = np.float16
Argument = In | Out | Number | Map


@cache
def _needs() -> Any:
    return json.loads((TEXTS / "texts.json").read_text())["needs"]


def _case(
    text: str,
    make: Callable[[], Sequence[Argument]],
    expected: Callable[..., Sequence[Expected]],
    grid: tuple[int, ...] = (1,),
    behind: Callable[[], Sequence[Argument]] = lambda: (),
    **options: Any,
) -> Case:
    """A launch; the two last parameters are scratch memory, which tensor maps are made in, and none.

    ``behind``: arrays that only tensor maps name.
    """
    language, _, name = text.partition(".")
    kernel = (GLUON if language == "gluon" else TRITON | CORPUS)[name]
    needs = _needs()[text]
    room = (
        In(np.zeros(needs["scratch"] * int(np.prod(grid)), np.uint8))
        if needs["scratch"]
        else Number(0, "u64")
    )
    return Case(
        text,
        kernel.function,
        lambda: (*make(), room, Number(0, "u64"), *behind()),
        expected,
        grid=grid,
        block=(needs["threads"],),
        cluster=(kernel.options.get("num_ctas", 1),),
        dynamic_smem=needs["shared"],
        parameters=len(make()) + 2,
        **options,
    )


def _mapped(of: int, rows: int, columns: int, shape: tuple[int, int], **options: Any) -> tuple[Argument, ...]:
    """What a host's tensor map is among the parameters: itself, the shape, the strides."""
    return (
        box(of, rows, columns, **options),
        i32(shape[0]),
        i32(shape[1]),
        Number(shape[1], "u64"),
        Number(1, "u64"),
    )


def _shaped(a: Array, b: Array, m: int, n: int, k: int, result: Any) -> Callable[[], tuple[Argument, ...]]:
    return lambda: (In(a), In(b), out(result, m, n), i32(m), i32(n), i32(k))


def _exact(dtype: Any, across: bool) -> Callable[..., Sequence[Expected]]:
    """Of the first two arguments; ``across``: B lies along N."""
    return lambda a, b, *given: [flat(dense(a, b.T if across else b).astype(F32).astype(dtype))]


def _attention(kind: str, unit: float, causal: bool, first: int) -> Callable[..., Sequence[Expected]]:
    def expected(*given: Any) -> list[Expected]:
        values, radius = attended(*given[first : first + 3], 0.18, unit, causal)
        return [near(values, kind, radius)]

    return expected


def _scaled(a: Array, a_scale: Array, b: Array, b_scale: Array) -> Array:
    left, right = (
        x.astype(np.float64) * np.repeat(2.0 ** (s.astype(np.float64) - 127), 32, 1)
        for x, s in ((a, a_scale), (b, b_scale))
    )
    return np.asarray((left @ right.T).astype(F32))


def _eights_scaled() -> Case:
    a, b = few("t.eights.a", 128, 128, E4M3), few("t.eights.b", 32, 128, E4M3)
    a_scale, b_scale = scale_bytes("t.eights.a.scale", 128, 4), scale_bytes("t.eights.b.scale", 32, 4)
    return _case(
        "triton.eights_scaled",
        lambda: (
            In(a.view(np.uint8)),
            In(a_scale),
            In(np.ascontiguousarray(b.T).view(np.uint8)),
            In(b_scale),
            out(F32, 128, 32),
        ),
        lambda *given: [flat(_scaled(a, a_scale, b, b_scale))],
    )


def _fours_scaled() -> Case:
    a, b = fours("t.fours.a", 128, 768), fours("t.fours.b", 128, 768)
    a_scale, b_scale = scale_bytes("t.fours.a.scale", 128, 24), scale_bytes("t.fours.b.scale", 128, 24)
    stored = (128, 384)
    # Arguments: a's map 0..4, scales 5, b's map 6..10, scales 11, c's map 12..16, K 17, scratch 18 and 19.
    return _case(
        "triton.fours_scaled",
        lambda: (
            *_mapped(20, 128, 128, stored),
            spread_scales(a_scale),
            *_mapped(21, 128, 128, stored),
            spread_scales(b_scale),
            *_mapped(22, 128, 32, (128, 128)),
            i32(768),
        ),
        lambda *given: [flat(_scaled(a, a_scale, b, b_scale))],
        behind=lambda: (nibbles(a), nibbles(b), out(F32, 128, 128)),
        review=frozenset({"undefined-register"}),
    )


def _gluon_scaled() -> Case:
    a, b = few("g.scaled.a", 128, 384, E4M3), few("g.scaled.b", 128, 384, E4M3)
    a_scale, b_scale = scale_bytes("g.scaled.a.scale", 128, 12), scale_bytes("g.scaled.b.scale", 128, 12)
    return _case(
        "gluon.scaled",
        lambda: (
            In(a.view(np.uint8)),
            In(b.view(np.uint8)),
            spread_scales(a_scale),
            spread_scales(b_scale),
            out(F32, 128, 128),
            i32(384),
        ),
        lambda *given: [flat(_scaled(a, a_scale, b, b_scale))],
    )


def _eights() -> Case:
    a, b = few("t.product.a", 128, 512, E4M3, -1, 2), few("t.product.b", 128, 512, E4M3)
    return _case(
        "triton.eights",
        lambda: (
            *_mapped(18, 128, 128, (128, 512)),
            *_mapped(19, 64, 128, (128, 512)),
            *_mapped(20, 128, 64, (128, 128)),
            i32(512),
        ),
        lambda *given: [flat(dense(a, b).astype(F16))],
        grid=(1, 2),
        behind=lambda: (In(a.view(np.uint8)), In(b.view(np.uint8)), out(F16, 128, 128)),
    )


def _cluster() -> Case:
    a, b = few("t.cluster.a", 256, 192, F16), few("t.cluster.b", 128, 192, F16)
    return _case(
        "triton.cluster",
        lambda: (
            *_mapped(18, 128, 64, (256, 192)),
            *_mapped(19, 64, 64, (128, 192)),
            *_mapped(20, 128, 64, (256, 128)),
            i32(192),
        ),
        lambda *given: [flat(dense(a, b).astype(F16))],
        grid=(2, 2),
        behind=lambda: (In(a), In(b), out(F16, 256, 128)),
    )


def _attention_specialised() -> Case:
    shape = (192, 64)
    return _case(
        "triton.attention_specialised",
        lambda: (
            *_mapped(24, 128, 64, shape),
            *_mapped(25, 64, 64, shape),
            *_mapped(26, 64, 64, shape),
            *_mapped(27, 128, 64, shape),
            i32(192),
            Number(0.18, "f32"),
        ),
        _attention("f16", 2.0**-11, False, 24),
        grid=(2,),
        behind=lambda: (
            *(In(uniform(f"t.special.{which}", *shape, F16, 2)) for which in "qkv"),
            out(F16, *shape),
        ),
    )


def _fma2(x: Array, y: Array, *given: Any) -> list[Expected]:
    last = (x + y * y).astype(np.float64)
    return [flat((x.astype(np.float64) * y + last).astype(F32))]


TRITON_CASES = [
    _case(
        "triton.halves",
        _shaped(few("t.halves.a", 128, 192, F16), few("t.halves.b", 192, 64, F16), 128, 64, 192, F16),
        _exact(F16, across=True),
        grid=(1, 2),
    ),
    _case(
        "triton.integers",
        lambda: (
            In(few("t.integers.a", 64, 96, np.int8, -128, 128)),
            In(few("t.integers.b", 64, 96, np.int8, -128, 128)),
            out(I32, 64, 64),
            i32(96),
        ),
        _exact(I32, across=False),
    ),
    *(
        _case(
            f"triton.{text}",
            _shaped(few(f"t.{text}.a", 130, 192, F16), few(f"t.{text}.b", 72, 192, F16), 130, 72, 192, F16),
            _exact(F16, across=False),
            grid=(2, 2),
        )
        for text in ("descriptors", "specialised")
    ),
    _case(
        "triton.persistent",
        _shaped(few("t.stays.a", 256, 128, BF16), few("t.stays.b", 128, 128, BF16), 256, 128, 128, BF16),
        _exact(BF16, across=True),
        grid=(2,),
    ),
    _eights_scaled(),
    _case(
        "triton.attention_causal",
        lambda: (
            *(In(uniform(f"t.causal.{which}", 256, 64, BF16, 2)) for which in "qkv"),
            out(BF16, 256, 64),
            i32(256),
            Number(0.18, "f32"),
        ),
        _attention("bf16", 2.0**-8, True, 0),
        grid=(2,),
    ),
    _eights(),
    _cluster(),
    _attention_specialised(),
    _fours_scaled(),
    _case(
        "gluon.roles",
        _shaped(few("g.roles.a", 256, 192, F16), few("g.roles.b", 192, 192, F16), 256, 192, 192, F16),
        _exact(F16, across=False),
        grid=(2,),
    ),
    _gluon_scaled(),
    _case(
        "gluon.pair",
        lambda: (
            In(uniform("g.pair.a", 256, 192, BF16)),
            In(uniform("g.pair.b", 192, 64, BF16)),
            out(F32, 256, 64),
            i32(256),
            i32(64),
            i32(192),
        ),
        lambda a, b, *given: [product(a, b.T, "f32")],
        grid=(2,),
    ),
    _case(
        "gluon.launch_control",
        lambda: (In(few("g.launch", 1, 1000, F32)), out(F32, 1000), i32(1000)),
        lambda x, *given: [flat(2 * x + (np.arange(1000) // 128).astype(F32))],
        grid=(8,),
        # Gluon takes the coordinates out of an answer whether there are any or not.
        review=frozenset({"launch-control-answer"}),
    ),
    _case(
        "gluon.packed",
        lambda: (
            In(uniform("g.packed.x", 1, 1024, F32)),
            In(uniform("g.packed.y", 1, 1024, F32)),
            out(F32, 1024),
            i32(1024),
        ),
        _fma2,
        grid=(2,),
    ),
]
