"""State spaces: every name that the table has for one is known to the machine."""

from __future__ import annotations

import pytest

from pyptx.isa.table import all_forms
from pyptx.sim.code.spaces import named_space
from pyptx.sim.memory.access import StateSpace

#: What the simulator does not have, and names of the table that belong to no address.
ELSEWHERE = {"fabric", "sampler", "surface", "texture"}
LABELS = {"function", "procedure", "prototype", "targets", "void_prototype"}


def named_by_the_table() -> set[str]:
    found = set()
    for form in all_forms():
        choices = {slot.name: [a.text for a in slot.alternatives] for slot in form.slots()}
        for spec in form.specs():
            if spec.space.startswith("."):
                found.update(choices[spec.space[1:]])
            elif spec.space:
                found.add(spec.space)
    return found


@pytest.mark.parametrize("name", sorted(named_by_the_table() - ELSEWHERE - LABELS))
def test_every_space_of_the_table_is_known(name: str) -> None:
    spec = next(spec for form in all_forms() for spec in form.specs() if spec.space == ".space")
    found = named_space(spec, {"space": name})
    assert found is not StateSpace.GENERIC
    assert name.startswith(found.value)


def test_an_address_without_a_space_is_generic() -> None:
    spec = next(spec for form in all_forms() for spec in form.specs() if spec.space == ".space")
    assert named_space(spec, {}) is StateSpace.GENERIC
