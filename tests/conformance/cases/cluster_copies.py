"""Copies between the CTAs of a cluster: to many of them at once, to a peer, reductions and stores in a peer's memory.

Every CTA fills its room, all meet, each issues its copies, waits for the bytes that come to itself, and keeps its room
and the state of its barrier, an object of two arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.core.types import TYPES

from ..case import Argument, In, KernelCase, Map, Out, aligned, kernel
from ..reference import Expected
from ..reference.barrier import Phases
from ..reference.reductions import combined
from ..reference.tensor import TensorBox
from ..rounds import dump, fetch

_SIZES = (2, 4, 8)
_HALF = 512
_DONE = "mbarrier::complete_tx::bytes"
#: What is done to the rooms, ``[rank, byte]``.
Effect = Callable[[NDArray[np.uint8]], None]


def _rooms(ctas: int, room: int) -> NDArray[np.uint64]:
    """Other small numbers in every CTA; in 32 bits of each word the count goes down."""
    words = np.arange(ctas * room // 8, dtype=np.uint64)
    return np.asarray(
        (words * np.uint64(3) | (words[::-1] + np.uint64(7)) << np.uint64(32)).reshape(ctas, -1)
    )


def _case(
    name: str,
    ctas: int,
    issue: str,
    nbytes: list[int],
    effect: Effect,
    covers: tuple[str, ...],
    *,
    room: int = 2 * _HALF,
    masks: list[int] | None = None,
    source: NDArray[Any] | None = None,
    options: dict[str, Any] | None = None,
) -> KernelCase:
    """``nbytes`` come to each CTA. The next CTA's room and barrier are at %r12 and %r13, the last one's at %r14, %r15."""
    body = f"""
    mov.u32 %r0, room;
    mov.u32 %r1, bar;
    mov.u32 %r10, %cluster_ctarank;
    setp.eq.u32 %p1, %thread, 0;
    mad.lo.u32 %r2, %thread, 16, %r0;
    mul.wide.u32 %d0, %r10, {room};
    mad.wide.u32 %d0, %thread, 16, %d0;
    add.u64 %d1, %d0, %given;
    {fetch(room, "%d1")}
    @%p1 mbarrier.init.shared.b64 [%r1], 2;
    mad.wide.u32 %d6, %r10, 8, %table;
    ld.global.v2.b32 {{%r16, %r17}}, [%d6];
    cvt.u16.u32 %h1, %r17;
    add.u32 %r11, %r10, 1;
    rem.u32 %r11, %r11, {ctas};
    mapa.shared::cluster.u32 %r12, %r0, %r11;
    mapa.shared::cluster.u32 %r13, %r1, %r11;
    mapa.shared::cluster.u32 %r14, %r0, {ctas - 1};
    mapa.shared::cluster.u32 %r15, %r1, {ctas - 1};
    fence.proxy.async;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r16;
    {issue}
    @%p1 mbarrier.arrive.shared.b64 _, [%r1];
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [%r1], 0;
    @!%p3 bra WAIT;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.b64 %d10, 0;
    @%p1 mbarrier.arrive.shared.b64 %d10, [%r1];
    and.b64 %d10, %d10, 0xffffffff00000000;
    mad.wide.u32 %d11, %r10, 8, %states;
    @%p1 st.global.b64 [%d11], %d10;
    add.u64 %d1, %d0, %out;
    {dump(room, "%d1")}
    """
    given = _rooms(ctas, room)
    table = np.array([nbytes, masks or [0] * ctas], np.int32).T

    def reference() -> list[Expected]:
        rooms = given.copy()
        effect(rooms.view(np.uint8).reshape(ctas, room))
        state = Phases(2, phase=1).state()
        return [Expected(rooms), Expected(np.full(ctas, state, np.uint64))]

    arguments: list[Argument] = [
        In(np.ascontiguousarray(table)),
        In(given),
        Out(np.uint64, (ctas, room // 8)),
        Out(np.uint64, ctas),
        *([] if source is None else [In(source)]),
        *([] if options is None else [Map(4, options)]),
    ]
    parameters = "table:u64 given:u64 out:u64 states:u64"
    parameters += " source:u64" * (source is not None) + " map:map" * (options is not None)
    declared = f".shared .align 1024 .b8 room[{room}];\n.shared .align 8 .b64 bar;"
    return KernelCase(
        f"{name} in a cluster of {ctas}",
        kernel(body, parameters, registers=declared),
        tuple(arguments),
        grid=(ctas,),
        cluster=(ctas,),
        covers=covers,
        reference=reference,
    )


# --- to many ------------------------------------------------------------------------------------


def _masks(ctas: int) -> dict[str, list[int]]:
    everyone = (1 << ctas) - 1
    return {
        "all": [everyone] * ctas,
        "the others": [everyone & ~(1 << rank) for rank in range(ctas)],
        "the next": [1 << (rank + 1) % ctas for rank in range(ctas)],
        "odd and even": [sum(1 << other for other in range(rank % 2, ctas, 2)) for rank in range(ctas)],
    }


def _to_many(ctas: int) -> Iterator[KernelCase]:
    """CTA r brings slice r of the source to the CTAs of its mask, at place r of each room."""
    for label, masks in _masks(ctas).items():
        coming = [[rank for rank in range(ctas) if masks[rank] >> other & 1] for other in range(ctas)]
        source = (np.arange(ctas * 64) * 7).astype(np.uint8)

        def plain(rooms: NDArray[np.uint8], source: Any = source, coming: Any = coming) -> None:
            for other, ranks in enumerate(coming):
                for rank in ranks:
                    rooms[other, _HALF + 64 * rank :][:64] = source[64 * rank :][:64]

        yield _case(
            f"bulk copies to {label}",
            ctas,
            f"""
            mad.lo.u32 %r20, %r10, 64, %r0;
            mad.wide.u32 %d12, %r10, 64, %source;
            @%p1 cp.async.bulk.shared::cluster.global.{_DONE}.multicast::cluster [%r20+{_HALF}], [%d12], 64, [%r1], %h1;
            """,
            [64 * len(ranks) for ranks in coming],
            plain,
            ("cp.async.bulk.load",),
            masks=masks,
            source=source,
        )
        yield from _boxes_to_many(ctas, label, masks, coming)


def _boxes_to_many(ctas: int, label: str, masks: list[int], coming: list[list[int]]) -> Iterator[KernelCase]:
    image = np.arange(1, 9 * 40 + 1, dtype=np.uint16).reshape(9, 40)
    pixels = np.arange(1, 2 * 6 * 5 * 16 + 1, dtype=np.uint16).reshape(2, 6, 5, 16)
    box: dict[str, Any] = {"box": (4, 16), "swizzle": "32B"}
    filtered: dict[str, Any] = {
        "pixels": 4,
        "channels": 16,
        "lower": (-1, -1),
        "upper": (-1, -1),
        "swizzle": "32B",
    }
    for what, tensor, options, mode, point, offsets, covers in (
        ("boxes", image, box, "", "{8, %r10}", "", "cp.async.bulk.tensor.load"),
        (
            "pixels",
            pixels,
            filtered,
            ".im2col",
            "{0, 1, %r10, 0}",
            ", {1, 1}",
            "cp.async.bulk.tensor.load.im2col",
        ),
    ):
        if what == "pixels" and (label != "the others" or ctas == 8):
            continue

        def effect(
            rooms: NDArray[np.uint8], tensor: Any = tensor, options: Any = options, im2col: bool = bool(mode)
        ) -> None:
            for other, ranks in enumerate(coming):
                for rank in ranks:
                    where = (0, 1, rank, 0) if im2col else (8, rank)
                    shift = (1, 1) if im2col else ()
                    TensorBox(tensor.shape, 2, options, where, shift, 128 * rank).loaded(tensor, rooms[other])

        yield _case(
            f"{what} to {label}",
            ctas,
            f"""
            mad.lo.u32 %r20, %r10, 128, %r0;
            @%p1 cp.async.bulk.tensor.{tensor.ndim}d.shared::cluster.global{mode}.{_DONE}.multicast::cluster [%r20], [%map, {point}], [%r1]{offsets}, %h1;
            """,
            [128 * len(ranks) for ranks in coming],
            effect,
            (covers,),
            room=2 * _HALF,
            masks=masks,
            source=aligned(tensor),
            options=options,
        )


# --- to a peer ----------------------------------------------------------------------------------


def _next(rooms: NDArray[np.uint8]) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """The lower half of each room as it was, and the next CTA's room."""
    before = rooms.copy()
    for rank in range(len(rooms)):
        yield before[rank, :_HALF], rooms[(rank + 1) % len(rooms)]


def _to_a_peer(ctas: int) -> KernelCase:
    def effect(rooms: NDArray[np.uint8]) -> None:
        for mine, target in _next(rooms):
            target[_HALF + 32 :][:304] = mine[16:][:304]
            target[_HALF + 480 :][:16] = mine[496:]

    copy = f"@%p1 cp.async.bulk.shared::cluster.shared::cta.{_DONE}"
    issue = f"""
    {copy} [%r12+{_HALF + 32}], [%r0+16], 304, [%r13];
    {copy} [%r12+{_HALF + 480}], [%r0+496], 16, [%r13];
    """
    return _case("from CTA to CTA", ctas, issue, [320] * ctas, effect, ("cp.async.bulk.cluster",))


_OPS = {
    **{op: ("b32",) for op in ("and", "or", "xor")},
    "add": ("u32", "s32", "u64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
}


def _reductions() -> Iterator[KernelCase]:
    """Into the next CTA; into the last one from all of them, where the order does not matter."""
    for number, (op, kind) in enumerate((op, kind) for op, kinds in _OPS.items() for kind in kinds):
        ctas = _SIZES[number % 3]
        size = TYPES[kind].nbytes
        word = f"u{size}"
        together = op not in ("inc", "dec")
        combine = combined(op, kind.replace("b", "u"))

        def bulk(
            rooms: NDArray[np.uint8], word: str = word, combine: Any = combine, together: bool = together
        ) -> None:
            last = rooms[-1]
            for mine, target in _next(rooms):
                for into, first in ((target, 0), (last, 256)) if together else ((target, 0),):
                    part = into[_HALF + first :][:256].view(word)
                    part[:] = combine(part, mine[first:][:256].view(word))

        reduce = f"@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.{_DONE}.{op}.{kind}"
        coming = [256 + 256 * ctas * (together and rank == ctas - 1) for rank in range(ctas)]
        issue = f"{reduce} [%r12+{_HALF}], [%r0], 256, [%r13];"
        if together:
            issue += f"\n{reduce} [%r14+{_HALF + 256}], [%r0+256], 256, [%r15];"
        yield _case(f"bulk {op}.{kind}", ctas, issue, coming, bulk, ("cp.reduce.async.bulk.cluster",))

        def single(
            rooms: NDArray[np.uint8], size: int = size, combine: Any = combine, together: bool = together
        ) -> None:
            last = rooms[-1]
            for mine, target in _next(rooms):
                for lane in range(32):
                    for into, first in ((target, 0), (last, 256)) if together else ((target, 0),):
                        part = into[_HALF + first + 8 * lane :][:size].view(f"u{size}")
                        part[:] = combine(part, mine[first + 8 * lane :][:size].view(f"u{size}"))

        value = "%d4" if size == 8 else "%r22"
        red = f"red.async.relaxed.cluster.shared::cluster.{_DONE}.{op}.{kind}"
        lines = "mad.lo.u32 %r20, %thread, 8, %r0;\nsub.u32 %r21, %r20, %r0;\nadd.u32 %r23, %r21, %r14;\nadd.u32 %r21, %r21, %r12;\n"
        lines += f"ld.shared.b{8 * size} {value}, [%r20];\n{red} [%r21+{_HALF}], {value}, [%r13];\n"
        if together:
            lines += (
                f"ld.shared.b{8 * size} {value}, [%r20+256];\n{red} [%r23+{_HALF + 256}], {value}, [%r15];\n"
            )
        coming = [32 * size * (1 + ctas * (together and rank == ctas - 1)) for rank in range(ctas)]
        yield _case(f"red.async {op}.{kind}", ctas, lines, coming, single, ("red.async",))


def _stores() -> Iterator[KernelCase]:
    """Each thread's values to the next CTA."""
    kinds = ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
    for number, (lanes, kind) in enumerate(
        (n, k) for n in (1, 2, 4) for k in kinds if n < 4 or k.endswith("32")
    ):
        ctas = _SIZES[number % 3]
        bits = int(kind[1:])
        nbytes = lanes * bits // 8
        registers = [
            f"%{dict(f32='f', f64='g').get(kind, 'r' if bits == 32 else 'd')}{24 + i}" for i in range(lanes)
        ]

        def effect(rooms: NDArray[np.uint8], nbytes: int = nbytes) -> None:
            for mine, target in _next(rooms):
                for lane in range(32):
                    target[_HALF + 16 * lane :][:nbytes] = mine[16 * lane :][:nbytes]

        load = f"ld.shared.{'f' if kind[0] == 'f' else 'b'}{bits}"
        value = registers[0] if lanes == 1 else "{" + ", ".join(registers) + "}"
        vector = f".v{lanes}" if lanes > 1 else ""
        lines = "mad.lo.u32 %r20, %thread, 16, %r0;\nmad.lo.u32 %r21, %thread, 16, %r12;\n"
        lines += "".join(
            f"{load} {register}, [%r20+{i * bits // 8}];\n" for i, register in enumerate(registers)
        )
        lines += f"st.async.shared::cluster.{_DONE}{vector}.{kind} [%r21+{_HALF}], {value}, [%r13];"
        yield _case(f"st.async{vector}.{kind}", ctas, lines, [32 * nbytes] * ctas, effect, ("st.async",))


CASES = [
    *[case for ctas in _SIZES for case in (*_to_many(ctas), _to_a_peer(ctas))],
    *_reductions(),
    *_stores(),
]
