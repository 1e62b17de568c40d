"""Every value form of the table, in every variant, against :mod:`tests.sim.oracle`.

Each variant runs through the real translator in all of its forms of code: whole warps (wide), the two
halves of a diverged warp and under a guard (masked), and lane by lane (plain Python numbers, where a
form's scalar expression takes the place of its array function).  All must give the same bits, and the bits
that the manual's words give.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pyptx.isa import all_forms, form, variants
from pyptx.sim.semantics import semantics
from tests.sim.oracle import ANY, EXPECTED, Nan
from tests.sim.values import SHAPES, Batch, Case, cases, extended

#: Forms whose meaning is control flow: the machine itself executes them.
CONTROL = {"bra", "ret", "exit"}
#: Cases of one kernel.
BATCH = 48


def batches(form_id: str) -> Iterator[Batch]:
    group = list(cases(form(form_id)))
    for start in range(0, len(group), BATCH):
        yield Batch(group[start : start + BATCH])


def test_every_form_has_a_meaning() -> None:
    assert {f.id for f in all_forms()} == set(semantics()) | CONTROL
    assert not set(semantics()) & CONTROL


def test_every_value_form_is_expected_here() -> None:
    assert {i for i, meaning in semantics().items() if meaning.per == "value"} == set(EXPECTED)


def test_every_variant_of_every_value_form_is_a_case() -> None:
    for identifier in EXPECTED:
        covered = {case.match.name for case in cases(form(identifier))}
        assert covered == {match.name for match in variants(form(identifier))}, identifier
        assert covered


@pytest.mark.parametrize("form_id", EXPECTED)
def test_value_form(form_id: str) -> None:
    for batch in batches(form_id):
        wide = batch.run(SHAPES[0])
        for shape in SHAPES[1:]:
            other = batch.run(shape)
            if not np.array_equal(other, wide):
                result, row = np.argwhere(other != wide)[0]
                pytest.fail(f"{shape} differ in result {result}, row {row}: {explain(batch, result, row)}")
        check(batch, wide)


def explain(batch: Batch, result: int, row: int) -> str:
    numbers = [case for case in batch.cases for _ in range(1 + case.pair)]
    case = numbers[result]
    return f"{case} of {[hex(column[row]) for column in batch.operands(case)]}"


def check(batch: Batch, got: np.ndarray[tuple[int, int], np.dtype[np.uint64]]) -> None:
    """The results against the oracle."""
    expected = EXPECTED[batch.cases[0].match.form.id]
    result = 0
    for case in batch.cases:
        chosen = case.match.chosen
        (kind,) = next(s for s in case.match.form.specs() if s.access == "w").scalar_types(chosen)
        values = got[result : result + 1 + case.pair].T.tolist()
        result += 1 + case.pair
        for row, (*operands, value) in enumerate(zip(*batch.operands(case), values, strict=True)):
            wanted = expected(chosen, *operands)
            if wanted is ANY:
                continue
            if isinstance(wanted, Nan):
                assert value[0] in wanted, f"{case} of {[hex(o) for o in operands]}: {value[0]:#x}, not a NaN"
                continue
            if isinstance(wanted, tuple):
                wanted = wanted if case.pair else wanted[:1]
            else:
                wanted = (extended(wanted, kind.name, case.destination),)
            assert tuple(value) == wanted, (
                f"{case}, row {row}, of {[hex(o) for o in operands]}: "
                f"{[hex(v) for v in value]}, expected {[hex(w) for w in wanted]}"
            )
