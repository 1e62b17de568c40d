"""Write the modules of this folder anew: ``python -m pyptx.isa.index``."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from .. import forms
from .reading import generated


def main() -> None:
    folder = Path(__file__).parent
    for chapter in pkgutil.iter_modules(forms.__path__):
        (folder / f"{chapter.name}.py").write_text(generated(chapter.name), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
