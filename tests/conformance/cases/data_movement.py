"""ld and st in every order, cache operator, type and vector, in every state space; addresses of state spaces."""

from __future__ import annotations

import numpy as np

from ..case import In, KernelCase, Number, Out, kernel
from ..words import uniform

_LANES = 32
#: Bytes that each lane has to load from.
_ROOM = 64
_TYPES = ("b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64")
_REGISTER = {16: "%h", 32: "%r", 64: "%d"}
_GIVEN = uniform("data movement", _LANES * _ROOM // 8)


def _bits(kind: str) -> int:
    return int(kind[1:])


def _register(kind: str, width: int, number: int = 1) -> str:
    """A register of so many bits, of the class of the type."""
    if kind == "f32":
        return f"%f{number}"
    return f"%g{number}" if kind == "f64" else f"{_REGISTER[width]}{number + 9}"


def _widths(kind: str) -> list[int]:
    return [_bits(kind)] if kind[0] == "f" else [w for w in (16, 32, 64) if w >= _bits(kind)]


class _Slots:
    """Places in ``out`` for the results of each lane, 8 bytes each: %d31 points to the first one of the lane."""

    def __init__(self) -> None:
        self.count = 0
        self.lines = ["mad.wide.u32 %d31, %lane, 8, %out;"]

    def keep(self, register: str) -> None:
        kind = {"%h": "b16", "%r": "b32", "%d": "b64", "%f": "f32", "%g": "f64"}[register[:2]]
        self.lines.append(f"st.global.{kind} [%d31+{self.count * 8 * _LANES}], {register};")
        self.count += 1


#: Where the given bytes are put so that a space has them, and the address of the lane's bytes in %d30.
_PLACES = {
    "global": ("", f"mad.wide.u32 %d30, %lane, {_ROOM}, %given;"),
    "": ("", f"mad.wide.u32 %d30, %lane, {_ROOM}, %given;\ncvta.global.u64 %d30, %d30;"),
    "shared": (
        f".shared .align 16 .b8 room[{_LANES * _ROOM}];",
        f"mov.u64 %d29, room;\nmad.wide.u32 %d30, %lane, {_ROOM}, %d29;",
    ),
    "local": (f".local .align 16 .b8 room[{_ROOM}];", "mov.u64 %d30, room;"),
}


def _filled(space: str) -> str:
    """Statements that put the lane's bytes at %d30 of the space."""
    _, address = _PLACES[space.partition("::")[0]]
    if space in ("", "global"):
        return address
    copies = "".join(
        f"ld.global.b64 %d28, [%d27+{i}];\nst.{space}.b64 [%d30+{i}], %d28;\n" for i in range(0, _ROOM, 8)
    )
    return f"{address}\nmad.wide.u32 %d27, %lane, {_ROOM}, %given;\n{copies}"


def _loads(
    name: str,
    mnemonic: str,
    space: str,
    form: str,
    *,
    vectors: bool = True,
    policy: bool = False,
    suffix: str = "",
) -> KernelCase:
    """``mnemonic`` with every type, register width and vector; sub-word types lie at odd places."""
    slots = _Slots()
    lines = slots.lines
    lines.append(_filled(space))
    last = suffix
    if policy:
        lines.append("createpolicy.fractional.L2::evict_last.b64 %d26, 0f3F800000;")
        last = ", %d26"
    for kind in _TYPES:
        nbytes = _bits(kind) // 8
        for number, width in enumerate(_widths(kind)):
            register = _register(kind, width)
            lines.append(f"{mnemonic}.{kind} {register}, [%d30+{(3 + 2 * number) * nbytes % _ROOM}]{last};")
            slots.keep(register)
        if not vectors:
            continue
        for count in (2, 4):
            if count * nbytes > 16:
                continue
            width = max(16, _bits(kind))
            registers = [_register(kind, width, i + 1) for i in range(count)]
            at = 16 + count * nbytes
            lines.append(f"{mnemonic}.v{count}.{kind} {{{', '.join(registers)}}}, [%d30+{at}]{last};")
            for register in registers:
                slots.keep(register)
    return KernelCase(
        name,
        kernel("\n".join(lines), "given:u64 out:u64", registers=_PLACES[space.partition("::")[0]][0]),
        (In(_GIVEN), Out(np.uint64, (slots.count, _LANES))),
        covers=(form,),
    )


def _loads_of_128_bits(name: str, mnemonic: str, space: str, form: str, suffix: str = "") -> KernelCase:
    slots = _Slots()
    slots.lines += [
        _filled(space),
        f"{mnemonic}.b128 %q0, [%d30+16]{suffix};",
        "mov.b128 {%d10, %d11}, %q0;",
    ]
    slots.keep("%d10")
    slots.keep("%d11")
    return KernelCase(
        name,
        kernel(
            "\n".join(slots.lines),
            "given:u64 out:u64",
            registers=f"{_PLACES[space.partition('::')[0]][0]}\n.reg .b128 %q<2>;",
        ),
        (In(_GIVEN), Out(np.uint64, (slots.count, _LANES))),
        covers=(form,),
    )


_LOADS = [
    *[("ld", "ld" + (f".{space}" if space else ""), space) for space in ("", "global", "shared", "local")],
    *[("ld", f"ld.weak.{space}", space) for space in ("shared::cta", "shared::cluster")],
    *[("ld", f"ld.global.{cop}", "global") for cop in ("ca", "cg", "cs", "lu", "cv")],
    ("ld", "ld.global.L2::128B", "global"),
    *[
        ("ld.evict", f"ld.global.L1::{how}", "global")
        for how in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
    ],
    *[("ld.volatile", f"ld.volatile.{space}", space) for space in ("global", "shared", "shared::cluster")],
    *[
        ("ld.strong", f"ld.{sem}.{scope}.{space}", space)
        for sem in ("relaxed", "acquire")
        for scope, space in (
            ("cta", "shared"),
            ("cluster", "shared::cluster"),
            ("gpu", "global"),
            ("sys", "global"),
        )
    ],
    *[("ld.nc", f"ld.global{cop}.nc", "global") for cop in ("", ".ca", ".cg", ".cs")],
    ("ld.nc.evict", "ld.global.nc.L1::no_allocate.L2::256B", "global"),
    ("ldu", "ldu.global", "global"),
]


# --- stores -----------------------------------------------------------------------------------------


def _stores(
    name: str, mnemonic: str, space: str, form: str, *, vectors: bool = True, policy: bool = False
) -> KernelCase:
    """Every type from every register width, and every vector; each store between others' bytes."""
    body = [
        f"mad.wide.u32 %d27, %lane, {_ROOM}, %given;",
        *[f"ld.global.b64 %d{10 + i}, [%d27+{8 * i}];" for i in range(4)],
        *[f"ld.global.b32 %r{10 + i}, [%d27+{8 * i}];" for i in range(4)],
        *[f"ld.global.b16 %h{10 + i}, [%d27+{8 * i + 2}];" for i in range(4)],
        *[f"ld.global.f32 %f{1 + i}, [%d27+{8 * i + 4}];" for i in range(4)],
        *[f"ld.global.f64 %g{1 + i}, [%d27+{8 * i}];" for i in range(4)],
    ]
    last = ""
    if policy:
        body.append("createpolicy.fractional.L2::evict_first.b64 %d26, 0f3F000000;")
        last = ", %d26"
    # Each store has 16 bytes of its own, in a region of the lane.
    stores: list[str] = []
    for kind in _TYPES:
        nbytes = _bits(kind) // 8
        for width in _widths(kind):
            at = 16 * len(stores) + nbytes
            stores.append(f"{mnemonic}.{kind} [%d30+{at}], {_register(kind, width)}{last};")
        if vectors:
            for count in (2, 4):
                if count * nbytes <= 16:
                    registers = ", ".join(_register(kind, max(16, _bits(kind)), i + 1) for i in range(count))
                    at = 16 * len(stores)
                    stores.append(f"{mnemonic}.v{count}.{kind} [%d30+{at}], {{{registers}}}{last};")
    region = 16 * len(stores)
    where, final = "", ""
    if space in ("", "global"):
        address = [f"mad.wide.u32 %d30, %lane, {region}, %out;"]
        if not space:
            address.append("cvta.global.u64 %d30, %d30;")
    else:
        base = space.partition("::")[0]
        size = region if base == "local" else region * _LANES
        where = f".{base} .align 16 .b8 room[{size}];"
        address = ["mov.u64 %d29, room;"]
        address.append(
            "mov.u64 %d30, %d29;" if base == "local" else f"mad.wide.u32 %d30, %lane, {region}, %d29;"
        )
        address.append("mov.b64 %d28, 0;")
        address += [f"st.{base}.b64 [%d30+{i}], %d28;" for i in range(0, region, 8)]
        final = f"mad.wide.u32 %d31, %lane, {region}, %out;\n" + "".join(
            f"ld.{base}.b64 %d28, [%d30+{i}];\nst.global.b64 [%d31+{i}], %d28;\n" for i in range(0, region, 8)
        )
    return KernelCase(
        name,
        kernel("\n".join([*body, *address, *stores, final]), "given:u64 out:u64", registers=where),
        (In(_GIVEN), Out(np.uint64, (_LANES, region // 8))),
        covers=(form,),
    )


_STORES = [
    *[("st", "st" + (f".{space}" if space else ""), space) for space in ("", "global", "shared", "local")],
    *[("st", f"st.weak.{space}", space) for space in ("shared::cta", "shared::cluster")],
    *[("st", f"st.global.{cop}", "global") for cop in ("wb", "cg", "cs", "wt")],
    *[
        ("st.evict", f"st.global.L1::{how}", "global")
        for how in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
    ],
    *[("st.volatile", f"st.volatile.{space}", space) for space in ("global", "shared", "shared::cluster")],
    *[
        ("st.strong", f"st.{sem}.{scope}.{space}", space)
        for sem in ("relaxed", "release")
        for scope, space in (
            ("cta", "shared"),
            ("cluster", "shared::cluster"),
            ("gpu", "global"),
            ("sys", "global"),
        )
    ],
]


def _stores_of_128_bits(name: str, mnemonic: str, space: str, form: str) -> KernelCase:
    base = space.partition("::")[0]
    lines = [
        f"mad.wide.u32 %d27, %lane, {_ROOM}, %given;",
        "ld.global.v2.b64 {%d10, %d11}, [%d27+32];",
        "mov.b128 %q0, {%d10, %d11};",
        "mad.wide.u32 %d31, %lane, 16, %out;",
    ]
    where = ""
    if base == "global":
        lines.append(f"{mnemonic}.b128 [%d31], %q0;")
    else:
        where = f".{base} .align 16 .b8 room[{16 if base == 'local' else 16 * _LANES}];"
        lines += [
            "mov.u64 %d29, room;",
            "mov.u64 %d30, %d29;" if base == "local" else "mad.wide.u32 %d30, %lane, 16, %d29;",
            f"{mnemonic}.b128 [%d30], %q0;",
            f"ld.{base}.v2.b64 {{%d12, %d13}}, [%d30];",
            "st.global.v2.b64 [%d31], {%d12, %d13};",
        ]
    return KernelCase(
        name,
        kernel("\n".join(lines), "given:u64 out:u64", registers=f"{where}\n.reg .b128 %q<2>;"),
        (In(_GIVEN), Out(np.uint64, (_LANES, 2))),
        covers=(form,),
    )


# --- parameters, constants, uneven addresses --------------------------------------------------------


def _parameters() -> list[KernelCase]:
    """Parts of a kernel's parameters, through every name that their space has."""
    slots = _Slots()
    for mnemonic in ("ld.param", "ld.param::entry", "ld.param.ca", "ld.weak.param::entry"):
        for kind in _TYPES:
            for width in _widths(kind):
                register = _register(kind, width)
                slots.lines.append(f"{mnemonic}.{kind} {register}, [word+{8 - _bits(kind) // 8}];")
                slots.keep(register)
        slots.lines.append(f"{mnemonic}.v2.u32 {{%r1, %r2}}, [word];")
        slots.keep("%r1")
        slots.keep("%r2")
        slots.lines.append(f"{mnemonic}.v4.s8 {{%r1, %r2, %r3, %r4}}, [word+4];")
        for register in ("%r1", "%r2", "%r3", "%r4"):
            slots.keep(register)
    slots.lines += ["mov.u64 %d1, word;", "cvta.param.u64 %d1, %d1;", "ld.s16 %r1, [%d1+2];"]
    slots.keep("%r1")
    return [
        KernelCase(
            "parts of a parameter",
            kernel("\n".join(slots.lines), "word:b64 out:u64"),
            (Number(0xF1E2D3C4B5A69788, "b64"), Out(np.uint64, (slots.count, _LANES))),
            covers=("ld", "ld.param.where", "cvta"),
        )
    ]


_CALLED = """
.func (.param .align 16 .b8 back[32]) twice(.param .align 16 .b8 given[32])
{
.reg .b16 %h<8>;
.reg .b32 %r<8>;
.reg .b64 %d<8>;
.reg .f32 %f<8>;
.reg .f64 %g<8>;
ld.param.v2.b64 {%d0, %d1}, [given];
ld.param.u16 %h0, [given+16];
ld.param::func.s8 %r0, [given+19];
ld.param.v2.f32 {%f0, %f1}, [given+24];
add.u64 %d0, %d0, 1;
st.param.b64 [back], %d1;
st.param::func.b64 [back+8], %d0;
st.param.s8 [back+16], %r0;
st.param.u8 [back+17], %h0;
st.param.u16 [back+18], %h0;
st.param.b32 [back+20], %r0;
st.param.v2.f32 [back+24], {%f1, %f0};
ret;
}
"""


def _calls() -> KernelCase:
    body = f"""
    mad.wide.u32 %d27, %lane, {_ROOM}, %given;
    mad.wide.u32 %d31, %lane, 32, %out;
    ld.global.v2.b64 {{%d10, %d11}}, [%d27];
    ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d27+16];
    {{
    .param .align 16 .b8 argument[32];
    .param .align 16 .b8 result[32];
    st.param.v2.b64 [argument], {{%d10, %d11}};
    st.param.v4.b32 [argument+16], {{%r10, %r11, %r12, %r13}};
    call (result), twice, (argument);
    ld.param.v2.b64 {{%d12, %d13}}, [result];
    ld.param.v4.b32 {{%r14, %r15, %r16, %r17}}, [result+16];
    }}
    st.global.v2.b64 [%d31], {{%d12, %d13}};
    st.global.v4.b32 [%d31+16], {{%r14, %r15, %r16, %r17}};
    """
    return KernelCase(
        "arguments and results of a call",
        kernel(body, "given:u64 out:u64", declarations=_CALLED),
        (In(_GIVEN), Out(np.uint64, (_LANES, 4))),
        covers=("ld", "st.param", "ld.param.func"),
    )


def _constants() -> KernelCase:
    values = ", ".join(str(int(v) & 0xFF) for v in uniform("constants", 256, 8))
    slots = _Slots()
    slots.lines.append("mov.u64 %d29, table;\nmad.wide.u32 %d30, %lane, 8, %d29;")
    for kind in _TYPES:
        for width in _widths(kind):
            register = _register(kind, width)
            slots.lines.append(f"ld.const.{kind} {register}, [%d30];")
            slots.keep(register)
    slots.lines.append("ld.const.v4.s16 {%r1, %r2, %r3, %r4}, [%d30];")
    for register in ("%r1", "%r2", "%r3", "%r4"):
        slots.keep(register)
    slots.lines.append("cvta.const.u64 %d28, %d30;\nld.u64 %d10, [%d28];")
    slots.keep("%d10")
    slots.lines.append("cvta.to.const.u64 %d28, %d28;\nsub.u64 %d11, %d28, %d30;")
    slots.keep("%d11")
    return KernelCase(
        "constant memory",
        kernel("\n".join(slots.lines), declarations=f".const .align 16 .b8 table[256] = {{{values}}};"),
        (Out(np.uint64, (slots.count, _LANES)),),
        covers=("ld", "cvta", "cvta.to"),
    )


def _same_address() -> KernelCase:
    """All lanes read one word, some lanes another; guards leave lanes out; a scatter backwards."""
    body = f"""
    mad.wide.u32 %d31, %lane, 16, %out;
    ld.global.u32 %r0, [%given+12];
    st.global.u32 [%d31], %r0;
    and.b32 %r1, %lane, 3;
    mad.wide.u32 %d0, %r1, {_ROOM}, %given;
    ld.global.s8 %r2, [%d0+5];
    st.global.u32 [%d31+4], %r2;
    setp.lt.u32 %p0, %lane, 20;
    mov.u32 %r3, 77;
    @%p0 ld.global.u16 %r3, [%d0+6];
    @!%p0 st.global.u32 [%d31+8], %lane;
    sub.u32 %r4, 31, %lane;
    mad.wide.u32 %d1, %r4, 16, %out;
    st.global.u32 [%d1+12], %r3;
    """
    return KernelCase(
        "equal addresses, guards and a scatter",
        kernel(body, "given:u64 out:u64"),
        (In(_GIVEN), Out(np.uint32, (_LANES, 4))),
        covers=("ld", "st"),
    )


_QUESTIONS = ("const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry")


def _windows() -> KernelCase:
    """Which spaces a generic address lies in, and that a cvta there and back changes nothing."""
    body = ["mad.wide.u32 %d31, %lane, 8, %out;"]
    slot = 0
    for space, name in (
        *(("const", "table"), ("global", "word"), ("local", "own"), ("shared", "room"), ("param", "out")),
        *(("shared::cta", "room"), ("shared::cluster", "room"), ("param::entry", "out")),
    ):
        body += [
            f"mov.u64 %d0, {name};",
            f"cvta.{space}.u64 %d1, %d0;",
            f"cvta.to.{space}.u64 %d2, %d1;",
            "setp.eq.u64 %p0, %d0, %d2;",
            "selp.u32 %r0, 1, 0, %p0;",
        ]
        for question in _QUESTIONS:
            body += [
                f"isspacep.{question} %p1, %d1;",
                "selp.u32 %r1, 1, 0, %p1;",
                "shl.b32 %r0, %r0, 1;",
                "or.b32 %r0, %r0, %r1;",
            ]
        body.append(f"st.global.u32 [%d31+{slot * 8 * _LANES}], %r0;")
        slot += 1
    return KernelCase(
        "windows of the generic address space",
        kernel(
            "\n".join(body),
            declarations=".const .b32 table[4] = {1, 2, 3, 4};\n.global .b32 word = 5;",
            registers=".local .b32 own[4];\n.shared .b32 room[4];",
        ),
        (Out(np.uint64, (slot, _LANES)),),
        covers=("cvta", "cvta.to", "isspacep"),
    )


CASES = [
    *[_loads(mnemonic, mnemonic, space, form) for form, mnemonic, space in _LOADS],
    _loads("ld.global.L2::cache_hint", "ld.global.L2::cache_hint", "global", "ld", policy=True),
    _loads("ld.mmio.relaxed.sys.global", "ld.mmio.relaxed.sys.global", "global", "ld.mmio", vectors=False),
    _loads("ld.global of [a].unified", "ld.global", "global", "ld.unified", suffix=".unified"),
    _loads_of_128_bits(
        "ld.global.b128 of [a].unified", "ld.global", "global", "ld.unified.b128", suffix=".unified"
    ),
    *[
        _loads_of_128_bits(f"{mnemonic}.b128", mnemonic, space, f"{form}.b128")
        for form, mnemonic, space in (
            *[("ld", f"ld.{space}", space) for space in ("global", "shared", "local", "shared::cluster")],
            ("ld.evict", "ld.global.L1::evict_last", "global"),
            ("ld.volatile", "ld.volatile.global", "global"),
            ("ld.strong", "ld.acquire.gpu.global", "global"),
            ("ld.strong", "ld.relaxed.cta.shared", "shared"),
            ("ld.mmio", "ld.mmio.relaxed.sys.global", "global"),
            ("ld.nc", "ld.global.nc", "global"),
            ("ld.nc.evict", "ld.global.nc.L1::evict_first", "global"),
            ("ldu", "ldu.global", "global"),
        )
    ],
    *[_stores(mnemonic, mnemonic, space, form) for form, mnemonic, space in _STORES],
    _stores("st.global.L2::cache_hint", "st.global.L2::cache_hint", "global", "st", policy=True),
    _stores("st.mmio.relaxed.sys.global", "st.mmio.relaxed.sys.global", "global", "st.mmio", vectors=False),
    *[
        _stores_of_128_bits(f"{mnemonic}.b128", mnemonic, space, f"{form}.b128")
        for form, mnemonic, space in (
            *[("st", f"st.{space}", space) for space in ("global", "shared", "local", "shared::cluster")],
            ("st.evict", "st.global.L1::evict_last", "global"),
            ("st.volatile", "st.volatile.global", "global"),
            ("st.strong", "st.release.gpu.global", "global"),
            ("st.strong", "st.relaxed.cta.shared", "shared"),
            ("st.mmio", "st.mmio.relaxed.sys.global", "global"),
        )
    ],
    *_parameters(),
    _calls(),
    _constants(),
    _same_address(),
    _windows(),
]
