"""Every launch by its name."""

from __future__ import annotations

from .exchange_cases import EXCHANGE_CASES
from .launches import Case
from .product_cases import PRODUCT_CASES
from .triton_cases import TRITON_CASES

__all__ = ["CASES"]

CASES: dict[str, Case] = {case.name: case for case in PRODUCT_CASES + EXCHANGE_CASES + TRITON_CASES}
