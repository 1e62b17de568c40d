"""cp.async: sizes, zero filling, groups, and arrivals on an mbarrier."""

from __future__ import annotations

import numpy as np

from ..case import In, KernelCase, Out, kernel
from ..reference import Expected
from ..words import uniform

_LANES = 32
_GIVEN = uniform("async copy", 4 * _LANES * 2)
#: For each lane 16 bytes of shared memory, filled with ones first, at %d1 (and %r1); 16 bytes given at %d0.
_ROOM = ".shared .align 16 .b8 room[2048];"
_PLACES = """
mov.u64 %d28, room;
mov.u32 %r28, room;
mad.lo.u32 %r1, %index, 16, %r28;
mad.wide.u32 %d1, %index, 16, %d28;
mad.wide.u32 %d0, %index, 16, %given;
mov.b64 %d2, -1;
st.shared.v2.b64 [%d1], {%d2, %d2};
"""
_WAIT = "cp.async.wait_all;\n"


def _keep(slot: int, threads: int = _LANES) -> str:
    """Statements that write the thread's 16 bytes to place ``slot`` of ``out`` and fill them with ones again."""
    return f"""
    ld.shared.v2.b64 {{%d4, %d5}}, [%d1];
    mad.wide.u32 %d3, %index, 16, %out;
    st.global.v2.b64 [%d3+{slot * 16 * threads}], {{%d4, %d5}};
    st.shared.v2.b64 [%d1], {{%d2, %d2}};
    """


def _out(slots: int, threads: int = _LANES) -> Out:
    return Out(np.uint64, (slots, threads, 2))


#: Without .L2::cache_hint: with a policy of createpolicy an H200 calls it an illegal instruction.
_SIZES = [
    *[
        f"cp.async.ca.{space}.global [%d1+{16 - size}], [%d0+{16 - size}], {size};"
        for size in (4, 8, 16)
        for space in ("shared", "shared::cta")
    ],
    "cp.async.cg.shared.global [%d1], [%d0], 16;",
    "cp.async.cg.shared.global.L2::128B [%d1], [%d0+16], 16;",
    "cp.async.ca.shared.global.L2::64B [%r1], [%d0], 8;",
    "cp.async.cg.shared::cta.global.L2::256B [%r1], [%d0], 16;",
]


def _size(copy: str) -> KernelCase:
    """One copy of every size and cache operator."""
    return KernelCase(
        copy,
        kernel("\n".join([_PLACES, copy, _WAIT, _keep(0)]), "given:u64 out:u64", registers=_ROOM),
        (In(_GIVEN), _out(1)),
        covers=("cp.async" if ".ca." in copy else "cp.async.cg", "cp.async.wait_all"),
    )


def _partial() -> KernelCase:
    """Each lane takes another part of the source: from none to all; then numbers in the text."""
    lines = [_PLACES]
    slot = 0
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        lines += [
            f"rem.u32 %r2, %lane, {size + 1};",
            f"cp.async.{cache}.shared.global [%d1], [%d0], {size}, %r2;",
            _WAIT,
            _keep(slot),
        ]
        slot += 1
        for taken in (0, 1, 3, 4, size - 4, size):
            lines += [f"cp.async.{cache}.shared.global [%d1], [%d0], {size}, {taken};", _WAIT, _keep(slot)]
            slot += 1
    return KernelCase(
        "parts of the source",
        kernel("\n".join(lines), "given:u64 out:u64", registers=_ROOM),
        (In(_GIVEN), _out(slot)),
        covers=("cp.async", "cp.async.cg"),
    )


def _ignored() -> KernelCase:
    """A predicate leaves the source out: zeroes are written."""
    lines = [_PLACES, "and.b32 %r2, %lane, 3;", "setp.eq.u32 %p1, %r2, 1;"]
    slot = 0
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        lines += [f"cp.async.{cache}.shared.global [%d1], [%d0], {size}, %p1;", _WAIT, _keep(slot)]
        slot += 1
    return KernelCase(
        "ignored sources",
        kernel("\n".join(lines), "given:u64 out:u64", registers=_ROOM),
        (In(_GIVEN), _out(slot)),
        covers=("cp.async.ignore_src", "cp.async.cg.ignore_src"),
    )


def _unread() -> KernelCase:
    """Where nothing is taken, the source's address is not used: it may lead nowhere."""
    lines = [
        _PLACES,
        "setp.lt.u32 %p1, %lane, 16;",
        "selp.b64 %d6, 0, %d0, %p1;",
        "selp.u32 %r2, 0, 16, %p1;",
        "cp.async.cg.shared.global [%d1], [%d6], 16, %r2;",
        _WAIT,
        _keep(0),
        "cp.async.ca.shared.global [%d1], [%d6], 8, %p1;",
        _WAIT,
        _keep(1),
    ]
    return KernelCase(
        "nothing taken from nowhere",
        kernel("\n".join(lines), "given:u64 out:u64", registers=_ROOM),
        (In(_GIVEN), _out(2)),
        covers=("cp.async.cg", "cp.async.ignore_src"),
    )


def _pipeline() -> KernelCase:
    """A ring of four stages, three groups in flight, over twelve tiles; empty groups at the end."""
    tiles, stages, threads = 12, 4, 64
    lines = [
        "mov.u64 %d28, room;",
        "mad.wide.u32 %d1, %index, 8, %d28;",
        "mad.wide.u32 %d0, %index, 8, %given;",
    ]
    lines += ["mov.u64 %d7, 0;"]
    for tile in range(stages - 1):
        lines += [f"cp.async.ca.shared.global [%d1+{tile * 8 * threads}], [%d0+{tile * 8 * threads}], 8;"]
        lines += ["cp.async.commit_group;"]
    lines.append("xor.b32 %r5, %index, 63;\nmad.wide.u32 %d8, %r5, 8, %d28;")
    for tile in range(tiles):
        lines += [f"cp.async.wait_group {stages - 2};", "bar.sync 0;"]
        lines += [f"ld.shared.b64 %d5, [%d8+{tile % stages * 8 * threads}];"]
        lines += ["mad.lo.u64 %d7, %d7, 3, %d5;"]
        following = tile + stages - 1
        if following < tiles:
            at = following % stages * 8 * threads
            lines += [f"cp.async.ca.shared.global [%d1+{at}], [%d0+{following * 8 * threads}], 8;"]
        lines += ["cp.async.commit_group;"]
    lines += ["mad.wide.u32 %d3, %index, 8, %out;", "st.global.b64 [%d3], %d7;", "cp.async.wait_all;"]
    return KernelCase(
        "a ring of stages",
        kernel("\n".join(lines), "given:u64 out:u64", registers=_ROOM),
        (In(uniform("stages", tiles * threads)), Out(np.uint64, threads)),
        block=(threads,),
        covers=("cp.async", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all"),
    )


def _arrivals(noinc: bool, space: str) -> KernelCase:
    """Other threads wait on an mbarrier for the copies; with .noinc the arrival is one of those expected."""
    threads = 64
    arrive = f"cp.async.mbarrier.arrive{'.noinc' if noinc else ''}{space}.b64 [%d20];"
    lines = [
        "mov.u64 %d20, barrier;",
        "setp.eq.u32 %p1, %index, 0;",
        f"@%p1 mbarrier.init.shared.b64 [%d20], {threads};",
        _PLACES,
        "bar.sync 0;",
        "mov.u32 %r9, 0;",
        "ROUND:",
        "cp.async.cg.shared.global [%d1], [%d0], 16;",
        arrive if space else f"cvta.shared.u64 %d21, %d20;\n{arrive.replace('%d20', '%d21')}",
        "" if noinc else "mbarrier.arrive.shared.b64 _, [%d20];",
        "and.b32 %r8, %r9, 1;",
        "WAIT:",
        "mbarrier.try_wait.parity.shared.b64 %p2, [%d20], %r8;",
        "@!%p2 bra WAIT;",
        "xor.b32 %r5, %index, 33;",
        "mad.wide.u32 %d8, %r5, 16, %d28;",
        "ld.shared.v2.b64 {%d4, %d5}, [%d8];",
        "mad.wide.u32 %d3, %index, 16, %out;",
        f"mul.wide.u32 %d11, %r9, {16 * threads};",
        "add.u64 %d3, %d3, %d11;",
        "st.global.v2.b64 [%d3], {%d4, %d5};",
        "add.u64 %d0, %d0, 16;",
        "bar.sync 0;",
        "add.u32 %r9, %r9, 1;",
        "setp.lt.u32 %p3, %r9, 3;",
        "@%p3 bra ROUND;",
    ]

    def reference() -> list[Expected]:
        # In each round thread t copies the next 16 bytes; thread t XOR 33 keeps them.
        pairs = _GIVEN.reshape(-1, 2)
        return [Expected(np.stack([pairs[(np.arange(threads) ^ 33) + turn] for turn in range(3)]))]

    return KernelCase(
        f"arrivals of copies{' among those expected' if noinc else ''} in {space or 'generic'} memory",
        kernel("\n".join(lines), "given:u64 out:u64", registers=f"{_ROOM}\n.shared .align 8 .b64 barrier;"),
        (In(_GIVEN), _out(3, threads)),
        block=(threads,),
        covers=("cp.async.mbarrier.arrive", "cp.async.cg"),
        reference=reference,
    )


CASES = [
    *map(_size, _SIZES),
    _partial(),
    _ignored(),
    _unread(),
    _pipeline(),
    *[_arrivals(noinc, space) for noinc in (False, True) for space in ("", ".shared", ".shared::cta")],
]
