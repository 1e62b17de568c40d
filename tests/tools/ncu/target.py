"""What tests run under the fake ncu."""

from __future__ import annotations

import sys
from pathlib import Path

import pyptx


def main(path: str, bench: bool = True) -> None:
    inside = pyptx.ncu_run(main, path)
    Path(path).write_text(f"bench={bench}, name={__name__}, inside={inside}")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(f"arguments={sys.argv[2:]}")
