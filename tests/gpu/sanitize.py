"""Runs the GPU tests under compute-sanitizer: ``python -m tests.gpu.sanitize [--tools memcheck,racecheck] [--seconds 480]``.

Each tool runs the tests of small shapes in a process of its own, all tools side by side.  The command prints, for each
tool, how many tests ran, and each distinct report with the kernel and the Python line.  The exit status is 1 if there
is a report that :data:`EXPECTED` does not explain.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
#: The tests, with small shapes: what hangs or fails on purpose, needs other tools or measures time is left out.
TESTS = (
    "tests/gpu/test_thread_units.py",
    "tests/gpu/test_tma.py",
    "tests/gpu/test_async_units.py",
    "tests/gpu/test_products.py",
    "tests/gpu/test_kit.py",
    "tests/runtime/test_gpu.py",
    "tests/entry/test_calls_on_gpu.py",
)
#: Reports that are right, or wrong for a known reason: the tool, a pattern of the report, and why.
EXPECTED: tuple[tuple[str, str, str], ...] = (
    (
        "initcheck",
        r"Uninitialized __global__ memory read .*CompareEqFunctor",
        "torch compares what TMA stores wrote; initcheck does not follow the writes of the async proxy",
    ),
    (
        "racecheck",
        "Detected a failure to track a kernel launch",
        "racecheck lost one launch and does not say which; it follows the others",
    ),
    (
        "racecheck",
        r"Race reported between Write access at load\S* in attention_backward\.py",
        "racecheck does not follow the mbarrier by which readers hand a stage back to a bulk copy without a tensor map",
    ),
)

#: Tests that a tool leaves out: initcheck reports each element that torch reads of what a TMA store wrote.
LEFT_OUT = {"initcheck": "not test_tensor_maps_follow_the_addresses and not test_sizes_never_seen"}

_REPORT = re.compile(
    r"^========= (?P<what>(?:Error|Warning|Invalid|Uninitialized|Barrier|Race|Program hit|Internal Sanitizer Error).*)$"
)
_LINE = re.compile(r"^=========\s+(?:at|Device Frame:|Write Thread.* at|Read Thread.* at) ?(?P<where>\S.*)$")
_ADDRESS = re.compile(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\d+ hazards?")


def reports(text: str) -> Counter[str]:
    """Count the reports by their first line and the Python line below it."""
    found: Counter[str] = Counter()
    what = ""
    for line in text.splitlines():
        match = _REPORT.match(line)
        if match is not None:
            what = _ADDRESS.sub("..", match["what"])
            found[what] += 1
            continue
        where = _LINE.match(line)
        if where is not None and what and " at " not in what:
            found[what] -= 1
            if not found[what]:
                del found[what]
            found[f"{what} at {_ADDRESS.sub('..', where['where'])[:200]}"] += 1
            what = ""
    return found


def run(tool: str, path: str, seconds: float, tests: list[str], folder: Path) -> bool:
    """Run the tests under one tool and print what it says; return True if all of it is expected.

    What the tool and the tests print stays in ``folder``.
    """
    begin = time.monotonic()
    log = folder / f"{tool}.log"
    command = [path, "--tool", tool, "--report-api-errors", "no", "--target-processes", "application-only"]
    command += ["--log-file", str(log), "--show-backtrace", "device"]
    if tool == "initcheck":
        command += ["--check-api-memory-access", "no"]
    chosen = ["-k", LEFT_OUT[tool]] if tool in LEFT_OUT else []
    command += [sys.executable, "-m", "pytest", *chosen, "-v", "-m", "gpu", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    printed = folder / f"{tool}.tests"
    with printed.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the tool's children too
            process.wait()
            out.write("\nstopped: the time is over\n")
    text = printed.read_text(errors="replace")
    text += log.read_text(errors="replace") if log.exists() else ""
    last = [
        line for line in text.splitlines() if re.search(r"passed|failed|skipped|stopped|ERROR SUMMARY", line)
    ]
    said = [f"== {tool}: {time.monotonic() - begin:.0f} s; {'; '.join(last[-3:])}"]
    right = True
    for report, count in reports(text).most_common():
        why = next(
            (why for name, pattern, why in EXPECTED if name == tool and re.search(pattern, report)), ""
        )
        right = right and bool(why)
        said.append(f"   {count} x {report}{f'  [expected: {why}]' if why else ''}")
    if "Device not supported" in text:
        said.append("   compute-sanitizer does not work on this device")
    print("\n".join(said), flush=True)
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where all output shall stay")
    parser.add_argument("tests", nargs="*", default=TESTS)
    given = parser.parse_args()
    path = shutil.which("compute-sanitizer")
    if path is None:
        print("compute-sanitizer is not on PATH: install the CUDA toolkit, or its package cuda-sanitizer")
        return 2
    with tempfile.TemporaryDirectory() as made:
        folder = given.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        tools = given.tools.split(",")
        with ThreadPoolExecutor(len(tools)) as pool:
            right = list(
                pool.map(lambda tool: run(tool, path, given.seconds, list(given.tests), folder), tools)
            )
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
