"""Accesses to shared memory that ptxas makes one of: the banks see one wide access."""

from __future__ import annotations

import pytest

import pyptx
from pyptx import sim
from pyptx.ir import parse_module
from pyptx.timing.access_order import Merged
from pyptx.toolchain.schedule.merged import merged_accesses, width_of

#: Rounds of a loop whose loads or stores are neighbors, and bytes between two lanes.
ROUNDS, APART = 64, 32


def cycles(body: str) -> float:
    """Return what eight warps take that access shared memory in a loop."""
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 p) {\n"
        ".reg .b64 %a; .reg .f32 %f<9>; .reg .b32 %t; .reg .b32 %s; .reg .b32 %i; .reg .pred %q;\n"
        ".shared .align 128 .b8 buffer[16384];\n"
        "ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; mov.u32 %t, %tid.x; mov.u32 %s, buffer;\n"
        f"mad.lo.u32 %s, %t, {APART}, %s; mov.f32 %f8, 0f00000000; mov.b32 %i, 0;\n"
        "mov.f32 %f0, %f8; mov.f32 %f1, %f8; mov.f32 %f2, %f8; mov.f32 %f3, %f8;\n"
        f"loop: {body}\n"
        f"add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {ROUNDS}; @%q bra loop;\n"
        "st.global.f32 [%a], %f8; st.global.f32 [%a+4], %f0;\nret;\n}\n"
    )
    array = sim.unknown((2,), "f32")
    found = pyptx.predict(sim.load(text), grid=1, block=256, args=[array], gpu="h200", clock=1700.0)
    assert str(found.verdict) == "clean" and found.schedule == "ptxas"
    return found.cycles


SUMS = "\n".join(f"add.f32 %f8, %f8, %f{n};" for n in range(4))
ONE_LOAD = f"ld.shared.v4.f32 {{%f0, %f1, %f2, %f3}}, [%s]; {SUMS} bar.sync 0;"
FOUR_LOADS = "\n".join(f"ld.shared.f32 %f{n}, [%s+{4 * n}];" for n in (2, 0, 1, 3)) + f"{SUMS} bar.sync 0;"
ONE_STORE = "add.f32 %f0, %f0, %f0; st.shared.v4.f32 [%s], {%f0, %f0, %f0, %f0}; bar.sync 0;"
FOUR_STORES = (
    "add.f32 %f0, %f0, %f0;"
    + "\n".join(f"st.shared.f32 [%s+{4 * n}], %f0;" for n in range(4))
    + "bar.sync 0;"
)


@pytest.mark.parametrize(("one", "four"), [(ONE_LOAD, FOUR_LOADS), (ONE_STORE, FOUR_STORES)])
def test_four_words_take_as_long_as_the_access_that_ptxas_makes_of_them(one: str, four: str) -> None:
    assert cycles(four) == pytest.approx(cycles(one), rel=0.02)


def grouped(widths: dict[int, int], body: str) -> dict[int, Merged]:
    """Return what is merged of a body, whose statements are numbered from 0."""
    head = ".version 8.7\n.target sm_90a\n.address_size 64\n.entry f() {\n"
    module = parse_module(f"{head}{body}\nret;\n}}\n")
    (function,) = module.functions
    first = next(n for n, each in enumerate(function.body) if getattr(each, "opcode", ""))
    found = merged_accesses(function, {first + n: width for n, width in widths.items()})
    return {n - first: Merged(each.statement - first, each.width) for n, each in found.items()}


REGISTERS = ".reg .b32 %s; .reg .b32 %r<9>;\n"


def test_the_first_load_and_the_last_store_stand_for_all() -> None:
    loads = "".join(f"ld.shared.b32 %r{n}, [%s+{4 * n}];" for n in range(4))
    stores = "".join(f"st.shared.b32 [%s+{4 * n}], %r{n};" for n in range(2))
    # Of four loads the third has the machine instruction, of two stores the first.
    found = grouped({2: 16, 4: 8}, REGISTERS + loads + stores)
    assert found == {**dict.fromkeys(range(4), Merged(0, 16)), **dict.fromkeys((4, 5), Merged(5, 8))}


def test_what_has_an_instruction_of_its_own_is_not_merged() -> None:
    loads = "".join(f"ld.shared.b32 %r{n}, [%s+{4 * n}];" for n in range(4))
    assert grouped(dict.fromkeys(range(4), 4), REGISTERS + loads) == {}
    # The second pair has none and no wide neighbor: ptxas left it out.
    assert grouped({0: 8}, REGISTERS + loads) == dict.fromkeys((0, 1), Merged(0, 8))


def test_another_value_of_the_base_and_a_barrier_end_a_group() -> None:
    first, second = "ld.shared.b32 %r0, [%s];", "ld.shared.b32 %r1, [%s+4];"
    assert grouped({0: 8}, f"{REGISTERS}{first}{second}") == dict.fromkeys((0, 1), Merged(0, 8))
    assert grouped({0: 8}, f"{REGISTERS}{first}add.u32 %s, %s, 64;{second}") == {}
    assert grouped({0: 8}, f"{REGISTERS}{first}bar.sync 0;{second}") == {}


@pytest.mark.parametrize(("opcode", "width"), [("LDS", 4), ("LDS.128", 16), ("LDG.E.64", 8), ("STS.U8", 1)])
def test_the_width_of_machine_instructions(opcode: str, width: int) -> None:
    assert width_of(opcode) == width
