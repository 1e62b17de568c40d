"""Reads of registers from their two banks, by what was measured on an H200."""

from __future__ import annotations

import pytest

from pyptx.timing.constants import gpu
from pyptx.timing.opcodes import FMA, REGISTER_BANKS, Pipes
from pyptx.toolchain.control_codes import ControlCode
from pyptx.toolchain.nvdisasm import MachineInstruction
from pyptx.toolchain.schedule.graph import machine_graph
from pyptx.toolchain.schedule.register_reads import bank_reads, reused
from pyptx.toolchain.schedule.warp import issue_costs


def instruction(text: str) -> MachineInstruction:
    opcode = next(each for each in text.split() if not each.startswith("@"))
    control = ControlCode(1, False, None, None, (), (0,) if ".reuse" in text else ())
    return MachineInstruction("f", 0, opcode, text, control, None)


@pytest.mark.parametrize(
    ("before", "text", "reads"),
    [
        ("", "FFMA R4, R1, R2, R3", (1, 2)),
        ("", "@!P0 FFMA R4, -R1, |R2|, R8", (2, 1)),
        ("", "FFMA R4, R1, R1, R3", (0, 2)),  # a register is read once
        ("", "FFMA R4, R1, UR6, R3", (0, 2)),
        ("", "FFMA R4, R1, 1.5, R2", (1, 1)),
        ("", "IADD3 R4, R1, R2, RZ", (1, 1)),
        ("", "MOV R4, 0x5", (0, 0)),
        ("FFMA R9, R1.reuse, R5, R9", "FFMA R4, R1, R2, R3", (1, 1)),
        ("FFMA R9, R1.reuse, R5, R9", "FFMA R4, R2, R1, R3", (1, 2)),  # kept for another operand
        ("FFMA R9, R1, R5, R9", "FFMA R4, R1, R2, R3", (1, 2)),
    ],
)
def test_registers_are_read_from_two_banks(before: str, text: str, reads: tuple[int, int]) -> None:
    kept = reused(instruction(before)) if before else {}
    assert bank_reads(instruction(text), kept) == reads


#: Multiply-adds of a loop as ptxas made them, and the cycles of a scheduler for 128 of them on an H200.
MEASURED = [
    (("R14, R4, R14, R9", "R17, R5, R17, R8", "R15, R6, R15, R11", "R13, R7, R13, R10"), 224.1),
    (("R18, R6, R18, R5", "R17, R8, R17, R11", "R16, R9.reuse, R16, R12.reuse", "R15, R10, R15, R13"), 193.1),
]


@pytest.mark.parametrize(("operands", "clk"), MEASURED)
def test_the_bank_that_is_read_most_bounds_warps(operands: tuple[str, ...], clk: float) -> None:
    loop = [instruction(f"FFMA {each}") for each in operands] * 32
    costs = issue_costs(machine_graph([*loop, instruction("EXIT")]), Pipes(gpu("h200")))[0][:-1]
    most = max(sum(cost.pipes.get(bank, 0.0) for cost in costs) for bank in REGISTER_BANKS)
    assert most == pytest.approx(clk, rel=0.01)
    # A single warp takes as long: no instruction waits for its own second read.
    assert sum(cost.cycles for cost in costs) == pytest.approx(clk, rel=0.02)


def test_multiply_adds_that_wait_for_registers_follow_each_other_at_once() -> None:
    """The pipe has no pause between them that sums beside products would pay for."""
    chain = [instruction(f"FFMA R{4 * n}, R1, R2, R3") for n in range(1, 9)]
    costs = issue_costs(machine_graph([*chain, instruction("EXIT")]), Pipes(gpu("h200")))[0]
    assert [cost.cycles for cost in costs[2:8]] == [2.0] * 6
    assert [cost.dense.get(FMA, 0.0) for cost in costs[1:8]] == [costs[0].pipes[FMA]] * 7
