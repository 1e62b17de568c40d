"""Compiles what a library's kernels need: the fake CUDA runtime, and host programs with their PTX.

Everything is built once for each text of the sources and of the command, in a folder of the system's temporary
folder, so a second run of a library compiles nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

__all__ = [
    "cuda_home",
    "expression_program",
    "host_program",
    "kept_folder",
    "run_compiler",
    "runtime_library",
]

_RUNTIME = Path(__file__).with_name("runtime.c")

# A pointer without a type converts to the type that the called function takes.
_EXPRESSION = """
struct Pointer {
    void *value;
    template <class T> operator T *() const { return static_cast<T *>(value); }
};
extern "C" void run(const Pointer *p, const long *n) { EXPRESSION; }
"""


@cache
def cuda_home() -> Path:
    """The folder with ``bin/nvcc`` and ``include``: that of the wheels, or the one nvcc is found in."""
    wheels = sorted(Path(sysconfig.get_paths()["purelib"], "nvidia").glob("cu[0-9]*"))
    found = shutil.which(
        "nvcc", path=os.pathsep.join([*(str(home / "bin") for home in wheels), os.environ["PATH"]])
    )
    if found is None:
        raise SystemExit(
            "needs nvcc: install nvidia-cuda-nvcc, nvidia-cuda-crt, nvidia-cuda-cccl, nvidia-cuda-runtime"
        )
    return Path(found).resolve().parents[1]


def kept_folder(*key: str) -> Path:
    """The folder for what is built from ``key``: all that determines the result."""
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:20]
    folder = Path(tempfile.gettempdir(), "pyptx-libraries", digest)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_compiler(command: Sequence[str | Path]) -> None:
    """Run a compiler; what it says is the error if it fails."""
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{ran.stdout[-2000:]}{ran.stderr[-4000:]}")


@cache
def runtime_library() -> Path:
    """The fake CUDA runtime and driver, as one shared library with the driver's name."""
    include = cuda_home() / "include"
    to = kept_folder(_RUNTIME.read_text(), str(include)) / "libcuda.so.1"
    if not to.exists():
        flags = ["-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", f"-I{include}"]
        run_compiler(["gcc", *flags, _RUNTIME, "-o", to.with_suffix(".part"), "-ldl"])
        to.with_suffix(".part").rename(to)
    return to


def host_program(
    name: str, source: str, arch: str, flags: Sequence[str] = (), depends: Sequence[Path] = ()
) -> Path:
    """Compile CUDA C++ text, host side and PTX, to a shared library.

    Args:
        name: what the temporary files are called.
        arch: the virtual architecture's number, ``90a``.
        flags: further options of nvcc.
        depends: files that the text includes; a change of their contents compiles again.
    """
    contents = [path.read_text(errors="replace") for path in depends]
    folder = kept_folder(name, source, arch, *flags, *contents)
    to = folder / f"{name}.so"
    if not to.exists():
        file = folder / f"{name}.cu"
        file.write_text(source)
        nvcc = cuda_home() / "bin" / "nvcc"
        target = ["-gencode", f"arch=compute_{arch},code=compute_{arch}", "--no-compress"]
        # The runtime is found among the libraries that the process has loaded.
        link = ["-shared", "-cudart", "none", "-Xcompiler", "-fPIC,-O0"]
        run_compiler([nvcc, *target, *link, "-w", *flags, file, "-o", to.with_suffix(".part")])
        to.with_suffix(".part").rename(to)
    return to


def expression_program(
    name: str,
    source: str,
    expression: str,
    arch: str,
    flags: Sequence[str] = (),
    depends: Sequence[Path] = (),
) -> Path:
    """Compile a program for :meth:`Device.run`: a C++ expression with pointers ``p[i]`` and numbers ``n[i]``.

    ``source`` stands before it; the other arguments are those of :func:`host_program`.
    """
    return host_program(name, source + _EXPRESSION.replace("EXPRESSION", expression), arch, flags, depends)
