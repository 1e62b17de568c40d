"""Runs nvdisasm, which converts a cubin to SASS (machine instructions), and adds the author's lines to it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..core.errors import AssembleError
from ..core.records import dataclass
from ..core.source import SourceLocation, comment_lines
from .control_codes import ControlCode
from .find import Tool, find_nvdisasm
from .messages import read_report

__all__ = ["MachineInstruction", "disassemble", "machine_instructions"]


#: A source line in nvdisasm's output. After the line of an inlined function come those of its callers.
_MARKER = re.compile(
    r'\s*//## File "(?P<file>.*?)", line (?P<line>\d+)(?P<inlined> inlined at ".*", line \d+)?'
)

_SECTION = re.compile(r"\t\.section\t\.text\.(?P<function>[^,\s]+)")
#: A machine instruction: its address, an optional guard, the opcode with its modifiers, and the operands.
_INSTRUCTION = re.compile(
    r"(?P<indent>\s*)/\*(?P<address>[0-9a-f]+)\*/\s+"
    r"(?P<text>\{?\s*(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)[^;]*;\s*\}?)"
)
#: A label in front of an instruction, or the name of a routine.
_LABEL = re.compile(r"(?P<label>[.$\w]+):\s*$")
#: One of the two words of an instruction, at the end of a line; the lower one is on the instruction's line.
_WORD = re.compile(r"\s*/\* 0x(?P<word>[0-9a-f]{16}) \*/\s*$")
_ENCODED = "--print-instruction-encoding"


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """A machine instruction.

    Attributes:
        function: the function that it belongs to.
        address: bytes from the function's begin.
        opcode: the opcode with its modifiers, ``STL.64``.
        text: the instruction with guard and operands.
        control: when it is issued, and what it waits for.
        location: the author's line, or None.
        labels: the labels that stand in front of it.
    """

    function: str
    address: int
    opcode: str
    text: str
    control: ControlCode
    location: SourceLocation | None
    labels: tuple[str, ...] = ()


def machine_instructions(
    cubin: bytes, *, nvdisasm: Tool | str | os.PathLike[str] | None = None
) -> list[MachineInstruction]:
    """Return the machine instructions of ``cubin``; those of a text with ``.loc`` have the author's lines.

    The arguments and errors are those of :func:`disassemble`.
    """
    printed = _printed(cubin, nvdisasm, ("--print-code", "--print-line-info-inline", _ENCODED), 300.0)
    found: list[MachineInstruction] = []
    function = ""
    labels: tuple[str, ...] = ()
    for location, text, control in _controlled(_located(printed.splitlines())):
        if section := _SECTION.match(text):
            function, labels = section["function"], ()
        elif label := _LABEL.match(text):
            labels += (label["label"],)
        elif control is not None and (instruction := _INSTRUCTION.match(text)):
            address, words = int(instruction["address"], 16), " ".join(instruction["text"].split())
            found.append(
                MachineInstruction(function, address, instruction["opcode"], words, control, location, labels)
            )
            labels = ()
    return found


def disassemble(
    cubin: bytes,
    *,
    nvdisasm: Tool | str | os.PathLike[str] | None = None,
    lines: bool = False,
    control: bool = False,
    options: Sequence[str] = ("--print-code",),
    timeout: float = 300.0,
) -> str:
    """Return the SASS of ``cubin``.

    Args:
        cubin: an ELF image, as in :attr:`Assembly.cubin`.
        nvdisasm: the program or its path; searched for if None.
        lines: put the source lines between the instructions, as comments. The cubin has source lines if the
            text that was assembled had ``.loc``; otherwise no comments are added.
        control: put the :class:`.ControlCode` of each instruction, ``B0-----:R-:W1:-:S02``, in front of it.
        options: command-line options; the default prints only the code sections.
        timeout: seconds after which nvdisasm is stopped.

    Raises:
        AssembleError: nvdisasm cannot read the image, or did not finish.
        ToolNotFoundError: there is no nvdisasm.
    """
    shown = ("--print-line-info-inline",) * lines + (_ENCODED,) * control
    printed = _printed(cubin, nvdisasm, (*options, *shown), timeout)
    if not lines and not control:
        return printed
    located = _located(printed.splitlines(keepends=True))
    if control:
        located = ((location, _with_control(text, code)) for location, text, code in _controlled(located))
    return "".join(_annotated(located))


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


def _controlled(
    located: Iterable[tuple[SourceLocation | None, str]],
) -> Iterator[tuple[SourceLocation | None, str, ControlCode | None]]:
    """Yield the lines without the instructions' words, each instruction with its control code."""
    waiting: tuple[SourceLocation | None, str] | None = None
    for location, text in located:
        word = _WORD.search(text)
        if word is None:
            yield location, text, None
        elif waiting is None:
            waiting = location, text[: word.start()] + text[word.end() :]
        else:
            yield *waiting, ControlCode.decode(int(word["word"], 16))
            waiting = None


def _with_control(text: str, control: ControlCode | None) -> str:
    instruction = _INSTRUCTION.match(text)
    if control is None or instruction is None:
        return text
    address, words = instruction["address"], instruction["text"]
    return f"{instruction['indent']}/*{address}*/  {control}  {words}\n"


def _annotated(located: Iterable[tuple[SourceLocation | None, str]]) -> Iterator[str]:
    """Yield the disassembly; its line markers become comments, one wherever the author's line changes."""
    previous: SourceLocation | None = None
    for location, text in located:
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
