"""``ptx.warp``: every variant of its instructions, spellings, what the helpers record, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyptx import Tile, kernel
from pyptx.core.errors import InstructionError, OperandError, TargetError, TraceError
from pyptx.core.types import b32, b64, f16, f16x2, f32, f64, pred, s32, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import warp
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached
from tests.dsl.units.spelled import making

MODES = ("idx", "bfly", "down", "up")


def _lane() -> Any:
    return ptx.special.laneid()


def _shuffles() -> Iterator[Call]:
    for mode in MODES:
        shuffle = getattr(warp, f"shfl_{mode}")
        name = f"warp.shfl_{mode}"
        for with_pred in (False, True):
            for width in (None, 1, 2, 4, 8, 16, 32):
                yield making(
                    name, lambda f=shuffle, w=width, p=with_pred: f(_lane(), 1, width=w, with_pred=p)
                )
            yield making(
                name, lambda f=shuffle, p=with_pred: f(_lane(), _lane(), clamp=31, mask=_lane(), with_pred=p)
            )
        yield making(name, lambda f=shuffle: f(_lane(), 0, out=reg.scalar(u32)))
        yield making("warp.shfl64", lambda m=mode: warp.shfl64(m, ptx.special.clock64(), 1, width=8))


def _votes() -> Iterator[Call]:
    for name in ("vote_all", "vote_any", "vote_uni", "ballot"):
        vote = getattr(warp, name)
        yield making(f"warp.{name}", lambda f=vote: f(_lane() < 3))
        yield making(f"warp.{name}", lambda f=vote: f(~(_lane() < 3), mask=0xFFFF))
    for source in (_lane, ptx.special.clock64):
        yield making("warp.match_any", lambda s=source: warp.match_any(s()))
        yield making("warp.match_all", lambda s=source: warp.match_all(s()))
        yield making("warp.match_all", lambda s=source: warp.match_all(s(), mask=3, with_pred=True))


def _reductions() -> Iterator[Call]:
    for kind, operations in ((u32, ("add", "min", "max")), (s32, ("add", "min", "max", "and", "or", "xor"))):
        for op in operations:
            yield making("warp.redux", lambda o=op, k=kind: warp.redux(o, _lane().view(k)))
    for op in ("min", "max"):
        for magnitude in (False, True):
            for nan in (False, True):
                yield making(
                    "warp.redux",
                    lambda o=op, m=magnitude, n=nan: warp.redux(o, _lane().view(f32), magnitude=m, nan=n),
                )
    for kind in (u32, s32, b32, f32, u64, f64, f16x2):
        for op in ("add", "min", "max"):
            if kind is not b32 or op == "add":
                yield making("warp.reduce", lambda o=op, k=kind: warp.reduce(reg.scalar(k), o))
                yield making("warp.scan", lambda o=op, k=kind: warp.scan(reg.scalar(k), o, width=4))
    for op in ("and", "or", "xor"):
        for kind in (b32, u32, b64):
            yield making("warp.reduce", lambda o=op, k=kind: warp.reduce(reg.scalar(k), o, width=2))
            yield making("warp.scan", lambda o=op, k=kind: warp.scan(reg.scalar(k), o))
    yield making("warp.reduce", lambda: warp.reduce(reg.scalar(f32), lambda a, b: a * b))


def _others() -> Iterator[Call]:
    for mask in (warp.FULL, 1):
        yield making("warp.elect", lambda m=mask: warp.elect(m))
        yield making("warp.elect", lambda m=mask: warp.elect(m, with_lane=True))
        yield making("warp.sync", lambda m=mask: warp.sync(m))
    yield making("warp.sync", lambda: warp.sync(_lane(), pred=_lane() < 3))
    yield making("warp.activemask", warp.activemask)


def test_every_variant_assembles(ptxas: Tool) -> None:
    reached = assemble_calls([*_shuffles(), *_votes(), *_reductions(), *_others()], ptxas)
    for opcode in ("shfl", "vote", "match", "activemask", "redux", "elect"):
        assert not unreached(reached, opcode)
    assert not unreached(reached, "bar", lambda words: words[0] == "warp")
    assert reached.wrappers == public_functions(warp, "warp")


def test_spellings_and_results(ptxas: Tool) -> None:
    def body() -> None:
        leader = ptx.warp.elect()
        x = reg.scalar(f32, init=1.0)
        lane = ptx.special.laneid()
        a = ptx.warp.shfl_idx(x, lane)
        ptx.warp.shfl_bfly(a, 16)
        ptx.warp.shfl_down(a, 1, mask=0xFFFF)
        ptx.warp.shfl_up(lane, 1)
        b = ptx.warp.shfl_down(x, 1, width=16)
        c = ptx.warp.shfl_up(x, 1, width=8)
        ptx.warp.shfl_idx(x, 0, clamp=0x1C1F, out=a)
        d, inside = ptx.warp.shfl_down(x, 1, with_pred=True)
        every = ptx.warp.vote_all(~inside)
        lanes = ptx.warp.ballot(inside, mask=0xFF)
        same = ptx.warp.match_any(x)
        total = ptx.warp.redux("add", lane)
        bits = ptx.warp.redux("or", lane)
        ptx.warp.sync(0xF)
        who, elected = ptx.warp.elect(with_lane=True)
        made = (leader, a, b, c, d, inside, every, lanes, same, total, bits, who, elected)
        assert [r.type for r in made] == [pred, f32, f32, f32, f32, pred, pred, b32, u32, u32, u32, u32, pred]

    assert body_of(body) == [
        "elect.sync _|%leader, 4294967295;",
        "mov.f32 %x, 0f3F800000;",
        "mov.u32 %lane, %laneid;",
        "shfl.sync.idx.b32 %a, %x, %lane, 31, 4294967295;",
        "shfl.sync.bfly.b32 %t, %a, 16, 31, 4294967295;",
        "shfl.sync.down.b32 %t_1, %a, 1, 31, 65535;",
        "shfl.sync.up.b32 %t_2, %lane, 1, 0, 4294967295;",
        "shfl.sync.down.b32 %b, %x, 1, 4127, 4294967295;",
        "shfl.sync.up.b32 %c, %x, 1, 6144, 4294967295;",
        "shfl.sync.idx.b32 %a, %x, 0, 7199, 4294967295;",
        "shfl.sync.down.b32 %d|%inside, %x, 1, 31, 4294967295;",
        "vote.sync.all.pred %every, !%inside, 4294967295;",
        "vote.sync.ballot.b32 %lanes, %inside, 255;",
        "match.any.sync.b32 %same, %x, 4294967295;",
        "redux.sync.add.u32 %total, %lane, 4294967295;",
        "redux.sync.or.b32 %bits, %lane, 4294967295;",
        "bar.warp.sync 15;",
        "elect.sync %who|%elected, 4294967295;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_helpers_record_what_they_say() -> None:
    def body() -> None:
        x, wide = reg.scalar(f32), reg.scalar(u64)
        total = ptx.warp.reduce(x, "max", width=4)  # noqa: F841
        other = ptx.warp.shfl64("down", wide, 2)  # noqa: F841
        product = ptx.warp.reduce(x, lambda a, b: a * b, width=2)  # noqa: F841
        sums = ptx.warp.scan(x, width=4)  # noqa: F841

    assert body_of(body) == [
        "shfl.sync.bfly.b32 %other, %x, 2, 7199, 4294967295;",
        "max.f32 %total, %x, %other;",
        "shfl.sync.bfly.b32 %other, %total, 1, 7199, 4294967295;",
        "max.f32 %total, %total, %other;",
        "mov.b64 {%low, %high}, %wide;",
        "shfl.sync.down.b32 %low, %low, 2, 31, 4294967295;",
        "shfl.sync.down.b32 %high, %high, 2, 31, 4294967295;",
        "mov.b64 %other_1, {%low, %high};",
        "shfl.sync.bfly.b32 %other_2, %x, 1, 7711, 4294967295;",
        "mul.rn.f32 %t, %x, %other_2;",
        "mov.f32 %sums, %x;",
        "shfl.sync.up.b32 %other_3|%inside, %sums, 1, 7168, 4294967295;",
        "@%inside add.rn.f32 %sums, %sums, %other_3;",
        "shfl.sync.up.b32 %other_3|%inside, %sums, 2, 7168, 4294967295;",
        "@%inside add.rn.f32 %sums, %sums, %other_3;",
    ]


@pytest.mark.parametrize(("kind", "steps"), [(u32, 2), (f64, 5), (f16x2, 2)], ids=str)
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_how_many_instructions(kind: Any, steps: int, width: int) -> None:
    def reduced() -> None:
        ptx.warp.reduce(reg.scalar(kind), width=width)

    def scanned() -> None:
        ptx.warp.scan(reg.scalar(kind), width=width)

    stages = width.bit_length() - 1
    assert len(body_of(reduced)) == steps * stages
    assert len(body_of(scanned)) == 1 + steps * stages


@pytest.mark.parametrize("width", [2, 8, 32])
def test_reductions_and_scans_in_the_simulator(width: int) -> None:
    @kernel(
        in_specs=(Tile(32, s32),),
        out_specs=(Tile(32, s32), Tile(32, s32)),
        grid=(1, 1, 1),
        block=(32, 1, 1),
        arch="sm_90a",
    )
    def warps(a: Any, most: Any, sums: Any) -> None:
        offset = ptx.cvt(ptx.special.laneid(), u64) * 4
        x = ptx.load(s32, a.ptr + offset, space="global")
        ptx.store(most.ptr + offset, ptx.warp.reduce(x, "max", width=width), space="global")
        ptx.store(sums.ptr + offset, ptx.warp.scan(x, width=width), space="global")

    a = np.random.default_rng(7).integers(-(1 << 20), 1 << 20, 32, dtype=np.int32)
    report = warps.simulate(a)
    assert report.verdict == "clean", str(report)
    most, sums = report.outputs
    segments = a.reshape(-1, width)
    np.testing.assert_array_equal(most, np.repeat(segments.max(axis=1), width))
    np.testing.assert_array_equal(sums, segments.cumsum(axis=1).ravel())


def test_warps_refuse() -> None:
    def check() -> None:
        wide, narrow, half, p = reg.scalar(u64), reg.scalar(u32), reg.scalar(f16), reg.scalar(pred)
        base = smem.base()
        with rejected(OperandError, "32-bit", "u64"):
            ptx.warp.shfl_idx(wide, 0)  # rejected
        with rejected(OperandError, "given of ptx.warp.shfl_idx is 5: expected a register"):
            ptx.warp.shfl_idx(5, 0)  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "mask is 0"):
            ptx.warp.elect(0)  # rejected
        with rejected(OperandError, "mask is 0"):
            ptx.warp.sync(0)  # rejected
        with rejected(OperandError, "lane is 32"):
            ptx.warp.shfl_bfly(narrow, 32)  # rejected
        with rejected(OperandError, "width is 3", "16 or 32"):
            ptx.warp.shfl_up(narrow, 1, width=3)  # rejected
        with rejected(OperandError, "width=8", "clamp=7"):
            ptx.warp.shfl_up(narrow, 1, width=8, clamp=7)  # rejected
        with rejected(OperandError, "clamp is 8192", "0..8191"):
            ptx.warp.shfl_up(narrow, 1, clamp=8192)  # rejected
        with rejected(OperandError, "out=", "with_pred"):
            ptx.warp.shfl_up(narrow, 1, with_pred=True, out=narrow)  # type: ignore[call-overload]  # rejected
        with rejected(TraceError, "%smem_base", "copy it"):
            ptx.warp.shfl_up(narrow, 1, out=base)  # rejected
        with rejected(OperandError, "64-bit", "%narrow"):
            ptx.warp.shfl64("up", narrow, 1)  # rejected
        with rejected(OperandError, "mode of", "is 'left'", "'down'"):
            ptx.warp.shfl64("left", wide, 1)  # rejected
        with rejected(OperandError, "predicate", "%narrow"):
            ptx.warp.vote_any(narrow)  # rejected
        with rejected(OperandError, "32-bit or 64-bit", "%half"):
            ptx.warp.match_any(half)  # rejected
        with rejected(OperandError, "32-bit", "%wide"):
            ptx.warp.redux("add", wide)  # rejected
        with rejected(OperandError, "op is 'mul'", "'xor'"):
            ptx.warp.redux("mul", narrow)  # rejected
        with rejected(InstructionError, ".b32", "redux"):
            ptx.warp.redux("min", narrow.view(b32))  # rejected
        with rejected(OperandError, "%half"):
            ptx.warp.reduce(half)  # rejected
        with rejected(OperandError, "op is 'mul'"):
            ptx.warp.reduce(narrow, "mul")  # rejected
        with rejected(OperandError, "width is 64", "32 lanes"):
            ptx.warp.reduce(narrow, width=64)  # rejected
        with rejected(OperandError, "%p", ".u32"):
            ptx.warp.reduce(narrow, lambda a, b: p)  # rejected
        with rejected(OperandError, "width is 1", "2, 4"):
            ptx.warp.scan(narrow, width=1)  # rejected
        with rejected(OperandError, "op is 'mul'"):
            ptx.warp.scan(narrow, "mul")  # rejected

    in_kernel(check, smem=16)


def test_only_where_it_exists() -> None:
    def check() -> None:
        x = reg.scalar(f32)
        with rejected(TargetError, "sm_90a"):
            ptx.warp.redux("min", x)  # rejected

    in_kernel(check, arch="sm_90a")
