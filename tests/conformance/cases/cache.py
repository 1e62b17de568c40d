"""Cache policies as numbers, and hints that change nothing."""

from __future__ import annotations

from itertools import product

import numpy as np

from ..case import In, KernelCase, Out, kernel
from ..words import uniform

_LANES = 32
_PRIMARY = ("evict_last", "evict_normal", "evict_first", "evict_unchanged")
_SECONDARY = ("", ".L2::evict_first", ".L2::evict_unchanged")


def _fractions() -> KernelCase:
    """Every kind of policy for fractions around the steps of sixteenths."""
    steps = np.arange(1, _LANES + 1, dtype=np.float32) / np.float32(_LANES)
    fractions = np.stack([steps, np.nextafter(steps, np.float32(0))])
    lines = ["mad.wide.u32 %d1, %index, 4, %given;", "mad.wide.u32 %d2, %index, 8, %out;"]
    slot = 0
    for primary, secondary in product(_PRIMARY, _SECONDARY):
        name = f"createpolicy.fractional.L2::{primary}{secondary}.b64"
        for row in range(len(fractions)):
            lines += [f"ld.global.f32 %f1, [%d1+{row * 4 * _LANES}];", f"{name} %d3, %f1;"]
            lines += [f"st.global.b64 [%d2+{slot * 8 * _LANES}], %d3;"]
            slot += 1
        for text in ("", ", 0f3F000000", ", 0f3F800000"):
            lines += [f"{name} %d3{text};", f"st.global.b64 [%d2+{slot * 8 * _LANES}], %d3;"]
            slot += 1
    return KernelCase(
        "policies for fractions",
        kernel("\n".join(lines), "given:u64 out:u64"),
        (In(fractions), Out(np.uint64, (slot, _LANES))),
        covers=("createpolicy.fractional",),
    )


def _ranges() -> KernelCase:
    """Ranges of many sizes at many addresses; the addresses are numbers, nothing lies there."""
    rows = 16
    count = rows * _LANES
    base = uniform("ranges", count) % np.uint64(1 << 47)
    total = uniform("totals", count, 32) >> (uniform("shifts", count, 5) % np.uint64(32))
    powers = np.uint64(1) << np.arange(_LANES, dtype=np.uint64)
    total[: 3 * _LANES] = np.concatenate([powers, powers - np.uint64(1), powers + np.uint64(1)])
    total %= np.uint64(1 << 32)
    # Just above a power of two, in units of the f32 number that the logarithm is taken of.
    above = [(1 << k) + (m << (k - 23)) for k in range(23, 32) for m in range(1, 25)]
    total[8 * _LANES : 8 * _LANES + len(above)] = above
    primary = np.where(
        total > 0, uniform("primaries", count, 32) % np.maximum(total, np.uint64(1)), np.uint64(0)
    )
    primary[:_LANES] = total[:_LANES]
    lines = [
        "mad.wide.u32 %d1, %index, 8, %base;",
        "mad.wide.u32 %d2, %index, 4, %primary;",
        "mad.wide.u32 %d3, %index, 4, %total;",
        "mad.wide.u32 %d4, %index, 8, %out;",
    ]
    slot = 0
    for number, (kind, secondary) in enumerate(product(_PRIMARY, _SECONDARY)):
        space = ".global" if number % 2 else ""
        for row in range(rows):
            lines += [
                f"ld.global.b64 %d5, [%d1+{row * 8 * _LANES}];",
                f"ld.global.b32 %r1, [%d2+{row * 4 * _LANES}];",
                f"ld.global.b32 %r2, [%d3+{row * 4 * _LANES}];",
                f"createpolicy.range{space}.L2::{kind}{secondary}.b64 %d6, [%d5], %r1, %r2;",
                f"st.global.b64 [%d4+{slot * 8 * _LANES}], %d6;",
            ]
            slot += 1
        lines += [
            f"createpolicy.range{space}.L2::{kind}{secondary}.b64 %d6, [%d5+64], 1048576, 2097152;",
            f"st.global.b64 [%d4+{slot * 8 * _LANES}], %d6;",
        ]
        slot += 1
    return KernelCase(
        "policies for ranges",
        kernel("\n".join(lines), "base:u64 primary:u64 total:u64 out:u64"),
        (
            In(base),
            In(primary.astype(np.uint32)),
            In(total.astype(np.uint32)),
            Out(np.uint64, (slot, _LANES)),
        ),
        covers=("createpolicy.range",),
    )


def _properties() -> KernelCase:
    body = """
    mad.wide.u32 %d1, %index, 8, %given;
    ld.global.b64 %d2, [%d1];
    createpolicy.cvt.L2.b64 %d3, %d2;
    mad.wide.u32 %d4, %index, 8, %out;
    st.global.b64 [%d4], %d3;
    """
    return KernelCase(
        "policies of access properties",
        kernel(body, "given:u64 out:u64"),
        (In(uniform("properties", _LANES)), Out(np.uint64, _LANES)),
        covers=("createpolicy.cvt",),
    )


def _hints() -> KernelCase:
    """Prefetches and priorities change no word."""
    lines = ["mad.wide.u32 %d1, %index, 128, %out;", "mov.u64 %d2, own;"]
    for level in ("L1", "L2"):
        lines += [
            f"prefetch.global.{level} [%d1];",
            f"prefetch.{level} [%d1+1];",
            f"prefetch.local.{level} [%d2];",
        ]
    lines += [
        "prefetch.global.L2::evict_last [%d1];",
        "prefetch.global.L2::evict_normal [%d1+3];",
        "prefetchu.L1 [%d1];",
        "applypriority.global.L2::evict_normal [%d1], 128;",
        "applypriority.L2::evict_normal [%d1], 128;",
        "ld.global.b32 %r1, [%d1];",
        "discard.global.L2 [%d1], 128;",
        "add.u32 %r1, %r1, 1;",
        "st.global.b32 [%d1], %r1;",
        "mov.b32 %r2, 0;",
        *[f"st.global.b32 [%d1+{4 * i}], %r2;" for i in range(1, 32)],
    ]
    return KernelCase(
        "hints",
        kernel("\n".join(lines), registers=".local .b32 own[4];"),
        (Out(np.uint32, (_LANES, 32), initial=7),),
        covers=("prefetch", "prefetch.evict", "prefetchu", "applypriority", "discard"),
    )


CASES = [_fractions(), _ranges(), _properties(), _hints()]
