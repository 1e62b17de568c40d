"""The facts of our kernels that the committed table does not have, each with the reason why it should be right."""

from __future__ import annotations

from .facts import Fact

__all__ = ["REASONS"]

#: By fact. A test fails if one of them is proven, or if no kernel has it.
REASONS: dict[Fact, str] = {}
