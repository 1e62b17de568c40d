"""Makes a program on which two judges disagree as small as it can be."""

from __future__ import annotations

from collections.abc import Callable

from .legality import legal
from .program import Program
from .reference import Judge

__all__ = ["shrunk"]


def shrunk(judge: Judge, wanted: Callable[[Judge], bool]) -> Judge:
    """The smallest program found, by leaving out statements, of which ``wanted`` is still true."""
    smaller = True
    while smaller:
        smaller = False
        for warp, position, statement in reversed(list(judge.program.statements())):
            if position >= len(judge.program.code[warp]):
                continue
            program = _without(judge.program, warp, position)
            candidate = None if statement.loop else legal(program)
            if candidate is not None and wanted(candidate):
                judge, smaller = candidate, True
    return _tidy(judge, wanted)


def _without(program: Program, warp: tuple[int, int], position: int) -> Program:
    """The program without a statement, and without the partners that would wait for it."""
    gone = program.code[warp][position].instruction
    if not gone.op.startswith(("bar.sync", "bar.arrive", "bar.red", "cluster.")):
        return program.without(warp, position)
    nth = [s.instruction for s in program.code[warp][: position + 1]].count(gone)
    code = {}
    for other, statements in program.code.items():
        same = [n for n, s in enumerate(statements) if s.instruction == gone][nth - 1 : nth]
        code[other] = [s for n, s in enumerate(statements) if n not in same]
    return Program(program.ctas, program.warps, program.buffers, program.mbarriers, code, program.apart)


def _tidy(judge: Judge, wanted: Callable[[Judge], bool]) -> Judge:
    """Without buffers and mbarriers that nothing names."""
    program = judge.program
    named = set()
    for _, _, statement in program.statements():
        one = statement.instruction
        named |= {operand.name for operand in (one.to, one.source, one.mbarrier) if operand is not None}
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in named}
    mbarriers = [name for name in program.mbarriers if name in named]
    candidate = legal(Program(program.ctas, program.warps, buffers, mbarriers, program.code, program.apart))
    return candidate if candidate is not None and wanted(candidate) else judge
