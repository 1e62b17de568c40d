"""Random programs from templates, right and wrong ones, each from a seed."""

from __future__ import annotations

import random

from .building import Builder
from .execution import Execution, Illegal, execute
from .program import Program
from .templates import TEMPLATES

__all__ = ["generate", "legal"]


def generate(seed: int) -> tuple[Program, Execution]:
    """The program of ``seed``, and one execution of it."""
    chance = random.Random(seed)
    while True:
        program = _program(chance)
        execution = legal(program)
        if execution is not None:
            return program, execution


def legal(program: Program) -> Execution | None:
    """An execution of ``program`` if it ends, with every wait for the same thing, under a few schedules."""
    try:
        executions = [execute(program, seed) for seed in range(3)]
    except Illegal:
        return None
    answers = executions[0].answers()
    return executions[0] if all(other.answers() == answers for other in executions) else None


def _program(chance: random.Random) -> Program:
    builder = Builder(
        chance, chance.choice((1, 1, 2)), chance.choice((1, 2, 2, 3)), chance.choice((0.0, 0.1, 0.3))
    )
    templates = chance.choices(list(TEMPLATES), list(TEMPLATES.values()), k=chance.choice((1, 2, 2, 3)))
    for template in templates:
        template(builder)
    return builder.finished()
