"""Division of u32 registers: by shifts for powers of two, by a multiplication for other numbers.

For ``div.u32`` ptxas makes a reciprocal in floating point with two corrections: 14 machine instructions for a
number, even if it is a power of two, and 19 for a register (measured with ptxas 13.0 and 13.5, sm_90a and
sm_100a).  Here 1 to 6 instructions are recorded for a number, and each is at most one machine instruction.
"""

from __future__ import annotations

from ..core.errors import SpecError
from ..core.tuples import NamedTuple
from ..core.types import u32
from ..dsl import Reg, ptx, reg

__all__ = ["fast_divmod", "quotient", "remainder"]

#: All u32 numbers are below it.
_ALL = 1 << 32


class _Multiplier(NamedTuple):
    """``n // divisor`` is ``(n * factor) >> (32 + shift)``."""

    factor: int
    shift: int


def _multiplier(divisor: int, bits: int) -> _Multiplier:
    """Return the smallest factor that divides all numbers of ``bits`` bits; it may have 33 bits.

    From Granlund and Montgomery, "Division by invariant integers using multiplication", figure 6.2: every
    factor f with ``2**(32 + s) <= f * divisor <= 2**(32 + s) + 2**(32 + s - bits)`` serves.
    """
    shift = (divisor - 1).bit_length()
    low = (1 << (32 + shift)) // divisor
    high = ((1 << (32 + shift)) + (1 << (32 + shift - bits))) // divisor
    while shift and low >> 1 < high >> 1:
        low, high, shift = low >> 1, high >> 1, shift - 1
    return _Multiplier(high, shift)


def _check(divisor: int, limit: int) -> None:
    if type(divisor) is not int or not 1 <= divisor < _ALL:
        raise SpecError(f"divisor is {divisor!r}: expected 1 to 2**32 - 1, or a u32 register")
    if type(limit) is not int or not 1 <= limit <= _ALL:
        raise SpecError(f"limit is {limit!r}: expected 1 to 2**32")


def fast_divmod(number: Reg, divisor: Reg | int, *, limit: int = _ALL) -> tuple[Reg, Reg]:
    """Return quotient and remainder of a u32 register, two new registers.

    Records for a divisor that is

    * 1: two ``mov``; another power of two: ``shr`` and ``and``;
    * another int: the 2 to 5 instructions of :func:`quotient`, and ``mad.lo``;
    * a register: ``div`` and ``rem``.

    Args:
        number: the dividend, a u32 register.
        divisor: 1 to 2**32 - 1, or a u32 register.
        limit: the number is below it. Every divisor takes 3 instructions up to 2**31, some up to 6 above.

    Raises:
        SpecError: a divisor or limit out of range.
    """
    if isinstance(divisor, Reg):
        return number // divisor, number % divisor
    result = quotient(number, divisor, limit=limit)
    if divisor & (divisor - 1) == 0:
        return result, remainder(number, divisor, limit=limit)
    return result, _rest(number, result, divisor)


def _rest(number: Reg, result: Reg, divisor: int) -> Reg:
    """Return ``number - result * divisor``. Records ``mad.lo``."""
    rest = reg.scalar(u32)
    ptx.inst.mad.lo.u32(rest, result, _ALL - divisor, number)
    return rest


def remainder(number: Reg, divisor: Reg | int, *, limit: int = _ALL) -> Reg:
    """Return the remainder of a u32 register, a new register.

    Records ``and`` for a power of two (``mov`` for 1), ``rem`` for a register, else what :func:`fast_divmod`
    does.  The arguments and errors are those of :func:`fast_divmod`.
    """
    if isinstance(divisor, Reg):
        return number % divisor
    _check(divisor, limit)
    if divisor == 1:
        return reg.scalar(u32, init=0)
    if divisor & (divisor - 1) == 0:
        return number & (divisor - 1)
    return _rest(number, quotient(number, divisor, limit=limit), divisor)


def quotient(
    number: Reg, divisor: Reg | int, *, limit: int = _ALL, out: Reg | None = None, pred: Reg | None = None
) -> Reg:
    """Return the quotient of a u32 register, a new register or ``out``.

    Records ``mov`` for 1, ``shr`` for another power of two, ``div`` for a register.  For another int
    ``mul.hi`` and ``shr``, which is missing where the shift is 0.  If the factor has 33 bits: a ``shr``
    before them where the divisor is even, else ``mul.hi``, ``sub``, ``shr``, ``add``, ``shr``.

    Args:
        number, divisor, limit: as for :func:`fast_divmod`.
        out: a u32 register for the quotient.
        pred: guard of all instructions.

    Raises:
        SpecError: a divisor or limit out of range.
    """
    result = reg.scalar(u32) if out is None else out
    if isinstance(divisor, Reg):
        ptx.inst.div.u32(result, number, divisor, pred=pred)
        return result
    _check(divisor, limit)
    if divisor == 1:
        ptx.inst.mov.u32(result, number, pred=pred)
        return result
    if divisor & (divisor - 1) == 0:
        ptx.inst.shr.u32(result, number, divisor.bit_length() - 1, pred=pred)
        return result
    bits = max(1, (limit - 1).bit_length())
    factor, shift = _multiplier(divisor, bits)
    even = (divisor & -divisor).bit_length() - 1
    if factor >= _ALL and even:
        # A number without its trailing zeros has fewer bits, and so a shorter factor.
        factor, shift = _multiplier(divisor >> even, bits - even)
        shifted = reg.scalar(u32)
        ptx.inst.shr.u32(shifted, number, even, pred=pred)
        number = shifted
    if factor < _ALL:
        ptx.inst.mul.hi.u32(result, number, factor, pred=pred)
    else:
        # (number * 2**32 + number * low) >> 32, whose sum has 33 bits, so it is halved on the way.
        low = reg.scalar(u32)
        ptx.inst.mul.hi.u32(low, number, factor - _ALL, pred=pred)
        half = reg.scalar(u32)
        ptx.inst.sub.u32(half, number, low, pred=pred)
        ptx.inst.shr.u32(half, half, 1, pred=pred)
        ptx.inst.add.u32(result, half, low, pred=pred)
        shift -= 1
    if shift:
        ptx.inst.shr.u32(result, result, shift, pred=pred)
    return result
