"""Every value form of the table: the simulator's result words are the GPU's, bit for bit.

Division by zero is unspecified and left out; NaN results count as equal, whatever their payload.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.isa import Form

from .machines import on_gpu, simulated
from .values import BATCH, TUPLES, Case, build, cases, operands, value_forms

ARCH = "sm_90a"
FORMS = [pytest.param(form, id=form.id) for form in value_forms()]
_NAN = {"f32": (0x7F800000, np.uint64(0x7FFFFFFF)), "f64": (0x7FF << 52, np.uint64((1 << 63) - 1))}


def _comparable(case: Case, words: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Result words with NaNs made equal and unspecified results masked."""
    words = words.copy()
    result = case.dest.name
    if case.match.form.opcode != "selp" and result in _NAN:
        infinity, mask = _NAN[result]
        words[(words & mask) > infinity] = infinity + 1
    if case.match.form.id in ("div.int", "rem.int"):
        bits = case.sources[1].bits
        divisor = given[1] & np.uint64((1 << bits) - 1)
        words[divisor == 0] = 0
    return words


def _batches(form: Form) -> list[list[Case]]:
    found = list(cases(form, ARCH))
    return [found[i : i + BATCH] for i in range(0, len(found), BATCH)]


@pytest.mark.parametrize("form", FORMS)
def test_every_variant_runs_in_the_simulator(form: Form) -> None:
    given = operands()
    for batch in _batches(form):
        empty = np.zeros((len(batch), TUPLES), np.uint64)
        (words,) = simulated(build(batch, ARCH), [given], [empty])
        assert words.any()


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
def test_simulator_agrees_with_the_gpu(form: Form) -> None:
    given = operands()
    wrong: list[str] = []
    for batch in _batches(form):
        kernel = build(batch, ARCH)
        empty = np.zeros((len(batch), TUPLES), np.uint64)
        (ours,) = simulated(kernel, [given], [empty])
        (theirs,) = on_gpu(kernel, [given], [empty])
        for case, mine, real in zip(batch, ours, theirs, strict=True):
            mine, real = _comparable(case, mine, given), _comparable(case, real, given)
            bad = np.flatnonzero(mine != real)
            if bad.size:
                i = int(bad[0])
                shown = ", ".join(f"{int(w):#x}" for w in given[: len(case.sources), i])
                wrong.append(
                    f"{case.name} ({bad.size} tuples): {shown} -> {int(mine[i]):#x}, GPU {int(real[i]):#x}"
                )
    assert not wrong, "\n".join(wrong)
