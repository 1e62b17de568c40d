"""Intervals of values: single instructions against a plain evaluation, branches, loops, guards."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyptx.core.types import TYPES
from pyptx.flow import UNKNOWN, Interval, Ranges, control_flow, fitted, value_ranges
from pyptx.flow.intervals import refined
from pyptx.ir import Instruction, Register, parse_module

HEAD = (
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 A)\n"
    "{\n.reg .b32 %r<9>; .reg .b64 %w<9>; .reg .pred %p<4>;\n"
)
TID: dict[str, Interval] = {"tid.x": (0, 255)}


def ranges_of(body: str, params: dict[str, Interval] | None = None) -> Ranges:
    function = parse_module(HEAD + body + "\nret;\n}\n").entry()
    return value_ranges(function, control_flow(function), TID, params)


def at_end(ranges: Ranges, register: str) -> Interval:
    """The values of a register before the ``ret`` that ends the function."""
    found: Interval | None = None
    for block in ranges.inputs:
        for _, instruction, _, state in ranges.states(block):
            if instruction.opcode == "ret":
                found = state.values.get(register, UNKNOWN)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "body, expected",
    [
        ("mov.u32 %r0, %tid.x;", (0, 255)),
        ("mov.u32 %r1, %tid.x; shl.b32 %r0, %r1, 4;", (0, 4080)),
        ("mov.u32 %r1, %tid.x; mad.lo.s32 %r0, %r1, 16777216, -5;", (-5, 255 * 2**24 - 5)),
        ("mov.u32 %r1, %tid.x; add.u32 %r0, %r1, 4294967295;", (-1, 254)),
        ("mov.u32 %r1, %tid.x; sub.s32 %r0, 7, %r1;", (-248, 7)),
        ("mov.u32 %r1, %tid.x; shr.u32 %r0, %r1, 5;", (0, 7)),
        ("ld.global.u32 %r1, [%w0]; and.b32 %r0, %r1, 31;", (0, 31)),
        ("ld.global.u32 %r1, [%w0]; shr.u32 %r0, %r1, 5;", UNKNOWN),
        ("ld.global.u32 %r1, [%w0]; and.b32 %r0, %r1, -128;", UNKNOWN),
        ("ld.global.u32 %r1, [%w0]; rem.u32 %r0, %r1, 100;", (0, 99)),
        ("mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 8; or.b32 %r0, %r2, 3;", (3, 65283)),
        ("mov.u32 %r1, %tid.x; mul.wide.u32 %w1, %r1, -1; cvt.u32.u64 %r0, %w1;", (0, 255 * (2**32 - 1))),
        ("mov.u32 %r1, %tid.x; mul.wide.s32 %w1, %r1, -1; cvt.u32.u64 %r0, %w1;", (-255, 0)),
        ("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;", (0, 255)),
        ("mov.u32 %r1, %tid.x; neg.s32 %r2, %r1; abs.s32 %r0, %r2;", (0, 255)),
        ("ld.param.u32 %r0, [n];", (1, 4096)),
    ],
)
def test_single_instructions(body: str, expected: Interval) -> None:
    assert at_end(ranges_of(body, {"n": (1, 4096)}), "r0") == expected


def test_a_branch_narrows_both_ways() -> None:
    body = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; @%p0 bra low; sub.u32 %r0, %r0, 32; bra end; low: mov.u32 %r0, 7; end:"
    assert at_end(ranges_of(body), "r0") == (0, 223)


def test_a_predicate_of_an_old_value_narrows_nothing() -> None:
    body = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; mov.u32 %r0, %tid.x; @!%p0 bra out; mov.u32 %r1, %r0; ret; out: mov.u32 %r0, 0;"
    found = ranges_of(body)
    values = [state.values.get("r1") for block in found.inputs for *_, state in found.states(block)]
    assert (0, 255) in values and (0, 31) not in values


def test_contradicting_comparisons_are_left_out() -> None:
    body = "mov.u32 %r0, %tid.x; setp.gt.u32 %p0, %r0, 255; @%p0 bra never; ret; never: mov.u32 %r1, 1;"
    found = ranges_of(body)
    reached = [instruction.name for block in found.inputs for _, instruction, _, _ in found.states(block)]
    assert reached == ["mov.u32", "setp.gt.u32", "ret"]  # no thread takes the branch


@pytest.mark.parametrize("test", ["top", "bottom"])
def test_a_loop_with_a_bound(test: str) -> None:
    top = "mov.u32 %r0, 0; head: setp.ge.s32 %p0, %r0, 1000; @%p0 bra out; mov.u32 %r1, %r0; add.s32 %r0, %r0, 8; bra head; out:"
    bottom = "mov.u32 %r0, 0; head: mov.u32 %r1, %r0; add.s32 %r0, %r0, 8; setp.lt.s32 %p0, %r0, 1000; @%p0 bra head;"
    found = ranges_of(top if test == "top" else bottom)
    (inside,) = {
        state.values["r0"]
        for block in found.inputs
        for _, instruction, _, state in found.states(block)
        if instruction.operands and instruction.operands[0] == Register("r1", TYPES["b32"])
    }
    assert inside == (0, 999)


def test_a_loop_without_a_bound_is_unknown() -> None:
    body = "mov.u32 %r0, 0; head: add.s32 %r0, %r0, 8; ld.global.u32 %r1, [%w0]; setp.ne.s32 %p0, %r1, 0; @%p0 bra head;"
    least, most = at_end(ranges_of(body), "r0")
    assert least == 8 and most == float("inf")


def test_a_guarded_write_keeps_the_old_value() -> None:
    body = "mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 100; @%p0 mov.u32 %r0, 1000;"
    assert at_end(ranges_of(body), "r0") == (0, 1000)
    body = "mov.u32 %r1, %tid.x; setp.ge.u32 %p0, %r1, 100; mov.u32 %r0, 5; @%p0 sub.u32 %r0, %r1, 100;"
    assert at_end(ranges_of(body), "r0") == (0, 155)


def test_and_of_two_predicates() -> None:
    body = (
        "mov.u32 %r0, %tid.x; setp.gt.u32 %p0, %r0, 9; setp.lt.u32 %p1, %r0, 20; and.pred %p2, %p0, %p1;"
        "@!%p2 bra out; add.u32 %r1, %r0, 0; mov.u32 %r0, %r1; ret; out: ret;"
    )
    found = ranges_of(body)
    inside = [
        state.values["r1"] for b in found.inputs for *_, state in found.states(b) if "r1" in state.values
    ]
    assert inside and set(inside) == {(10, 19)}


COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]


@given(
    st.tuples(st.integers(-12, 20), st.integers(0, 8)),
    st.tuples(st.integers(-12, 20), st.integers(0, 8)),
    st.sampled_from(COMPARISONS),
    st.sampled_from(["u8", "s8"]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_refinement_keeps_every_pair_for_which_the_comparison_holds(
    a: tuple[int, int], b: tuple[int, int], name: str, kind: str, holds: bool
) -> None:
    """Against all pairs: none that satisfies the comparison is lost, also across the ends of the type."""
    type = TYPES[kind]
    first, second = (a[0], a[0] + a[1]), (b[0], b[0] + b[1])
    found = refined(first, second, name, type, holds)
    signed = type.kind == "s" and name not in ("lo", "ls", "hi", "hs")

    def number(value: int) -> int:
        value %= 256
        return value - 256 if signed and value >= 128 else value

    compare = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    for x, y in itertools.product(range(first[0], first[1] + 1), range(second[0], second[1] + 1)):
        p, q = number(x), number(y)
        truth = {"eq": p == q, "ne": p != q, "lt": p < q, "le": p <= q, "gt": p > q, "ge": p >= q}[compare]
        if truth == holds:
            assert found is not None
            for value, interval in ((x, found[0]), (y, found[1])):
                moved = range(int(interval[0]), int(interval[1]) + 1)
                assert any((value - each) % 256 == 0 for each in moved)


def test_fitted() -> None:
    u32, s32 = TYPES["u32"], TYPES["s32"]
    assert fitted((2**32 - 1, 2**32 + 5), s32) == (-1, 5)
    assert fitted((2**32 - 1, 2**32 + 5), u32) is None
    assert fitted((2**31, 2**31 + 5), u32) == (2**31, 2**31 + 5)
    assert fitted((0, 2**31), s32) is None
    assert fitted((0, float("inf")), u32) is None


def test_instructions_of_every_form_are_taken() -> None:
    """Forms without a rule give unknown values, and predicates have none."""
    found = ranges_of("mov.u32 %r0, %tid.x; lop3.b32 %r0, %r0, 1, 2, 0xC0; and.pred %p0, %p1, %p2;")
    assert at_end(found, "r0") == UNKNOWN
    assert all(isinstance(i, Instruction) for b in found.inputs for _, i, _, _ in found.states(b))
