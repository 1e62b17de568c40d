"""The simulator against the recorded words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyptx.core.types import TYPES
from pyptx.isa.table import chapter_of
from pyptx.sim.code.semantic import Bound, semantic_of

from .case import KernelCase, Out
from .recording import outputs_of, read, words_of
from .simulate import NotRun, simulate
from .undefined import RULES
from .values import ValueCase, batch
from .words import Words

__all__ = ["Difference", "compare_kernel", "compare_outputs", "compare_values", "recorded", "table"]

#: Instructions in one kernel of the simulator.
_BATCH = 64


@dataclass(frozen=True)
class Difference:
    """A case where the simulator and the recording disagree; ``count`` of ``total`` results do."""

    case: str
    where: str
    ours: str
    theirs: str
    count: int = 0
    total: int = 0

    def __str__(self) -> str:
        if not self.total:
            return f"{self.case}: {self.ours}"
        return f"{self.case}: {self.count} of {self.total}; {self.where} -> ours {self.ours}, theirs {self.theirs}"


def table(differences: Sequence[Difference]) -> str:
    """Disagreements in columns: variant, how many, operands, ours, theirs."""
    rows = [("case", "wrong", "operands or place", "ours", "theirs")]
    for d in differences:
        rows.append((d.case, f"{d.count}/{d.total}" if d.total else "-", d.where, d.ours, d.theirs))
    widths = [min(max(len(row[i]) for row in rows), 72) for i in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


# --- value cases --------------------------------------------------------------------------------


def compare_values(cases: Sequence[ValueCase], single: bool = False) -> Iterator[Difference]:
    """Cases of one chapter against their recorded words.

    Args:
        single: one thread in each CTA, for which the simulator has code of its own.
    """
    for start in range(0, len(cases), _BATCH):
        yield from _compare_group(list(cases[start : start + _BATCH]), single)


def _compare_group(group: list[ValueCase], single: bool) -> Iterator[Difference]:
    run = batch(group)
    if single:
        run = replace(run, grid=(group[0].count,), block=(1,))
    try:
        # Each thread has inputs and outputs of its own: there is no order to check.
        (results,) = simulate(run, sanitize=False)
    except NotRun as error:
        if len(group) == 1:
            yield Difference(group[0].name, "", str(error), "")
            return
        # Those that run are compared all the same.
        for case in group:
            yield from _compare_group([case], single)
        return
    start = 0
    for case in group:
        stop = start + len(case.widths)
        difference = _difference(case, results[start:stop])
        if difference is not None:
            yield difference
        start = stop


def _difference(case: ValueCase, results: Words) -> Difference | None:
    recording = read("values", chapter_of(case.form.id))
    row = recording.rows.get(case.name) if recording is not None else None
    if row is None or row.fingerprint != case.fingerprint:
        return Difference(case.name, "", "not recorded" if row is None else "recorded of another kernel", "")
    theirs = words_of(case, row.data)
    wrong = np.zeros(case.count, np.bool_)
    semantic = semantic_of(case.form.id)
    bound = semantic.bound if semantic is not None else None
    kinds = _result_kinds(case)
    for kind, mine, real in zip(kinds, results, theirs, strict=True):
        wrong |= mine != real if bound is None else ~_within(mine, real, kind, bound)
    rule = RULES.get(case.form.id)
    if rule is not None:
        wrong &= ~rule.undefined(case.operands(), [_bits(kind) for kind in case.kinds])
    if not wrong.any():
        return None
    at = int(np.flatnonzero(wrong)[0])
    return Difference(
        case.name,
        ", ".join(
            _hex(word[at], _bits(kind)) for word, kind in zip(case.operands(), case.kinds, strict=True)
        ),
        " ".join(_hex(row[at], bits) for row, bits in zip(results, case.widths, strict=True)),
        " ".join(_hex(row[at], bits) for row, bits in zip(theirs, case.widths, strict=True)),
        int(wrong.sum()),
        case.count,
    )


def _result_kinds(case: ValueCase) -> list[str]:
    """The type of each result: a predicate behind a pair, a carry, are bits."""
    dest = next(s for s in case.form.specs() if s.access == "w")
    kind = dest.scalar_types(case.match.chosen)[0]
    return [kind.name if bits == kind.bits else f"b{bits}" for bits in case.widths]


def _bits(kind: str) -> int:
    return TYPES[kind].bits if kind in TYPES else 32


def _hex(word: Any, bits: int) -> str:
    return f"{int(word):0{max(bits // 4, 1)}x}"


# --- bounds -------------------------------------------------------------------------------------

#: Fraction and exponent bits of the floats that have bounds, and the lanes of a word.
_FLOATS = {"f16": (10, 16), "bf16": (7, 16), "f32": (23, 32), "f64": (52, 64)}


def _within(mine: Words, real: Words, kind: str, bound: Bound) -> NDArray[np.bool_]:
    """Which words are equal, or are floats as near to each other as the bound says."""
    name, lanes = kind, 1
    if kind in TYPES and TYPES[kind].lanes > 1:
        name, lanes = kind[: kind.rindex("x")], TYPES[kind].lanes
    if name not in _FLOATS:
        return mine == real
    fraction, bits = _FLOATS[name]
    good = np.ones(mine.shape, np.bool_)
    for lane in range(lanes):
        mask = np.uint64((1 << bits) - 1)
        a, b = ((words >> np.uint64(bits * lane)) & mask for words in (mine, real))
        good &= (a == b) | _near(a, b, fraction, bits, bound)
    return good


def _near(a: Words, b: Words, fraction: int, bits: int, bound: Bound) -> NDArray[np.bool_]:
    magnitude = np.uint64((1 << (bits - 1)) - 1)
    infinity = np.uint64(((1 << (bits - 1)) - 1) >> fraction << fraction)
    finite = ((a & magnitude) < infinity) & ((b & magnitude) < infinity)
    steps = np.abs(_ordinal(a, bits) - _ordinal(b, bits))
    found = finite & (steps <= bound.ulps)
    if bound.absolute:
        with np.errstate(invalid="ignore"):  # infinities, which are not near
            difference = np.abs(_number(a, fraction, bits) - _number(b, fraction, bits))
        found |= finite & (difference <= bound.absolute)
    return found


def _ordinal(words: Words, bits: int) -> NDArray[np.float64]:
    """Place of a float among all floats of its format, zero being 0 (exact enough: differences are small)."""
    magnitude = (words & np.uint64((1 << (bits - 1)) - 1)).astype(np.int64)
    return np.where(words >> np.uint64(bits - 1), -magnitude, magnitude)


def _number(words: Words, fraction: int, bits: int) -> NDArray[np.float64]:
    if bits == 64:
        return words.view(np.float64)
    if bits == 16 and fraction == 10:
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    return (words << np.uint64(32 - bits)).astype(np.uint32).view(np.float32).astype(np.float64)


# --- kernel cases -------------------------------------------------------------------------------


def recorded(chapter: str, case: KernelCase) -> list[NDArray[Any]] | Difference:
    """What the GPU answered, or why there is nothing to compare with."""
    recording = read("kernels", chapter)
    row = recording.rows.get(case.name) if recording is not None else None
    if row is None or row.fingerprint != case.fingerprint:
        return Difference(case.name, "", "not recorded" if row is None else "recorded of another kernel", "")
    return outputs_of(case, row.data)


def compare_kernel(
    chapter: str, case: KernelCase, schedule: str = "eager", seed: int = 0
) -> Iterator[Difference]:
    """One kernel case against its recorded outputs; they do not depend on the schedule."""
    theirs = recorded(chapter, case)
    if isinstance(theirs, Difference):
        yield theirs
        return
    try:
        ours = simulate(case, schedule, seed)
    except NotRun as error:
        yield Difference(case.name, "", str(error), "")
        return
    yield from compare_outputs(case, ours, theirs)


def compare_outputs(
    case: KernelCase, ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]
) -> Iterator[Difference]:
    """The simulator's outputs against the GPU's."""
    for number, (out, mine, real) in enumerate(zip(case.outputs, ours, theirs, strict=True)):
        if out.order == "any":
            mine = np.sort(mine, axis=-1)
        wrong = ~_agree(out, mine, real)
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            yield Difference(
                case.name,
                f"output {number} at {list(at)}",
                _shown(mine[at]),
                _shown(real[at]),
                int(wrong.sum()),
                wrong.size,
            )


def _agree(out: Out, mine: NDArray[Any], real: NDArray[Any]) -> NDArray[np.bool_]:
    raw = np.dtype(f"u{mine.dtype.itemsize}")
    a, b = (np.ascontiguousarray(array).view(raw) for array in (mine, real))
    if out.bound is None:
        return np.asarray(a == b)
    kind = "bf16" if mine.dtype.name == "bfloat16" else f"f{8 * mine.dtype.itemsize}"
    return _within(a.astype(np.uint64), b.astype(np.uint64), kind, out.bound)


def _shown(value: Any) -> str:
    raw = value.tobytes()[::-1].hex()
    return raw if value.dtype.kind in "uib" else f"{raw} ({value})"
