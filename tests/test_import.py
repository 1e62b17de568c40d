"""``import pyptx`` loads nothing heavy or optional. Its time: benchmarks/import_time.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HEAVY = ("torch", "cuda", "click", "rich")


def test_import_loads_nothing_heavy() -> None:
    probe = "import sys, pyptx; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "pyptx" in loaded
    assert not set(HEAVY) & set(loaded)


def test_a_first_call_on_hopper_loads_no_more_than_it_needs() -> None:
    """Recording a kernel, and importing what launches it, loads no simulator, no tool and no unit of Blackwell."""
    probe = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from pyptx import Tile, f32, kernel, ptx

@kernel(in_specs=(Tile(8, 64, f32),), out_specs=(Tile(8, 64, f32),), grid=(1, 1, 1), block=(64, 1, 1), arch="sm_90a")
def copy(a, b):
    i = ptx.special.tid.x()
    ptx.inst.add.u32(i, i, 1)
    ptx.wgmma.fence()

copy.specialize().lined
import pyptx.entry.gpu, pyptx.runtime.machine_code
print(*sys.modules)
"""
    with TemporaryDirectory() as folder:
        path = Path(folder, "probe.py")
        path.write_text(probe)
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "pyptx.dsl.units.wgmma" in loaded and "pyptx.isa.index.entries" in loaded
    unneeded = (
        "torch",
        "cuda",
        "ml_dtypes",
        "pyptx.sim",
        "pyptx.tools",
        "pyptx.dsl.units.tcgen05",
        "pyptx.ir.parser",
        "pyptx.isa.reader",
    )
    for name in (*unneeded, "pyptx.isa.index.reading", "pyptx.toolchain.ptxas"):
        assert not [module for module in loaded if f"{module}.".startswith(f"{name}.")], name
