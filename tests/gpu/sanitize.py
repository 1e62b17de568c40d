"""Runs the GPU tests under compute-sanitizer: ``python -m tests.gpu.sanitize [--tools memcheck,racecheck] [--seconds 480]``.

Each tool runs the tests of small shapes in one process, as long as its share of the time lasts.  The command prints,
for each tool, how many tests ran, and each distinct report with the kernel and the Python line.  The exit status is 1
if there is a report that :data:`EXPECTED` does not explain.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
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
EXPECTED: tuple[tuple[str, str, str], ...] = ()

_REPORT = re.compile(
    r"^========= (?P<what>(?:Error|Warning|Invalid|Uninitialized|Barrier|Race|Program hit).*)$"
)
_LINE = re.compile(
    r"^=========\s+(?:at|Device Frame:|Write Thread.* at|Read Thread.* at) ?(?P<where>\S+.* in \S+:\d+)"
)
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
            found[f"{what} at {_ADDRESS.sub('..', where['where'])}"] += 1
            what = ""
    return found


def run(tool: str, path: str, seconds: float, tests: list[str]) -> bool:
    """Run the tests under one tool and print what it says; return True if all of it is expected."""
    begin = time.monotonic()
    command = [path, "--tool", tool, "--report-api-errors", "no", "--target-processes", "application-only"]
    if tool == "initcheck":
        command += ["--check-api-memory-access", "no"]
    command += [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            text += "\nstopped: the time is over\n"
    last = [
        line for line in text.splitlines() if re.search(r"passed|failed|skipped|stopped|ERROR SUMMARY", line)
    ]
    print(f"== {tool}: {time.monotonic() - begin:.0f} s; {'; '.join(last[-3:])}", flush=True)
    right = True
    for report, count in reports(text).most_common():
        why = next(
            (why for name, pattern, why in EXPECTED if name == tool and re.search(pattern, report)), ""
        )
        right = right and bool(why)
        print(f"   {count} x {report}{f'  [expected: {why}]' if why else ''}")
    if "Device not supported" in text:
        print("   compute-sanitizer does not work on this device")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("tests", nargs="*", default=TESTS)
    given = parser.parse_args()
    path = shutil.which("compute-sanitizer")
    if path is None:
        print("compute-sanitizer is not on PATH: install the CUDA toolkit, or its package cuda-sanitizer")
        return 2
    tools = given.tools.split(",")
    return 0 if all([run(tool, path, given.seconds / len(tools), list(given.tests)) for tool in tools]) else 1


if __name__ == "__main__":
    sys.exit(main())
