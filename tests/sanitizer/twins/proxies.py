"""Twins of the proxies: generic to async and back, shared and global, tensor maps, read-only loads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.layout.tensor_map import TensorMap

from .twin import Launch, Twin, arrays, wait

__all__ = ["TWINS"]

_PROXY = "async-proxy"
_PROXIES = "proxies"
_FENCE = "parallel-synchronization-and-communication-instructions-membar"
_LANES = np.arange(32, dtype=np.uint32)

_GONE = "proxy-fence"

# --- shared memory: ordinary stores, then the async proxy -------------------------------------

_STORE = "st.shared.u32 [at], tid; // @store"
_FENCED = "fence.proxy.async.shared::cta;"
_BULK = "cp.async.bulk.global.shared::cta.bulk_group [out], [base], 128; // @copy"


def _stored(
    name: str, classes: tuple[str, ...], why: str, body: str, copy: str = _BULK, **arguments: Any
) -> Twin:
    """Lanes write a tile and meet, and lane 0 copies the tile to global memory."""
    return Twin(
        name=name,
        classes=("store-without-proxy-fence", *classes),
        why=why,
        anchor=_PROXY,
        severity="error",
        lines=("store", "copy"),
        launches=(
            Launch(
                f"""
.shared .align 128 .b32 tile[32];
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; setp.eq.u32 p, tid, 5;
{body}
@!first bra END;
{copy}
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
"""
            ),
        ),
        **{"expect": _LANES, "rules": ("proxy-fence-missing",), **arguments},
    )


def _map_of_out(out: NDArray[Any]) -> dict[str, Any]:
    return {"map": TensorMap.tiled(out, box=(32,))}


_MEET = "bar.warp.sync -1;"
_PATH = "each storing thread executes the proxy fence before the barrier that the copying thread passes"
_SHARED = [
    _stored("store-then-bulk-store", (_GONE,), _PATH, f"{_STORE}\n-{_FENCED}\n+\n{_MEET}"),
    _stored(
        "warp-barrier-before-the-copy",
        ("proxy-fence", "lanes are threads"),
        "bar.warp.sync orders the stores and fences of all lanes before the copy of one",
        f"{_STORE}\n{_FENCED}\n-{_MEET}\n+",
        rules=("data-race", "proxy-fence-missing"),
    ),
    _stored("fence-before-the-stores", (_GONE,), _PATH, f"+{_FENCED}\n{_STORE}\n-{_FENCED}\n{_MEET}"),
    _stored(
        "store-behind-the-fence",
        ("proxy-fence",),
        "every store of the bytes stands before the fence of its thread",
        f"st.shared.u32 [at], 7;\n-@p st.shared.u32 [at], tid;\n{_FENCED}\n+@p st.shared.u32 [at], tid; // @store\n{_MEET}",
        expect=np.where(_LANES == 5, _LANES, np.uint32(7)),
    ),
    _stored(
        "fence-of-another-space",
        (_GONE,),
        "the fence names the space of the bytes that pass between the proxies",
        f"{_STORE}\n-{_FENCED}\n+fence.proxy.async.global;\n{_MEET}",
    ),
    _stored(
        "fence-by-the-copying-thread",
        (_GONE,),
        "a fence anywhere on the path from the stores to the copy is enough, in the copying thread too",
        f"{_STORE}\n{_MEET}\n-@first {_FENCED}\n+",
    ),
    _stored(
        "fence-off-the-path",
        (_GONE, "proxies"),
        "lane 0 stores and fences: the fence is on the path from the store to the copy",
        f"@first st.shared.v4.u32 [base], {{0, 1, 2, 3}}; // @store\n-@first {_FENCED}\n+@p {_FENCED}\n{_MEET}",
        "cp.async.bulk.global.shared::cta.bulk_group [out], [base], 16; // @copy",
        expect=_LANES[:4],
    ),
    _stored(
        "store-then-tensor-store",
        (_GONE,),
        _PATH,
        f"{_STORE}\n-{_FENCED}\n+\n{_MEET}",
        "mov.u32 x, 0; cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {x}], [base]; // @copy",
        arrays=_map_of_out,
    ),
    _stored(
        "stmatrix-then-bulk-store",
        ("proxy-fence",),
        _PATH,
        "mul.lo.u32 x, lane, 0x20002; add.u32 x, x, 0x10000; and.b32 a, lane, 7; mad.lo.u32 at, a, 16, base;\n"
        f"stmatrix.sync.aligned.m8n8.x1.shared.b16 [at], {{x}}; // @store\n-{_FENCED}\n+\n{_MEET}",
        expect=np.arange(64, dtype=np.uint16).view(np.uint32),
    ),
    _stored(
        "atomic-then-bulk-store",
        ("proxies",),
        _PATH,
        f"st.shared.u32 [at], 0;\natom.shared.add.u32 x, [at], tid; // @store\n-{_FENCED}\n+\n{_MEET}",
    ),
    _stored(
        "cp-async-then-bulk-store",
        ("proxies",),
        "cp.async writes through the generic proxy: after its wait a proxy fence is owed",
        "mad.wide.u32 from, lane, 4, data;\ncp.async.ca.shared.global [at], [from], 4; // @store\n"
        f"cp.async.wait_all;\n-{_FENCED}\n+\n{_MEET}",
        arrays=arrays(data=_LANES),
    ),
]


def _relayed(name: str, why: str, middle: str, copying: str) -> Twin:
    """Thread 0 stores, thread 32 passes that on through a second flag, and thread 64 copies."""
    return Twin(
        name=name,
        classes=("proxies", "chains of releases"),
        why=why,
        anchor=_PROXY,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[4]; .shared .align 4 .b32 flags[2];
mov.u32 base, tile; mov.u32 at, flags;
@first st.shared.v2.u32 [at], {{0, 0}};
bar.sync 0;
@!lead bra END;
setp.eq.u32 p, warp, 1; @p bra MIDDLE;
setp.eq.u32 p, warp, 2; @p bra COPIES;
st.shared.v4.u32 [base], {{5, 6, 7, 8}}; // @store
st.release.cta.shared.u32 [at], 1;
bra END;
MIDDLE:
GET: ld.acquire.cta.shared.u32 x, [at]; setp.eq.u32 p, x, 0; @p bra GET;
{middle}
st.release.cta.shared.u32 [at+4], 1;
bra END;
COPIES:
{copying}
cp.async.bulk.global.shared::cta.bulk_group [out], [base], 16; // @copy
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
""",
                block=96,
            ),
        ),
        expect=np.array([5, 6, 7, 8], np.uint32),
        rules=("proxy-fence-missing",),
        severity="error",
        lines=("store", "copy"),
    )


_TAKEN = "TAKE: ld.acquire.cta.shared.u32 x, [at+4]; setp.eq.u32 p, x, 0; @p bra TAKE;"
_SHARED += [
    _relayed(
        "fence-in-the-middle",
        "a fence on the path is enough, also of a thread that neither stores nor copies",
        f"-{_FENCED}\n+",
        _TAKEN,
    ),
    _relayed(
        "fence-before-the-acquire",
        "the copying thread fences after it has acquired the stores; before that, its fence is not on the path",
        "",
        f"+{_FENCED}\n{_TAKEN}\n-{_FENCED}",
    ),
]

# --- copies into shared memory ----------------------------------------------------------------


def _loaded(name: str, classes: tuple[str, ...], why: str, body: str, expect: Any, **arguments: Any) -> Twin:
    """Lane 0 fills a tile by a bulk copy, and each lane reads a word; ``fill`` and ``wait`` stand in ``body``."""
    return Twin(
        name=name,
        classes=classes,
        why=why,
        anchor=_PROXY,
        launches=(
            Launch(f"""
.shared .align 16 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mad.wide.u32 ptr, lane, 4, out; mad.wide.u32 from, lane, 4, data;
@first mbarrier.init.shared::cta.b64 [bar], 1;
{body}
"""),
        ),
        expect=expect,
        **{"arrays": arrays(data=_LANES + 40), "lines": ("store", "copy"), "severity": "error", **arguments},
    )


_EXPECT = "@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;"
_LOAD = "@first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [data], 128, [bar];"
_MISSING = {"rules": ("proxy-fence-missing",)}
#: Compilers let a copy overwrite what threads stored, without a fence.
_OVERWRITTEN = {"rules": ("proxy-fence-open",), "severity": "review", "omitted": True}
_FILLED = [
    _loaded(
        "store-then-load-over-it",
        ("proxies",),
        "the stores pass a proxy fence before the copy writes the same bytes",
        f"""
st.shared.u32 [at], 0; // @store
-{_FENCED}
+
{_MEET}
{_EXPECT}
{_LOAD} // @copy
{_MEET}
{wait("bar", 0)}
ld.shared.u32 y, [at]; st.global.u32 [ptr], y;
""",
        _LANES + 40,
        **_OVERWRITTEN,
    ),
    _loaded(
        "read-then-refill",
        ("read-then-refill", "proxies"),
        "each reading thread executes a proxy fence before the copy overwrites what it has read",
        f"""
{_MEET}
{_EXPECT}
{_LOAD}
{_MEET}
{wait("bar", 0)}
ld.shared.u32 x, [at]; // @load
-{_FENCED}
+
{_MEET}
{_EXPECT}
{_LOAD} // @copy
{_MEET}
{wait("bar", 1)}
ld.shared.u32 y, [at]; add.u32 y, y, x; st.global.u32 [ptr], y;
""",
        2 * (_LANES + 40),
        rules=("proxy-fence-open",),
        **{"severity": "review", "lines": ("load", "copy"), "omitted": True},
    ),
    _loaded(
        "store-to-global-then-load",
        (_GONE, "proxies"),
        "the stores to global memory pass a proxy fence before the copy reads them",
        f"""
st.global.u32 [from], tid; // @store
-fence.proxy.async.global;
+
{_MEET}
{_EXPECT}
{_LOAD} // @copy
{_MEET}
{wait("bar", 0)}
ld.shared.u32 y, [at]; st.global.u32 [ptr], y;
""",
        _LANES,
        **_MISSING,
    ),
    _loaded(
        "global-store-and-a-fence-of-shared",
        (_GONE, "proxies"),
        "the fence names global memory, where the bytes are",
        f"""
st.global.u32 [from], tid; // @store
-fence.proxy.async.global;
+{_FENCED}
{_MEET}
{_EXPECT}
{_LOAD} // @copy
{_MEET}
{wait("bar", 0)}
ld.shared.u32 y, [at]; st.global.u32 [ptr], y;
""",
        _LANES,
        **_MISSING,
    ),
    _loaded(
        "copied-out-then-in",
        ("proxies",),
        "fence.proxy.async of no space covers shared and global memory",
        f"""
st.shared.u32 [at], tid; st.global.u32 [from], 9; // @store
-fence.proxy.async;
+{_FENCED}
{_MEET}
@first cp.async.bulk.global.shared::cta.bulk_group [data], [base], 128; // @copy
@first cp.async.bulk.commit_group;
@first cp.async.bulk.wait_group 0;
{_MEET}
ld.global.u32 y, [from]; st.global.u32 [ptr], y;
""",
        _LANES,
        **_OVERWRITTEN,
    ),
]

_FILLED += [
    _loaded(
        "source-of-a-copy-overwritten",
        ("completions",),
        "the wait for the bytes comes before the source in global memory is written again",
        f"""
{_MEET}
{_EXPECT}
{_LOAD} // @copy
{_MEET}
-{wait("bar", 0)}
+
st.global.u32 [from], tid; // @store
{wait("bar", 0)}
ld.shared.u32 y, [at]; st.global.u32 [ptr], y;
""",
        _LANES + 40,
        rules=("data-race",),
    ),
]


_FILLED += [
    _loaded(
        "loaded-then-stored",
        ("proxies", "completions"),
        "both copies are of the async proxy: the wait for the first orders it before the second, without a fence",
        f"""
{_MEET}
{_EXPECT}
{_LOAD} // @store
-{wait("bar", 0)}
+
@first cp.async.bulk.global.shared::cta.bulk_group [out], [base], 128; // @copy
@first cp.async.bulk.commit_group; @first cp.async.bulk.wait_group 0;
{_MEET}
{wait("bar", 0)}
""",
        _LANES + 40,
        rules=("data-race",),
    ),
]


def _tiles_of_out(out: NDArray[Any]) -> dict[str, Any]:
    return {"map": TensorMap.tiled(out, box=(8, 4))}


_BOXES = Twin(
    name="boxes-side-by-side",
    classes=("proxies", "footprints", "across CTAs"),
    why="the boxes of the two CTAs are neighbors: rows of one lie between rows of the other, and none overlap",
    anchor=_PROXY,
    launches=(
        Launch(
            f"""
.shared .align 128 .b32 tile[32];
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mov.u32 y, 0;
-mul.lo.u32 x, cta, 4; mul.lo.u32 z, cta, 100;
+mul.lo.u32 x, cta, 0; mul.lo.u32 z, cta, 100;
add.u32 z, z, lane;
st.shared.u32 [at], z;
{_FENCED}
{_MEET}
@first cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {{x, y}}], [base]; // @copy
@first cp.async.bulk.commit_group; @first cp.async.bulk.wait_group 0;
""",
            grid=2,
        ),
    ),
    arrays=_tiles_of_out,
    expect=np.hstack([_LANES.reshape(8, 4), _LANES.reshape(8, 4) + 100]).astype(np.uint32),
    rules=("data-race",),
    severity="error",
    lines=("copy",),
)


def _short_map(out: NDArray[Any]) -> dict[str, Any]:
    """Return a map of the first 24 words of ``data``, and one of the first 24 words of the output."""
    data = np.arange(32, dtype=np.uint32)
    return {
        "data": data,
        "source": TensorMap.tiled(data, shape=(24,), box=(32,)),
        "target": TensorMap.tiled(out, shape=(24,), box=(32,)),
    }


def _clipped(name: str, why: str, copy: str, store: str, expect: NDArray[np.uint32]) -> Twin:
    """CTA 0 copies a box of 32 words through a map of 24, and CTA 1 stores one word."""
    return Twin(
        name=name,
        classes=("proxies", "footprints", "across CTAs"),
        why=why,
        anchor="tensor-tiled-mode-bounding-box",
        launches=(
            Launch(
                f"""
.shared .align 128 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mov.u32 x, 0; setp.eq.u32 p, cta, 1;
@p bra OTHER;
@first mbarrier.init.shared::cta.b64 [bar], 1;
st.shared.u32 [at], tid;
fence.proxy.async.shared::cta;
bar.warp.sync -1;
@!first bra END;
{copy}
bra END;
OTHER:
{store}
END:
""",
                grid=2,
            ),
        ),
        arrays=_short_map,
        expect=expect,
        rules=("data-race",),
        severity="error",
        lines=("copy", "store"),
    )


_CLIPPED = [
    _clipped(
        "box-read-beyond-the-tensor",
        "a copy reads no bytes beyond the end of its tensor, whatever the array holds there",
        f"""
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [source, {{x}}], [bar]; // @copy
{wait("bar", 0)}
ld.shared.u32 y, [base+4]; st.global.u32 [out], y;
""",
        "-@first st.global.u32 [data+96], 7;\n+@first st.global.u32 [data+92], 7; // @store",
        np.array([1] + [0] * 31, np.uint32),
    ),
    _clipped(
        "box-written-beyond-the-tensor",
        "a copy writes no bytes beyond the end of its tensor, which another CTA may write",
        """
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [target, {x}], [base]; // @copy
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
""",
        "-@first st.global.u32 [out+96], 24;\n+@first st.global.u32 [out+92], 23; // @store",
        np.array([*range(25), *[0] * 7], np.uint32),
    ),
]

# --- from CTA to CTA --------------------------------------------------------------------------


def _across(name: str, why: str, produce: str, consume: str, lines: tuple[str, str]) -> Twin:
    """CTA 0 writes 16 bytes of global memory and raises a flag; CTA 1 copies them to shared memory."""
    return Twin(
        name=name,
        classes=("proxies", "across CTAs"),
        why=why,
        anchor=_PROXY,
        launches=(
            Launch(
                f"""
.shared .align 16 .b32 tile[4]; .shared .align 8 .b64 bar;
mov.u32 base, tile;
setp.eq.u32 p, cta, 1; @p bra CONSUME;
{produce}
st.release.gpu.global.u32 [flag], 1;
bra END;
CONSUME:
mbarrier.init.shared::cta.b64 [bar], 1;
POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra POLL;
{consume}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [data], 16, [bar]; // @copy
{wait("bar", 0)}
ld.shared.v4.u32 {{x, y, z, n}}, [base]; st.global.v4.u32 [out], {{x, y, z, n}};
END:
""",
                grid=2,
                block=1,
            ),
        ),
        arrays=arrays(data=4, flag=1),
        expect=np.array([5, 6, 7, 8], np.uint32),
        rules=("proxy-fence-open",),
        severity="review",
        lines=lines,
        omitted=True,
    )


_WORDS = "{5, 6, 7, 8}"
_CTAS = [
    _across(
        "fence-in-another-cta-alone",
        "a fence in the CTA of the copy, after the acquire, is on the path",
        f"st.global.v4.u32 [data], {_WORDS}; // @store\nfence.proxy.async.global;",
        "-fence.proxy.async.global;\n+",
        ("store", "copy"),
    ),
    _across(
        "async-to-async",
        "a fence in the CTA of the second copy, after the acquire, is on the path",
        f"st.shared.v4.u32 [base], {_WORDS};\n{_FENCED}\n"
        "cp.async.bulk.global.shared::cta.bulk_group [data], [base], 16; // @store\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "-fence.proxy.async.global;\n+",
        ("store", "copy"),
    ),
]
_CTAS.append(
    replace(
        _across(
            "published-after-read-alone",
            "wait_group waits for the writes of the copy, so the release publishes them",
            f"st.shared.v4.u32 [base], {_WORDS};\n{_FENCED}\n"
            "cp.async.bulk.global.shared::cta.bulk_group [data], [base], 16; // @store\n"
            "cp.async.bulk.commit_group;\n-cp.async.bulk.wait_group 0;\n+cp.async.bulk.wait_group.read 0;",
            "ld.global.u32 n, [data]; // @load\n@never st.global.u32 [out], n;\nfence.proxy.async.global;",
            ("store", "load"),
        ),
        rules=("data-race",),
        severity="error",
        omitted=False,
    )
)
_CTAS.append(
    replace(
        _across(
            "no-fence-in-either-cta",
            "a fence in the CTA of the copy, after the acquire, is on the path",
            f"st.global.v4.u32 [data], {_WORDS}; // @store",
            "-fence.proxy.async.global;\n+",
            ("store", "copy"),
        ),
        rules=("proxy-fence-missing",),
        severity="error",
        omitted=False,
    )
)

# --- tensor maps in memory --------------------------------------------------------------------


def _place(out: NDArray[Any]) -> dict[str, Any]:
    """Return data, a map of their first half, room for a map, and a flag."""
    data = np.arange(64, dtype=np.uint32)
    map_ = TensorMap.tiled(data, shape=(32,), box=(32,))
    return {"data": data, "map": map_, "place": np.zeros(64, np.uint32), "flag": np.zeros(1, np.uint32)}


def _edited(name: str, why: str, release: str, acquire: str) -> Twin:
    """CTA 0 copies a tensor map to global memory and changes its address; CTA 1 copies through it."""
    return Twin(
        name=name,
        classes=("tensor-map proxy",),
        why=why,
        anchor=_FENCE,
        launches=(
            Launch(
                f"""
.shared .align 128 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mov.u32 n, 0;
setp.eq.u32 p, cta, 1; @p bra CONSUME;
COPY: cvt.u64.u32 wide, n; add.u64 from, map, wide; ld.b64 state, [from]; add.u64 ptr, place, wide;
st.global.b64 [ptr], state; // @store
add.u32 n, n, 8; setp.lt.u32 p, n, 128; @p bra COPY;
add.u64 wide, data, 128;
tensormap.replace.tile.global_address.global.b1024.b64 [place], wide; // @store
{release}
st.release.gpu.global.u32 [flag], 1;
bra END;
CONSUME:
mbarrier.init.shared::cta.b64 [bar], 1;
POLL: ld.acquire.gpu.global.u32 x, [flag]; setp.eq.u32 p, x, 0; @p bra POLL;
{acquire}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
mov.u32 x, 0;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [place, {{x}}], [bar]; // @copy
{wait("bar", 0)}
ld.shared.u32 y, [base]; st.global.u32 [out], y;
END:
""",
                grid=2,
                block=1,
            ),
        ),
        arrays=_place,
        expect=np.array([32], np.uint32),
        rules=("proxy-fence-missing",),
        severity="error",
        lines=("store", "copy"),
    )


_GIVE = "fence.proxy.tensormap::generic.release.gpu;"
_TAKE = "fence.proxy.tensormap::generic.acquire.gpu [place], 128;"
_BOTH = "a release fence after the edits and an acquire fence of the map's 128 bytes before the copy"
_MAPS = [
    _edited("tensor-map-not-acquired", _BOTH, _GIVE, f"-{_TAKE}\n+"),
    _edited("tensor-map-not-released", _BOTH, f"-{_GIVE}\n+", _TAKE),
    _edited(
        "tensor-map-released-at-cta-scope",
        "the scope of both fences includes both CTAs",
        f"-{_GIVE}\n+fence.proxy.tensormap::generic.release.cta;",
        _TAKE,
    ),
    _edited(
        "tensor-map-of-another-address-acquired",
        "the acquire fence names the map that the copy uses",
        _GIVE,
        f"add.u64 wide, place, 128;\n-{_TAKE}\n+fence.proxy.tensormap::generic.acquire.gpu [wide], 128;",
    ),
]

_COPIED = Twin(
    name="tensor-map-from-shared-memory",
    classes=("tensor-map proxy",),
    why="tensormap.cp_fenceproxy copies and releases the map, and the acquire fence comes before the copy through it",
    anchor="data-movement-and-conversion-instructions-tensormap-cp-fenceproxy",
    launches=(
        Launch(f"""
.shared .align 128 .b32 tile[32]; .shared .align 128 .b32 image[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mov.u32 a, image; mad.lo.u32 to, lane, 4, a; mad.wide.u32 from, lane, 4, map;
@first mbarrier.init.shared::cta.b64 [bar], 1;
ld.b32 x, [from]; st.shared.b32 [to], x;
bar.warp.sync -1;
add.u64 wide, data, 128;
@first tensormap.replace.tile.global_address.shared::cta.b1024.b64 [image], wide;
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [place], [a], 128; // @store
-{_TAKE}
+
mov.u32 x, 0;
@first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
@first cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [place, {{x}}], [bar]; // @copy
bar.warp.sync -1;
{wait("bar", 0)}
ld.shared.u32 y, [at];
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""),
    ),
    arrays=_place,
    expect=_LANES + 32,
    rules=("proxy-fence-missing",),
    severity="error",
    lines=("store", "copy"),
)
_FLYING = Twin(
    name="tensor-map-edited-under-a-copy",
    classes=("tensor-map proxy",),
    why="the edit comes after the wait for the copy that uses the map",
    anchor=_FENCE,
    launches=(
        Launch(f"""
.shared .align 128 .b32 tile[32]; .shared .align 8 .b64 bar;
mov.u32 base, tile; mad.lo.u32 at, lane, 4, base; mov.u32 n, 0; mov.u32 x, 0;
@first mbarrier.init.shared::cta.b64 [bar], 1;
@!first bra WAITS;
COPY: cvt.u64.u32 wide, n; add.u64 from, map, wide; ld.b64 state, [from]; add.u64 ptr, place, wide;
st.global.b64 [ptr], state;
add.u32 n, n, 8; setp.lt.u32 p, n, 128; @p bra COPY;
{_GIVE}
{_TAKE}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [place, {{x}}], [bar]; // @copy
-{wait("bar", 0)}
+
add.u64 wide, data, 128;
tensormap.replace.tile.global_address.global.b1024.b64 [place], wide; // @edit
WAITS:
bar.warp.sync -1;
{wait("bar", 0)}
ld.shared.u32 y, [at];
mad.wide.u32 ptr, lane, 4, out; st.global.u32 [ptr], y;
"""),
    ),
    arrays=_place,
    expect=_LANES,
    rules=("data-race",),
    severity="error",
    lines=("copy", "edit"),
)

# --- loads through the read-only cache --------------------------------------------------------

_READ_ONLY = [
    Twin(
        name="read-only-load-of-written-bytes",
        classes=("read-only-load", "proxies"),
        why="bytes that the launch writes are read by ordinary loads",
        anchor="data-movement-and-conversion-instructions-ld-global-nc",
        launches=(
            Launch(
                """
setp.eq.u32 p, tid, 32;
@first st.global.u32 [data], 7; // @store
bar.sync 0;
@!p bra END;
-ld.global.u32 y, [data];
+ld.global.nc.u32 y, [data]; // @load
st.global.u32 [out], y;
END:
""",
                block=64,
            ),
        ),
        arrays=arrays(data=1),
        expect=np.array([7], np.uint32),
        rules=("proxy-fence-missing", "data-race"),
        severity="error",
        lines=("store", "load"),
    ),
]

TWINS = [*_SHARED, *_FILLED, _BOXES, *_CLIPPED, *_CTAS, *_MAPS, _COPIED, _FLYING, *_READ_ONLY]
