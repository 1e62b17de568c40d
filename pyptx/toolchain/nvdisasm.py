"""Runs nvdisasm, which converts a cubin to SASS (machine instructions), and adds the author's lines to it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..core.errors import AssembleError
from ..core.source import SourceLocation, comment_lines
from .find import Tool, find_nvdisasm
from .messages import read_report

__all__ = ["disassemble"]

#: A source line in nvdisasm's output. After the line of an inlined function come those of its callers.
_MARKER = re.compile(
    r'\s*//## File "(?P<file>.*?)", line (?P<line>\d+)(?P<inlined> inlined at ".*", line \d+)?'
)


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
    tool = nvdisasm if isinstance(nvdisasm, Tool) else find_nvdisasm(nvdisasm)
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin)
        shown = ("--print-line-info-inline",) if lines else ()
        command = [str(tool.path), *options, *shown, "kernel.cubin"]
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
    return "".join(_annotated(done.stdout.splitlines(keepends=True))) if lines else done.stdout


def _annotated(printed: list[str]) -> Iterator[str]:
    """Yield the disassembly; its line markers become comments, one wherever the author's line changes."""
    chains: list[list[re.Match[str]]] = []
    inside = False
    previous: SourceLocation | None = None
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
            if location != previous:
                yield from (f"        // {line}\n" for line in comment_lines(location, previous))
            previous = location
            chains.clear()
            inside = False
        if text.startswith("\t.section"):
            previous = None
        yield text


def _location(chain: list[re.Match[str]]) -> SourceLocation:
    """Return the location of the innermost line of ``chain``, whose callers are the other lines."""
    location: SourceLocation | None = None
    for marker in reversed(chain):
        location = SourceLocation(marker["file"], int(marker["line"]), "", location)
    assert location is not None
    return location
