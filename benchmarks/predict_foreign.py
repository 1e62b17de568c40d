"""Predicts kernels of other projects from their PTX alone, before they are measured, and scores that.

    python benchmarks/predict_foreign.py --compile --sources SOURCES --texts TEXTS   # see below
    python benchmarks/predict_foreign.py --check --texts TEXTS [NAME ...]        # small ones, simulated
    python benchmarks/predict_foreign.py --predict --texts TEXTS --out FILE [NAME ...]
    python benchmarks/predict_foreign.py --digest --out FILE                         # commit it, then measure
    python benchmarks/predict_foreign.py --measure --texts TEXTS --times TIMES [NAME ...]     # on a GPU
    python benchmarks/predict_foreign.py --count --texts TEXTS --counters COUNTERS [NAME ...] # ncu
    python benchmarks/predict_foreign.py --score --out FILE --times TIMES --counters COUNTERS

``--compile`` needs no GPU: a C++ compiler, Triton 3.6, and the CUDA wheels of ``rivals/build.py``. SOURCES
has two projects: ``fast.cu`` (pranjalssh/fast.cu), and ``triton`` (triton-lang/triton at 3.6), of which only
``python/tutorials`` is read. With ``--second`` it compiles another set, predicted later: more of Triton's
tutorials, and kernels of ``Liger-Kernel`` (linkedin), ``SGEMM_CUDA`` (siboehm), ``learn-cuda`` (gau-nernst)
and ``llm.c`` (karpathy), which SOURCES then has in place of ``fast.cu``. With ``--third`` it compiles kernels
of ``cuda-samples``, ``apex`` and ``cutlass``, all of NVIDIA, ``LeetCUDA`` (xlite-dev), ``DeepGEMM``
(deepseek-ai), ``flash-linear-attention`` (fla-org), ``unsloth`` (unslothai) and ``FlagGems`` (FlagOpen); of
``cutlass`` only headers are read. NAME is a part of the names of launches. Cycles are those of one launch
behind empty caches at the clock that the law gives a burst, with what a profiler adds. The texts are not
committed; ``foreign_predictions.jsonl``, ``foreign_2_predictions.jsonl`` and ``foreign_3_predictions.jsonl``
have the predictions that were committed before they were measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _foreign import Foreign, compile_all, compile_second, compile_third, read, row_of
from _foreign_references import REFERENCES
from _kept import keep, kept
from _rows import Results, run_rows, text_of
from _rows import work as measure
from _strata import H200
from hopper_counters import profiled
from hopper_counters import work as count
from predict_h200 import l2_of
from predict_unseen import KINDS, digest, in_words, measured_of, score

import pyptx

#: M, N, K of the launches of fast.cu's kernels; the last is for the simulator. Threads multiply in kernel 1.
LARGE, SQUARE, ODD = (8192, 8192, 8192), (4096, 4096, 4096), (6144, 2048, 4096)
SMALL, WAVE = (256, 512, 256), (2048, 2048, 256)
SIZES = {
    number: sizes
    for numbers, sizes in (
        ((1,), [(2048, 2048, 512), (3072, 1024, 384), (256, 256, 64)]),
        ((2, 4), [SQUARE, ODD, SMALL]),
        ((3, 5), [LARGE, ODD, SMALL]),
        ((6, 7, 9, 10, 12), [SQUARE, ODD, WAVE]),
        ((8, 11), [LARGE, ODD, WAVE]),
    )
    for number in numbers
}
#: Seconds of a sustained window, and single launches of a burst.
SECONDS, REPEATS = 0.5, 20


def check(foreign: Foreign, timeout: float) -> str:
    """Run a launch in the simulator. Return its verdict and how far its outputs are from the reference."""
    import torch

    arrays, given = foreign.contents(), foreign.given
    began = time.perf_counter()
    report = foreign.module.launch(
        foreign.entry,
        **foreign.extents,
        dynamic_smem=given["smem"],
        args=foreign.values(arrays),
        schedule="eager",
        sanitize=False,  # some of these kernels break rules that a GPU forgives
        timeout=timeout,
    )
    taken = time.perf_counter() - began
    tensors = [_tensor(torch, arrays[name]) for name in foreign.inputs]
    wanted = REFERENCES[given["reference"]](*tensors, **given.get("parameters", {}))
    wanted = wanted if isinstance(wanted, list) else [wanted]
    worst = 0.0
    for name, values in zip(foreign.outputs, wanted, strict=True):
        found = _tensor(torch, arrays[name]).double()
        bound = given["atol"] + given["rtol"] * values.double().abs()
        error = (found - values.double()).abs() / bound
        worst = max(worst, float(error.nan_to_num(nan=1e9).max()))
    rules = ", ".join(sorted({finding.rule.name for finding in report.findings}))
    return (
        f"{foreign.name}: {report.verdict} ({rules or 'no findings'}), "
        f"worst error {worst:.2f} of the tolerance, {taken:.0f} s"
    )


def _tensor(torch: Any, array: Any) -> Any:
    """Return an array as a tensor; torch does not know numpy's small floating-point types."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("u2").copy()).view(torch.bfloat16)
    if array.dtype.name == "float8_e4m3fn":
        return torch.from_numpy(array.view("u1").copy()).view(torch.float8_e4m3fn)
    return torch.from_numpy(array.copy())


def predict(foreign: Foreign, kind: str, timeout: float) -> dict[str, Any]:
    """Return the prediction of a launch: its cycles under a profiler, or its time under a protocol."""
    row, given = row_of(foreign), foreign.given
    line = {"row": row.name, "kind": kind, "text": text_of(row, False)}
    began = time.process_time()
    try:
        found = pyptx.predict(
            foreign.module,
            foreign.entry,
            **foreign.extents,
            dynamic_smem=given["smem"],
            args=foreign.values(foreign.shapes()),
            gpu=H200,
            clock="burst" if kind == "cycles" else kind,
            l2="cold" if kind == "cycles" else l2_of(row, kind),
            data=row.data,
            contents=given.get("contents", "unknown"),
            timeout=timeout,
        )
    except Exception as error:  # a launch that cannot be predicted is listed, and the others go on
        return {**line, "fault": f"{type(error).__name__}: {error}".splitlines()[0]}
    line["seconds"] = round(time.process_time() - began, 1)
    if str(found.verdict) != "clean":
        rules = {finding.rule.name: finding.message for finding in found.findings}
        return {**line, "fault": "; ".join(f"{rule}: {said[:150]}" for rule, said in sorted(rules.items()))}
    return {**line, "verdict": str(found.verdict), **in_words(found, kind, row, given.get("bits", 16))}


def chosen(folder: Path, words: Sequence[str], key: str = "launches") -> list[Foreign]:
    """Return the launches whose names have one of the words; without words, all."""
    return [each for each in read(folder, key) if not words or any(word in each.name for word in words)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of names; without any, all")
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("compile", "check", "predict", "digest", "measure", "count", "score", "list"):
        what.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--sources", type=Path)
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--second", action="store_true", help="compile the second set")
    sets.add_argument("--third", action="store_true", help="compile the third set")
    parser.add_argument("--cuda", type=Path, help="the CUDA toolkit; the wheels' by default")
    parser.add_argument("--texts", type=Path, default=Path("foreign_texts"))
    parser.add_argument("--out", type=Path, default=Path("foreign_predictions.jsonl"))
    parser.add_argument("--times", type=Path, default=Path("foreign_times.jsonl"))
    parser.add_argument("--counters", type=Path, default=Path("foreign_counters.jsonl"))
    parser.add_argument("--kind", choices=KINDS, action="append", help="may be repeated; all")
    parser.add_argument("--timeout", type=float, default=250.0, help="seconds for a launch; 250")
    parser.add_argument("--budget", type=float, default=450.0, help="seconds after which no row begins; 450")
    parser.add_argument("--work", choices=("burst", "sustained", "count"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compile and given.second:
        compile_second(given.sources, given.texts, given.cuda)
    elif given.compile and given.third:
        compile_third(given.sources, given.texts, given.cuda)
    elif given.compile:
        compile_all(given.sources, given.texts, given.cuda, SIZES)
    elif given.list:
        for each in chosen(given.texts, given.names):
            extents = " ".join(f"{name} {'x'.join(map(str, e))}" for name, e in each.extents.items())
            print(f"{each.name}: {each.given['text']}.ptx, {extents}, {each.given['smem']} bytes")
    elif given.check:
        for each in chosen(given.texts, given.names, "checks"):
            print(check(each, given.timeout), flush=True)
    elif given.predict:
        known = {(line["row"], line["kind"]) for line in kept(given.out)}
        for each in chosen(given.texts, given.names):
            for kind in given.kind or KINDS:
                if (each.name, kind) not in known:
                    line = predict(each, kind, given.timeout)
                    keep(given.out, line)
                    print(line, flush=True)
    elif given.digest:
        print(digest(list(kept(given.out))))
    elif given.score:
        score(list(kept(given.out)), measured_of(given.times, given.counters))
    elif given.measure:
        _measure(given)
    else:
        _count(given)


def _measure(given: argparse.Namespace) -> None:
    """Measure the launches, or, as a worker, those that standard input names."""
    results = Results(given.times)
    if given.work:
        rows = [row_of(each) for each in read(given.texts)]
        measure(rows, results, given.work, seconds=SECONDS, repeats=REPEATS, candidates=False)
        return
    rows = [row_of(each) for each in chosen(given.texts, given.names)]
    began = time.monotonic()
    for protocol in [kind for kind in given.kind or KINDS if kind != "cycles"]:
        program = [sys.executable, __file__, "--measure", "--work", protocol]
        program += ["--texts", str(given.texts), "--times", str(given.times)]
        left = given.budget - (time.monotonic() - began)
        run_rows(program, rows, Results(given.times), protocol, candidates=False, budget=left, limit=90)


def _count(given: argparse.Namespace) -> None:
    """Count the cycles of the launches under ncu, those that the file lacks; or, as its program, launch."""
    some = chosen(given.texts, given.names)
    if given.work:
        count([row_of(each) for each in some], ours_only=True)
        return
    known = {name for name, kind in measured_of(given.times, given.counters) if kind == "cycles"}
    names = [each.name for each in some if each.name not in known]
    program = [sys.executable, __file__, "--count", "--work", "count", "--texts", str(given.texts), *names]
    for line in profiled(program, "all") if names else ():
        print(json.dumps(line), flush=True)
        keep(given.counters, line)


if __name__ == "__main__":
    main()
