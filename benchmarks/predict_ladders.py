"""Predicts two published ladders of Blackwell GEMMs from our own kernels, beside the published figures.

Tilus V0 to V6, f16, 8192 cubed: cycles, each at the clock that the author's profiler printed. V0 takes
half a minute: its threads copy, and each copy of each warp is run. The ladder of
the "tcgen05 for dummies" tutorial, bf16, 4096 cubed: TFLOP/s in bursts and sustained. docs/clock.md says what
was chosen with these figures in sight. ``python benchmarks/predict_ladders.py``
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.blackwell.ladder import v1a, v1b, v2a, v2b, v3, v4, v5, v6
from examples.blackwell.tilus import matmul, matmul_v0, matmul_v1
from pyptx.timing.constants import gpu

B200 = gpu("b200")
#: What timing a burst adds.
EVENT_US = (B200.value("launch.event_ns") + B200.value("launch.idle_ns")) / 1000
WIDE = {"block_n": 256, "block_k": 64, "e_block_n": 16}
#: Options of a version, beyond those that define it; cycles in millions and MHz of the profiler.
TILUS = {
    "v2": (WIDE | {"stages": 4, "in_flight": 1}, 1.575, 1580),
    "v3": (WIDE | {"stages": 4}, 1.147, 1410),
    "v4": (WIDE | {"stages": 4, "swizzle_size": 8}, 1.087, 1400),
    "v5": (WIDE | {"stages": 4, "swizzle_size": 8, "mma_stages": 2}, 0.964, 1320),
    "v6": (WIDE | {"stages": 6, "swizzle_size": 8, "block_m": 256}, 0.942, 1380),
}
#: The first versions in the best configuration by prediction. Like the published kernels, they keep their
#: permit to allocate tensor memory. Builder, options, cycles in millions, MHz.
TILE = {"block_m": 128, "block_n": 256, "block_k": 64, "relinquish": False}
FIRST = {
    "v0": (matmul_v0.build_matmul_v0.what, TILE, 3.92, 1750),
    "v1": (matmul_v1.build_matmul_v1.what, TILE | {"e_block_n": 64}, 4.28, 1770),
}
#: Seconds after which a prediction is given up.
LIMIT = 1500.0
#: TFLOP/s of short benchmarks, and of launches for 10 ms and more.
DUMMIES = {
    "v1a": (v1a.build_v1a, 254.6, 255.7),
    "v1b": (v1b.build_v1b, 252.8, 254.4),
    "v2a": (v2a.build_v2a, 681.2, 699.4),
    "v2b": (v2b.build_v2b, 695.4, 721.0),
    "v3": (v3.build_v3, 939.6, 914.4),
    "v4": (v4.build_v4, 1208.8, 1053.6),
    "v5": (v5.build_v5, 1302.3, 1169.7),
    "v6": (v6.build_v6, 1475.9, 1268.5),
}


def main():
    print("Tilus       predicted Mcycles   printed    error  bound")
    ladder = dict(FIRST)
    for name, (options, cycles, mhz) in TILUS.items():
        ladder[name] = matmul.build_matmul, options | matmul.VERSIONS[name][0], cycles, mhz
    for name, (build, options, cycles, mhz) in ladder.items():
        began = time.perf_counter()
        found = build(8192, 8192, **options).predict(
            (8192, 8192), (8192, 8192), gpu=B200, clock=float(mhz), timeout=LIMIT
        )
        mine, seconds = found.cycles / 1e6, time.perf_counter() - began
        error = mine / cycles - 1
        print(f"{name:<12} {mine:>16.3f} {cycles:>9.3f} {error:>+8.1%}  {found.bound} ({seconds:.0f} s)")
    print("\nladder      predicted TFLOP/s   printed    error  bound")
    for name, (build, *published) in DUMMIES.items():
        for clock, tflops in zip(("burst", "sustained"), published, strict=True):
            found = build(4096, 4096, 4096).predict(gpu=B200, clock=clock)
            timed = found.microseconds + EVENT_US * (clock == "burst")
            mine = 2 * 4096**3 / timed / 1e6
            error = mine / tflops - 1
            why = f"{found.bound} {found.mhz:.0f} MHz"
            print(f"{name:<4} {clock:<10} {mine:>13.0f} {tflops:>9.0f} {error:>+8.1%}  {why}")


if __name__ == "__main__":
    main()
