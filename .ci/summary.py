"""Prints the summaries of several runs of pytest, from their logs, and their sum as pytest writes it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

SUMMARY = re.compile(r"^(?:=+ )?(\d+ (?:passed|failed|skipped|error|deselected).*) in ([\d.]+)s")
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error|xfailed|xpassed)")

counts: Counter[str] = Counter()
seconds = 0.0
for log in sorted(map(Path, sys.argv[1:]), key=lambda path: path.stat().st_mtime):
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := SUMMARY.match(line):
            print(found[0].strip("= "))
            counts.update({word: int(number) for number, word in COUNT.findall(found[1])})
            seconds += float(found[2])
order = ("failed", "passed", "skipped", "xfailed", "xpassed", "error")
total = ", ".join(f"{counts[word]} {word}" for word in order if counts[word])
print(f"===== {total or 'no test ran'} in {seconds:.2f}s =====")
