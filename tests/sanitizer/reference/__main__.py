"""``python -m tests.sanitizer.reference census N`` counts what random programs show; ``compare N`` compares."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

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
        command.add_argument("--limit", type=int, default=5, help="disagreements that are printed")
    options = parser.parse_args()
    if options.command == "census":
        print(census(range(options.seed, options.seed + options.number)))
        return 0
    if options.command == "show":
        print(describe(compare(generate(options.number))))
        return 0
    return _compare(options.number, options.seed, options.limit)


def _compare(number: int, first: int, limit: int) -> int:
    differences: Counter[str] = Counter()
    disagreeing = 0
    for seed in range(first, first + number):
        result = compare(generate(seed))
        if result.agree:
            continue
        disagreeing += 1
        differences.update(f"missed {rule}" for rule, *_ in result.expected - result.found)
        differences.update(f"extra {rule}" for rule, *_ in result.found - result.expected)
        if disagreeing <= limit:
            print(f"seed {seed}\n{describe(result)}\n")
    print(f"{number - disagreeing} of {number} programs agree")
    for name, count in differences.most_common():
        print(f"{count:6} {name}")
    return 1 if disagreeing else 0


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
