"""Builds the compiled launch path, ``pyptx/runtime/_quick.c``, where there is a C compiler.

Without one the installation is pure Python, and works the same but for the host time of a launch.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "pyptx/runtime/_quick.c"
BUILT = "pyptx/runtime/_quick.abi3.so"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the source tree; a wheel takes the file along and is tagged for the platform."""
        if self.target_name != "wheel" or not self._compile():
            return
        build_data["artifacts"].append(BUILT)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp310-abi3-{platform}"

    def _compile(self) -> bool:
        """Return whether the file was built."""
        compiler = shlex.split(os.environ.get("CC", "cc"))
        include = Path(sysconfig.get_paths()["include"])
        if (
            sys.platform != "linux"
            or shutil.which(compiler[0]) is None
            or not (include / "Python.h").exists()
        ):
            self.app.display_warning("pyptx: no C compiler or no Python.h; launches take the path in Python")
            return False
        root = Path(self.root)
        made = root / (BUILT + ".new")
        command = [*compiler, "-O2", "-std=c11", "-shared", "-fPIC", f"-I{include}", SOURCE, "-o", str(made)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode != 0:
            self.app.display_warning(f"pyptx: the compiled launch path was not built:\n{done.stderr}")
            return False
        made.replace(root / BUILT)
        return True
