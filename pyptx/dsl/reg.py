"""``reg``: declares registers in a kernel.

``reg.scalar(u32)`` declares a register and records nothing; with ``init=`` it records one ``mov``.  The
register is named after the Python variable that it is assigned to.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import OperandError
from ..core.types import ScalarType
from .call_sites import here
from .register_arrays import RegArray
from .registers import NotPred, Number, Reg, move, new_register
from .symbols import declare
from .trace import current
from .types import the_type

__all__ = ["array", "declare", "scalar"]

#: The largest number of registers of one array. (A thread of the hardware has 255 registers of 32 bits.)
_LONGEST = 1 << 16


def scalar(kind: ScalarType, init: Reg | NotPred | Number | None = None, *, name: str | None = None) -> Reg:
    """Declare a new register of type ``kind``.

    Records nothing, or one ``mov`` with ``init`` (one ``not.pred`` for ``init=~p``).

    Args:
        kind: PTX type. Formats without registers of their own (bf16, tf32, e4m3 ...) are declared as bits.
        init: first value: a register of this type, or a number that fits the type.
        name: name in the text; default: the Python variable that the result is bound to.

    Raises:
        OperandError: ``kind`` is not a type, or ``init`` has another type or is out of range.
        TraceError: outside a kernel.

    PTX ISA: `#register-state-space`.
    """
    trace = current()
    kind = the_type(kind)
    site, source = here()
    hint = name or site.name or "r"
    if init is None:
        return new_register(trace, kind, hint, source)
    with trace.atomic():
        register = new_register(trace, kind, hint, source)
        move(trace, register, init, source)
    return register


def array(
    kind: ScalarType,
    count: int,
    init: Reg | Number | Sequence[Reg | Number] | None = None,
    *,
    name: str | None = None,
) -> RegArray:
    """Declare ``count`` registers of type ``kind``: ``%out0``, ``%out1`` ... for a variable ``out``.

    ``a, b = reg.array(u32, 2)`` makes ``%a`` and ``%b``.

    Records nothing, or ``count`` ``mov`` with ``init``.

    Args:
        kind: PTX type of each.
        count: how many, 1 to 65536.
        init: one value for all, or a sequence of ``count`` values.
        name: stem of the names; default: the Python variable that the result is bound to.

    Raises:
        OperandError: as for :func:`scalar`, or a sequence of another length.
        TraceError: outside a kernel.
    """
    trace = current()
    kind = the_type(kind)
    if not 1 <= count <= _LONGEST:
        raise OperandError(f"count is {count}: expected 1..{_LONGEST} registers")
    site, source = here()
    hint = name or site.name or "v"
    values: Sequence[Reg | Number | None]
    if isinstance(init, Sequence):
        values = init
        if len(values) != count:
            raise OperandError(f"{len(values)} initial values for {count} registers")
    else:
        values = [init] * count
    with trace.atomic():
        hints: Sequence[str] = site.names
        if name is not None or len(hints) != count:
            stem = trace.free_stem(hint, count)
            hints = [f"{stem}{i}" for i in range(count)]
        registers = [new_register(trace, kind, wish, source) for wish in hints]
        for register, value in zip(registers, values, strict=True):
            if value is not None:
                move(trace, register, value, source)
    return RegArray(registers, kind, hint)
