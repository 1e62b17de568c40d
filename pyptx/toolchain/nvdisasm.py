"""Runs nvdisasm, which converts a cubin to SASS (machine instructions), and adds the author's lines to it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core.errors import AssembleError
from ..core.records import dataclass
from ..core.source import SourceLocation, comment_lines
from .find import Tool, find_nvdisasm
from .messages import read_report

__all__ = ["MachineInstruction", "disassemble", "machine_instructions"]


#: A source line in nvdisasm's output. After the line of an inlined function come those of its callers.
_MARKER = re.compile(
    r'\s*//## File "(?P<file>.*?)", line (?P<line>\d+)(?P<inlined> inlined at ".*", line \d+)?'
)

_SECTION = re.compile(r"\t\.section\t\.text\.(?P<function>[^,\s]+)")
#: A machine instruction: its address, an optional guard and the opcode with its modifiers.
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+\{?\s*(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)")


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """A machine instruction: its function, its opcode with modifiers (``STL.64``), and the author's line."""

    function: str
    opcode: str
    location: SourceLocation | None


def machine_instructions(
    cubin: bytes, *, nvdisasm: Tool | str | os.PathLike[str] | None = None
) -> list[MachineInstruction]:
    """Return the machine instructions of ``cubin``; those of a text with ``.loc`` have the author's lines.

    The arguments and errors are those of :func:`disassemble`.
    """
    printed = _printed(cubin, nvdisasm, ("--print-code", "--print-line-info-inline"), 300.0)
    found: list[MachineInstruction] = []
    function = ""
    for location, text in _located(printed.splitlines()):
        if section := _SECTION.match(text):
            function = section["function"]
        elif instruction := _INSTRUCTION.match(text):
            found.append(MachineInstruction(function, instruction["opcode"], location))
    return found


def disassemble(
    cubin: bytes,
    *,
    nvdisasm: Tool | str | os.PathLike[str] | None = None,
    lines: bool = False,
    options: Sequence[str] = ("--print-code",),
    timeout: float = 300.0,
) -> str:
    """Return the SASS of ``cubin``.

    Args:
        cubin: an ELF image, as in :attr:`Assembly.cubin`.
        nvdisasm: the program or its path; searched for if None.
        lines: put the source lines between the instructions, as comments. The cubin has source lines if the
            text that was assembled had ``.loc``; otherwise no comments are added.
        options: command-line options; the default prints only the code sections.
        timeout: seconds after which nvdisasm is stopped.

    Raises:
        AssembleError: nvdisasm cannot read the image, or did not finish.
        ToolNotFoundError: there is no nvdisasm.
    """
    shown = ("--print-line-info-inline",) if lines else ()
    printed = _printed(cubin, nvdisasm, (*options, *shown), timeout)
    return "".join(_annotated(printed.splitlines(keepends=True))) if lines else printed


def _printed(
    cubin: bytes, nvdisasm: Tool | str | os.PathLike[str] | None, options: Sequence[str], timeout: float
) -> str:
    """Return what nvdisasm prints with these options."""
    tool = nvdisasm if isinstance(nvdisasm, Tool) else find_nvdisasm(nvdisasm)
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin)
        command = [str(tool.path), *options, "kernel.cubin"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise AssembleError(f"nvdisasm {tool.version_text} did not finish within {timeout:g} s") from None
    if done.returncode != 0:
        raise AssembleError(
            f"nvdisasm {tool.version_text} cannot disassemble an image of {len(cubin)} bytes",
            details=[m.text for m in read_report(done.stdout + done.stderr).messages],
            hint="pass a cubin, such as Assembly.cubin",
        )
    return done.stdout


def _annotated(printed: list[str]) -> Iterator[str]:
    """Yield the disassembly; its line markers become comments, one wherever the author's line changes."""
    previous: SourceLocation | None = None
    for location, text in _located(printed):
        if location is not None and location != previous:
            yield from (f"        // {line}\n" for line in comment_lines(location, previous))
        previous = location
        yield text


def _located(printed: list[str]) -> Iterator[tuple[SourceLocation | None, str]]:
    """Yield the lines without the markers, each with the author's line that the last markers named.

    A new section begins without a line.
    """
    chains: list[list[re.Match[str]]] = []
    inside = False
    location: SourceLocation | None = None
    for text in printed:
        marker = _MARKER.fullmatch(text.rstrip("\n"))
        if marker is not None:
            if not inside:
                chains.append([])
            chains[-1].append(marker)
            inside = marker["inlined"] is not None
            continue
        if chains:
            # If there are several chains at one address, the last one belongs to the instruction.
            location = _location(chains[-1])
            chains.clear()
            inside = False
        if text.startswith("\t.section"):
            location = None
        yield location, text


def _location(chain: list[re.Match[str]]) -> SourceLocation:
    """Return the location of the innermost line of ``chain``, whose callers are the other lines."""
    location: SourceLocation | None = None
    for marker in reversed(chain):
        location = SourceLocation(marker["file"], int(marker["line"]), "", location)
    assert location is not None
    return location
