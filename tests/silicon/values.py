"""Kernels that execute every value form of the table on special and random operands.

One kernel holds many variants: each thread loads one tuple of operands and stores a word per variant.
The same kernel runs in the simulator and on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyptx import Kernel, Tile, b64, isa, kernel, ptx, reg, u64
from pyptx.core.types import TYPES, ScalarType
from pyptx.isa import Form, Match
from pyptx.sim.semantics import semantics

#: Tuples of operands, one per thread.
TUPLES = 1024
THREADS = 128
#: Variants per kernel.
BATCH = 48


@dataclass(frozen=True)
class Case:
    """One variant: its spelling, and the register types of its destination and sources."""

    match: Match
    dest: ScalarType
    sources: tuple[ScalarType, ...]

    @property
    def name(self) -> str:
        return self.match.name


def _register_type(kind: ScalarType) -> ScalarType:
    """A declarable type that holds ``kind``."""
    if kind.bits == 8:
        return TYPES["u32" if kind.kind != "s" else "s32"]
    if kind.name in ("bf16", "bf16x2", "f16x2", "f16"):
        return TYPES[f"b{kind.bits}"]
    return kind


def cases(form: Form, arch: str) -> Iterator[Case]:
    """Variants of a value form with one scalar destination that ``arch`` has."""
    target = isa.target(arch)
    specs = list(form.specs())
    dests = [s for s in specs if s.access == "w"]
    sources = [s for s in specs if s.access == "r"]
    for match in isa.variants(form):
        allowed = (form.on, *(a.on for a in match.alternatives if a.on is not None))
        if all(target in on for on in allowed):
            yield Case(
                match,
                _register_type(dests[0].scalar_types(match.chosen)[0]),
                tuple(_register_type(s.scalar_types(match.chosen)[0]) for s in sources),
            )


def value_forms() -> list[Form]:
    """Forms whose result depends on their operands alone."""
    moves = ("mov", "cvta", "cvta.to")
    return [isa.form(i) for i, s in semantics().items() if s.per == "value" and i not in moves]


def build(batch: list[Case], arch: str) -> Kernel:
    """A kernel ``f(operands, results)`` for a batch: u64 operands[4, TUPLES], results[variant, TUPLES]."""

    @kernel(
        in_specs=(Tile(4, TUPLES, u64),),
        out_specs=(Tile(len(batch), TUPLES, u64),),
        grid=(TUPLES // THREADS,),
        block=(THREADS,),
        arch=arch,
    )
    def values(operands, results):
        i = ptx.special.ctaid.x() * THREADS + ptx.special.tid.x()
        source, dest = operands.ptr + 0, results.ptr + 0
        ptx.inst.mad.wide.u32(source, i, 8, source)
        ptx.inst.mad.wide.u32(dest, i, 8, dest)
        raw = reg.array(b64, 4)
        for k in range(4):
            ptx.inst.ld.global_.b64(raw[k], ptx.addr(source, 8 * TUPLES * k))
        held: dict[tuple[int, str], Any] = {}

        def operand(k: int, kind: ScalarType) -> Any:
            """Operand k as ``kind``: the low bits of word k (a predicate: its lowest bit)."""
            if (k, kind.name) not in held:
                low = reg.scalar(u64)
                ptx.inst.mov.b64(low, raw[k])
                held[k, kind.name] = _narrow(low, kind)
            return held[k, kind.name]

        for number, case in enumerate(batch):
            result = reg.scalar(case.dest)
            sources = [operand(k, kind) for k, kind in enumerate(case.sources)]
            ptx.inst[case.name](result, *sources)
            ptx.inst.st.global_.b64(ptx.addr(dest, 8 * TUPLES * number), _widen(result, case.dest))
        ptx.ret()

    return values


def _narrow(low: Any, kind: ScalarType) -> Any:
    if kind.name == "pred":
        return (low & 1) != 0
    if kind.bits == 64:
        return low.view(kind)
    bits = reg.scalar(TYPES[f"u{kind.bits}"])
    ptx.inst[f"cvt.u{kind.bits}.u64"](bits, low)
    return bits if kind.name == f"u{kind.bits}" else bits.view(kind)


def _widen(value: Any, kind: ScalarType) -> Any:
    wide = reg.scalar(u64)
    if kind.name == "pred":
        ptx.inst.selp.b64(wide, 1, 0, value)
        return wide
    if kind.bits == 64:
        ptx.inst.mov.b64(wide, value)
        return wide
    ptx.inst[f"cvt.u64.u{kind.bits}"](wide, value.view(TYPES[f"u{kind.bits}"]))
    return wide


_INTEGERS = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF]
_INTEGERS += [0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000]
_INTEGERS += [0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF80, 0xFFFFFFFFFFFF8000, 0xFFFFFFFF80000000]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1 / 3, 1e-40, -1e-40, 1.1754944e-38, 3.4028235e38]
_FLOATS += [-3.4028235e38, float("inf"), float("-inf"), float("nan"), 127.5, 255.5, 32767.5, 65535.5, 2.0**31]
_FLOATS += [-(2.0**31), 2.0**32, 2.0**63, 2.0**64, 1 + 2.0**-23, 1 + 2.0**-12, 1e30, 1e-30, 65504.0, 65520.0]


def operands(seed: int = 0) -> np.ndarray:
    """Words [4, TUPLES]: special integers, special floats of each width, and random bits."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        singles = np.array(_FLOATS, np.float32).view(np.uint32).astype(np.uint64)
        halves = np.array(_FLOATS, np.float16).view(np.uint16).astype(np.uint64)
    brains = singles >> np.uint64(16)
    doubles = np.array(_FLOATS, np.float64).view(np.uint64)
    specials = np.concatenate([np.array(_INTEGERS, np.uint64), singles, halves, brains, doubles])
    words = rng.choice(specials, (4, TUPLES))
    random = rng.integers(0, 1 << 64, (4, TUPLES), np.uint64)
    # A quarter random bits; a quarter random f32 of ordinary size, where rounding is interesting.
    words[:, TUPLES // 2 : 3 * TUPLES // 4] = random[:, TUPLES // 2 : 3 * TUPLES // 4]
    ordinary = rng.standard_normal((4, TUPLES // 4)).astype(np.float32) * 2.0 ** rng.integers(
        -3, 4, TUPLES // 4
    )
    words[:, 3 * TUPLES // 4 :] = ordinary.astype(np.float32).view(np.uint32)
    return words
