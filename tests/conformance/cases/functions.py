"""Device functions: arguments and results in registers and in parameter space, recursion, pointers, the stack."""

from __future__ import annotations

import numpy as np

from pyptx.core.types import TYPES

from ..case import In, KernelCase, Out, kernel
from ..words import uniform

_STORE = """
mad.wide.u32 %d31, %index, 4, %out;
st.global.u32 [%d31], %r0;
"""
_LOAD = """
mad.wide.u32 %d30, %index, 4, %given;
ld.global.u32 %r1, [%d30];
"""


def _words(name: str, body: str, declarations: str, *covers: str, small: int = 32) -> KernelCase:
    """Every lane loads a word into %r1 and computes %r0."""
    text = kernel(_LOAD + body + _STORE, "given:u64 out:u64", declarations=declarations)
    given = uniform(name, 64, small).astype(np.uint32)
    return KernelCase(name, text, (In(given), Out(np.uint32, 64)), block=(64,), covers=covers)


_REGISTERS = _words(
    "arguments and results in registers",
    """
    call (%r2), scaled, (%r1, %lane);
    call.uni (%r0), scaled, (%r2, 3);
    """,
    """
    .func (.reg .b32 result) scaled(.reg .b32 value, .reg .b32 factor)
    {
    .reg .pred p;
    mul.lo.u32 result, value, factor;
    setp.gt.u32 p, result, 0x40000000;
    @p bra LARGE;
    add.u32 result, result, 5;
    ret;
    LARGE:
    shr.u32 result, result, 3;
    ret.uni;
    }
    """,
    "call",
    "ret",
)

_VOID = _words(
    "functions without results",
    """
    mad.wide.u32 %d2, %index, 4, %out;
    call noted, (%d2, %r1);
    call.uni twice, (%d2);
    call nothing;
    ld.global.u32 %r0, [%d2];
    """,
    """
    .func nothing() { ret; }
    .func noted(.reg .b64 place, .reg .b32 value)
    {
    .reg .pred p;
    setp.lt.u32 p, value, 0x80000000;
    @p ret;
    st.global.u32 [place], value;
    ret;
    }
    .func twice(.param .b64 place)
    {
    .reg .b64 where;
    .reg .b32 value;
    ld.param.u64 where, [place];
    ld.global.u32 value, [where];
    shl.b32 value, value, 1;
    st.global.u32 [where], value;
    ret;
    }
    """,
    "call.void",
    "ret",
)

_RECURSIVE = _words(
    "recursion, of another depth for each lane",
    """
    and.b32 %r2, %r1, 15;
    {
    .param .b32 of;
    .param .b32 is;
    st.param.b32 [of], %r2;
    call (is), fibonacci, (of);
    ld.param.b32 %r0, [is];
    }
    """,
    """
    .func (.param .b32 result) fibonacci(.param .b32 n);
    .func (.param .b32 result) fibonacci(.param .b32 n)
    {
    .reg .pred p;
    .reg .b32 number, first, second;
    ld.param.b32 number, [n];
    setp.ge.u32 p, number, 2;
    @p bra SUM;
    st.param.b32 [result], number;
    ret;
    SUM:
    sub.u32 first, number, 1;
    sub.u32 second, number, 2;
    {
    .param .b32 of;
    .param .b32 is;
    st.param.b32 [of], first;
    call (is), fibonacci, (of);
    ld.param.b32 first, [is];
    }
    {
    .param .b32 of;
    .param .b32 is;
    st.param.b32 [of], second;
    call (is), fibonacci, (of);
    ld.param.b32 second, [is];
    }
    add.u32 first, first, second;
    st.param.b32 [result], first;
    ret;
    }
    """,
    "call",
)

_TWO = """
.func (.reg .b32 result) doubled(.reg .b32 value) { shl.b32 result, value, 1; ret; }
.func (.reg .b32 result) inverted(.reg .b32 value) { not.b32 result, value; ret; }
"""

_POINTERS = _words(
    "lanes call through pointers",
    """
    mov.u64 %d2, doubled;
    mov.u64 %d3, inverted;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p0, %r2, 0;
    selp.b64 %d4, %d2, %d3, %p0;
    ONE: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    call (%r3), %d4, (%r1), ONE;
    setp.lt.u32 %p1, %r3, 0x40000000;
    selp.b64 %d4, %d2, %d3, %p1;
    BOTH: .calltargets doubled, inverted;
    call (%r0), %d4, (%r3), BOTH;
    """,
    _TWO,
    "call.indirect",
)

_TABLE = _words(
    "a table of functions in global memory",
    """
    mov.u64 %d2, functions;
    and.b32 %r2, %r1, 1;
    mad.wide.u32 %d3, %r2, 8, %d2;
    ld.global.u64 %d4, [%d3];
    ONE: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    call (%r0), %d4, (%r1), ONE;
    """,
    f"{_TWO}\n.global .u64 functions[2] = {{doubled, inverted}};",
    "call.indirect",
)

_VOID_POINTERS = _words(
    "lanes call through pointers, without results",
    """
    mad.wide.u32 %d5, %index, 4, %out;
    mov.u64 %d2, first;
    mov.u64 %d3, second;
    setp.lt.u32 %p0, %r1, 0x80000000;
    selp.b64 %d4, %d2, %d3, %p0;
    NOTE: .callprototype _ (.reg .b64 _);
    call %d4, (%d5), NOTE;
    ld.global.u32 %r0, [%d5];
    """,
    """
    .func first(.reg .b64 place) { st.global.u32 [place], 11; ret; }
    .func second(.reg .b64 place) { st.global.u32 [place], 22; ret; }
    """,
    "call.indirect.void",
)

_LEAVES = KernelCase(
    "lanes that exit within a function",
    kernel(
        _LOAD
        + """
        mad.wide.u32 %d2, %index, 4, %out;
        st.global.u32 [%d2], 1;
        call leaving, (%r1);
        st.global.u32 [%d2], 2;
        """,
        "given:u64 out:u64",
        declarations="""
        .func leaving(.reg .b32 value)
        {
        .reg .pred p;
        setp.lt.u32 p, value, 0x80000000;
        @p exit;
        ret;
        }
        """,
    ),
    (In(uniform("leaving", 64, 32).astype(np.uint32)), Out(np.uint32, 64)),
    block=(64,),
    covers=("exit", "call.void"),
)


def _parameter(kind: str) -> KernelCase:
    """A structure by value with a field of ``kind``, alone and as vectors: st.param and ld.param on both sides."""
    bits = TYPES[kind].bits
    size = bits // 8
    register = f"b{max(bits, 16)}"
    vectors = [v for v in (2, 4) if v * bits <= 128 and kind in _VECTORS]
    lines = [f".reg .{register} a, b, c, d;"]
    lines += [f"ld.global.b{bits} {name}, [%d1+{size * i}];" for i, name in enumerate("abcd")]
    lines += ["{", ".param .align 16 .b8 given_to[64];", ".param .align 16 .b8 taken[64];"]
    lines += [f"st.param.{kind} [given_to+{size}], a;", f"st.param.{kind} [given_to], b;"]
    callee = [
        f".reg .{register} a, b, c, d;",
        f"ld.param::func.{kind} a, [from];",
        f"ld.param::func.{kind} b, [from+{size}];",
    ]
    callee += [f"st.param.{kind} [to], a;", f"st.param.{kind} [to+{size}], b;"]
    names = ["a", "b", "c", "d"]
    for place, count in zip((16, 32), vectors, strict=False):
        vector = ", ".join(names[:count])
        lines.append(f"st.param.v{count}.{kind} [given_to+{place}], {{{vector}}};")
        callee.append(f"ld.param::func.v{count}.{kind} {{{vector}}}, [from+{place}];")
        callee.append(f"st.param.v{count}.{kind} [to+{place}], {{{', '.join(reversed(names[:count]))}}};")
    lines += ["call (taken), passed, (given_to);"]
    lines += [f"ld.param.{kind} a, [taken];", f"ld.param.{kind} b, [taken+{size}];"]
    lines += [f"st.global.b{bits} [%d2], a;", f"st.global.b{bits} [%d2+{size}], b;"]
    for place, count in zip((16, 32), vectors, strict=False):
        lines.append(f"ld.param.v{count}.{kind} {{{', '.join(names[:count])}}}, [taken+{place}];")
        lines += [f"st.global.b{bits} [%d2+{place + size * i}], {names[i]};" for i in range(count)]
    lines.append("}")
    head = "mad.wide.u32 %d1, %index, 32, %given;\nmad.wide.u32 %d2, %index, 64, %out;\n"
    function = ".func (.param .align 16 .b8 to[64]) passed(.param .align 16 .b8 from[64])\n{\n"
    text = kernel(
        head + "\n".join(lines),
        "given:u64 out:u64",
        declarations=f"{function}{chr(10).join(callee)}\nret;\n}}",
    )
    given = uniform(f"parameters of {kind}", 32 * 4).view(np.uint8)
    return KernelCase(
        f"parameters of .{kind}",
        text,
        (In(given), Out(np.uint8, 32 * 64)),
        covers=("st.param", "ld.param.func", "ld", "call"),
    )


_VECTORS = ("b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64")


def _stack(kind: str) -> KernelCase:
    """Memory from alloca, given back by stackrestore, in each of three turns of a loop."""
    register = "%d" if kind == "u64" else "%r"
    pointer = f"{register}20"
    wide = f"mov.u64 %d10, {pointer};" if kind == "u64" else f"cvt.u64.u32 %d10, {pointer};"
    body = f"""
    mov.u32 %r0, 0;
    mov.u32 %r2, 0;
    AGAIN:
    stacksave.{kind} {register}21;
    alloca.{kind} {pointer}, 64, 16;
    {wide}
    st.local.u32 [%d10], %r1;
    add.u32 %r3, %r1, %r2;
    st.local.u32 [%d10+60], %r3;
    ld.local.u32 %r4, [%d10+60];
    ld.local.u32 %r5, [%d10];
    xor.b32 %r4, %r4, %r5;
    add.u32 %r0, %r0, %r4;
    stackrestore.{kind} {register}21;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p0, %r2, 3;
    @%p0 bra AGAIN;
    """
    return _words(f"memory on the stack, .{kind}", body, "", "stacksave", "alloca", "stackrestore")


CASES = [
    _REGISTERS,
    _VOID,
    _RECURSIVE,
    _POINTERS,
    _TABLE,
    _VOID_POINTERS,
    _LEAVES,
    *(_parameter(kind) for kind in _VECTORS),
    _stack("u32"),
    _stack("u64"),
]
