"""Bulk copies of plain bytes: loads, stores, reductions, groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("starve:tma", 0)]
every_schedule = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)

ROOM = 2048
BODY = """
.shared b8 room[2048] 128
.shared b8 bar[16] 16
.reg u32 t s b x y z n
.reg u64 v w f o big
.reg u16 mask
.reg pred lead p q
mov.u32 t, %tid.x
mov.u32 s, room
mov.u32 b, bar
setp.eq.u32 lead, t, 0
mad.lo.u32 x, t, 64, s
mad.wide.u32 f, t, 64, given
mov.u32 y, 0
FILL:
ld.global.u64 v, [f]
st.shared.u64 [x], v
add.u64 f, f, 8
add.u32 x, x, 8
add.u32 y, y, 8
setp.lt.u32 p, y, 64
@p bra FILL
@lead mbarrier.init.shared::cta.b64 [b], 1
fence.proxy.async.shared::cta
bar.sync 0
mad.lo.u32 x, t, 64, s
"""
DUMP = """
bar.sync 0
mad.lo.u32 x, t, 64, s
mad.wide.u32 o, t, 64, out
mov.u32 y, 0
DUMP:
ld.shared.u64 v, [x]
st.global.u64 [o], v
add.u64 o, o, 8
add.u32 x, x, 8
add.u32 y, y, 8
setp.lt.u32 p, y, 64
@p bra DUMP
"""
WAIT = """
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
@!q bra WAIT
"""
GROUP = "@lead cp.async.bulk.commit_group\n@lead cp.async.bulk.wait_group 0\n"
GIVEN = np.random.default_rng(5).integers(0, 1 << 64, ROOM // 8, np.uint64)


def kernel(body: str, *, dump: bool = True) -> Kernel:
    return Kernel(BODY + body + (DUMP if dump else ""), "given:u64 out:u64 more:u64 size:u32")


def run(
    body: str,
    *,
    schedule: str = "eager",
    seed: int = 0,
    given: NDArray[Any] = GIVEN,
    more: NDArray[Any] = GIVEN,
    size: int = 0,
    out: NDArray[Any] | None = None,
    dump: bool = True,
    sanitize: bool = True,
) -> NDArray[np.uint8]:
    """The room, or what is in ``out`` already, after the body; a body that races runs without the sanitizer."""
    result = np.zeros(ROOM // 8, np.uint64) if out is None else out
    kernel(body, dump=dump).clean(given, result, more, size, schedule=schedule, seed=seed, sanitize=sanitize)
    return result.view(np.uint8)


def signaled(copies: str, nbytes: int) -> str:
    issued = "\n".join("@lead " + line.strip() for line in copies.strip().splitlines())
    return f"@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], {nbytes}\n{issued}\n{WAIT}"


def room() -> NDArray[np.uint8]:
    return GIVEN.view(np.uint8).copy()


LOADS = [
    "shared::cta.global.mbarrier::complete_tx::bytes",
    "shared::cluster.global.mbarrier::complete_tx::bytes",
    "weak.shared::cta.global.mbarrier::complete_tx::bytes",
]


@every_schedule
@pytest.mark.parametrize("form", LOADS)
def test_loads(form: str, schedule: str, seed: int) -> None:
    more = GIVEN[::-1].copy()
    body = signaled(
        f"""cp.async.bulk.{form} [s+16], [more+512], 16, [b]
        cp.async.bulk.{form} [s+48], [more+16], 1008, [b]
        cp.async.bulk.{form} [s+1072], [more], size, [b]""",
        16 + 1008 + 208,
    )
    expected, source = room(), more.view(np.uint8)
    for to, at, count in ((16, 512, 16), (48, 16, 1008), (1072, 0, 208)):
        expected[to : to + count] = source[at : at + count]
    got = run(body, schedule=schedule, seed=seed, more=more, size=208)
    np.testing.assert_array_equal(got, expected)


@every_schedule
def test_loads_with_everything_else_that_is_spelled(schedule: str, seed: int) -> None:
    """A policy, strong accesses, and a mask that names this CTA alone."""
    more = GIVEN[::-1].copy()
    done = "mbarrier::complete_tx::bytes"
    body = "createpolicy.fractional.L2::evict_last.b64 w, 0f3F800000\nmov.u16 mask, 1\n" + signaled(
        f"""cp.async.bulk.shared::cta.global.{done}.L2::cache_hint [s], [more], 64, [b], w
        cp.async.bulk.shared::cluster.global.{done}.multicast::cluster [s+64], [more+64], 64, [b], mask
        cp.async.bulk.relaxed.gpu.shared::cta.global.{done}.b128 [s+128], [more+128], 64, [b]""",
        192,
    )
    expected = room()
    expected[:192] = more.view(np.uint8)[:192]
    np.testing.assert_array_equal(run(body, schedule=schedule, seed=seed, more=more), expected)


@every_schedule
def test_ignored_ends_are_not_read(schedule: str, seed: int) -> None:
    """The source ends 12 bytes before the copy does, and its first 5 bytes are left out."""
    more = np.arange(1, 101, dtype=np.uint8)
    line = (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob "
        "[s+32], [more], 112, {left}, {right}, [b]"
    )
    expected = room()
    expected[32 + 5 : 32 + 100] = more[5:]
    body = signaled(line.format(left=5, right=12), 112)
    np.testing.assert_array_equal(run(body, schedule=schedule, seed=seed, more=more), expected)
    out = np.zeros(ROOM // 8, np.uint64)
    report = kernel(signaled(line.format(left=5, right=11), 112)).run(GIVEN, out, more, 0)
    finding(report, "out-of-bounds")


@every_schedule
def test_within_shared_memory(schedule: str, seed: int) -> None:
    copy = "cp.async.bulk{}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    body = signaled(
        f"""{copy.format("")} [s+1024], [s+16], 272, [b]
        {copy.format(".weak")} [s+1504], [s+512], 16, [b]""",
        288,
    )
    expected = room()
    expected[1024:1296] = expected[16:288]
    expected[1504:1520] = expected[512:528]
    np.testing.assert_array_equal(run(body, schedule=schedule, seed=seed), expected)


# --- stores and groups --------------------------------------------------------------------------


@every_schedule
def test_stores(schedule: str, seed: int) -> None:
    store = "cp.async.bulk.global.shared::cta.bulk_group"
    body = f"""
    @lead {store} [out+16], [s+512], 16
    @lead cp.async.bulk.commit_group
    @lead {store} [out+48], [s+1024], size
    {GROUP}"""
    out = np.zeros(ROOM // 8, np.uint64)
    got = run(body, schedule=schedule, seed=seed, size=960, out=out, dump=False)
    expected = np.zeros(ROOM, np.uint8)
    expected[16:32], expected[48:1008] = room()[512:528], room()[1024:1984]
    np.testing.assert_array_equal(got, expected)


@every_schedule
def test_a_byte_mask(schedule: str, seed: int) -> None:
    body = f"""mov.u16 mask, 0x8431
    @lead cp.async.bulk.global.shared::cta.bulk_group.cp_mask [out+32], [s+64], 48, mask
    {GROUP}"""
    out = np.full(ROOM // 8, 0x7777777777777777, np.uint64)
    expected = out.view(np.uint8).copy()
    for byte in range(48):
        if 0x8431 >> byte % 16 & 1:
            expected[32 + byte] = room()[64 + byte]
    got = run(body, schedule=schedule, seed=seed, out=out, dump=False)
    np.testing.assert_array_equal(got, expected)


OVERWRITE = """
mov.u64 v, 0
@lead st.shared.u64 [s], v
fence.proxy.async.shared::cta
"""


@every_schedule
def test_a_source_may_change_when_it_has_been_read(schedule: str, seed: int) -> None:
    body = f"""
    @lead cp.async.bulk.global.shared::cta.bulk_group [out], [s], 2048
    @lead cp.async.bulk.commit_group
    @lead cp.async.bulk.wait_group.read 0
    {OVERWRITE}
    @lead cp.async.bulk.wait_group 0
    """
    out = np.zeros(ROOM // 8, np.uint64)
    got = run(body, schedule=schedule, seed=seed, out=out, dump=False)
    np.testing.assert_array_equal(got, room())


@pytest.mark.parametrize(("schedule", "first"), [("eager", GIVEN[0]), ("late", 0), ("starve:tma", 0)])
def test_a_source_that_changes_too_early_shows(schedule: str, first: int) -> None:
    store = "@lead cp.async.bulk.global.shared::cta.bulk_group [out], [s], 16\n"
    out = np.zeros(ROOM // 8, np.uint64)
    run(store + OVERWRITE + GROUP, schedule=schedule, out=out, dump=False, sanitize=False)
    assert out[0] == first


@pytest.mark.parametrize(("wait", "seen"), [("", 1), (".read", 0)])
def test_wait_group_read_does_not_wait_for_the_target(wait: str, seen: int) -> None:
    """Late, the target is written only when somebody waits for it."""
    body = f"""
    @lead cp.async.bulk.global.shared::cta.bulk_group [more], [s], 16
    @lead cp.async.bulk.commit_group
    @lead cp.async.bulk.wait_group{wait} 0
    @lead ld.global.u64 v, [more]
    @lead st.global.u64 [out], v
    """
    out = np.zeros(ROOM // 8, np.uint64)
    run(body, schedule="late", out=out, more=np.zeros(2, np.uint64), dump=False, sanitize=not wait)
    assert out[0] == (GIVEN[0] if seen else 0)


@pytest.mark.parametrize(("keep", "seen"), [(0, 2), (1, 1), (2, 0)])
def test_the_newest_groups_may_stay(keep: int, seen: int) -> None:
    body = f"""
    @lead cp.async.bulk.global.shared::cta.bulk_group [more], [s], 16
    @lead cp.async.bulk.commit_group
    @lead cp.async.bulk.global.shared::cta.bulk_group [more+16], [s+16], 16
    @lead cp.async.bulk.commit_group
    @lead cp.async.bulk.wait_group {keep}
    @lead ld.global.u64 v, [more]
    @lead st.global.u64 [out], v
    @lead ld.global.u64 v, [more+16]
    @lead st.global.u64 [out+8], v
    @lead cp.async.bulk.wait_group 0
    """
    out = np.zeros(ROOM // 8, np.uint64)
    run(body, schedule="late", out=out, more=np.zeros(4, np.uint64), dump=False, sanitize=not keep)
    assert out[:2].tolist() == [GIVEN[0] if seen > 0 else 0, GIVEN[2] if seen > 1 else 0]


def test_prefetches_change_nothing() -> None:
    body = "@lead cp.async.bulk.prefetch.L2.global [more+16], 1024\n"
    np.testing.assert_array_equal(run(body), room())


# --- reductions ---------------------------------------------------------------------------------

Operation = Callable[[int, int, int], int]


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


UNSIGNED: dict[str, Operation] = {
    "and": lambda a, b, n: a & b,
    "or": lambda a, b, n: a | b,
    "xor": lambda a, b, n: a ^ b,
    "add": lambda a, b, n: (a + b) % (1 << n),
    "inc": lambda a, b, n: 0 if a >= b else a + 1,
    "dec": lambda a, b, n: b if a == 0 or a > b else a - 1,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
}
SIGNED: dict[str, Operation] = UNSIGNED | {
    "min": lambda a, b, n: min(a, b, key=lambda x: signed(x, n)),
    "max": lambda a, b, n: max(a, b, key=lambda x: signed(x, n)),
}
CLUSTER = [
    *[(op, "b32") for op in ("and", "or", "xor")],
    *[("add", kind) for kind in ("u32", "s32", "u64")],
    *[(op, "u32") for op in ("inc", "dec", "min", "max")],
    *[(op, "s32") for op in ("min", "max")],
]
GLOBAL = [
    *CLUSTER,
    *[(op, "b64") for op in ("and", "or", "xor")],
    *[(op, kind) for op in ("min", "max") for kind in ("u64", "s64")],
]


def combined(op: str, kind: str, old: NDArray[np.uint8], given: NDArray[np.uint8]) -> NDArray[np.uint8]:
    bits = int(kind[1:])
    meaning = (SIGNED if kind[0] == "s" else UNSIGNED)[op]
    pairs = zip(old.view(f"u{bits // 8}").tolist(), given.view(f"u{bits // 8}").tolist(), strict=True)
    return np.array([meaning(a, b, bits) for a, b in pairs], f"u{bits // 8}").view(np.uint8)


def operands(count: int, seed: int) -> NDArray[np.uint64]:
    """Small and large numbers, among them equal ones and zeroes."""
    words = np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)
    words[::3] &= np.uint64(0x0000000300000003)
    return words


@pytest.mark.parametrize(("op", "kind"), CLUSTER)
def test_reductions_in_shared_memory(op: str, kind: str) -> None:
    given = operands(ROOM // 8, 7)
    form = f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind}"
    body = signaled(f"{form} [s+1024], [s+32], 992, [b]", 992)
    expected = given.view(np.uint8).copy()
    expected[1024:2016] = combined(op, kind, expected[1024:2016], expected[32:1024])
    for schedule, seed in SCHEDULES:
        got = run(body, schedule=schedule, seed=seed, given=given)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("op", "kind"), GLOBAL)
def test_reductions_in_global_memory(op: str, kind: str) -> None:
    given = operands(ROOM // 8, 8)
    body = f"@lead cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [out+16], [s+32], 1024\n{GROUP}"
    for schedule, seed in SCHEDULES:
        out = operands(ROOM // 8, 9)
        expected = out.view(np.uint8).copy()
        expected[16:1040] = combined(op, kind, expected[16:1040], given.view(np.uint8)[32:1056])
        got = run(body, schedule=schedule, seed=seed, given=given, out=out, dump=False)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [("add.f32", np.float32), ("add.f64", np.float64), ("add.noftz.f16", np.float16)],
)
def test_float_sums(form: str, dtype: Any) -> None:
    """Integers and halves, whose sums are exact, and subnormal numbers."""
    generator = np.random.default_rng(3)
    count = ROOM // np.dtype(dtype).itemsize
    given, old = (generator.integers(-400, 400, count).astype(dtype) / dtype(2) for _ in range(2))
    tiny = np.finfo(dtype).smallest_subnormal
    given[::5] = tiny
    old[::5] = tiny * dtype(3)
    expected = given + old
    assert (expected[::5] == tiny * dtype(4)).all()
    body = f"@lead cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [out], [s], {ROOM}\n{GROUP}"
    got = run(body, schedule="random", seed=4, given=given, out=old.copy(), dump=False)
    np.testing.assert_array_equal(got.view(dtype), expected)


def test_reductions_of_one_word_add_up() -> None:
    """Each lane adds to the same words: every step is one read and write."""
    body = """
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [out], [s], 64
    cp.async.bulk.commit_group
    cp.async.bulk.wait_group 0
    """
    for schedule, seed in SCHEDULES:
        out = np.zeros(ROOM // 8, np.uint64)
        run(body, schedule=schedule, seed=seed, out=out, dump=False)
        expected = (GIVEN[:8].view(np.uint32).astype(np.uint64) * 32).astype(np.uint32)
        np.testing.assert_array_equal(out[:8].view(np.uint32), expected)


# --- misuse -------------------------------------------------------------------------------------

LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (f"{LOAD} [s+8], [more], 16, [b]", "misaligned"),
        (f"{LOAD} [s], [more+8], 16, [b]", "misaligned"),
        (f"{LOAD} [s], [more], size, [b]", "misaligned"),
        (f"{LOAD} [s+2080], [more], 32, [b]", "out-of-bounds"),
        (f"{LOAD} [s], [more], 4096, [b]", "out-of-bounds"),
        (f"{LOAD} [s], [more], 16, [s]", "mbarrier-misuse"),
        (f"{LOAD} [b], [more], 16, [b]", "mbarrier-misuse"),
        ("cp.async.bulk.global.shared::cta.bulk_group [more], [s+8], 16", "misaligned"),
        ("cp.async.bulk.prefetch.L2.global [more+8], 16", "misaligned"),
    ],
)
def test_misuse(line: str, rule: str) -> None:
    report = kernel(f"@lead {line}\n").run(GIVEN, np.zeros(ROOM // 8, np.uint64), GIVEN, 20)
    finding(report, rule)
