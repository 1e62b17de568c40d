"""Loading holds an entry against the module's target and version, once, unless it is told not to."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyptx import sim
from pyptx.core.errors import InstructionError, TargetError
from pyptx.ir import Instruction
from pyptx.isa import Binding, bind_instruction, binding
from pyptx.tools.cli import cli

HEAD = ".version 8.8\n.target {}\n.address_size 64\n"
FENCE = """.visible .entry fence() .reqntid 128
{
wgmma.fence.sync.aligned;
ret;
}
"""
PLAIN = ".visible .entry plain() { ret; }\n"
GROUPS = """.visible .entry groups()
{
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
ret;
}
"""
ON_90, ON_100 = HEAD.format("sm_90a"), HEAD.format("sm_100a")


def test_instructions_of_another_target_are_refused() -> None:
    assert sim.load(ON_90 + FENCE).launch(grid=1, block=128).verdict == "clean"
    with pytest.raises(TargetError) as caught:
        sim.load(ON_100 + FENCE).launch(grid=1, block=128)
    assert "fence uses what .target sm_100a with .version 8.8 does not have" in caught.value.message
    assert ":6: wgmma" in caught.value.message and "does not exist on sm_100a" in caught.value.message
    assert "check=False" in caught.value.hint
    assert caught.value.location is not None and caught.value.location.file == __file__


def test_the_check_and_the_code_bind_each_instruction_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Instruction] = []

    def counted(instruction: Instruction) -> Binding:
        bound.append(instruction)
        return bind_instruction(instruction)

    monkeypatch.setattr(binding, "bind_instruction", counted)
    loaded = sim.load(ON_90 + FENCE)
    for schedule in ("eager", "random"):  # random has its own blocks
        assert loaded.launch(grid=1, block=128, schedule=schedule).verdict == "clean"
    assert [instruction.opcode for instruction in bound] == ["wgmma", "ret"]


def test_in_a_stream() -> None:
    with pytest.raises(TargetError):
        sim.Stream().launch(sim.load(ON_100 + FENCE), grid=1, block=128)


def test_check_can_be_waived() -> None:
    assert sim.load(ON_100 + FENCE, check=False).launch(grid=1, block=128).verdict == "clean"


def test_other_entries_run() -> None:
    loaded = sim.load(ON_100 + PLAIN + FENCE)
    assert loaded.launch("plain", grid=1, block=32).verdict == "clean"
    for _ in range(2):
        with pytest.raises(TargetError):
            loaded.launch("fence", grid=1, block=128)


def test_both_groups_in_one_kernel() -> None:
    with pytest.raises(TargetError, match=r"the same \.cta_group"):
        sim.load(ON_100 + GROUPS).launch(grid=1, block=32)
    alone = GROUPS.replace("cta_group::2", "cta_group::1")
    sim.load(ON_100 + alone).launch(grid=1, block=32)


def test_ten_faults_are_shown() -> None:
    many = FENCE.replace("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\n" * 13)
    with pytest.raises(TargetError) as caught:
        sim.load(ON_100 + many).launch(grid=1, block=128)
    assert caught.value.message.count("does not exist") == 10 and "and 3 more" in caught.value.message


def test_an_entry_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyptx.sim.api import launch

    seen: list[str] = []

    def counted(module: object, function: object, bind: object) -> list[InstructionError]:
        seen.append(function.name)  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(launch, "unavailable", counted)
    loaded = sim.load(ON_90 + PLAIN)
    for _ in range(3):
        loaded.launch(grid=1, block=32)
    assert seen == ["plain"]


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "fence.ptx"
    path.write_text(ON_100 + FENCE)
    words = ["sim", str(path), "--grid", "1"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1 and "does not exist on sm_100a" in result.output
    assert "--no-check" in result.output
    assert CliRunner().invoke(cli, [*words, "--no-check"]).exit_code == 0
