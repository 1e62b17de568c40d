"""Random integer kernels, branchy ones, against an interpreter that runs one thread at a time.

The kernels take forward branches anywhere and bounded backward ones, under predicates that differ from lane
to lane, so that warps diverge, lanes end up alone, and joins are crossed in every way.  The interpreter here
knows nothing of warps; values come from :mod:`tests.sim.oracle`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyptx.ir import Immediate, Instruction, Label, Pair, Register
from pyptx.isa import bind_instruction
from tests.sim.build import Kernel
from tests.sim.expected import EXPECTED
from tests.sim.oracle import ANY

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

#: Instructions by the registers that they use: W word, L long, H short, P predicate, # an immediate.
SHAPES = {
    "W W W": ["add.u32", "add.sat.s32", "sub.s32", "sub.sat.s32", "mul.lo.u32", "mul.hi.s32", "mul.hi.u32", "min.s32",
              "max.u32", "and.b32", "or.b32", "xor.b32"],
    "W W #": ["add.u32", "sub.u32", "mul.lo.s32", "shl.b32", "shr.u32", "shr.s32", "div.s32", "rem.u32", "xor.b32"],
    "W W": ["not.b32", "neg.s32", "mov.u32"],
    "W #": ["mov.b32"],
    "W W W W": ["mad.lo.s32", "mad.hi.u32"],
    "W W W P": ["selp.u32"],
    "L L L": ["add.s64", "sub.u64", "mul.lo.s64", "mul.hi.u64", "min.u64", "max.s64", "xor.b64"],
    "L W W": ["mul.wide.s32", "mul.wide.u32"],
    "L W W L": ["mad.wide.u32"],
    "L L W": ["shl.b64", "shr.s64"],
    "L L L P": ["selp.b64"],
    "H H H": ["add.s16", "mul.lo.u16", "mul.hi.s16", "and.b16", "max.s16"],
    "W H H": ["mul.wide.s16"],
    "L W": ["cvt.s64.s32", "cvt.u64.u32", "cvt.s64.s8", "cvt.u64.u16"],
    "W L": ["cvt.u32.u64", "cvt.sat.s32.s64", "cvt.s32.s16"],
    "H W": ["cvt.u16.u32", "cvt.sat.u8.s32", "cvt.s16.s8"],
    "P W W": ["setp.lt.s32", "setp.ge.u32", "setp.eq.b32", "setp.hi.u32"],
    "P L L": ["setp.le.s64", "setp.ne.b64"],
    "P|P W #": ["setp.gt.s32"],
    "P P P": ["and.pred", "xor.pred", "or.pred"],
    "P P": ["not.pred", "mov.pred"],
}  # fmt: skip
COUNTS = {"W": ("x", WORDS), "L": ("y", LONGS), "H": ("h", SHORTS), "P": ("p", FLAGS)}


@st.composite
def kernels(draw: st.DrawFn) -> str:
    def operand(kind: str) -> str:
        if kind == "#":
            return str(draw(st.sampled_from([1, 2, 3, 7, 31, 33, 255, -5, -1, 0x7FFFFFFF])))
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


def interpret(body: tuple[Any, ...], thread: int) -> dict[int, int]:
    """Bytes of the output that one thread stores, by offset."""
    labels = {s.name: i for i, s in enumerate(body) if isinstance(s, Label)}
    registers: dict[str, int] = {"out": 0}
    stored: dict[int, int] = {}
    at = steps = 0
    while at < len(body):
        steps += 1
        assert steps < 20_000
        s = body[at]
        at += 1
        if not isinstance(s, Instruction):
            continue
        if s.guard is not None and bool(registers[s.guard.register.name]) == s.guard.negated:
            continue
        if s.opcode == "bra":
            at = labels[s.operands[0].name]  # type: ignore[union-attr]
        elif s.opcode in ("ret", "exit"):
            break
        elif s.name.startswith("ld.param"):
            continue
        elif s.opcode == "st":
            address, source = s.operands
            width = int(s.modifiers[-1][1:]) // 8
            start = registers[address.base.name] + address.offset  # type: ignore[union-attr]
            for byte, value in enumerate(registers[source.name].to_bytes(8, "little")[:width]):  # type: ignore[union-attr]
                stored[start + byte] = value
        else:
            execute(s, registers, thread)
    return stored


def execute(s: Instruction, registers: dict[str, int], thread: int) -> None:
    binding = bind_instruction(s)
    dest, *sources = s.operands
    raw = []
    for name, operand in list(binding.operands.items())[1:]:
        (kind,) = binding.types(name)
        if isinstance(operand, Register):
            raw.append(registers[operand.name])
        elif isinstance(operand, Immediate):
            assert isinstance(operand.value, int)
            raw.append(operand.value & ((1 << kind.bits) - 1))
        else:
            assert str(operand) == "%tid.x"
            raw.append(thread)
    del sources
    result = EXPECTED[binding.form_id](binding.chosen, *raw)
    assert result is not ANY
    if isinstance(dest, Pair):
        for part, value in zip((dest.first, dest.second), result, strict=True):
            registers[part.name] = value  # type: ignore[union-attr]
        return
    assert isinstance(dest, Register)
    value = result[0] if isinstance(result, tuple) else result
    kind = next(iter(binding.types(next(iter(binding.operands)))))
    if kind.kind == "s" and value >> (kind.bits - 1):
        value |= -1 << kind.bits
    registers[dest.name] = value & ((1 << dest.type.bits) - 1)


MODES = [(32, "eager", 0), (32, "random", 1), (13, "eager", 0), (1, "late", 0), (64, "random", 2)]


@pytest.mark.parametrize(("threads", "schedule", "seed"), MODES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=kernels())
def test_random_kernels(threads: int, schedule: str, seed: int, text: str) -> None:
    kernel = Kernel(text, "out:u64")
    out = np.zeros((threads, 128), np.uint8)
    kernel.clean(out, block=threads, schedule=schedule, seed=seed)
    body = kernel.module.functions[0].body
    for thread in range(threads):
        expected = np.zeros(128, np.uint8)
        for offset, value in interpret(body, thread).items():
            expected[offset - 128 * thread] = value
        assert out[thread].tolist() == expected.tolist(), f"thread {thread}"


def test_the_interpreter_sees_differences() -> None:
    """A kernel whose lanes differ in every word: the comparison above compares something."""
    kernel = Kernel(HEAD + "\n" + TAIL, "out:u64")
    rows = [interpret(kernel.module.functions[0].body, t) for t in range(8)]
    words = [
        tuple(sorted(row.items()))
        for row in (({k - 128 * t: v for k, v in r.items()}) for t, r in enumerate(rows))
    ]
    assert len(set(words)) == 8
