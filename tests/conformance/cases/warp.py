"""Instructions of a warp: shuffles, votes, matches, reductions; whole warps, tiles with masks of their own, some lanes.

Each CTA is one warp with a row of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..case import In, KernelCase, Out, kernel
from ..words import uniform

#: Who executes: the mask of each lane, and a condition on lanes that lets some of them through.
_WHOLE = "mov.b32 %r9, 0xffffffff;"
_MEMBERS = {
    "a whole warp": (_WHOLE, ""),
    "tiles of 16": ("and.b32 %r9, %lane, 16; mov.b32 %r8, 0xffff; shl.b32 %r9, %r8, %r9;", ""),
    "tiles of 4": ("and.b32 %r9, %lane, 28; mov.b32 %r8, 15; shl.b32 %r9, %r8, %r9;", ""),
    "odd and even lanes": ("and.b32 %r9, %lane, 1; mov.b32 %r8, 0x55555555; shl.b32 %r9, %r8, %r9;", ""),
    "odd lanes in a branch": (
        "mov.b32 %r9, 0xaaaaaaaa; and.b32 %r8, %lane, 1; setp.eq.u32 %p9, %r8, 0;", "@%p9 bra PAST;"
    ),
    "some lanes in a branch": ("mov.b32 %r9, 0x000ff00f; shr.u32 %r8, %r9, %lane; and.b32 %r8, %r8, 1; setp.eq.u32 %p9, %r8, 0;", "@%p9 bra PAST;"),
    "what an exit left": ("mov.b32 %r9, 0xffffffff; setp.lt.u32 %p9, %lane, 11;", "@%p9 exit;"),
}  # fmt: skip


def _words(name: str, rows: int, few: bool = False) -> NDArray[np.uint64]:
    """Random words, or words of which many are equal."""
    words = uniform(name, rows * 32).reshape(rows, 32)
    if few:
        # Row r has about 2**(r/2) different words, the first rows only one.
        width = (np.arange(rows, dtype=np.uint64) // np.uint64(2))[:, None]
        words = words & ((np.uint64(1) << width) - np.uint64(1)) | np.uint64(0x8000000180000000)
    return words


def _case(
    name: str, who: str, body: str, given: NDArray[np.uint64], results: int, *covers: str
) -> KernelCase:
    """``body`` has its input in %d10, its mask in %r9, and leaves 32-bit results in %r20 and above."""
    mask, branch = _MEMBERS[who]
    stores = "".join(f"st.global.b32 [%d1+{4 * i}], %r{20 + i};\n" for i in range(results))
    text = kernel(
        f"""
        mad.wide.u32 %d0, %index, 8, %given;
        ld.global.b64 %d10, [%d0];
        cvt.u32.u64 %r10, %d10;
        mad.wide.u32 %d1, %index, {4 * results}, %out;
        {mask}
        {branch}
        {body}
        {stores}
        PAST:
        """,
        "given:u64 out:u64",
    )
    rows = len(given)
    out = Out(np.uint32, (rows, 32, results), initial=0x7777)
    return KernelCase(f"{name} of {who}", text, (In(given), out), grid=(rows,), covers=covers)


def _predicates() -> NDArray[np.uint64]:
    """Whose lowest bit is set in no lane, in every, in one, in all but one, and at random."""
    rows = [0, 0xFFFFFFFF, 1, 1 << 31, 1 << 13, 0xFFFFDFFF, 0xAAAAAAAA, 0x55555555, 0xFFFF, 0xF0F0F0F0]
    rows += uniform("predicates", 6, 32).tolist()
    bits = np.array(rows, np.uint64)[:, None] >> np.arange(32, dtype=np.uint64)
    return bits & np.uint64(1)


def _collectives() -> Iterator[KernelCase]:
    for who in _MEMBERS:
        votes = "setp.ne.u32 %p0, %r10, 0;\n"
        number = 20
        for negated in ("", "!"):
            for mode in ("all", "any", "uni"):
                votes += f"vote.sync.{mode}.pred %p1, {negated}%p0, %r9; selp.u32 %r{number}, 1, 0, %p1;\n"
                number += 1
            votes += f"vote.sync.ballot.b32 %r{number}, {negated}%p0, %r9;\n"
            number += 1
        yield _case("votes", who, votes, _predicates(), 8, "vote.sync", "vote.sync.ballot")
        matches = """
            match.any.sync.b32 %r20, %r10, %r9;
            match.any.sync.b64 %r21, %d10, %r9;
            match.all.sync.b32 %r22|%p1, %r10, %r9; selp.u32 %r23, 1, 0, %p1;
            match.all.sync.b64 %r24|%p1, %d10, %r9; selp.u32 %r25, 1, 0, %p1;
            match.all.sync.b32 %r26, %r10, %r9;
            match.all.sync.b64 %r27, %d10, %r9;
        """
        words = np.concatenate([_words("matches", 12, few=True), _words("others", 2)])
        yield _case("matches", who, matches, words, 8, "match.any.sync", "match.all.sync")
        reductions, number = "", 20
        for name, kinds in (
            ("add", "us"),
            ("min", "us"),
            ("max", "us"),
            ("and", "b"),
            ("or", "b"),
            ("xor", "b"),
        ):
            for kind in kinds:
                reductions += f"redux.sync.{name}.{kind}32 %r{number}, %r10, %r9;\n"
                number += 1
        words = np.concatenate([_words("reductions", 8), _words("similar", 8, few=True)])
        yield _case("reductions", who, reductions, words, 9, "redux.sync", "redux.sync.bits")
        elected = "elect.sync %r20|%p1, %r9; selp.u32 %r21, 1, 0, %p1; elect.sync _|%p1, %r9; selp.u32 %r22, 1, 0, %p1;"
        yield _case("an election", who, elected, _words("election", 1), 3, "elect.sync")
    yield _case("activemask", "a whole warp", "activemask.b32 %r20;", _words("active", 1), 1, "activemask")


def _amounts(mode: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Amounts and control words of each row: widths and clamps, the same in a row's lanes or drawn for each."""
    amounts, controls = [], []
    for width in (32, 16, 8, 4, 2, 1):
        segment = (~(width - 1) & 31) << 8
        for clamp in (0, 31, 20, width - 1):
            for amount in (0, 1, 3, 17, 31, 32, 40, -1):
                amounts.append([amount & 0xFFFFFFFF] * 32)
                controls.append([segment | clamp] * 32)
    for row in range(24):
        wide = uniform(f"{mode} {row}", 64)
        amounts.append((wide[:32] & np.uint64(0xFFFFFFFF if row % 2 else 31)).tolist())
        controls.append((wide[32:] & np.uint64(0xFFFFFFFF if row % 3 else 0x1F1F)).tolist())
    return np.array(amounts, np.uint32), np.array(controls, np.uint32)


def _shuffles() -> Iterator[KernelCase]:
    for mode in ("up", "down", "bfly", "idx"):
        amounts, controls = _amounts(mode)
        rows = len(amounts)
        values = uniform(f"shuffled {mode}", rows * 32, 32).astype(np.uint32).reshape(rows, 32)
        text = kernel(
            f"""
            mad.wide.u32 %d0, %index, 4, %values;
            ld.global.b32 %r0, [%d0];
            mad.wide.u32 %d0, %index, 4, %amounts;
            ld.global.b32 %r1, [%d0];
            mad.wide.u32 %d0, %index, 4, %controls;
            ld.global.b32 %r2, [%d0];
            shfl.sync.{mode}.b32 %r3|%p0, %r0, %r1, %r2, 0xffffffff;
            selp.u32 %r4, 1, 0, %p0;
            shfl.sync.{mode}.b32 %r5, %r0, %r1, %r2, 0xffffffff;
            mad.wide.u32 %d1, %index, 12, %out;
            st.global.b32 [%d1], %r3;
            st.global.b32 [%d1+4], %r4;
            st.global.b32 [%d1+8], %r5;
            """,
            "values:u64 amounts:u64 controls:u64 out:u64",
        )
        yield KernelCase(
            f"shfl.sync.{mode} with every segment and clamp",
            text,
            (In(values), In(amounts), In(controls), Out(np.uint32, (rows, 32, 3))),
            grid=(rows,),
            covers=("shfl.sync",),
        )
        # Sources are members here: within tiles of 4, between lanes of one parity, in the upper lanes.
        for who, amount, control in (
            ("a whole warp", 2, 0x1F), ("a whole warp", 7, 0x181C), ("tiles of 16", 3, 0x100F), ("tiles of 4", 1, 0x1C03),
            ("odd and even lanes", 2, 0x1F), ("odd lanes in a branch", 4, 0x1F), ("what an exit left", 1, 0x1F),
        ):  # fmt: skip
            clamp = control & ~31 if mode == "up" else control
            body = f"shfl.sync.{mode}.b32 %r20|%p1, %r10, {amount}, {clamp}, %r9; selp.u32 %r21, 1, 0, %p1;"
            if mode == "idx" and who.startswith("odd"):
                body = "or.b32 %r11, %lane, 6;\n" + body.replace(f"{amount}, {clamp}", f"%r11, {clamp}")
            if who.startswith("what") and mode != "down":
                body = "max.u32 %r11, %lane, 20;\n" + body.replace(f"{mode}.b32", "idx.b32").replace(
                    f"{amount}, {clamp}", "%r11, 31"
                )
            yield _case(
                f"shfl.sync.{mode} by {amount} with {control:#x}", who, body, _words(mode, 2), 2, "shfl.sync"
            )


def _apart() -> Iterator[KernelCase]:
    """The lanes of one mask execute a collective at two places."""
    for name, instruction, covers in (
        ("shfl.sync", "shfl.sync.bfly.b32 %r20, %r10, 1, 31, 0xffffffff;", "shfl.sync"),
        ("vote.sync.ballot", "vote.sync.ballot.b32 %r20, %p0, 0xffffffff;", "vote.sync.ballot"),
        ("vote.sync.any", "vote.sync.any.pred %p1, %p0, 0xffffffff; selp.u32 %r20, 1, 0, %p1;", "vote.sync"),
        ("match.any.sync", "match.any.sync.b32 %r20, %r10, 0xffffffff;", "match.any.sync"),
        ("redux.sync.add", "redux.sync.add.u32 %r20, %r10, 0xffffffff;", "redux.sync"),
    ):
        body = f"""
            and.b32 %r11, %r10, 1;
            setp.ne.u32 %p0, %r11, 0;
            and.b32 %r11, %lane, 1;
            setp.eq.u32 %p2, %r11, 1;
            mov.b32 %r12, 0;
            @%p2 bra ODD;
            add.u32 %r10, %r10, 1;
            {instruction}
            mul.lo.u32 %r12, %r20, 3;
            bra MET;
            ODD:
            {instruction}
            xor.b32 %r12, %r20, 0x5555;
            MET:
            mov.b32 %r20, %r12;
        """
        words = _words("apart", 3, few=True)
        yield _case(f"{name} at two places", "a whole warp", body, words, 1, covers)


CASES = [*_collectives(), *_shuffles(), *_apart()]
