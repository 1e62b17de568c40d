"""Finds ncu, runs a program under it, and reads what it has measured.

Owns the command line of ncu, and the explanations of why it measured nothing.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import LaunchError, SpecError, ToolNotFoundError
from .report import NcuReport, join, read_details, read_source

__all__ = ["SECTIONS", "find_ncu", "ncu_run", "profile"]

#: Sections that the table needs: throughput, launch, occupancy, and samples by line.
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "SourceCounters")
#: Names ncu's path.
_VARIABLE = "PYPTX_NCU"
#: Set in a program that runs under ncu by ``ncu_run``, so that a call of it there does nothing.
_INSIDE = "PYPTX_INSIDE_NCU"


def find_ncu() -> Path:
    """Return the path of ncu.

    Raises:
        ToolNotFoundError: there is none in ``PYPTX_NCU``, ``CUDA_HOME``, ``CUDA_PATH``, on ``PATH``, nor
            where NVIDIA's installers put it.
    """
    given = os.environ.get(_VARIABLE)
    if given:
        found = shutil.which(given)
        if found is None:
            raise ToolNotFoundError(f"{_VARIABLE} names {given!r}: no such executable file")
        return Path(found)
    homes = [home for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    places = [str(Path(home, "bin")) for home in homes]
    places += os.environ.get("PATH", "").split(os.pathsep)
    places += map(str, sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True))
    places.append("/usr/local/cuda/bin")
    found = shutil.which("ncu", path=os.pathsep.join(filter(None, places)))
    if found is None:
        raise ToolNotFoundError(
            "no ncu (Nsight Compute) was found",
            details=[f"{_VARIABLE}: not set", *(f"{place}: not there" for place in places if place)],
            hint=f"install Nsight Compute, which the CUDA toolkit has, or set {_VARIABLE} to its path; "
            "pyptx.bench times kernels without it",
        )
    return Path(found)


def profile(
    command: Sequence[str],
    *,
    kernel_regex: str | None = None,
    sections: Sequence[str] = SECTIONS,
    launches: int | None = 20,
    options: Sequence[str] = (),
    keep: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> NcuReport:
    """Run a command under ncu and return what it has measured.

    Args:
        command: the program with its arguments; its output is not touched.
        kernel_regex: only kernels whose name this regular expression matches.
        sections: names of ncu's sections.
        launches: at most so many launches; None for all.
        options: more options of ncu, such as ``("--clock-control", "none")``.
        keep: where ncu's own file shall stay; ``.ncu-rep`` is added if it does not end so.
        environment: variables that the command gets besides those of this process.

    Raises:
        ToolNotFoundError: there is no ncu.
        LaunchError: ncu measured nothing; the message says why.
    """
    ncu = find_ncu()
    if keep is not None and keep.suffix != ".ncu-rep":
        keep = keep.with_name(f"{keep.name}.ncu-rep")
    with tempfile.TemporaryDirectory(prefix="pyptx-ncu-") as folder:
        target, log = keep or Path(folder, "measured.ncu-rep"), Path(folder, "log")
        asked = [
            "--export",
            str(target),
            "--force-overwrite",
            "--log-file",
            str(log),
            "--import-source",
            "yes",
        ]
        for section in sections:
            asked += ["--section", section]
        if kernel_regex is not None:
            asked += ["--kernel-name", f"regex:{kernel_regex}"]
        if launches is not None:
            asked += ["--launch-count", str(launches)]
        variables = {**os.environ, **(environment or {})}
        done = subprocess.run([str(ncu), *asked, *options, *command], env=variables)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if not target.exists():
            raise _nothing(ncu, said, done.returncode, kernel_regex)
        kernels = read_details(_page(ncu, target, "details"))
        source = read_source(_page(ncu, target, "source", "--print-source", "cuda,sass"))
    return NcuReport(tuple(kernels), keep, join(kernels, source))


def _page(ncu: Path, report: Path, page: str, *options: str) -> str:
    done = subprocess.run(
        [str(ncu), "--import", str(report), "--csv", "--page", page, *options],
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise LaunchError(f"ncu could not print the page {page} of {report}: {''.join(last)}")
    return done.stdout


def _nothing(ncu: Path, said: str, status: int, kernel_regex: str | None) -> LaunchError:
    """Return the error for a run of which ncu wrote no file."""
    if "ERR_NVGPUCTRPERM" in said:
        return LaunchError(
            "ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
            hint="run as root, or let all users read them: put `options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/nvidia.conf and load the driver "
            "again; in a container add --cap-add=SYS_ADMIN. pyptx.bench times kernels without counters",
        )
    if "No kernels were profiled" in said:
        wanted = "" if kernel_regex is None else f" whose name matches {kernel_regex!r}"
        return LaunchError(
            f"ncu measured nothing: the program launched no kernel{wanted}",
            hint="ncu measures what runs on a GPU; arrays in host memory run in the simulator",
        )
    lines = [line for line in said.splitlines() if line.startswith("==ERROR==")] or said.splitlines()[-3:]
    return LaunchError(f"ncu ended with status {status} and measured nothing", details=[str(ncu), *lines])


def ncu_run(
    main: Callable[..., Any],
    *args: Any,
    kernel_regex: str | None = None,
    sections: Sequence[str] = SECTIONS,
    launches: int | None = 20,
    options: Sequence[str] = (),
    keep: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> NcuReport | None:
    """Call ``main`` in a new process under ncu, print the figures of its kernels, and return them.

    The new process executes the file of ``main`` under another name than ``__main__``, and calls it. There a
    call of ``ncu_run`` does nothing and returns None.

    Args:
        main: a function at the top level of a file.
        args, keywords: its arguments: numbers, texts, lists and dicts.
        kernel_regex: only kernels whose name this regular expression matches.
        sections: names of ncu's sections.
        launches: at most so many launches; None for all.
        options: more options of ncu, such as ``("--clock-control", "none")``.
        keep: where ncu's own file shall stay, for its window.

    Raises:
        SpecError: ``main`` is not at the top level of a file, or an argument is something else.
        ToolNotFoundError: there is no ncu.
        LaunchError: ncu measured nothing; the message says why.
    """
    if os.environ.get(_INSIDE):
        return None
    name = getattr(main, "__qualname__", "")
    try:
        file = inspect.getsourcefile(main)
    except TypeError:
        file = None
    if not name.isidentifier() or file is None or not Path(file).is_file():
        raise SpecError(
            f"ncu_run calls a function at the top level of a file, not {name or main!r}",
            hint="the function is called in a new process, which executes the file first",
        )
    try:
        arguments = json.dumps([args, keywords])
    except TypeError as error:
        raise SpecError(
            f"ncu_run: the arguments of {name} are passed as JSON: {error}",
            hint="pass numbers and texts, and make arrays in the function",
        ) from None
    command = [sys.executable, "-m", "pyptx.tools.ncu.call", str(Path(file).resolve()), name, arguments]
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    found = profile(
        command,
        kernel_regex=kernel_regex,
        sections=sections,
        launches=launches,
        options=options,
        keep=None if keep is None else Path(keep),
        environment={_INSIDE: "1", "PYTHONPATH": paths},
    )
    found.show()
    return found
