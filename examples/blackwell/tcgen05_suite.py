"""The tcgen05 family, one primitive at a time: small kernels that show what each instruction does.

Every probe shows one primitive (an allocation, a shape of ld, a kind of mma, a commit) in a kernel small
enough to read.  numpy computes the expected result.  The kernel's result must be equal if the inputs are
small integers, and otherwise within the error bound of f32 sums.  Every kernel uses this path, or a part of
it::

    global --TMA--> shared memory --mma--> tensor memory --ld--> registers --> global
                         |                     ^  ^  |
                         +---------cp----------+  |  +-- shift
                                    registers --st+          alloc before, dealloc after

The kernels are in ``tcgen05_probes/``, a module for each theme:

==============  ================================================================================
stage           common parts: declaring a probe, setup, TMA, the loop over K, storing cells
product         the kernel of most probes of mma
matrices        inputs, their encoding in memory, the cells of D; only numpy
memory          alloc and dealloc; ld and st of every shape; their waits
movement        cp of every shape, shift
order           commit, mbarriers, fences between threads
kinds           f16, tf32, f8f6f4, i8; types, negation, M and N
operands        swizzles, majors, A in tensor memory; options for D
scales          mxf8f6f4, mxf4, mxf4nvf4; cp copies the scales
stationary      mma.ws, masks of columns; mma.sp and its metadata
pair            two CTAs: cta_group::2
==============  ================================================================================

``python examples/blackwell/tcgen05_suite.py`` runs all probes; with names, such as ``mma-f16 cp-shapes``, it
runs only these.  ``--list`` explains the probes, ``--emit NAME`` prints the PTX of one.  The suite assembles
each kernel with ptxas and runs it in the simulator under several schedules.  If torch sees a Blackwell GPU,
the suite also launches the kernels there.  The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from tcgen05_probes import kinds, memory, movement, operands, order, pair, scales, stationary
from tcgen05_probes.stage import PROBES

#: All probes by name, in the order of the lesson.
LESSON = {
    name: probe
    for theme in (memory, movement, kinds, operands, order, scales, stationary, pair)
    for name, probe in PROBES.items()
    if probe.theme == theme.__name__.rpartition(".")[2]
}
SCHEDULES = ("eager", "late", "random#1")
#: The schedules of ``--schedule all``.
ALL_SCHEDULES = ("eager", "late", *(f"random#{seed}" for seed in range(10)))


def simulated(case, schedule):
    """Run one case in the simulator. Return the verdict, the error as a fraction of the bound, the report."""
    kind, _, seed = schedule.partition("#")
    output = case.poisoned()
    report = case.kernel.simulate(*case.inputs, out=output, schedule=kind, seed=int(seed or 0))
    return report.verdict, case.error(output), report


def launched(torch, case, device="cuda"):
    """Run one case with torch's tensors on the GPU. Return the error as a fraction of the bound."""
    output = _tensor(torch, case.poisoned(), device)
    case.kernel(*(_tensor(torch, array, device) for array in case.inputs), out=output)
    return case.error(output.cpu().numpy().view(case.poisoned().dtype))


def _tensor(torch, array, device):
    """Return an array as a torch tensor.

    torch does not accept numpy's bfloat16 or uint32, so the bytes pass as signed integers; uint32 stays
    int32.
    """
    signed = torch.from_numpy(array.view(f"i{array.dtype.itemsize}").copy()).to(device)
    names = {"uint32": "int32"}
    return signed.view(getattr(torch, names.get(array.dtype.name, array.dtype.name)))


def runs_here(torch, arch):
    """Whether the GPU that torch sees runs code for ``arch``, such as sm_100a: the capabilities are equal."""
    major, minor = torch.cuda.get_device_capability()
    return arch.removeprefix("sm_").rstrip("af") == f"{major}{minor}"


def run(probe, schedules, torch=None):
    """Assemble and run all cases of a probe. Return a record of the results."""
    record = {"name": probe.name, "theme": probe.theme, "shows": probe.shows, "cases": [], "right": True}
    for case in probe.cases():
        assembly = case.kernel.assemble()
        found = {
            "label": case.label,
            "arch": case.kernel.options.arch,
            "ptx_lines": case.kernel.ptx().count("\n"),
            "registers": assembly.resources[0].registers,
            "spilled_bytes": assembly.spills,
            "warnings": [str(message) for message in (*assembly.warnings, *assembly.notes)],
            "schedules": {},
        }
        right = not assembly.spills and not found["warnings"]
        for schedule in schedules:
            verdict, error, report = simulated(case, schedule)
            found["schedules"][schedule] = {"verdict": str(verdict), "error": error}
            if verdict != "clean" or error > 1:
                right = False
                found["schedules"][schedule]["report"] = str(report)
        if torch is not None and runs_here(torch, found["arch"]):
            found["gpu_error"] = launched(torch, case)
            right &= found["gpu_error"] <= 1
        found["right"] = right
        record["right"] &= right
        record["cases"].append(found)
    return record


HEADER = (
    f"{'probe':<24} {'cases':>5} {'PTX':>4} {'regs':>4} {'spill':>5} {'warn':>4}  {'schedules':<11}"
    f" {'error':>6}  {'':<5} shows"
)


def row(record):
    """Return one line of the table, with the largest numbers (or sums) of the probe's cases."""
    cases = record["cases"]
    runs = [run for case in cases for run in case["schedules"].values()]
    clean = sum(run["verdict"] == "clean" for run in runs)
    error = max((run["error"] for run in runs), default=0.0)
    return (
        f"{record['name']:<24} {len(cases):>5} {max(c['ptx_lines'] for c in cases):>4} "
        f"{max(c['registers'] for c in cases):>4} {sum(c['spilled_bytes'] for c in cases):>5} "
        f"{sum(len(c['warnings']) for c in cases):>4}  {f'{clean}/{len(runs)} clean':<11} {error:>6.2g}  "
        f"{'ok' if record['right'] else 'WRONG':<5} {record['shows']}"
    )


def explain(probe):
    """Return a probe's explanation as text of 100 columns."""
    return f"{probe.name} ({probe.theme})\n" + textwrap.indent(
        textwrap.fill(f"{probe.shows} {probe.text}", 100), "    "
    )


def blackwell():
    """Return torch and an empty text if torch sees a GPU with tensor memory; else None and the reason."""
    try:
        ctypes.CDLL("libcuda.so.1")  # tested first, because importing torch takes seconds
    except OSError:
        return None, "there is no NVIDIA driver"
    try:
        import torch
    except ImportError:
        return None, "torch is not installed"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    major, minor = torch.cuda.get_device_capability()
    if major != 10:
        return None, f"{torch.cuda.get_device_name()} has compute capability {major}.{minor}, not 10.x"
    return torch, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="probes to run; all of them by default")
    parser.add_argument("--list", action="store_true", help="explain the probes and stop")
    parser.add_argument("--emit", metavar="NAME", help="print the PTX of a probe's first case and stop")
    parser.add_argument(
        "--schedule",
        action="append",
        metavar="S",
        help="eager, late, random#SEED, starve:ENGINE, or all (ten seeds); may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print records instead of a table")
    options = parser.parse_args()
    for name in (*options.names, *([options.emit] if options.emit else [])):
        if name not in LESSON:
            parser.error(f"there is no probe {name!r}; --list shows the names of all probes")
    chosen = [LESSON[name] for name in options.names] or list(LESSON.values())
    if options.list:
        print("\n\n".join(map(explain, chosen)))
        return
    if options.emit:
        print(next(LESSON[options.emit].cases()).kernel.ptx(), end="")
        return
    schedules = options.schedule or SCHEDULES
    if "all" in schedules:
        schedules = ALL_SCHEDULES
    for schedule in schedules:
        if not re.fullmatch(r"eager|late|random(#\d+)?|starve:\w+", schedule):
            parser.error(
                f"there is no schedule {schedule!r}: expected eager, late, random#SEED, starve:ENGINE or all"
            )
    torch, why = blackwell()
    records = []
    if not options.json:
        print(HEADER)
    for probe in chosen:
        records.append(run(probe, schedules, torch))
        if not options.json:
            print(row(records[-1]), flush=True)
            for case in records[-1]["cases"]:
                if not case["right"]:
                    print(f"    {case['label'] or probe.name}: {json.dumps(case, indent=4)}")
    wrong = [record["name"] for record in records if not record["right"]]
    if options.json:
        print(json.dumps(records, indent=1))
    elif torch is None:
        print(f"\nThe kernels were not launched on a GPU: {why}. The simulator has run all of them.")
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")
    if not options.json:
        print(f"{len(records)} probes, {sum(len(r['cases']) for r in records)} kernels: all are right.")


if __name__ == "__main__":
    main()
