"""The list of mutants: every operator at every site of every kernel, always in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyptx.ir import Function, Instruction, Module

from . import more_operators  # noqa: F401  registers its operators
from .edits import Body
from .exceptions import expectation
from .expected import Expectation
from .kernels import KERNELS, subject
from .operators import OPERATORS

__all__ = ["Mutant", "changed", "mutants"]


@dataclass(frozen=True)
class Mutant:
    """One kernel with one change.

    Attributes:
        kernel, operator: names.
        number: of the site among the operator's in the kernel.
        index: of the statement in the original body that the change concerns.
        body: the changed statements.
        expected: what must be found.
    """

    kernel: str
    operator: str
    number: int
    index: int
    body: Body
    expected: Expectation

    @property
    def name(self) -> str:
        return f"{self.kernel}/{self.operator}/{self.number}"

    @property
    def statement(self) -> str:
        """Dotted name of the instruction that the change concerns."""
        statement = subject(self.kernel).function.body[self.index]
        assert isinstance(statement, Instruction)
        return statement.name

    @property
    def line(self) -> int:
        """Line of that instruction in the text of the original."""
        source = subject(self.kernel).function.body[self.index].source  # type: ignore[union-attr]
        assert source is not None
        return int(source.line)

    @cached_property
    def module(self) -> Module:
        original = subject(self.kernel)
        function: Function = replace(original.function, body=self.body)
        functions = tuple(function if f is original.function else f for f in original.module.functions)
        return replace(original.module, functions=functions)


def mutants(kernels: Sequence[str] = KERNELS, operators: Sequence[str] = ()) -> Iterator[Mutant]:
    """Every mutant of these kernels by these operators (all if none are named)."""
    for kernel in kernels:
        body = subject(kernel).function.body
        for name, operator in OPERATORS.items():
            if operators and name not in operators:
                continue
            for number, site in enumerate(operator(body)):
                yield Mutant(kernel, name, number, site.index, site.body, expectation(kernel, name, number))


def changed(before: Body, after: Body) -> tuple[int, int]:
    """How many statements went and came, apart from what both have at the beginning and the end."""
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return len(before) - head - tail, len(after) - head - tail
