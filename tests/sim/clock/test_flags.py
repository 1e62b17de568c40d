"""Waits for CTAs elsewhere: over when all have come as far, unless a flag is set by one that has waited."""

from __future__ import annotations

import pytest

from pyptx import Tile, Workspace, kernel, ptx, u32
from pyptx.entry import Kernel
from pyptx.timing.constants import gpu

CTAS = 132


def meeting(order: str, *, keeps: bool = False) -> Kernel:
    """Build a kernel whose CTAs set a flag each and wait for that of the next one, in an order of these.

    With ``keeps`` they store what they have read.
    """

    @kernel(
        out_specs=(Tile(CTAS, u32),),
        workspaces=(Workspace(4 * CTAS, u32, zeroed=True),),
        grid=CTAS,
        block=32,
        arch="sm_90a",
    )
    def meet(Out, Flags):
        cta = ptx.special.ctaid.x()
        following = ptx.selp(0, cta + 1, cta == CTAS - 1)
        with ptx.if_(ptx.special.tid.x() == 0):
            for step in order:
                if step == "s":
                    ptx.store(Flags.at(cta), 1, u32, space="global", sem="release", scope="gpu")
                elif step == "c":
                    ptx.store(Flags.at(following), 0, u32, space="global", sem="relaxed", scope="gpu")
                else:
                    with ptx.loop() as polling:
                        flag = ptx.load(u32, Flags.at(following), space="global", sem="acquire", scope="gpu")
                        polling.break_(flag != 0)
            ptx.store(Out.at(cta), flag if keeps else cta, u32, space="global")

    return meet


@pytest.mark.full
def test_a_wait_takes_a_look_at_the_flag() -> None:
    waits, sets = (meeting(order).predict(gpu="h200", clock=1900.0) for order in ("swc", "sww"))
    assert str(waits.verdict) == str(sets.verdict) == "clean"
    latency = gpu("h200").value("l2.latency_clk")
    assert latency / 2 < sets.cycles - waits.cycles < 4 * latency


@pytest.mark.full
@pytest.mark.parametrize(("order", "keeps"), [("ws", False), ("sw", True)])
def test_chains_and_values_that_are_kept_stay_unknown(order: str, keeps: bool) -> None:
    found = meeting(order, keeps=keeps).predict(gpu="h200", clock=1900.0)
    assert [each.rule.name for each in found.findings] == ["needs-data"]
