"""The stepper: it stops where it is told, shows the machine as it is, and changes nothing."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, Verdict, kernel, kit, ptx, reg, sim, smem
from pyptx.core.types import b64, bf16, f32, u32, u64
from pyptx.isa import target
from pyptx.sim import Debugger, Stop
from pyptx.sim.machine.machine import Machine
from pyptx.sim.machine.schedule import make_policy
from pyptx.sim.threads.limits import Limits
from pyptx.sim.threads.operations import run_operations
from tests.examples.loading import load_example

HERE = Path(__file__).name


def line_of(text: str) -> int:
    """The number of the first line of this file that has ``text`` as its end."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(text))


def scaled(value: Any) -> Any:
    doubled = value + value  # in the helper
    return doubled


@kernel(in_specs=(Tile(64, f32),), out_specs=(Tile(64, f32),), block=64, arch="sm_90a")
def scale(x, out):  # type: ignore[no-untyped-def]
    tile = smem.alloc((8, 8), f32)
    bars = smem.alloc(1, u64, stages=2, align=8)
    tid = ptx.special.tid.x()
    with ptx.if_(tid == 0):
        ptx.mbarrier.init(bars[1], 64)  # by one lane
    ptx.bar.sync(0)
    offset = ptx.cvt(tid, u64) * 4
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(x.ptr + offset))
    ptx.inst.st.shared.f32(ptx.addr(tile.addr + tid * 4), value)
    ptx.mbarrier.arrive(bars[1])  # all arrive
    ptx.mbarrier.wait(bars[1], 0)
    total = scaled(value)  # calls the helper
    count = reg.scalar(u32, 0)
    with ptx.for_(0, 3):
        count += tid  # in the loop
    ptx.inst.st.global_.f32(ptx.addr(out.ptr + offset), total)  # at the end


INPUT = np.arange(64, dtype=np.float32)


def session(*commands: str, k: Kernel = scale, inputs: Any = (INPUT,), **options: Any) -> list[str]:
    """What each command of a script showed; the stop that follows a command belongs to it."""
    debugger = Debugger(commands)
    k.simulate(*inputs, debug=debugger, **options)
    return [part.partition("\n")[2] for part in debugger.output.split("(sim) ")[1:]]


def test_it_starts_at_the_first_instruction() -> None:
    debugger = Debugger(["list 1"])
    scale.simulate(INPUT, debug=debugger)
    assert debugger.output.startswith("start: CTA (0, 0, 0) warp 0, 32 lanes at " + HERE)
    text = scale.ptx().splitlines()
    first = next(n for n, line in enumerate(text, 1) if "ld.param.u64" in line)
    assert f"->{first:6d}  {text[first - 1]}" in debugger.output


def test_registers_of_a_variable_over_the_lanes() -> None:
    shown = session(
        f"break {line_of('# all arrive')}",
        "continue",
        "registers value tid",
        "r value as b32",
        "print value * 2",
    )
    assert f"breakpoint 1: CTA (0, 0, 0) warp 1, 32 lanes at {HERE}:{line_of('# all arrive')}" in shown[1]
    assert "value f32 =\n     0: 32 33 34 35 36 37 38 39\n" in shown[2]
    assert "tid_1 u32 =\n     0: 32 33 34" in shown[2]
    assert f"{np.float32(32).view(np.uint32):#x}" in shown[3]
    assert " 64." in shown[4] and "126." in shown[4]


def test_a_register_that_nothing_wrote_is_marked() -> None:
    shown = session("registers value tid")
    assert "value f32 = ? in all" in shown[0]


def test_next_goes_line_by_line_and_step_by_instruction() -> None:
    shown = session("next", "next", "step", "step", "step")
    wanted = [line_of("tid = ptx.special.tid.x()"), line_of("with ptx.if_(tid == 0):")]
    assert f"next: CTA (0, 0, 0) warp 0, 32 lanes at {HERE}:{wanted[0]}:" in shown[0]
    assert f"{HERE}:{wanted[1]}:" in shown[1]
    assert "step: " in shown[2] and "bra endif" in shown[2]
    # Lane 0 alone enters the branch; then all lanes of the warp go on.
    assert "warp 0, lane 0 at" in shown[3] and "mbarrier.init" in shown[3]
    assert "warp 0, 32 lanes at" in shown[4] and "bar.sync 0" in shown[4]


def test_lanes_of_a_divergent_branch() -> None:
    shown = session(f"break {line_of('# by one lane')}", "continue", "registers tid", "where")
    assert "warp 0, lane 0 at" in shown[1]
    assert shown[2] == "tid_1 u32 = 0\n"
    assert "CTA (0, 0, 0) warp 0 0x00000001 is here" in shown[3]
    assert "CTA (0, 0, 0) warp 0 0xfffffffe " in shown[3] and "CTA (0, 0, 0) warp 1 0xffffffff " in shown[3]


def test_conditions_of_breakpoints() -> None:
    at = line_of("# all arrive")
    shown = session(
        f"break {at} if (tid == 5) & (lane == 5)", "continue", "break", "delete 1", "break", "continue"
    )
    assert "breakpoint 1: CTA (0, 0, 0) warp 0" in shown[1]
    assert shown[2].startswith(f"1: {at} if (tid == 5) & (lane == 5), 1 stops")
    assert "no breakpoints" in shown[4] and "breakpoint" not in shown[5]
    (_, said, *_) = session(f"break {at} if nonsense", "continue")
    assert "cannot evaluate 'nonsense': NameError" in said


def test_a_breakpoint_in_a_loop_stops_at_each_pass() -> None:
    at = line_of("# in the loop")
    commands = [f"break {at} if warp == 0", *["continue"] * 4]
    shown = session(*commands)
    assert [f"{HERE}:{at}:" in part for part in shown[1:]] == [True, True, True, False]


def test_lines_of_helpers_and_of_their_callers() -> None:
    inside, caller = line_of("# in the helper"), line_of("# calls the helper")
    for where in (f"{inside}", f"{HERE}:{caller}"):
        shown = session(f"break {where}", "continue")
        assert f"{HERE}:{inside}:" in shown[1] and "add.rn.f32 %doubled" in shown[1]


def test_ptx_lines_and_labels() -> None:
    text = scale.ptx().splitlines()
    number = next(n for n, line in enumerate(text, 1) if "mbarrier.try_wait" in line)
    for where in (f"ptx:{number}", text[number - 2].strip().rstrip(":")):
        shown = session(f"until {where}", "list 1")
        assert f"ptx:{number}  mbarrier.try_wait" in shown[0] and f"->{number:6d}" in shown[1]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("break 1", "no instruction has this line (near it: "),
        ("break nowhere", "or a label of: endif"),
        ("break other.py:7", "no instruction has this line (near it: none)"),
        ("delete 3", "there is no breakpoint 3"),
        ("step none", "expected a positive number, got 'none'"),
        ("registers nothing", "no register 'nothing'; there are: "),
        ("registers tid as f33", "'f33' is not a type"),
        ("tile nothing", "no buffer 'nothing' in shared memory; there are: tile, bars"),
        ("tile tile 2", "tile has 1 stages"),
        ("tile tile 9x9", "tile has 256 bytes, but (9, 9) of f32 are 324"),
        ("tile tile 3B", "there is no swizzle mode '3B'"),
        ("tensor 510 4", "tensor memory has columns 0..511"),
        ("tensor x", "expected a column"),
        ("event", "no such step can happen now"),
        ("warp 9", "has no warp 9"),
        ("warp one", "expected the number of a warp"),
        ("lane x", "expected a live lane of warp 0"),
        ("fly", "unknown command 'fly'"),
    ],
)
def test_wrong_commands_say_what_is_wrong(command: str, said: str) -> None:
    (shown,) = session(command)
    assert shown.startswith("*** ") and said in shown


def test_barriers_tiles_and_waiting_warps() -> None:
    shown = session(
        f"break {line_of('ptx.mbarrier.wait(bars[1], 0)')}",
        "continue",
        "barriers",
        "tile tile",
        "step",
        "where",
    )
    assert "bars[1] (shared 0x" in shown[2]
    assert "phase 0 (parity 0), 32 of 64 arrivals pending, 0 bytes of tx pending, 0 waiting" in shown[2]
    rows = shown[3].splitlines()
    assert rows[0] == "tile f32[8x8], swizzle none"
    assert rows[2].split() == ["0", *"????????"] and rows[6].split() == ["4", *map(str, range(32, 40))]
    assert "warp 1 0xffffffff waits for parity 0 of mbarrier bars" in shown[5] or "warp 0" in shown[5]


def test_the_warp_that_is_stepped_can_be_chosen() -> None:
    shown = session("warp 0", "step", "warp 1", "step", "step any")
    assert "warp 0, 32 lanes" in shown[1] and "warp 1, 32 lanes" in shown[3]
    assert shown[4].startswith("step any: CTA (0, 0, 0) warp ")


def test_a_lane_is_followed_through_a_divergent_branch() -> None:
    for lane, wanted in (("0", "mbarrier.init"), ("7", "bar.sync")):
        shown = session("next", "next", f"lane {lane}", "step 2", "lane all")
        assert f"step runs lane {lane} of warp 0 now" in shown[2]
        assert "  ptx:" in shown[3] and wanted in shown[3]
    assert "expected a live lane" in session("lane 32")[0]


def test_a_swizzled_tile_and_events_of_a_copy() -> None:
    copy = load_example("hopper/tma_copy.py").tma_copy
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64).astype(bf16.dtype)
    stops: list[Stop] = []
    found: list[Any] = []

    def look(stop: Stop) -> str | None:
        stops.append(stop)
        pending = stop.events()
        if pending and not found:
            before = stop.barriers()[0]
            assert before.tx == 64 * 64 * 2 and before.name.startswith("arrived")
            while any(step.ready for step in stop.events()):
                stop.machine.engines.execute(next(step for step in stop.events() if step.ready))
            after = stop.barriers()[0]
            assert (after.phase, after.tx) == (1, 0)
            found.append(stop.tile("tile"))
            return "continue"
        return "step"

    report = copy.simulate(a, debug=look, schedule="late")
    assert report.verdict is Verdict.CLEAN and np.array_equal(report.outputs[0], a)
    (tile,) = found
    assert (tile.swizzle, tile.type, tile.values.shape) == ("128B", bf16, (64, 64))
    assert repr(tile).startswith("tile bf16[64x64], swizzle 128B\n")
    assert tile.written.all() and np.array_equal(tile.values, a)


def test_a_tile_with_atoms_of_32_bytes() -> None:
    operand = kit.TmaOperand(64, 8, f32, major="MN")

    @kernel(in_specs=(operand.spec(64, 8),), block=32, arch="sm_90a")
    def copy(A):  # type: ignore[no-untyped-def]
        tile, full = operand.stages(1, "tile"), smem.alloc(1, b64)
        with ptx.if_(ptx.warp.elect()):
            ptx.mbarrier.init(full, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full, operand.nbytes)
            operand.load(tile[0], A, row=0, k=0, mbar=full)
            ptx.mbarrier.wait(full, 0)

    found: list[Any] = []

    def look(stop: Stop) -> str | None:
        if stop.barriers() and stop.barriers()[0].phase == 1 and not found:
            found.append(stop.tile("tile"))
            return "continue"
        return "step"

    a = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    copy.simulate(a, debug=look)
    (tile,) = found
    assert tile.swizzle == "128B_ATOM_32B"
    assert np.array_equal(tile.values, np.concatenate([a[:, :32], a[:, 32:]]))


def test_the_event_command() -> None:
    example = load_example("hopper/tma_copy.py")
    lines = Path(example.__file__ or "").read_text().splitlines()
    wait = next(number for number, line in enumerate(lines, 1) if "mbarrier.wait" in line)
    shown = session(
        *(f"until {wait}", "events", "barriers", "event", "event", "event", "events", "barriers"),
        k=example.tma_copy,
        inputs=(np.ones((64, 64), bf16.dtype),),
        schedule="late",
    )
    assert ": can happen" in shown[1] and "cp.async.bulk.tensor" in shown[1]
    assert "phase 0 (parity 0)" in shown[2] and "8192 bytes of tx pending" in shown[2]
    assert [part.split(" of ")[0] for part in shown[3:6]] == ["0: tma read", "1: tma write", "2: tma signal"]
    assert shown[6] == "no operations in flight\n"
    assert "phase 1 (parity 1)" in shown[7] and "0 bytes of tx pending" in shown[7]


def test_tensor_memory_with_products_that_are_not_computed_yet() -> None:
    """The simulator computes sums of several MMAs late; what is shown has them."""
    example = load_example("blackwell/tcgen05_mma_probe.py")
    found: list[Any] = []

    def look(stop: Stop) -> str | None:
        if stop.instruction.startswith("tcgen05.ld") and not found:
            found.append(stop.tensor_memory(0, 64))
        return "continue" if found else "step any"

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (n, example.K)).astype(bf16.dtype) for n in (example.M, example.N))
    report = example.probe.simulate(a, b, debug=look)
    assert report.verdict is Verdict.CLEAN
    assert np.array_equal(found[0].values, (a.astype(np.float32) @ b.astype(np.float32).T)[:, :64])
    assert found[0].written.all() and "64 at 0 of CTA (0, 0, 0)" in found[0].allocations


def test_a_stop_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Stop] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["stop"]))

    def look(stop: Stop) -> str | None:
        if not seen:  # the function itself may stop in pdb
            assert np.array_equal(stop.lanes, np.arange(32))
            assert repr(stop.registers("tid")[0]) == "tid_1 u32 = ? in all"
            assert "is here" in repr(stop.where()) and stop.barriers() == []
            breakpoint()
        return None

    scale.simulate(INPUT, debug=look)
    first = seen[0]
    assert (first.cta, first.warp) == ((0, 0, 0), 0)
    assert repr(first).startswith("start: CTA (0, 0, 0) warp 0, 32 lanes")


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_a_run_that_is_stepped_gives_what_others_give(schedule: str) -> None:
    plain = scale.simulate(INPUT, schedule=schedule)
    stepped = scale.simulate(INPUT, schedule=schedule, debug=["step 5", "next", "continue"])
    assert stepped.verdict is plain.verdict is Verdict.CLEAN
    assert np.array_equal(stepped.outputs[0], plain.outputs[0]) and stepped.steps == plain.steps
    assert stepped.claim == plain.claim or str(stepped.claim) == str(plain.claim)


def test_quit_ends_the_run_as_incomplete() -> None:
    report = scale.simulate(INPUT, debug=["step", "quit"])
    assert report.verdict is Verdict.INCOMPLETE and "stopped in the debugger" in report.findings[0].message


TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    add.u32 %r2, %r1, %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


def test_ptx_text_from_anywhere() -> None:
    debugger = Debugger(["break 11 if r1 == 0", "continue", "registers r2", "list 1"])
    out = np.zeros(1, np.uint32)
    sim.load(TEXT).launch(grid=1, block=1, args=[out], debug=debugger)
    assert "breakpoint 1: CTA (0, 0, 0) warp 0, lane 0 at" in debugger.output
    assert "r2 b32 = 0x0" in debugger.output and "st.global.u32" in debugger.output


def test_the_prompt_reads_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("next\nregisters tid\n\nhelp step\n"))
    report = scale.simulate(INPUT, debug=True)  # the end of the input quits
    shown = capsys.readouterr().out
    assert "start: CTA" in shown and "next: CTA" in shown and "step any [N]" in shown
    assert report.verdict is Verdict.INCOMPLETE


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"debug": 3}, "debug is 3: expected True, a sim.Debugger"),
        ({"debug": "step"}, "debug is 'step'"),
        ({"debug": True, "schedule": "all"}, "schedule is 'all', which runs the launch several times"),
        ({"debug": ["c"], "schedule": "sampled"}, "step through one run"),
    ],
)
def test_what_cannot_be_stepped(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        scale.simulate(INPUT, **options)
    with pytest.raises(SpecError, match="expected a list of commands"):
        Debugger("step")
    with pytest.raises(SpecError, match="exclude each other"):
        Debugger(["step"], on_stop=lambda stop: None)


def test_a_machine_without_a_debugger_runs_whole_blocks() -> None:
    machine = Machine(target("sm_90a"), make_policy("eager", 0), Limits())
    assert machine.operations is run_operations and machine.policy.warp_teams
