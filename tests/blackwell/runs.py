"""Runs a kernel of the table at its small size in the simulator, and notes what is known of it then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyptx.sim import Report

from .evidence.facts import Fact
from .evidence.forms import facts_of_text
from .evidence.observer import observed
from .registry import Product, Shape, run_time_sizes

__all__ = ["Run", "simulated"]


@dataclass(frozen=True)
class Run:
    """One simulated run.

    Attributes:
        report: of the run.
        error: of its result, as a fraction of the bound.
        seen: the fields of the descriptors and tensor maps that the kernel used.
        facts: these, and its instruction forms.
    """

    report: Report
    error: float
    seen: frozenset[Fact]
    facts: frozenset[Fact]


def simulated(product: Product, **options: Any) -> Run:
    """Run a kernel at its small size, with further options of ``simulate``."""
    seen: set[Fact] = set()
    with observed(seen.add):
        report, error, forms = _run(product, product.shape, product.small, **options)
        if product.also is not None:
            forms |= _run(product, *product.also, sanitize=False)[2]
    return Run(report, error, frozenset(seen), frozenset(seen | forms))


def _run(
    product: Product, shape: Shape, small: Mapping[str, int], **options: Any
) -> tuple[Report, float, set[Fact]]:
    kernel = product.build(*shape, **small)
    a, b = product.inputs(*shape)
    d = np.full(shape[:2], np.nan, product.dtype)
    report = kernel.simulate(a, b, out=d, **options)
    forms = facts_of_text(kernel.specialize(**run_time_sizes(kernel, shape[0])).module)
    return report, float(product.error(a, b, d)), forms
