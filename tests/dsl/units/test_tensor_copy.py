"""Tensor copies of ``ptx.cp.async_.bulk``: the map gives the direction; every mode, spelling, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError
from pyptx.core.types import b16, b64, bf16, f32, pred, s32, u16, u32, u64
from pyptx.dsl import Layout, Tile, TileParam, ptx, reg, smem
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, recorded, rejected, text_of
from tests.dsl.units.places import REPORTS, TENSORS, calls, place, policy
from tests.dsl.units.reach import Call, assemble_calls, unreached

GATHER = "tile::gather4"
OPS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
RANKS = (1, 2, 3, 4, 5)
DEEP = (3, 4, 5)
#: Modes of loads and prefetches with the ranks that they have, and how many offsets each takes.
LOADS = (
    *((None, rank, 0) for rank in RANKS),
    *(("tile", rank, 0) for rank in RANKS),
    ("tile::gather4", 2, 0),
    *(("im2col", rank, rank - 2) for rank in DEEP),
    *((mode, rank, 2) for mode in ("im2col::w", "im2col::w::128") for rank in DEEP),
)
STORES = (
    *((None, rank) for rank in RANKS),
    *(("tile", rank) for rank in RANKS),
    *((mode, rank) for mode in ("im2col_no_offs", "im2col_no_offs::w") for rank in DEEP),
)
#: Space, mask of CTAs, its width.
WHERE = (
    ("cta", None, None),
    ("cluster", None, None),
    ("cluster", 3, None),
    ("cluster", 3, 16),
    ("cluster", 3, 32),
)

#: One target for each set of tensor copies that some target has.
TARGETS = ("sm_90", "sm_100", "sm_100a", "sm_110a", "sm_120a", "sm_107a")

bulk: Any = ptx.cp.async_.bulk


def _coordinates(mode: str | None, rank: int) -> list[Any]:
    count = 5 if mode in ("tile::gather4", "tile::scatter4") else rank
    return [reg.scalar(s32), *(0,) * (count - 1)]


def _load(shape: Any, where: Any, group: Any, hint: bool, report: Any = None) -> None:
    mode, rank, offsets = shape
    space, mask, bits = where
    getattr(bulk, f"tensor_{rank}d")(
        dst=place("cta"),
        src=reg.scalar(u64),
        coord=_coordinates(mode, rank),
        mbar=place("cta"),
        mode=mode,
        offsets=[reg.scalar(u16) for _ in range(offsets)] if offsets else None,
        multicast=mask,
        multicast_bits=bits,
        cta_group=group,
        cache_hint=policy(hint),
        report=report,
        space=space,
    )


def _store(shape: Any, op: str | None, hint: bool) -> None:
    mode, rank = shape
    copy = getattr(bulk, f"tensor_{rank}d")
    to, coordinates = reg.scalar(u64), _coordinates(mode, rank)
    copy(dst=to, src=place("cta"), coord=coordinates, op=op, mode=mode, cache_hint=policy(hint))


def _touch(wrapper: Any, shape: Any, **options: Any) -> None:
    mode, rank, offsets = shape
    info = [reg.scalar(u16) for _ in range(offsets)] if offsets else None
    wrapper(reg.scalar(u64), _coordinates(mode, rank), mode=mode, offsets=info, **options)


def _named(name: str, shapes: Any, body: Any, *choices: Any) -> list[Call]:
    """Calls of ``body`` under the name of the wrapper of each shape's rank."""
    return [call for shape in shapes for call in calls(name.format(shape[1]), body, (shape,), *choices)]


def _calls() -> list[Call]:
    flags = (False, True)
    prefetch, priority = bulk.prefetch_tensor, bulk.apply_priority_tensor
    return [
        *_named("bulk.tensor_{}d", LOADS, _load, WHERE[:4], (None, 1, 2), flags),
        *_named("bulk.tensor_{}d", (*STORES, ("tile::scatter4", 2)), _store, (None,), flags),
        *_named("bulk.tensor_{}d", STORES, _store, OPS, flags),
        *calls("bulk.prefetch_tensor", lambda s, h: _touch(prefetch, s, cache_hint=policy(h)), LOADS, flags),
        *calls("bulk.prefetch_tensor", lambda s: _touch(prefetch, s, evict_last=True), LOADS),
        *calls("bulk.apply_priority_tensor", lambda s: _touch(priority, s), LOADS),
    ]


def _newest() -> list[Call]:
    """What PTX 9.4 has on sm_107 alone: reports, and masks of 32 CTAs."""
    groups, flags = (None, 1, 2), (False, True)
    return [
        *_named("bulk.tensor_{}d", LOADS, _load, WHERE, groups, flags, REPORTS),
        *_named("bulk.tensor_{}d", LOADS, _load, WHERE[4:], groups, flags),
    ]


@pytest.mark.full
def test_every_variant_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas, TARGETS)
    newest = assemble_calls(_newest(), ptxas, ("sm_107a",))
    assert reached.wrappers == TENSORS

    def of_tensors(words: tuple[str, ...]) -> bool:
        # Properties put in place of the map's (.override, on sm_107 alone) are left to ptx.inst; the optional
        # word .global of applypriority is always written.
        optional = words[0] == "async" and words[:3] == ("async", "bulk", "tensor") and "global" not in words
        return "tensor" in words and not any("override" in word for word in words) and not optional

    for opcode in ("cp", "applypriority"):
        left = set(unreached(reached, opcode, of_tensors)) & set(unreached(newest, opcode, of_tensors))
        assert left == set()


def _tile(rank: int, swizzle: Layout = Layout.TMA_NONE) -> Tile:
    return Tile(*(64,) * rank, bf16, swizzle, tma_box=(*(1,) * (rank - 1), 64))


@pytest.mark.parametrize("rank", RANKS)
def test_the_map_gives_the_direction(rank: int, ptxas: Tool) -> None:
    def body(A: TileParam) -> None:
        s, x = reg.scalar(u32, init=0), reg.scalar(s32, init=0)
        copy = getattr(bulk, f"tensor_{rank}d")
        copy(dst=s, src=A.tma_desc(), coord=(x, *(0,) * (rank - 1)), mbar=s)
        copy(dst=A.tma_desc(), src=s, coord=(x, *(0,) * (rank - 1)))
        copy(dst=A.tma_desc(), src=s, coord=(x, *(0,) * (rank - 1)), op="add")
        bulk.prefetch_tensor(A.tma_desc(), (x, *(0,) * (rank - 1)))

    coordinates = ", ".join(["%x", *["0"] * (rank - 1)])
    assert body_of(body, _tile(rank))[4:] == [
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%s], [%A_map, {{{coordinates}}}], [%s];",
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%A_map, {{{coordinates}}}], [%s];",
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.bulk_group "
        f"[%A_map, {{{coordinates}}}], [%s];",
        f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global [%A_map, {{{coordinates}}}];",
    ]
    assert check_text(text_of(body, _tile(rank)), ptxas=ptxas).ok


def test_a_64_bit_address_is_a_map(ptxas: Tool) -> None:
    def body() -> None:
        here, there = reg.scalar(u32, init=0), reg.scalar(u64, init=0)
        bulk.tensor_2d(dst=here, src=there, coord=(0, 0), mbar=here)
        bulk.tensor_2d(dst=ptx.addr(there), src=here, coord=(0, 0))
        bulk.tensor_3d(dst=here, src=there, coord=(0, 1, 2), mbar=here, mode="im2col", offsets=(7,))
        bulk.tensor_2d(
            dst=here, src=there, coord=(0, 4, 3, 2, 1), mbar=here, mode="tile::gather4", space="cta"
        )
        bulk.tensor_2d(dst=there, src=here, coord=(0, 4, 3, 2, 1), mode="tile::scatter4")

    complete = "mbarrier::complete_tx::bytes"
    assert body_of(body)[2:] == [
        f"cp.async.bulk.tensor.2d.shared::cluster.global.{complete} [%here], [%there, {{0, 0}}], [%here];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%there, {0, 0}], [%here];",
        f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.{complete} "
        "[%here], [%there, {0, 1, 2}], [%here], {7};",
        f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{complete} "
        "[%here], [%there, {0, 4, 3, 2, 1}], [%here];",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%there, {0, 4, 3, 2, 1}], [%here];",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_options(ptxas: Tool) -> None:
    def body(A: TileParam) -> None:
        s, mask, l2 = reg.scalar(u32, init=0), reg.scalar(b16, init=3), reg.scalar(b64, init=0)
        p = reg.scalar(pred, init=True)
        load: Any = bulk.tensor_1d
        load(dst=s, src=A.tma_desc(), coord=0, mbar=s, multicast=3, cta_group=2, cache_hint=l2, pred=p)
        load(dst=s, src=A.tma_desc(), coord=[s], mbar=s, multicast=mask)
        load(dst=s, src=A.tma_desc(), coord=0, mbar=s, space="cta", cta_group=1)
        load(dst=A.tma_desc(), src=s, coord=0, cache_hint=l2)
        bulk.commit_group()
        bulk.wait_group(0)
        bulk.wait_group(1, read=True)

    complete = "mbarrier::complete_tx::bytes"
    assert body_of(body, _tile(1))[6:] == [
        f"@%p cp.async.bulk.tensor.1d.shared::cluster.global.{complete}.multicast::cluster.cta_group::2"
        ".L2::cache_hint [%s], [%A_map, {0}], [%s], 3, %l2;",
        f"cp.async.bulk.tensor.1d.shared::cluster.global.{complete}.multicast::cluster"
        " [%s], [%A_map, {%s}], [%s], %mask;",
        f"cp.async.bulk.tensor.1d.shared::cta.global.{complete}.cta_group::1 [%s], [%A_map, {{0}}], [%s];",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint [%A_map, {0}], [%s], %l2;",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group 0;",
        "cp.async.bulk.wait_group.read 1;",
    ]
    assert check_text(text_of(body, _tile(1)), ptxas=ptxas).ok


def test_refuses_directions() -> None:
    def body(A: TileParam) -> None:
        s, a, far = reg.scalar(u32), A.tma_desc(), reg.scalar(u64)
        with rejected(OperandError, "both dst and src"):
            bulk.tensor_2d(dst=a, src=a, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "both dst and src"):
            bulk.tensor_2d(dst=far, src=far, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "neither dst nor src", "tma_desc()"):
            bulk.tensor_2d(dst=s, src=s, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "needs mbar=", "arrive_expect_tx"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0))  # rejected
        with rejected(OperandError, "op is 'add'", "tensor map as dst"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, op="add")  # rejected
        with rejected(OperandError, "op of", "is 'mul'", "'add'"):
            bulk.tensor_2d(dst=a, src=s, coord=(0, 0), op="mul")  # rejected
        with rejected(OperandError, "takes no mbar", "commit_group"):
            bulk.tensor_2d(dst=a, src=s, coord=(0, 0), mbar=s)  # rejected
        for name, value in (("multicast", 1), ("cta_group", 1), ("space", "cta"), ("offsets", (1,))):
            with rejected(OperandError, f"takes no {name}"):
                bulk.tensor_2d(dst=a, src=s, coord=(0, 0), **{name: value})  # rejected
        with rejected(OperandError, "expected a tensor map"):
            bulk.prefetch_tensor(s, (0, 0))  # rejected

    recorded(body, _tile(2))


def test_refuses_coordinates_and_modes() -> None:
    def body(A: TileParam) -> None:
        s, f, a, far = reg.scalar(u32), reg.scalar(f32), A.tma_desc(), reg.scalar(u64)
        wide = (1 << 16,)
        with rejected(OperandError, "2 coordinates, got 3", "innermost"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0, 0), mbar=s)  # rejected
        with rejected(OperandError, "5 coordinates for a column and four rows, got 2"):
            bulk.tensor_2d(dst=s, src=far, coord=(0, 0), mbar=s, mode="tile::gather4")  # rejected
        with rejected(OperandError, "6 coordinates", "1 to 5"):
            bulk.prefetch_tensor(far, (0,) * 6)  # rejected
        with rejected(OperandError, "a coordinate is 2147483648", "-2147483648..2147483647"):
            bulk.tensor_2d(dst=s, src=a, coord=(1 << 31, 0), mbar=s)  # rejected
        with rejected(OperandError, "%f", "f32"):
            bulk.tensor_2d(dst=s, src=a, coord=(f, 0), mbar=s)  # rejected
        with rejected(OperandError, "'x'"):
            bulk.tensor_2d(dst=s, src=a, coord=("x", 0), mbar=s)  # rejected
        with rejected(OperandError, "tensor_3d", "A", "2 dimensions", "tensor_2d"):
            bulk.tensor_3d(dst=s, src=a, coord=(0, 0, 0), mbar=s)  # rejected
        with rejected(OperandError, "mode is 'gather'", "'tile::gather4'"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, mode="gather")  # rejected
        with rejected(OperandError, "mode is 'im2col'", "'im2col_no_offs'"):
            bulk.tensor_2d(dst=a, src=s, coord=(0, 0), mode="im2col")  # rejected
        with rejected(OperandError, "mode is 'im2col'", "2 dimensions", "3, 4 or 5"):
            bulk.tensor_2d(dst=s, src=far, coord=(0, 0), mbar=s, mode="im2col")  # rejected
        with rejected(OperandError, "mode is 'tile::gather4'", "3 dimensions", "tensor_2d"):
            bulk.tensor_3d(dst=s, src=far, coord=(0,) * 5, mbar=s, mode="tile::gather4")  # rejected
        with rejected(OperandError, "0 offsets", "expected 2", "4 dimensions"):
            bulk.tensor_4d(dst=s, src=far, coord=(0,) * 4, mbar=s, mode="im2col")  # rejected
        with rejected(OperandError, "1 offsets", "expected 0"):
            bulk.tensor_4d(dst=s, src=far, coord=(0,) * 4, mbar=s, offsets=(1,))  # rejected
        with rejected(OperandError, "an offset is 65536", "0..65535"):
            bulk.tensor_3d(dst=s, src=far, coord=(0, 0, 0), mbar=s, mode="im2col", offsets=wide)  # rejected

    recorded(body, _tile(2))

    def deep(A: TileParam) -> None:
        s, a = reg.scalar(u32), A.tma_desc()
        with rejected(OperandError, "mode is 'im2col'", "map of A is a map of tiles"):
            bulk.tensor_3d(dst=s, src=a, coord=(0,) * 3, mbar=s, mode="im2col", offsets=(1,))  # rejected

    recorded(deep, _tile(3))


def test_refuses_options() -> None:
    def body(A: TileParam) -> None:
        s, a, l2 = reg.scalar(u32), A.tma_desc(), reg.scalar(b64)
        with rejected(OperandError, "multicast is 65536", "1..0xffff"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, multicast=1 << 16)  # rejected
        with rejected(OperandError, "cta_group is 3", "1, 2"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, cta_group=3)  # rejected
        with rejected(OperandError, "'global'", "'cluster', 'cta'"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, space="global")  # rejected
        with rejected(InstructionError, "multicast", "shared::cluster"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, multicast=1, space="cta")  # rejected
        with rejected(OperandError, "report of", "is 'x'", "'disabled'"):
            bulk.tensor_2d(dst=s, src=a, coord=(0, 0), mbar=s, report="x")  # rejected
        with rejected(OperandError, "evict_last and cache_hint"):
            bulk.prefetch_tensor(a, (0, 0), evict_last=True, cache_hint=l2)  # rejected

    recorded(body, _tile(2))


def test_rows_shorter_than_the_swizzle_lie_apart() -> None:
    """32 of bf16 in a 128B pattern: eight rows take 8 * 128 bytes, not 512."""

    def body(A: TileParam) -> None:
        s, a = reg.scalar(u32), A.tma_desc()
        dense, apart = smem.alloc((8, 32), bf16, swizzle="128B"), smem.alloc((8, 64), bf16, swizzle="128B")
        with rejected(OperandError, "1024 bytes", "'dense'", "512", "rows of 64 bytes begin 128 bytes apart"):
            bulk.tensor_2d(dst=dense, src=a, coord=(0, 0), mbar=s)  # rejected
        bulk.tensor_2d(dst=apart, src=a, coord=(0, 0), mbar=s)

    recorded(body, Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(8, 32)))


def test_refuses_buffers() -> None:
    def body(A: TileParam) -> None:
        s, a = reg.scalar(u32), A.tma_desc()
        small, other = smem.alloc(64, align=128), smem.alloc((8, 64), bf16, swizzle="32B")
        tile = smem.alloc((2, 8, 64), bf16, swizzle="128B")
        with rejected(OperandError, "1024 bytes", "'small'", "64"):
            bulk.tensor_2d(dst=small, src=a, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "'128B'", "'32B'", "swizzle='128B'"):
            bulk.tensor_2d(dst=other, src=a, coord=(0, 0), mbar=s)  # rejected
        smem.alloc(16)
        loose = smem.alloc(1024)
        with rejected(OperandError, "'loose'", "multiple of 128", "align=128"):
            bulk.tensor_2d(dst=loose, src=a, coord=(0, 0), mbar=s)  # rejected
        with rejected(OperandError, "box of A is (8, 64)", "one row"):
            bulk.tensor_2d(dst=tile, src=a, coord=(0,) * 5, mbar=s, mode="tile::gather4")  # rejected

    recorded(body, Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(8, 64)))

    def rows(A: TileParam) -> None:
        s, a = reg.scalar(u32), A.tma_desc()
        three, four = smem.alloc((3, 64), bf16, swizzle="128B"), smem.alloc((4, 64), bf16, swizzle="128B")
        with rejected(OperandError, "4 boxes (1, 64) of A is 512 bytes", "'three'", "384"):
            bulk.tensor_2d(dst=three, src=a, coord=(0,) * 5, mbar=s, mode="tile::gather4")  # rejected
        bulk.tensor_2d(dst=four, src=a, coord=(0,) * 5, mbar=s, mode="tile::gather4")

    recorded(rows, Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(1, 64)))


def test_only_where_they_exist() -> None:
    def check() -> None:
        s, far = reg.scalar(u32), reg.scalar(u64)
        with rejected(TargetError, "tile::gather4", "sm_90a"):
            bulk.tensor_2d(dst=s, src=far, coord=(0,) * 5, mbar=s, mode=GATHER, space="cta")  # rejected

    in_kernel(check, arch="sm_90a")
