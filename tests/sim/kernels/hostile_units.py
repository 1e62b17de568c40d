"""Hostile kernels, the rest: values, printf, barriers, copies, tensor memory, what is not modeled, launches."""

from __future__ import annotations

from typing import Any

from tests.sim.kernels.hostile import BOUNDS, CASES, LIMIT, REGISTERS, SELF, case

__all__ = ["CASES"]

# --- arithmetic without a value -----------------------------------------------------------------

for width, reg in (("16", "%h"), ("32", "%r"), ("64", "%d")):
    lowest = 1 << (int(width) - 1)
    for kind in "us":
        for name in ("div", "rem"):
            case(
                f"{name}.{kind}{width} by zero",
                f"mov.b{width} {reg}2, 0; mov.b{width} {reg}3, 7; {name}.{kind}{width} {reg}4, {reg}3, {reg}2; {name}.{kind}{width} {reg}4, {reg}3, 0; ret;",
            )
            case(
                f"{name}.{kind}{width} of the lowest by -1",
                f"mov.b{width} {reg}2, -1; mov.b{width} {reg}3, {lowest:#x}; {name}.{kind}{width} {reg}4, {reg}3, {reg}2; {name}.{kind}{width} {reg}4, {reg}3, -1; ret;",
            )
    for name in ("shl.b", "shr.u", "shr.s"):
        case(
            f"{name}{width} by far too much",
            f"mov.b{width} {reg}2, {lowest:#x}; mov.u32 %r5, 0xffffffff; {name}{width} {reg}3, {reg}2, %r5; {name}{width} {reg}3, {reg}2, {width}; {name}{width} {reg}3, {reg}2, 0x80000000; ret;",
        )
for width in ("32", "64"):
    reg = {"32": "%r", "64": "%d"}[width]
    case(
        f"bfe and bfi of {width} bits anywhere",
        f"mov.b{width} {reg}2, -1; mov.u32 %r5, 0xffffffff; bfe.s{width} {reg}3, {reg}2, %r5, %r5; bfe.u{width} {reg}3, {reg}2, 200, 200; bfi.b{width} {reg}3, {reg}2, {reg}2, %r5, %r5; bfind.s{width} %r6, 0; ret;",
    )
case(
    "funnel shifts, permutations and products of anything",
    """
mov.u32 %r5, 0xffffffff; shf.l.wrap.b32 %r1, %r5, %r5, %r5; shf.r.clamp.b32 %r1, %r5, %r5, %r5; prmt.b32 %r1, %r5, %r5, %r5;
prmt.b32.rc8 %r1, %r5, %r5, %r5; abs.s32 %r1, 0x80000000; neg.s32 %r1, 0x80000000; mad.hi.sat.s32 %r1, %r5, %r5, 0x80000000; lop3.b32 %r1, %r5, %r5, %r5, 0xff;
vadd4.s32.u32.s32.sat %r1, %r5, %r5, %r5; dp4a.s32.u32 %r1, %r5, %r5, %r5; bmsk.clamp.b32 %r1, %r5, %r5; bmsk.wrap.b32 %r1, %r5, %r5; szext.clamp.s32 %r1, %r5, %r5; fns.b32 %r1, %r5, 40, -50; ret;""",
)
for value in (
    "0f7FFFFFFF",
    "0fFFC00000",
    "0f7F800000",
    "0fFF800000",
    "0f7F7FFFFF",
    "0fFF7FFFFF",
    "0f00000001",
    "0f80000000",
    "0f4F800000",
):
    case(
        f"conversions of {value}",
        f"""
mov.f32 %f1, {value}; cvt.rzi.s32.f32 %r1, %f1; cvt.rni.u64.f32 %d2, %f1; cvt.rmi.s8.f32 %h1, %f1; cvt.rpi.u16.f32 %h1, %f1; cvt.rn.f16.f32 %h1, %f1;
cvt.f64.f32 %e1, %f1; cvt.rzi.s64.f64 %d2, %e1; cvt.rn.f32.f64 %f2, %e1; cvt.rn.bf16.f32 %h1, %f1; cvt.rna.tf32.f32 %r1, %f1; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f1;
cvt.rni.f32.f32 %f2, %f1; cvt.sat.f32.f32 %f2, %f1; sqrt.rn.f32 %f2, %f1; rcp.rn.f32 %f2, %f1; div.rn.f32 %f2, %f1, 0f00000000; div.full.f32 %f2, %f1, %f1; div.approx.f32 %f2, %f1, %f1;
sqrt.approx.f32 %f2, %f1; rsqrt.approx.f32 %f2, %f1; lg2.approx.f32 %f2, %f1; ex2.approx.f32 %f2, %f1; sin.approx.f32 %f2, %f1; cos.approx.f32 %f2, %f1; tanh.approx.f32 %f2, %f1;
fma.rp.sat.f32 %f2, %f1, %f1, %f1; sqrt.rn.f64 %e2, %e1; div.rn.f64 %e2, %e1, %e1; testp.subnormal.f32 %p1, %f1; copysign.f32 %f2, %f1, %f1; min.NaN.f32 %f2, %f1, %f1; rcp.approx.ftz.f64 %e2, %e1; ret;""",
    )
case(
    "mma of NaNs",
    """
mov.b32 %r1, 0x7fff7fff; mov.f32 %f1, 0f7FFFFFFF; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};
mov.b32 %r1, 0x7fffffff; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}; ret;""",
    launch={"block": 32},
)
case(
    "mma of infinities that cancel",
    """
mov.b32 %r1, 0x7c00fc00; mov.f32 %f1, 0f7F800000; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}; ret;""",
    launch={"block": 32},
)

# --- printf -------------------------------------------------------------------------------------

_PRINT = """{{ .param .b64 t; .param .b64 a; .param .b32 r; mov.u64 %d2, {template}; {convert} st.param.b64 [t], %d2; mov.u64 %d3, {packed};
st.param.b64 [a], %d3; call (r), vprintf, (t, a); }}"""


def _printf(
    name: str,
    template: str | bytes,
    *rules: str,
    packed: str = "%d0",
    module: str = "",
    after: str = "ret;",
    **options: Any,
) -> None:
    if isinstance(template, bytes):
        numbers = ", ".join(map(str, template))
        module += f".global .align 1 .b8 text[{len(template)}] = {{{numbers}}};"
        body = _PRINT.format(template="text", convert="cvta.global.u64 %d2, %d2;", packed=packed)
    else:
        body = _PRINT.format(template=template, convert="", packed=packed)
    case(name, f"{body} {after}", *rules, module=module, **options)


_printf("printf of null", "0", *BOUNDS)
_printf("printf of a wild template", "0x123456789", *BOUNDS)
_printf("printf of a negative template", "-1", *BOUNDS)
_printf("printf of a template without an end", b"abc", *BOUNDS)
_printf("printf of wild arguments", b"%d\n\0", *BOUNDS, packed="8")
_printf("printf with nothing to convert and no arguments", b"%% %\n\0", packed="0")
_printf("printf of a string at null", b"%s\n\0", *BOUNDS)
_printf("printf with a width from its arguments", b"%*d|%-*d|%.*f|%*.*s\n\0", *BOUNDS)
_printf("printf of a field of gigabytes", b"%2147483647d\0", "not-modeled")
_printf("printf of a precision of gigabytes", b"%.2147483647f\0", "not-modeled")
_printf("printf of a field with a thousand digits", b"%" + b"9" * 5000 + b"d\0", "not-modeled")
_printf(
    "printf of negative fields",
    b"%.*d|%*d\0",
    packed="%d4",
    module=".global .align 8 .s32 args[8] = {-5, 7, -9, 3, 0, 0, 0, 0};",
    registers=REGISTERS + "mov.u64 %d4, args; cvta.global.u64 %d4, %d4;",
)
_printf("printf of conversions that nobody knows", b"%y %q %#lo %hhd %zu %jd %Lf %p %c %a %n\n\0")
_printf("printf of bytes that are no text", bytes(range(255, 127, -1)) + b"%d\xff\0")
_printf(
    "printf without an end",
    b"%2000d%2000d%2000d%2000d\0",
    *LIMIT,
    after="bra A;",
    registers=REGISTERS + "A:",
)

for name, declared, made in (
    ("vprintf", "(.param .b32 r) wild ()", "(%r1), wild, ()"),
    ("free", "(.param .b32 r) wild (.param .b16 a)", "(%r1), wild, (%h0)"),
):
    case(
        f"{name} with another signature",
        f"mov.u16 %h0, 0; call {made.replace('wild', name)}; ret;",
        "not-modeled",
        module=f".extern .func {declared.replace('wild', name)};",
        declarations="",
    )

# --- barriers and collectives -------------------------------------------------------------------

for count in ("0", "1", "31", "33", "100000", "-32"):
    case(
        f"bar.sync of {count} threads",
        f"mov.u32 %r1, {count}; bar.sync 1, %r1; ret;",
        "barrier-misuse",
        "deadlock",
        "",
    )
for number in ("16", "255", "-1", "0x80000000"):
    case(f"barrier {number}", f"mov.u32 %r1, {number}; bar.sync %r1; ret;", "barrier-misuse")
    case(f"arrival at barrier {number}", f"mov.u32 %r1, {number}; bar.arrive %r1, 64; ret;", "barrier-misuse")
case("each lane another barrier", "bar.sync %r0; ret;", "barrier-misuse", "divergent-collective", "")
case(
    "more arrivals than the barrier counts",
    "bar.arrive 1, 32; bar.arrive 1, 32; bar.arrive 1, 32; bar.sync 1, 32; ret;",
    "barrier-misuse",
    "deadlock",
    "",
)
case(
    "a barrier that half of the warps reach",
    "setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 128; ret;",
    "deadlock",
    launch={"block": 128},
)
for mask in ("0", "0x80000000", "0xfffffffe", "0x0000ffff"):
    for text in (
        "vote.sync.ballot.b32 %r2, 1, %r1",
        "shfl.sync.idx.b32 %r2, %r0, 0, 31, %r1",
        "match.any.sync.b32 %r2, %r0, %r1",
        "redux.sync.add.u32 %r2, %r0, %r1",
        "bar.warp.sync %r1",
        "elect.sync %r2|%p1, %r1",
    ):
        case(
            f"{text} with mask {mask}",
            f"mov.u32 %r1, {mask}; {text}; ret;",
            "member-mask",
            "",
            target="sm_90a",
        )
case(
    "each lane another mask",
    "shl.b32 %r1, 3, %r0; vote.sync.any.pred %p0, 1, %r1; ret;",
    "divergent-collective",
    "member-mask",
    "deadlock",
    "",
)
case(
    "shfl from anywhere",
    "mov.u32 %r1, 0xdeadbeef; shfl.sync.idx.b32 %r2|%p1, %r0, %r1, %r1, -1; shfl.sync.up.b32 %r2, %r0, %r1, 0, -1; ret;",
    launch={"block": 32},
)
case(
    "an aligned collective of some lanes",
    "setp.lt.u32 %p0, %r0, 7; @%p0 bra E; bar.warp.sync -1; barrier.sync.aligned 0; E: ret;",
    "divergent-collective",
    "deadlock",
    "",
    launch={"block": 32},
)

# --- mbarriers and copies -----------------------------------------------------------------------

_MB = ".shared .align 8 .b64 b[2]; .shared .align 128 .b8 s[256]; setp.eq.u32 %p0, %r0, 0; "
for what, rules in {
    "mbarrier.arrive.shared.b64 %d2, [b]": ("mbarrier-misuse", "uninitialized-read"),
    "mbarrier.inval.shared.b64 [b]": ("mbarrier-misuse", "uninitialized-read"),
    "mbarrier.test_wait.shared.b64 %p1, [b], %d1": ("mbarrier-misuse", "uninitialized-read"),
    "mov.u32 %r1, 0; mbarrier.init.shared.b64 [b], %r1": ("mbarrier-misuse",),
    "mov.u32 %r1, -1; mbarrier.init.shared.b64 [b], %r1": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b+4], 1": ("misaligned",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.arrive.shared.b64 %d2, [b], 1048575": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.arrive.expect_tx.shared.b64 %d2, [b], 0xffffffff": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b], 1; st.shared.u64 [b], 7": ("mbarrier-overwritten",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.init.shared.b64 [b], 1": ("mbarrier-reinit",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.test_wait.shared.b64 %p1, [b], %d1; ld.shared.u64 %d2, [b]; mbarrier.complete_tx.shared.b64 [b], 5": ("mbarrier-misuse", "mbarrier-state"),
}.items():  # fmt: skip
    case(f"{what}", f"{_MB} @!%p0 bra E; {what}; E: ret;", *rules)
case(
    "cp.async from anywhere",
    f"{_MB} mov.u64 %d2, 48; cp.async.cg.shared.global [s], [%d2], 16; cp.async.wait_all; ret;",
    *BOUNDS,
)
case(
    "cp.async of more than it has",
    f"{_MB} mov.u32 %r1, 99; cp.async.cg.shared.global [s], [%d0], 16, %r1; cp.async.wait_all; ret;",
    "",
    "out-of-bounds",
)
case(
    "cp.async that nobody waits for",
    f"{_MB} cp.async.cg.shared.global [s], [%d0], 16; ret;",
    "copy-never-waited",
)
for size in ("0", "8", "17", "0x7ffffff0", "0xfffffff0"):
    case(
        f"a bulk copy of {size} bytes",
        f"{_MB} @!%p0 bra E; mbarrier.init.shared.b64 [b], 1; mov.u32 %r1, {size}; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d0], %r1, [b]; E: ret;",
        "misaligned",
        "out-of-bounds",
        "exit-in-flight",
        "not-modeled",
        "mbarrier-misuse",
        "",
    )
_TENSOR = "@!%p0 bra E; mbarrier.init.shared.b64 [b], 1; mov.u32 %r1, {at}; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d0, {{%r1, %r1}}], [b]; E: ret;"
for at in ("0", "-2147483648", "2147483647"):
    case(f"a tensor map of nothing, at {at}", _MB + _TENSOR.format(at=at), "bad-tensor-map")
case("a tensor map at null", _MB + "mov.u64 %d0, 0; " + _TENSOR.format(at="0"), "bad-tensor-map", *BOUNDS)
case(
    "a tensor map at the top", _MB + "mov.u64 %d0, -128; " + _TENSOR.format(at="0"), "bad-tensor-map", *BOUNDS
)
case(
    "a tensor map off its alignment",
    _MB + "add.u64 %d0, %d0, 8; " + _TENSOR.format(at="0"),
    "bad-tensor-map",
    "misaligned",
)
case(
    "a prefetch of a tensor map of nothing",
    "prefetch.tensormap [%d0]; ret;",
    "",
    "bad-tensor-map",
    "not-modeled",
)

# --- what is not modeled -----------------------------------------------------------------------

case("a texture", "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d0, {%r0}]; ret;", "not-modeled")
case("a surface", "suld.b.1d.b32.trap %r1, [%d0, {%r0}]; ret;", "not-modeled")
case(
    "a texture that no thread reaches",
    "setp.gt.u32 %p0, %r0, 5000; @!%p0 bra E; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d0, {%r0}]; E: ret;",
)
case("a trap", "trap;", "trap")
case("a breakpoint", "brkpt; ret;", "trap")
case("a register of the driver", "mov.b32 %r1, %envreg3; ret;", "not-modeled")

# --- tensor memory ------------------------------------------------------------------------------

_TMEM = ".shared .align 8 .b32 s; "
for text in (
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], %r1",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1]",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2}",
    "tcgen05.cp.cta_group::1.128x256b [%r1], %d1",
    "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d1, %r0, %p1",
):
    for value in ("0", "31", "33", "512", "1024", "0xffffffff"):
        case(
            f"{text} of {value}",
            f"{_TMEM} setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, 0; mov.u32 %r1, {value}; {text}; ret;",
            any_rule=True,
            target="sm_100a",
        )

# --- launches -----------------------------------------------------------------------------------

case(
    "two thousand million CTAs",
    "mov.u32 %r1, %ctaid.x; ret;",
    *LIMIT,
    launch={"grid": 2**31 - 1, "memory": 1 << 18},
    steps=1000,
)
case(
    "three-dimensional, far too many",
    "mov.u32 %r1, %ctaid.z; ret;",
    *LIMIT,
    launch={"grid": (2**31 - 1, 65535, 65535), "memory": 1 << 18},
    steps=1000,
)
case(
    "a thousand threads that count",
    "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; bra L;",
    *LIMIT,
    launch={"block": 1024, "grid": 1000, "memory": 1 << 20},
    steps=5000,
)
case(
    "recursion of thousands of threads",
    "call f; ret;",
    *LIMIT,
    "stack-overflow",
    module=SELF,
    launch={"block": 1024, "grid": 40, "memory": 1 << 24},
)
