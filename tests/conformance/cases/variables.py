"""Variables of modules and functions: initialisers, addresses, local arrays; registers that are vectors."""

from __future__ import annotations

import numpy as np

from ..case import In, KernelCase, Number, Out, kernel
from ..words import uniform

_BYTES = """
mad.wide.u32 %d0, %index, 1, {base};
ld.{space}.u8 %r0, [%d0];
mad.wide.u32 %d1, %index, 1, %out;
st.global.u8 [%d1], %r0;
"""


def _image(space: str, name: str, declarations: str, variable: str, count: int) -> KernelCase:
    """Every byte of a variable, as it is before anybody writes it."""
    body = f"mov.u64 %d2, {variable};\n{_BYTES.format(base='%d2', space=space)}"
    text = kernel(body, declarations=declarations)
    return KernelCase(name, text, (Out(np.uint8, count),), block=(count,), covers=("ld", "mov"))


def _initialised(space: str) -> list[KernelCase]:
    numbers = f".{space} .align 8 .s32 numbers[8] = {{1, -2, 0x7fffffff, -2147483648, 3 + 4 * 5, 1 << 20}};"
    floats = f".{space} .align 8 .f32 floats[8] = {{1.5, -0.25, 0f7F800000, 0fFFC00001, 3.0, 1e-40}};"
    doubles = f".{space} .align 8 .f64 doubles[4] = {{1.5, 0d7FF8000000000001, -1e300}};"
    words = f".{space} .align 8 .u16 words[2][3] = {{{{1, 2, 3}}, {{0xffff}}}};"
    octets = f".{space} .align 4 .b8 octets[12] = {{1, 0xff, 0x80, 7}};"
    vector = f".{space} .align 16 .v4 .f32 vector = {{1.0, 2.0, 3.0, -4.0}};"
    one = f".{space} .u64 one = 0x123456789abcdef0;"
    return [
        _image(space, f"integers in .{space}", numbers, "numbers", 32),
        _image(space, f"floats in .{space}", floats, "floats", 32),
        _image(space, f"doubles in .{space}", doubles, "doubles", 32),
        _image(space, f"rows in .{space}", words, "words", 12),
        _image(space, f"bytes in .{space}", octets, "octets", 12),
        _image(space, f"a vector in .{space}", vector, "vector", 16),
        _image(space, f"a number in .{space}", one, "one", 8),
    ]


_POINTERS = KernelCase(
    "variables that hold addresses",
    kernel(
        """
        ld.global.u64 %d0, [there+8];
        ld.u32 %r0, [%d0+4];
        ld.global.u64 %d1, [plain];
        ld.global.u32 %r1, [%d1];
        ld.global.u64 %d2, [further];
        ld.u32 %r2, [%d2];
        st.global.u32 [%out], %r0;
        st.global.u32 [%out+4], %r1;
        st.global.u32 [%out+8], %r2;
        """,
        declarations="""
        .global .u32 numbers[4] = {10, 20, 30, 40};
        .const .u32 constants[2] = {50, 60};
        .global .u64 there[2] = {generic(constants), generic(numbers)};
        .global .u64 plain = numbers;
        .global .u64 further = generic(numbers) + 12;
        """,
    ),
    (Out(np.uint32, 3),),
    block=(1,),
    covers=("ld",),
)

_KEPT = KernelCase(
    "CTAs share a variable of the module",
    kernel(
        """
        atom.global.add.u32 %r0, [counter], 1;
        atom.global.max.u32 %r1, [greatest], %index;
        mad.wide.u32 %d0, %index, 4, %out;
        st.global.u32 [%d0], %r0;
        """,
        declarations=".global .u32 counter = 1000;\n.global .u32 greatest;",
    ),
    (Out(np.uint32, 128, order="any"),),
    grid=(4,),
    covers=("atom",),
)

_LOCAL = KernelCase(
    "a local array, indexed by what is loaded",
    kernel(
        """
        mov.u32 %r1, 0;
        mov.u64 %d1, mine;
        FILL:
        mad.wide.u32 %d2, %r1, 4, %d1;
        mad.lo.u32 %r2, %r1, 17, %lane;
        st.local.u32 [%d2], %r2;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p0, %r1, 16;
        @%p0 bra FILL;
        mad.wide.u32 %d3, %index, 4, %given;
        ld.global.u32 %r3, [%d3];
        and.b32 %r3, %r3, 15;
        mad.wide.u32 %d4, %r3, 4, %d1;
        ld.local.u32 %r4, [%d4];
        cvta.local.u64 %d5, %d4;
        xor.b32 %r4, %r4, 0x100;
        st.u32 [%d5], %r4;
        ld.local.u32 %r5, [%d4];
        add.u32 %r4, %r4, %r5;
        mad.wide.u32 %d6, %index, 4, %out;
        st.global.u32 [%d6], %r4;
        """,
        "given:u64 out:u64",
        registers=".local .align 4 .b32 mine[16];",
    ),
    (In(uniform("local", 64, 32).astype(np.uint32)), Out(np.uint32, 64)),
    block=(64,),
    covers=("ld", "st", "cvta"),
)

_VECTORS = KernelCase(
    "vector registers and their elements",
    kernel(
        """
        .reg .v4 .u32 %quad;
        .reg .v2 .f32 %pair;
        mad.wide.u32 %d0, %index, 16, %given;
        ld.global.v4.u32 %quad, [%d0];
        add.u32 %quad.x, %quad.x, %quad.w;
        mov.u32 %quad.y, %quad.z;
        cvt.rn.f32.u32 %pair.x, %quad.x;
        cvt.rn.f32.u32 %pair.y, %quad.z;
        mov.v2.f32 {%f2, %f3}, %pair;
        mov.b32 %quad.w, %f3;
        mov.b32 %quad.z, %f2;
        mad.wide.u32 %d1, %index, 16, %out;
        st.global.v4.u32 [%d1], %quad;
        """,
        "given:u64 out:u64",
        registers="",
    ),
    (In(uniform("vectors", 128, 32).astype(np.uint32)), Out(np.uint32, 128)),
    covers=("mov.vec", "ld", "st"),
)

_PARAMETER = KernelCase(
    "a parameter of the kernel of 128 bits",
    kernel(
        """
        .reg .b128 held;
        ld.param::entry.b128 held, [whole];
        st.global.b128 [%out], held;
        st.global.b128 [%out+16], %whole;
        """,
        "whole:b128 out:u64",
    ),
    (Number(0x0123456789ABCDEF_FEDCBA9876543210, "b128"), Out(np.uint8, 32)),
    block=(1,),
    covers=("ld.param.where.b128",),
)

CASES = [*_initialised("global"), *_initialised("const"), _POINTERS, _KEPT, _LOCAL, _VECTORS, _PARAMETER]
