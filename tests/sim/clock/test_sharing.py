"""What CTAs share that begin at different places of the same rows."""

from __future__ import annotations

import pytest

from pyptx.sim.clock.placement import Placement
from pyptx.sim.clock.sharing import sweeps_of
from pyptx.sim.clock.traffic import traffic_of
from pyptx.sim.engine.work import Copy

MIB = 1 << 20
KEYS, BLOCK = 0, 64


def load(row: int, head: int) -> Copy:
    return Copy(MIB, BLOCK, (KEYS, ((64, BLOCK, 1), (0, row, head))), (0,), loads=True)


def places(copies: list[Copy]) -> list[tuple[int, int]]:
    return [copy.source[1][1][1:] for copy in copies if copy.source is not None]


#: CTAs of a causal mask: each begins at the last block that its rows see.
FIRST = [((0, cta), load(row * BLOCK, 5)) for cta, row in enumerate((3, 1, 2, 0))]
#: The loads of the first one: its tile, then a tile of another head.
OWN = [load(row * BLOCK, 5) for row in (3, 2, 1, 0)] + [load(row * BLOCK, 7) for row in (1, 0)]


def test_ctas_sweep_like_the_one_that_is_known_and_stop_at_the_beginning() -> None:
    found = list(sweeps_of(FIRST, OWN))
    assert places(found) == [(row * BLOCK, 5) for begin in (3, 1, 2, 0) for row in range(begin, -1, -1)]


def test_ctas_that_are_in_step_show_what_they_share_with_their_first_loads() -> None:
    first = [((0, cta), load(3 * BLOCK, cta)) for cta in range(4)]
    assert list(sweeps_of(first, OWN)) == []


def test_loads_without_a_tensor_map_do_not_sweep() -> None:
    threads = Copy(128, 1, (KEYS, (4096, 128)), (), loads=True)
    assert list(sweeps_of([((0, 0), threads)], [threads])) == []


@pytest.mark.parametrize(("capacity", "fetched"), [(16.0, 8.0), (1e-3, 20.0)])
def test_what_l2_holds_of_a_sweep_is_fetched_once(capacity: float, fetched: float) -> None:
    # Four CTAs load 20 blocks of two heads of four, none of them together.
    placement = Placement(clusters=4, positions=4, together=1, size=1)
    own, first = [(copy, 5 / 6) for copy in OWN], [copy for _, copy in FIRST]
    sizes = {KEYS: 8 * MIB}
    alone = traffic_of(first, own, placement, sizes, capacity * MIB)
    together = traffic_of(first, own, placement, sizes, capacity * MIB, sweeps=sweeps_of(FIRST, OWN))
    assert alone.loaded == together.loaded == 20 * MIB
    assert together.fetched / MIB == pytest.approx(fetched, abs=0.1)
    assert together.fetched <= alone.fetched
