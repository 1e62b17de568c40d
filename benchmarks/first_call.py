"""Measure the first call of the Hopper GEMM in fresh processes: ``import pyptx`` to the synchronized result.

torch is imported and its context is up before the clock starts.  Half of the processes begin with an empty
disk cache of machine code, and with the driver's own cache turned off; the others find the cubin in the disk
cache.  All of them find Python's bytecode, in a folder of the run that a first process fills.

    python benchmarks/first_call.py [runs]

Targets: 1.0 s with no machine code cached, 120 ms with the disk cache warm.  Without a GPU the program
measures what comes before the launch: importing, recording and printing.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIZE = 4096
#: The parts of a first call, in order.
PARTS = ("import", "build", "record", "print", "cuda.bindings", "driver", "load", "first call")

CHILD = """
import json, sys, time
sys.path.insert(0, "examples/hopper")
size = int(sys.argv[1])
import numpy
try:
    import torch
    gpu = torch.cuda.is_available()
except ImportError:
    gpu = False
if gpu:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.cuda.synchronize()
times = [time.perf_counter()]
def mark():
    times.append(time.perf_counter())
import pyptx
from gemm_highperf_hopper import build_gemm
mark()
gemm = build_gemm(size, size, size)
mark()
special = gemm.specialize()
mark()
special.lined
mark()
if gpu:
    from pyptx.runtime import driver
    driver.driver()
    mark()
    driver.device_info(0)
    mark()
    from pyptx.entry import gpu as launching
    launching._loaded(special, 0)
    mark()
    d = gemm(a, b)
    torch.cuda.synchronize()
    mark()
    wanted = a.float() @ b.float().T
    assert torch.allclose(d.float(), wanted, rtol=2.0**-7, atol=1e-5 * size)
print(json.dumps([1e3 * (after - before) for before, after in zip(times, times[1:])]))
"""


def child(cache: str, bytecode: str) -> list[float]:
    """Return the milliseconds of each part in a fresh process.

    Args:
        cache: the folder of its disk cache of machine code.
        bytecode: the folder where it finds and leaves bytecode, whatever this process does with its own.
    """
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYPTX_CACHE_DIR": cache, "CUDA_CACHE_DISABLE": "1"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(SIZE)],
        capture_output=True,
        text=True,
        cwd=root,
        env=environment,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        bytecode, filled = os.path.join(folder, "bytecode"), os.path.join(folder, "filled")
        child(filled, bytecode)
        cold, warm = [], []
        for number in range(runs):
            cold.append(child(os.path.join(folder, f"empty{number}"), bytecode))
            warm.append(child(filled, bytecode))
    parts = PARTS[: len(warm[0])]
    print(f"{runs} processes each, Python {sys.version.split()[0]}; bytecode is cached in all of them;")
    print("cuda.bindings has no import left where torch has imported it")
    print(f"{'milliseconds, median (best)':<28} {'no machine code':>18} {'disk cache warm':>18}")
    rows = [
        (name, [run[number] for run in cold], [run[number] for run in warm])
        for number, name in enumerate(parts)
    ]
    rows.append(("in all", [sum(run) for run in cold], [sum(run) for run in warm]))
    for name, *columns in rows:
        print(f"{name:<28}", *(f"{statistics.median(c):9.1f} ({min(c):6.1f})" for c in columns))
    if len(parts) < len(PARTS):
        print("no GPU: the parts from the driver on were not measured")


if __name__ == "__main__":
    main()
