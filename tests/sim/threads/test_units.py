"""Units of the hardware that attach to a CTA: made once, on first use, and called in one order at its end."""

from __future__ import annotations

import pytest

from pyptx.sim.copies.cp_async import ThreadCopies
from pyptx.sim.tcgen05.tensor_memory import TensorMemory
from pyptx.sim.threads.cta import CTA
from pyptx.sim.threads.register_budget import RegisterBudget
from pyptx.sim.threads.units import CtaUnit
from pyptx.sim.wgmma.warpgroup import Warpgroups
from tests.sim.build import Kernel

IN_ORDER = [TensorMemory, ThreadCopies, RegisterBudget, Warpgroups]


def test_units_end_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made in the opposite order, each is asked once for what it leaves and once for what is left over."""
    called: list[tuple[str, type[CtaUnit]]] = []
    first = CTA.__init__

    def with_units(self: CTA, *args: object) -> None:
        first(self, *args)  # type: ignore[arg-type]
        for kind in reversed(IN_ORDER):
            assert self.unit(kind) is self.unit(kind)

    monkeypatch.setattr(CTA, "__init__", with_units)
    for kind in IN_ORDER:
        monkeypatch.setattr(kind, "leave", lambda self: called.append(("leave", type(self))))
        monkeypatch.setattr(kind, "at_exit", lambda self: called.append(("at_exit", type(self))))
    assert Kernel("ret").run(block=32).verdict == "clean"
    assert called == [("leave", kind) for kind in IN_ORDER] + [("at_exit", kind) for kind in IN_ORDER]


def test_a_cta_has_the_units_that_its_threads_use(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[type[CtaUnit]]] = []
    units = CTA.units
    monkeypatch.setattr(
        CTA, "units", lambda self: found.append([type(unit) for unit in units(self)]) or units(self)
    )
    Kernel("ret").run(block=32)
    Kernel("cp.async.commit_group\nret").run(block=32)
    assert found == [[], [ThreadCopies]]
