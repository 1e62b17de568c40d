"""Count the machine instructions of the ladder's and the GEMM's main loops, beside those of given kernels.

A loop is the shortest piece of code that ends with a branch back to its start and has the products (or the
copies) of whole stages; where the assembler unrolled it, the counts are those of one stage.  Code that a wait
jumps to when it is not over lies elsewhere and does not count.

    python benchmarks/main_loops.py                       # the ladder, build_gemm to build_gemm_persistent
    python benchmarks/main_loops.py v4=other.cubin ...    # beside each, the kernels of a cubin
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from _examples import load_example

from pyptx.toolchain import disassemble

_FUNCTION = re.compile(r"\t\.section\t\.text\.([^,\s]+)")
_LABEL = re.compile(r"(\.L_x_\w+):")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+\{?\s*(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
_TARGET = re.compile(r"\.L_x_\w+")

#: What an opcode does, by its beginning: the first that matches counts.
KINDS = {
    "product": re.compile(r"UTC\w*MMA"),
    "copy": re.compile(r"UTMALDG"),
    "barrier": re.compile(r"SYNCS|UTCBAR|BAR|ARRIVES"),
    "predicate": re.compile(r"U?ISETP|U?PLOP3|R2P|U?P2R|U?VOTE"),
    "branch": re.compile(r"BRA|UBRA|BSSY|BSYNC|WARPSYNC|YIELD|ELECT|CALL|RET|EXIT"),
    "move": re.compile(r"U?MOV|R2UR|S2U?R|U?SEL|IMAD\.MOV|IMAD\.U32|LDCU?\b|CS2R"),
}


@dataclass(frozen=True)
class Loop:
    """Instructions of a loop for one stage, by what they do; the rest is integer arithmetic."""

    counts: dict[str, float]
    total: float


def functions(sass: str) -> dict[str, list[str]]:
    """Return the lines of each function."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in sass.splitlines():
        if match := _FUNCTION.match(line):
            lines = found.setdefault(match[1], [])
        lines.append(line)
    return found


def loop_of(lines: list[str], wanted: dict[str, int]) -> Loop | None:
    """Return the loop that has so many instructions of each kind for a stage; None if there is none.

    Args:
        lines: of one function.
        wanted: the instructions of one stage by their kind; a loop may have several stages.
    """
    opcodes: list[str] = []
    labels: dict[str, int] = {}
    ends: list[tuple[int, int]] = []
    for line in lines:
        if match := _LABEL.match(line):
            labels[match[1]] = len(opcodes)
        elif (match := _INSTRUCTION.match(line)) and match[1] != "NOP":
            opcodes.append(match[1])
            if match[1].startswith("BRA") and (target := _TARGET.search(match[2])):
                begin = labels.get(target[0])
                if begin is not None:
                    ends.append((begin, len(opcodes)))
    best: Loop | None = None
    for begin, end in ends:
        counts = Counter(
            next((kind for kind, pattern in KINDS.items() if pattern.match(opcode)), "integer")
            for opcode in opcodes[begin:end]
        )
        stages = {counts[kind] / number for kind, number in wanted.items()}
        if len(stages) > 1 or (number := stages.pop()) < 1 or number % 1:
            continue
        found = Loop({kind: count / number for kind, count in counts.items()}, (end - begin) / number)
        if best is None or found.total < best.total:
            best = found
    return best


#: The loops of each kernel, with their products and copies for a stage; one thread issues both up to v3.
LOOPS = {
    **{
        name: {"all": {"product": products, "copy": copies}}
        for name, products, copies in (
            ("v1a", 16, 64),
            ("v1b", 16, 2),
            ("v2a", 16, 8),
            ("v2b", 16, 2),
            ("v3", 8, 2),
        )
    },
    **{
        name: {"products": {"product": 4, "copy": 0}, "copies": {"product": 0, "copy": copies}}
        for name, copies in (
            ("v4", 2),
            ("v5", 2),
            ("v6", 2),
            ("v7", 3),
            ("build_gemm", 2),
            ("build_gemm_2sm", 2),
            ("build_gemm_persistent", 2),
            ("build_gemm_persistent_1sm", 2),
            ("build_gemm_clc", 2),
            ("build_gemm_clc_1sm", 2),
        )
    },
}
COLUMNS = (*KINDS, "integer")


def show(name: str, sass: str, rung: str) -> None:
    for function, lines in functions(sass).items():
        for what, wanted in LOOPS[rung].items():
            loop = loop_of(lines, {kind: number for kind, number in wanted.items() if number})
            if loop is None or any(loop.counts.get(kind, 0) != number for kind, number in wanted.items()):
                continue
            cells = "".join(f"{loop.counts.get(kind, 0):>10.1f}" for kind in COLUMNS)
            print(f"{name[:34]:<36}{function[:24]:<26}{what:<10}{loop.total:>7.1f}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("references", nargs="*", metavar="KERNEL=CUBIN", help="kernels to show beside one")
    references: dict[str, list[Path]] = {}
    for given in parser.parse_args().references:
        rung, _, path = given.partition("=")
        if rung not in LOOPS or not Path(path).is_file():
            parser.error(f"{given}: expected one of {', '.join(LOOPS)}, and a cubin")
        references.setdefault(rung, []).append(Path(path))
    table = load_example("blackwell/ladder/table.py")
    heads = "".join(f"{kind:>10}" for kind in COLUMNS)
    print(f"{'':<36}{'function':<26}{'loop':<10}{'all':>7}{heads}")
    gemm = load_example("blackwell/gemm_highperf_blackwell.py")
    kernels = {name: build for name, (_, build, *_) in table.RUNGS.items()}
    kernels |= {build.__name__: build for build in gemm.BUILDERS}
    for build in (gemm.build_gemm_persistent, gemm.build_gemm_clc):
        kernels[f"{build.__name__}_1sm"] = partial(build, ctas=1)
    for rung, build in kernels.items():
        show(rung, build(4096, 4096, 4096).sass(), rung)
        for path in references.get(rung, ()):
            show(f"  {path.stem}", disassemble(path.read_bytes()), rung)


if __name__ == "__main__":
    main()
