"""The search for ptxas and nvdisasm: the order of places, the versions, and the error if none is found.

The order is: the explicit path (an argument, or the environment variable ``PYPTX_PTXAS`` or
``PYPTX_NVDISASM``), NVIDIA's wheels in this Python environment, ``CUDA_HOME`` or ``CUDA_PATH``,
``PATH``.  If an explicit path does not work, the search raises an error and does not look further.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..core.errors import ToolNotFoundError
from ..core.records import dataclass
from .tool_versions import known_version, remember_version

__all__ = ["Tool", "find_nvdisasm", "find_ptxas"]

#: Seconds that ``--version`` may take: the first start reads 50 MB from a cold disk.
_VERSION_TIMEOUT = 60.0


@dataclass(frozen=True)
class Tool:
    """A program that was found and runs.

    Attributes:
        name: ``"ptxas"`` or ``"nvdisasm"``.
        path: absolute path of the program.
        version: the version that the program reports, such as ``(13, 5, 37)``.
        found: the source of the path, as text (``"wheel nvidia-cuda-nvcc"``, ``"PATH"``).
    """

    name: str
    path: Path
    version: tuple[int, ...]
    found: str

    @property
    def version_text(self) -> str:
        """The version as text, such as ``"13.5.37"``."""
        return ".".join(map(str, self.version))

    @property
    def label(self) -> str:
        """Name and version, such as ``"ptxas-13.5.37"``: the name of its folders in the cache of cubins."""
        return f"{self.name}-{self.version_text}"

    def __str__(self) -> str:
        return f"{self.name} {self.version_text} ({self.found}: {self.path})"


def find_ptxas(explicit: str | os.PathLike[str] | None = None) -> Tool:
    """Find ptxas, the PTX assembler.

    Args:
        explicit: path of the program; overrides ``PYPTX_PTXAS``, which overrides the search.

    Raises:
        ToolNotFoundError: the explicit path is no working ptxas, or the search found none; the message lists
            every place searched and the command that installs ptxas.
    """
    return _find("ptxas", "nvidia-cuda-nvcc", explicit)


def find_nvdisasm(explicit: str | os.PathLike[str] | None = None) -> Tool:
    """Find nvdisasm, the disassembler, as :func:`find_ptxas` does, with ``PYPTX_NVDISASM``."""
    return _find("nvdisasm", "nvidia-cuda-nvdisasm", explicit)


def _find(name: str, wheel: str, explicit: str | os.PathLike[str] | None) -> Tool:
    variable = f"PYPTX_{name.upper()}"
    hint = f"python -m pip install {wheel}"
    chosen, found = (explicit, "explicit path") if explicit else (os.environ.get(variable), variable)
    if chosen:
        result = _try(name, Path(chosen).expanduser(), found)
        if isinstance(result, str):
            raise ToolNotFoundError(
                f"{found} names {os.fspath(chosen)!r} as {name}: {result}",
                hint=f"give the path of a working {name}, or none to search for it; {hint}",
            )
        return result
    looked = [f"{variable}: not set"]
    for found, place in _places(wheel):
        result = _try(name, place, found) if place is not None else "not there"
        if isinstance(result, Tool):
            return result
        looked.append(f"{found}: {f'{place}: ' if place is not None else ''}{result}")
    raise ToolNotFoundError(
        f"no {name} was found in the places that pyptx searches",
        details=looked,
        hint=f"{hint}; or set {variable} to the program's path",
    )


def _places(wheel: str) -> Iterator[tuple[str, Path | None]]:
    """Yield each place to search, in order: its description, and its folder or None if there is none."""
    found = f"wheel {wheel}"
    # The top-level package of NVIDIA's wheels is a namespace package, so find_spec imports nothing.
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or ()) if spec is not None else ()
    if not roots:
        yield found, None
    for root in map(Path, roots):
        for release in _releases(root):
            yield found, root / release / "bin"
        # Wheels up to CUDA 12 have a folder each: nvidia/cuda_nvcc/bin.
        yield found, root / wheel.removeprefix("nvidia-").replace("-", "_") / "bin"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home_of_cuda = os.environ.get(variable)
        yield variable, Path(home_of_cuda, "bin") if home_of_cuda else None
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield "PATH", Path(folder)


def _releases(root: Path) -> list[str]:
    """Return the folders of CUDA's releases, ``cu13`` for example, the newest first."""
    try:
        names = os.listdir(root)
    except OSError:
        return []
    # Not by a pattern: to compile one would take longer than the rest of the search.
    releases = [name for name in names if name.startswith("cu") and "0" <= name[2:3] <= "9"]
    return sorted(releases, key=lambda name: (len(name), name), reverse=True)


def _try(name: str, place: Path, found: str) -> Tool | str:
    """Return the program at ``place`` (a file, or its folder), or text that says why it is unusable."""
    hit = shutil.which(name, path=str(place)) if place.is_dir() else shutil.which(str(place.absolute()))
    if hit is None:
        return "no such executable file"
    path = Path(hit).absolute()
    status = path.stat()
    version = _version(path, (status.st_mtime_ns, status.st_size))
    return version if isinstance(version, str) else Tool(name, path, version, found)


@cache
def _version(path: Path, changed: tuple[int, int]) -> tuple[int, ...] | str:
    """Return the version, or text that says why there is none.

    The result is kept by path, modification time and size, also on disk: to start the program costs more than
    all else that a process does to load a cached kernel.
    """
    known = known_version(path, changed)
    if known is not None:
        return known
    version = _ask_version(path)
    if not isinstance(version, str):
        remember_version(path, changed, version)
    return version


def _ask_version(path: Path) -> tuple[int, ...] | str:
    """Run ``--version`` and return the version, or text that says why there is none."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=_VERSION_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run ({error})"
    match = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    if done.returncode != 0 or match is None:
        return f"its --version gave no version (exit status {done.returncode})"
    return tuple(map(int, match[1].split(".")))
