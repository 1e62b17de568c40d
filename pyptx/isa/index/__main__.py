"""Write the module ``entries`` of this folder anew: ``python -m pyptx.isa.index``."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from .. import forms
from .reading import generated


def main() -> None:
    chapters = sorted(chapter.name for chapter in pkgutil.iter_modules(forms.__path__))
    path = Path(__file__).with_name("entries.py")
    path.write_text(generated(chapters), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
