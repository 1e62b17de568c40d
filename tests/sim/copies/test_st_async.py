"""st.async, red.async and st.bulk."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.copies.test_bulk_copies import GIVEN, ROOM, WAIT, every_schedule, kernel, room, run
from tests.sim.memory.test_memory import finding

STORES = [
    ("b32", "n", 4),
    ("u64", "v", 8),
    ("v2.u32", "{n, z}", 8),
    ("v2.b64", "{v, w}", 16),
    ("v4.b32", "{n, z, n, t}", 16),
]


@every_schedule
@pytest.mark.parametrize(("suffix", "operand", "nbytes"), STORES)
def test_st_async(suffix: str, operand: str, nbytes: int, schedule: str, seed: int) -> None:
    body = f"""
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {32 * nbytes}
    mad.lo.u32 n, t, 3, 7
    mad.lo.u32 z, t, 5, 1000
    mul.wide.u32 v, t, 77777
    add.u64 w, v, 1
    mad.lo.u32 x, t, 32, s
    st.async.shared::cluster.mbarrier::complete_tx::bytes.{suffix} [x], {operand}, [b]
    {WAIT}"""
    expected = room()
    for lane in range(32):
        parts = {"n": lane * 3 + 7, "z": lane * 5 + 1000, "v": lane * 77777, "w": lane * 77777 + 1, "t": lane}
        names = operand.strip("{}").split(", ")
        data = b"".join(parts[name].to_bytes(nbytes // len(names), "little") for name in names)
        expected[32 * lane : 32 * lane + nbytes] = list(data)
    np.testing.assert_array_equal(run(body, schedule=schedule, seed=seed), expected)


@every_schedule
def test_red_async(schedule: str, seed: int) -> None:
    form = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
    body = f"""
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {32 * (4 + 8 + 4)}
    mul.wide.u32 v, t, 3
    {form}.add.u64 [s+8], v, [b]
    {form}.max.s32 [s+16], t, [b]
    {form}.inc.u32 [s+20], 1000, [b]
    {WAIT}"""
    given = GIVEN.copy()
    given[1], given[2] = 5, 0xFFFFFFFD | 100 << 32
    expected = given.copy()
    expected[1] = 5 + 3 * sum(range(32))
    expected[2] = 31 | 132 << 32
    got = run(body, schedule=schedule, seed=seed, given=given)
    np.testing.assert_array_equal(got, expected.view(np.uint8))


@every_schedule
def test_release_to_global_memory(schedule: str, seed: int) -> None:
    body = """
    mad.wide.u32 o, t, 8, out
    mad.lo.u32 n, t, 3, 7
    st.async.release.gpu.global.u32 [o], n
    add.u64 o, o, 4
    red.async.release.gpu.global.add.u32 [o], t
    red.async.release.sys.global.add.s32 [out+1024], t
    """
    out = np.ones(ROOM // 8, np.uint64)
    words = out.view(np.uint32).copy()
    for lane in range(32):
        words[2 * lane] = 3 * lane + 7
        words[2 * lane + 1] += lane
    words[256] += sum(range(32))
    run(body, schedule=schedule, seed=seed, out=out, dump=False)
    np.testing.assert_array_equal(out.view(np.uint32), words)


def test_st_bulk() -> None:
    body = """
    mov.u64 big, 40
    @lead st.bulk.weak.shared::cta [s], big, 0
    add.u32 y, s, 64
    mov.u32 n, 8
    @lead st.bulk.weak.shared::cta [y], n, 0
    """
    expected = room()
    expected[:40] = 0
    expected[64:72] = 0
    np.testing.assert_array_equal(run(body), expected)


@every_schedule
def test_generic_addresses(schedule: str, seed: int) -> None:
    """Without .shared::cluster."""
    done = "mbarrier::complete_tx::bytes"
    body = f"""
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {32 * 8}
    cvta.shared.u64 o, 0
    cvt.u64.u32 f, b
    add.u64 f, f, o
    mad.wide.u32 o, t, 4, o
    cvt.u64.u32 w, s
    add.u64 o, o, w
    st.async.{done}.u32 [o], t, [f]
    red.async.relaxed.cluster.{done}.add.u32 [o+1024], t, [f]
    {WAIT}"""
    expected = room()
    expected[:128].view(np.uint32)[:] = np.arange(32)
    expected[1024:1152].view(np.uint32)[:] += np.arange(32, dtype=np.uint32)
    np.testing.assert_array_equal(run(body, schedule=schedule, seed=seed), expected)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [s+4], {n, z}, [b]", "misaligned"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [s], t, [s]", "mbarrier-misuse"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [s+8192], t, [b]", "out-of-bounds"),
        ("@lead st.bulk.weak.shared::cta [s], size, 0", "misaligned"),
    ],
)
def test_misuse(line: str, rule: str) -> None:
    text = f"mov.u32 n, 0\nmov.u32 z, 0\n{line}\n"
    report = kernel(text).run(GIVEN, np.zeros(ROOM // 8, np.uint64), GIVEN, 20)
    finding(report, rule)
