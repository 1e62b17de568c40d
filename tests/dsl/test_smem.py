"""Shared memory: by hand and allocated, static and dynamic, stages and sub-tiles."""

from __future__ import annotations

import pytest

from pyptx.core.errors import OperandError, SharedMemoryError, SpecError, TraceError, UnsupportedError
from pyptx.core.types import b8, b16, b32, b64, bf16, f16, f32, pred, u8, u32, u64
from pyptx.dsl import Buffer, current, ptx, reg, smem
from pyptx.ir import SharedRange, parse_module, print_module
from pyptx.toolchain import Tool, check_text

from .helpers import body_of, in_kernel, recorded, rejected, says, text_of

LIMIT = 227 * 1024


def test_the_base_is_loaded_once() -> None:
    def body() -> None:
        first, again = smem.base(), smem.base()
        assert first.name == again.name == "smem_base" and first.type is u32
        x = first + 16  # noqa: F841

    assert body_of(body, smem=64) == ["mov.u32 %smem_base, smem;", "add.u32 %x, %smem_base, 16;"]


def test_an_unused_base_records_nothing() -> None:
    def body() -> None:
        smem.base()

    assert body_of(body, smem=64) == []
    assert "smem_base" not in text_of(body, smem=64)


@pytest.mark.parametrize(
    ("options", "declared", "static", "dynamic"),
    [
        ({"smem": 48 * 1024}, ".shared .align 1024 .b8 smem[49152];", 48 * 1024, 0),
        ({"smem": 48 * 1024 + 1}, ".extern .shared .align 1024 .b8 smem[];", 0, 48 * 1024 + 1),
        ({"smem": 16, "extern_smem": True}, ".extern .shared .align 1024 .b8 smem[];", 0, 16),
        ({"smem": LIMIT}, ".extern .shared .align 1024 .b8 smem[];", 0, LIMIT),
    ],
    ids=str,
)
def test_static_and_dynamic_differ_in_the_declaration_only(
    options: dict[str, int], declared: str, static: int, dynamic: int, ptxas: Tool
) -> None:
    def body() -> None:
        ptx.inst.st.shared.u32(ptx.addr(smem.base()), 1)

    recording = recorded(body, **options)
    text = print_module(recording.module).text
    assert declared in text
    assert (recording.static_smem, recording.dynamic_smem) == (static, dynamic)
    assert body_of(body, **options) == ["mov.u32 %smem_base, smem;", "st.shared.u32 [%smem_base], 1;"]
    assert check_text(text, ptxas=ptxas).ok


def test_a_recording_names_its_buffers() -> None:
    def body() -> None:
        tile = smem.alloc((4, 3), u8, align=128, stages=2)
        smem.alloc(2, b64, name="ready")
        ptx.inst.st.shared.u8(tile[1], 1)

    recording = recorded(body, smem=20)
    found = [(r.name, r.offset, r.size, r.variable) for r in recording.module.functions[0].shared_ranges]
    assert found == [("smem", 0, 20, "smem"), ("tile", 128, 256, "smem"), ("ready", 384, 16, "smem")]
    sources = [r.source.text for r in recording.module.functions[0].shared_ranges if r.source is not None]
    assert sources == [
        "tile = smem.alloc((4, 3), u8, align=128, stages=2)",
        'smem.alloc(2, b64, name="ready")',
    ]


def test_names_of_buffers_are_not_in_the_text() -> None:
    def body() -> None:
        ready = smem.alloc(2, b64)
        ptx.inst.st.shared.u64(ready, 1)

    module = recorded(body).module
    text = print_module(module).text
    back = parse_module(text)
    assert "ready" not in text.replace("%ready", "")
    assert back == module and back.functions[0].shared_ranges == ()


def test_a_rejected_buffer_has_no_range() -> None:
    def body() -> None:
        kept = smem.alloc(16)
        with pytest.raises(ZeroDivisionError), current().atomic():
            smem.alloc(32)
            raise ZeroDivisionError
        with rejected(SharedMemoryError):
            smem.alloc(LIMIT)  # rejected
        ptx.inst.st.shared.u32(kept, 1)

    ranges = recorded(body).module.functions[0].shared_ranges
    assert ranges == (SharedRange("kept", 0, 16, ranges[0].source, "smem", b8, (16,)),)


def test_no_shared_memory_no_declaration() -> None:
    recording = recorded(lambda: None)
    assert (recording.static_smem, recording.dynamic_smem, recording.module.variables) == (0, 0, ())
    assert "shared" not in print_module(recording.module).text


def test_past_the_limit() -> None:
    def check() -> None:
        smem.alloc(100 * 1024)
        with rejected(SharedMemoryError, str(LIMIT), str(228 * 1024)):
            smem.alloc((64, 1024), b16)  # rejected

    in_kernel(check)
    with pytest.raises(SharedMemoryError) as caught:
        in_kernel(lambda: None, smem=LIMIT + 1)
    assert str(LIMIT) in str(caught.value) and str(LIMIT + 1) in str(caught.value)
    in_kernel(lambda: None, arch="sm_90", smem=LIMIT)
    with pytest.raises(SharedMemoryError, match=str(99 * 1024)):
        in_kernel(lambda: None, arch="sm_120", smem=LIMIT)


def test_alignment_follows_the_swizzle() -> None:
    def check() -> None:
        smem.alloc(4)
        offsets = {}
        for swizzle in ("none", "32B", "64B", "128B"):
            offsets[swizzle] = smem.alloc(4, swizzle=swizzle).offset
        assert offsets == {"none": 16, "32B": 256, "64B": 512, "128B": 1024}
        assert smem.alloc(4, b64, align=1).offset == 1032
        assert smem.alloc(4, align=128).offset == 1152
        assert smem.alloc(4, swizzle="128B_ATOM_32B").offset == 2048

    in_kernel(check)


def test_allocations_follow_the_area_placed_by_hand() -> None:
    def check() -> None:
        a = smem.alloc((8, 64), bf16, swizzle="128B")
        assert (a.offset, a.nbytes, a.shape, a.name) == (1024, 1024, (8, 64), "a")

    in_kernel(check, smem=100)


def test_addresses_are_computed_once() -> None:
    def body() -> None:
        smem.alloc(32)
        buf = smem.alloc(32)
        x, y = buf.addr, buf.addr
        assert x.name == y.name == "buf"
        ptx.inst.st.shared.u32(ptx.addr(x), 1)
        ptx.inst.st.shared.u32(buf, 2)
        ptx.inst.st.shared.u32(ptx.addr(buf, 4), 3)

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "add.u32 %buf, %smem_base, 32;",
        "st.shared.u32 [%buf], 1;",
        "st.shared.u32 [%smem_base+32], 2;",
        "st.shared.u32 [%smem_base+36], 3;",
    ]


def test_stages() -> None:
    def body() -> None:
        tiles = smem.alloc((8, 64), bf16, swizzle="128B", stages=4)
        bars = smem.alloc(1, b64, stages=4, align=8)
        assert (tiles.nbytes, tiles.stage_bytes, tiles.stages) == (1024, 1024, 4)
        assert (bars.offset, bars.stage_bytes) == (4096, 8)
        assert tiles[3].offset == 3072 and tiles.stage(0).stages is None
        assert smem.alloc(100, stages=2, align=64).stage_bytes == 128
        s = reg.scalar(u32)
        tile = tiles[s]
        ptx.mbarrier.arrive(bars[s])
        ptx.inst.st.shared.u32(ptx.addr(tile, 8), s)
        ptx.inst.st.shared.u32(bars[2], s)

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "add.u32 %bars, %smem_base, 4096;",
        "mad.lo.u32 %tile, %s, 1024, %smem_base;",
        "mad.lo.u32 %bars_stage, %s, 8, %bars;",
        "mbarrier.arrive.shared::cta.b64 _, [%bars_stage];",
        "st.shared.u32 [%tile+8], %s;",
        "st.shared.u32 [%smem_base+4112], %s;",
    ]


def test_a_stage_is_never_ignored() -> None:
    def check() -> None:
        single, ring = smem.alloc(64), smem.alloc(64, stages=3)
        with rejected(TraceError, "'single' has no stages", "stages=n"):
            single[1]  # rejected
        with rejected(OperandError, "stage 3", "0..2"):
            ring[3]  # rejected
        with rejected(OperandError, "stage -1", "0..2"):
            ring[-1]  # rejected
        with rejected(TraceError, "3 stages", "choose one"):
            ring.rows(0, 1)  # rejected
        with rejected(TraceError, "3 stages"):
            ring.at(0)  # rejected

    in_kernel(check)


def test_sub_tiles() -> None:
    def body() -> None:
        tile = smem.alloc((64, 64), bf16, swizzle="128B")
        assert tile.rows(8, 16).offset == 1024 and tile.rows(8, 16).shape == (16, 64)
        plain = smem.alloc((4, 6), f32)
        assert plain.at(2, 3).offset == plain.offset + 2 * 24 + 12
        i, j = reg.scalar(u32), reg.scalar(u32)
        ptx.inst.st.shared.f32(plain.at(i, j), 1.0)
        ptx.inst.st.shared.f32(plain.at(i, 3), 1.0)
        x = plain.rows(i, 1).addr
        assert x.type is u32
        y = plain.at(i, 3).addr  # noqa: F841

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "add.u32 %plain, %smem_base, 8192;",
        "mad.lo.u32 %plain_index, %i, 24, %plain;",
        "mad.lo.u32 %plain_index_1, %j, 4, %plain_index;",
        "st.shared.f32 [%plain_index_1], 0f3F800000;",
        "mad.lo.u32 %plain_index_2, %i, 24, %plain;",
        "st.shared.f32 [%plain_index_2+12], 0f3F800000;",
        "mad.lo.u32 %plain_row, %i, 24, %plain;",
        "mad.lo.u32 %plain_index_3, %i, 24, %plain;",
        "add.u32 %y, %plain_index_3, 12;",
    ]


def test_rows_as_stages() -> None:
    def body() -> None:
        tile = smem.alloc((64, 64), bf16, swizzle="128B", stages=2)
        parts = tile[1].split(4)
        assert parts.stages == 4 and parts.shape == (16, 64) and parts.stage_bytes == 2048
        assert [part.offset for part in parts] == [8192 + 2048 * i for i in range(4)]
        i = reg.scalar(u32)
        x = tile[i].split(2)[1].addr
        assert x.type is u32

    assert body_of(body) == [
        "mov.u32 %smem_base, smem;",
        "mad.lo.u32 %tile_stage, %i, 8192, %smem_base;",
        "add.u32 %x, %tile_stage, 4096;",
    ]


def test_sub_tiles_that_are_not_there() -> None:
    def check() -> None:
        tile = smem.alloc((64, 64), bf16, swizzle="128B")
        for stages in (0, 3, 16):
            with rejected(OperandError, "64 rows", f"{stages} stages"):
                tile.split(stages)  # rejected
        plain = smem.alloc((4, 6), f32)
        with rejected(OperandError, "row 4", "512 bytes", "multiple of 8 rows"):
            tile.rows(4, 8)  # rejected
        with rejected(OperandError, "row 3", "0..2"):
            plain.rows(3, 2)  # rejected
        with rejected(OperandError, "count is 9", "expected 1..4 rows"):
            plain.rows(0, 9)  # rejected
        with rejected(OperandError, "index 1", "0..5"):
            plain.at(0, 6)  # rejected
        with rejected(OperandError, "1 indices", "(4, 6)"):
            plain.at(0)  # rejected
        with rejected(OperandError, "swizzled"):
            tile.at(0, 0)  # rejected

    in_kernel(check)


def test_alloc_refuses() -> None:
    def check() -> None:
        with rejected(OperandError, "(4, 0)"):
            smem.alloc((4, 0))  # rejected
        with rejected(OperandError, "()"):
            smem.alloc(())  # rejected
        with rejected(OperandError, "align is 24", "power of two"):
            smem.alloc(4, align=24)  # rejected
        with rejected(OperandError, "align is 2048", "1024"):
            smem.alloc(4, align=2048)  # rejected
        with rejected(OperandError, "pred"):
            smem.alloc(4, pred)  # rejected
        with rejected(OperandError, "stages is 0"):
            smem.alloc(4, stages=0)  # rejected
        with rejected(SpecError, "'256B'"):
            smem.alloc(4, swizzle="256B")  # rejected
        with rejected(UnsupportedError, "'128B_ATOM_64B'"):
            smem.alloc(4, swizzle="128B_ATOM_64B")  # rejected

    in_kernel(check)


def test_load_and_store(ptxas: Tool) -> None:
    def body() -> None:
        buf = smem.alloc(64, f32)
        x = smem.load(b32, ptx.addr(smem.base(), 8))
        h = smem.load(f16, buf)
        c = smem.load(u8, buf.addr)
        smem.store(buf, 0)
        smem.store(ptx.addr(buf, 4), x)
        smem.store(buf.addr, h, pred=x.view(u32) == 1)
        smem.store(buf, c)
        smem.store(buf, 7, u64)
        smem.store(buf, 1.0, bf16)

    assert body_of(body)[1:] == [
        "ld.shared.b32 %x, [%smem_base+8];",
        "ld.shared.b16 %h, [%smem_base];",
        "ld.shared.u8 %c, [%smem_base];",
        "st.shared.f32 [%smem_base], 0f00000000;",
        "st.shared.b32 [%smem_base+4], %x;",
        "setp.eq.u32 %p, %x, 1;",
        "@%p st.shared.b16 [%smem_base], %h;",
        "st.shared.u8 [%smem_base], %c;",
        "st.shared.u64 [%smem_base], 7;",
        "st.shared.b16 [%smem_base], 16256;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_load_and_store_refuse() -> None:
    def check() -> None:
        x, p = reg.scalar(u32), reg.scalar(pred)
        with rejected(OperandError, "5", "kind="):
            smem.store(x, 5)  # rejected
        with rejected(OperandError, "predicate", "selp"):
            smem.store(x, p)  # rejected
        with rejected(OperandError, "predicate"):
            smem.load(pred, x)  # rejected
        with rejected(OperandError, "source of smem.load is 16: expected a register or ptx.a"):
            smem.load(u32, 16)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "'a'"):
            smem.store(x, "a", u32)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "1.5", ".u32"):
            smem.store(x, 1.5, u32)  # rejected

    in_kernel(check)


def test_buffers_outside_a_kernel() -> None:
    kept: list[Buffer] = []
    recorded(lambda: kept.append(smem.alloc(16)))
    with pytest.raises(TraceError, match="no kernel"):
        smem.load(u32, kept[0])

    def check() -> None:
        ptx.inst.st.shared.u32(kept[0], 1)  # rejected

    with pytest.raises(TraceError) as caught:
        in_kernel(check)
    says(caught.value, ["has ended"])
