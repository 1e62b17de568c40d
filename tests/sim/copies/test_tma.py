"""TMA: boxes of one to five dimensions, swizzles, edges and fills, element by element; bulk groups; misuse."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pyptx.layout import TensorMap
from pyptx.sim.engine.events import Step, StepKind
from pyptx.sim.machine.machine import Machine
from pyptx.sim.machine.schedule import Late
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding
from tests.sim.threads.test_divergence import in_few_steps

pytestmark = pytest.mark.one_in(2)

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("starve:tma", 0)]

#: Bytes of shared memory that kernels here fill, copy into and dump.
AREA = 8192
POISON = 0xA5
MASK = {"none": 0, "32B": 1, "64B": 3, "128B": 7}
SPAN = {"none": 256, "32B": 32, "64B": 64, "128B": 128}
TYPES: list[Any] = [np.uint8, np.uint16, np.float32, ml_dtypes.bfloat16, np.float16, np.float64, np.int32]


def kernel_text(rank: int, body: str) -> str:
    """Fill the area from ``fill``, run ``body`` in thread 0, dump the area to ``out``."""
    return f"""
    .shared b8 area[{AREA}] 1024
    .shared b8 bar[16] 8
    .reg u32 t a b d x y
    .reg u64 f o v
    .reg pred lead p q
    mov.u32 t, %tid.x
    mov.u32 a, area
    mov.u32 b, bar
    add.u32 d, a, at
    setp.eq.u32 lead, t, 0
    mad.wide.u32 f, t, 8, fill
    mad.wide.u32 o, t, 8, out
    mad.lo.u32 x, t, 8, a
    mov.u32 y, 0
    FILL:
    ld.global.u64 v, [f]
    st.shared.u64 [x], v
    add.u64 f, f, 1024
    add.u32 x, x, 1024
    add.u32 y, y, 1024
    setp.lt.u32 p, y, {AREA}
    @p bra FILL
    fence.proxy.async.shared::cta
    @lead mbarrier.init.shared::cta.b64 [b], 1
    bar.sync 0
    @!lead bra WAITING
    {body}
    WAITING:
    bar.sync 0
    mad.lo.u32 x, t, 8, a
    mov.u32 y, 0
    DUMP:
    ld.shared.u64 v, [x]
    st.global.u64 [o], v
    add.u64 o, o, 1024
    add.u32 x, x, 1024
    add.u32 y, y, 1024
    setp.lt.u32 p, y, {AREA}
    @p bra DUMP
    ret
    """


def coordinates(rank: int) -> str:
    return "{" + ", ".join(f"c{i}" for i in range(rank)) + "}"


def load_kernel(rank: int) -> Kernel:
    body = f"""
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], bytes
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [d], [map, {coordinates(rank)}], [b]
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q bra W
    """
    params = " ".join(f"c{i}:s32" for i in range(rank))
    return Kernel(kernel_text(rank, body), f"map:map fill:u64 out:u64 at:u32 bytes:u32 {params}")


def store_kernel(rank: int) -> Kernel:
    body = f"""
    cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [map, {coordinates(rank)}], [d]
    cp.async.bulk.commit_group
    cp.async.bulk.wait_group 0
    """
    params = " ".join(f"c{i}:s32" for i in range(rank))
    return Kernel(kernel_text(rank, body), f"map:map fill:u64 out:u64 at:u32 bytes:u32 {params}")


LOADS = {rank: load_kernel(rank) for rank in range(1, 6)}
STORES = {rank: store_kernel(rank) for rank in range(1, 6)}


@dataclass
class Copy:
    """One copy: a tensor (perhaps with padded rows), a box, where it is and where it lies in shared memory."""

    tensor: NDArray[Any]
    box: tuple[int, ...]
    swizzle: str
    fill: str
    #: Innermost first, as the instruction takes them.
    coordinate: tuple[int, ...]
    offset: int

    def run(self, kernel: Kernel, area: NDArray[np.uint8], schedule: str, seed: int) -> NDArray[np.uint8]:
        """The area after the kernel."""
        tensor_map = TensorMap.tiled(self.tensor, box=self.box, swizzle=self.swizzle, oob_fill=self.fill)
        out = np.zeros(AREA, np.uint8)
        kernel.clean(
            tensor_map,
            area,
            out,
            self.offset,
            self.nbytes,
            *self.coordinate,
            block=128,
            schedule=schedule,
            seed=seed,
        )
        return out

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.box)) * self.tensor.itemsize

    def elements(self) -> Iterator[tuple[list[int], tuple[int, ...] | None]]:
        """For each element of the box: addresses of its bytes in the area, and its index in the tensor or None."""
        size = self.tensor.itemsize
        # Rows begin a span of the swizzle apart, as measured on an H200.
        row = self.box[-1] * size
        pitch = row if self.swizzle == "none" else SPAN[self.swizzle]
        for number, place in enumerate(itertools.product(*map(range, self.box))):
            index = tuple(start + i for start, i in zip(self.coordinate[::-1], place, strict=True))
            inside = all(0 <= i < n for i, n in zip(index, self.tensor.shape, strict=True))
            addresses = []
            for byte in range(size):
                # The area starts at a multiple of 1024, so offsets in it have the address's low bits.
                a = self.offset + number * size // row * pitch + number * size % row + byte
                addresses.append(a ^ (((a >> 7) & MASK[self.swizzle]) << 4))
            yield addresses, index if inside else None


def random_copy(rank: int, swizzle: str, generator: random.Random, *, store: bool = False) -> Copy:
    dtype = np.dtype(generator.choice(TYPES))
    unit = max(1, 16 // dtype.itemsize)
    inner = unit * generator.randint(1, SPAN[swizzle] // (unit * dtype.itemsize))
    box, budget = [inner], 4096 // (inner * dtype.itemsize if swizzle == "none" else SPAN[swizzle])
    for _ in range(rank - 1):
        box.append(generator.randint(1, max(1, min(9, budget))))
        budget //= box[-1]
    shape = [max(1, b + generator.randint(-b + 1, 12)) for b in box]
    padded = [n + generator.randint(0, 3) for n in shape]
    padded[0] = -(-padded[0] // unit) * unit
    strides = np.empty(padded[::-1], dtype)
    raw = strides.view(np.uint8)
    raw[...] = np.frombuffer(generator.randbytes(raw.size), np.uint8).reshape(raw.shape)
    tensor = strides[tuple(slice(0, n) for n in shape[::-1])]
    where = generator.choice(("inside", "edge", "anywhere", "outside"))
    coordinate = []
    for b, n in zip(box, shape, strict=True):
        low, high = {"inside": (0, max(0, n - b)), "edge": (-b + 1, n - 1), "anywhere": (-b - 3, n + 3)}.get(
            where, (-b - 9, -b)
        )
        coordinate.append(generator.randint(min(low, high), max(low, high)))
    if where == "outside" and generator.random() < 0.5:
        coordinate[-1] = shape[-1] + generator.randint(0, 1 << 20)
    # Both are illegal instructions on an H200: a row that starts off 16 bytes, a store before the start.
    coordinate[0] = coordinate[0] // unit * unit
    if store:
        coordinate = [max(0, c) for c in coordinate]
    return Copy(
        tensor,
        tuple(box[::-1]),
        swizzle,
        generator.choice(("zeros", "nan")) if dtype.kind not in "ui" else "zeros",
        tuple(coordinate),
        generator.choice((0, 128, 384, 512, 1024)),
    )


def raw_bytes(array: NDArray[Any], index: tuple[int, ...]) -> list[int]:
    return list(np.ascontiguousarray(array[index]).tobytes())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("swizzle", MASK)
def test_loads(rank: int, swizzle: str) -> None:
    """A load fills the whole box, counts all of its bytes, and touches nothing else."""
    generator = random.Random(f"load {rank} {swizzle}")
    area = np.full(AREA, POISON, np.uint8)
    for number in range(10):
        copy = random_copy(rank, swizzle, generator)
        schedule, seed = SCHEDULES[number % len(SCHEDULES)]
        got = copy.run(LOADS[rank], area, schedule, seed)
        expected = area.copy()
        nan = copy.fill == "nan"
        # The special NaN of an H200, in elements of any width.
        outside = [0xF7, 0x7F] * (copy.tensor.itemsize // 2) if nan else [0] * copy.tensor.itemsize
        for addresses, index in copy.elements():
            expected[addresses] = outside if index is None else raw_bytes(copy.tensor, index)
        assert got.tobytes() == expected.tobytes(), (
            copy.box,
            copy.coordinate,
            copy.offset,
            copy.tensor.shape,
        )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("swizzle", MASK)
def test_stores(rank: int, swizzle: str) -> None:
    """A store writes what lies inside the tensor and nothing else, not even between its rows."""
    generator = random.Random(f"store {rank} {swizzle}")
    for number in range(10):
        copy = random_copy(rank, swizzle, generator, store=True)
        area = np.frombuffer(generator.randbytes(AREA), np.uint8).copy()
        owner = copy.tensor.base if isinstance(copy.tensor.base, np.ndarray) else copy.tensor
        before = owner.copy()
        expected = before[tuple(slice(0, n) for n in copy.tensor.shape)]
        schedule, seed = SCHEDULES[number % len(SCHEDULES)]
        got = copy.run(STORES[rank], area, schedule, seed)
        assert got.tobytes() == area.tobytes()
        for addresses, index in copy.elements():
            if index is not None:
                expected[index] = np.frombuffer(area[addresses].tobytes(), copy.tensor.dtype)[0]
        assert owner.tobytes() == before.tobytes(), (
            copy.box,
            copy.coordinate,
            copy.offset,
            copy.tensor.shape,
        )


@pytest.mark.parametrize("offset", [0, 128, 384, 512])
@pytest.mark.parametrize("swizzle", MASK)
def test_the_swizzle_acts_on_addresses(offset: int, swizzle: str) -> None:
    """A full tile at each offset past a 1024-byte boundary, as measured on an H200."""
    inner = {"none": 128}.get(swizzle, SPAN[swizzle])
    tensor = np.random.default_rng(offset).integers(0, 256, (128, inner)).astype(np.uint8)
    copy = Copy(tensor, (4096 // inner, inner), swizzle, "zeros", (0, 0), offset)
    for schedule, seed in SCHEDULES:
        got = copy.run(LOADS[2], np.full(AREA, POISON, np.uint8), schedule, seed)
        for row in range(4096 // inner):
            for chunk in range(inner // 16):
                a = offset + row * inner + 16 * chunk
                a ^= ((a // 128) % (MASK[swizzle] + 1)) * 16
                assert got[a : a + 16].tolist() == tensor[row, 16 * chunk : 16 * chunk + 16].tolist()


def test_a_row_narrower_than_its_swizzle_at_the_end_of_shared_memory() -> None:
    """A box that ends within a 128-byte row: what is touched lies in that row, and is what counts as written."""
    tensor = np.arange(64, dtype=np.uint8).reshape(4, 16)
    kernel = Kernel(
        """
        .shared b8 bar[128] 8
        .shared b8 dyn[] 1024
        .reg u32 a b
        .reg u64 x y
        .reg pred q
        mov.u32 a, dyn
        mov.u32 b, bar
        mbarrier.init.shared::cta.b64 [b], 1
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 16
        cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [a+128], [map, {0, 1}], [b]
        W:
        mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
        @!q bra W
        ld.shared.v2.u64 {x, y}, [a+144]      // row 1 of the pattern: chunk 0 lies at chunk 1
        st.global.v2.u64 [out], {x, y}
        ld.shared.u64 x, [a+128] // not written
        ret
        """,
        "map:map out:u64",
    )
    out = np.zeros(16, np.uint8)
    tensor_map = TensorMap.tiled(tensor, box=(1, 16), swizzle="128B")
    found = finding(kernel.run(tensor_map, out, block=1, smem=256), "undefined-load", "review")
    assert out.tolist() == list(range(16, 32))
    assert found.location is not None and found.location.line == kernel.line("not written")


def test_coordinates_may_be_immediates_and_maps_arrays_of_one() -> None:
    kernel = Kernel(kernel_text(2, """
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 32
        cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [a], [map, {-8, 0}], [b]
        W:
        mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
        @!q bra W
        """), "map:map fill:u64 out:u64 at:u32")  # fmt: skip
    tensor = np.arange(8, dtype=np.uint16).reshape(1, 8)
    out = np.zeros(AREA, np.uint8)
    kernel.clean(TensorMap.tiled(tensor, box=(1, 16)), np.full(AREA, POISON, np.uint8), out, 0, block=128)
    assert out[:32].view(np.uint16).tolist() == [0] * 8 + list(range(8))
    assert set(out[32:].tolist()) == {POISON}


class ReadsAtOnce(Late):
    """Sources are read when an operation is issued, everything else is late."""

    def issued(self, machine: Machine, steps: list[Step]) -> None:
        for step in steps:
            if step.kind in (StepKind.READ, StepKind.READ_SHARED):
                machine.engines.execute(step)


CHANGING = """
mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 64
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [a], [map, {0}], [b]
mov.u32 y, 0
DELAY:
add.u32 y, y, 1
setp.lt.u32 p, y, 12
@p bra DELAY
st.global.u32 [source], 7
st.global.u32 [source+60], 7
W:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
@!q bra W
"""


def changed_source(**options: Any) -> tuple[int, int]:
    """First and last word of a box whose source changes after the copy was issued: a race."""
    kernel = Kernel(kernel_text(1, CHANGING), "map:map fill:u64 out:u64 at:u32 source:u64", racy=True)
    source, out = np.arange(16, dtype=np.uint32), np.zeros(AREA, np.uint8)
    fill = np.full(AREA, POISON, np.uint8)
    kernel.clean(TensorMap.tiled(source, box=(16,)), fill, out, 0, source, block=128, **options)
    words = out[:64].view(np.uint32)
    return int(words[0]), int(words[15])


@pytest.mark.full
def test_a_box_is_read_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the source becomes between the engine's reading and its writing does not count."""
    seen = {changed_source(schedule="random", seed=seed) for seed in range(30)}
    # The second store comes last: never its word alone.
    assert {(0, 15), (7, 7)} <= seen <= {(0, 15), (7, 15), (7, 7)}
    assert changed_source(schedule="late") == (7, 7)
    monkeypatch.setattr("pyptx.sim.api.runs.make_policy", lambda schedule, seed: ReadsAtOnce())
    assert changed_source() == (0, 15)


# --- bulk groups ------------------------------------------------------------------------------

#: Two stores of 64 bytes, from the area to rows 0 and 1 (and more), a group each; then something.
GROUPS = """
.shared b8 area[512] 128
.reg u32 a x
.reg u64 y
mov.u32 a, area
st.shared.v4.u32 [a], {1, 1, 1, 1}
st.shared.v4.u32 [a+128], {2, 2, 2, 2}
st.shared.v4.u32 [a+256], {3, 3, 3, 3}
fence.proxy.async.shared::cta
BODY
END
ret
"""
#: What everything in flight needs before the CTA may end.
DRAIN = "cp.async.bulk.commit_group\ncp.async.bulk.wait_group 0"


def group_kernel(body: str, end: str = DRAIN) -> Kernel:
    """``kernel(map, out, rows)``; STORE0 stands for the store of row 0 and its commit."""
    for row in range(3):
        store = (
            f"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {{0, {row}}}], [a+{128 * row}]\n"
        )
        body = body.replace(f"STORE{row}", store + "cp.async.bulk.commit_group")
    return Kernel(GROUPS.replace("BODY", body).replace("END", end), "map:map out:u64 rows:u64")


def groups(body: str, schedule: str, seed: int = 0, *, sanitize: bool = True) -> tuple[list[int], list[int]]:
    """First words of the three rows after the kernel, and the words that it stored to ``out``."""
    rows, out = np.zeros((3, 4), np.uint32), np.zeros(3, np.uint32)
    tensor_map = TensorMap.tiled(rows, box=(1, 4))
    group_kernel(body).clean(tensor_map, out, rows, block=1, schedule=schedule, seed=seed, sanitize=sanitize)
    return rows[:, 0].tolist(), out.tolist()


OVERWRITE = "st.shared.u32 [a], 11\nst.shared.u32 [a+128], 12\nst.shared.u32 [a+256], 13\n"


@pytest.mark.parametrize(("wait", "read"), [
    ("cp.async.bulk.wait_group.read 0", 3), ("cp.async.bulk.wait_group.read 1", 2),
    ("cp.async.bulk.wait_group.read 2", 1), ("cp.async.bulk.wait_group.read 3", 0),
    ("cp.async.bulk.wait_group.read 5", 0), ("cp.async.bulk.wait_group 0", 3),
    ("cp.async.bulk.wait_group 1", 2), ("cp.async.bulk.wait_group 4", 0), ("", 0),
])  # fmt: skip
def test_what_a_wait_covers(wait: str, read: int) -> None:
    """Sources are overwritten after the wait: late, the groups that it does not cover store the new words."""
    body = f"STORE0\nSTORE1\nSTORE2\n{wait}\n{OVERWRITE}"
    covered = read == 3
    assert groups(body, "eager", sanitize=covered)[0] == [1, 2, 3]
    expected = [1, 2, 3][:read] + [11, 12, 13][read:]
    assert groups(body, "late", sanitize=covered)[0] == expected
    assert groups(body, "starve:tma", sanitize=covered)[0] == expected
    for seed in range(10):
        # Whatever happens otherwise, what the wait covers was read before.
        assert groups(body, "random", seed, sanitize=covered)[0][:read] == [1, 2, 3][:read]


def test_wait_group_waits_for_writes_and_read_only_for_reads() -> None:
    """A tensor read back right after the wait."""
    kernel = """
    STORE0
    STORE1
    STORE2
    WAIT
    ld.global.u32 x, [rows]
    st.global.u32 [out], x
    ld.global.u32 x, [rows+16]
    st.global.u32 [out+4], x
    ld.global.u32 x, [rows+32]
    st.global.u32 [out+8], x
    """
    for wait, late in (
        ("wait_group 0", [1, 2, 3]),
        ("wait_group 1", [1, 2, 0]),
        ("wait_group.read 0", [0, 0, 0]),
    ):
        text = kernel.replace("WAIT", f"cp.async.bulk.{wait}")
        covered = wait == "wait_group 0"
        assert groups(text, "eager", sanitize=covered) == ([1, 2, 3], [1, 2, 3])
        assert groups(text, "late", sanitize=covered) == ([1, 2, 3], late)


@pytest.mark.full
def test_a_newer_group_that_is_done_does_not_stand_for_an_older_one() -> None:
    """wait_group 1 means the newest group may be pending, not any one."""
    text = """
    STORE0
    STORE1
    cp.async.bulk.wait_group.read 0
    cp.async.bulk.wait_group.read 0
    cp.async.bulk.wait_group 1
    ld.global.u32 x, [rows]
    st.global.u32 [out], x
    """
    for seed in range(60):
        assert groups(text, "random", seed)[1][0] == 1, seed


def test_several_stores_in_one_group_and_an_empty_group() -> None:
    store = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {{0, {row}}}], [a+{at}]\n"
    two = store.format(row=0, at=0) + store.format(row=1, at=128)
    body = f"{two}cp.async.bulk.commit_group\ncp.async.bulk.commit_group\ncp.async.bulk.wait_group.read 1\n{OVERWRITE}"
    assert groups(body, "late")[0] == [1, 2, 0]
    # Not committed: not waited for.
    body = f"{two}cp.async.bulk.wait_group.read 0\n{OVERWRITE}"
    assert groups(body, "late", sanitize=False)[0] == [11, 12, 0]


def test_groups_belong_to_the_thread_that_committed_them() -> None:
    """Another lane's wait waits for nothing."""
    kernel = Kernel(
        """
        .shared b8 area[128] 128
        .reg u32 t a
        .reg pred zero one
        mov.u32 t, %tid.x
        mov.u32 a, area
        setp.eq.u32 zero, t, 0
        setp.eq.u32 one, t, 1
        @zero st.shared.v4.u32 [a], {1, 2, 3, 4}
        @zero fence.proxy.async.shared::cta
        @zero cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {0}], [a]
        @zero cp.async.bulk.commit_group
        @WHO cp.async.bulk.wait_group.read 0
        @zero st.shared.u32 [a], 9
        @zero cp.async.bulk.wait_group 0
        ret
        """.replace("@WHO", "@{who}").replace("{1, 2, 3, 4}", "{{1, 2, 3, 4}}").replace("{0}", "{{0}}")
        .format(who="one"),
        "map:map",
    )  # fmt: skip
    rows = np.zeros(4, np.uint32)
    kernel.clean(TensorMap.tiled(rows, box=(4,)), schedule="late", sanitize=False)
    assert rows.tolist() == [9, 2, 3, 4]
    mine = Kernel(kernel.text.replace("@one cp", "@zero cp"), "map:map")
    mine.clean(TensorMap.tiled(rows, box=(4,)), schedule="late")
    assert rows.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "end", ["", "cp.async.bulk.wait_group 2", "cp.async.bulk.wait_group.read 1", "drain"]
)
@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_copies_that_read_shared_memory_when_the_cta_ends(end: str, schedule: str) -> None:
    """Each happens, and each that nothing waited for is found, also if it has happened by chance: eager."""
    kernel = group_kernel("STORE0\nSTORE1", DRAIN if end == "drain" else end)
    rows = np.zeros((3, 4), np.uint32)
    tensor_map = TensorMap.tiled(rows, box=(1, 4))
    report = kernel.run(tensor_map, np.zeros(3, np.uint32), rows, block=1, schedule=schedule)
    assert rows[:, 0].tolist() == [1, 2, 0]
    unread = 0 if end == "drain" else 1 if end.endswith("1") else 2
    assert [found.rule.name for found in report.findings] == ["exit-in-flight"] * unread, report
    assert all("no wait ensured that cp.async.bulk" in found.message for found in report.findings)


def test_a_copy_that_is_in_no_group_when_the_cta_ends() -> None:
    body = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {0, 0}], [a]"
    rows = np.zeros((3, 4), np.uint32)
    report = group_kernel(body, "cp.async.bulk.wait_group 0").run(
        TensorMap.tiled(rows, box=(1, 4)), np.zeros(3, np.uint32), rows, block=1
    )
    assert "no wait" in finding(report, "exit-in-flight").message


# --- misuse -----------------------------------------------------------------------------------

MISUSE_LOAD = """
.shared b8 area[2048] 1024
.shared b8 bar[8] 8
.reg u32 a b
.reg u64 m
.reg pred q
mov.u32 a, area
mov.u32 b, bar
mbarrier.init.shared::cta.b64 [b], 1
mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 256
{prepare}
cp.async.bulk.tensor.{dims}d.shared::cta.global.mbarrier::complete_tx::bytes [a+{at}], [{map}, {{{where}}}], [b] // copy
W:
mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
@!q bra W
ret
"""


def misuse(
    *, schedule: str = "eager", tensor: Any = None, swizzle: str = "128B", **changes: Any
) -> tuple[Kernel, Any]:
    options = {"prepare": "", "dims": 2, "at": 0, "map": "map", "where": "0, 0", **changes}
    kernel = Kernel(MISUSE_LOAD.format(**options), "map:map data:u64")
    array = np.arange(1024, dtype=np.uint8).reshape(16, 64) if tensor is None else tensor
    tensor_map = TensorMap.tiled(array, box=(4, 64), swizzle=swizzle)
    report = kernel.run(tensor_map, np.zeros(128, np.uint8), block=1, schedule=schedule)
    return kernel, report


@pytest.mark.parametrize(("changes", "rule", "said"), [
    ({"dims": 1, "where": "0"}, "bad-tensor-map", "has 1 coordinates, but the map has 2 dimensions"),
    ({"dims": 3, "where": "0, 0, 0"}, "bad-tensor-map", "has 3 coordinates, but the map has 2 dimensions"),
    ({"map": "data"}, "misaligned|bad-tensor-map", ""),
    ({"prepare": "add.u64 map, map, 64", "map": "map"}, "out-of-bounds", "128 bytes"),
    ({"prepare": "mov.u64 map, &map"}, "out-of-bounds", "global address 0x0"),
    ({"at": 16}, "misaligned", "not a multiple of 128"),
    ({"at": 64}, "misaligned", "not a multiple of 128"),
    ({"at": 2048 - 128}, "out-of-bounds", "of 512 bytes at shared address"),
    ({"prepare": "mov.u32 a, 0"}, "out-of-bounds", "before shared memory"),
    ({"prepare": "add.u32 b, b, 8"}, "out-of-bounds|mbarrier-misuse", ""),
    ({"prepare": "mbarrier.inval.shared::cta.b64 [b]"}, "mbarrier-misuse", "no mbarrier"),
    ({"where": "8, 0"}, "bad-tensor-map", "innermost coordinate 8"),
])  # fmt: skip
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_misused_loads(changes: dict[str, Any], rule: str, said: str, schedule: str) -> None:
    kernel, report = misuse(schedule=schedule, **changes)
    assert report.verdict == "error"
    found = report.findings[0]
    assert found.rule.name in rule.split("|"), report
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("copy")


@pytest.mark.parametrize("swizzle", MASK)
def test_tensor_copies_need_128_bytes_of_alignment(swizzle: str) -> None:
    """With any swizzle and with none (16 is enough for plain bulk copies only)."""
    tensor = np.zeros((16, 32), np.uint8)
    kernel = Kernel(MISUSE_LOAD.format(prepare="", dims=2, at=64, map="map", where="0, 0"), "map:map")
    found = finding(kernel.run(TensorMap.tiled(tensor, box=(8, 32), swizzle=swizzle), block=1), "misaligned")
    assert "not a multiple of 128" in found.message


def test_the_map_of_a_wrong_array() -> None:
    """A map whose strides run past its array is refused when it is made; one over other strides reads as it says."""
    array = np.arange(256, dtype=np.uint8)
    other = TensorMap.tiled(array, box=(2, 16), shape=(7, 16), strides=(32, 1))
    kernel = LOADS[2]
    out = np.zeros(AREA, np.uint8)
    kernel.clean(other, np.full(AREA, POISON, np.uint8), out, 0, 32, 0, 3, block=128)
    assert out[:32].tolist() == [*range(96, 112), *range(128, 144)]


def test_a_store_reads_only_what_was_written() -> None:
    text = """
    .shared b8 area[256] 128
    .reg u32 a
    mov.u32 a, area
    st.shared.v4.u32 [a], {1, 2, 3, 4}
    fence.proxy.async.shared::cta
    cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {0}], [a] // store
    cp.async.bulk.commit_group
    cp.async.bulk.wait_group 0
    ret
    """
    kernel = Kernel(text, "map:map")
    kernel.clean(TensorMap.tiled(np.zeros(4, np.uint32), box=(4,)), block=1)
    partly = TensorMap.tiled(np.zeros(8, np.uint32), box=(8,))
    found = finding(kernel.run(partly, block=1), "padding-read", "review")
    assert found.location is not None and found.location.line == kernel.line("store")
    assert "offset 16" in found.message
    nothing = Kernel(text.replace("    st.shared.v4.u32 [a], {1, 2, 3, 4}\n", ""), "map:map")
    found = finding(nothing.run(partly, block=1), "uninitialized-read")
    assert "offset 0" in found.message


def test_a_load_reads_only_what_was_written() -> None:
    """Of an array that counts as never written; parts that a store wrote do not."""
    text = """
    .shared b8 area[256] 128
    .shared b8 bar[8] 8
    .reg u32 a b
    .reg pred q
    mov.u32 a, area
    mov.u32 b, bar
    mbarrier.init.shared::cta.b64 [b], 1
    st.shared.v4.u32 [a], {1, 2, 3, 4}
    fence.proxy.async.shared::cta
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {0, 1}], [a]
    cp.async.bulk.commit_group
    cp.async.bulk.wait_group 0
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 16
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [a+128], [map, {0, ROW}], [b] // load
    W:
    mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0
    @!q bra W
    ret
    """
    tensor_map = TensorMap.tiled(np.zeros((3, 4), np.uint32), box=(1, 4))
    written = Kernel(text.replace("ROW", "1"), "map:map")
    assert written.run(tensor_map, block=1, uninitialized=[0]).verdict == "clean"
    other = Kernel(text.replace("ROW", "2"), "map:map")
    found = finding(other.run(tensor_map, block=1, uninitialized=[0]), "undefined-load", "review")
    assert found.location is not None and found.location.line == other.line("load")
    assert "offset 32" in found.message


def test_a_dropped_expect_is_a_deadlock() -> None:
    kernel = Kernel(MISUSE_LOAD.format(prepare="", dims=2, at=0, map="map", where="0, 0"), "map:map")
    text = kernel.text.replace("mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 256", "")
    dropped = Kernel(text, "map:map")
    tensor_map = TensorMap.tiled(np.zeros((16, 64), np.uint8), box=(4, 64))
    for schedule, seed in SCHEDULES:
        report = in_few_steps(dropped, tensor_map, block=1, schedule=schedule, seed=seed)
        assert "256 bytes arrived that no expect_tx announced" in report.findings[0].message
