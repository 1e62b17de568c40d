"""The instruction table, its notation, and the checks of instructions and modules against the table.

Every form of an instruction is one entry of text under :mod:`pyptx.isa.forms`; see docs/notation.md.
"""

from .availability import unavailable
from .binding import Binding, BoundInstructions, Shape, bind, bind_instruction, check_target, required_version
from .checking import check_kernel, check_module
from .notation import Form, NotationError
from .operands import describe
from .table import Match, all_forms, form, forms_of, match_modifiers, opcodes, variants
from .targets import KNOWN_TARGETS, Target, TargetSet, Version, target

__all__ = [
    "KNOWN_TARGETS",
    "Binding",
    "BoundInstructions",
    "Form",
    "Match",
    "NotationError",
    "Shape",
    "Target",
    "TargetSet",
    "Version",
    "all_forms",
    "bind",
    "bind_instruction",
    "check_kernel",
    "check_module",
    "check_target",
    "describe",
    "form",
    "forms_of",
    "match_modifiers",
    "opcodes",
    "required_version",
    "target",
    "unavailable",
    "variants",
]
