"""A kernel as a value: the grammar of PTX as frozen nodes, and the printer.

The IR knows the *grammar* of PTX, never the instruction set: an opcode is a word, a modifier is a
word behind a dot.  What may be combined is the business of :mod:`pyptx.isa`.
"""

from .nodes import (
    Address,
    BranchTarget,
    Directive,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Launch,
    Module,
    Negated,
    Operand,
    Pair,
    Param,
    Raw,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from .printer import PrintedModule, print_module

__all__ = [
    "Address",
    "BranchTarget",
    "Directive",
    "Function",
    "Guard",
    "Immediate",
    "Instruction",
    "Label",
    "Launch",
    "Module",
    "Negated",
    "Operand",
    "Pair",
    "Param",
    "PrintedModule",
    "Raw",
    "Register",
    "Sink",
    "Special",
    "Symbol",
    "Variable",
    "Vector",
    "print_module",
]
