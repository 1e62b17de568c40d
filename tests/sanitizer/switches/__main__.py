"""``python -m tests.sanitizer.switches``: which kernel's verdict needs each rule of the sanitizer.

Each switch takes one edge, proxy rule, scope comparison or object away. The kernel that the table names for it must then
have another verdict. ``--search`` looks for one among the twins and the programs of the reference.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ..reference.cases import CASES, VERDICTS
from ..twins.corpus import TWINS
from .switching import Switch, off, verdict
from .table import SWITCHES
from .witnesses import WITNESSES


def candidates() -> Iterator[str]:
    """All kernels that a switch may be caught by, the cheap ones first."""
    seen: set[str] = set()
    for text in (*(case.text for case in CASES), *(text for _, text, _ in VERDICTS)):
        if text not in seen:
            seen.add(text)
            yield text
    for name in TWINS:
        yield f"{name}/right"
        yield f"{name}/wrong"


def search(switch: Switch, known: dict[str, object]) -> str:
    """A kernel whose verdict changes, or an empty string."""
    for witness in candidates():
        if witness not in known:
            known[witness] = verdict(witness)
        with off(switch):
            if verdict(witness) != known[witness]:
                return witness
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizer.switches", description=__doc__)
    parser.add_argument(
        "--search", action="store_true", help="look for a kernel where none is named or it fails"
    )
    parser.add_argument("--only", default="", help="switches whose names contain this")
    options = parser.parse_args()
    missed, known = 0, dict[str, object]()
    for switch in SWITCHES.values():
        if options.only not in switch.name:
            continue
        witness = WITNESSES.get(switch.name, "")
        before = verdict(witness) if witness else None
        with off(switch):
            caught = bool(witness) and verdict(witness) != before
        if not caught and options.search:
            witness = search(switch, known)
            caught = bool(witness)
        missed += not caught
        print(
            f"    {switch.name!r}: {witness!r},"
            if options.search
            else f"{'caught' if caught else 'MISSED'}  {switch.name}",
            flush=True,
        )
    print(f"{missed} of {len(SWITCHES)} switches are not caught", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
