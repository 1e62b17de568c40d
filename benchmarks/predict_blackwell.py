"""Predicts every Blackwell product of this tree on a B200 and writes docs/predictions-b200.md.

The page is committed before a comparison: its rows have a SHA-256, and beside it stands the digest of the
sources that made them.  Each row is a kernel, a shape and a protocol; what a kernel cannot do, or what the
timed machine cannot time, is a row that says why.  Rows with locked multiprocessors also say what removing
the bound would give, at the same frequency.

Results are kept in ``--out``, a JSON object on a line, so that a run goes on where another one ended.  Rows
of other sources than today's are run again.  The order of rows is that of the kernels and shapes.

    python benchmarks/predict_blackwell.py --out FILE                 # all that is missing, then the page
    python benchmarks/predict_blackwell.py --out FILE --only v7 --only persistent   # no page
    python benchmarks/predict_blackwell.py --out FILE --page          # the page of what FILE has
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyptx import bf16, e4m3, f32
from pyptx.core.errors import PyptxError, SpecError
from pyptx.timing.constants import gpu
from tests.blackwell.registry import PRODUCTS, run_time_sizes
from tests.examples.loading import load_example

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/predictions-b200.md"
LOCKED = 1300.0  # MHz
#: Protocols of each shape. Small ones run at the maximum in any case, and so many rows take 15 minutes.
#: Of the last two, no extent is a multiple of a tile; rows are multiples of 16 bytes.
PROTOCOLS = {
    (1024, 1024, 1024): ("burst",),
    (2048, 2048, 2048): (LOCKED, "burst"),
    (4096, 4096, 4096): (LOCKED, "burst", "sustained"),
    (8192, 8192, 8192): (LOCKED, "sustained"),
    (1000, 1000, 1000): ("burst",),
    (4200, 4104, 4072): (LOCKED,),
}
#: Seconds after which a row is given up.
LIMIT = 60.0
HEADS = (
    "kernel",
    "M x N x K",
    "clock",
    "us",
    "interval",
    "TFLOP/s",
    "cycles",
    "MHz",
    "bound",
    "without the bound",
)
WIDE = {"block_m": 128, "block_n": 256, "block_k": 64, "e_block_n": 16}


def kernels():
    """Return builders of M, N and K by name: the table's, with the tiles of Tilus' texts, and more."""
    found = {each.name: each.build for each in PRODUCTS}
    for version in ("v0", "v1"):
        module = load_example(f"blackwell/tilus/matmul_{version}.py")
        build = getattr(module, f"build_matmul_{version}").what
        options = {key: value for key, value in WIDE.items() if version != "v0" or key != "e_block_n"}
        found[f"tilus-{version}"] = partial(_without_rows, build, options)
    later = load_example("blackwell/tilus/matmul.py")
    for version, (fixed, _) in later.VERSIONS.items():
        options = later.CHOSEN[version] | fixed | WIDE | {"stages": 4}
        if version == "v6":
            options |= {"block_m": 256, "stages": 6}
        if "swizzle_size" in options:
            options |= {"swizzle_size": 8}
        found[f"tilus-{version}"] = partial(_without_rows, later.build_matmul, options)
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    for name, options in (
        ("persistent bf16", {"out_dtype": bf16}),
        ("persistent tf32", {"dtype": f32}),
        ("persistent e4m3", {"dtype": e4m3, "out_dtype": bf16}),
    ):
        found[name] = partial(gemm.build_gemm_persistent, **options)
    tiles = load_example("blackwell/gemm_tiles.py")
    for m, n in ((128, 64), (128, 256), (256, 192)):
        found[f"tiles {m}x{n}"] = partial(tiles.build_gemm_tiles, mma_m=m, mma_n=n)
    return found


def _without_rows(build, options, M, N, K):
    """Build a kernel that takes the number of rows when it runs."""
    return build(N, K, **options)


def name_of(protocol):
    """Return the protocol as the page spells it."""
    return protocol if isinstance(protocol, str) else f"{protocol:g} MHz"


def predict(name, build, shape, protocol, chip):
    """Return the entry of one row."""
    entry = {"kernel": name, "shape": list(shape), "clock": name_of(protocol)}
    began = time.perf_counter()
    try:
        kernel = build(*shape)
        found = kernel.predict(gpu=chip, clock=protocol, timeout=LIMIT, **run_time_sizes(kernel, shape[0]))
    except (PyptxError, ValueError, NotImplementedError) as error:
        return entry | {"why": str(error).splitlines()[0]}
    if str(found.verdict) != "clean":
        why = found.findings[0] if found.findings else None
        return entry | {"why": f"{found.verdict}: {why.rule.name if why else 'no finding'}"}
    entry |= {
        "us": found.microseconds,
        "interval": list(found.interval),
        "flops": 2 * shape[0] * shape[1] * shape[2],
        "cycles": found.cycles,
        "mhz": found.mhz,
        "bound": found.bound,
    }
    if not isinstance(protocol, str):
        # A bound that is no unit cannot have no limit.
        with suppress(SpecError):
            entry["without"] = found.without().microseconds
    return entry | {"seconds": round(time.perf_counter() - began, 1)}


def cells(entry):
    """Return the cells of an entry's row."""
    front = (entry["kernel"], "x".join(map(str, entry["shape"])), entry["clock"])
    if "why" in entry:
        return (*front, *("-",) * 5, "none", entry["why"].replace("|", "/"))
    low, high = entry["interval"]
    freed = entry.get("without")
    return (
        *front,
        f"{entry['us']:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{entry['flops'] / entry['us'] / 1e6:.0f}",
        f"{entry['cycles']:.0f}",
        f"{entry['mhz']:.0f}",
        entry["bound"],
        "-" if freed is None else f"{freed:.2f} us, {freed / entry['us'] - 1:+.1%}",
    )


def digest(rows):
    """Return the SHA-256 of rows of the table."""
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def sources():
    """Return the SHA-256 of all that makes a prediction: the package, the kernels, and this program."""
    paths = [
        path
        for folder, pattern in (
            ("pyptx", "*.py"),
            ("pyptx/timing/gpus", "*.json"),
            ("examples/blackwell", "*.py"),
        )
        for path in (ROOT / folder).rglob(pattern)
    ]
    found = hashlib.sha256()
    for path in sorted({*paths, ROOT / "tests/blackwell/registry.py", Path(__file__).resolve()}):
        found.update(str(path.relative_to(ROOT)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def commit():
    """Return the commit of the sources, marked if they differ from it."""
    git = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True)
    name = git(["git", "rev-parse", "HEAD"]).stdout.strip()
    changed = git(["git", "status", "--porcelain", "--", "pyptx", "examples", "benchmarks", "tests"]).stdout
    return f"{name}, changed" if changed.strip() else name


def rows_of(page):
    """Return the rows of the page's table, as they stand there, and the digest that the page states."""
    table = re.findall(r"^\| (?!kernel \|).*\|$", page, re.MULTILINE)
    stated = re.search(r"^SHA-256 of the rows: `([0-9a-f]{64})`", page, re.MULTILINE)
    return table, stated[1] if stated else ""


def page_of(entries, missing, state, at):
    """Return the text of the page; ``missing`` rows were not run."""
    rows = [f"| {' | '.join(cells(entry))} |" for entry in entries]
    lines = f"""# Predictions for a B200

Times that the [timed machine](clock.md) predicts for the Blackwell products of this tree. No GPU has run any
of them. The page is committed before a comparison: a user with a B200 can check that the rows are those of
the commit.

SHA-256 of the rows: `{digest(rows)}`

Made by `python benchmarks/predict_blackwell.py --out FILE` at commit `{at}`.
SHA-256 of the sources (`pyptx`, `examples/blackwell`, the registry and the program):
`{state}`.
The rows are the lines of the table below its head, joined by single line feeds.

- *clock*: multiprocessors locked at 1300 MHz; `burst`, a launch after idle time; `sustained`, launches back
  to back for seconds.
- *us*, *cycles*: of the kernel alone, with operands that L2 does not hold. Two events around a launch add
  some us. The [interval](clock.md#reading-an-interval) holds about four of five launches.
- *bound*: what bounds the kernel. *without the bound*: the time if this had no limit, at the same frequency:
  the most that an idea against it can give.
- Tiles are those of [the bounds](bounds.md). Of the persistent kernels, `persistent` multiplies bf16 and
  stores f32; `persistent bf16` stores bf16, `persistent e4m3` too.
- The probes of the [suite](tcgen05_suite.md) are not in the table: each runs one CTA or a pair for less than
  the time that a launch takes.
- A row with `none` has no prediction, and the last cell says why. {missing} further rows were not run.

| {" | ".join(HEADS)} |
|---|---|---|--:|---|--:|--:|--:|---|---|"""
    return "\n".join([lines, *rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--only", action="append", help="only this kernel; may be repeated; writes no page")
    parser.add_argument(
        "--page", action="store_true", help="write the page of what --out has, predict nothing"
    )
    given = parser.parse_args()
    built, chip, state = kernels(), gpu("b200"), sources()
    for name in given.only or ():
        if name not in built:
            parser.error(f"--only {name}: expected one of {', '.join(built)}")
    wanted = [(name, shape, each) for name in built for shape, every in PROTOCOLS.items() for each in every]
    found = {}
    for line in given.out.read_text().splitlines() if given.out.exists() else ():
        entry = json.loads(line)
        if entry.pop("sources") == state:
            found[entry["kernel"], tuple(entry["shape"]), entry["clock"]] = entry
    # Small shapes first, so that a run that is cut off has all kernels.
    for name, shape, protocol in () if given.page else sorted(wanted, key=lambda row: math.prod(row[1])):
        key = name, shape, name_of(protocol)
        if key in found or (given.only and name not in given.only):
            continue
        found[key] = predict(name, built[name], shape, protocol, chip)
        with given.out.open("a") as file:
            file.write(json.dumps(found[key] | {"sources": state}) + "\n")
        print(" | ".join(cells(found[key])), f"({found[key].get('seconds', 0)} s)", flush=True)
    if given.only and not given.page:
        return
    keys = [(name, shape, name_of(protocol)) for name, shape, protocol in wanted]
    entries = [found[key] for key in keys if key in found]
    PAGE.write_text(page_of(entries, len(keys) - len(entries), state, commit()))
    print(f"{PAGE}: {sum(key in found for key in keys)} of {len(keys)} rows")


if __name__ == "__main__":
    main()
