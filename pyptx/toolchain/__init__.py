"""Finds and runs NVIDIA's assembler and disassembler, and parses their output.

``find`` looks for the programs, ``messages`` parses the output of ptxas and the driver's JIT, ``rejection``
turns their errors into an exception with the author's lines, ``ptxas`` assembles, ``nvdisasm`` shows SASS.
"""

from .find import Tool, find_nvdisasm, find_ptxas
from .messages import Message, Resources, ToolReport, read_report
from .nvdisasm import MachineInstruction, disassemble, machine_instructions
from .ptxas import Assembly, assemble, check_text
from .rejection import PtxRejectedError, rejection

__all__ = [
    "Assembly",
    "MachineInstruction",
    "Message",
    "PtxRejectedError",
    "ToolReport",
    "Resources",
    "Tool",
    "assemble",
    "check_text",
    "disassemble",
    "find_nvdisasm",
    "find_ptxas",
    "machine_instructions",
    "read_report",
    "rejection",
]
