"""setmaxnreg: what is wrong with one instruction alone, by direction, directives and warpgroups."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx import ir
from pyptx.sim import Report
from pyptx.sim.threads.register_budget import registers_at_entry
from tests.sim.build import Kernel
from tests.sim.memory.test_memory import finding

LARGE = {"maxnreg": (168,)}


def directives(values: dict[str, tuple[int, ...]]) -> tuple[ir.Directive, ...]:
    return tuple(ir.Directive(name, numbers) for name, numbers in values.items())


def run(body: str, values: dict[str, tuple[int, ...]], block: int = 128) -> tuple[Kernel, Report]:
    text = f".reg u32 w\n.reg pred first\nmov.u32 w, %warpid\nsetp.eq.u32 first, w, 0\n{body}\nret"
    kernel = Kernel(text, directives=directives(values))
    return kernel, kernel.run(block=block)


DEC, INC = "setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.inc.sync.aligned.u32 232"


@pytest.mark.parametrize(("values", "known"), [
    ({}, (False, None)),
    ({"maxntid": (128,)}, (False, None)),
    ({"reqntid": (128,)}, (False, None)),
    ({"minnctapersm": (1,)}, (False, None)),
    ({"maxnreg": (168,)}, (True, 168)),
    ({"maxntid": (384, 1, 1), "minnctapersm": (1,)}, (True, 168)),
    ({"reqntid": (64, 4), "minnctapersm": (2,)}, (True, 128)),
    ({"maxntid": (128,), "minnctapersm": (1,)}, (True, None)),
])  # fmt: skip
def test_registers_at_the_entry(values: dict[str, tuple[int, ...]], known: Any) -> None:
    """What ptxas 13 says: C7508, or the number of registers that it used."""
    function = ir.Function("f", "entry", directives=directives(values))
    assert registers_at_entry(function) == known


@pytest.mark.parametrize("values", [{}, {"maxntid": (128,)}, {"minnctapersm": (1,)}])
def test_without_a_directive_it_has_no_effect(values: dict[str, tuple[int, ...]]) -> None:
    kernel, report = run(f"{DEC} // here", values)
    found = finding(report, "setmaxnreg", "review")
    assert "ptxas ignores it" in found.message
    assert found.location is not None and found.location.line == kernel.line("here")


@pytest.mark.parametrize(
    "body", [DEC, INC, f"{DEC}\nbar.sync 0\n{INC}", f"{INC}\nbar.sync 0\n{INC}\nbar.sync 0\n{DEC}"]
)
@pytest.mark.parametrize("values", [LARGE, {"maxntid": (384,), "minnctapersm": (1,)}])
@pytest.mark.parametrize("block", [32, 128, 256])
def test_right_uses(body: str, values: dict[str, tuple[int, ...]], block: int) -> None:
    assert run(body, values, block)[1].verdict == "clean"


@pytest.mark.parametrize(("body", "said"), [
    ("setmaxnreg.inc.sync.aligned.u32 160 // here", "setmaxnreg.inc to 160, below the 168"),
    ("setmaxnreg.dec.sync.aligned.u32 176 // here", "setmaxnreg.dec to 176, above the 168"),
    (f"{DEC}\nbar.sync 0\nsetmaxnreg.dec.sync.aligned.u32 48 // here", "setmaxnreg.dec to 48, above the 40"),
    (f"{INC}\nbar.sync 0\nsetmaxnreg.inc.sync.aligned.u32 168 // here", "setmaxnreg.inc to 168, below the 232"),
])  # fmt: skip
def test_the_wrong_direction(body: str, said: str) -> None:
    kernel, report = run(body, LARGE)
    found = finding(report, "setmaxnreg", "review")
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("here")


def test_a_warp_alone() -> None:
    """Of the second warpgroup no warp executes it, which is as it should be."""
    kernel, report = run("@!first bra END\n" + INC + " // here\nEND:", LARGE, 256)
    found = finding(report, "setmaxnreg-warpgroup")
    assert "warp 1 of the same warpgroup did not execute it" in found.message
    assert found.location is not None and found.location.line == kernel.line("here")
    group = "setp.lt.u32 first, w, 4\n@!first bra END\n" + INC + "\nEND:"
    assert run(group, LARGE, 256)[1].verdict == "clean"


def test_warps_that_execute_different_ones() -> None:
    """Two places in the code are one instruction to the hardware, two counts are not."""
    body = "@first bra FIRST\nsetmaxnreg.inc.sync.aligned.u32 {}\nbra END\nFIRST:\n" + INC + "\nEND:"
    assert run(body.format(232), LARGE)[1].verdict == "clean"
    found = finding(run(body.format(240), LARGE)[1], "setmaxnreg-warpgroup")
    assert "executed .inc to 240" in found.message and "to 232" in found.message
