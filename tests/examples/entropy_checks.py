"""What every design of cross-entropy must do with rows that do not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyptx import ScalarType

from .loading import load_example

entropy = load_example("hopper/cross_entropy.py")


def check_rows_that_do_not_count(
    V: int, dtype: ScalarType, target_dtype: ScalarType, run: Callable[[Any, Any, Any], Any]
) -> None:
    """An ignored row has no loss and no gradient, whatever is in it; a target that is none has the loss NaN.

    ``run`` returns gradient, loss and log-sum-exp of rows, their targets and the factor.
    """
    x, target, factor = entropy.make_inputs(6, V, dtype=dtype)
    target[:4] = -100, -100, V, -1
    x[1] = np.nan
    gradient, loss, lse = run(x, target.astype(target_dtype.dtype), factor)
    assert (gradient[:2] == 0).all() and (loss[:2] == 0).all() and np.isnan(loss[2:4]).all()
    exact = entropy.reference(x, target, factor)
    assert np.allclose(gradient[2:4].astype(np.float64), exact[0][2:4], rtol=2.0**-7)
    assert entropy.worst_error(x[4:], target[4:], factor, gradient[4:], loss[4:], lse[4:]) <= 1
