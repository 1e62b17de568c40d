"""The correctness run of candidates in the simulator, at sizes that the author chooses.

Owns :func:`check_all`: small inputs, the runs, and the comparison with the author's reference, or with the
first candidate that runs clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import PyptxError, SpecError
from ...core.findings import Verdict
from ...dsl import Tile
from ...entry import Kernel
from ...entry.execute import outputs_of
from .candidates import Candidate, Make, State
from .jobs import is_random

__all__ = ["check_all"]

#: Seconds of one simulated run; a run that takes longer decides nothing.
_SECONDS = 60.0


def check_all(
    candidates: Sequence[Candidate],
    make: Make,
    sizes: Mapping[str, Any],
    reference: Callable[..., Any] | None,
    tolerance: tuple[float | None, float | None],
    step: Callable[[Candidate], None],
) -> None:
    """Run every ready candidate in the simulator; drop those that break a rule or compute something else.

    Args:
        candidates: all of the tuning.
        make: builds the kernel of a configuration for the sizes of this run.
        sizes: values of named dims.
        reference: a function of the inputs, numpy arrays, that returns what the outputs must be; without it
            the outputs of the first clean run.
        tolerance: ``rtol`` and ``atol`` of :meth:`.Kernel.simulate`.
        step: called after each run.
    """
    wanted: Any = None
    for candidate in candidates:
        if not candidate.ready:
            continue
        try:
            kernel, constants = make(candidate.configuration)
        except (PyptxError, ValueError, AssertionError) as error:
            candidate.drop(State.REFUSED, f"for check=: {_said(error)}")
            step(candidate)
            continue
        dims = {name: size for name, size in sizes.items() if name in _dims(kernel)}
        inputs = _inputs(kernel, dims)
        if wanted is None and reference is not None:
            wanted = outputs_of(reference, inputs)
        try:
            report = kernel.simulate(
                *inputs,
                reference=wanted,
                rtol=tolerance[0],
                atol=tolerance[1],
                timeout=_SECONDS,
                **dims,
                **constants,
            )
        except PyptxError as error:
            candidate.drop(State.WRONG, f"in the simulator: {_said(error)}")
        else:
            if report.verdict is Verdict.ERROR:
                candidate.drop(State.WRONG, f"in the simulator: {str(report.findings[0]).splitlines()[0]}")
            elif wanted is None and report.verdict is not Verdict.INCOMPLETE:
                wanted = [np.array(output) for output in report.outputs]
        step(candidate)


def _said(error: Exception) -> str:
    return error.summary if isinstance(error, PyptxError) else str(error) or type(error).__name__


def _dims(kernel: Kernel) -> set[str]:
    tiles = [spec for spec in kernel.options.specs if isinstance(spec, Tile)]
    return {dim for spec in tiles for dim in spec.dims if isinstance(dim, str)}


def _inputs(kernel: Kernel, dims: dict[str, int]) -> list[Any]:
    """Return inputs of these dims: normally distributed floats, integers 0 and 1, scalars 1."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for name, spec in zip(kernel.options.names, kernel.options.specs[: kernel.options.inputs], strict=False):
        if not isinstance(spec, Tile):
            found.append(1)
            continue
        missing = [dim for dim in spec.dims if isinstance(dim, str) and dim not in dims]
        if missing:
            raise SpecError(f"autotune: check= has no size for {missing[0]!r}, a dim of {name}")
        shape = spec.shape(dims)
        dtype = np.dtype(spec.dtype.dtype)
        drawn: Any = (
            rng.standard_normal(shape, np.float32) if is_random(spec.dtype) else rng.integers(0, 2, shape)
        )
        found.append(drawn.astype(dtype))
    return found
