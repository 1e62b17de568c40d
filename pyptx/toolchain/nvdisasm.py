"""Running nvdisasm: a cubin to SASS, the machine's own instructions."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import AssembleError
from .find import Tool, find_nvdisasm
from .messages import read_report

__all__ = ["disassemble"]


def disassemble(
    cubin: bytes,
    *,
    nvdisasm: Tool | str | os.PathLike[str] | None = None,
    options: Sequence[str] = ("--print-code",),
    timeout: float = 300.0,
) -> str:
    """The SASS of ``cubin``.

    Args:
        cubin: an ELF image, as in :attr:`Assembly.cubin`.
        nvdisasm: the program or its path; searched for if None.
        options: command-line options; the default prints the code sections only.
        timeout: seconds after which nvdisasm is stopped.

    Raises:
        AssembleError: nvdisasm cannot read the image, or did not finish.
        ToolNotFoundError: there is no nvdisasm.
    """
    tool = nvdisasm if isinstance(nvdisasm, Tool) else find_nvdisasm(nvdisasm)
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin)
        command = [str(tool.path), *options, "kernel.cubin"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise AssembleError(f"nvdisasm {tool.version_text} gave no result within {timeout:g} s") from None
    if done.returncode != 0:
        said = "\n".join(f"  {m.text}" for m in read_report(done.stdout + done.stderr).messages)
        raise AssembleError(
            f"nvdisasm {tool.version_text} cannot disassemble an image of {len(cubin)} bytes:\n{said}",
            hint="expected is a cubin, as Assembly.cubin holds it",
        )
    return done.stdout
