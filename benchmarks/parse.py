"""Measure how fast PTX text is parsed and printed, in lines and bytes per second, for 1 MB of kernel code.

Target: 1 MB/s on one core. The seconds are processor time, so other programs do not change them.

    python benchmarks/parse.py [FILE.ptx ...]
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from pyptx.ir import parse_module, print_module

LINES = 32_000
RUNS = 5
BODY = """
$L__BB0_{n}:
	ld.global.f32 	%f{a}, [%rd{b}+{n}];
	mul.wide.u32 	%rd{a}, %r{b}, 4;
	add.s64 	%rd{b}, %rd{a}, %rd{c};
	fma.rn.f32 	%f{b}, %f{a}, %f{c}, 0f3F800000;
	mov.u32 	%r{a}, %tid.x;
	setp.ge.s32 	%p1, %r{a}, %r{c};
	@%p1 bra 	$L__BB0_{n};
	st.shared.v4.u32 	[%r{c}+16], {{%r{a}, %r{b}, %r{c}, %r{a}}}; // a comment
"""
HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<1000>;
	.reg .b32 	%r<1000>;
	.reg .b64 	%rd<1000>;
"""


def synthetic() -> str:
    parts = [HEAD]
    for n in range(LINES // BODY.count("\n")):
        parts.append(BODY.format(n=n, a=n % 997, b=n % 991, c=n % 983))
    return "".join([*parts, "\tret;\n}\n"])


def main() -> None:
    texts = {path: Path(path).read_text() for path in sys.argv[1:]} or {"synthetic": synthetic()}
    for name, text in texts.items():
        times = []
        for _ in range(RUNS):
            started = time.process_time()
            module = parse_module(text, name)
            times.append(time.process_time() - started)
        seconds = statistics.median(times)
        started = time.process_time()
        print_module(module)
        printing = time.process_time() - started
        lines = text.count("\n")
        print(
            f"{name}: {lines} lines, {len(text) / 1e6:.2f} MB: read in {seconds:.2f} s "
            f"({lines / seconds:,.0f} lines/s, {len(text) / seconds / 1e6:.2f} MB/s), "
            f"printed in {printing:.2f} s"
        )


if __name__ == "__main__":
    main()
