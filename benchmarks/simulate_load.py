"""Measure how long a kernel of 20,000 lines takes to load and to run once, as compilers unroll loops.

The kernel computes integers and floats in two banks of registers. Every 50 lines, some lanes branch over one
instruction. Target on 2 cores: 5 s from the text to the end of the first launch. All registers are verified.

    python benchmarks/simulate_load.py [LINES]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from pyptx import sim

LINES = 20_000
TARGET = 5.0
THREADS = 128
BANK = 16
BETWEEN_BRANCHES = 50
HEAD = f"""\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry unrolled(.param .u64 out)
.reqntid {THREADS}
{{
.reg .pred %p;
.reg .b32 %r<{BANK}>;
.reg .f32 %f<{BANK}>;
.reg .b32 %thread;
.reg .b64 %place;
mov.u32 %thread, %tid.x;
ld.param.u64 %place, [out];
mad.wide.u32 %place, %thread, {8 * BANK}, %place;
"""


def build(lines: int) -> tuple[str, np.ndarray]:
    """Return the PTX text, and the values that the kernel stores: one row of registers for each thread."""
    thread = np.arange(THREADS, dtype=np.uint32)
    text = [HEAD]
    r, f = [], []
    for i in range(BANK):
        text.append(f"mad.lo.u32 %r{i}, %thread, {2 * i + 1}, {i};\n")
        r.append(thread * np.uint32(2 * i + 1) + np.uint32(i))
        text.append(f"cvt.rn.f32.u32 %f{i}, %r{i};\n")
        f.append(r[i].astype(np.float32))
    while len(text) < lines:
        n = len(text)
        d, a, b = n * 7 % BANK, n * 5 % BANK, (n * 3 + n // BANK) % BANK
        if n % BETWEEN_BRANCHES == 0:
            # The label and the branch take a line each.
            text += [
                f"setp.lt.u32 %p, %r{a}, %r{b};\n",
                f"@%p bra L{n};\n",
                f"xor.b32 %r{d}, %r{d}, {n};\n",
                f"L{n}:\n",
            ]
            r[d] = np.where(r[a] < r[b], r[d], r[d] ^ np.uint32(n))
        elif n % 5 == 0:
            text.append(f"mad.lo.u32 %r{d}, %r{a}, {n | 1}, %r{b};\n")
            r[d] = r[a] * np.uint32(n | 1) + r[b]
        elif n % 5 == 1:
            text.append(f"mul.rn.f32 %f{d}, %f{a}, 0f3F400000;\n")
            f[d] = f[a] * np.float32(0.75)
        elif n % 5 == 2:
            text.append(f"xor.b32 %r{d}, %r{a}, %r{b};\n")
            r[d] = r[a] ^ r[b]
        elif n % 5 == 3:
            text.append(f"add.rn.f32 %f{d}, %f{a}, 0f41200000;\n")
            f[d] = f[a] + np.float32(10)
        else:
            text.append(f"shf.l.wrap.b32 %r{d}, %r{a}, %r{a}, {n % 31 + 1};\n")
            left = np.uint32(n % 31 + 1)
            r[d] = r[a] << left | r[a] >> np.uint32(32 - left)
    text += [f"st.global.b32 [%place+{4 * i}], %r{i};\n" for i in range(BANK)]
    text += [f"st.global.f32 [%place+{4 * (BANK + i)}], %f{i};\n" for i in range(BANK)]
    text.append("ret;\n}\n")
    return "".join(text), np.stack([*r, *(values.view(np.uint32) for values in f)], axis=1)


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    text, expected = build(lines)
    out = np.zeros_like(expected)
    started = time.perf_counter()
    loaded = sim.load(text)
    read = time.perf_counter()
    report = loaded.launch(grid=1, block=THREADS, args=[out])
    first = time.perf_counter()
    again = loaded.launch(grid=1, block=THREADS, args=[np.zeros_like(out)])
    second = time.perf_counter()
    print(
        f"{text.count(chr(10))} lines, {len(text) / 1e6:.2f} MB: "
        f"{report.steps} warp-instructions, {report.verdict}"
    )
    print(f"text to module          {read - started:8.2f} s")
    print(f"to the end of a launch  {first - started:8.2f} s  (target {TARGET:g})")
    print(f"a second launch         {second - first:8.2f} s")
    if report.verdict != "clean" or again.verdict != "clean" or not np.array_equal(out, expected):
        sys.exit("wrong")


if __name__ == "__main__":
    main()
