"""What an instruction leaves undefined: tuples of operands whose results are not compared, each rule with its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .words import Words

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True)
class Rule:
    """``undefined(operands, widths)``: which tuples have no defined result; operands are raw bits."""

    reason: str
    undefined: Callable[[Sequence[Words], Sequence[int]], NDArray[np.bool_]]


def _zero_divisor(operands: Sequence[Words], widths: Sequence[int]) -> NDArray[np.bool_]:
    return operands[1] & np.uint64((1 << widths[1]) - 1) == 0


_DIVISION = Rule("division by zero yields an unspecified, machine-specific value", _zero_divisor)

#: By form.
RULES: dict[str, Rule] = {"div.int": _DIVISION, "rem.int": _DIVISION}
