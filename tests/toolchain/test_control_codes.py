"""Control codes of machine instructions: the fields, and what they must say in code of known dependences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from pyptx.toolchain import ControlCode, MachineInstruction, Tool, assemble, disassemble, machine_instructions

TARGETS = ("sm_80", "sm_90a", "sm_100a")


def _upper(stall: int, yields: bool, write: int, read: int, waits: int, reuse: int) -> int:
    bits = stall | (not yields) << 4 | write << 5 | read << 8 | waits << 11 | reuse << 17
    return bits << 41 | 0x1FF_FFFF_FFFF  # the fields of the instruction itself are below


@pytest.mark.parametrize(
    ("fields", "expected", "text"),
    [
        ((0, False, 7, 7, 0, 0), ControlCode(0, False, None, None, (), ()), "B------:R-:W-:-:S00"),
        (
            (15, True, 0, 5, 0b100001, 0b101),
            ControlCode(15, True, 0, 5, (0, 5), (0, 2)),
            "B0----5:R5:W0:Y:S15",
        ),
        ((2, False, 1, 7, 0b10, 0), ControlCode(2, False, 1, None, (1,), ()), "B-1----:R-:W1:-:S02"),
    ],
)
def test_fields(fields: tuple[int, bool, int, int, int, int], expected: ControlCode, text: str) -> None:
    assert ControlCode.decode(_upper(*fields)) == expected
    assert str(expected) == text


def _code(target: str, body: str, ptxas: Tool, nvdisasm: Tool) -> list[MachineInstruction]:
    version = {"sm_80": "7.0", "sm_90a": "8.0", "sm_100a": "8.6"}[target]
    text = (
        f".version {version}\n.target {target}\n.address_size 64\n"
        ".visible .entry f(.param .u64 A, .param .u64 B) {\n.reg .b64 %a, %b; .reg .f32 %f<20>; .reg .b32 %r<20>;\n"
        f"ld.param.u64 %a, [A];\nld.param.u64 %b, [B];\n{body}\nret;\n}}\n"
    )
    return machine_instructions(assemble(text, ptxas=ptxas).cubin, nvdisasm=nvdisasm)


def _of(code: list[MachineInstruction], opcode: str) -> Iterator[tuple[int, MachineInstruction]]:
    return ((index, each) for index, each in enumerate(code) if each.opcode.partition(".")[0] == opcode)


@pytest.mark.parametrize("target", TARGETS)
def test_the_consumer_of_a_load_waits_for_its_barrier(target: str, ptxas: Tool, nvdisasm: Tool) -> None:
    body = "ld.global.f32 %f1, [%a];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%b], %f2;"
    code = _code(target, body, ptxas, nvdisasm)
    ((at, load),) = _of(code, "LDG")
    ((later, add),) = _of(code, "FADD")
    assert at < later and load.control.write_barrier is not None
    assert load.control.write_barrier in add.control.waits
    # Nothing between them releases the barrier.
    assert not any(load.control.write_barrier in each.control.waits for each in code[at + 1 : later])


@pytest.mark.parametrize("target", TARGETS)
def test_a_chain_of_fixed_latency_is_held_apart_by_stalls(target: str, ptxas: Tool, nvdisasm: Tool) -> None:
    """From one fma to the next that reads its result there are at least the 4 cycles of its latency."""
    chain = "\n".join("fma.rn.f32 %f1, %f1, %f1, %f1;" for _ in range(8))
    code = _code(target, f"ld.global.f32 %f1, [%a];\n{chain}\nst.global.f32 [%b], %f1;", ptxas, nvdisasm)
    places = [index for index, _ in _of(code, "FFMA")]
    assert len(places) == 8
    for here, there in itertools.pairwise(places):
        assert 4 <= sum(each.control.stall for each in code[here:there]) <= 6
        assert code[here].control.write_barrier is None


@pytest.mark.parametrize("target", TARGETS)
def test_a_store_s_operands_are_kept_until_they_are_read(target: str, ptxas: Tool, nvdisasm: Tool) -> None:
    """What overwrites the register of a store waits for the store's read barrier."""
    body = (
        "ld.global.f32 %f1, [%a];\nst.shared.f32 [%r1], %f1;\nld.volatile.global.f32 %f1, [%a+4];\n"
        "st.volatile.global.f32 [%b], %f1;\nld.volatile.global.f32 %f1, [%a+8];\nst.volatile.global.f32 [%b+4], %f1;"
    )
    code = _code(target, body, ptxas, nvdisasm)
    held = [each.control.read_barrier for _, each in _of(code, "STG")]
    assert all(barrier is None or barrier in range(6) for barrier in held)
    for index, store in _of(code, "STG"):
        data = re.findall(r"\bR\d+\b", store.text)[-1]
        writers = [
            each
            for each in code[index + 1 :]
            if each.opcode.startswith("LDG") and data in each.text.split(",")[0]
        ]
        for writer in writers:
            assert store.control.read_barrier in writer.control.waits


def test_the_listing_has_codes_in_front_and_no_words_behind(ptxas: Tool, nvdisasm: Tool) -> None:
    text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f() {\nmembar.gl;\nret;\n}\n"
    cubin = assemble(text, ptxas=ptxas).cubin
    plain = disassemble(cubin, nvdisasm=nvdisasm)
    listed = disassemble(cubin, nvdisasm=nvdisasm, control=True)
    code = machine_instructions(cubin, nvdisasm=nvdisasm)
    shown = re.findall(r"/\*([0-9a-f]+)\*/  (B\S+)  (.*;)", listed)
    assert [(f"{each.address:04x}", str(each.control), each.text) for each in code] == shown
    assert len(shown) == len(re.findall(r"/\*[0-9a-f]{4}\*/", plain))
    assert "/* 0x" in disassemble(cubin, nvdisasm=nvdisasm, options=("--print-code", "-hex"))
    assert "/* 0x" not in listed
    assert [each.address for each in code] == list(range(0, 16 * len(code), 16))
