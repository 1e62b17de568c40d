"""Measure how long the check of one instruction takes when it is recorded, for the Blackwell GEMM.

Target: 2 us per instruction on average. The time covers only the check, not the recording.

    python benchmarks/check_at_call.py
"""

from __future__ import annotations

import statistics
import time

from _examples import load_example

from pyptx.dsl.trace import Trace
from pyptx.isa import target

RUNS = 51


def main() -> None:
    module = load_example("blackwell/gemm_highperf_blackwell.py").build_gemm(8192, 8192, 8192).module()
    recorded = [
        (instruction.opcode, instruction.modifiers, instruction.operands)
        for function in module.functions
        for instruction in function.instructions()
    ]

    def check() -> float:
        trace = Trace("gemm", target(module.target))
        started = time.process_time_ns()
        for opcode, modifiers, operands in recorded:
            trace.check(opcode, modifiers, operands)
        return (time.process_time_ns() - started) / len(recorded) / 1e3

    times = [check() for _ in range(RUNS)]
    print(f"instructions     {len(recorded):8d}")
    print(f"median of {RUNS}     {statistics.median(times):8.2f} us each  (target 2)")
    print(f"slowest run      {max(times):8.2f} us each")


if __name__ == "__main__":
    main()
