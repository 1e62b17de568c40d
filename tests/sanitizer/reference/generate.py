"""Random programs from templates, right and wrong ones, each from a seed."""

from __future__ import annotations

import random
from dataclasses import replace

from .building import Builder
from .legality import legal
from .program import Program, Statement
from .reference import Judge
from .templates import RARE, TEMPLATES

__all__ = ["generate"]

#: CTAs, and whether they are in clusters of their own.
_CLUSTERS = ((1, False), (1, False), (1, False), (2, False), (2, False), (2, False), (2, True))
#: Operations that no barrier counts.
_UNCOUNTED = (
    "fence",
    "membar",
    "bar.warp.sync",
    "ld",
    "st",
    "red",
    "bulk.wait",
    "cp.async.wait",
    "shfl",
    "mbarrier.wait",
)


def generate(seed: int) -> Judge:
    """The judge of the program of ``seed``."""
    chance = random.Random(seed)
    while True:
        program = _program(chance)
        if chance.random() < 0.15:
            program = _mutant(program, chance)
        judge = legal(program)
        if judge is not None:
            return judge


def _program(chance: random.Random) -> Program:
    """Without flaws and large, so that many entries decide; with flaws; or one template alone, with flaws."""
    ctas, apart = chance.choice(_CLUSTERS)
    way = chance.random()
    if way < 0.32:
        flaws, weights, count = 0.0, TEMPLATES, chance.choice((3, 4))
    elif way < 0.57:
        flaws, weights, count = chance.choice((0.15, 0.35)), TEMPLATES, chance.choice((1, 2, 3))
    else:
        flaws, weights, count = chance.choice((0.25, 0.4)), RARE, 1
        ctas, apart = chance.choice(_CLUSTERS[2:])
    templates = chance.choices(list(weights), list(weights.values()), k=count)
    builder = Builder(chance, ctas, chance.choice((1, 2, 2, 3)), flaws, apart=apart)
    for template in templates:
        template(builder)
    return builder.finished()


def _mutant(program: Program, chance: random.Random) -> Program:
    """``program`` with one statement missing, two neighbors exchanged or one scope changed."""
    places = [(warp, position) for warp, position, _ in program.statements()]
    for _ in range(20):
        warp, position = chance.choice(places)
        code = program.code[warp]
        if any(statement.loop for statement in code[position : position + 2]):
            continue
        one = code[position].instruction
        way = chance.random()
        if way < 0.4 and one.op.startswith(_UNCOUNTED):
            return program.without(warp, position)
        if way < 0.8 and position + 1 < len(code) and code[position].lanes == code[position + 1].lanes:
            return _with(program, warp, position, [code[position + 1], code[position]])
        if one.scope and one.op not in ("membar", "st.async") and not one.op.startswith("mbarrier"):
            changed = replace(one, scope=chance.choice(("cta", "cluster", "gpu")))
            return _with(program, warp, position, [replace(code[position], instruction=changed)])
    return program


def _with(program: Program, warp: tuple[int, int], position: int, new: list[Statement]) -> Program:
    code = list(program.code[warp])
    code[position : position + len(new)] = new
    return replace(program, code={**program.code, warp: code})
