"""The process that calls one function under ncu: ``python -m pyptx.tools.ncu.call FILE FUNCTION ARGUMENTS``.

ARGUMENTS is JSON: the positional and the keyword arguments.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]


def main(file: str, function: str, arguments: str) -> None:
    """Execute ``file``, whose name is then not ``__main__``, and call its ``function``."""
    sys.path.insert(0, str(Path(file).parent))
    value: Any = runpy.run_path(file, run_name="pyptx_ncu")[function]
    args, keywords = json.loads(arguments)
    value(*args, **keywords)


if __name__ == "__main__":
    main(*sys.argv[1:])
