"""Bits and bytes of registers: every type and option, truth tables, spellings, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError
from pyptx.core.types import b32, b64, f32, pred, s32, s64, u16, u32, u64
from pyptx.dsl import ptx, reg
from pyptx.dsl.units import bits
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import Call, assemble_calls, public_functions, unreached
from tests.dsl.units.spelled import making


def _calls() -> Iterator[Call]:
    for kind in (b32, u32, s32, b64, u64, s64):
        for function in (ptx.popc, ptx.clz, ptx.brev, ptx.cnot):
            yield making(f"ptx.{function.__name__}", lambda f=function, k=kind: f(reg.scalar(k)))
        for shiftamt in (False, True):
            yield making("ptx.bfind", lambda k=kind, s=shiftamt: ptx.bfind(reg.scalar(k), shiftamt=s))
        yield making("ptx.bfe", lambda k=kind: ptx.bfe(reg.scalar(k), 3, reg.scalar(u32)))
        yield making("ptx.bfi", lambda k=kind: ptx.bfi(reg.scalar(k), 7, reg.scalar(u32), 4))
    yield making("ptx.cnot", lambda: ptx.cnot(reg.scalar(u16)))
    yield making("ptx.fns", lambda: ptx.fns(reg.scalar(b32), 0, -1))
    for mode in ("clamp", "wrap"):
        yield making("ptx.bmsk", lambda m=mode: ptx.bmsk(reg.scalar(u32), 4, mode=m))
        for kind in (u32, s32):
            yield making("ptx.szext", lambda m=mode, k=kind: ptx.szext(reg.scalar(k), 5, mode=m))
        for direction in "lr":
            yield making(
                "ptx.shf",
                lambda m=mode, d=direction: ptx.shf(reg.scalar(u32), 9, reg.scalar(u32), direction=d, mode=m),
            )
    for mode in (None, "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield making("ptx.prmt", lambda m=mode: ptx.prmt(reg.scalar(b32), 0, 0x5410, mode=m))
    yield making("ptx.lop3", lambda: ptx.lop3(reg.scalar(b32), reg.scalar(b32), -1, 0x80))
    for combine in ("or", "and"):
        for other in (False, True):
            yield making(
                "ptx.lop3_test",
                lambda c=combine, o=other: ptx.lop3_test(
                    reg.scalar(b32), 1, 2, lambda x, y, z: x ^ y ^ z, c, o
                ),
            )
        yield making(
            "ptx.lop3_test", lambda c=combine: ptx.lop3_test(1, 2, reg.scalar(u32), 7, c, ~reg.scalar(pred))
        )


def test_every_variant_assembles(ptxas: Tool) -> None:
    reached = assemble_calls(_calls(), ptxas)
    assert reached.wrappers == public_functions(bits, "ptx")
    opcodes = (
        "popc",
        "clz",
        "brev",
        "cnot",
        "bfind",
        "fns",
        "bfe",
        "bfi",
        "bmsk",
        "szext",
        "prmt",
        "shf",
        "lop3",
    )
    for opcode in opcodes:
        assert unreached(reached, opcode) == [], opcode


@pytest.mark.parametrize(
    ("logic", "table"),
    [
        (lambda a, b, c: a & b & c, 0x80),
        (lambda a, b, c: a | b | c, 0xFE),
        (lambda a, b, c: a ^ b ^ c, 0x96),
        (lambda a, b, c: (a & b) | (~a & c), 0xCA),
        (lambda a, b, c: ~a, 0x0F),
        (lambda a, b, c: 0, 0),
        (lambda a, b, c: -1, 0xFF),
        (0x1D, 0x1D),
    ],
)
def test_truth_tables(logic: Any, table: int) -> None:
    def body() -> None:
        x, y, z = reg.scalar(b32), reg.scalar(b32), reg.scalar(b32)
        d = ptx.lop3(x, y, z, logic)
        assert d.type is b32

    assert body_of(body) == [f"lop3.b32 %d, %x, %y, %z, {table};"]


def test_a_truth_table_is_what_the_function_computes() -> None:
    """Bit 4a + 2b + c of the table is the function of the bits a, b and c."""

    def choose(a: int, b: int, c: int) -> int:
        return (a & ~b) | (b & c)

    def body() -> None:
        x = reg.scalar(b32)
        ptx.lop3(x, x, x, choose)

    table = int(body_of(body)[0].rstrip(";").rpartition(" ")[2])
    for index in range(8):
        a, b, c = index >> 2, index >> 1 & 1, index & 1
        assert table >> index & 1 == choose(a, b, c) & 1


def test_spellings_and_results(ptxas: Tool) -> None:
    def body() -> None:
        n, wide, signed = reg.scalar(u32, init=1), reg.scalar(u64, init=2), reg.scalar(s32, init=3)
        x, keep = reg.scalar(f32, init=1.0), reg.scalar(pred, init=True)
        count = ptx.popc(wide)
        zeros = ptx.clz(signed)
        turned = ptx.brev(n)
        top = ptx.bfind(signed, shiftamt=True)
        third = ptx.fns(n, 0, 3)
        field = ptx.bfe(signed, 4, 8)
        merged = ptx.bfi(n, turned, 3, count)
        mask = ptx.bmsk(2, 3)
        extended = ptx.szext(signed, 12, mode="wrap")
        rotated = ptx.shf(n, n, 8, direction="l")
        swapped = ptx.prmt(x, x, 0x0123)
        ptx.prmt(n, 0, n, mode="f4e", out=n, pred=keep)
        value, any_bit = ptx.lop3_test(n, turned, 0xFF, lambda a, b, c: a & b & c, "or", False)
        none = ptx.cnot(n)
        made = (
            count,
            zeros,
            turned,
            top,
            third,
            field,
            merged,
            mask,
            extended,
            rotated,
            swapped,
            value,
            any_bit,
            none,
        )
        assert [r.type for r in made] == [
            u32, u32, u32, u32, u32, s32, u32, u32, s32, u32, f32, u32, pred, u32,
        ]  # fmt: skip

    assert body_of(body)[5:] == [
        "popc.b64 %count, %wide;",
        "clz.b32 %zeros, %signed;",
        "brev.b32 %turned, %n;",
        "bfind.shiftamt.s32 %top, %signed;",
        "fns.b32 %third, %n, 0, 3;",
        "bfe.s32 %field, %signed, 4, 8;",
        "bfi.b32 %merged, %n, %turned, 3, %count;",
        "bmsk.clamp.b32 %mask, 2, 3;",
        "szext.wrap.s32 %extended, %signed, 12;",
        "shf.l.wrap.b32 %rotated, %n, %n, 8;",
        "prmt.b32 %swapped, %x, %x, 291;",
        "@%keep prmt.b32.f4e %n, %n, 0, %n;",
        "lop3.or.b32 %value|%any_bit, %n, %turned, 255, 128, 0;",
        "cnot.b32 %none, %n;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_bits_refuse() -> None:
    def check() -> None:
        n, half, wide, x = reg.scalar(u32), reg.scalar(u16), reg.scalar(u64), reg.scalar(f32)
        with rejected(InstructionError, "popc.b16", "popc.b64"):
            ptx.popc(half)  # rejected
        with rejected(OperandError, "a of ptx.clz is 5: expected a register"):
            ptx.clz(5)  # type: ignore[arg-type]  # rejected
        with rejected(InstructionError, "bfind.f32"):
            ptx.bfind(x)  # rejected
        with rejected(OperandError, "256", "0..255"):
            ptx.bfe(n, 256, 1)  # rejected
        with rejected(OperandError, "-1", "0..255"):
            ptx.bfi(n, n, 0, -1)  # rejected
        with rejected(OperandError, ".u32", ".u64", "do not mix"):
            ptx.bfi(n, wide, 0, 1)  # rejected
        with rejected(OperandError, "mode of", "is 'cut'", "'wrap'"):
            ptx.bmsk(n, n, mode="cut")  # rejected
        with rejected(OperandError, "mode of", "is 'cut'", "'clamp'"):
            ptx.szext(n, n, mode="cut")  # rejected
        with rejected(OperandError, "direction of", "is 'left'", "'l'"):
            ptx.shf(n, n, 1, direction="left")  # rejected
        with rejected(OperandError, "32 bits", ".u64"):
            ptx.shf(wide, wide, 1, direction="l")  # rejected
        with rejected(OperandError, "32 bits", ".u16"):
            ptx.prmt(half, 0, 0)  # rejected
        with rejected(OperandError, "32 bits", ".u64"):
            ptx.lop3(wide, 0, 0, 0x80)  # rejected
        with rejected(OperandError, "mode of", "is 'xyz'", "'f4e'"):
            ptx.prmt(n, n, 0, mode="xyz")  # rejected
        with rejected(OperandError, "logic is 256", "0..255"):
            ptx.lop3(n, n, n, 256)  # rejected
        with rejected(OperandError, "did not return an integer"):
            ptx.lop3(n, n, n, lambda a, b, c: 0.5)  # type: ignore[arg-type, return-value]  # rejected
        with rejected(OperandError, "1, 2, 3", "register"):
            ptx.lop3(1, 2, 3, 0x80)  # rejected
        with rejected(OperandError, "combine of", "is 'xor'", "'and'"):
            ptx.lop3_test(n, n, n, 0x80, "xor", False)  # rejected
        with rejected(OperandError, "q", "%n"):
            ptx.lop3_test(n, n, n, 0x80, "or", n)  # rejected

    in_kernel(check)
