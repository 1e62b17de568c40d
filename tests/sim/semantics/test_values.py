"""Every value form of the table, in every variant, against :mod:`tests.sim.oracles.words`.

Each variant runs through the real translator in all of its forms of code: whole warps (wide), the two
halves of a diverged warp and under a guard (masked), and lane by lane (plain Python numbers, where a
form's scalar expression takes the place of its array function).  All must give the same bits, and the bits
that the manual's words give.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.types import TYPES
from pyptx.flow import accesses
from pyptx.ir import Function, LabelStatement, Module, Variable
from pyptx.isa import all_forms, form, variants
from pyptx.sim.code.semantic import semantics
from tests.isa.samples import instructions
from tests.sim.oracles.expected import ELSEWHERE, EXPECTED
from tests.sim.oracles.value_kernels import SHAPES, Batch, cases, extended
from tests.sim.oracles.words import ANY, Nan, Near, Packed

pytestmark = pytest.mark.smoke

#: Cases of one kernel.
BATCH = 48
#: Cases of a form that are run each time; the others are for ``-m slow``.
SAMPLE = BATCH // 2


def batches(form_id: str, most: int | None = None) -> Iterator[Batch]:
    """All cases of a form, or ``most`` of them, spread over its variants."""
    group = list(cases(form(form_id)))
    if most is not None and len(group) > most:
        group = [group[i * len(group) // most] for i in range(most)]
    for start in range(0, len(group), BATCH):
        yield Batch(group[start : start + BATCH])


#: Forms that must not lose their meaning.  (Those of the table that have none are refused: see below.)
MODELED = set(EXPECTED) | set(
    [
        "ld",
        "ld.strong",
        "st",
        "st.strong",
        "trap",
        "shfl.sync",
        "elect.sync",
        "bar.sync",
        "fence",
        "fence.mbarrier_init",
        "fence.proxy.async",
        "mbarrier.init",
        "mbarrier.inval",
        "mbarrier.arrive",
        "mbarrier.arrive.remote",
        "mbarrier.arrive.expect_tx",
        "mbarrier.arrive.expect_tx.remote",
        "mbarrier.expect_tx",
        "mbarrier.try_wait.parity",
        "mbarrier.test_wait.parity",
        "cp.async.bulk.tensor.load",
        "cp.async.bulk.tensor.store",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group",
        "tcgen05.alloc",
        "tcgen05.dealloc",
        "tcgen05.relinquish_alloc_permit",
        "tcgen05.mma.ss",
        "tcgen05.commit",
        "tcgen05.ld.32x32b",
        "tcgen05.ld.16x64b",
        "tcgen05.ld.16x128b",
        "tcgen05.ld.16x256b",
        "tcgen05.st.32x32b",
        "tcgen05.wait",
        "tcgen05.fence",
    ]
)


def test_forms_and_meanings() -> None:
    forms = {f.id for f in all_forms()}
    assert MODELED <= set(semantics()) <= forms


def test_a_form_without_a_meaning_is_refused() -> None:
    """The simulator fails closed: such a kernel ends as incomplete, naming the instruction."""
    missing = [f for f in all_forms() if f.id not in semantics()]
    for one in missing:
        # What another form has as well is executed as that form.
        binding, instruction = next((b, i) for b, i in instructions(one) if b.form_id == one.id)
        registers = dict.fromkeys(r for found in accesses(instruction, binding) for r in found)
        shared = Variable("in_shared", "shared", TYPES["b8"], 4096, 1024)
        function = Function("f", (), (), tuple(registers), (shared,), (instruction, LabelStatement("there")))
        report = sim.load(Module((9, 0), "sm_100a", (function,)), check=False).launch("f", grid=1, block=1)
        assert report.verdict == "incomplete", one
        (found,) = report.findings
        assert found.rule.name == "not-modeled"


def test_every_value_form_is_expected_here() -> None:
    assert {i for i, meaning in semantics().items() if meaning.per == "value"} == set(EXPECTED) | ELSEWHERE


@pytest.mark.full
def test_every_variant_of_every_value_form_is_a_case() -> None:
    for identifier in EXPECTED:
        covered = {case.match.name for case in cases(form(identifier))}
        assert covered == {match.name for match in variants(form(identifier))}, identifier
        assert covered


@pytest.mark.one_in(8)
@pytest.mark.parametrize("form_id", EXPECTED)
def test_value_form(form_id: str) -> None:
    hold(batches(form_id, SAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("form_id", EXPECTED)
def test_every_case_of_a_value_form(form_id: str) -> None:
    hold(batches(form_id))


def hold(found: Iterator[Batch]) -> None:
    """Every shape of code computes the same, and what the oracle expects."""
    for number, batch in enumerate(found):
        wide = batch.run(SHAPES[0])
        check(batch, wide)
        # Of a form with many cases, each batch takes one other shape, by turns.
        others = SHAPES[1:] if number < 3 else (SHAPES[1 + number % 3],)
        for shape in others:
            other = batch.run(shape)
            if shape == "single lanes":
                other, wide = other[:, :: batch.step], wide[:, :: batch.step]
            if not np.array_equal(other, wide):
                result, row = np.argwhere(other != wide)[0]
                row *= batch.step if shape == "single lanes" else 1
                pytest.fail(f"{shape} differ in result {result}: {explain(batch, result, row)}")


def explain(batch: Batch, result: int, row: int) -> str:
    numbers = [case for case in batch.cases for _ in range(1 + case.pair)]
    case = numbers[result]
    return f"{case} of {[hex(column[row]) for column in batch.operands(case)]}"


def check(batch: Batch, got: np.ndarray[tuple[int, int], np.dtype[np.uint64]]) -> None:
    """The results against the oracle."""
    expected = EXPECTED[batch.cases[0].match.form.id]
    result = 0
    for case in batch.cases:
        chosen = case.chosen
        (kind,) = next(s for s in case.match.form.specs() if s.access == "w").scalar_types(chosen)
        values = got[result : result + 1 + case.pair].T.tolist()
        result += 1 + case.pair
        known: dict[tuple[int, ...], Any] = {}
        for row, (*operands, value) in enumerate(zip(*batch.operands(case), values, strict=True)):
            key = tuple(operands)
            if key not in known:
                known[key] = expected(chosen, *operands)
            wanted = known[key]
            if wanted is ANY:
                continue
            if isinstance(wanted, (Nan, Near, Packed)):
                assert value[0] in wanted, (
                    f"{case} of {[hex(o) for o in operands]}: {value[0]:#x}, not {wanted}"
                )
                continue
            if isinstance(wanted, tuple):
                wanted = wanted if case.pair else wanted[:1]
            else:
                wanted = (extended(wanted, kind.name, case.destination),)
            assert tuple(value) == wanted, (
                f"{case}, row {row}, of {[hex(o) for o in operands]}: "
                f"{[hex(v) for v in value]}, expected {[hex(w) for w in wanted]}"
            )
