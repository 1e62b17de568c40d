"""Running ptxas: PTX text to a cubin, with everything it said about the text."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import TargetError
from ..ir.printer import PrintedModule
from .find import Tool, find_ptxas
from .messages import Message, Resources, ToolReport, read_report
from .rejection import located, rejection

__all__ = ["Assembly", "assemble", "check_text", "target_of"]

#: Seconds. The largest kernels take a few; spilling ones with thousands of registers a minute.
DEFAULT_TIMEOUT = 300.0

_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Assembly:
    """What ptxas made of one text.

    Attributes:
        cubin: the ELF image for the driver or nvdisasm.
        report: what ptxas said, resource use of every function included.
        ptxas: the program that did it.
        target: the architecture assembled for.
    """

    cubin: bytes = field(repr=False)
    report: ToolReport
    ptxas: Tool
    target: str

    @property
    def resources(self) -> tuple[Resources, ...]:
        """Registers, spills, stack and shared memory, one entry per function."""
        return self.report.resources

    @property
    def registers(self) -> int:
        """32-bit registers of a thread: the most that any kernel of the module has."""
        return max((r.registers for r in self.report.resources), default=0)

    @property
    def shared(self) -> int:
        """Static shared memory of a CTA in bytes: the most that any kernel of the module has."""
        return max((r.shared for r in self.report.resources), default=0)

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads, all functions together."""
        return sum(r.spills for r in self.report.resources)

    @property
    def warnings(self) -> tuple[Message, ...]:
        return self.report.warnings

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes such as C7508 (setmaxnreg dropped) or C7517 (wgmma repaired): right results, lost speed."""
        return self.report.notes


def target_of(text: str) -> str | None:
    """The architecture in the text's ``.target`` directive (``"sm_100a"``), or None."""
    match = _TARGET.search(text)
    return match[1] if match is not None else None


def assemble(
    printed: PrintedModule | str,
    target: str | None = None,
    *,
    ptxas: Tool | str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> Assembly:
    """Assemble ``printed`` with ptxas.

    Args:
        printed: PTX text, best with its table of lines: errors then show the author's Python lines.
        target: architecture; the text's ``.target`` if None.
        ptxas: the program or its path; searched for if None (see :func:`find_ptxas`).
        options: more command-line options, such as ``("-lineinfo",)``.
        timeout: seconds after which ptxas is stopped, which counts as a refusal.

    Raises:
        AssembleError: ptxas refused the text; ``messages`` holds all that it said.
        TargetError: a virtual architecture (``compute_100a``), for which ptxas writes no cubin.
        ToolNotFoundError: there is no ptxas.
    """
    text = printed if isinstance(printed, str) else printed.text
    tool = _tool(ptxas)
    chosen = target or target_of(text)
    report, cubin = _run(tool, text, chosen, options, timeout)
    if not report.ok:
        where = f" for {chosen}" if chosen else ""
        raise rejection(report, printed, who=f"ptxas {tool.version_text}{where}")
    if cubin is None:
        raise TargetError(
            f"ptxas {tool.version_text} wrote no cubin for {chosen!r}",
            hint="name a real architecture such as sm_100a; virtual ones only check_text can use",
        )
    return Assembly(cubin, located(report, printed), tool, chosen or "")


def check_text(
    text: str,
    target: str | None = None,
    *,
    ptxas: Tool | str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    timeout: float = DEFAULT_TIMEOUT,
) -> ToolReport:
    """What ptxas says about ``text``, errors included: for testing variants by the thousand in one file.

    All errors of a file are reported in one run, except that a syntax error ends it. With a virtual
    ``target`` (``"compute_100a"``) ptxas parses and checks but generates no code, which is faster.
    Arguments as for :func:`assemble`.

    Raises:
        ToolNotFoundError: there is no ptxas. Nothing that the text contains raises.
    """
    return _run(_tool(ptxas), text, target or target_of(text), options, timeout)[0]


def _tool(ptxas: Tool | str | os.PathLike[str] | None) -> Tool:
    return ptxas if isinstance(ptxas, Tool) else find_ptxas(ptxas)


def _run(
    tool: Tool, text: str, target: str | None, options: Sequence[str], timeout: float
) -> tuple[ToolReport, bytes | None]:
    """The report, and the cubin if one was written. A failure always has an error in the report."""
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        Path(folder, "kernel.ptx").write_text(text, encoding="utf-8")
        command = [str(tool.path), "-v", "--warn-on-spills", *options]
        if target is not None:
            command += ["-arch", target]
        command += ["kernel.ptx", "-o", "kernel.cubin"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return ToolReport((Message("fatal", f"stopped: no result within {timeout:g} s"),)), None
        report = read_report(done.stdout + done.stderr)
        if done.returncode != 0 and report.ok:
            ended = Message("fatal", f"ended with status {done.returncode} and named no error")
            report = ToolReport((*report.messages, ended), report.resources, report.global_memory)
        written = Path(folder, "kernel.cubin")
        return report, written.read_bytes() if done.returncode == 0 and written.exists() else None
