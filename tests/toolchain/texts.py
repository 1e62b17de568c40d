"""PTX texts that make ptxas say each kind of thing it says."""

from __future__ import annotations

HEADER = ".version 8.6\n.target {target}\n.address_size 64\n"


def kernel(*body: str, target: str = "sm_90a", directives: str = "", name: str = "k") -> str:
    """An entry with one u64 parameter ``a``; the body's first line is line 7, or 8 with directives."""
    lines = [f".visible .entry {name}(.param .u64 a)", *filter(None, [directives]), "{"]
    lines += ["    .reg .u64 %p, %d; .reg .u32 %r; .reg .f32 %f<400>;"]
    lines += [f"    {line}" for line in body]
    return HEADER.format(target=target) + "\n".join([*lines, "    ret;", "}", ""])


COPY = kernel(
    ".shared .align 16 .b8 s[64];",
    "ld.param.u64 %p, [a];",
    "st.shared.u32 [s], 3;",
    "bar.sync 0;",
    "ld.shared.u32 %r, [s+4];",
    "st.global.u32 [%p], %r;",
)

ERRORS = kernel(
    "ld.param.u64 %p, [a];",
    "add.u32 %r, %f0, %r;",
    "mov.u32 %r, %undefined;",
    "bra NOWHERE;",
)

SYNTAX_ERROR = kernel("add.u32 %r %r;")

_VALUES = range(300)

#: 300 live floats under a limit of 64 registers.
SPILLS = kernel(
    "ld.param.u64 %p, [a];",
    *(f"ld.global.f32 %f{i}, [%p+{4 * i}];" for i in _VALUES),
    "bar.sync 0;",
    *(f"mul.f32 %f{i}, %f{i}, %f{(i * 7 + 3) % 300};" for i in _VALUES),
    *(f"st.global.f32 [%p+{4 * i}], %f{i};" for i in _VALUES),
    directives=".maxntid 1024, 1, 1",
)

#: .maxntid without .minnctapersm: C7508.
DROPPED_SETMAXNREG = kernel("setmaxnreg.inc.sync.aligned.u32 240;", directives=".maxntid 384, 1, 1")

WARNS = kernel(directives=".minnctapersm 1")

SHARED_TOO_LARGE = kernel(
    ".shared .b8 s[300000];",
    "ld.param.u64 %p, [a];",
    "ld.shared.u32 %r, [s+4];",
    "st.global.u32 [%p], %r;",
)

_ACCUMULATOR = ", ".join(f"%f{i}" for i in range(32))

#: The accumulator touched before the wait: C7517, with the line of the add.
TOUCHED_BEFORE_WAIT = kernel(
    "ld.param.u64 %p, [a];",
    "ld.global.u64 %d, [%p];",
    *(f"mov.f32 %f{i}, 0f00000000;" for i in range(32)),
    "wgmma.fence.sync.aligned;",
    f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{_ACCUMULATOR}}}, %d, %d, 1, 1, 1, 0, 0;",
    "wgmma.commit_group.sync.aligned;",
    "add.f32 %f0, %f0, %f0;",
    "wgmma.wait_group.sync.aligned 0;",
    *(f"st.global.f32 [%p+{4 * i}], %f{i};" for i in range(32)),
)

#: A recursive device function cannot be inlined and is reported by itself.
DEVICE_FUNCTION = (
    HEADER.format(target="sm_90a")
    + """.func (.param .u32 o) dev(.param .u32 a)
{
    .reg .u32 %r; .reg .pred %q; .param .u32 x; .param .u32 y;
    ld.param.u32 %r, [a];
    setp.eq.u32 %q, %r, 0;
    @%q bra DONE;
    sub.u32 %r, %r, 1;
    st.param.u32 [x], %r;
    call (y), dev, (x);
    ld.param.u32 %r, [y];
DONE:
    add.u32 %r, %r, 1;
    st.param.u32 [o], %r;
    ret;
}
"""
    + kernel(
        ".param .u32 x; .param .u32 y;",
        "ld.param.u64 %p, [a];",
        "ld.global.u32 %r, [%p];",
        "st.param.u32 [x], %r;",
        "call (y), dev, (x);",
        "ld.param.u32 %r, [y];",
        "st.global.u32 [%p], %r;",
    ).split("64\n", 1)[1]
)
