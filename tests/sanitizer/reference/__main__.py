"""``python -m tests.sanitizer.reference census N`` counts what random programs show; ``compare N`` compares."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from .census import census
from .compare import Comparison, compare
from .generate import generate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizer.reference", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_ in (
        ("census", "rules, decisive entries and the share of programs that race"),
        ("compare", "the reference against the simulator's sanitizer"),
        ("show", "the text of one program and its findings"),
    ):
        command = commands.add_parser(name, help=help_)
        command.add_argument("number", type=int)
        command.add_argument("--seed", type=int, default=0, help="the first seed")
        command.add_argument("--kind", default="", help="print only disagreements of this kind")
        command.add_argument("--limit", type=int, default=5, help="disagreements that are printed")
        command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of compare")
    options = parser.parse_args()
    if options.command == "census":
        print(census(range(options.seed, options.seed + options.number)))
        return 0
    if options.command == "show":
        print(describe(compare(generate(options.number))))
        return 0
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.number)
        results = pool.map(_compared, seeds, chunksize=20)
        return _compare(zip(seeds, results, strict=True), options.limit, options.kind)


def _compared(seed: int) -> Comparison:
    return compare(generate(seed))


def _compare(results: Iterable[tuple[int, Comparison]], limit: int, kind: str) -> int:
    kinds: Counter[str] = Counter()
    differences: Counter[str] = Counter()
    for seed, result in results:
        kinds[result.kind] += 1
        if result.kind == "agree":
            continue
        differences.update(f"not found: {rule}" for rule, *_ in result.unexplained)
        differences.update(f"extra: {rule}" for rule, *_ in result.found - result.expected)
        if kind in ("", result.kind) and limit:
            limit -= 1
            print(f"seed {seed}: {result.kind}\n{describe(result)}\n")
    for counter in (kinds, differences):
        print("\n".join(f"{count:7} {name}" for name, count in counter.most_common()), "\n")
    return 0 if set(kinds) <= {"agree"} else 1


def describe(result: Comparison) -> str:
    """The text with its line numbers, and what each side says."""
    lines = [f"{n:4} {line}" for n, line in enumerate(result.printed.text.splitlines(), 1)]
    lines += [f"  only the reference: {one}" for one in sorted(result.expected - result.found)]
    lines += [f"  only the simulator: {one}" for one in sorted(result.found - result.expected)]
    lines += [f"  both:               {one}" for one in sorted(result.found & result.expected)]
    lines += [f"  other finding: {one}" for one in result.others]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
