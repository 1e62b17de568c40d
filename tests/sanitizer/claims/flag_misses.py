"""Near misses by flags, counters and barriers in memory: what ends a loop, or what it means, is open."""

from __future__ import annotations

from collections.abc import Iterator

from .near_miss import NearMiss, near_miss

__all__ = ["flag_misses"]

#: Thread 0 writes, thread 32 reads, thread 64 also writes if there are three warps. The data is at ``a + 64``.
_ROLES = "setp.eq.u32 %p2, %thread, 32;\nsetp.eq.u32 %p6, %thread, 64;\n"
_DATA = "ld.global.u32 %r3, [%a+64];\nst.global.u32 [%d2], %r3;\n"
_VALUE = "st.global.u32 [%d2], %r2;\n"


def _loop(again: str, value: int | str, load: str = "ld.acquire.gpu.global.u32", label: str = "POLL") -> str:
    """A loop that goes on while the comparison ``again`` of the word with ``value`` is true."""
    return f"{label}:\n{load} %r2, [%a];\nsetp.{again}.u32 %p3, %r2, {value};\n@%p3 bra {label};\n"


def _pair(name: str, writes: str, reads: str, second: str = "", *, scope: str = "gpu") -> NearMiss:
    """Thread 0 executes ``writes``, thread 32 ``reads``, and thread 64 ``second``."""
    body = (
        f"{_ROLES}@%p1 bra WRITE;\n@%p2 bra READ;\n@%p6 bra SECOND;\nbra END;\nWRITE:\n{writes}bra END;\n"
        f"SECOND:\n{second}bra END;\nREAD:\n{reads}END:\n"
    )
    return near_miss(f"flag-{name}", body, threads=96)


def _st(value: int, order: str = "release") -> str:
    return f"st.{order}.gpu.global.u32 [%a], {value};\n"


def _red(operation: str, value: int) -> str:
    kind = "b32" if operation == "or" else "u32"
    return f"red.release.gpu.global.{operation}.{kind} [%a], {value};\n"


def _put(value: int) -> str:
    return f"st.global.u32 [%a+64], {value};\n"


def _stores() -> Iterator[NearMiss]:
    """Flags that are stored: other writes come too soon, too often, or from others."""
    yield _pair("lapped", _st(1) + _st(2), _loop("ne", 1))
    yield _pair("taken-back", _st(1) + _st(0, "relaxed"), _loop("ne", 1))
    yield _pair("toggled", _st(1) + _st(0) + _st(1), _loop("ne", 1) + _loop("ne", 0, label="BACK"))
    yield _pair("reset-by-another", _st(1), _loop("ne", 1), _loop("ne", 1, label="SEE") + _st(0))
    yield _pair("two-writers", _put(5) + _st(1), _loop("eq", 0) + _DATA, _st(1))
    yield _pair("two-values", _st(1), _loop("eq", 0) + _VALUE, _st(2))
    yield _pair("two-values-unread", _st(1), _loop("lt", 2), _st(2))
    yield _pair("first-of-two", _st(1) + _put(5) + _st(2), _loop("lt", 1) + _DATA)
    yield _pair("first-of-three", _st(1) + _st(2) + _put(5) + _st(3), _loop("lt", 2) + _DATA)
    yield _pair("value-of-two", _st(1) + _st(2), _loop("lt", 1) + _VALUE)
    yield _pair("value-of-three", _st(4) + _st(6) + _st(8), _loop("lt", 5) + _VALUE)
    yield _pair(
        "kept-predicate",
        _st(1) + _st(2),
        _loop("lt", 1) + "setp.eq.u32 %p4, %r2, 2;\n@%p4 bra END;\n" + _VALUE,
    )
    yield _pair(
        "no-answer",
        _put(1) + _st(1) + _put(2) + _st(2),
        _loop("lt", 1) + _DATA + _loop("lt", 2, label="TWO") + _DATA,
    )
    yield _pair("late-data", _st(1) + _put(5), _loop("lt", 1) + _DATA)
    yield _pair("relaxed", _put(5) + _st(1, "relaxed"), _loop("lt", 1) + _DATA)
    yield _pair("relaxed-read", _put(5) + _st(1), _loop("lt", 1, "ld.relaxed.gpu.global.u32") + _DATA)
    yield _pair("weak-read", _put(5) + _st(1), _loop("lt", 1, "ld.global.u32") + _DATA)
    yield _pair("weak-write", _put(5) + "st.global.u32 [%a], 1;\n", _loop("lt", 1) + _DATA)
    yield _pair("weak-reset", _st(1), _loop("lt", 1), "st.global.u32 [%a], 0;\n")
    yield _pair("narrow", _put(5) + _st(1), _loop("lt", 1, "ld.acquire.gpu.global.u8"))
    yield _pair(
        "exchanged",
        _put(5) + "atom.release.gpu.global.exch.b32 %r5, [%a], 1;\n",
        _loop("lt", 1) + _DATA,
        _st(3),
    )


def _once() -> Iterator[NearMiss]:
    """Loops that do more than wait: they look once, count their passes, give up, or write."""
    ask = "ld.acquire.gpu.global.u32 %r2, [%a];\n"
    begin = _put(5) + _st(1)
    yield _pair("peek", begin, ask + "setp.eq.u32 %p3, %r2, 0;\n@%p3 bra END;\n" + _DATA)
    yield _pair(
        "peek-twice", begin, ask + "setp.eq.u32 %p3, %r2, 0;\n@!%p3 bra GOT;\n" + ask + "GOT:\n" + _VALUE
    )
    yield _pair(
        "peek-chooses",
        begin,
        ask + "setp.eq.u32 %p3, %r2, 0;\nselp.u32 %r3, 4, 5, %p3;\nst.global.u32 [%d2], %r3;\n",
    )
    for tries in (1, 3, 50):
        yield _pair(
            f"bounded-{tries}",
            begin,
            "mov.u32 %r7, 0;\nTRY:\n"
            + ask
            + "setp.ne.u32 %p3, %r2, 0;\n@%p3 bra GOT;\nadd.u32 %r7, %r7, 1;\n"
            f"setp.lt.u32 %p4, %r7, {tries};\n@%p4 bra TRY;\nGOT:\n" + _VALUE,
        )
    yield _pair(
        "counted",
        begin,
        "mov.u32 %r7, 0;\nTRY:\nadd.u32 %r7, %r7, 1;\n" + ask + "setp.eq.u32 %p3, %r2, 0;\n@%p3 bra TRY;\n"
        "st.global.u32 [%d2], %r7;\n",
    )
    yield _pair(
        "writes",
        begin,
        "TRY:\nred.relaxed.gpu.global.add.u32 [%a+128], 1;\n"
        + ask
        + "setp.eq.u32 %p3, %r2, 0;\n@%p3 bra TRY;\n",
    )
    yield _pair(
        "last-value",
        begin,
        "mov.u32 %r7, 9;\nTRY:\n"
        + ask
        + "setp.ne.u32 %p3, %r2, 0;\n@%p3 bra GOT;\nmov.u32 %r7, 3;\nbra TRY;\nGOT:\n"
        "st.global.u32 [%d2], %r7;\n",
    )
    yield _pair(
        "two-words",
        begin + "st.release.gpu.global.u32 [%a+4], 1;\n",
        "TRY:\n"
        + ask
        + "ld.acquire.gpu.global.u32 %r5, [%a+4];\nor.b32 %r6, %r2, %r5;\nsetp.eq.u32 %p3, %r6, 0;\n"
        "@%p3 bra TRY;\nst.global.u32 [%d2], %r5;\n",
    )
    yield _pair(
        "walks",
        begin + "st.release.gpu.global.u32 [%a+8], 1;\n",
        "mov.b64 %d5, %a;\nTRY:\nld.acquire.gpu.global.u32 %r2, [%d5];\nadd.s64 %d5, %d5, 4;\n"
        "setp.eq.u32 %p3, %r2, 0;\n@%p3 bra TRY;\nst.global.u64 [%out], %d5;\n",
    )
    yield _pair(
        "waits-less",
        begin,
        "mov.u32 %r7, 4;\nTRY:\n" + ask + "sub.u32 %r7, %r7, 1;\nsetp.lt.u32 %p3, %r2, %r7;\n@%p3 bra TRY;\n",
    )
    yield _pair(
        "clock",
        begin,
        "mov.u64 %d5, %clock64;\nTRY:\n" + ask + "mov.u64 %d6, %clock64;\nsub.u64 %d6, %d6, %d5;\n"
        "cvt.u32.u64 %r6, %d6;\nor.b32 %r2, %r2, %r6;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra TRY;\n",
    )


def _sums() -> Iterator[NearMiss]:
    """Counts that end a loop too soon, that overshoot, or that do not only grow."""
    for writers, again, value in ((2, "lt", 1), (3, "lt", 2), (3, "eq", 0), (4, "lt", 3), (4, "ne", 4)):
        extra = 1 if again == "ne" else 0
        body = (
            f"setp.eq.u32 %p2, %thread, 0;\n@%p5 st.global.u32 [%d2], 3;\n"
            f"@%p5 red.release.gpu.global.add.u32 [%a], {1 + extra};\n@!%p2 bra END;\n"
            + _loop(again, value)
            + "ld.global.u32 %r3, [%out+128];\nst.global.u32 [%a+64], %r3;\nEND:\n"
        )
        yield near_miss(f"count-{writers}-{again}-{value}", body, threads=32 * writers)
    yield _pair("maximum", _put(5) + _red("max", 5), _loop("lt", 4) + _DATA, _red("max", 7))
    yield _pair("minimum", _red("max", 9), _loop("lt", 4) + _VALUE, _red("max", 7))
    yield _pair("bits", _put(5) + _red("or", 1), _loop("eq", 0) + _DATA, _red("or", 2))
    yield _pair("one-bit-of-two", _put(5) + _red("or", 1), _loop("lt", 2) + _DATA, _red("or", 2))
    yield _pair("parity", _red("add", 1), _loop("ne", 1), _red("add", 1))
    yield _pair("exclusive", _put(5) + _red("add", 1), _loop("ne", 1) + _DATA, _red("add", 3))
    yield _pair("up-and-down", _red("add", 1), _loop("eq", 0), _red("add", -1 & 0xFFFFFFFF))
    yield _pair("wraps", _red("add", 0xFFFFFFFF), _loop("lt", 2), _red("add", 3))
    yield _pair("sum-and-store", _red("add", 1), _loop("lt", 2), _st(1))
    yield _pair("sum-that-is-set", _red("add", 1) + _st(0), _loop("lt", 2), _red("add", 1))
    yield _pair("value-of-a-count", _red("add", 1) + _red("add", 1), _loop("lt", 1) + _VALUE, "")
    yield _pair("engine-beside", _st(1), _loop("lt", 1), "atom.relaxed.gpu.global.inc.u32 %r5, [%a], 7;\n")


def _scopes() -> Iterator[NearMiss]:
    """A flag between CTAs with scopes that do not include both."""
    for write, read in (("cta", "cta"), ("cta", "gpu"), ("gpu", "cta"), ("cluster", "gpu")):
        body = (
            "mov.u32 %r9, %ctaid.x;\nsetp.eq.u32 %p2, %r9, 0;\n@!%p1 bra END;\n@!%p2 bra READ;\n"
            f"{_put(5)}st.release.{write}.global.u32 [%a], 1;\nbra END;\nREAD:\n"
            + _loop("lt", 1, f"ld.acquire.{read}.global.u32")
            + _DATA
            + "END:\n"
        )
        yield near_miss(f"flag-scopes-{write}-{read}", body, grid=2)


def _places() -> Iterator[NearMiss]:
    """CTAs that wait for CTAs of other clusters, although not all clusters fit on the GPU."""
    chain = "red.release.gpu.global.add.u32 [%a], 1;\n"
    for name, again in (("turn", "ne"), ("order", "lt")):
        body = (
            "mov.u32 %r1, %ctaid.x;\n@!%p1 bra END;\n"
            + _loop(again, "%r1")
            + chain
            + "END:\nst.global.u32 [%d2], 1;\n"
        )
        yield near_miss(f"places-{name}", body, grid=136, threads=32, shared=200_000, steps=10_000)
        yield near_miss(
            f"places-{name}-clusters", body, grid=136, threads=32, shared=200_000, steps=10_000, cluster=2
        )
    first = (
        "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p2, %r1, 0;\n@!%p1 bra END;\n@%p2 bra FIRST;\n"
        + _loop("eq", 0)
        + "bra END;\nFIRST:\n"
        + _st(1)
        + "END:\nst.global.u32 [%d2], 1;\n"
    )
    yield near_miss("places-first", first, grid=136, threads=32, shared=200_000, steps=10_000)


def _barriers() -> Iterator[NearMiss]:
    """Barriers of a grid whose old counts decide, or whose counts are wrong."""
    begin = "bar.sync 0;\n@!%p1 bra END;\n"
    wait = "POLL:\nld.acquire.gpu.global.u32 %r2, [%a];\n"
    end = "@%p3 bra POLL;\nEND:\nbar.sync 0;\nst.global.u32 [%d2], %thread;\n"
    add = "atom.acq_rel.gpu.global.add.u32 %r1, [%a], {};\n"
    yield near_miss(
        "barrier-mask",
        begin + add.format(1) + "or.b32 %r1, %r1, 1;\n" + wait + "setp.le.u32 %p3, %r2, %r1;\n" + end,
        grid=4,
    )
    yield near_miss(
        "barrier-next",
        begin + add.format(1) + "add.u32 %r1, %r1, 1;\n" + wait + "setp.lt.u32 %p3, %r2, %r1;\n" + end,
        grid=3,
    )
    yield near_miss(
        "barrier-last-resets",
        begin
        + add.format(1)
        + "setp.ne.u32 %p4, %r1, 2;\n@%p4 bra POLL;\nst.release.gpu.global.u32 [%a], 0;\nbra END;\n"
        + wait
        + "setp.ne.u32 %p3, %r2, 0;\n"
        + end,
        grid=3,
    )
    yield near_miss(
        "barrier-ticket",
        begin
        + add.format(1)
        + wait
        + "setp.lt.u32 %p3, %r2, 3;\n@%p3 bra POLL;\nst.global.u32 [%a+64], %r1;\n"
        + end,
        grid=3,
    )
    for more in (1, 2):
        top = (
            "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p6, %r3, 0;\n"
            f"selp.b32 %r4, {0x80000000 - 4 + 1 + more}, 1, %p6;\n"
        )
        yield near_miss(
            f"barrier-bit-{more}",
            top
            + begin
            + "atom.acq_rel.gpu.global.add.u32 %r1, [%a], %r4;\n"
            + wait
            + "xor.b32 %r2, %r2, %r1;\nand.b32 %r2, %r2, 0x80000000;\nsetp.eq.u32 %p3, %r2, 0;\n"
            + end,
            grid=4,
        )
    skip = "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p6, %r3, 0;\n"
    yield near_miss(
        "barrier-one-skips-a-round",
        skip
        + begin
        + _red("add", 1)
        + "@%p6 red.release.gpu.global.add.u32 [%a], 1;\n"
        + wait
        + "setp.lt.u32 %p3, %r2, 3;\n"
        + end,
        grid=3,
    )
    chance = "@%p1 st.global.u32 [%d2], 7;\n"
    yield near_miss(
        "barrier-fences-by-chance",
        chance
        + begin
        + "fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %r1, [%a], 1;\nfence.acq_rel.gpu;\n"
        "ld.global.u32 %r5, [%out];\nst.global.u32 [%a+64], %r5;\nEND:\n",
        grid=2,
    )
    yield near_miss(
        "barrier-early-use",
        chance
        + begin
        + "atom.acq_rel.gpu.global.add.u32 %r1, [%a], 1;\nld.global.u32 %r5, [%out];\n"
        + wait
        + "setp.lt.u32 %p3, %r2, 2;\n"
        + end,
        grid=2,
    )


def flag_misses() -> Iterator[NearMiss]:
    """Yield all of them."""
    for family in (_stores, _once, _sums, _scopes, _places, _barriers):
        yield from family()
