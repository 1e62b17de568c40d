"""Minimum and maximum of floats as PTX defines them: -0 is less than +0, and a number wins over a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["extreme", "signed_by_both"]

_NUMBERS = {False: np.fmin, True: np.fmax}
_NANS = {False: np.minimum, True: np.maximum}
_SIGNS = {n: np.array(1 << (8 * n - 1), f"u{n}") for n in (2, 4, 8)}
#: By ``largest`` and size in bytes: the bits of the zero that loses the comparison with the other zero.
_LOSERS = {
    (largest, n): sign if largest else sign ^ sign for n, sign in _SIGNS.items() for largest in (False, True)
}


def _bits(value: Any) -> Any:
    return value.view(f"u{value.itemsize}")


def extreme(largest: bool, nan: bool, a: Any, b: Any) -> Any:
    """Return the larger or smaller of two floats of one type; with ``nan``, a NaN if either is a NaN."""
    result = (_NANS if nan else _NUMBERS)[largest](a, b)
    missed = np.isnan(result)
    if not nan and np.count_nonzero(missed):
        # For the last few elements numpy calls the C library, which returns a signaling NaN.
        result = np.where(missed, np.where(np.isnan(a), b, a), result)
    words = _bits(result)
    # numpy treats both zeros as equal: look for results that are the losing zero.
    if np.count_nonzero(words == _LOSERS[largest, words.itemsize]):
        x, y = _bits(a), _bits(b)
        both = x & y if largest else x | y  # equal numbers that are not zero have equal bits
        result = np.where(a == b, both, words).view(result.dtype)
    return result


def signed_by_both(result: Any, a: Any, b: Any) -> Any:
    """Apply ``.xorsign``: give a nonnegative result the product of the operands' signs."""
    return (_bits(result) | (_bits(a) ^ _bits(b)) & _SIGNS[result.itemsize]).view(result.dtype)
