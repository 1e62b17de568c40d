"""``import pyptx`` loads nothing heavy or optional. Its time: benchmarks/import_time.py."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "cuda", "click", "rich")


def test_import_loads_nothing_heavy() -> None:
    probe = "import sys, pyptx; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "pyptx" in loaded
    assert not set(HEAVY) & set(loaded)
