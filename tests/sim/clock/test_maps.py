"""First uses of tensor maps: by arithmetic, and in a kernel that prefetches its map or does not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import Layout, Tile, b64, bf16, kernel, ptx, reg, smem, u32, u64
from pyptx.sim.clock.figures import Figures
from pyptx.sim.clock.units import Contention, Units
from pyptx.sim.engine.work import Copy
from pyptx.timing.constants import gpu

#: A map takes so long that nothing else hides it by chance.
FETCH_NS = 500.0
SLOW = gpu("h200").with_values({"tma.prefetch_map_ns": FETCH_NS})
MHZ = 1980.0
FIGURES = Figures(SLOW, MHZ)
FETCH = FETCH_NS * MHZ / 1000
START = FIGURES.start


def units() -> Units:
    return Units(FIGURES, Contention(sharers=1))


def box(tensor_map: int | None, nbytes: int = 128) -> Copy:
    return Copy(nbytes, 1, (0, 0), (0,), loads=True, tensor_map=tensor_map)


def test_a_map_comes_once_to_a_multiprocessor() -> None:
    here, there = units(), units()
    plain = units().load(START, box(None)) - START
    assert here.load(START, box(1)) - START == pytest.approx(plain + FETCH)
    assert here.load(START + 2000, box(1)) - START - 2000 == pytest.approx(plain)
    assert here.load(START + 4000, box(2)) - START - 4000 == pytest.approx(plain + FETCH)
    assert there.load(START + 4000, box(1)) - START - 4000 == pytest.approx(plain + FETCH)


def test_a_copy_that_comes_while_its_map_is_on_its_way_waits_for_the_rest() -> None:
    one = units()
    one.load(START, box(1))
    plain = units().load(START, box(None)) - START
    time = START + FETCH / 4
    assert one.load(time, box(1)) - time == pytest.approx(plain + FETCH * 3 / 4)


def test_the_copy_engine_serves_others_meanwhile() -> None:
    one = units()
    one.load(START, box(1))
    plain = units().load(START, box(None)) - START
    assert one.load(START + 100, box(None)) - START - 100 == pytest.approx(plain)
    # What waits for the engine for as long does not wait for its map.
    one.load(START + 200, box(None, 1 << 18))
    assert one.copies.free > START + 200 + FETCH
    behind, busy = one.load(START + 200, box(3)), units()
    busy.load(START + 200, box(None, 1 << 18))
    assert behind == pytest.approx(busy.load(START + 200, box(None)))


@pytest.mark.parametrize(("before", "left"), [(2 * FETCH, 0.0), (FETCH / 2, FETCH / 2)])
def test_a_prefetch_brings_the_map(before: float, left: float) -> None:
    one = units()
    one.fetch_map(START, 1)
    plain = units().load(START, box(None)) - START
    assert one.load(START + before, box(1)) - START - before == pytest.approx(plain + left)


def test_a_store_needs_its_map() -> None:
    first, plain = (
        units().read_source(START, Copy(128, 1, (0, 0), (), loads=False, tensor_map=each))
        for each in (1, None)
    )
    assert first - plain == pytest.approx(FETCH)


ROWS, COLUMNS, ROUNDS = 8, 64, 3


def cycles(how: str) -> np.ndarray:
    """Return the cycles of each of three loads of a kernel, which come 2 us after the start.

    The kernel prefetches its map, by its generic address or in the space ``param``, a box, or nothing.
    """

    @kernel(
        in_specs=(Tile(ROWS, COLUMNS, bf16, Layout.TMA_NONE, tma_box=(ROWS, COLUMNS)),),
        out_specs=(Tile(ROUNDS, 1, u32),),
        block=32,
        arch="sm_90a",
    )
    def loads(A, Out):
        tile = smem.alloc((ROWS, COLUMNS), bf16, align=128)
        mbar = smem.alloc(1, b64)
        first = ptx.special.tid.x() == 0
        with ptx.if_(first):
            if how == "map":
                ptx.tensormap.prefetch(A.tma_desc())
            elif how == "param":
                place = reg.scalar(u64)
                ptx.inst.cvta.to.param.u64(place, A.tma_desc())
                ptx.tensormap.prefetch(place, space="param")
            elif how == "box":
                ptx.cp.async_.bulk.prefetch_tensor(A.tma_desc(), (0, 0))
            ptx.mbarrier.init(mbar, 1)
            ptx.fence.mbarrier_init()
            ptx.nanosleep(2000)
            for turn in range(ROUNDS):
                begin = ptx.special.clock()
                ptx.mbarrier.arrive_expect_tx(mbar, tile.nbytes)
                ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A.tma_desc(), coord=(0, 0), mbar=mbar)
                ptx.mbarrier.wait(mbar, turn & 1)
                ptx.store(Out.at(turn, 0), ptx.special.clock() - begin, u32)

    out = np.zeros((ROUNDS, 1), np.uint32)
    found = loads.predict(
        np.zeros((ROWS, COLUMNS), ml_dtypes.bfloat16), gpu=SLOW, clock=MHZ, l2="warm", out=out
    )
    assert str(found.verdict) == "clean"
    return out[:, 0].astype(float)


@pytest.mark.full
def test_the_first_load_of_a_kernel_fetches_its_map_unless_it_was_prefetched() -> None:
    none = cycles("nothing")
    assert none[0] - none[1] == pytest.approx(FETCH, abs=10) and none[1] == pytest.approx(none[2], abs=10)
    for how in ("map", "param", "box"):
        found = cycles(how)
        assert found[0] == pytest.approx(found[1], abs=10), how
