"""setmaxnreg: direction, directives, warpgroups, and the CTA's pool of registers."""

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


def run(
    body: str, values: dict[str, tuple[int, ...]], block: int = 128, **options: Any
) -> tuple[Kernel, Report]:
    text = f".reg u32 w\n.reg pred first\nmov.u32 w, %warpid\nsetp.eq.u32 first, w, 0\n{body}\nret"
    kernel = Kernel(text, directives=directives(values))
    return kernel, kernel.run(block=block, **options)


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


BACK = "setmaxnreg.inc.sync.aligned.u32 168"


@pytest.mark.parametrize(
    "body", [DEC, BACK, f"{DEC}\nbar.sync 0\n{BACK}", f"{BACK}\nbar.sync 0\n{DEC}\n{BACK}\n{DEC}"]
)
@pytest.mark.parametrize("values", [LARGE, {"maxntid": (384,), "minnctapersm": (1,)}])
@pytest.mark.parametrize("block", [32, 128, 256])
def test_right_uses(body: str, values: dict[str, tuple[int, ...]], block: int) -> None:
    assert run(body, values, block)[1].verdict == "clean"


@pytest.mark.parametrize(("body", "said"), [
    ("setmaxnreg.inc.sync.aligned.u32 160 // here", "setmaxnreg.inc to 160, below the 168"),
    ("setmaxnreg.dec.sync.aligned.u32 176 // here", "setmaxnreg.dec to 176, above the 168"),
    (f"{DEC}\nbar.sync 0\nsetmaxnreg.dec.sync.aligned.u32 48 // here", "setmaxnreg.dec to 48, above the 40"),
    (f"{DEC}\n{BACK}\nsetmaxnreg.inc.sync.aligned.u32 64 // here", "setmaxnreg.inc to 64, below the 168"),
])  # fmt: skip
def test_the_wrong_direction(body: str, said: str) -> None:
    kernel, report = run(body, LARGE)
    found = finding(report, "setmaxnreg", "review")
    assert said in found.message
    assert found.location is not None and found.location.line == kernel.line("here")


def test_a_warp_alone() -> None:
    """Of the second warpgroup no warp executes it, which is as it should be."""
    kernel, report = run("@!first bra END\n" + DEC + " // here\nEND:", LARGE, 256)
    found = finding(report, "setmaxnreg-warpgroup")
    assert "warp 1 of the same warpgroup did not execute it" in found.message
    assert found.location is not None and found.location.line == kernel.line("here")
    group = "setp.lt.u32 first, w, 4\n@!first bra END\n" + DEC + "\nEND:"
    assert run(group, LARGE, 256)[1].verdict == "clean"


def test_warps_that_execute_different_ones() -> None:
    """Two places in the code are one instruction to the hardware, two counts are not."""
    body = "@first bra FIRST\nsetmaxnreg.dec.sync.aligned.u32 {}\nbra END\nFIRST:\n" + DEC + "\nEND:"
    assert run(body.format(40), LARGE)[1].verdict == "clean"
    found = finding(run(body.format(48), LARGE)[1], "setmaxnreg-warpgroup")
    assert "executed .dec to 48" in found.message and "to 40" in found.message


# --- the pool ---------------------------------------------------------------------------------

_ACTIONS = {"d": "setmaxnreg.dec.sync.aligned.u32", "i": "setmaxnreg.inc.sync.aligned.u32"}


def groups(*steps: str) -> str:
    """Code for one warpgroup each: ``d40`` and ``i232`` are setmaxnreg, ``b`` is a barrier, ``x`` an exit."""
    others = {"b": "bar.sync 0", "x": "ret", "s": "nanosleep.u32 1000000"}
    lines = ["shr.u32 w, w, 2"]
    for number, words in enumerate(steps):
        lines += [f"setp.ne.u32 first, w, {number}", f"@first bra NEXT{number}"]
        for word in words.split():
            text = others.get(word) or f"{_ACTIONS[word[0]]} {word[1:]}"
            lines.append(f"{text} // {number}:{word}")
        lines += ["bra END", f"NEXT{number}:"]
    return "\n".join([*lines, "END:"])


#: Threads of the block, registers at the entry (None: 384 threads and .minnctapersm 1), the code of each
#: warpgroup, and whether an H200 ran it to the end. It hung in the other cases.
MEASURED = [
    (128, 168, ["i176"], False),
    (128, 168, ["i232"], False),
    (128, 168, ["d40 i168"], True),
    (128, 168, ["d40 i176"], False),
    (96, 168, ["d40 i168"], True),
    (32, 168, ["i176"], False),
    (384, None, ["d40", "i232", "i232"], True),
    (384, None, ["d40", "i240", "i240"], False),
    (384, None, ["d40 b", "i240 b", "b"], True),
    (384, 160, ["d40 b", "i216 b", "i216 b"], True),
    (384, 160, ["d40 b", "i224 b", "i224 b"], False),
    (256, 128, ["x", "s i232"], False),
    (256, 128, ["d24 x", "s i232"], True),
    (384, 128, ["x", "s i232", "s i152"], False),
    (256, 128, ["s d24 b", "i232 b"], True),
    (256, 128, ["b", "i136 b"], False),
    (160, 128, ["d24 b", "i232 b"], True),
    (256, 100, ["d24 b", "i176 b"], True),
    (256, 100, ["d24 b", "i184 b"], True),
    (512, 128, ["d24 b", "d24 b", "i232 b", "i232 b"], True),
    (512, 128, ["d24 b", "d24 b", "i232 b", "i240 b"], False),
]


@pytest.mark.parametrize(("block", "registers", "steps", "ends"), MEASURED)
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_pool_is_that_of_an_h200(
    block: int, registers: int | None, steps: list[str], ends: bool, schedule: str
) -> None:
    """All registers are with the warps at the start, and a warp's end returns none."""
    values = {"maxntid": (384,), "minnctapersm": (1,)} if registers is None else {"maxnreg": (registers,)}
    _, report = run(groups(*steps), values, block, schedule=schedule)
    assert [found.rule.name for found in report.findings] == ([] if ends else ["register-pool"]), report


def test_what_the_finding_says() -> None:
    kernel, report = run(groups("d48 b", "i232 b", "i232 b"), {"maxnreg": (168,)}, 384)
    found = finding(report, "register-pool")
    assert "waits at setmaxnreg.inc to 232 for 2048 registers: the CTA's pool has" in found.message
    assert "of the 64512 that the launch gave its warps (168 for each thread)" in found.message
    assert found.location is not None and found.location.line in {
        kernel.line("1:i232"),
        kernel.line("2:i232"),
    }
    lines = [(note, where.line) for note, where in found.other if where is not None]
    assert ("4 warps keep 48 registers for each thread", kernel.line("0:d48")) in lines
    assert found.see == "miscellaneous-instructions-setmaxnreg"


def test_a_finding_without_any_dec() -> None:
    _, report = run(groups("b", "i232 b"), {"maxnreg": (128,)}, 256)
    assert "no warp has executed setmaxnreg.dec" in finding(report, "register-pool").message


def test_where_ptxas_chooses_the_number_nothing_waits() -> None:
    """The launch's registers are not known: ptxas gives each thread as many as the largest setmaxnreg."""
    values = {"maxntid": (256,), "minnctapersm": (1,)}
    assert run(groups("b", "i232 b"), values, 256)[1].verdict == "clean"


def test_each_cta_has_a_pool_of_its_own() -> None:
    """CTA 0 releases registers and CTA 1 asks for them."""
    body = "mov.u32 w, %ctaid.x\nsetp.eq.u32 first, w, 0\n@first bra FIRST\n{}\nbra END\nFIRST:\n{}\nEND:"
    _, report = run(body.format(INC, DEC), LARGE, 128, grid=2)
    assert "CTA (1, 0, 0)" in finding(report, "register-pool").message
