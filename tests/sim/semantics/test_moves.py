"""Vectors of registers as operands of value forms: mov packs, unpacks and copies; four f32 become four fp8.

Each body runs for whole warps, under a guard, and in a single lane: the three forms of generated code.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx import sim
from pyptx.ir import parse_module
from pyptx.isa import check_module
from pyptx.toolchain import Tool, check_text
from tests.sim.oracles.conversion import narrow_four

SHAPES = {
    "whole warps": ("", set(range(64))),
    "guarded": ("@%p1 ", {lane for lane in range(64) if lane & 1}),
    "one lane": ("", {37}),
}

#: Forms: bits of the whole, parts.
WHOLES = [(16, 2), (32, 2), (32, 4), (64, 2), (64, 4), (128, 2), (128, 4)]


def run(
    body: list[str], given: NDArray[np.uint8], shape: str, ptxas: Tool, *, target: str
) -> NDArray[np.uint8]:
    """What 64 threads store: each has 32 bytes to read at ``%rd1`` and 32 to write at ``%rd2``."""
    guard, lanes = SHAPES[shape]
    lines = [f"{guard}{line}" for line in body]
    if shape == "one lane":
        lines = [f"setp.ne.u32 %p2, %r0, {min(lanes)}", "@%p2 bra END", *lines, "END:"]
    text = f""".version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to) {{
    .reg .pred %p<3>; .reg .b8 %c<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .b128 %q<2>;
    .reg .f32 %f<8>; .reg .b16 %w16; .reg .b32 %w32; .reg .b64 %w64; .reg .b128 %w128;
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 1;
    setp.ne.u32 %p1, %r1, 0;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mad.wide.u32 %rd1, %r0, 32, %rd1;
    mad.wide.u32 %rd2, %r0, 32, %rd2;
    {" ".join(line if line.endswith(":") else line + ";" for line in lines)}
    ret;
}}
"""
    assert check_text(text, ptxas=ptxas).ok, text
    assert check_module(parse_module(text)) == []
    out = np.full((64, 32), 0xA5, np.uint8)
    report = sim.load(text).launch("k", grid=1, block=64, args=[given, out])
    assert report.verdict == "clean", report
    idle = [lane for lane in range(64) if lane not in lanes]
    assert (out[idle] == 0xA5).all()
    return out


@pytest.fixture
def given() -> NDArray[np.uint8]:
    draw = random.Random("moves")
    return np.array(bytearray(draw.randbytes(64 * 32)), np.uint8).reshape(64, 32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("whole", "parts"), WHOLES)
def test_unpacked_and_packed_the_other_way_round(
    whole: int, parts: int, shape: str, given: NDArray[np.uint8], ptxas: Tool
) -> None:
    letter = {8: "c", 16: "h", 32: "r", 64: "rd"}[whole // parts]
    names = [f"%{letter}{i if letter == 'c' or letter == 'h' else i + 3}" for i in range(parts)]
    body = [
        f"ld.global.b{whole} %w{whole}, [%rd1]",
        f"mov.b{whole} {{{', '.join(names)}}}, %w{whole}",
        f"mov.b{whole} %w{whole}, {{{', '.join(reversed(names))}}}",
        f"st.global.b{whole} [%rd2], %w{whole}",
    ]
    out = run(body, given, shape, ptxas, target="sm_90a")
    size = whole // parts // 8
    for lane in SHAPES[shape][1]:
        part = [given[lane, i * size : (i + 1) * size].tobytes() for i in range(parts)]
        assert out[lane, : whole // 8].tobytes() == b"".join(reversed(part)), lane


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_that_nobody_wants_and_constants(shape: str, given: NDArray[np.uint8], ptxas: Tool) -> None:
    body = [
        "ld.global.b64 %w64, [%rd1]",
        "mov.b32 %r3, 17",
        "mov.b64 {_, %r3}, %w64",
        "mov.b64 {%h0, _, _, %h1}, %w64",
        "mov.b64 %rd3, {%r3, 0x12345678}",
        "mov.b32 %r4, {%h1, %h0}",
        "st.global.b64 [%rd2], %rd3",
        "st.global.b32 [%rd2+8], %r4",
        "mov.b32 {%h2, _}, 0x89ABCDEF",
        "st.global.b16 [%rd2+12], %h2",
    ]
    out = run(body, given, shape, ptxas, target="sm_90a")
    for lane in SHAPES[shape][1]:
        word = given[lane, :8].tobytes()
        wanted = word[4:8] + (0x12345678).to_bytes(4, "little") + word[6:8] + word[:2] + b"\xef\xcd"
        assert out[lane, :14].tobytes() == wanted, lane


@pytest.mark.parametrize("shape", SHAPES)
def test_vectors_and_128_bits_are_copied(shape: str, given: NDArray[np.uint8], ptxas: Tool) -> None:
    body = [
        "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1]",
        "mov.v4.f32 {%f4, %f5, %f6, %f7}, {%f0, %f1, %f2, %f3}",
        "mov.v2.f32 {%f0, %f1}, {%f7, %f6}",
        "st.global.v4.f32 [%rd2], {%f4, %f5, %f0, %f1}",
        "ld.global.b128 %q0, [%rd1+16]",
        "mov.b128 %q1, %q0",
        "st.global.b128 [%rd2+16], %q1",
    ]
    out = run(body, given, shape, ptxas, target="sm_90a")
    for lane in SHAPES[shape][1]:
        word = given[lane].tobytes()
        assert out[lane].tobytes() == word[:8] + word[12:16] + word[8:12] + word[16:], lane


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"])
def test_four_floats_rounded_at_random(kind: str, shape: str, ptxas: Tool) -> None:
    draw = random.Random(kind)
    numbers = np.array([[draw.uniform(-3, 3) for _ in range(8)] for _ in range(64)], np.float32)
    given = numbers.view(np.uint8)
    bits = 16 if kind == "e2m1x4" else 32
    body = [
        "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1]",
        "ld.global.b32 %r2, [%rd1+16]",
        f"cvt.rs.satfinite.{kind}.f32 %w{bits}, {{%f0, %f1, %f2, %f3}}, %r2",
        f"st.global.b{bits} [%rd2], %w{bits}",
    ]
    out = run(body, given, shape, ptxas, target="sm_100a")
    for lane in SHAPES[shape][1]:
        *values, random_bits = numbers.view(np.uint32)[lane, :5].tolist()
        wanted = narrow_four({"dtype": kind, "satfinite": ""}, tuple(values), random_bits)
        assert out[lane].view(f"u{bits // 8}")[0] == wanted, lane
