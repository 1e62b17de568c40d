"""The Pythons that CI tries besides its own.

``interpreter.py`` prints the oldest and the newest version that the metadata names. ``interpreter.py 3.10``
prints the path of such an interpreter, from ``PATH`` or from the folder of pyenv, or fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

METADATA = Path(__file__).resolve().parents[1] / "pyproject.toml"


def versions() -> list[str]:
    """The oldest and the newest Python of the classifiers."""
    found = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', METADATA.read_text(encoding="utf-8"))
    found.sort(key=lambda version: int(version.partition(".")[2]))
    return [found[0], found[-1]]


def works(path: str, version: str) -> bool:
    asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() == version


def interpreter(version: str) -> str:
    """The path of an interpreter of this version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [
        shutil.which(f"python{version}"),
        *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"))),
    ]
    for path in found:
        if path and works(path, version):
            return path
    raise SystemExit(f"no Python {version} on PATH or in {pyenv}: install one, CI must try it")


if __name__ == "__main__":
    print(interpreter(sys.argv[1]) if len(sys.argv) > 1 else "\n".join(versions()))
