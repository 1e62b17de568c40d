"""The round trip: parsed, printed and assembled, a text gives the machine code and the data of the original."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyptx.ir import Module, parse_module, print_module
from pyptx.toolchain import Tool, assemble, disassemble

#: ptxas makes the name of a function's variable of its name in the text and the line; blanks follow its length.
_LOCAL_NAME = re.compile(r"\$__[\w$]+|(?<=;) +(?=/\*)")


def contents(cubin: bytes, nvdisasm: Tool) -> list[str]:
    """Code and initial data."""
    sections = disassemble(cubin, nvdisasm=nvdisasm, options=("--print-instruction-encoding",)).split(
        "\t.section\t"
    )
    kept = [s for s in sections if s.startswith((".text.", ".nv.global", ".nv.constant"))]
    assert kept
    return [_LOCAL_NAME.sub("$", section) for section in kept]


def check(
    text: str, ptxas: Tool, nvdisasm: Tool, target: str | None = None, options: Sequence[str] = ()
) -> Module:
    """Take ``text`` there and back; its module."""
    module = parse_module(text)
    printed = print_module(module).text
    again = parse_module(printed)
    assert again == module
    assert print_module(again).text == printed
    before, after = (assemble(t, target, ptxas=ptxas, options=options).cubin for t in (text, printed))
    if before != after:
        assert contents(before, nvdisasm) == contents(after, nvdisasm)
    return module
