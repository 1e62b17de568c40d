"""ldmatrix, stmatrix and movmatrix, with rows of matrices in any order."""

from __future__ import annotations

import numpy as np

from pyptx.isa import Match

from ..case import Headless, In, KernelCase, Out, kernel
from ..fragments import matches
from ..words import uniform

#: Shared memory: 32 rows of 16 bytes, which are 128 words.
_WORDS = 128
_AREA = f".shared .align 128 .b8 area[{4 * _WORDS}];"


def _rows(name: str) -> np.ndarray:
    """Each lane's row, a permutation of 0..31."""
    return np.argsort(uniform(name, 32)).astype(np.uint32)


def _text(lines: list[str]) -> Headless:
    return kernel("\n".join(lines), "given:u64 rows:u64 out:u64", registers=_AREA)


#: Every lane moves four words between ``given`` or ``out`` (%d0, %d2) and the area (%r0); its row is at %r1.
_SETUP = (
    "mov.u32 %r3, area;",
    "mad.lo.u32 %r0, %lane, 16, %r3;",
    "mad.wide.u32 %d1, %lane, 4, %rows;",
    "ld.global.u32 %r1, [%d1];",
    "mad.lo.u32 %r1, %r1, 16, %r3;",
    "cvt.u64.u32 %d3, %r1;",
    "cvta.shared.u64 %d3, %d3;",
)


def _address(match: Match) -> str:
    return "%r1" if "ss" in match.chosen else "%d3"


def _registers(match: Match) -> list[str]:
    spec = next(spec for spec in match.form.specs() if spec.name == "r")
    return [f"%r{8 + i}" for i in range(spec.length(match.chosen) or 1)]


def _load_case(match: Match) -> KernelCase:
    registers = _registers(match)
    lines = [
        *_SETUP,
        "mad.wide.u32 %d0, %lane, 16, %given;",
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d0];",
        "st.shared.v4.b32 [%r0], {%r4, %r5, %r6, %r7};",
        "bar.sync 0;",
        f"{match.name} {{{', '.join(registers)}}}, [{_address(match)}];",
        f"mad.wide.u32 %d2, %lane, {4 * len(registers)}, %out;",
        *(f"st.global.b32 [%d2+{4 * i}], {register};" for i, register in enumerate(registers)),
    ]
    given = uniform(match.name, _WORDS, 32).astype(np.uint32)
    arguments = (In(given), In(_rows(match.name + " rows")), Out(np.uint32, (32, len(registers))))
    return KernelCase(match.name, _text(lines), arguments, covers=(match.form.id,))


def _store_case(match: Match) -> KernelCase:
    registers = _registers(match)
    lines = [
        *_SETUP,
        "mov.u32 %r4, 0;",
        "st.shared.v4.b32 [%r0], {%r4, %r4, %r4, %r4};",
        f"mad.wide.u32 %d0, %lane, {4 * len(registers)}, %given;",
        *(f"ld.global.b32 {register}, [%d0+{4 * i}];" for i, register in enumerate(registers)),
        "bar.sync 0;",
        f"{match.name} [{_address(match)}], {{{', '.join(registers)}}};",
        "bar.sync 0;",
        "mad.wide.u32 %d2, %lane, 16, %out;",
        "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r0];",
        "st.global.v4.b32 [%d2], {%r4, %r5, %r6, %r7};",
    ]
    given = uniform(match.name, 32 * len(registers), 32).astype(np.uint32)
    arguments = (In(given), In(_rows(match.name + " rows")), Out(np.uint32, _WORDS))
    return KernelCase(match.name, _text(lines), arguments, covers=(match.form.id,))


def _move_case(match: Match) -> KernelCase:
    lines = [
        "mad.wide.u32 %d0, %lane, 4, %given;",
        "ld.global.b32 %r0, [%d0];",
        f"{match.name} %r1, %r0;",
        "mad.wide.u32 %d1, %lane, 4, %out;",
        "st.global.b32 [%d1], %r1;",
    ]
    given = uniform(match.name, 32, 32).astype(np.uint32)
    text = kernel("\n".join(lines), "given:u64 out:u64")
    return KernelCase(match.name, text, (In(given), Out(np.uint32, 32)), covers=(match.form.id,))


CASES = [
    *map(_load_case, matches("ldmatrix")),
    *map(_store_case, matches("stmatrix")),
    *map(_move_case, matches("movmatrix")),
]
