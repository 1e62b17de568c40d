"""wgmma: every type, N, swizzle and order of the operands, dense and sparse, A in shared memory and in registers.

Which element lies where in shared memory does not matter for a recording: the areas that the descriptors name are
filled with elements of one format.  Each CTA is one warpgroup with operands of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyptx.isa import Match
from pyptx.layout import WgmmaDescriptor, box_strides

from ..case import In, KernelCase, Out, kernel
from ..fragments import FLOAT_MODES, FLOATS, elements, index_words, matches, pack, width
from ..reference.product import DIGEST, Operand, Product

_ORDER = ("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
_TYPES = ("f16", "f32", "bf16", "tf32", "e4m3", "e5m2", "s32", "s8", "u8", "b1")

#: What A and B, and D, hold, and scale-d.
Mode = tuple[str, str, int]

_ALL_FLOATS: tuple[Mode, ...] = (*((ab, c, 1) for ab, c in FLOAT_MODES), ("wide", "special", 0))
_SOME_FLOATS: tuple[Mode, ...] = (
    ("near", "wide", 1),
    ("wide", "near", 1),
    ("special", "special", 0),
    ("any", "any", 1),
)
_ALL_INTEGERS: tuple[Mode, ...] = (("any", "any", 1), ("edge", "edge", 1), ("any", "edge", 0))
_ONE: tuple[Mode, ...] = (("integers", "integers", 1),)


@dataclass(frozen=True)
class Area:
    """Where an operand lies: its descriptor with an address relative to the areas, and how many bytes it takes."""

    descriptor: WgmmaDescriptor
    nbytes: int


def boxes(rows: int, k: int, size: int, swizzle: str = "none", major: str = "K", base: int = 0) -> Area:
    """A tile of TMA boxes one after the other; K-major boxes may be wider than K."""
    span = SPANS[swizzle]
    along, across = (k, rows) if major == "K" else (rows, k)
    leading, stride = box_strides(across, span, swizzle, major)  # type: ignore[arg-type]
    count = -(-along * size // 8 // span)
    return Area(WgmmaDescriptor(base, leading, stride, swizzle), count * across * span)


def kinds_of(match: Match) -> tuple[str, str, str]:
    d, a, b = (word for word in match.spelling if word in _TYPES)
    return d, a, b


def extents(match: Match) -> tuple[int, int]:
    shape = next(word for word in match.spelling if word.startswith("m64n"))
    n, _, k = shape[4:].partition("k")
    return int(n), int(k)


def product_of(
    match: Match,
    modes: tuple[Mode, ...],
    label: str = "",
    *,
    a: Area | None = None,
    b: Area | None = None,
    scales: tuple[int, int] = (1, 1),
    trans: tuple[int, int] = (0, 0),
    selector: int = 0,
    steps: int = 1,
    covers: tuple[str, ...] = (),
    digest: bool = False,
    long: bool = False,
) -> KernelCase:
    """One variant with operands in given places; ``steps`` of K into one accumulator, 32 bytes further each.

    ``digest``: each thread keeps one word made of all its words of D, which must be exact.
    """
    registers_too = " registers" if match.form.id.endswith(".rs") else ""
    name = f"{match.name}{registers_too} {label}".rstrip()
    specs = {spec.name: spec for spec in match.form.specs()}
    kinds = kinds_of(match)
    n, k = extents(match)
    sparse, in_registers = "sp-meta" in specs, "a" in specs
    size = width(kinds[1])
    a = a or boxes(64, k // 2 if sparse else k, size)
    b = b or boxes(n, k, size)
    first_b = 0 if in_registers else -(-a.nbytes // 1024) * 1024
    total = -(-(first_b + b.nbytes + b.descriptor.address + 32 * (steps - 1)) // 512) * 512
    d_count = specs["d"].length(match.chosen)
    assert d_count is not None

    given, images = [], []
    for i, (ab, c, accumulate) in enumerate(modes):
        image = np.concatenate([
            pack(elements(f"{name} {what} {i}", nbytes * 8 // size, kind, ab), size)
            for what, kind, nbytes in (("a", kinds[1], first_b), ("b", kinds[2], total - first_b))
        ])  # fmt: skip
        images.append(image)
        per_thread: list[Any] = [np.full((128, 1), accumulate, np.uint32)]
        if in_registers:
            codes = elements(f"{name} registers {i}", 128 * 4 * 32 // size, kinds[1], ab)
            per_thread.append(pack(codes, size).reshape(128, 4))
        if sparse:
            per_thread.append(index_words(f"{name} metadata {i}", 128, kinds[1]).reshape(128, 1))
        each = 32 // width(kinds[0])
        codes = elements(f"{name} d {i}", 128 * d_count * each, kinds[0], c)
        per_thread.append(pack(codes, width(kinds[0])).reshape(128, d_count))
        given.append(np.hstack(per_thread))
    words = np.ascontiguousarray(np.stack(given))

    registers = [f"%c{i}" for i in range(d_count)]
    loaded = [
        "%r8",
        *(["%r0", "%r1", "%r2", "%r3"] if in_registers else []),
        *(["%r9"] if sparse else []),
        *registers,
    ]
    assert len(loaded) == words.shape[-1]
    operands = {
        "d": "{" + ", ".join(registers) + "}",
        "a": "{%r0, %r1, %r2, %r3}",
        "a-desc": "%d8",
        "b-desc": "%d9",
        "sp-meta": "%r9",
        "sp-sel": str(selector),
        "scale-d": "%p0",
        "imm-scale-a": str(scales[0]),
        "imm-scale-b": str(scales[1]),
        "imm-trans-a": str(trans[0]),
        "imm-trans-b": str(trans[1]),
    }
    call = f"{match.name} {', '.join(operands[name] for name in specs)};"
    areas = ((8, a.descriptor, 0), (9, b.descriptor, first_b))
    body = [
        "mov.u32 %r4, %ctaid.x;",
        f"mad.wide.u32 %d0, %r4, {total}, %image;",
        "mad.wide.u32 %d0, %thread, 4, %d0;",
        "mov.u32 %r5, area;",
        "mad.lo.u32 %r6, %thread, 4, %r5;",
        *(
            line
            for offset in range(0, total, 512)
            for line in (f"ld.global.b32 %r7, [%d0+{offset}];", f"st.shared.b32 [%r6+{offset}], %r7;")
        ),
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        f"mad.wide.u32 %d1, %index, {4 * len(loaded)}, %given;",
        *(f"ld.global.b32 {register}, [%d1+{4 * i}];" for i, register in enumerate(loaded)),
        "setp.ne.u32 %p0, %r8, 0;",
    ]
    for number, descriptor, first in areas:
        constant = replace(descriptor, address=0).encode()
        body += [
            f"add.u32 %r10, %r5, {first + descriptor.address};",
            "bfe.u32 %r10, %r10, 4, 14;",
            f"cvt.u64.u32 %d{number}, %r10;",
            f"or.b64 %d{number}, %d{number}, {constant:#x};",
        ]
    operands_in_memory = [
        Operand(
            first + d.address,
            d.leading_bytes,
            d.stride_bytes,
            d.swizzle,
            d.base_offset,
            "MN" if turned else "K",
        )
        for (_, d, first), turned in zip(areas, trans, strict=True)
    ]
    product = Product(
        kinds, n, k, None if in_registers else operands_in_memory[0], operands_in_memory[1], images, words, scales,
        selector if sparse else None, steps, "satfinite" in match.chosen,
        [kinds[1] not in FLOATS or mode[:2] == ("integers", "integers") for mode in modes],
    )  # fmt: skip
    body.append("wgmma.fence.sync.aligned;")
    for step in range(steps):
        if step:
            body += ["add.u64 %d8, %d8, 2;", "add.u64 %d9, %d9, 2;"]
        body.append(call)
    body += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    kept = registers
    if digest:
        body.append("mov.b32 %r11, 0;")
        for register in registers:
            body += [f"mov.b32 %r12, {register};", f"mad.lo.u32 %r11, %r11, {DIGEST}, %r12;"]
        kept = ["%r11"]
    body.append(f"mad.wide.u32 %d2, %index, {4 * len(kept)}, %out;")
    body += [f"st.global.b32 [%d2+{4 * i}], {register};" for i, register in enumerate(kept)]
    return KernelCase(
        name,
        kernel(
            "\n".join(body),
            "image:u64 given:u64 out:u64",
            registers=f".reg .{'f32' if kinds[0] == 'f32' else 'b32'} %c<{d_count}>;\n.shared .align 1024 .b8 area[{total}];\n",
            like=f"{match.form.id} {kinds} {digest}",
        ),
        (In(np.stack(images)), In(words), Out(np.uint32, (len(modes), 128, len(kept)))),
        grid=(len(modes),),
        block=(128,),
        covers=(match.form.id, *covers),
        reference=lambda: [product.digest() if digest else product.expected()],
        long=long,
    )


def _forms(*, sparse: bool) -> list[str]:
    return [
        f"wgmma.mma_async.{'sp.' if sparse else ''}{kind}.{where}"
        for kind in ("f16", "tf32", "fp8", "int", *(() if sparse else ("b1",)))
        for where in ("ss", "rs")
    ]


def _types() -> Iterator[KernelCase]:
    """Every combination of types at N = 8, with every selector."""
    for sparse in (False, True):
        for identifier in _forms(sparse=sparse):
            for match in matches(identifier):
                if extents(match)[0] != 8:
                    continue
                floats = kinds_of(match)[1] in FLOATS
                if not floats:
                    modes = _ALL_INTEGERS
                else:
                    modes = _ALL_FLOATS if identifier.endswith("ss") else _SOME_FLOATS
                if not sparse:
                    yield product_of(match, modes)
                else:
                    spec = next(spec for spec in match.form.specs() if spec.name == "sp-sel")
                    assert spec.values is not None
                    for selector in spec.values:
                        yield product_of(match, modes, f"selector {selector}", selector=int(selector))
                if floats and identifier.endswith("ss"):
                    yield product_of(match, _SOME_FLOATS, "A negated", scales=(-1, 1))
                    yield product_of(match, _SOME_FLOATS[:2], "B negated", scales=(1, -1))


def _by_name(text: str) -> Match:
    """The variant of ``f32.bf16.bf16 m64n16k16``-like words, A in shared memory."""
    types, _, shape = text.partition(" ")
    a = types.split(".")[1]
    kind = {"bf16": "f16", "e4m3": "fp8", "e5m2": "fp8", "s8": "int", "u8": "int"}.get(a, a)
    wanted = (*types.split("."), shape)
    return next(
        match
        for match in matches(f"wgmma.mma_async.{kind}.ss")
        if (*kinds_of(match), next(w for w in match.spelling if w.startswith("m64n"))) == wanted
        and "satfinite" not in match.chosen
    )


def _widths() -> Iterator[KernelCase]:
    """Every N, with the accumulator of each size."""
    for n in range(16, 257, 8):
        yield product_of(_by_name(f"f16.f16.f16 m64n{n}k16"), _ONE, "width")
        if n <= 24 or n % 16 == 0:
            yield product_of(_by_name(f"s32.s8.u8 m64n{n}k32"), (("any", "edge", 0),), "width")
    for n in (64, 128, 256):
        yield product_of(_by_name(f"f32.bf16.bf16 m64n{n}k16"), _ONE, "width")


def _layouts() -> Iterator[KernelCase]:
    """Every swizzle in every order, a pattern that starts elsewhere, and boxes that do not follow each other."""
    wide = _by_name("f32.f16.f16 m64n64k16")
    for swizzle in SPANS:
        for x in ("K", "MN"):
            for y in ("K", "MN"):
                yield product_of(
                    wide, _ONE, f"{swizzle} {x} {y}", trans=(int(x == "MN"), int(y == "MN")),
                    a=boxes(64, 16, 16, swizzle, x), b=boxes(64, 16, 16, swizzle, y),
                )  # fmt: skip
        for text, size, k in (("f32.tf32.tf32 m64n16k8", 32, 8), ("f32.e4m3.e5m2 m64n16k32", 8, 32), ("s32.u8.s8 m64n16k32", 8, 32)):  # fmt: skip
            modes = _ONE if size == 32 or text.startswith("f") else _ALL_INTEGERS[:1]
            yield product_of(
                _by_name(text), modes, f"{swizzle} K K",
                a=boxes(64, k, size, swizzle), b=boxes(16, k, size, swizzle),
            )  # fmt: skip
    small = _by_name("f32.f16.f16 m64n16k16")
    for start in (1, 5):
        moved = boxes(16, 16, 16, "128B", base=128 * start)
        yield product_of(
            small, _ONE, f"pattern {start}", a=boxes(64, 16, 16, "128B"),
            b=replace(moved, descriptor=replace(moved.descriptor, base_offset=start)),
        )  # fmt: skip
        yield product_of(small, _ONE, f"rows {start}", a=boxes(64, 16, 16, "128B"), b=moved)
    for label, leading, stride in (("apart", 384, 1024), ("near", 16, 128), ("leading first", 128, 512)):
        yield product_of(small, _ONE, label, b=Area(WgmmaDescriptor(0, leading, stride, "none"), 2048))


def _sequences() -> Iterator[KernelCase]:
    """Steps of K along rows of 128 bytes, into one accumulator."""
    for text, size, k in (
        ("f32.f16.f16 m64n16k16", 16, 16), ("f16.f16.f16 m64n16k16", 16, 16), ("f32.bf16.bf16 m64n16k16", 16, 16),
        ("f32.tf32.tf32 m64n16k8", 32, 8), ("f32.e4m3.e4m3 m64n16k32", 8, 32), ("f16.e5m2.e4m3 m64n16k32", 8, 32),
        ("s32.s8.s8 m64n16k32", 8, 32),
    ):  # fmt: skip
        modes = _ALL_INTEGERS if text.startswith("s") else _SOME_FLOATS
        yield product_of(
            _by_name(text), modes, "four steps", steps=4, covers=_ORDER,
            a=boxes(64, k, size, "128B"), b=boxes(16, k, size, "128B"),
        )  # fmt: skip


CASES = [*_types(), *_widths(), *_layouts(), *_sequences()]
