"""Loads that ptxas puts behind waits for others, or behind what follows them in PTX."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx.ir import Function, parse_module
from pyptx.toolchain.schedule.awaited import awaited_loads, sunk_loads
from pyptx.toolchain.schedule.costs import StatementCost

TWO = """.version 8.7
.target sm_90a
.address_size 64
.entry f() {
.reg .f32 %f<4>; .reg .b32 %s;
ld.shared.f32 %f1, [%s];
ld.shared.f32 %f2, [%s+256];
add.f32 %f0, %f0, %f1;
add.f32 %f0, %f0, %f2;
ret;
}
"""


def function() -> Function:
    (found,) = parse_module(TWO).functions
    return found


def placed(*places: tuple[int, ...]) -> dict[int, StatementCost]:
    """Return the code of the four statements, whose copies lie at these positions of one block."""
    body = function().body
    numbers = [n for n, each in enumerate(body) if getattr(each, "opcode", "") in ("ld", "add")]
    return {
        number: StatementCost(
            copies=len(where),
            place=(7, where[0]),
            positions={7: list(where)},
            accessed=4 if number in numbers[:2] else 0,
        )
        for number, where in zip(numbers, places, strict=True)
    }


def test_a_wait_in_front_of_a_load_holds_it_up() -> None:
    code = placed((0,), (2,), (1,), (3,))
    first, second, add, _ = code
    assert awaited_loads(function(), code) == {second: (((first, 0),),), first: ((),)}
    assert sunk_loads(function(), code) == {add: (second,)}


def test_loads_in_front_of_all_waits_are_free() -> None:
    code = placed((0,), (1,), (2,), (3,))
    assert awaited_loads(function(), code) == {} == sunk_loads(function(), code)


def test_rounds_of_an_unrolled_loop_wait_for_rounds_before() -> None:
    code = placed((0, 4), (1, 6), (3, 8), (5, 9))
    first, second, *_ = code
    found = awaited_loads(function(), code)
    # The second round's first load stands behind the first use of the first round's first load.
    assert found[first] == ((), ((first, 0),))
    assert found[second] == ((), ((first, 0), (second, 0)))


EIGHT = (
    """.version 8.0
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 in, .param .u64 out) {
.reg .b64 %a, %o, %b, %e; .reg .b32 %t, %i; .reg .f32 %f<9>; .reg .pred %p;
ld.param.u64 %a, [in]; cvta.to.global.u64 %a, %a; ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o;
mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, 4, %a; mov.f32 %f8, 0f00000000; mov.b32 %i, 0;
loop:
bar.sync 0;
mov.u64 %b, %clock64;
"""
    + "".join(f"ld.volatile.global.f32 %f{n}, [%a+{1024 * n}];\n" for n in range(8))
    + "".join(f"add.f32 %f8, %f8, %f{n};\n" for n in range(8))
    + """mov.u64 %e, %clock64;
sub.u64 %e, %e, %b; st.volatile.global.u64 [%o], %e;
add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 4; @%p bra loop;
st.global.f32 [%o+8], %f8;
ret;
}
"""
)


def test_eight_loads_in_a_row_take_one_latency_where_no_wait_is_between_them() -> None:
    out = np.zeros(2, np.int64)
    data = np.zeros(1 << 16, np.float32)
    found = pyptx.predict(EIGHT, "f", grid=1, block=32, args=[data, out], gpu="h200", clock=1980.0, l2="warm")
    assert str(found.verdict) == "clean"
    assert out[0] == pytest.approx(287, rel=0.35)
