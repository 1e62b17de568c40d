"""Divisions by numbers: exact for every u32 dividend near a multiple of the divisor, and as short as stated."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, kernel, kit, ptx, reg, u32
from pyptx.dsl import Reg
from pyptx.ir import Instruction
from pyptx.kit.division import quotient, remainder
from pyptx.toolchain import Tool, machine_instructions
from tests.dsl.helpers import in_kernel, recorded

ALL = 1 << 32
TILES = 1 << 31


def quotients(divisors: list[int], limit: int, numbers: int) -> Kernel:
    """A kernel whose thread t writes quotient, remainder and :func:`remainder` of its number of each divisor."""
    count = len(divisors)

    @kernel(
        in_specs=(Tile(count, numbers, u32),),
        out_specs=(Tile(count, 3, numbers, u32),),
        block=numbers,
        arch="sm_90a",
    )
    def divide(given, out):  # type: ignore[no-untyped-def]
        thread = ptx.special.tid.x()
        for n, divisor in enumerate(divisors):
            number = reg.scalar(u32)
            ptx.inst.ld.global_.u32(number, given.at(n, thread))
            result, rest = kit.fast_divmod(number, divisor, limit=limit)
            results = (result, rest, remainder(number, divisor, limit=limit))
            for place, value in enumerate(results):
                ptx.inst.st.global_.u32(out.at(n, place, thread), value)

    return divide


def dividends(divisor: int, limit: int, count: int, rng: random.Random) -> list[int]:
    """Numbers around multiples of the divisor, the smallest and the largest ones, below the limit."""
    most = (limit - 1) // divisor
    multiples = [0, 1, 2, most, most - 1, most // 2]
    found = {multiple * divisor + step for multiple in multiples for step in (-1, 0, 1)}
    found |= {0, 1, limit - 1, limit - 2, limit >> 1, (limit >> 1) - 1}
    found = {n for n in found if 0 <= n < limit}
    while len(found) < count:
        number = rng.randrange(0, most + 1) * divisor + rng.choice((-1, 0, 1))
        found.add(number if 0 <= number < limit and rng.random() < 0.9 else rng.randrange(limit))
    return sorted(found)


EDGES = sorted(
    {2**k + step for k in range(33) for step in (-3, -2, -1, 0, 1, 2, 3) if 0 < 2**k + step < ALL}
    | {641, 6_700_417, 65_537 * 3, 0xAAAA_AAAA, 0x5555_5555, 0xCCCC_CCCD, 28, 56, 112, 14 << 20, 7 << 29}
)


@pytest.mark.parametrize("limit", [ALL, TILES])
def test_every_edge(limit: int) -> None:
    rng = random.Random(3)
    divisors = [
        *EDGES,
        *(rng.randrange(1, ALL) for _ in range(40)),
        *(rng.randrange(1, 4000) for _ in range(40)),
    ]
    given = np.array([dividends(d, limit, 32, rng)[:32] for d in divisors], np.uint32)
    out = quotients(divisors, limit, 32)(given)
    wide, by = given.astype(np.uint64), np.array(divisors, np.uint64)[:, None]
    np.testing.assert_array_equal(out[:, 0], wide // by)
    np.testing.assert_array_equal(out[:, 1], wide % by)
    np.testing.assert_array_equal(out[:, 2], wide % by)


@pytest.mark.parametrize(
    ("limit", "divisors"), [(1 << 12, range(1, 129)), (1000, (3, 7, 28, 999, 1000, 5000))]
)
def test_all_numbers_below_a_low_limit(limit: int, divisors: range | tuple[int, ...]) -> None:
    numbers = np.arange(limit, dtype=np.uint64)
    for divisor in divisors:
        result = numbers
        for s in instructions(lambda n, d=divisor: quotient(n, d, limit=limit)):  # type: ignore[misc]
            if s.opcode == "mul":
                result = result * int(s.operands[2].value) >> np.uint64(32)  # type: ignore[union-attr]
            elif s.opcode == "shr":
                result = result >> np.uint64(s.operands[2].value)  # type: ignore[union-attr]
            else:
                assert s.opcode == "mov", s
        np.testing.assert_array_equal(result, numbers // np.uint64(divisor))


def instructions(divide: Callable[[Reg], object]) -> list[Instruction]:
    def body() -> None:
        divide(reg.scalar(u32))

    return [*recorded(body).module.functions[0].instructions()][:-1]


def opcodes(divide: Callable[[Reg], object]) -> list[str]:
    return [s.opcode for s in instructions(divide)]


def test_what_is_recorded() -> None:
    long = ["mul", "sub", "shr", "add", "shr"]
    assert opcodes(lambda n: kit.fast_divmod(n, 1)) == ["mov", "mov"]
    assert opcodes(lambda n: kit.fast_divmod(n, 8)) == ["shr", "and"]
    assert opcodes(lambda n: kit.fast_divmod(n, 3)) == ["mul", "shr", "mad"]
    assert opcodes(lambda n: kit.fast_divmod(n, 7)) == [*long, "mad"]
    assert opcodes(lambda n: kit.fast_divmod(n, 28)) == ["shr", "mul", "mad"]  # 7 needs no shift below 2**30
    assert opcodes(lambda n: kit.fast_divmod(n, 641)) == ["mul", "mad"]  # it divides 2**32 + 1
    assert opcodes(lambda n: kit.fast_divmod(n, n)) == ["div", "rem"]
    assert opcodes(lambda n: remainder(n, 8)) == ["and"]
    assert opcodes(lambda n: remainder(n, 1)) == ["mov"]
    assert opcodes(lambda n: remainder(n, n)) == ["rem"]
    assert opcodes(lambda n: quotient(n, 1)) == ["mov"]
    assert opcodes(lambda n: quotient(n, 8)) == ["shr"]
    for divisor in EDGES:
        assert len(opcodes(lambda n, d=divisor: kit.fast_divmod(n, d))) <= 6  # type: ignore[misc]
        assert len(opcodes(lambda n, d=divisor: kit.fast_divmod(n, d, limit=TILES))) <= 3  # type: ignore[misc]


def test_a_guard_is_on_every_instruction() -> None:
    def divide(number: Reg) -> None:
        guard = number == 0
        for divisor in (1, 2, 3, 7, 28, number):
            assert quotient(number, divisor, out=(kept := reg.scalar(u32)), pred=guard) is kept

    found = instructions(divide)[1:]
    assert len(found) == 1 + 1 + 2 + 5 + 2 + 1 and all(s.guard is not None for s in found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("divisor", [1, 7, 8, 24])
def test_ptxas_makes_no_reciprocal(divisor: int, arch: str, ptxas: Tool, nvdisasm: Tool) -> None:
    """ptxas makes a reciprocal in floating point of ``div`` by a number, powers of two included."""

    def machine_code(fast: bool) -> list[str]:
        @kernel(out_specs=(Tile(2, 32, u32),), block=32, arch=arch)
        def divide(out):  # type: ignore[no-untyped-def]
            thread = ptx.special.tid.x()
            number = ptx.special.clock()
            pair = kit.fast_divmod(number, divisor) if fast else (number // divisor, number % divisor)
            for row, value in enumerate(pair):
                ptx.inst.st.global_.u32(out.at(row, thread), value)

        return [i.opcode for i in machine_instructions(divide.assemble().cubin, nvdisasm=nvdisasm)]

    slow, fast = machine_code(False), machine_code(True)
    assert not any(opcode.startswith("MUFU") for opcode in fast)
    assert len(fast) <= len(slow)


@pytest.mark.parametrize(
    ("divisor", "limit", "words"),
    [
        (0, ALL, "divisor is 0: expected 1"),
        (-8, ALL, "divisor is -8"),
        (ALL, ALL, "or a u32 register"),
        (True, ALL, "divisor is True"),
        (8, 0, "limit is 0"),
        (8, ALL + 1, "expected 1 to 2"),
    ],
)
def test_refuses(divisor: int, limit: int, words: str) -> None:
    def body() -> None:
        for call in (kit.fast_divmod, remainder, quotient):
            with pytest.raises(SpecError, match=words):
                call(reg.scalar(u32), divisor, limit=limit)

    in_kernel(body)
