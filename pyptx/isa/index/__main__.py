"""Write the modules of this folder anew: ``python -m pyptx.isa.index``."""

from __future__ import annotations

from pathlib import Path

from ..table import CHAPTERS
from .reading import generated


def main() -> None:
    folder = Path(__file__).parent
    for chapter in CHAPTERS:
        (folder / f"{chapter}.py").write_text(generated(chapter), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
