"""Intervals of values: single instructions against a plain evaluation, branches, loops, guards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyptx import sim
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
    assert inside == ((0, 999) if test == "top" else (0, 992))  # multiples of 8


LOOP = """
mov.u32 %r0, 0; mov.u32 %r1, {first}; ld.param.u32 %r5, [n];
head: setp.ge.s32 %p0, %r0, 100; @%p0 bra out;
{body}
add.s32 %r0, %r0, 10; bra head;
out: mov.u32 %r2, %r1;
"""


@pytest.mark.parametrize(
    ("first", "body", "expected"),
    [
        ("7", "add.u32 %r1, %r1, 4;", (7, 47)),
        ("%tid.x", "add.u32 %r1, %r5, %r1;", (0, 255 + 40)),
        ("0", "sub.s32 %r1, %r1, 3;", (-30, 0)),
        # Executed in some iterations only.
        ("0", "setp.eq.s32 %p1, %r0, 50; @%p1 add.u32 %r1, %r1, 4;", (0, 40)),
        ("0", "setp.eq.s32 %p1, %r0, 50; @%p1 bra skip; add.u32 %r1, %r1, 4; skip:", (0, 40)),
        # More often than the counter counts, or by what is not known.
        (
            "0",
            "again: add.u32 %r1, %r1, 4; ld.global.u32 %r4, [%w0]; setp.eq.s32 %p1, %r4, 0; @%p1 bra again;",
            None,
        ),
        ("0", "add.u32 %r1, %r1, 4; add.u32 %r1, %r1, 4;", None),
        ("0", "ld.global.u32 %r4, [%w0]; add.u32 %r1, %r1, %r4;", None),
        # A counter that some iterations do not advance.
        ("0", "add.u32 %r1, %r1, 4; ld.global.u32 %r4, [%w0]; setp.eq.s32 %p1, %r4, 0; @%p1 bra head;", None),
        ("0", "add.u32 %r1, %r1, 4; ld.global.u32 %r0, [%w0];", None),
    ],
)
def test_sums_of_a_loop(first: str, body: str, expected: Interval | None) -> None:
    found = at_end(ranges_of(LOOP.format(first=first, body=body), {"n": (1, 4)}), "r2")
    if expected is None:
        assert found[1] == float("inf")
    else:
        assert found == expected


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


# --- against runs -----------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A loop of random integer instructions on %r1 to %r4, some behind a branch or a guard."""

    def operand() -> str:
        return draw(st.sampled_from(["%r1", "%r2", "%r3", "%r4", "%r0", "3", "7", "-5", "4294967290"]))

    lines = []
    for number in range(draw(st.integers(1, 7))):
        name = draw(
            st.sampled_from(
                [
                    "add.u32",
                    "sub.s32",
                    "mul.lo.u32",
                    "min.s32",
                    "max.u32",
                    "and.b32",
                    "or.b32",
                    "rem.u32",
                    "shr.u32",
                ]
            )
        )
        target = draw(st.sampled_from(["%r1", "%r2", "%r3", "%r4"]))
        second = draw(st.sampled_from(["2", "9"])) if name in ("rem.u32", "shr.u32") else operand()
        first = draw(st.sampled_from(["%r0", "%r1", "%r2", "%r3", target]))
        compare = draw(st.sampled_from(["lt.u32", "ge.s32", "eq.u32", "ne.s32"]))
        shape = draw(st.sampled_from(["", "", "@%p1 ", "branch"]))
        lines.append(f"setp.{compare} %p1, {first}, {operand()};")
        if shape == "branch":
            lines.append(f"@!%p1 bra skip{number};")
        lines.append(f"{'' if shape == 'branch' else shape}{name} {target}, {first}, {second};")
        if shape == "branch":
            lines.append(f"skip{number}:")
    start = "".join(f"mov.u32 %r{i}, {draw(st.sampled_from(['0', '6', '%tid.x']))};" for i in range(1, 5))
    body = "\n".join(lines)
    return (
        f"mov.u32 %r0, 0; {start}\nhead:\n{body}\nadd.u32 %r0, %r0, 2;\nsetp.lt.u32 %p0, %r0, 12;\n"
        "@%p0 bra head;\nld.param.u64 %w0, [A];\nmov.u32 %r5, %tid.x; mul.wide.u32 %w1, %r5, 16; "
        "add.u64 %w0, %w0, %w1;\nst.global.v4.u32 [%w0], {%r1, %r2, %r3, %r4};"
    )


@pytest.mark.full
@given(programs())
@settings(max_examples=60, deadline=None)
def test_a_run_has_only_values_of_the_intervals(body: str) -> None:
    """The bits at the end are congruent to a number of the interval, wherever nothing was assumed."""
    found = ranges_of(body)
    results = np.zeros((256, 4), np.uint32)
    module = sim.load(HEAD + body + "\nret;\n}\n")
    module.launch("k", grid=1, block=256, args=[0, results], sanitize=False)
    for place in range(4):
        low, high = at_end(found, f"r{place + 1}")
        if low != -np.inf and high != np.inf and high - low < 2**32 and high < 2**31:
            values = (results[:, place].astype(np.int64) - int(low)) % 2**32
            assert values.max() <= high - low, (f"r{place + 1}", low, high)
