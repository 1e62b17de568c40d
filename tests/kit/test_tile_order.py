"""Tile orders: each visits every tile once, as written down here in plain Python, and records what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, kernel, kit, ptx, reg, u32, u64
from pyptx.dsl import Reg
from tests.dsl.helpers import in_kernel, recorded

order = kit.tile_order
Tiles = list[tuple[int, int]]


def tiles_of(choose: Callable[[Reg], tuple[Reg, Reg]], count: int) -> Kernel:
    """A kernel of ``count`` CTAs that writes what ``choose`` gives for each index."""

    @kernel(out_specs=(Tile(count, 2, u32),), grid=(count,), block=(1,), arch="sm_90a")
    def tiles(out):  # type: ignore[no-untyped-def]
        tile = ptx.special.ctaid.x()
        row, column = choose(tile)
        place = reg.scalar(u64)
        ptx.inst.mad.wide.u32(place, tile, 8, out.ptr)
        ptx.inst.st.global_.v2.b32(ptx.addr(place), [row, column])

    return tiles


def run(choose: Callable[[Reg], tuple[Reg, Reg]], count: int) -> Tiles:
    """What ``choose`` gives for each index, in the simulator."""
    return [(int(r), int(c)) for r, c in tiles_of(choose, count)()]


def snake(m: int, n: int) -> Iterator[tuple[int, int]]:
    for row in range(m):
        yield from ((row, c) for c in (range(n) if row % 2 == 0 else reversed(range(n))))


def bands(m: int, n: int, group: int, turn: bool) -> Iterator[tuple[int, int]]:
    for band, first in enumerate(range(0, m, group)):
        for column in reversed(range(n)) if turn and band % 2 else range(n):
            yield from ((row, column) for row in range(first, min(first + group, m)))


GRIDS = [(1, 1), (1, 7), (7, 1), (3, 5), (8, 8), (9, 4), (12, 20), (17, 3)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("m", "n"), GRIDS)
def test_orders_are_what_they_say(m: int, n: int) -> None:
    assert run(lambda t: order.row_major(t, m, n), m * n) == [(r, c) for r in range(m) for c in range(n)]
    assert run(lambda t: order.snake(t, m, n), m * n) == list(snake(m, n))
    for group in (1, 2, 8):
        assert run(lambda t, g=group: order.grouped(t, m, n, g), m * n) == list(bands(m, n, group, False))  # type: ignore[misc]
        assert run(lambda t, g=group: order.boustrophedon(t, m, n, g), m * n) == list(
            bands(m, n, group, True)
        )  # type: ignore[misc]


# --- cuTile's order ---------------------------------------------------------------------------------


def bid_order(M: int, N: int, tm: int, tn: int, group: int) -> Tiles:
    """cuTile's order by its definition, for all CTAs: the row within a band is the CTA's index modulo its height."""
    rows, columns = -(-M // tm), -(-N // tn)
    found = []
    for bid in range(rows * columns):
        band, within = divmod(bid, group * columns)
        height = min(rows - band * group, group)
        found.append((band * group + bid % height, within // height))
    return found


@pytest.mark.parametrize(
    ("M", "N", "group"), [(16384, 16384, 8), (1024, 1024, 8), (1000, 2000, 3), (1408, 700, 4), (128, 256, 8)]
)
def test_swizzle_2d(M: int, N: int, group: int) -> None:
    tm, tn = (128, 256) if M < 16384 else (1024, 2048)
    rows, columns = order.cdiv(M, tm), order.cdiv(N, tn)
    wanted = bid_order(M, N, tm, tn, group)
    assert sorted(wanted) == [(r, c) for r in range(rows) for c in range(columns)]
    count = rows * columns
    assert run(lambda t: order.swizzle_2d_from_bid(M, N, tm, tn, group, t), count) == wanted
    assert run(lambda _: order.swizzle_2d(M, N, tm, tn, group), count) == wanted
    registers = lambda t: order.swizzle_2d_from_bid(  # noqa: E731
        reg.scalar(u32, init=M), reg.scalar(u32, init=N), tm, tn, group, t
    )
    assert run(registers, count) == wanted


def test_swizzle_2d_is_grouped_but_for_a_low_last_band() -> None:
    grouped = run(lambda t: order.grouped(t, 12, 7, 4), 84)
    assert run(lambda t: order.swizzle_2d_from_bid(12, 7, 1, 1, 4, t), 84) == grouped
    # 11 rows in bands of 4: the last band has 3, and 56 % 3 = 2, so each of its columns begins with its third row.
    low = run(lambda t: order.swizzle_2d_from_bid(11, 7, 1, 1, 4, t), 77)
    other = run(lambda t: order.grouped(t, 11, 7, 4), 77)
    assert low[:56] == other[:56]
    assert low[56:59] == [(10, 0), (8, 0), (9, 0)] and other[56:59] == [(8, 0), (9, 0), (10, 0)]


def test_counts_of_tiles() -> None:
    assert [order.cdiv(n, 64) for n in (1, 64, 65, 8192)] == [1, 1, 2, 128]

    @kernel(in_specs=(Tile("M", 100, u32),), out_specs=(Tile(2, u32),), block=(1,), arch="sm_90a")
    def counts(A, out):  # type: ignore[no-untyped-def]
        rows = order.num_tiles(A, 0, (8, 32))
        assert order.num_tiles(A, 1, (8, 32)) == 4
        for shape in ((8,), (8, 32, 1)):
            with pytest.raises(SpecError, match="expected 2 extents"):
                order.num_tiles(A, 0, shape)
        ptx.inst.st.global_.u32(out.at(0), rows)
        ptx.inst.st.global_.u32(out.at(1), order.cdiv(rows, 2))

    for M in (1, 8, 9, 17):
        found = counts(np.zeros((M, 100), np.uint32))
        rows = -(-M // 8)
        assert list(found) == [rows, (rows + 1) // 2]


@pytest.mark.parametrize("name", ["row_major", "snake", "grouped", "boustrophedon"])
def test_extents_in_registers(name: str) -> None:
    choose = getattr(order, name)
    numbers = run(lambda t: choose(t, 9, 4), 36)
    assert run(lambda t: choose(t, reg.scalar(u32, init=9), reg.scalar(u32, init=4)), 36) == numbers


@pytest.mark.parametrize(("m", "n"), [*GRIDS, (2, 2), (16, 16), (4, 32), (6, 2)])
def test_hilbert(m: int, n: int) -> None:
    found = run(lambda t: order.hilbert(t, m, n), m * n)
    assert sorted(found) == [(r, c) for r in range(m) for c in range(n)]
    side = int(np.gcd.reduce([m, n, 1 << 20]))
    if side == 1:
        assert found == list(snake(m, n))
    steps = [abs(a - c) + abs(b - d) for (a, b), (c, d) in pairwise(found)]
    # Neighbors, but for the steps from one row of squares to the next.
    assert all(step == 1 for i, step in enumerate(steps, 1) if i % (side * n))
    # Every square is finished before the next begins.
    for first in range(0, m * n, side * side):
        square = found[first : first + side * side]
        assert len({(r // side, c // side) for r, c in square}) == 1


def count(choose: Callable[[Reg], object]) -> int:
    def body() -> None:
        choose(reg.scalar(u32))

    return len(list(recorded(body).module.functions[0].instructions())) - 1  # without ret


def test_how_many_instructions() -> None:
    assert count(lambda t: order.row_major(t, 4, 8)) == 2
    assert count(lambda t: order.row_major(t, t, t)) == 2
    assert count(lambda t: order.snake(t, 4, 8)) == 6
    assert count(lambda t: order.snake(t, t, t)) == 7
    assert count(lambda t: order.grouped(t, 4, 8)) == 6
    assert count(lambda t: order.grouped(t, 12, 8)) == 11
    assert count(lambda t: order.grouped(t, t, 8)) == 8
    assert count(lambda t: order.grouped(t, t, t)) == 9
    assert count(lambda t: order.boustrophedon(t, 16, 8)) == 6 + 4
    assert count(lambda t: order.boustrophedon(t, 12, 8)) == 11 + 4
    assert count(lambda t: order.boustrophedon(t, t, t)) == 9 + 5
    assert count(lambda t: order.swizzle_2d_from_bid(512, 2048, 128, 256, 8, t)) == 6
    assert count(lambda t: order.swizzle_2d_from_bid(1280, 2048, 128, 256, 8, t)) == 11
    assert count(lambda t: order.swizzle_2d(512, 2048, 128, 256, 8)) == 7
    assert count(lambda t: order.cdiv(t, 8)) == 2
    assert count(lambda t: order.swizzle_2d_from_bid(t, t, 128, 256, 8, t)) == 9 + 4
    assert count(lambda t: order.hilbert(t, 4, 8)) == 13 * 2 + 13
    assert count(lambda t: order.hilbert(t, 32, 64)) == 13 * 5 + 13
    assert count(lambda t: order.hilbert(t, 3, 8)) == 6


def test_no_division_by_a_number() -> None:
    """Only a register is divided by, for which there is no cheaper way."""

    def opcodes(choose: Callable[[Reg], object]) -> set[str]:
        def body() -> None:
            choose(reg.scalar(u32))

        return {s.opcode for s in recorded(body).module.functions[0].instructions()}

    for m, n in GRIDS:
        for choose in (order.row_major, order.snake, order.grouped, order.boustrophedon, order.hilbert):
            assert not opcodes(lambda t, f=choose, m=m, n=n: f(t, m, n)) & {"div", "rem"}  # type: ignore[misc]
    assert {"div", "rem"} < opcodes(lambda t: order.grouped(t, t, 8))


def test_refusals() -> None:
    def check() -> None:
        t = reg.scalar(u32)
        for call in (
            lambda: order.row_major(t, 0, 4),
            lambda: order.snake(t, 4, -1),
            lambda: order.grouped(t, 4, 4, 0),
            lambda: order.boustrophedon(t, 4, 4, True),
            lambda: order.hilbert(t, 4, 0),
            lambda: order.cdiv(t, 0),
            lambda: order.cdiv(0, 8),
            lambda: order.swizzle_2d(0, 4, 1, 1, 8),
            lambda: order.swizzle_2d(4, 4, 1, 1, 0),
        ):
            with pytest.raises(SpecError, match="expected a positive number"):
                call()
        with pytest.raises(SpecError, match="use boustrophedon, which takes registers"):
            order.hilbert(t, t, 4)  # type: ignore[arg-type]

    in_kernel(check)
