"""Random integer kernels, branchy ones, against an interpreter that runs one thread at a time.

The kernels take forward branches anywhere and bounded backward ones, under predicates that differ from lane
to lane, so that warps diverge, lanes end up alone, and joins are crossed in every way.  The interpreter,
:mod:`tests.sim.reference.machine`, knows nothing of warps.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.build import Kernel
from tests.sim.kernels.random_kernels import NUMBERS, SHAPES
from tests.sim.reference.machine import Machine

WORDS, LONGS, SHORTS, FLAGS = 4, 3, 2, 3
LOOPS = 3

HEAD = "\n".join([
    f".reg u32 t x0..x{WORDS - 1} k0..k{LOOPS - 1} most",
    f".reg u64 y0..y{LONGS - 1} o",
    f".reg u16 h0..h{SHORTS - 1}",
    f".reg pred p0..p{FLAGS - 1} again",
    "mov.u32 t, %tid.x",
    "mad.wide.u32 o, t, 128, out",
    *(f"mad.lo.u32 x{i}, t, {0x9E3779B1 * (i + 1) % 2**32}, {i}" for i in range(WORDS)),
    *(f"mad.wide.u32 y{i}, x{i}, x{i + 1}, {i}" for i in range(LONGS)),
    *(f"cvt.u16.u32 h{i}, x{i}" for i in range(SHORTS)),
    *(f"mov.u32 k{i}, 0" for i in range(LOOPS)),
    *(f"setp.lt.s32 p{i}, x{i}, x{i + 1}" for i in range(FLAGS)),
])  # fmt: skip

TAIL = "\n".join([
    "FINISH:",
    *(f"st.global.u32 [o+{8 * i}], x{i}" for i in range(WORDS)),
    *(f"st.global.u64 [o+{32 + 8 * i}], y{i}" for i in range(LONGS)),
    *(f"st.global.u16 [o+{64 + 8 * i}], h{i}" for i in range(SHORTS)),
    *(f"selp.u32 t, 1, 0, p{i}\nst.global.u32 [o+{80 + 8 * i}], t" for i in range(FLAGS)),
    "ret",
])  # fmt: skip

COUNTS = {"W": ("x", WORDS), "L": ("y", LONGS), "H": ("h", SHORTS), "P": ("p", FLAGS)}


@st.composite
def kernels(draw: st.DrawFn) -> str:
    def operand(kind: str) -> str:
        if kind == "#":
            return str(draw(st.sampled_from(NUMBERS)))
        if kind == "P|P":
            first = draw(st.integers(0, FLAGS - 1))
            return f"p{first}|p{(first + 1) % FLAGS}"
        prefix, count = COUNTS[kind]
        return f"{prefix}{draw(st.integers(0, count - 1))}"

    def straight() -> str:
        shape = draw(st.sampled_from(list(SHAPES)))
        name = draw(st.sampled_from(SHAPES[shape]))
        guard = draw(st.sampled_from(["", "", "@", "@!"]))
        guard = f"{guard}p{draw(st.integers(0, FLAGS - 1))} " if guard else ""
        return f"{guard}{name} {', '.join(map(operand, shape.split()))}"

    lines = [straight() for _ in range(draw(st.integers(1, 14)))]
    for label in range(draw(st.integers(0, 5))):
        # Forward: from somewhere to somewhere later.
        source = draw(st.integers(0, len(lines)))
        target = draw(st.integers(source, len(lines)))
        guard = draw(st.sampled_from(["@p0 ", "@p1 ", "@!p1 ", "@!p2 ", "@p2 ", ""]))
        lines.insert(target, f"F{label}:")
        lines.insert(source, f"{guard}bra F{label}")
    for loop in range(draw(st.integers(0, LOOPS))):
        target = draw(st.integers(0, len(lines)))
        source = draw(st.integers(target, len(lines)))
        # Each lane goes back at most as often as its own count allows, however it comes by.
        lines.insert(source, f"add.u32 k{loop}, k{loop}, 1\nmul.lo.u32 most, t, {draw(st.integers(0, 3))}\n"
                     f"and.b32 most, most, 3\nsetp.lt.u32 again, k{loop}, most\n@again bra B{loop}")  # fmt: skip
        lines.insert(target, f"B{loop}:")
    if draw(st.booleans()):
        lines.insert(
            draw(st.integers(0, len(lines))),
            draw(st.sampled_from(["@p0 bra FINISH", "@p1 ret", "@!p2 exit"])),
        )
    return "\n".join([HEAD, *lines, TAIL])


MODES = [(32, "eager", 0), (32, "random", 1), (13, "eager", 0), (1, "late", 0), (64, "random", 2)]


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize(("threads", "schedule", "seed"), MODES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=kernels())
def test_random_kernels(threads: int, schedule: str, seed: int, text: str) -> None:
    kernel = Kernel(text, "out:u64")
    out = np.zeros((threads, 128), np.uint8)
    kernel.clean(out, block=threads, schedule=schedule, seed=seed)
    expected = interpreted(kernel, threads)
    for thread in range(threads):
        assert out[thread].tolist() == expected[thread].tolist(), f"thread {thread}"


def interpreted(kernel: Kernel, threads: int) -> np.ndarray:
    """What the threads store, by the interpreter."""
    out = np.zeros((threads, 128), np.uint8)
    Machine(kernel.module, "kernel", [out], block=(threads, 1, 1)).run()
    return out


def test_the_interpreter_sees_differences() -> None:
    """A kernel whose lanes differ in every word: the comparison above compares something."""
    rows = interpreted(Kernel(HEAD + "\n" + TAIL, "out:u64"), 8)
    assert len({row.tobytes() for row in rows}) == 8
