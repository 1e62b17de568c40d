"""The intermediate representation (IR): the grammar of PTX as frozen nodes, with a printer and a parser.

The IR knows the *grammar* of PTX, but not the instruction set: an opcode is a name, and a modifier is a name
after a dot.  :mod:`pyptx.isa` knows which opcodes, modifiers and operands go together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .data import (
    Alias,
    Attribute,
    Dwarf,
    File,
    Initial,
    InitialList,
    LabelDifference,
    Loc,
    MaskedSymbol,
    ModuleDirective,
    Pointer,
    Pragma,
    Section,
    SectionData,
    SectionLabel,
    Setting,
    SymbolAddress,
)
from .launch import Launch
from .lines import without_lines
from .nodes import (
    OPAQUE_TYPES,
    Address,
    Arguments,
    BranchTarget,
    CallPrototype,
    Directive,
    Element,
    Function,
    Guard,
    Immediate,
    Indexed,
    Instruction,
    LabelStatement,
    Minus,
    Module,
    Negated,
    Operand,
    Pair,
    Param,
    Raw,
    Register,
    RingBarriers,
    RingSide,
    ScopeMark,
    SharedRange,
    Sink,
    Special,
    Statement,
    Sum,
    Symbol,
    TargetList,
    Variable,
    Vector,
)
from .printer import PrintedModule, print_module
from .walk import leaves, map_registers, registers_of

if TYPE_CHECKING:
    from .parser import parse_module

__all__ = [
    "OPAQUE_TYPES",
    "Address",
    "Alias",
    "Arguments",
    "Attribute",
    "BranchTarget",
    "CallPrototype",
    "LabelDifference",
    "Directive",
    "Dwarf",
    "Element",
    "File",
    "Function",
    "Guard",
    "Immediate",
    "Indexed",
    "Initial",
    "InitialList",
    "Instruction",
    "LabelStatement",
    "Launch",
    "Loc",
    "MaskedSymbol",
    "Minus",
    "Module",
    "ModuleDirective",
    "Negated",
    "Operand",
    "Pair",
    "Param",
    "Pointer",
    "Pragma",
    "PrintedModule",
    "Raw",
    "Register",
    "ScopeMark",
    "Section",
    "SectionData",
    "SectionLabel",
    "Setting",
    "RingBarriers",
    "RingSide",
    "SharedRange",
    "Sink",
    "Special",
    "Statement",
    "Sum",
    "Symbol",
    "SymbolAddress",
    "TargetList",
    "Variable",
    "Vector",
    "leaves",
    "map_registers",
    "parse_module",
    "print_module",
    "registers_of",
    "without_lines",
]


def __getattr__(name: str) -> Any:
    # To record a kernel takes no parser.
    if name != "parse_module":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.parser").parse_module
