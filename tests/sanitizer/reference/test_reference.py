"""Hand-written programs with known verdicts: each rule, each entry of the table."""

from __future__ import annotations

from tests.sanitizer.reference.program import Buffer, Instruction, Operand, Program, Statement
from tests.sanitizer.reference.reference import judge


def _program(*warps: list[Instruction]) -> Program:
    """One CTA, whose warps execute the lists in lane 0."""
    program = Program(
        1, len(warps), {"s": Buffer("s", "shared", 16), "g": Buffer("g", "global", 16)}, ["bar"]
    )
    for warp, instructions in enumerate(warps):
        program.code[0, warp] = [
            Statement(one, () if one.op.startswith("bar.") else (0,)) for one in instructions
        ]
    return program


def test_nothing_between_a_store_and_a_load() -> None:
    store, load = Instruction("st", to=Operand("s")), Instruction("ld", to=Operand("s"))
    assert judge(_program([store], [load])) == {("data-race", ((0, 0), 0), ((0, 1), 0))}
    barrier = Instruction("bar.sync", threads=64)
    assert judge(_program([store, barrier], [barrier, load])) == set()
    assert judge(_program([store, barrier], [barrier, load]), "bar_sync")
