"""Finding and running NVIDIA's assembler and disassembler, and reading what they print.

``find`` looks for the programs, ``messages`` reads what ptxas and the driver's JIT say, ``rejection``
turns a refusal into an error at the author's lines, ``ptxas`` assembles, ``nvdisasm`` shows the SASS.
"""

from .find import Tool, find_nvdisasm, find_ptxas
from .messages import Message, Resources, ToolReport, read_report
from .nvdisasm import disassemble
from .ptxas import Assembly, assemble, check_text
from .rejection import PtxRejectedError, rejection

__all__ = [
    "Assembly",
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
    "read_report",
    "rejection",
]
