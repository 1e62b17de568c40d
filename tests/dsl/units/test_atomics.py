"""Atomics and reductions: every variant of the table through the wrappers, spellings, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError
from pyptx.core.types import TYPES, b32, b128, bf16x2, f16, f16x2, f32, pred, s32, s64, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import atomics
from pyptx.isa import Match
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import public_functions
from tests.dsl.units.spelled import Bench, assemble_variants, variants_of

_SEMANTICS = {"relaxed", "acquire", "release", "acq_rel"}
_SCOPES = {"cta", "cluster", "gpu", "sys"}
_OPERATIONS = {"and", "or", "xor", "exch", "add", "inc", "dec", "min", "max", "cas"}


def _call(bench: Bench, match: Match) -> None:
    given: dict[str, Any] = {}
    operation, length = "", None
    kind = TYPES[match.spelling[-1]]
    for word in match.spelling[:-1]:
        if word in _SEMANTICS:
            given["sem"] = word
        elif word in _SCOPES:
            given["scope"] = word
        elif word in _OPERATIONS:
            operation = word
        elif word == "noftz":
            given["noftz"] = kind is f32
        elif word == "L2::cache_hint":
            given["cache_hint"] = bench.cache_hint
        elif word[0] == "v":
            length = int(word[1:])
        else:
            given["space"] = word
    value = bench.one(kind) if length is None else bench.several(kind, length)
    if operation == "cas":
        atomics.atom_cas(bench.address, value, value, out=value, **given)
    elif match.form.opcode == "atom":
        atomics.atom(operation, bench.address, value, out=value, **given)
    else:
        atomics.red(operation, bench.address, value, **given)


@pytest.mark.full
def test_every_atomic_operation_assembles(ptxas: Tool) -> None:
    assert assemble_variants(variants_of("atom"), _call, ptxas, ("sm_100a",)) == []


@pytest.mark.full
def test_every_reduction_assembles(ptxas: Tool) -> None:
    """``red.async`` is a unit of its own."""
    plain = variants_of("red", lambda match: not match.form.id.startswith("red.async"))
    assert assemble_variants(plain, _call, ptxas, ("sm_100a",)) == []


def test_nothing_public_is_left_out() -> None:
    assert public_functions(atomics, "ptx") == {"ptx.atom", "ptx.atom_cas", "ptx.red"}


def test_spellings_and_results(ptxas: Tool) -> None:
    def body() -> None:
        p = ptx.special.clock64()  # ptxas fails (C7907) on 16-bit atomics at an address that it knows
        counter = smem.alloc(1, u32)
        signed, wide, bits = reg.scalar(s32, init=0), reg.scalar(s64, init=0), reg.scalar(b32, init=0)
        x, h = reg.scalar(f32, init=0.0), reg.scalar(f16, init=0.0)
        row, whole = reg.array(f32, 4, init=0.0), reg.scalar(b128)
        ticket = ptx.atom("add", counter, 1, u32)
        total = ptx.atom("add", p, wide, sem="relaxed", scope="gpu", space="global")
        least = ptx.atom("min", p, signed)
        mask = ptx.atom("or", p, signed)
        was = ptx.atom("exch", p, x)
        half = ptx.atom("add", p, h)
        sums = ptx.atom("add", p, row, space="global")
        turn = ptx.atom("inc", p, bits)
        seen = ptx.atom_cas(p, 0, x, scope="sys")
        pair = ptx.atom_cas(p, whole, whole)
        keep = reg.scalar(pred, init=True)
        ptx.atom("max", p, signed, out=least, pred=keep)
        ptx.red("add", p, x, sem="release", scope="gpu", space="global", pred=keep)
        ptx.red("max", p, reg.array(f16x2, 4, init=0), space="global")
        ptx.red("xor", counter, 3, b32)
        assert [r.type for r in (ticket, total, least, mask, was, half, turn, seen, pair)] == [
            u32, s64, s32, s32, f32, f16, b32, f32, b128,
        ]  # fmt: skip
        assert (sums.type, len(sums)) == (f32, 4)

    lines = [line for line in body_of(body) if not line.startswith("mov")]
    assert lines == [
        "atom.shared.add.u32 %ticket, [%smem_base], 1;",
        "atom.relaxed.gpu.global.add.u64 %total, [%p], %wide;",
        "atom.min.s32 %least, [%p], %signed;",
        "atom.or.b32 %mask, [%p], %signed;",
        "atom.exch.b32 %was, [%p], %x;",
        "atom.add.noftz.f16 %half, [%p], %h;",
        "atom.global.add.v4.f32 {%sums0, %sums1, %sums2, %sums3}, [%p], {%row0, %row1, %row2, %row3};",
        "atom.inc.u32 %turn, [%p], %bits;",
        "atom.sys.cas.b32 %seen, [%p], 0f00000000, %x;",
        "atom.cas.b128 %pair, [%p], %whole, %whole;",
        "@%keep atom.max.s32 %least, [%p], %signed;",
        "@%keep red.release.gpu.global.add.f32 [%p], %x;",
        "red.global.max.noftz.v4.f16x2 [%p], {%v0, %v1, %v2, %v3};",
        "red.shared.xor.b32 [%smem_base], 3;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_atomics_refuse() -> None:
    def check() -> None:
        p, x, n, h = reg.scalar(u64), reg.scalar(f32), reg.scalar(u32), reg.scalar(f16)
        row = reg.array(bf16x2, 8)
        with rejected(OperandError, "op of", "is 'sub'", "'add'"):
            ptx.atom("sub", p, n)  # rejected
        with rejected(OperandError, "op of", "is 'exch'", "'xor'"):
            ptx.red("exch", p, n)  # rejected
        with rejected(OperandError, "add with 1", "not known", "u32"):
            ptx.atom("add", p, 1)  # rejected
        with rejected(InstructionError, ".min", ".f32"):
            ptx.atom("min", p, x)  # rejected
        with rejected(InstructionError, "256 bits", "128"):
            ptx.atom("add", p, row, space="global")  # rejected
        with rejected(OperandError, "vector is 3", "2, 4 or 8"):
            ptx.red("add", p, [x, x, x])  # rejected
        with rejected(OperandError, "1.0", ".f16", "reg.scalar"):
            ptx.atom("add", p, 1.0, f16)  # rejected
        with rejected(OperandError, "expected one register"):
            ptx.atom("add", p, x, out=[x])  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "2 registers", "%x"):
            ptx.atom("add", p, [x, x], space="global", out=x)  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "cache_hint of ptx.red is 1: expected a register or None"):
            ptx.red("add", p, x, cache_hint=1)  # type: ignore[arg-type]  # rejected
        with rejected(InstructionError, "L2::cache_hint", "shared"):
            ptx.atom("add", p, n, space="shared", cache_hint=p)  # rejected
        with rejected(OperandError, "sem of ptx.red is 'acquire'", "'release'"):
            ptx.red("add", p, n, sem="acquire")  # rejected
        with rejected(OperandError, ".u32", ".f32", "do not mix"):
            ptx.atom_cas(p, n, x)  # rejected
        with rejected(OperandError, "300.5", ".u32"):
            ptx.atom_cas(p, n, 300.5)  # rejected
        with rejected(OperandError, "64 bits", "%n"):
            ptx.atom("add", n, x)  # rejected
        with rejected(InstructionError, "b16", "exch"):
            ptx.atom("exch", p, h)  # rejected

    in_kernel(check)


def test_only_where_it_exists() -> None:
    def check() -> None:
        p = reg.scalar(u64)
        row = reg.array(f32, 2)
        with rejected(TargetError, "sm_80"):
            ptx.red("add", p, row, space="global")  # rejected

    in_kernel(check, arch="sm_80")
