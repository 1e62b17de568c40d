"""Changing one statement of a body, and what operators ask about statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from pyptx.ir import BranchTarget, Immediate, Instruction, LabelStatement, Operand, Register, Statement

__all__ = [
    "Body",
    "Site",
    "back_branch",
    "constant",
    "delete",
    "edit_operand",
    "find",
    "first_before",
    "insert",
    "is_a",
    "move",
    "put",
    "swap_modifier",
    "with_modifiers",
]

Body = tuple[Statement, ...]


class Site(NamedTuple):
    """One change: the index of the statement that it concerns in the original body, and the changed body."""

    index: int
    body: Body


def delete(body: Body, index: int) -> Site:
    return Site(index, body[:index] + body[index + 1 :])


def put(body: Body, index: int, statement: Statement) -> Site:
    """The statement at ``index`` replaced by another."""
    return Site(index, (*body[:index], statement, *body[index + 1 :]))


def insert(body: Body, index: int, statement: Statement) -> Site:
    """``statement`` once more, behind the one at ``index``."""
    return Site(index, (*body[: index + 1], statement, *body[index + 1 :]))


def move(body: Body, index: int, before: int) -> Site:
    """The statement at ``index`` moved in front of the one at ``before``."""
    rest = [s for i, s in enumerate(body) if i != index]
    rest.insert(before - (before > index), body[index])
    return Site(index, tuple(rest))


def is_a(statement: Statement, name: str, *modifiers: str) -> bool:
    """Whether this is an instruction whose dotted name starts with ``name`` and which has all ``modifiers``."""
    if not isinstance(statement, Instruction):
        return False
    words = tuple(name.split("."))
    spelled = (statement.opcode, *statement.modifiers)
    return spelled[: len(words)] == words and set(modifiers) <= set(statement.modifiers)


def find(body: Body, name: str, *modifiers: str) -> Iterator[tuple[int, Instruction]]:
    """Every instruction of this name with these modifiers, and its index."""
    for index, statement in enumerate(body):
        if isinstance(statement, Instruction) and is_a(statement, name, *modifiers):
            yield index, statement


def with_modifiers(instruction: Instruction, *modifiers: str) -> Instruction:
    return replace(instruction, modifiers=modifiers)


def swap_modifier(instruction: Instruction, old: str, *new: str) -> Instruction:
    """One modifier replaced by others, or by none."""
    at = instruction.modifiers.index(old)
    return with_modifiers(instruction, *instruction.modifiers[:at], *new, *instruction.modifiers[at + 1 :])


def edit_operand(instruction: Instruction, number: int, operand: Operand) -> Instruction:
    operands = instruction.operands
    return replace(instruction, operands=(*operands[:number], operand, *operands[number + 1 :]))


def constant(body: Body, index: int, operand: Operand) -> int | None:
    """The number that an operand has: it is an immediate, or the nearest write before moves one into the register."""
    if isinstance(operand, Immediate):
        return int(operand.value)
    if not isinstance(operand, Register):
        return None
    for statement in reversed(body[:index]):
        if isinstance(statement, LabelStatement):
            return None
        if isinstance(statement, Instruction) and statement.operands[:1] == (operand,):
            known = statement.opcode == "mov" and isinstance(statement.operands[1], Immediate)
            return int(statement.operands[1].value) if known else None  # type: ignore[union-attr]
    return None


def _ends_segment(statement: Statement) -> bool:
    return isinstance(statement, LabelStatement) or is_a(statement, "bra") or is_a(statement, "ret")


def first_before(body: Body, index: int, wanted: Callable[[Statement], bool]) -> int | None:
    """Index of the first wanted statement among those that lead straight to ``index``; None if there is none."""
    found = None
    for at in range(index - 1, -1, -1):
        if _ends_segment(body[at]) or is_a(body[at], "bar"):
            break
        if wanted(body[at]):
            found = at
    return found


def back_branch(body: Body, index: int) -> int | None:
    """Index of the branch, close behind ``index``, that leads back to a label in front of it."""
    labels = {s.name: i for i, s in enumerate(body) if isinstance(s, LabelStatement)}
    for at in range(index + 1, min(index + 5, len(body))):
        statement = body[at]
        if isinstance(statement, Instruction) and statement.opcode == "bra":
            target = statement.operands[0]
            if isinstance(target, BranchTarget) and labels[target.name] < index:
                return at
    return None
