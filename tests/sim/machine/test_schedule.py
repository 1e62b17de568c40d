"""Which schedules there are, and what each decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.core.errors import SpecError
from pyptx.sim import LoadedModule
from pyptx.sim.engine.events import Engine
from pyptx.sim.machine.schedule import Random, make_policy


@pytest.mark.parametrize("engine", Engine)
def test_every_engine_can_be_starved_by_its_name(engine: Engine) -> None:
    assert make_policy(f"starve:{engine}", 0).name == f"starve:{engine.value}"
    assert f"``{engine}``" in (LoadedModule.launch.__doc__ or "")


@pytest.mark.parametrize("name", ["starve:store", "starve:", "starve:tma:mma", "starve", "Eager", ""])
def test_an_unknown_schedule_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(SpecError, match=f"unknown schedule '{name}'") as error:
        make_policy(name, 0)
    for known in ("eager", "late", "random", "weak", *(f"starve:{engine}" for engine in Engine)):
        assert known in error.value.hint


@pytest.mark.parametrize("seed", range(12))
def test_launches_start_with_the_chance_that_the_seed_drew(seed: int) -> None:
    policy = Random(seed)
    share = sum(policy.starts() for _ in range(4000)) / 4000
    assert abs(share - policy._start_chance) < 0.05


@pytest.mark.parametrize(("warp", "rank", "held"), [
    (None, 1, [False, True, False, True]), (1, None, [False, False, True, True]),
    (3, None, [False, False, True, True]), (1, 0, [False, False, True, False]),
])  # fmt: skip
def test_a_seed_holds_back_one_warp_or_one_rank(warp: Any, rank: Any, held: list[bool]) -> None:
    policy = Random(0)
    policy._held_warp, policy._held_rank = warp, rank
    splits: list[Any] = [
        SimpleNamespace(warp=SimpleNamespace(index=index, cta=SimpleNamespace(rank=number, warps=[0, 1])))
        for index in (0, 1)
        for number in (0, 1)
    ]
    assert [policy._is_held(s) for s in splits] == held


@pytest.mark.parametrize("seed", range(8))
def test_the_seed_draws_how_often_an_access_does_not_choose_the_last_position(seed: int) -> None:
    policy = make_policy("weak", seed)
    share = sum(policy.position((5, 4, 3)) != 5 for _ in range(4000)) / 4000
    assert min(abs(share - chance) for chance in (0.1, 0.5, 0.8)) < 0.05
    assert {policy.position((2,)) for _ in range(10)} == {2}
