"""Loads and stores: types, spaces, generic addresses, bounds, alignment, initialization, arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.core.findings import Finding
from pyptx.core.types import TYPES
from pyptx.sim import Report
from tests.sim.build import Kernel

pytestmark = pytest.mark.smoke

ACCESS_TYPES = ["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64"]
VECTORS = ["", ".v2", ".v4"]


def finding(report: Report, rule: str, verdict: str = "error") -> Finding:
    """The only finding of a report."""
    assert report.verdict == verdict, report
    (found,) = report.findings
    assert found.rule.name == rule, report
    return found


# --- every type, vector and width -------------------------------------------------------------


def copies() -> list[Any]:
    found = []
    for name in ACCESS_TYPES:
        bits = TYPES[name].bits
        exact = "u16" if bits == 8 else name
        for vector in VECTORS:
            if bits * int(vector[2:] or 1) > 128:
                continue
            wider = [f"{name[0]}{w}" for w in (32, 64) if w > max(bits, 16)] if name[0] != "f" else []
            for register in [exact, *wider]:
                found.append(pytest.param(name, vector, register, id=f"{name}{vector}-{register}"))
    return found


COPY = """
.reg u32 t n small
.reg u64 i o c
.reg REG r0..r3
.shared b8 tile[2048] 16
mov.u32 t, %tid.x
mul.wide.u32 i, t, SIZE
add.u64 c, copy, i
mad.wide.u32 o, t, 64, words
add.u64 i, input, i
mul.lo.u32 small, t, SIZE
mov.u32 n, tile
add.u32 small, small, n
ld.globalVEC.TYPE IN, [i]
st.shared::ctaVEC.TYPE [small], IN
ld.sharedVEC.TYPE IN, [small]
st.globalVEC.TYPE [c], IN
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "vector", "register"), copies())
@pytest.mark.parametrize("threads", [32, 20, 1])
def test_every_type_vector_and_register(name: str, vector: str, register: str, threads: int) -> None:
    """Global to register, to shared memory and back, to global: bytes kept, registers extended."""
    kind, count, width = TYPES[name], int(vector[2:] or 1), TYPES[register].bits
    size = kind.nbytes * count
    names = [f"r{i}" for i in range(count)]
    operand = "{" + ", ".join(names) + "}" if vector else "r0"
    text = COPY.replace("REG", register).replace("SIZE", str(size)).replace("VEC", vector)
    text = text.replace("TYPE", name).replace("IN", operand)
    text += "\n".join(f"st.global.b{width} [o+{16 * i}], r{i}" for i in range(count)) + "\nret"
    kernel = Kernel(text, "input:u64 copy:u64 words:u64")
    source = np.random.default_rng(size).integers(0, 256, threads * size).astype(np.uint8)
    copy = np.zeros_like(source)
    words = np.zeros((threads, 4, 2), np.uint64)
    kernel.clean(source, copy, words, block=threads)
    assert copy.tolist() == source.tolist()
    for thread in range(threads):
        for i in range(count):
            start = thread * size + i * kind.nbytes
            value = int.from_bytes(
                source[start : start + kind.nbytes].tobytes(), "little", signed=name[0] == "s"
            )
            assert words[thread, i, 0] == value % (1 << width), (thread, i)


def test_vectors_need_not_be_consecutive_registers() -> None:
    kernel = Kernel(
        """
        .reg u32 a b c d t
        .reg u64 p
        mov.u32 t, %tid.x
        mad.wide.u32 p, t, 16, data
        ld.global.v4.u32 {d, b, a, c}, [p]
        st.global.v4.u32 [p], {a, 7, b, d}
        ret
        """,
        "data:u64",
    )
    for threads in (32, 5, 1):
        data = np.arange(128, dtype=np.uint32).reshape(32, 4)
        expected = data.copy()
        expected[:threads] = [[x[2], 7, x[1], x[0]] for x in data[:threads].tolist()]
        kernel.clean(data, block=threads)
        assert data.tolist() == expected.tolist()


def test_a_load_may_overwrite_its_address() -> None:
    kernel = Kernel(
        """
        .reg u32 t
        .reg u64 p
        mov.u32 t, %tid.x
        mad.wide.u32 p, t, 8, pointers
        ld.global.u64 p, [p]
        ld.global.u64 p, [p]
        bar.sync 0
        mad.wide.u32 pointers, t, 8, pointers
        st.global.u64 [pointers], p
        ret
        """,
        "pointers:u64",
    )
    pointers = np.zeros(32, np.uint64)
    # The first global array lies at a fixed place: read it off.
    Kernel("st.global.u64 [out], out\nret", "out:u64").clean(pointers[:1].copy(), block=1)
    probe = np.zeros(1, np.uint64)
    Kernel("st.global.u64 [out], out\nret", "out:u64").clean(probe, block=1)
    pointers[:] = int(probe[0]) + 8 * np.roll(np.arange(32), 1)
    kernel.clean(pointers)
    assert pointers.tolist() == (int(probe[0]) + 8 * np.roll(np.arange(32), 2)).tolist()


def test_stores_to_one_address_leave_one_of_the_values() -> None:
    kernel = Kernel(
        """
        .reg u32 t
        mov.u32 t, %tid.x
        st.global.u32 [out], t
        ret
        """,
        "out:u64",
        racy=True,
    )
    out = np.full(1, 99, np.uint32)
    kernel.clean(out)
    assert out[0] in range(32)


# --- generic addresses ------------------------------------------------------------------------

GENERIC = """
.reg u32 t n odd third
.reg u64 s g p chosen here
.reg u32 x
.reg pred q r
.shared b8 tile[128] 16
mov.u32 t, %tid.x
mov.u32 n, tile
mad.lo.u32 n, t, 4, n
add.u32 x, t, 1000
st.shared.u32 [n], x
bar.sync 0
mov.u64 s, tile
cvta.shared.u64 s, s
mad.wide.u32 s, t, 4, s
mad.wide.u32 g, t, 4, input
cvta.global.u64 g, g
mov.u64 p, &number
cvta.param.u64 p, p
ld.u32 x, [s]                 // shared
mad.wide.u32 here, t, 4, out
st.global.u32 [here], x
ld.u32 x, [g]                 // global
st.global.u32 [here+128], x
ld.u32 x, [p]                 // parameter
st.global.u32 [here+256], x
rem.u32 third, t, 3
setp.eq.u32 q, third, 0
selp.b64 chosen, s, g, q
setp.eq.u32 q, third, 1
selp.b64 chosen, p, chosen, q
ld.u32 x, [chosen]            // all three in one instruction
st.global.u32 [here+384], x
setp.eq.u32 q, third, 0
selp.b64 chosen, s, here, q
add.u32 x, t, 2000
setp.ne.u32 q, third, 1
@q st.u32 [chosen], x         // shared and global in one instruction
ld.shared.u32 x, [n]
st.global.u32 [here+512], x
cvta.to.shared.u64 chosen, s
cvt.u32.u64 x, chosen
sub.u32 x, x, n
st.global.u32 [here+640], x
ret
"""


@pytest.mark.parametrize("threads", [32, 11, 1])
def test_generic_addresses(threads: int) -> None:
    kernel = Kernel(GENERIC, "input:u64 out:u64 number:u32")
    out = np.zeros((6, 32), np.uint32)
    kernel.clean(np.arange(500, 532, dtype=np.uint32), out, np.uint32(77), block=threads)
    for t in range(threads):
        mixed = (1000 + t, 77, 500 + t)[t % 3]
        overwritten = 2000 + t if t % 3 == 0 else 1000 + t
        first = 2000 + t if t % 3 == 2 else 1000 + t
        assert out[:, t].tolist() == [first, 500 + t, 77, mixed, overwritten, 0], t


# --- bounds -----------------------------------------------------------------------------------


def test_the_last_byte_of_an_array_is_inside() -> None:
    kernel = Kernel(
        """
        .reg u16 x
        ld.global.u8 x, [data]
        st.global.u8 [data+12], x
        ret
        """,
        "data:u64",
    )
    data = np.arange(5, 18, dtype=np.uint8)
    kernel.clean(data, block=1)
    assert data[12] == 5


@pytest.mark.parametrize("kind", ["ld", "st"])
@pytest.mark.parametrize(("offset", "size", "where"), [
    (-1, 1, "1 bytes before"), (13, 1, "0 bytes past the end"), (12, 2, "runs past the end"),
    (-4, 4, "4 bytes before"), (12, 4, "runs past the end"), (1 << 30, 4, "past the end"),
])  # fmt: skip
@pytest.mark.parametrize("threads", [32, 9, 1])
def test_global_bounds(kind: str, offset: int, size: int, where: str, threads: int) -> None:
    """One byte beyond either end, in the last lane alone."""
    access = f"ld.global.u{8 * size} x, [p]" if kind == "ld" else f"st.global.u{8 * size} [p], x"
    kernel = Kernel(
        f"""
        .reg u32 t x
        .reg u64 p
        .reg pred q
        mov.u32 t, %tid.x
        mov.u32 x, 0
        setp.eq.u32 q, t, {threads - 1}
        mov.u64 p, data
        @q add.u64 p, p, {offset}
        {access} // access
        ret
        """,
        "data:u64",
    )
    data = np.zeros(13, np.uint8)
    found = finding(kernel.run(data, block=threads), "out-of-bounds")
    assert found.location is not None and found.location.line == kernel.line("access")
    assert where in found.message and "data (13,) u8 (13 bytes" in found.message
    assert found.thread == f"CTA (0, 0, 0) warp 0 lane {threads - 1}"
    assert not data.any()


@pytest.mark.parametrize("threads", [64, 1])
def test_a_guarded_access_out_of_bounds_names_its_thread(threads: int) -> None:
    """The guard lets one lane through: that one is named."""
    culprit = threads - 3 if threads > 1 else 0
    kernel = Kernel(
        f"""
        .reg u32 t
        .reg pred q
        mov.u32 t, %tid.x
        setp.eq.u32 q, t, {culprit}
        @q st.global.u32 [data+4], t // access
        ret
        """,
        "data:u64",
    )
    found = finding(kernel.run(np.zeros(1, np.uint32), block=threads), "out-of-bounds")
    assert found.thread == f"CTA (0, 0, 0) warp {culprit // 32} lane {culprit % 32}"


def test_arrays_are_far_apart() -> None:
    """Running past one array never reaches the next."""
    kernel = Kernel("st.global.u32 [a+400], 1\nret", "a:u64 b:u64")
    found = finding(kernel.run(np.zeros(100, np.uint32), np.zeros(100, np.uint32), block=1), "out-of-bounds")
    assert "0 bytes past the end of a" in found.message


@pytest.mark.parametrize(("address", "size", "inside"), [
    (0x400, 1, True), (0x3FF, 1, False), (0x3FC, 4, False), (0, 4, False),
    (0x400 + 60, 4, True), (0x400 + 63, 1, True), (0x400 + 64, 1, False), (0x400 + 56, 16, False),
    (0x01000400, 4, False),
])  # fmt: skip
@pytest.mark.parametrize("threads", [32, 7, 1])
def test_shared_bounds(address: int, size: int, inside: bool, threads: int) -> None:
    """Static 40 bytes, then 24 dynamic ones; the first KiB is the system's; rank 1 is another CTA."""
    operand, vector = ("{x, x, x, x}", ".v4") if size == 16 else ("x", "")
    kernel = Kernel(
        f"""
        .shared b8 fixed[40] 8
        .shared b8 dyn[] 8
        .reg u32 x t a
        .reg pred q
        mov.u32 t, %tid.x
        mov.u32 x, 0
        mov.u32 a, 0x400
        setp.eq.u32 q, t, {threads - 1}
        @q mov.u32 a, {address}
        st.shared{vector}.u{8 * min(size, 4)} [a], {operand} // access
        ret
        """
    )
    # The dynamic area starts at the next multiple of 16.
    report = kernel.run(block=threads, smem=16)
    if inside:
        assert report.verdict == "clean", report
    else:
        found = finding(report, "out-of-bounds")
        assert found.location is not None and found.location.line == kernel.line("access")
        assert found.thread == f"CTA (0, 0, 0) warp 0 lane {threads - 1}"


def test_parameter_bounds() -> None:
    for offset, inside in ((0, True), (4, True), (8, False), (-4, False)):
        kernel = Kernel(f".reg u32 x\nld.param.u32 x, [a+{offset}]\nret", "a:u32 b:u32", prologue=False)
        if inside:
            kernel.clean(1, 2, block=1)
        else:
            assert "parameters (8 bytes" in finding(kernel.run(1, 2, block=1), "out-of-bounds").message


# --- alignment --------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("access", "size"), [
    ("u16", 2), ("u32", 4), ("b64", 8), ("v2.u8", 2), ("v2.u32", 8), ("v4.u32", 16), ("v2.f64", 16), ("v4.u16", 8),
])  # fmt: skip
@pytest.mark.parametrize("threads", [32, 3, 1])
def test_alignment(space: str, access: str, size: int, threads: int) -> None:
    """A vector counts whole: half its size is not enough."""
    count, kind = (int(access[1]), access[3:]) if access[0] == "v" else (1, access)
    names = "{" + ", ".join(["x"] * count) + "}" if count > 1 else "x"
    kernel = Kernel(
        f"""
        .shared b8 tile[64] 16
        .reg u32 t
        .reg u64 p
        .reg {"u16" if kind == "u8" else kind} x
        .reg pred q
        .reg u32 step
        mov.u32 t, %tid.x
        mov.u64 p, {"tile" if space == "shared" else "data"}
        setp.eq.u32 q, t, {threads - 1}
        @q add.u64 p, p, {size // 2}
        mov.b{max(16, TYPES[kind].bits)} x, 0
        st.{space}.{access} [p], {names} // access
        ret
        """,
        "data:u64",
    )
    found = finding(kernel.run(np.zeros(64, np.uint8), block=threads), "misaligned")
    assert f"not a multiple of {size}" in found.message
    assert found.location is not None and found.location.line == kernel.line("access")
    assert found.thread.endswith(f"lane {threads - 1}")


@pytest.mark.parametrize("shift", [4, 8, 12, 2, 1])
@pytest.mark.parametrize("threads", [8, 1])
def test_views_that_start_inside_an_allocation_keep_their_alignment(shift: int, threads: int) -> None:
    """The view's address is misaligned as it is on a GPU; aligned accesses into it still find their bytes."""
    owner = np.zeros(512, np.uint8)
    owner[:] = np.random.default_rng(shift).integers(0, 256, 512)
    # The allocation itself counts as aligned to 256, wherever numpy put it.
    view = owner[shift:]
    skip = -shift % 16
    kernel = Kernel(
        f"""
        .reg u32 t
        .reg u64 p x y o
        .reg u32 z
        mov.u32 t, %tid.x
        mad.wide.u32 p, t, 16, data
        mad.wide.u32 o, t, 32, out
        ld.global.v2.u64 {{x, y}}, [p+{skip}]
        st.global.v2.u64 [o], {{x, y}}
        ld.global.u32 z, [p+{skip + 4}]
        st.global.u32 [o+16], z
        add.u64 x, x, 1
        st.global.u64 [p+{skip}], x
        ret
        """,
        "data:u64 out:u64",
    )
    before = owner.copy()
    out = np.zeros((threads, 4), np.uint64)
    kernel.clean(view, out, block=threads)
    for t in range(threads):
        at = shift + skip + 16 * t
        words = [int.from_bytes(before[at + 8 * i : at + 8 * i + 8].tobytes(), "little") for i in range(2)]
        assert out[t, :3].tolist() == [*words, words[0] >> 32], t
        assert int.from_bytes(owner[at : at + 8].tobytes(), "little") == (words[0] + 1) % 2**64


def test_a_misaligned_view_is_misaligned() -> None:
    kernel = Kernel(".reg u64 x\nld.global.u64 x, [data]\nret", "data:u64")
    owner = np.zeros(64, np.float32)
    kernel.clean(owner[2:], block=1)
    assert "not a multiple of 8" in finding(kernel.run(owner[1:], block=1), "misaligned").message


# --- initialization ---------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [32, 5, 1])
def test_uninitialized_shared_memory(threads: int) -> None:
    """Bytes written by narrow stores count one by one."""
    kernel = Kernel(
        """
        .shared b8 tile[256] 8
        .reg u32 t a x
        .reg u64 y
        mov.u32 t, %tid.x
        mov.u32 a, tile
        mad.lo.u32 a, t, 8, a
        st.shared.u32 [a], t
        st.shared.u16 [a+4], 1
        ld.shared.u16 x, [a+4]
        st.shared.u8 [a+6], 2
        ld.shared.u32 x, [a]
        ld.shared.u64 y, [a]    // byte 7 is missing
        st.shared.u8 [a+7], 3
        ld.shared.u64 y, [a]
        mad.wide.u32 out, t, 8, out
        st.global.u64 [out], y
        ret
        """,
        "out:u64",
    )
    report = kernel.run(np.zeros(32, np.uint64), block=threads)
    found = finding(report, "undefined-load", "review")
    assert found.location is not None and found.location.line == kernel.line("byte 7 is missing")
    assert "offset 7) was never written" in found.message


@pytest.mark.parametrize("threads", [32, 5])
def test_uninitialized_shared_memory_names_the_lane(threads: int) -> None:
    kernel = Kernel(
        """
        .shared b8 tile[128] 4
        .reg u32 t a x
        .reg pred q
        mov.u32 t, %tid.x
        mov.u32 a, tile
        mad.lo.u32 a, t, 4, a
        setp.ne.u32 q, t, 3
        @q st.shared.u32 [a], t
        ld.shared.u32 x, [a] // read
        ret
        """
    )
    found = finding(kernel.run(block=threads), "undefined-load", "review")
    assert found.thread == "CTA (0, 0, 0) warp 0 lane 3"
    assert "offset 12) was never written" in found.message


def test_an_array_can_count_as_never_written() -> None:
    kernel = Kernel(
        """
        .reg u32 t x
        .reg u64 p
        mov.u32 t, %tid.x
        mad.wide.u32 p, t, 4, out
        st.global.u32 [p], t
        ld.global.u32 x, [p]
        bar.sync 0
        ld.global.u32 x, [p+4] // beyond what it wrote
        ret
        """,
        "out:u64",
    )
    out = np.zeros(40, np.uint32)
    kernel.clean(out)
    found = finding(kernel.run(out, uninitialized=[0]), "undefined-load", "review")
    assert found.location is not None and found.location.line == kernel.line("beyond what it wrote")
    assert found.thread.endswith("lane 31")


@pytest.mark.parametrize("shift", [4, 8, 1])
def test_what_was_written_of_a_misaligned_view(shift: int) -> None:
    owner = np.zeros(128, np.uint8)
    skip = -shift % 8
    kernel = Kernel(
        f"""
        .reg u64 x p
        .reg u32 t
        mov.u32 t, %tid.x
        mad.wide.u32 p, t, 8, out
        st.global.u64 [p+{skip}], 5
        ld.global.u64 x, [p+{skip}]
        bar.sync 0
        ld.global.u64 x, [p+{skip + 8}] // one further
        ret
        """,
        "out:u64",
    )
    for threads in (4, 1):
        found = finding(
            kernel.run(owner[shift:], block=threads, uninitialized=[0]), "undefined-load", "review"
        )
        assert found.location is not None and found.location.line == kernel.line("one further")
        assert f"(offset {skip + 8 * threads})" in found.message


def undefined(text: str, threads: int = 32) -> list[tuple[int, str, str]]:
    """(line, register, thread) of each read of a register that nothing wrote."""
    report = Kernel(text, "out:u64", racy=True).run(np.zeros(64, np.uint32), block=threads)
    assert {f.rule.name for f in report.findings} <= {"undefined-register"}, report
    assert report.verdict == ("review" if report.findings else "clean")
    return [(f.location.line if f.location else 0, f.message.split()[1], f.thread) for f in report.findings]


def test_registers_read_before_a_write() -> None:
    text = """.reg u32 t x y
    .reg pred p q
    mov.u32 t, %tid.x
    add.u32 y, t, x
    @p add.u32 y, t, 1
    st.global.u32 [out], {x}
    """.replace("{x}", "x")
    found = undefined(text)
    assert [(line, name) for line, name, _ in found] == [(4, "%x"), (5, "%p"), (6, "%x")]


@pytest.mark.parametrize("threads", [32, 7, 1])
def test_a_branch_on_a_predicate_that_nothing_wrote(threads: int) -> None:
    text = """.reg pred p q
    @p bra END
    @!q ret
    END:
    ret
    """
    assert [(line, name) for line, name, _ in undefined(text, threads)] == [(2, "%p"), (3, "%q")]


@pytest.mark.parametrize("threads", [32, 7, 1])
def test_guarded_writes_then_guarded_reads_are_fine(threads: int) -> None:
    text = """.reg u32 t x y
    .reg pred p
    mov.u32 t, %tid.x
    setp.lt.u32 p, t, 5
    @p mov.u32 x, 3
    @p add.u32 y, x, 1
    @!p mov.u32 x, 4
    @!p mov.u32 y, 5
    add.u32 x, x, y
    st.global.u32 [out], x
    ret
    """
    assert undefined(text, threads) == []


def test_only_the_lanes_that_did_not_write_are_named() -> None:
    text = """.reg u32 t x y
    .reg pred p
    mov.u32 t, %tid.x
    setp.lt.u32 p, t, 5
    @p mov.u32 x, 3
    add.u32 y, x, 1
    ret
    """
    assert undefined(text) == [(6, "%x", "CTA (0, 0, 0) warp 0 lane 5")]
    assert undefined(text, 5) == []
    guarded = text.replace("add.u32 y, x, 1", "@!p add.u32 y, x, 1")
    assert undefined(guarded) == [(6, "%x", "CTA (0, 0, 0) warp 0 lane 5")]


def test_writes_in_one_arm_of_a_branch() -> None:
    text = """.reg u32 t x y
    .reg pred p
    mov.u32 t, %tid.x
    setp.ge.u32 p, t, 9
    @p bra ELSE
    mov.u32 x, 1
    ELSE:
    @!p add.u32 y, x, 1
    add.u32 y, x, 1
    ret
    """
    assert undefined(text) == [(9, "%x", "CTA (0, 0, 0) warp 0 lane 9")]
    assert undefined(text, 9) == []


def test_a_loop_that_writes_on_its_first_pass() -> None:
    text = """.reg u32 i x y
    .reg pred first p
    mov.u32 i, 0
    LOOP:
    setp.eq.u32 first, i, 0
    @first mov.u32 x, 7
    add.u32 x, x, i
    add.u32 i, i, 1
    setp.lt.u32 p, i, 4
    @p bra LOOP
    st.global.u32 [out], x
    ret
    """
    assert undefined(text) == []


# --- arguments --------------------------------------------------------------------------------


def test_an_array_passed_twice_is_one_array() -> None:
    kernel = Kernel(
        """
        .reg u64 d
        sub.u64 d, a, b
        st.global.u64 [a], d
        st.global.u64 [b+8], 5
        ret
        """,
        "a:u64 b:u64",
    )
    data = np.full(2, 9, np.uint64)
    kernel.clean(data, data, block=1)
    assert data.tolist() == [0, 5]


def test_overlapping_views_share_their_bytes() -> None:
    kernel = Kernel(
        ".reg u32 x\nld.global.u32 x, [b]\nst.global.u32 [a], x\nst.global.u32 [b], 3\nret", "a:u64 b:u64"
    )
    data = np.arange(8, dtype=np.uint32)
    kernel.clean(data, data[4:], block=1)
    assert data.tolist() == [4, 1, 2, 3, 3, 5, 6, 7]


def test_a_non_contiguous_array_spans_its_gaps() -> None:
    kernel = Kernel(".reg u32 x\nld.global.u32 x, [a+32]\nst.global.u32 [a+64], x\nret", "a:u64")
    data = np.arange(64, dtype=np.uint32).reshape(8, 8)
    part = data[1:5, 2:4]
    kernel.clean(part, block=1)
    assert data[3, 2] == 18 and data[1, 2] == 10
    beyond = Kernel("st.global.u32 [a+104], 1\nret", "a:u64")
    assert "0 bytes past the end" in finding(beyond.run(part, block=1), "out-of-bounds").message


def test_scalar_parameters_of_every_type() -> None:
    kernel = Kernel(
        """
        .reg u16 x
        .reg u32 y
        ld.param.u8 y, [p8]
        st.global.u32 [out], y
        ld.param.s16 y, [p16]
        st.global.u32 [out+4], y
        st.global.f32 [out+8], pf
        st.global.f64 [out+16], pd
        st.global.u64 [out+24], p64
        st.global.s32 [out+32], p32
        ret
        """,
        "out:u64 p8:u8 p16:s16 pf:f32 pd:f64 p64:u64 p32:s32",
    )
    out = np.zeros(5, np.uint64)
    kernel.clean(out, np.uint8(200), -3, 1.5, -2.25, (1 << 64) - 2, np.int32(-7), block=1)
    assert out[0] == 200 | 0xFFFFFFFD << 32
    assert out[1] & 0xFFFFFFFF == 0x3FC00000
    assert out[2] == np.float64(-2.25).view(np.uint64)
    assert out[3:].tolist() == [(1 << 64) - 2, 0xFFFFFFF9]
