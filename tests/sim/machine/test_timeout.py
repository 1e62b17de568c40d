"""A run ends soon after its timeout, wherever its time goes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pyptx import sim
from pyptx.sim.threads.machine_state import MachineState

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r1;\n"


@pytest.mark.full
def test_code_that_takes_long_to_make_ready() -> None:
    module = sim.load(HEAD + "mov.u32 %r1, 0;\n" + "add.u32 %r1, %r1, 1;\n" * 20_000 + "ret;\n}\n")
    started = time.monotonic()
    report = module.launch(grid=1, block=32, timeout=0.05)
    assert report.verdict == "incomplete"
    assert "timeout=0.05 s" in report.findings[0].message
    whole = module.launch(grid=1, block=32)
    assert whole.verdict == "clean"
    assert report.seconds < whole.seconds / 3, (report.seconds, time.monotonic() - started)


@pytest.mark.parametrize("block", [32, 1])
def test_translation_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    module = sim.load(HEAD + "mov.u32 %r1, 0;\n" + "add.u32 %r1, %r1, 1;\n" * 2000 + "ret;\n}\n")
    looks = _count(monkeypatch)
    assert module.launch(grid=1, block=block).verdict == "clean"
    assert len(looks) >= 5  # one for each block of code
    looks.clear()
    assert module.launch(grid=1, block=block).verdict == "clean"
    assert len(looks) < 5  # translated once


def test_the_first_use_of_local_memory_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sim.load(
        HEAD + ".local .b8 stack[4096];\nmov.u32 %r1, 1;\nst.local.u32 [stack], %r1;\nret;\n}\n"
    )
    assert module.launch(grid=1, block=32).verdict == "clean"
    looks = _count(monkeypatch)
    assert module.launch(grid=20, block=32).verdict == "clean"
    assert len(looks) >= 20


def _count(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    looks: list[Any] = []
    check_time = MachineState.check_time

    def counted(machine: MachineState) -> None:
        looks.append(machine)
        check_time(machine)

    monkeypatch.setattr(MachineState, "check_time", counted)
    return looks
