"""The mutants: one change each, in text that the table accepts, always the same, each with an expectation."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from pyptx.core.findings import RULES
from pyptx.ir import Instruction, parse_module, print_module
from pyptx.isa import check_module

from . import frozen
from .exceptions import EXCEPTIONS
from .expected import EXPECTED, Expectation
from .kernels import KERNELS, subject
from .mutants import Mutant, changed, mutants
from .operators import OPERATORS

#: Small kernels: enough for a first look.
_SMALL = ("message", "named-barriers", "tma-copy")
_CLUSTER = {"cluster-barrier-of-the-cta", "cluster-barrier-deleted"}


def _moved(mutant: Mutant) -> bool:
    """Whether the mutant has all statements of the original, and the order of the others is as it was."""
    before, after = list(subject(mutant.kernel).function.body), list(mutant.body)
    statement = before.pop(mutant.index)
    return any(s == statement and after[:i] + after[i + 1 :] == before for i, s in enumerate(after))


def _changes_one(mutant: Mutant) -> bool:
    counts = changed(subject(mutant.kernel).function.body, mutant.body)
    if mutant.operator in _CLUSTER:  # both halves of a barrier
        return counts in ((2, 0), (2, 1))
    return counts in ((1, 0), (0, 1), (1, 1)) or _moved(mutant)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_mutant_differs_in_one_statement(kernel: str) -> None:
    assert [m.name for m in mutants([kernel]) if not _changes_one(m)] == []


@pytest.mark.full
def test_every_operator_has_sites() -> None:
    assert {m.operator for m in mutants()} == set(OPERATORS)


def _accepted(found: list[Mutant]) -> list[str]:
    """What is wrong with the texts of mutants, by the table."""
    faults = []
    for mutant in found:
        text = print_module(mutant.module).text
        faults += [f"{mutant.name}: {fault.message}" for fault in check_module(parse_module(text))]
    return faults


@pytest.mark.parametrize("kernel", _SMALL)
def test_texts_are_accepted(kernel: str) -> None:
    assert _accepted(list(mutants([kernel]))) == []


@pytest.mark.one_in(5)
@pytest.mark.full
@pytest.mark.parametrize("operator", OPERATORS)
def test_texts_of_every_operator_are_accepted(operator: str) -> None:
    """Of each kernel one, which has the operator's statement as all of them have."""
    chosen = [m for kernel in KERNELS for m in islice(mutants([kernel], [operator]), 1)]
    assert chosen and _accepted(chosen) == []


@pytest.mark.parametrize("kernel", _SMALL)
def test_the_list_is_the_same_each_time(kernel: str) -> None:
    first, second = ([(m.name, m.index, m.body) for m in mutants([kernel])] for _ in range(2))
    assert first == second and len({name for name, *_ in first}) == len(first)


@pytest.mark.full
def test_the_list_is_the_frozen_one() -> None:
    """After a change of a kernel or an operator: ``python -m tests.mutants freeze``, and look at the difference."""
    assert frozen.lines(mutants()) == frozen.read()


def test_every_operator_has_an_expectation() -> None:
    assert set(EXPECTED) == set(OPERATORS)


@pytest.mark.full
def test_every_exception_is_of_a_mutant() -> None:
    assert set(EXCEPTIONS) <= {(m.kernel, m.operator, m.number) for m in mutants()}


@pytest.mark.sample(1)
@pytest.mark.parametrize("expected", [*EXPECTED.values(), *EXCEPTIONS.values()])
def test_expectations_can_be_met(expected: Expectation) -> None:
    """A bug needs a rule of its severity; what is for review or harmless says why."""
    severities = Counter(str(RULES[rule].severity) for rule in expected.rules)
    if expected.kind == "harmless":
        assert not expected.rules and expected.reason
        return
    assert expected.anchor
    assert severities["error" if expected.kind == "error" else "review"]
    assert expected.kind == "error" or expected.reason


def test_a_move_is_one_change() -> None:
    """The check of one change can fail."""
    (mutant, *_) = mutants(["named-barriers"], ["barrier-behind-the-load"])
    assert _changes_one(mutant)
    broken = [s for s in mutant.body if not (isinstance(s, Instruction) and s.opcode == "ld")]
    assert not _changes_one(Mutant(*_fields(mutant), tuple(broken), mutant.expected))


def _fields(mutant: Mutant) -> tuple[str, str, int, int]:
    return mutant.kernel, mutant.operator, mutant.number, mutant.index
