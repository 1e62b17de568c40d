"""Which schedules there are, and what each decides."""

from __future__ import annotations

import pytest

from pyptx import sim
from pyptx.core.errors import SpecError
from pyptx.sim.engine.events import Engine
from pyptx.sim.machine.schedule import make_policy


@pytest.mark.parametrize("engine", Engine)
def test_every_engine_can_be_starved_by_its_name(engine: Engine) -> None:
    assert make_policy(f"starve:{engine}", 0).name == f"starve:{engine.value}"
    assert f"``{engine}``" in (sim.LoadedModule.launch.__doc__ or "")


@pytest.mark.parametrize("name", ["starve:store", "starve:", "starve:tma:mma", "starve", "Eager", ""])
def test_an_unknown_schedule_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(SpecError, match=f"unknown schedule '{name}'") as error:
        make_policy(name, 0)
    for known in ("eager", "late", "random", *(f"starve:{engine}" for engine in Engine)):
        assert known in error.value.hint
