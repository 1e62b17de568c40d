"""Multiply-adds that read three registers, by what was measured on an H200."""

from __future__ import annotations

import pytest

from pyptx.timing.constants import gpu
from pyptx.timing.opcodes import FMA, REGISTERS, Pipes
from pyptx.toolchain.control_codes import ControlCode
from pyptx.toolchain.nvdisasm import MachineInstruction
from pyptx.toolchain.schedule.graph import machine_graph
from pyptx.toolchain.schedule.register_reads import late_reads, read_cycles, reused
from pyptx.toolchain.schedule.warp import issue_costs


def instruction(text: str) -> MachineInstruction:
    opcode = next(each for each in text.split() if not each.startswith("@"))
    control = ControlCode(1, False, None, None, (), (0,) if ".reuse" in text else ())
    return MachineInstruction("f", 0, opcode, text, control, None)


@pytest.mark.parametrize(
    ("before", "text", "late"),
    [
        ("", "FFMA R4, R1, R2, R3", 1),
        ("", "@!P0 FFMA R4, -R1, |R2|, R3", 1),
        ("", "FFMA R4, R1, R1, R3", 0),  # a register is read once
        ("", "FFMA R4, R1, UR6, R3", 0),
        ("", "FFMA R4, R1, 1.5, R3", 0),
        ("", "FADD R4, R1, R2", 0),
        ("FFMA R9, R1.reuse, R5, R9", "FFMA R4, R1, R2, R3", 0),
        ("FFMA R9, R1.reuse, R5, R9", "FFMA R4, R2, R1, R3", 1),  # kept for another operand
        ("FFMA R9, R1, R5, R9", "FFMA R4, R1, R2, R3", 1),
    ],
)
def test_three_registers_take_a_cycle_more(before: str, text: str, late: int) -> None:
    kept = reused(instruction(before)) if before else {}
    assert late_reads(instruction(text), kept) == late


def test_two_registers_are_read_in_a_cycle() -> None:
    assert read_cycles(instruction("FFMA R4, R1, R2, R3"), {}) == 1.5
    assert read_cycles(instruction("IADD3 R4, R1, R2, RZ"), {}) == 1.0
    assert read_cycles(instruction("FFMA R4, R1, R2, R3"), {1: "R2"}) == 1.0
    assert read_cycles(instruction("MOV R4, 0x5"), {}) == 0.0
    costs = issue_costs(
        machine_graph([instruction("FADD R4, R1, R2"), instruction("EXIT")]), Pipes(gpu("h200"))
    )[0]
    assert costs[0].pipes[REGISTERS] == 1.0


def test_multiply_adds_that_wait_for_registers_follow_each_other_at_once() -> None:
    """The pipe has no pause between them that sums beside products would pay for."""
    chain = [instruction(f"FFMA R{4 * n}, R1, R2, R3") for n in range(1, 9)]
    costs = issue_costs(machine_graph([*chain, instruction("EXIT")]), Pipes(gpu("h200")))[0]
    assert [cost.cycles for cost in costs[:8]] == [2.0] * 8
    assert [cost.dense.get(FMA, 0.0) for cost in costs[1:8]] == [costs[0].pipes[FMA]] * 7
