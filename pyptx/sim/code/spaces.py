"""Translates the names of state spaces in variables and modifiers to :class:`~.memory.access.StateSpace`."""

from __future__ import annotations

from ...isa.notation import OperandSpec
from ...isa.operands import address_space
from ..memory.access import StateSpace

__all__ = ["VARIABLE_SPACES", "named_space"]

#: The state space of a variable or parameter by its name in the IR. A parameter in a register has none.
VARIABLE_SPACES = {
    "global": StateSpace.GLOBAL,
    "shared": StateSpace.SHARED,
    "local": StateSpace.LOCAL,
    "param": StateSpace.PARAM,
    "const": StateSpace.CONST,
}
_NAMED = {
    **VARIABLE_SPACES,
    "shared::cta": StateSpace.SHARED,
    "shared::cluster": StateSpace.SHARED,
    "param::entry": StateSpace.PARAM,
    "param::func": StateSpace.PARAM,
    "tensor": StateSpace.TENSOR,
}


def named_space(spec: OperandSpec, chosen: dict[str, str]) -> StateSpace:
    """Return the state space that an instruction with the modifiers ``chosen`` names for an address.

    The space is ``GENERIC`` if the instruction names none, and also for textures, surfaces and the fabric,
    which the simulator does not have.
    """
    return _NAMED.get(address_space(spec, chosen), StateSpace.GENERIC)
