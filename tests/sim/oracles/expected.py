"""The oracles of all value forms, from every chapter's module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sim.oracles import conversion as oracle_conversion
from tests.sim.oracles import floating as oracle_floating
from tests.sim.oracles import integer as oracle_integer
from tests.sim.oracles import words as oracle

__all__ = ["ELSEWHERE", "EXPECTED"]

#: Form id -> what it must compute.
EXPECTED: dict[str, Callable[..., Any]] = {
    **oracle.EXPECTED,
    **oracle_conversion.EXPECTED,
    **oracle_floating.EXPECTED,
    **oracle_integer.EXPECTED,
}

#: Value forms that have tests of their own: vectors of registers as operands (test_moves), ranks in addresses
#: (test_cluster), cache policies (test_cache), states of barriers (test_mbarrier_forms), sparse vectors (test_sparse).
ELSEWHERE = {
    "createpolicy.cvt",
    "createpolicy.fractional",
    "cvt.f8x4.rs",
    "getctarank",
    "mapa",
    "mbarrier.pending_count",
    "mbarrier.pending_count.layout",
    "mov.b128",
    "mov.pack.b128",
    "mov.pack.b128.v4",
    "mov.pack.b16",
    "mov.pack.b32",
    "mov.pack.b32.v4",
    "mov.pack.b64",
    "mov.pack.b64.v4",
    "mov.unpack.b128",
    "mov.unpack.b128.v4",
    "mov.unpack.b16",
    "mov.unpack.b32",
    "mov.unpack.b32.v4",
    "mov.unpack.b64",
    "mov.unpack.b64.v4",
    "mov.vec",
    "spdecompress",
}
