"""What threads and warps do, on a GPU: the wrappers' operands are in the order that their docstrings say.

One kernel of one warp computes every case from three registers of random bits and two small floats; numpy
computes it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from pyptx import Kernel, Tile, kernel, ptx, reg
from pyptx.core.types import TYPES, b32, bf16, f16, f32, pred, s32, u8, u16, u32, u64
from pyptx.toolchain import Tool, check_text
from tests.gpu.machines import on_gpu

LANES = 32
WORD = 0xFFFFFFFF


class Given(NamedTuple):
    """What a case computes from: registers in the kernel, arrays in numpy."""

    lane: Any
    x: Any
    y: Any
    z: Any
    f: Any
    g: Any

    @property
    def halves(self) -> tuple[Any, Any]:
        """f and g as f16."""
        if isinstance(self.f, np.ndarray):
            return self.f.astype(np.float16), self.g.astype(np.float16)
        return ptx.cvt(self.f, f16, rounding="rn"), ptx.cvt(self.g, f16, rounding="rn")

    @property
    def wide(self) -> Any:
        """x below y: 64 bits."""
        if isinstance(self.x, np.ndarray):
            return self.x.astype(np.uint64) | self.y.astype(np.uint64) << np.uint64(32)
        return ptx.pack(self.x, self.y, to=u64)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _each(function: Callable[..., int], *arrays: np.ndarray) -> np.ndarray:
    """``function`` of Python integers, lane by lane; 32 bits of it."""
    return np.array([function(*map(int, lane)) & WORD for lane in zip(*arrays, strict=True)], np.uint32)


def _pair(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two 16-bit values in a word."""
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16)


def _permuted(a: int, b: int, selector: int) -> int:
    both = a | b << 32
    return sum((both >> 8 * (selector >> 4 * n & 7) & 255) << 8 * n for n in range(4))


def _dot(a: int, b: int) -> int:
    return 5 + sum(_signed(a >> 8 * n, 8) * (b >> 8 * n & 255) for n in range(4))


def _dot_high(a: int, b: int) -> int:
    return 5 + sum(_signed(a >> 16 * n, 16) * (b >> 8 * (2 + n) & 255) for n in range(2))


def _clamped_bytes(a: int, b: int, below: int) -> int:
    def clamp(n: int) -> int:
        return min(max(_signed(n, 32), 0), 255)

    return below << 16 | clamp(b) << 8 | clamp(a)


def _nth_bit(a: int, n: int) -> int:
    found = [bit for bit in range(32) if a >> bit & 1]
    return found[n - 1 if n > 0 else n]


def _butterfly(values: np.ndarray) -> np.ndarray:
    for distance in (2, 1):
        values = values + values[np.arange(LANES) ^ distance]
    return values


def _words(values: np.ndarray) -> np.ndarray:
    """64-bit values, mixed into 32 bits so that both halves count."""
    return (values ^ values >> np.uint64(27)).astype(np.uint32)


def _upper(values: Any, distance: int, width: int) -> np.ndarray:
    """What ``shfl_down`` gives: the value ``distance`` lanes up, one's own at the segment's end."""
    lanes = np.arange(LANES)
    return values[np.where(lanes % width + distance < width, lanes + distance, lanes)]


#: Each case as wrappers record it, and as numpy computes it.
CASES: dict[str, tuple[Callable[[Given], Any], Callable[[Given], np.ndarray]]] = {
    "lop3": (
        lambda v: ptx.lop3(v.x, v.y, v.z, lambda a, b, c: (a & b) ^ (~c | a)),
        lambda v: (v.x & v.y) ^ (~v.z | v.x),
    ),
    "lop3_test": (
        lambda v: ptx.lop3_test(v.x, v.y, v.z, lambda a, b, c: a & b & c, "and", v.lane < 16)[1],
        lambda v: ((v.x & v.y & v.z) != 0) & (v.lane < 16),
    ),
    "prmt": (
        lambda v: ptx.prmt(v.x, v.y, 0x7043),
        lambda v: _each(lambda a, b: _permuted(a, b, 0x7043), v.x, v.y),
    ),
    "shf left": (
        lambda v: ptx.shf(v.x, v.y, v.lane, direction="l"),
        lambda v: _each(lambda a, b, n: (a | b << 32) << n >> 32, v.x, v.y, v.lane),
    ),
    "shf right": (
        lambda v: ptx.shf(v.x, v.y, v.lane, direction="r"),
        lambda v: _each(lambda a, b, n: (a | b << 32) >> n, v.x, v.y, v.lane),
    ),
    "bfe": (lambda v: ptx.bfe(v.x.view(s32), 4, 9), lambda v: _each(lambda a: _signed(a >> 4, 9), v.x)),
    "bfi": (
        lambda v: ptx.bfi(v.x, v.y, 5, 7),
        lambda v: _each(lambda a, b: b & ~(127 << 5) | (a & 127) << 5, v.x, v.y),
    ),
    "bmsk": (lambda v: ptx.bmsk(v.lane, 3), lambda v: _each(lambda n: 7 << n, v.lane)),
    "szext": (lambda v: ptx.szext(v.x.view(s32), 5), lambda v: _each(lambda a: _signed(a, 5), v.x)),
    "popc": (lambda v: ptx.popc(v.x), lambda v: _each(lambda a: bin(a).count("1"), v.x)),
    "clz": (lambda v: ptx.clz(v.x), lambda v: _each(lambda a: 32 - a.bit_length(), v.x)),
    "brev": (lambda v: ptx.brev(v.x), lambda v: _each(lambda a: int(f"{a:032b}"[::-1], 2), v.x)),
    "bfind": (
        lambda v: ptx.bfind(v.x.view(s32), shiftamt=True),
        lambda v: _each(lambda a: 32 - (a ^ WORD if a >> 31 else a).bit_length(), v.x),
    ),
    "fns up": (lambda v: ptx.fns(v.x, 0, 2), lambda v: _each(lambda a: _nth_bit(a, 2), v.x)),
    "fns down": (lambda v: ptx.fns(v.x, 31, -2), lambda v: _each(lambda a: _nth_bit(a, -2), v.x)),
    "cvt_x2 f16x2": (lambda v: ptx.cvt_x2(v.f, v.g, TYPES["f16x2"]), lambda v: _pair(*v.halves)),
    "cvt_x2 bf16x2": (
        lambda v: ptx.cvt_x2(v.f, v.g, TYPES["bf16x2"]),
        lambda v: _pair(v.f.astype(ml_dtypes.bfloat16), v.g.astype(ml_dtypes.bfloat16)),
    ),
    "cvt_x2 e4m3x2": (
        lambda v: ptx.cvt_x2(v.f, v.g, TYPES["e4m3x2"], satfinite=True),
        lambda v: _each(
            lambda a, b: a | b << 8,
            *(part.astype(ml_dtypes.float8_e4m3fn).view(np.uint8) for part in (v.f, v.g)),
        ),
    ),
    "cvt_pack": (
        lambda v: ptx.cvt_pack(v.x.view(s32), ptx.sub(v.lane, 7).view(s32), "u8", below=v.y),
        lambda v: _each(lambda a, n, below: _clamped_bytes(a, n - 7, below), v.x, v.lane, v.y),
    ),
    "pack": (lambda v: ptx.pack(*v.halves), lambda v: _pair(*v.halves)),
    "unpack": (
        lambda v: ptx.pack(*reversed(list(ptx.unpack(v.x, u8)))),
        lambda v: v.x.byteswap(),
    ),
    "f16 +": (lambda v: v.halves[0] + v.halves[1], lambda v: (v.halves[0] + v.halves[1]).view(np.uint16)),
    "f16 -x": (lambda v: -v.halves[0], lambda v: (-v.halves[0]).view(np.uint16)),
    "f16 <": (lambda v: v.halves[0] < v.halves[1], lambda v: v.halves[0] < v.halves[1]),
    "bf16 +": (
        lambda v: ptx.cvt(v.f, bf16, rounding="rn") + ptx.cvt(v.g, bf16, rounding="rn"),
        lambda v: (v.f.astype(ml_dtypes.bfloat16) + v.g.astype(ml_dtypes.bfloat16)).view(np.uint16),
    ),
    "f16x2 *": (
        lambda v: ptx.pack(*v.halves) * ptx.pack(v.halves[1], v.halves[1]),
        lambda v: _pair(v.halves[0] * v.halves[1], v.halves[1] * v.halves[1]),
    ),
    "setp_pair low": (
        lambda v: ptx.setp_pair("lt", ptx.pack(*v.halves), ptx.pack(*reversed(v.halves)))[0],
        lambda v: v.halves[0] < v.halves[1],
    ),
    "setp_pair high": (
        lambda v: ptx.setp_pair("lt", ptx.pack(*v.halves), ptx.pack(*reversed(v.halves)))[1],
        lambda v: v.halves[1] < v.halves[0],
    ),
    "selp": (lambda v: ptx.selp(v.x, v.y, ~(v.lane < 5)), lambda v: np.where(v.lane < 5, v.y, v.x)),
    "slct": (lambda v: ptx.slct(v.x, v.y, v.g), lambda v: np.where(v.g >= 0, v.x, v.y)),
    "set_": (lambda v: ptx.set_("lt", v.f, v.g, u32), lambda v: np.where(v.f < v.g, WORD, 0)),
    "copysign": (lambda v: ptx.copysign(v.f, v.g), lambda v: np.copysign(v.f, v.g).view(np.uint32)),
    "fma": (
        lambda v: ptx.fma(v.f, v.g, -1.5),
        lambda v: (v.f * v.g - np.float32(1.5)).view(np.uint32),
    ),
    "mul wide": (
        lambda v: ptx.unpack(ptx.mul(v.x, v.y, half="wide"), u32)[1],
        lambda v: _each(lambda a, b: a * b >> 32, v.x, v.y),
    ),
    "dp4a": (lambda v: ptx.dp4a(v.x.view(s32), v.y, 5), lambda v: _each(_dot, v.x, v.y)),
    "dp2a": (lambda v: ptx.dp2a(v.x.view(s32), v.y, 5, half="hi"), lambda v: _each(_dot_high, v.x, v.y)),
    "add_wide": (
        lambda v: ptx.add_wide([v.x, v.y], [v.y, v.x])[1],
        lambda v: _each(lambda a, b: (a + (b << 32) + b + (a << 32)) >> 32, v.x, v.y),
    ),
    "sub_wide": (
        lambda v: ptx.sub_wide([v.x, v.y], [v.y, v.x])[1],
        lambda v: _each(lambda a, b: (a + (b << 32) - b - (a << 32)) >> 32, v.x, v.y),
    ),
    "reduce 64": (
        lambda v: ptx.warp.reduce(v.wide, "max", width=8),
        lambda v: _words(np.repeat(v.wide.reshape(-1, 8).max(axis=1), 8)),
    ),
    "reduce f16x2": (
        lambda v: ptx.warp.reduce(ptx.pack(*v.halves), width=4),
        lambda v: _pair(*map(_butterfly, v.halves)),
    ),
    "reduce function": (
        lambda v: ptx.warp.reduce(v.x, lambda a, b: a * b, width=4),
        lambda v: np.repeat(np.multiply.reduce(v.x.reshape(-1, 4), axis=1, dtype=np.uint32), 4),
    ),
    "scan 64": (
        lambda v: ptx.warp.scan(v.wide, width=16),
        lambda v: _words(v.wide.reshape(-1, 16).cumsum(axis=1, dtype=np.uint64).ravel()),
    ),
    "scan xor": (lambda v: ptx.warp.scan(v.x, "xor"), lambda v: np.bitwise_xor.accumulate(v.x)),
    "shfl64": (
        lambda v: ptx.warp.shfl64("down", v.wide, 3, width=16),
        lambda v: _words(_upper(v.wide, 3, 16)),
    ),
    "shfl_up": (
        lambda v: ptx.warp.shfl_up(v.x, 3, width=8),
        lambda v: v.x[np.where(v.lane % 8 >= 3, v.lane.astype(int) - 3, v.lane)],
    ),
    "shfl_up inside": (
        lambda v: ptx.warp.shfl_up(v.x, 3, width=8, with_pred=True)[1],
        lambda v: v.lane % 8 >= 3,
    ),
    "redux": (lambda v: ptx.warp.redux("xor", v.x), lambda v: np.full(LANES, np.bitwise_xor.reduce(v.x))),
    "ballot": (
        lambda v: ptx.warp.ballot(v.x < v.y),
        lambda v: np.full(LANES, sum(1 << n for n in range(LANES) if v.x[n] < v.y[n])),
    ),
    "match_any": (
        lambda v: ptx.warp.match_any(v.lane % 3),
        lambda v: _each(lambda n: sum(1 << other for other in range(n % 3, LANES, 3)), v.lane),
    ),
}


def _word_of(value: Any) -> Any:
    """A result as 32 bits."""
    if value.type is pred:
        return ptx.selp(reg.scalar(u32, init=1), 0, value)
    if value.type.bits == 64:
        wide = value.view(u64)
        return ptx.cvt(wide ^ (wide >> 27), u32)
    return ptx.cvt(value.view(u16), u32) if value.type.bits == 16 else value


def _cases() -> Kernel:
    @kernel(
        in_specs=(Tile(3, LANES, u32),),
        out_specs=(Tile(len(CASES), LANES, u32),),
        block=(LANES,),
        arch="sm_90a",
    )
    def cases(words, out):  # type: ignore[no-untyped-def]
        lane = ptx.special.laneid()
        offset = ptx.cvt(lane, u64) * 4
        source, target = words.ptr + offset, out.ptr + offset
        x, y, z = (ptx.load(u32, ptx.addr(source, 4 * LANES * n), space="global") for n in range(3))
        f = ptx.cvt(lane, f32, rounding="rn")
        given = Given(lane, x, y, z, f, ptx.fma(f, -0.5, 3.25))
        for n, (recorded, _) in enumerate(CASES.values()):
            ptx.store(ptx.addr(target, 4 * LANES * n), _word_of(recorded(given)).view(b32), space="global")

    return cases


@pytest.fixture(scope="module")
def given() -> Given:
    words = np.random.default_rng(11).integers(0, 1 << 32, (3, LANES), dtype=np.uint32)
    lane = np.arange(LANES, dtype=np.uint32)
    f = lane.astype(np.float32)
    return Given(lane, *words, f, (f * np.float32(-0.5) + np.float32(3.25)))


@pytest.fixture(scope="module")
def computed(given: Given) -> np.ndarray:
    words = np.stack([given.x, given.y, given.z])
    (found,) = on_gpu(_cases(), [words], [np.zeros((len(CASES), LANES), np.uint32)])
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, given: Given, computed: np.ndarray) -> None:
    expected = np.asarray(CASES[name][1](given)).astype(np.uint32)
    np.testing.assert_array_equal(computed[list(CASES).index(name)], expected)


def atomics() -> Kernel:
    @kernel(out_specs=(Tile(4, LANES, u32),), block=(LANES,), arch="sm_90a")
    def operations(out):  # type: ignore[no-untyped-def]
        lane = ptx.special.laneid()
        cell = out.ptr + ptx.cvt(lane, u64) * 4
        old = ptx.atom("add", cell, lane + 5, space="global")
        seen = ptx.atom_cas(cell, lane + 105, 7, space="global")
        missed = ptx.atom_cas(cell, 8, 9, u32, space="global")
        ptx.red("max", cell, lane, space="global")
        for row, value in enumerate((old, seen, missed), 1):
            ptx.store(ptx.addr(cell, 4 * LANES * row), value, space="global")

    return operations


@pytest.mark.gpu
def test_atomics() -> None:
    lane = np.arange(LANES, dtype=np.uint32)
    (found,) = on_gpu(atomics(), [], [np.full((4, LANES), 100, np.uint32)])
    np.testing.assert_array_equal(
        found, [np.maximum(7, lane), np.full(LANES, 100), lane + 105, np.full(LANES, 7)]
    )


def test_the_kernels_assemble(ptxas: Tool) -> None:
    for made in (_cases(), atomics()):
        assert check_text(made.ptx(), ptxas=ptxas).ok
