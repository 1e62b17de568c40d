"""Runs ptxas, which turns PTX text into a cubin, and keeps everything that ptxas printed about the text."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from ..core.errors import TargetError
from ..core.records import dataclass
from ..ir.printer import PrintedModule
from .cache import CachedCubin
from .find import Tool, find_ptxas
from .messages import Message, Resources, ToolReport, read_report
from .rejections import located, rejection
from .targets import target_of

__all__ = ["Assembly", "assemble", "check_text"]

#: Seconds. The largest kernels take a few, kernels with thousands of spilled registers a minute.
DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True)
class Assembly:
    """The result of assembling one PTX text.

    Attributes:
        cubin: the ELF image for the driver or nvdisasm.
        report: everything that ptxas printed, including the resources of every function.
        ptxas: the program that assembled the text.
        target: the architecture of the cubin.
    """

    cubin: bytes = field(repr=False)
    report: ToolReport
    ptxas: Tool
    target: str

    @property
    def resources(self) -> tuple[Resources, ...]:
        """Registers, spills, stack and shared memory: one entry per function."""
        return self.report.resources

    @property
    def registers(self) -> int:
        """32-bit registers of a thread: the largest number among the module's kernels."""
        return max((r.registers for r in self.report.resources), default=0)

    @property
    def shared(self) -> int:
        """Static shared memory of a CTA in bytes: the largest number among the module's kernels."""
        return max((r.shared for r in self.report.resources), default=0)

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads of all functions together."""
        return sum(r.spills for r in self.report.resources)

    @property
    def warnings(self) -> tuple[Message, ...]:
        """The warnings of ptxas."""
        return self.report.warnings

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes such as C7508 (setmaxnreg ignored) or C7517 (wgmma wait inserted): the code is slower."""
        return self.report.notes

    @property
    def kept(self) -> CachedCubin:
        """What a cache of cubins keeps of it."""
        return CachedCubin(self.cubin, self.ptxas.label, "\n".join(map(str, self.report.messages)))


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
        printed: PTX text; if it has its table of lines, errors show the author's Python lines.
        target: architecture; if None, the text's ``.target``.
        ptxas: the program or its path; searched for if None (see :func:`find_ptxas`).
        options: more command-line options, such as ``("-lineinfo",)``.
        timeout: seconds after which ptxas is stopped, and the text counts as refused.

    Raises:
        AssembleError: ptxas refused the text; ``messages`` has everything that it printed.
        TargetError: the target is virtual (``compute_100a``), so that ptxas writes no cubin.
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
            hint="name a real architecture such as sm_100a; only check_text accepts a virtual one",
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
    """Return the messages of ptxas about ``text``, including errors. Tests check many variants in one file.

    ptxas reports all errors of a file in one run, except that it stops at a syntax error. With a virtual
    ``target`` (``"compute_100a"``) ptxas parses and checks but generates no code, which is faster.
    The arguments are those of :func:`assemble`.

    Raises:
        ToolNotFoundError: there is no ptxas. Errors in the text raise nothing.
    """
    return _run(_tool(ptxas), text, target or target_of(text), options, timeout)[0]


def _tool(ptxas: Tool | str | os.PathLike[str] | None) -> Tool:
    return ptxas if isinstance(ptxas, Tool) else find_ptxas(ptxas)


def _run(
    tool: Tool, text: str, target: str | None, options: Sequence[str], timeout: float
) -> tuple[ToolReport, bytes | None]:
    """Return the report, and the cubin if ptxas wrote one. After a failure the report always has an error."""
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
            ended = Message("fatal", f"ptxas exited with status {done.returncode} and printed no error")
            report = ToolReport((*report.messages, ended), report.resources, report.global_memory)
        written = Path(folder, "kernel.cubin")
        return report, written.read_bytes() if done.returncode == 0 and written.exists() else None
