"""Kernels of many tensor copies: each round moves one box and keeps all that it changed.

A round's map, coordinates, offsets and shared address come from a table in memory, so that one kernel serves for
every edge of a tensor.  A load's round keeps the room that the box went to, with what lay there before, and the
state of the barrier that it completed: an object of two arrivals, the copy's and another, which begins its
next phase with both pending and no bytes expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import In, KernelCase, Map, Out, aligned, kernel
from .reference import Expected
from .reference.barrier import Phases
from .reference.expected import decode
from .reference.reductions import combined, is_float
from .reference.tensor import TensorBox

__all__ = ["Round", "dump", "fetch", "loads", "stores"]

#: What every eight bytes of the room hold before a load.
_BEFORE = 0xA5A5A5A5A5A5A5A5
_THREADS = 32
#: Integers of the table for each round: the map, bytes, the shared offset, five coordinates, three offsets.
_COLUMNS = 12


@dataclass(frozen=True)
class Round:
    """One copy: which of the maps, coordinates and offsets innermost first, where in the room."""

    map: int
    coordinates: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    at: int = 0


def _table(rounds: Sequence[Round], nbytes: Sequence[int]) -> NDArray[np.int32]:
    table = np.zeros((len(rounds), _COLUMNS), np.int32)
    for row, one in zip(table, rounds, strict=True):
        row[0], row[1], row[2] = one.map, nbytes[one.map], one.at
        row[3 : 3 + len(one.coordinates)] = one.coordinates
        row[8 : 8 + len(one.offsets)] = one.offsets
    return table


def _filled(room: int, pair: str) -> str:
    """Statements that put the two words of ``pair`` into all of the room; thread t begins at 16 * t."""
    lines = [f"st.shared.v2.b64 [%r2+{at}], {pair};" for at in range(0, room, 16 * _THREADS)]
    return "\n".join(lines)


def fetch(room: int, source: str) -> str:
    """Statements that copy ``room`` bytes from the global address ``source`` to the room; thread t is at 16 * t."""
    return "\n".join(
        f"ld.global.v2.b64 {{%d4, %d5}}, [{source}+{at}];\nst.shared.v2.b64 [%r2+{at}], {{%d4, %d5}};"
        for at in range(0, room, 16 * _THREADS)
    )


def dump(room: int, target: str) -> str:
    """The other way round."""
    return "\n".join(
        f"ld.shared.v2.b64 {{%d4, %d5}}, [%r2+{at}];\nst.global.v2.b64 [{target}+{at}], {{%d4, %d5}};"
        for at in range(0, room, 16 * _THREADS)
    )


def _head() -> str:
    """Up to the round's row of the table, in %r20 ... ; the first thread is %p1."""
    return """
    mov.u32 %r0, room;
    mov.u32 %r1, bar;
    setp.eq.u32 %p1, %thread, 0;
    mad.lo.u32 %r2, %thread, 16, %r0;
    @%p1 mbarrier.init.shared.b64 [%r1], 2;
    mov.u64 %d0, %table;
    mov.u32 %r9, 0;
    ROUND:
    ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%d0];
    ld.global.v4.b32 {%r24, %r25, %r26, %r27}, [%d0+16];
    ld.global.v4.b32 {%r28, %r29, %r30, %r31}, [%d0+32];
    cvt.u16.u32 %h0, %r28;
    cvt.u16.u32 %h1, %r29;
    cvt.u16.u32 %h2, %r30;
    add.u32 %r22, %r22, %r0;
    """


def _next(count: int) -> str:
    return f"""
    bar.sync 0;
    add.u64 %d0, %d0, {4 * _COLUMNS};
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p4, %r9, {count};
    @%p4 bra ROUND;
    """


def _chosen(maps: int, instruction: str) -> str:
    """The instruction with the map that the round asks for, in the first thread."""
    lines = []
    for number in range(maps):
        lines += [f"setp.eq.and.u32 %p2, %r20, {number}, %p1;", f"@%p2 {instruction.format(number)};"]
    return "\n".join(lines)


def _declared(room: int) -> str:
    return f".shared .align 1024 .b8 room[{room}];\n.shared .align 8 .b64 bar;"


def _point(rank: int) -> str:
    return "{" + ", ".join(f"%r{23 + axis}" for axis in range(rank)) + "}"


def _geometry(tensor: NDArray[Any], options: dict[str, Any]) -> tuple[tuple[int, ...], int]:
    """Shape and element size that a map gives to the memory of an array."""
    image = Map(0, options).tensor_map(tensor)
    return image.shape, image.kind.nbytes


def loads(
    name: str,
    tensor: NDArray[Any],
    maps: Sequence[dict[str, Any]],
    rounds: Sequence[Round],
    *,
    room: int = 2048,
    mode: str = "",
    covers: str = "cp.async.bulk.tensor.load",
) -> KernelCase:
    """Boxes of one tensor, through one of the maps each."""
    tensor = aligned(tensor)
    rank = len(_geometry(tensor, maps[0])[0])
    nbytes = [Map(0, options).tensor_map(tensor).box_bytes for options in maps]
    # Doubled braces: the number of the map is put in last.
    point = "{" + _point(rank) + "}"
    filter_offsets = ", {{" + ", ".join(f"%h{i}" for i in range(rank - 2)) + "}}" if mode else ""
    copy = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes "
        f"[%r22], [%map{{}}, {point}], [%r1]{filter_offsets}"
    )
    body = f"""
    {_head()}
    mov.b64 %d3, {_BEFORE:#x};
    mov.b64 %d10, 0;
    {_filled(room, "{%d3, %d3}")}
    fence.proxy.async;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r21;
    {_chosen(len(maps), copy)}
    @%p1 mbarrier.arrive.shared.b64 _, [%r1];
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0;
    @!%p3 bra WAIT;
    bar.sync 0;
    @%p1 mbarrier.arrive.shared.b64 %d10, [%r1];
    and.b64 %d10, %d10, 0xffffffff00000000;
    mad.wide.u32 %d11, %r9, 8, %states;
    @%p1 st.global.b64 [%d11], %d10;
    @%p1 mbarrier.arrive.shared.b64 _, [%r1];
    mul.wide.u32 %d12, %r9, {room};
    add.u64 %d12, %d12, %out;
    mad.wide.u32 %d12, %thread, 16, %d12;
    {dump(room, "%d12")}
    {_next(len(rounds))}
    """
    parameters = "table:u64 out:u64 states:u64 tensor:u64 " + " ".join(
        f"map{i}:map" for i in range(len(maps))
    )

    def reference() -> list[Expected]:
        words = np.full((len(rounds), room // 8), _BEFORE, np.uint64)
        for row, one in zip(words, rounds, strict=True):
            options = maps[one.map]
            shape, size = _geometry(tensor, options)
            box = TensorBox(shape, size, options, one.coordinates, one.offsets, one.at)
            assert box.nbytes == nbytes[one.map]
            elements = tensor.reshape(-1).view(f"u{size}")
            if "strides" in options:
                elements = np.lib.stride_tricks.as_strided(elements, shape, options["strides"])
            box.loaded(elements, row.view(np.uint8))
        state = Phases(2, phase=1).state()
        return [Expected(words), Expected(np.full(len(rounds), state, np.uint64))]

    return KernelCase(
        name,
        kernel(body, parameters, registers=_declared(room)),
        (
            In(_table(rounds, nbytes)),
            Out(np.uint64, (len(rounds), room // 8)),
            Out(np.uint64, len(rounds)),
            In(tensor),
            *(Map(3, options) for options in maps),
        ),
        covers=(covers,),
        reference=reference,
    )


def stores(
    name: str,
    tensor: NDArray[Any],
    maps: Sequence[dict[str, Any]],
    rounds: Sequence[Round],
    given: NDArray[Any],
    *,
    room: int = 2048,
    mode: str = "",
    reduce: tuple[str, str] | None = None,
    covers: str = "cp.async.bulk.tensor.store",
) -> KernelCase:
    """Boxes into one tensor one after the other, each from its part of ``given``; ``reduce``: operation and type."""
    tensor = aligned(tensor)
    rank = len(_geometry(tensor, maps[0])[0])
    assert given.nbytes == room * len(rounds), "a room for each round"
    verb = f"cp{'.reduce' if reduce else ''}.async.bulk.tensor.{rank}d.global.shared::cta"
    operation = f".{reduce[0]}" if reduce else ""
    point = "{" + _point(rank) + "}"
    copy = f"{verb}{operation}{mode}.bulk_group [%map{{}}, {point}], [%r22]"
    body = f"""
    {_head()}
    mul.wide.u32 %d12, %r9, {room};
    add.u64 %d12, %d12, %given;
    mad.wide.u32 %d12, %thread, 16, %d12;
    {fetch(room, "%d12")}
    fence.proxy.async;
    bar.sync 0;
    {_chosen(len(maps), copy)}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    {_next(len(rounds))}
    """
    parameters = "table:u64 out:u64 given:u64 " + " ".join(f"map{i}:map" for i in range(len(maps)))

    def reference() -> list[Expected]:
        shape, size = _geometry(tensor, maps[0])
        words = tensor.copy().reshape(-1).view(f"u{size}").reshape(shape)
        floats = reduce[1] if reduce and is_float(reduce[1]) else ""
        into = decode(words, floats).reshape(shape) if floats else words
        combine = combined(*reduce) if reduce else None
        rooms = given.reshape(-1).view(np.uint8).reshape(len(rounds), room)
        assert not floats or len(rounds) == 1, "sums of floats are not words again"
        for data, one in zip(rooms, rounds, strict=True):
            box = TensorBox(shape, size, maps[one.map], one.coordinates, (), one.at)
            box.stored(data, words, combine, into)
        return [Expected(into.reshape(-1), floats) if floats else Expected(words)]

    return KernelCase(
        name,
        kernel(body, parameters, registers=_declared(room)),
        (
            In(_table(rounds, [0] * len(maps))),
            Out(tensor.dtype, tensor.shape, initial=tensor),
            In(given),
            *(Map(1, options) for options in maps),
        ),
        covers=(covers,),
        reference=reference,
    )
