"""Loads and stores beyond types and widths (test_memory.py): every form, 128 bits, lanes that part, what observers see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.sim import Observer
from pyptx.sim.memory.access import Access, StateSpace
from tests.sim.build import Kernel

LANES = 32


def words(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


def stored(
    text: str, *arguments: Any, params: str = "given:u64 out:u64", block: int = LANES, **options: Any
) -> Any:
    """Run a kernel whose last argument is the output; the report must be clean."""
    return Kernel(text, params, **options).clean(*arguments, block=block)


# --- forms ------------------------------------------------------------------------------------------

LOADS = [
    *("ld.weak.global", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu", "ld.global.cv"),
    *("ld.global.L1::evict_first", "ld.global.L1::no_allocate.L2::128B", "ld.global.L2::256B"),
    *("ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.sys.global", "ld.acquire.cta"),
    *("ld.global.nc", "ld.global.cg.nc", "ld.global.nc.L1::evict_last", "ldu.global", "ldu"),
]
STORES = [
    *("st.weak.global", "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt"),
    *("st.global.L1::evict_last", "st.volatile.global", "st.relaxed.cta.global", "st.release.sys.global"),
]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("block", [1, 20, 64])
def test_every_load_and_store_moves_vectors(store: str, block: int) -> None:
    """Each load in turn reads 16 bytes of the lane, which the store puts elsewhere: one lane, some, several warps."""
    rows = len(LOADS)
    text = """
        .reg u32 t x0..x3
        .reg u64 i o
        mov.u32 t, %tid.x
        mad.wide.u32 i, t, 16, given
        mad.wide.u32 o, t, 16, out
    """
    for row, load in enumerate(LOADS):
        text += f"{load}.v4.u32 {{x0..x3}}, [i+{row * 16 * block}]\n"
        text += f"{store}.v4.b32 [o+{row * 16 * block}], {{x3, x2, x1, x0}}\n"
    given, out = words(1, rows * 4 * block), np.zeros(rows * 4 * block, np.uint32)
    stored(text, given, out, block=block)
    np.testing.assert_array_equal(out.reshape(-1, 4), given.reshape(-1, 4)[:, ::-1])


@pytest.mark.parametrize("block", [1, 20, 64])
@pytest.mark.parametrize(
    "load", ["ld", "ld.volatile", "ld.acquire.gpu", "ld.global.nc", "ldu", "ld.mmio.relaxed.sys"]
)
@pytest.mark.parametrize("store", ["st", "st.volatile", "st.release.cluster", "st.mmio.relaxed.sys.global"])
def test_128_bits(load: str, store: str, block: int) -> None:
    text = f"""
        .reg u32 t
        .reg b128 q
        .reg u64 i o
        mov.u32 t, %tid.x
        mad.wide.u32 i, t, 16, given
        xor.b32 t, t, 1
        mad.wide.u32 o, t, 16, out
        {load}.b128 q, [i]
        {store}.b128 [o], q
    """
    given, out = words(2, 4 * block), np.zeros(4 * (block + 1), np.uint32)
    stored(text, given, out, block=block)
    rows = given.reshape(-1, 4)
    for lane in range(block):
        np.testing.assert_array_equal(out.reshape(-1, 4)[lane ^ 1], rows[lane])


@pytest.mark.parametrize("block", [1, 20, 64])
def test_32_bytes_and_elements_left_out(block: int) -> None:
    text = """
        .reg u32 t x0..x7
        .reg u64 i o y0..y3
        mov.u32 t, %tid.x
        mad.wide.u32 i, t, 32, given
        mad.wide.u32 o, t, 64, out
        ld.global.v8.b32 {x0, _, x2, x3, x4, _, _, x7}, [i]
        ld.global.L2::evict_last.v4.b64 {y0..y3}, [i]
        st.global.v8.b32 [o], {x7, x0, _, x2, x3, _, x4, 9}
        st.global.v4.u64 [o+32], {y3, _, y1, y0}
    """
    given, out = words(3, 8 * block), np.full(16 * block, 5, np.uint32)
    stored(text, given, out, block=block)
    g, wide = given.reshape(-1, 8).T, given.view(np.uint64).reshape(-1, 4).T
    five, nine = np.full(block, 5), np.full(block, 9)
    expected = np.stack([g[7], g[0], five, g[2], g[3], five, g[4], nine], axis=1)
    np.testing.assert_array_equal(out.reshape(-1, 16)[:, :8], expected)
    untouched = np.full(block, 5 << 32 | 5, np.uint64)
    np.testing.assert_array_equal(
        out.view(np.uint64).reshape(-1, 8)[:, 4:], np.stack([wide[3], untouched, wide[1], wide[0]], axis=1)
    )


def test_elements_left_out_stay_unwritten() -> None:
    """What ``_`` skips in fresh memory is not counted as written."""
    kernel = Kernel(
        """
        .reg u32 x
        .reg u64 o
        .shared b8 room[64] 32
        mov.u64 o, room
        cvta.shared.u64 o, o
        st.v8.b32 [o], {1, 2, _, 4, 5, 6, 7, 8}
        ld.shared.u32 x, [room+4]
        ld.shared.u32 x, [room+8] // never written
        """
    )
    report = kernel.run(block=1)
    (found,) = report.findings
    assert found.rule.name == "undefined-load"
    assert found.location is not None and found.location.line == kernel.line("never written")


# --- lanes that part --------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [1, 2, 4])
def test_generic_addresses_in_several_spaces(vector: int) -> None:
    """Odd lanes reach shared memory, even ones one of two global arrays."""
    dot = f".v{vector}" if vector > 1 else ""
    group = ", ".join(f"x{i}" for i in range(vector))
    group = f"{{{group}}}" if vector > 1 else group
    text = f"""
        .reg u32 t x0..x3 part
        .reg u64 a b c s o w
        .reg pred p q
        .shared b8 room[512] 16
        mov.u32 t, %tid.x
        mad.wide.u32 a, t, 16, first
        mad.wide.u32 b, t, 16, second
        mov.u64 s, room
        mad.wide.u32 s, t, 16, s
        ld.global{dot}.u32 {group}, [a+512]
        st.shared{dot}.u32 [s], {group}
        cvta.shared.u64 s, s
        and.b32 part, t, 3
        setp.eq.u32 p, part, 2
        selp.b64 c, b, a, p
        and.b32 part, t, 1
        setp.eq.u32 q, part, 1
        selp.b64 c, s, c, q
        ld{dot}.u32 {group}, [c]
        mad.wide.u32 o, t, 16, out
        st{dot}.u32 [o], {group}
        add.u32 x0, x0, 1
        st{dot}.u32 [c], {group}
        ld{dot}.u32 {group}, [c]
        st{dot}.u32 [o+512], {group}
    """
    first, second, out = words(4, 256), words(5, 128), np.zeros(256, np.uint32)
    before = first.reshape(2, 32, 4).copy(), second.reshape(32, 4).copy()
    stored(text, first, second, out, params="first:u64 second:u64 out:u64")
    for lane in range(LANES):
        source = before[0][1] if lane & 1 else before[1] if lane & 3 == 2 else before[0][0]
        expected = source[lane][:vector]
        np.testing.assert_array_equal(out.reshape(2, 32, 4)[0, lane, :vector], expected)
        changed = np.concatenate([[(int(expected[0]) + 1) % (1 << 32)], expected[1:]])
        np.testing.assert_array_equal(out.reshape(2, 32, 4)[1, lane, :vector], changed)
        now = first.reshape(2, 32, 4)[0, lane, 0]
        assert now == (changed[0] if lane & 3 == 0 else before[0][0][lane, 0])


def test_where_lanes_write_one_word_the_last_lane_stays() -> None:
    text = """
        .reg u32 t
        .reg u64 o
        mov.u32 t, %tid.x
        and.b32 t, t, 3
        mad.wide.u32 o, t, 8, out
        mov.u32 t, %tid.x
        st.global.v2.u32 [o], {t, 7}
        st.global.u8 [o+4], t
    """
    out = np.zeros((4, 2), np.uint32)
    stored(text, out, params="out:u64", racy=True)
    np.testing.assert_array_equal(out, [[28, 28], [29, 29], [30, 30], [31, 31]])


# --- the seam ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "seen"),
    [
        ("ld.global.u32 x, [given]", ("read", "weak", "", "generic")),
        ("ld.global.nc.u32 x, [given]", ("read", "weak", "", "readonly")),
        ("ld.volatile.u32 x, [given]", ("read", "relaxed", "sys", "generic")),
        ("ld.mmio.relaxed.sys.global.u32 x, [given]", ("read", "relaxed", "sys", "generic")),
        ("ld.acquire.cluster.global.u32 x, [given]", ("read", "acquire", "cluster", "generic")),
        ("st.volatile.global.u32 [given], 1", ("write", "relaxed", "sys", "generic")),
        ("st.release.gpu.global.u32 [given], 1", ("write", "release", "gpu", "generic")),
        ("st.mmio.relaxed.sys.global.u32 [given], 1", ("write", "relaxed", "sys", "generic")),
        ("red.global.add.u32 [given], 1", ("rmw", "relaxed", "gpu", "generic")),
        ("red.release.cta.global.add.u32 [given], 1", ("rmw", "release", "cta", "generic")),
    ],
)
@pytest.mark.parametrize("block", [1, 32])
def test_order_and_scope_reach_the_seam(instruction: str, seen: tuple[str, ...], block: int) -> None:
    found: list[tuple[str, ...]] = []

    class Listener(Observer):
        def access(self, access: Access) -> None:
            if access.space is StateSpace.GLOBAL:
                how = access.kind, access.semantics, access.scope, access.proxy
                found.append(tuple(part.value for part in how))

    # All lanes store to one word.
    kernel = Kernel(f".reg u32 x\n{instruction}", "given:u64", racy=True)
    kernel.clean(words(6, 4), block=block, observers=[Listener()])
    assert found[-1] == seen


@pytest.mark.parametrize(
    ("instruction", "multiple"),
    [
        ("ld.global.v4.f32 {f0..f3}, [given+8]", 16),
        ("ld.global.v2.u16 {h, h}, [given+2]", 4),
        ("st.global.v8.b32 [given+16], {1, 2, 3, 4, 5, 6, 7, 8}", 32),
        ("ld.global.b128 q, [given+8]", 16),
    ],
)
@pytest.mark.parametrize("block", [1, 32])
def test_a_vector_is_aligned_as_a_whole(instruction: str, multiple: int, block: int) -> None:
    text = f".reg f32 f0..f3\n.reg u16 h\n.reg b128 q\n{instruction}"
    report = Kernel(text, "given:u64").run(words(7, 64), block=block)
    (found,) = report.findings
    assert found.rule.name == "misaligned"
    assert f"not a multiple of {multiple}" in found.message
