"""Bulk copies and reductions between memories, bulk groups, and stores that signal an mbarrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.core.types import TYPES

from ..case import In, KernelCase, Out, kernel
from ..reference import Expected
from ..reference.reductions import combined, result
from ..words import FORMATS, floats, uniform

ROOM = 2048
DECLARED = f".shared .align 1024 .b8 room[{ROOM}];\n.shared .align 8 .b64 bar;"
#: Addresses of .shared::cluster need a launch of clusters, of one CTA here.
_CLUSTERED = ".reqnctapercluster 1, 1, 1"
_GIVEN = uniform("bulk copy", ROOM // 8)
#: What is done to the room, which holds what is given.
Effect = Callable[[NDArray[np.uint8]], None]


def _room(effect: Effect) -> Callable[[], list[Expected]]:
    def reference() -> list[Expected]:
        room = _GIVEN.copy()
        effect(room.view(np.uint8))
        return [Expected(room)]

    return reference


def _moves(*moves: tuple[int, int, int]) -> Effect:
    """Bytes to, from and how many: from what is given."""

    def effect(room: NDArray[np.uint8]) -> None:
        given = _GIVEN.view(np.uint8)
        for target, source, nbytes in moves:
            room[target : target + nbytes] = given[source : source + nbytes]

    return effect


#: The room is filled from what is given, 64 bytes for each thread; one arrival completes a phase of ``bar``.
FILL = """
mov.u32 %r0, room;
mov.u32 %r1, bar;
mov.u64 %d0, room;
mov.u64 %d1, bar;
setp.eq.u32 %p1, %thread, 0;
mad.lo.u32 %r2, %thread, 64, %r0;
mad.wide.u32 %d2, %thread, 64, %given;
mov.u32 %r3, 0;
FILL:
ld.global.b64 %d3, [%d2];
st.shared.b64 [%r2], %d3;
add.u32 %r2, %r2, 8;
add.u64 %d2, %d2, 8;
add.u32 %r3, %r3, 8;
setp.lt.u32 %p2, %r3, 64;
@%p2 bra FILL;
@%p1 mbarrier.init.shared.b64 [%r1], 1;
fence.proxy.async;
bar.sync 0;
"""
WAIT = """
WAIT:
mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0;
@!%p3 bra WAIT;
bar.sync 0;
"""
DUMP = """
mad.lo.u32 %r2, %thread, 64, %r0;
mad.wide.u32 %d2, %thread, 64, %out;
mov.u32 %r3, 0;
DUMP:
ld.shared.b64 %d3, [%r2];
st.global.b64 [%d2], %d3;
add.u32 %r2, %r2, 8;
add.u64 %d2, %d2, 8;
add.u32 %r3, %r3, 8;
setp.lt.u32 %p2, %r3, 64;
@%p2 bra DUMP;
"""
POLICY = "createpolicy.fractional.L2::evict_last.b64 %d9, 1.0;\n"


def expect(nbytes: int) -> str:
    return f"@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {nbytes};\n"


def _shared_case(
    name: str,
    copies: list[str],
    nbytes: int,
    covers: tuple[str, ...],
    effect: Effect,
    before: str = "",
    directives: str = "",
) -> KernelCase:
    """The first thread issues copies of ``nbytes`` together; then the whole room is looked at."""
    issued = "".join(f"@%p1 {copy}\n" for copy in copies)
    return KernelCase(
        name,
        kernel(
            FILL + before + expect(nbytes) + issued + WAIT + DUMP,
            "given:u64 out:u64",
            registers=DECLARED,
            directives=directives,
        ),
        (In(_GIVEN), Out(np.uint64, ROOM // 8)),
        covers=covers,
        reference=_room(effect),
    )


_LOAD = "cp.async.bulk.{}.global.mbarrier::complete_tx::bytes{}"


def _loads() -> list[KernelCase]:
    cases = []
    for dst in ("shared::cta", "shared::cluster"):
        load = _LOAD.format(dst, "")
        cases.append(
            _shared_case(
                f"loads to {dst}",
                [
                    f"{load} [%r0+16], [%given+512], 16, [%r1];",
                    f"{load} [%r0+48], [%given+16], 1008, [%r1];",
                    f"{load} [%r0+1072], [%given], %r9, [%r1];",
                ],
                16 + 1008 + 208,
                ("cp.async.bulk.load",),
                _moves((16, 512, 16), (48, 16, 1008), (1072, 0, 208)),
                "mov.u32 %r9, 208;\n",
            )
        )
    hint = _LOAD.format("shared::cluster", ".L2::cache_hint")
    cases.append(
        _shared_case(
            "a load with a policy",
            [f"{hint} [%r0], [%given+1024], 512, [%r1], %d9;"],
            512,
            ("cp.async.bulk.load",),
            _moves((0, 1024, 512)),
            POLICY,
        )
    )
    multicast = _LOAD.format("shared::cluster", ".multicast::cluster")
    cases.append(
        _shared_case(
            "a load to a mask of this CTA alone",
            [f"{multicast} [%r0+256], [%given+1024], 512, [%r1], %h1;"],
            512,
            ("cp.async.bulk.load",),
            _moves((256, 1024, 512)),
            "mov.b16 %h1, 1;\n",
        )
    )
    return cases


def _within_shared() -> list[KernelCase]:
    copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    return [
        _shared_case(
            "from shared to shared memory",
            [f"{copy} [%r0+1024], [%r0+16], 272, [%r1];", f"{copy} [%r0+1504], [%r0+512], 16, [%r1];"],
            288,
            ("cp.async.bulk.cluster",),
            _moves((1024, 16, 272), (1504, 512, 16)),
            directives=_CLUSTERED,
        )
    ]


_CLUSTER = {
    **{op: ("b32",) for op in ("and", "or", "xor")},
    "add": ("u32", "s32", "u64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
}


def _shared_reductions() -> list[KernelCase]:
    cases = []
    for op, types in _CLUSTER.items():
        for kind in types:
            size = TYPES[kind].nbytes
            combine = combined(op, kind.replace("b", "u"))

            def whole(room: NDArray[np.uint8], size: int = size, combine: Any = combine) -> None:
                words = room.view(f"u{size}")
                first, last = 1024 // size, (1024 + 992) // size
                words[first:last] = combine(words[first:last], words[32 // size : (32 + 992) // size])

            def single(room: NDArray[np.uint8], size: int = size, combine: Any = combine) -> None:
                given = room.copy().view(f"u{size}")
                words = room.view(f"u{size}")
                all_of_them = np.array([12], words.dtype)
                for thread in range(32):
                    at, mine = (1024 + 8 * thread) // size, 8 * thread // size
                    words[at : at + 1] = combine(words[at : at + 1], given[mine : mine + 1])
                    at = 1536 // size
                    words[at : at + 1] = combine(words[at : at + 1], all_of_them)

            form = (
                f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind}"
            )
            cases.append(
                _shared_case(
                    f"{op}.{kind} in shared memory",
                    [f"{form} [%r0+1024], [%r0+32], 992, [%r1];"],
                    992,
                    ("cp.reduce.async.bulk.cluster",),
                    whole,
                    directives=_CLUSTERED,
                )
            )
            name = f"red.async.{op}.{kind}"
            value = "%d4" if TYPES[kind].nbytes == 8 else "%r4"
            # Every thread combines a word of its own, and all of them one more.
            body = f"""
            @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {32 * 2 * TYPES[kind].nbytes};
            ld.shared.b{8 * TYPES[kind].nbytes} {value}, [%r5];
            mad.lo.u32 %r6, %thread, 8, %r0;
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind} [%r6+1024], {value}, [%r1];
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind} [%r0+1536], 12, [%r1];
            """
            cases.append(
                KernelCase(
                    name,
                    kernel(
                        f"{FILL}mad.lo.u32 %r5, %thread, 8, %r0;\n{body}{WAIT}{DUMP}",
                        "given:u64 out:u64",
                        registers=DECLARED,
                        directives=_CLUSTERED,
                    ),
                    (In(_GIVEN), Out(np.uint64, ROOM // 8)),
                    covers=("red.async",),
                    reference=_room(single),
                )
            )
    return cases


def _st_async() -> list[KernelCase]:
    cases = []
    for suffix, operand, nbytes in (
        ("b32", "%r4", 4),
        ("u32", "%r4", 4),
        ("s32", "%r4", 4),
        ("f32", "%f4", 4),
        ("b64", "%d4", 8),
        ("u64", "%d4", 8),
        ("s64", "%d4", 8),
        ("f64", "%g4", 8),
        ("v2.b32", "{%r4, %r5}", 8),
        ("v2.u64", "{%d4, %d5}", 16),
        ("v4.f32", "{%f4, %f5, %f6, %f7}", 16),
        ("v4.s32", "{%r4, %r5, %r6, %r7}", 16),
    ):
        stored = _moves(*((16 * lane + 1024, 16 * lane, nbytes) for lane in range(32)))
        loaded = operand if operand.startswith("{") else f"{{{operand}}}"
        parts = [part.strip() for part in loaded.strip("{}").split(",")]
        bits = 8 * nbytes // len(parts)
        loads = "".join(
            f"ld.shared.{'f' if part[1] in 'fg' else 'b'}{bits} {part}, [%r8+{at * bits // 8}];\n"
            for at, part in enumerate(parts)
        )
        body = f"""
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {32 * nbytes};
        mad.lo.u32 %r8, %thread, 16, %r0;
        {loads}
        st.async.shared::cluster.mbarrier::complete_tx::bytes.{suffix} [%r8+1024], {operand}, [%r1];
        """
        cases.append(
            KernelCase(
                f"st.async.{suffix}",
                kernel(
                    FILL + body + WAIT + DUMP, "given:u64 out:u64", registers=DECLARED, directives=_CLUSTERED
                ),
                (In(_GIVEN), Out(np.uint64, ROOM // 8)),
                covers=("st.async",),
                reference=_room(stored),
            )
        )
    return cases


GROUP = "@%p1 cp.async.bulk.commit_group;\n"


def _stores() -> list[KernelCase]:
    store = "@%p1 cp.async.bulk.global.shared::cta.bulk_group"
    body = [
        FILL,
        POLICY,
        f"{store} [%out+16], [%r0+512], 16;\n",
        GROUP,
        f"{store}.L2::cache_hint [%out+1024], [%r0+16], 512, %d9;\n",
        f"{store} [%out+48], [%r0+1024], 960;\n",
        GROUP,
        "@%p1 cp.async.bulk.wait_group.read 1;\n@%p1 cp.async.bulk.wait_group 0;\n",
    ]
    prefetch = [
        FILL,
        POLICY,
        "@%p1 cp.async.bulk.prefetch.L2.global [%given+16], 1024;\n",
        "@%p1 cp.async.bulk.prefetch.L2.global.L2::cache_hint [%given], 2048, %d9;\n",
        DUMP,
    ]
    # The source is written again once it has been read, before the copy is complete.
    again = [
        FILL,
        f"{store} [%out], [%r0], {ROOM};\n",
        GROUP,
        "@%p1 cp.async.bulk.wait_group.read 0;\nbar.sync 0;\nmad.lo.u32 %r2, %thread, 64, %r0;\n",
        "mov.b64 %d5, -1;\n",
        *(f"st.shared.b64 [%r2+{at}], %d5;\n" for at in range(0, 64, 8)),
        "@%p1 cp.async.bulk.wait_group 0;\n",
    ]

    def case(name: str, lines: list[str], moves: list[tuple[int, int, int]], *covers: str) -> KernelCase:
        def reference() -> list[Expected]:
            out = np.arange(ROOM // 8, dtype=np.uint64)
            _moves(*moves)(out.view(np.uint8))
            return [Expected(out)]

        return KernelCase(
            name,
            kernel("".join(lines), "given:u64 out:u64", registers=DECLARED),
            (In(_GIVEN), Out(np.uint64, ROOM // 8, initial=np.arange(ROOM // 8, dtype=np.uint64))),
            covers=covers,
            reference=reference,
        )

    groups = ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group")
    return [
        case(
            "stores", body, [(16, 512, 16), (1024, 16, 512), (48, 1024, 960)], "cp.async.bulk.store", *groups
        ),
        case("sources that are used again", again, [(0, 0, ROOM)], "cp.async.bulk.store", *groups),
        case("prefetches", prefetch, [(0, 0, ROOM)], "cp.async.bulk.prefetch"),
    ]


_GLOBAL = {
    **{op: ("b32", "b64") for op in ("and", "or", "xor")},
    "add": ("u32", "s32", "u64", "f32", "f64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
}


def operands(kind: str, name: str, count: int) -> np.ndarray:
    """Words of a type; of floats those that matter, among them NaNs, infinities, subnormal numbers."""
    nbytes = TYPES[kind].nbytes
    if TYPES[kind].is_float:
        form = FORMATS[kind]
        words = floats(name, count, kind)
        # Fractions of any exponent, and the two extreme exponents: zeroes, subnormal numbers, NaNs, infinities.
        raw = uniform(f"{name} raw", count, form.bits)
        words[::4] = raw[::4]
        top = np.uint64(((1 << form.exponent) - 1) << form.fraction)
        words[1::8] = raw[1::8] & ~top
        words[3::8] = raw[3::8] | top
        words[11::32] = top
        words[5::32] = np.uint64(1 << form.bits - 1)
    else:
        words = uniform(name, count, 8 * nbytes)
        # Small numbers and equal pairs among the large ones: what inc, dec, min and max tell apart.
        words[::3] &= np.uint64(3)
    return np.asarray(words).astype(f"u{nbytes}")


def _global_reductions() -> list[KernelCase]:
    pairs = [(f".{op}", kind) for op, kinds in _GLOBAL.items() for kind in kinds]
    pairs += [(".add.noftz", "f16"), (".add.noftz", "bf16")]
    cases = []
    for op, kind in pairs:
        count = ROOM // TYPES[kind].nbytes
        form = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
        lines = [
            FILL,
            POLICY,
            f"@%p1 {form}{op}.{kind} [%out], [%r0], {ROOM - 512};\n",
            f"@%p1 {form}.L2::cache_hint{op}.{kind} [%out+{ROOM - 512}], [%r0+{ROOM - 512}], 512, %d9;\n",
            GROUP,
            "@%p1 cp.async.bulk.wait_group 0;\n",
        ]
        source, target = (operands(kind, f"bulk {what} {kind}", count) for what in ("source", "target"))

        def reference(op: str = op, kind: str = kind, a: Any = target, b: Any = source) -> list[Expected]:
            return [result(op.split(".")[1], kind, a, b)]

        covered = "cp.reduce.async.bulk.global" + (".noftz" if "noftz" in op else "")
        cases.append(
            KernelCase(
                f"{op[1:]}.{kind} in global memory",
                kernel("".join(lines), "given:u64 out:u64", registers=DECLARED),
                (In(source), Out(f"u{TYPES[kind].nbytes}", count, initial=target)),
                covers=(covered,),
                reference=reference,
            )
        )
    return cases


CASES = [
    *_loads(),
    *_within_shared(),
    *_shared_reductions(),
    *_st_async(),
    *_stores(),
    *_global_reductions(),
]
