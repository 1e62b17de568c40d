"""Finds and runs NVIDIA's assembler and disassembler, and parses their output.

``find`` looks for the programs, ``messages`` parses the output of ptxas and the driver's JIT, ``rejections``
turns their errors into an exception with the author's lines, ``ptxas`` assembles, ``nvdisasm`` shows SASS,
``control_codes`` decodes when an instruction is issued, ``cache`` keeps cubins on disk.  Each is imported on
first use: a kernel from the cache needs two of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .control_codes import ControlCode
    from .find import Tool, find_nvdisasm, find_ptxas
    from .messages import Message, Resources, ToolReport, read_report
    from .nvdisasm import MachineInstruction, disassemble, machine_instructions
    from .ptxas import Assembly, assemble, check_text
    from .rejections import PtxRejectedError, rejection

__all__ = [
    "Assembly",
    "ControlCode",
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

_HOME = {
    "ControlCode": "control_codes",
    **dict.fromkeys(("Tool", "find_nvdisasm", "find_ptxas"), "find"),
    **dict.fromkeys(("Message", "Resources", "ToolReport", "read_report"), "messages"),
    **dict.fromkeys(("MachineInstruction", "disassemble", "machine_instructions"), "nvdisasm"),
    **dict.fromkeys(("Assembly", "assemble", "check_text"), "ptxas"),
    **dict.fromkeys(("PtxRejectedError", "rejection"), "rejections"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
