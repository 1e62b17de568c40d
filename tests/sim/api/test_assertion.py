"""``sim.assert_clean``, references, waivers, and the pytest plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pyptx import Tile, WrongResultError, f32, kernel, ptx, s32, sim, smem
from pyptx.core.errors import SpecError

ROOT = Path(__file__).resolve().parents[3]
X = np.arange(64, dtype=np.float32)


def reverse(barrier: bool = True, waived: bool = False, rule: str = "data-race"):
    @kernel(in_specs=(Tile(64, f32),), out_specs=(Tile(64, f32),), block=(64,), arch="sm_90a")
    def reverse(X, Y):
        tid = ptx.special.tid.x()
        tile = smem.alloc(64, f32)
        smem.store(tile.at(tid), ptx.load(f32, X.at(tid), space="global"))
        if barrier:
            ptx.bar.sync(0)
        if waived:
            with ptx.waive(rule, "the values are not used"):
                y = smem.load(f32, tile.at(63 - tid))
        else:
            y = smem.load(f32, tile.at(63 - tid))
        ptx.store(Y.at(tid), y, space="global")

    return reverse


def test_a_clean_kernel_returns_its_report() -> None:
    report = sim.assert_clean(reverse(), X, reference=lambda x: x[::-1], schedules=("eager", "random:3"))
    assert report.verdict == "clean" and report.schedule == "eager" and report.waived == []
    sim.assert_clean(reverse(), X, schedules="late", holds=True)


def test_a_race_is_not_clean() -> None:
    with pytest.raises(WrongResultError, match="reverse is not clean under eager") as caught:
        sim.assert_clean(reverse(barrier=False), X)
    assert "[data-race]" in str(caught.value) and caught.value.report.verdict == "error"


def test_a_wrong_result_names_the_first_index_and_both_values() -> None:
    wrong = X[::-1].copy()
    wrong[[5, 9]] = 1, np.nan
    report = reverse().simulate(X, reference=wrong)
    (finding,) = report.findings
    assert finding.rule.name == "wrong-result" and report.verdict == "error"
    assert finding.message == (
        "Y: 2 of 64 elements differ from the reference (rtol 1.3e-06, atol 1e-05); "
        "the first is at [5]: 58.0 instead of 1.0"
    )
    assert reverse().simulate(X, reference=wrong, atol=100).findings[0].message.startswith("Y: 1 of 64")


def test_integers_must_be_equal_and_every_schedule_is_compared() -> None:
    @kernel(in_specs=(Tile(32, s32),), out_specs=(Tile(32, s32),), block=(32,), arch="sm_90a")
    def double(A, B):
        tid = ptx.special.tid.x()
        ptx.store(B.at(tid), ptx.load(s32, A.at(tid), space="global") * 2, space="global")

    a = np.arange(32, dtype=np.int32)
    sim.assert_clean(double, a, reference=lambda a: a * 2, schedules="sampled", seeds=1)
    report = double.simulate(a, reference=a * 2 + 1, schedule="sampled", seeds=1)
    (finding,) = report.findings
    assert finding.schedules[:2] == ("eager", "late") and "32 of 32" in finding.message


def test_a_launch_compares_arguments() -> None:
    text = reverse().ptx()
    out = np.zeros(64, np.float32)
    report = sim.load(text).launch(grid=1, block=64, args=[X, out], reference={1: X}, rtol=0, atol=0)
    assert report.findings[0].message.startswith("argument 1: 64 of 64 elements differ from the reference;")
    sim.assert_clean(sim.load(text), X, out, grid=1, block=64, reference={1: X[::-1]}, schedules="eager")


@pytest.mark.parametrize(
    ("reference", "words"),
    [(X[:3], "shape"), ((X, X), "1 outputs"), (lambda x: None, "returned None")],
    ids=["shape", "count", "none"],
)
def test_a_reference_that_does_not_fit(reference: object, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        reverse().simulate(X, reference=reference)


def test_a_tolerance_needs_a_reference() -> None:
    with pytest.raises(SpecError, match="without reference"):
        reverse().simulate(X, rtol=0.1)


# --- waivers --------------------------------------------------------------------------------------


def test_a_block_waives_a_finding() -> None:
    report = reverse(barrier=False, waived=True).simulate(X)
    assert report.verdict == "clean" and not report.findings
    ((finding, waiver),) = report.waived
    assert finding.rule.name == waiver.rule == "data-race" and waiver.reason == "the values are not used"
    assert "waived: 1 finding\n  1 x [data-race] at test_assertion.py:" in str(report)
    sim.assert_clean(reverse(barrier=False, waived=True), X)


def test_an_unused_waiver_is_for_review() -> None:
    report = reverse(waived=True).simulate(X)
    (finding,) = report.findings
    assert finding.rule.name == "unused-waiver" and report.verdict == "review"
    assert finding.location is not None and "ptx.waive" in finding.location.text


def test_a_waiver_by_line() -> None:
    racy = reverse(barrier=False)
    (finding,) = racy.simulate(X).findings
    line = finding.location.line
    waivers = [sim.Waiver("data-race", "test_assertion.py", line, "known")]
    report = racy.simulate(X, waivers=waivers, schedule="sampled", seeds=0)
    assert report.verdict == "clean" and len(report.waived) == 1, str(report)
    assert all(run.verdict == "clean" and len(run.waived) == 1 for run in report.runs)
    elsewhere = [sim.Waiver("data-race", "test_assertion.py", line + 50, "wrong line")]
    found = racy.simulate(X, waivers=elsewhere).findings
    assert [f.rule.name for f in found] == ["data-race", "unused-waiver"]


@pytest.mark.parametrize(
    ("waiver", "words"),
    [
        (("data-rice", "k.py", 1, "x"), "does not exist"),
        (("data-race", "k.py", 1, " "), "no reason"),
    ],
    ids=["rule", "reason"],
)
def test_a_waiver_that_is_not_valid(waiver: tuple[str, str, int, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        reverse().simulate(X, waivers=[sim.Waiver(*waiver)])


# --- pytest ---------------------------------------------------------------------------------------

_TESTS = """
import numpy as np
from tests.sim.api.test_assertion import X, reverse

def test_right(assert_clean):
    assert_clean(reverse(), X, reference=lambda x: x[::-1])

def test_waived(assert_clean):
    assert assert_clean(reverse(barrier=False, waived=True), X).schedule == "late"

def test_wrong(assert_clean):
    assert_clean(reverse(barrier=False), X)
"""


@pytest.mark.full
def test_the_plugin(tmp_path: Path) -> None:
    """The fixture runs kernels under the schedules of the command line; the summary counts waivers."""
    (tmp_path / "test_kernels.py").write_text(_TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "pyptx.tools.pytest_plugin",
        "--sim-schedules=late",
    ]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "waived findings of kernels" in done.stdout and "reverse: waived: 1 finding" in done.stdout
    assert "reverse is not clean under late" in done.stdout
