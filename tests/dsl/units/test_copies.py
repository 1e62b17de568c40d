"""``ptx.cp.async_`` and the plain copies of ``ptx.cp.async_.bulk``: every variant, spelling, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError
from pyptx.core.types import b16, b64, f32, pred, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import bulk
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import asked, body_of, in_kernel, rejected, text_of
from tests.dsl.units.places import (
    ALL_TARGETS,
    CLUSTER,
    GLOBAL,
    NEAR_ORDERS,
    NONE,
    RELAXED,
    REPORTS,
    TENSORS,
    WIDE_ORDERS,
    calls,
    place,
    policy,
)
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached

# --- cp.async -------------------------------------------------------------------------------------


def _async_calls() -> list[Call]:
    copy = ptx.cp.async_

    def sized(size: Any, read: Any, cache: str, prefetch: Any, hint: bool, space: str) -> None:
        given = reg.scalar(u32) if read == "register" else read
        copy(
            place("cta"),
            place("global"),
            size,
            src_size=given,
            cache=cache,
            prefetch=prefetch,
            cache_hint=policy(hint),
            space=space,
        )

    def ignoring(cache: str, prefetch: Any, hint: bool, space: str) -> None:
        copy(
            place("cta"),
            place("global"),
            16,
            ignore_src=reg.scalar(pred),
            cache=cache,
            prefetch=prefetch,
            cache_hint=policy(hint),
            space=space,
        )

    near = ((None, 64, 128, 256), (False, True), ("cta", "shared"))
    return [
        *calls("cp.async_", sized, (4, 8, 16), (None, 0, 3, "register"), ("ca",), *near),
        *calls("cp.async_", sized, (16,), (None, 0, 16, "register"), ("cg",), *near),
        *calls("cp.async_", ignoring, ("ca", "cg"), *near),
        Call("cp.async_.commit_group", lambda: copy.commit_group()),
        Call("cp.async_.wait_group", lambda: copy.wait_group(2)),
        Call("cp.async_.wait_all", lambda: copy.wait_all()),
        *calls(
            "cp.async_.mbarrier_arrive",
            lambda noinc, space: copy.mbarrier_arrive(place(space), noinc=noinc, space=space),
            (False, True),
            ("cta", "shared", None),
        ),
    ]


@pytest.mark.full
def test_every_variant_of_cp_async_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_async_calls(), ptxas)
    public = {f"cp.async_.{name}" for name in vars(type(ptx.cp.async_)) if name[0] != "_"}
    assert reached.wrappers == (public - {"cp.async_.bulk"}) | {"cp.async_"}
    assert unreached(reached, "cp", lambda words: "bulk" not in words) == []


def test_spelling_of_cp_async(ptxas: Tool) -> None:
    def body() -> None:
        tile = smem.alloc(64, align=16)
        bar = smem.alloc(1, b64)
        p, src, n = reg.scalar(pred, init=True), reg.scalar(u64, init=0), reg.scalar(u32, init=7)
        l2 = reg.scalar(b64, init=0)
        ptx.cp.async_(tile, src, 16)
        ptx.cp.async_(tile, ptx.addr(src, 16), 4, src_size=n, pred=p)
        ptx.cp.async_(tile, src, 16, src_size=3, cache="cg", prefetch=128, cache_hint=l2)
        ptx.cp.async_(tile, src, 8, ignore_src=p, space="shared")
        ptx.cp.async_(tile, src, 8, ignore_src=~p)
        ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(0)
        ptx.cp.async_.wait_all()
        ptx.cp.async_.mbarrier_arrive(bar, noinc=True)

    assert body_of(body)[5:] == [
        "cp.async.ca.shared::cta.global [%smem_base], [%src], 16;",
        "@%p cp.async.ca.shared::cta.global [%smem_base], [%src+16], 4, %n;",
        "cp.async.cg.shared::cta.global.L2::cache_hint.L2::128B [%smem_base], [%src], 16, 3, %l2;",
        "cp.async.ca.shared.global [%smem_base], [%src], 8, %p;",
        "not.pred %not_p, %p;",
        "cp.async.ca.shared::cta.global [%smem_base], [%src], 8, %not_p;",
        "cp.async.commit_group;",
        "cp.async.wait_group 0;",
        "cp.async.wait_all;",
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%smem_base+64];",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_cp_async_refuses() -> None:
    def check() -> None:
        copy: Any = ptx.cp.async_
        src, p, f = reg.scalar(u64), reg.scalar(pred), reg.scalar(f32)
        tile = smem.alloc(64)
        odd = tile.at(4)
        smem.base()
        for size in (1, 12, 32, True, "16"):
            with rejected(
                OperandError, f"is {size!r}", "an integer" if isinstance(size, str) else "4, 8, 16"
            ):
                copy(tile, src, size)  # rejected
        with rejected(OperandError, "size is 8", "expected 16", "'cg'"):
            copy(tile, src, 8, cache="cg")  # rejected
        with rejected(OperandError, "cache is 'cs'", "'ca', 'cg'"):
            copy(tile, src, 16, cache="cs")  # rejected
        with rejected(OperandError, "prefetch is 32", "64, 128, 256"):
            copy(tile, src, 16, prefetch=32)  # rejected
        for read in (-1, 9):
            with rejected(OperandError, f"src_size is {read}", "0..8"):
                copy(tile, src, 8, src_size=read)  # rejected
        with rejected(OperandError, "src_size and ignore_src"):
            copy(tile, src, 8, src_size=4, ignore_src=p)  # rejected
        with rejected(OperandError, "%f", "f32"):
            copy(tile, src, 8, src_size=f)  # rejected
        with rejected(OperandError, "space of", "is 'cluster'", "'cta'"):
            copy(tile, src, 8, space="cluster")  # rejected
        with rejected(OperandError, "offset 4", "multiple of 8"):
            copy(odd, src, 8)  # rejected
        short = smem.alloc(8)
        with rejected(OperandError, "16 bytes", "'short'", "has 8"):
            copy(short, src, 16)  # rejected
        for n in (-1, 1.5, "0", 8_388_608):
            with rejected(OperandError, *asked(n, repr(n), "0..8388607")):
                copy.wait_group(n)  # rejected
        with rejected(OperandError, "space of", "is 'cluster'", "'cta'"):
            copy.mbarrier_arrive(tile, space="cluster")  # rejected

    in_kernel(check)


# --- cp.async.bulk --------------------------------------------------------------------------------


def _bulk_calls() -> list[Call]:
    unit: Any = ptx.cp.async_.bulk
    flags = (False, True)

    def load(order: Any, space: str, cast: Any, hint: bool) -> None:
        mask, bits = cast
        unit.load(
            place(space),
            place("global"),
            32,
            place(space),
            sem=order[0],
            scope=order[1],
            space=space,
            multicast=mask,
            multicast_bits=bits,
            cache_hint=policy(hint),
        )

    def trimmed(order: Any, hint: bool, ends: Any) -> None:
        unit.load(
            place("cta"),
            place("global"),
            reg.scalar(u32),
            place("cta"),
            ignore_bytes=ends,
            space="cta",
            sem=order[0],
            scope=order[1],
            cache_hint=policy(hint),
        )

    def store(order: Any, hint: bool, masked: bool) -> None:
        mask = reg.scalar(b16) if masked else None
        unit.store(
            place("global"),
            place("cta"),
            1_048_560,
            byte_mask=mask,
            cache_hint=policy(hint),
            sem=order[0],
            scope=order[1],
        )

    def to_cluster(order: Any) -> None:
        to, mbar = place("cluster"), place("cluster")
        unit.store_cluster(to, place("cta"), 16, mbar, sem=order[0], scope=order[1])

    def reduce(order: Any, hint: bool, what: Any, noftz: bool) -> None:
        unit.reduce(
            place("global"),
            place("cta"),
            16,
            *what,
            noftz=noftz,
            cache_hint=policy(hint),
            sem=order[0],
            scope=order[1],
        )

    def reduce_cluster(order: Any, what: Any) -> None:
        to, mbar = place("cluster"), place("cluster")
        unit.reduce_cluster(to, place("cta"), 16, mbar, *what, sem=order[0], scope=order[1])

    near = (NONE, ("relaxed", "cta"), ("relaxed", "cluster"))
    return [
        *calls("bulk.load", load, WIDE_ORDERS, ("cta",), ((None, None),), flags),
        *calls("bulk.load", load, WIDE_ORDERS, ("cluster",), ((None, None), (3, None)), flags),
        *calls("bulk.load", load, WIDE_ORDERS, ("cluster",), ((3, 16),), flags),
        *calls("bulk.load", load, WIDE_ORDERS[:2], ("cluster",), ((3, 32),), flags),
        *calls("bulk.load", trimmed, WIDE_ORDERS, flags, ((0, 15),)),
        *calls("bulk.store", store, WIDE_ORDERS, flags, flags),
        *calls("bulk.store_cluster", to_cluster, NEAR_ORDERS),
        *calls("bulk.reduce", reduce, RELAXED, flags, GLOBAL, (False,)),
        *calls("bulk.reduce", reduce, RELAXED, flags, (("add", "f32"),), (True,)),
        *calls("bulk.reduce_cluster", reduce_cluster, near, CLUSTER),
        *calls("bulk.prefetch", lambda h: unit.prefetch(place("global"), 64, cache_hint=policy(h)), flags),
        Call("bulk.prefetch", lambda: unit.prefetch(place("global"), 64, evict_last=True)),
        Call("bulk.apply_priority", lambda: unit.apply_priority(place("global"), 64)),
        Call("bulk.commit_group", lambda: unit.commit_group()),
        *calls("bulk.wait_group", lambda read: unit.wait_group(1, read=read), flags),
    ]


def _reporting() -> list[Call]:
    unit: Any = ptx.cp.async_.bulk

    def load(order: Any, report: str, where: Any, hint: bool) -> None:
        space, mask, bits = where
        unit.load(
            place(space),
            place("global"),
            32,
            place(space),
            sem=order[0],
            scope=order[1],
            space=space,
            multicast=mask,
            multicast_bits=bits,
            cache_hint=policy(hint),
            report=report,
        )

    places = (
        ("cta", None, None),
        *(("cluster", mask, n) for mask, n in ((None, None), (1, None), (1, 16), (1, 32))),
    )
    return calls("bulk.load", load, WIDE_ORDERS[:2], REPORTS, places, (False, True))


@pytest.mark.full
def test_every_variant_of_bulk_copies_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_bulk_calls(), ptxas, ALL_TARGETS)
    reports = assemble_calls(_reporting(), ptxas, ("sm_107a",))
    assert reached.wrappers == public_functions(bulk, "bulk") - TENSORS

    def plain(words: tuple[str, ...]) -> bool:
        return "bulk" in words and "tensor" not in words

    missing = set(unreached(reached, "cp", plain)) & set(unreached(reports, "cp", plain))
    assert missing == set()
    # The optional word .global is always written.
    assert unreached(reached, "applypriority", lambda w: plain(w) and "global" in w) == []


def test_spelling_of_bulk_copies(ptxas: Tool) -> None:
    def body() -> None:
        tile = smem.alloc(64)
        bar = smem.alloc(1, b64)
        out, n, l2 = reg.scalar(u64, init=0), reg.scalar(u32, init=16), reg.scalar(b64, init=0)
        far, there = ptx.cluster.map(tile, 1), ptx.cluster.map(bar, 1)
        unit = ptx.cp.async_.bulk
        unit.load(tile, out, 64, bar)
        unit.load(tile, out, n, bar, multicast=3, cache_hint=l2)
        unit.load(tile, out, n, bar, space="cta")
        unit.store(out, tile, 64, cache_hint=l2)
        unit.store(out, tile, 64, byte_mask=0xFF)
        unit.store_cluster(far, tile, 64, there)
        unit.reduce(out, tile, 64, "add", "f16")
        unit.reduce(out, tile, 64, "min", u32)
        unit.reduce_cluster(far, tile, 64, there, "add", u64)
        unit.prefetch(out, 64)

    complete = "mbarrier::complete_tx::bytes"
    assert body_of(body)[7:] == [
        f"cp.async.bulk.shared::cluster.global.{complete} [%smem_base], [%out], 64, [%smem_base+64];",
        f"cp.async.bulk.shared::cluster.global.{complete}.multicast::cluster.L2::cache_hint "
        "[%smem_base], [%out], %n, [%smem_base+64], 3, %l2;",
        f"cp.async.bulk.shared::cta.global.{complete} [%smem_base], [%out], %n, [%smem_base+64];",
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%out], [%smem_base], 64, %l2;",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%out], [%smem_base], 64, 255;",
        f"cp.async.bulk.shared::cluster.shared::cta.{complete} [%far], [%smem_base], 64, [%there];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%out], [%smem_base], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.u32 [%out], [%smem_base], 64;",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{complete}.add.u64 [%far], [%smem_base], 64, [%there];",
        "cp.async.bulk.prefetch.L2.global [%out], 64;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


@pytest.mark.parametrize("size", [0, 8, 24, -16, 1 << 20, 16.0, "16"])
def test_bulk_copies_refuse_sizes(size: Any) -> None:
    def check() -> None:
        s, g = reg.scalar(u32), reg.scalar(u64)
        unit: Any = ptx.cp.async_.bulk
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.load(s, g, size, s)  # rejected
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.store(g, s, size)  # rejected
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.store_cluster(s, s, size, s)  # rejected
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.reduce(g, s, size, "add", "u32")  # rejected
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.reduce_cluster(s, s, size, s, "add", "u32")  # rejected
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.prefetch(g, size)  # rejected
        with rejected(OperandError, *asked(size, f"size is {size!r}", "16..1048560")):
            unit.apply_priority(g, size)  # rejected

    in_kernel(check, arch="sm_107a")


def test_bulk_copies_refuse_places() -> None:
    def check() -> None:
        s, g = reg.scalar(u32), reg.scalar(u64)
        unit: Any = ptx.cp.async_.bulk
        tile = smem.alloc(64)
        odd = tile.at(8)
        smem.base()
        with rejected(OperandError, "offset 8", "multiple of 16"):
            unit.load(odd, g, 16, s)  # rejected
        with rejected(OperandError, "offset 8", "multiple of 16"):
            unit.store(g, odd, 16)  # rejected
        with rejected(OperandError, "80 bytes", "'tile'", "has 64"):
            unit.load(tile, g, 80, s)  # rejected
        with rejected(OperandError, "80 bytes", "'tile'", "has 64"):
            unit.reduce(g, tile, 80, "add", "u32")  # rejected
        at = smem.alloc(16).at(4)
        with rejected(OperandError, "mbarrier", "offset 68", "multiple of 8"):
            unit.load(tile, g, 16, at)  # rejected

    in_kernel(check)


def test_bulk_copies_refuse_options() -> None:
    def check() -> None:
        s, g, l2 = reg.scalar(u32), reg.scalar(u64), reg.scalar(b64)
        unit: Any = ptx.cp.async_.bulk
        for mask in (0, 1 << 16, "3"):
            with rejected(OperandError, *asked(mask, f"multicast is {mask!r}", "1..0xffff")):
                unit.load(s, g, 16, s, multicast=mask)  # rejected
        with rejected(OperandError, "multicast_bits is 8", "16, 32"):
            unit.load(s, g, 16, s, multicast=1, multicast_bits=8)  # rejected
        with rejected(OperandError, "multicast_bits is 16", "without a mask", "multicast="):
            unit.load(s, g, 16, s, multicast_bits=16)  # rejected
        with rejected(InstructionError, "multicast", "shared::cluster"):
            unit.load(s, g, 16, s, multicast=1, space="cta")  # rejected
        with rejected(OperandError, "space is 'global'", "'cluster', 'cta'"):
            unit.load(s, g, 16, s, space="global")  # rejected
        with rejected(OperandError, "ignore_bytes", "expected space 'cta'"):
            unit.load(s, g, 16, s, ignore_bytes=(1, 1))  # rejected
        with rejected(OperandError, "ignore_bytes on the right is 16", "0..15"):
            unit.load(s, g, 16, s, ignore_bytes=(1, 16), space="cta")  # rejected
        with rejected(OperandError, "report of", "is 'all'", "'disabled'"):
            unit.load(s, g, 16, s, report="all")  # rejected
        with rejected(OperandError, "sem of", "is 'release'", "'weak'"):
            unit.store(g, s, 16, sem="release", scope="gpu")  # rejected
        with rejected(OperandError, "sem is 'relaxed'", "scope is None"):
            unit.store(g, s, 16, sem="relaxed")  # rejected
        with rejected(OperandError, "scope of", "is 'gpu'", "'cta'"):
            unit.store_cluster(s, s, 16, s, sem="relaxed", scope="gpu")  # rejected
        with rejected(OperandError, "byte_mask is 65536", "0..65535"):
            unit.store(g, s, 16, byte_mask=1 << 16)  # rejected
        with rejected(OperandError, "op of", "is 'mul'", "'add'"):
            unit.reduce(g, s, 16, "mul", "u32")  # rejected
        with rejected(OperandError, "dtype is 's16'", "'f16', 'bf16'"):
            unit.reduce(g, s, 16, "add", "s16")  # rejected
        with rejected(OperandError, "dtype is 'f32'", "'b32', 'u32'"):
            unit.reduce_cluster(s, s, 16, s, "add", "f32")  # rejected
        with rejected(InstructionError, ".min does not exist for .f32"):
            unit.reduce(g, s, 16, "min", "f32")  # rejected
        with rejected(OperandError, "noftz", "'min' of f16"):
            unit.reduce(g, s, 16, "min", "f16", noftz=True)  # rejected
        with rejected(OperandError, "sem of", "is 'weak'", "'relaxed'"):
            unit.reduce(g, s, 16, "add", "u32", sem="weak")  # rejected
        with rejected(OperandError, "evict_last and cache_hint"):
            unit.prefetch(g, 16, evict_last=True, cache_hint=l2)  # rejected
        for n in (-1, 1.5, "0"):
            with rejected(OperandError, *asked(n, repr(n), "0..8388607")):
                unit.wait_group(n)  # rejected

    in_kernel(check)


def test_only_where_they_exist() -> None:
    def check() -> None:
        s, g = reg.scalar(u32), reg.scalar(u64)
        with rejected(TargetError, "sm_90"):
            ptx.cp.async_.bulk.load(s, g, 16, s)  # rejected

    in_kernel(check, arch="sm_80")

    def masked() -> None:
        s, g = reg.scalar(u32), reg.scalar(u64)
        with rejected(TargetError, "sm_100"):
            ptx.cp.async_.bulk.store(g, s, 16, byte_mask=1)  # rejected

    in_kernel(masked, arch="sm_90a")
