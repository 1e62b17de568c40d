"""Everything that the grammar can say, held against ptxas, and what the nodes then are."""

from __future__ import annotations

import math

import pytest

from pyptx.core.types import b32, f32, pred
from pyptx.ir import (
    Address,
    BranchTarget,
    Directive,
    Element,
    Immediate,
    Instruction,
    LabelStatement,
    Module,
    Negated,
    Pair,
    Param,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
    parse_module,
)
from pyptx.toolchain import Tool

from .forms import HEADER, MODULES, OLD, kernel
from .roundtrip import check

pytestmark = pytest.mark.smoke


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", MODULES)
def test_same_machine_code(name: str, ptxas: Tool, nvdisasm: Tool) -> None:
    text = MODULES[name]
    if old := OLD.get(name):
        check(text, ptxas, nvdisasm, old)
    else:
        check(text, ptxas, nvdisasm, options=("--compile-only",))


def _body(text: str, before: str = "") -> Module:
    return parse_module(kernel(text, before))


def _operands(text: str) -> tuple[object, ...]:
    """Operands of the last instruction before the kernel's ``ret``."""
    return list(_body(text).entry().instructions())[-2].operands


def test_header() -> None:
    module = parse_module(".version 8.6\n.target sm_80, debug, texmode_independent\n.address_size 64\n")
    assert (module.version, module.target, module.address_size) == ((8, 6), "sm_80", 64)
    assert module.target_options == ("debug", "texmode_independent")
    assert parse_module(".version 8.6 .target sm_80").address_size == 64


def test_opcode_is_the_first_word() -> None:
    instruction, _ = (
        _body(".reg .b32 %p, %r; mbarrier.try_wait.parity.shared::cta.b64 %p, [%r], 0;")
        .entry()
        .instructions()
    )
    assert instruction.opcode == "mbarrier"
    assert instruction.modifiers == ("try_wait", "parity", "shared::cta", "b64")


def test_operands() -> None:
    declared = ".reg .b32 %a, %b; .reg .pred %p, %q; .reg .v2 .f32 %v;"
    a, b = Register("a", b32), Register("b", b32)
    p, q = Register("p", pred), Register("q", pred)
    assert _operands(declared + "op %p|%q, !%p, _|%q, _;") == (
        Pair(p, q),
        Negated(p),
        Pair(Sink(), q),
        Sink(),
    )
    assert _operands(declared + "op {%a, _}|%q, %a|_;") == (Pair(Vector((a, Sink())), q), Pair(a, Sink()))
    assert _operands(declared + "op {%a, _, 3, %tid.x};") == (
        Vector((a, Sink(), Immediate(3), Special("tid.x"))),
    )
    assert _operands(declared + "op [%a], [%a+4], [%a+-4], [out], [12];") == (
        Address(a),
        Address(a, 4),
        Address(a, -4),
        Address(Symbol("out")),
        Address(Immediate(12)),
    )
    assert _operands(declared + "op [%a+0], %v.y, out+8;") == (
        Address(a, zero=True),
        Element(Register("v", f32, 2), "y"),
        Symbol("out", 8),
    )
    assert _operands(declared + "op [%a, {%a, %b}], [%a, %b];") == (
        Address(a, 0, Vector((a, b))),
        Address(a, 0, None, (b,)),
    )


def test_labels_are_known_from_before_and_behind() -> None:
    body = _body("A: bra B; B: bra A; bra C;").entry().body
    branches = [s.operands[0] for s in body if isinstance(s, Instruction) and s.opcode == "bra"]
    assert branches == [BranchTarget("B"), BranchTarget("A"), Symbol("C")]


@pytest.mark.parametrize(
    "text, value",
    [
        ("0x10", 16),
        ("017", 15),
        ("0b11", 3),
        ("12U", 12),
        ("-7 / 2", -3),
        ("7 % 2", 1),
        ("-7 % -3", -7),
        ("2 + 3 * 4 << 1", 28),
        ("(2 + 3) * 4", 20),
        ("1 ? 2 : 3", 2),
        ("!5 || 3 && 0", 0),
        ("~0", -1),
        ("~0U", -1),
        ("~0 > 0", 1),
        ("1 << 63", -(1 << 63)),
        ("0x8000000000000000", 1 << 63),
        ("0xFFFFFFFFFFFFFFFF", (1 << 64) - 1),
        ("-1 > 0U", 1),
        ("-1 > 0", 0),
        ("(.u64) -1 > 0", 1),
        ("(-1 | 0) > 0", 0),
        ("(-1 | 0U) > 0", 1),
        ("WARP_SZ * 2", 64),
        ("7 == 7 != 0", 1),
    ],
)
def test_constant_expressions(text: str, value: int) -> None:
    assert _operands(f"op {text};") == (Immediate(value),)


def test_every_nan_keeps_its_bits() -> None:
    (first, second, third) = _operands("op 0f7FC00001, -0f7FC00001, 0dFFF8000000000001;")
    assert [str(first), str(second), str(third)] == ["0f7FC00001", "0fFFC00001", "0dFFF8000000000001"]
    assert isinstance(first, Immediate) and math.isnan(first.value)
    again = Immediate.from_pattern(0x7FC00001, 32)
    assert first == again != second and hash(first) == hash(again)
    assert Immediate(float("nan")) == Immediate(float("nan")) != Immediate(float("nan"), 32)


def test_names_become_unique() -> None:
    function = _body(
        ".reg .b32 p, %p; op p, %p; { .reg .b32 p; L: op p, L; } { .reg .b32 p; L: op p, L; } op p;"
    ).entry()
    used = [i.operands for i in function.instructions()][:4]
    names = [[getattr(o, "name", "") for o in operands] for operands in used]
    assert len({names[0][0], names[0][1], names[1][0], names[2][0]}) == 4
    assert names[3] == names[0][:1]
    labels = [s.name for s in function.body if isinstance(s, LabelStatement)]
    assert labels == ["L", "L_1"] == [names[1][1], names[2][1]]


def test_only_used_registers_of_a_range_are_declared() -> None:
    function = _body(".reg .b32 %r<1000000>; .reg .b32 %x; op %r20, %r3, %r1000000;").entry()
    assert [r.name for r in function.registers] == ["r3", "r20", "x"]
    assert next(function.instructions()).operands[2] == Special("r1000000")


def test_functions() -> None:
    module = parse_module(
        HEADER + ".extern .func (.param .b32 r) f (.param .b64 a, .param .align 4 .b8 b[8]) .noreturn;\n"
        ".weak .entry k() .maxntid 32, 1 { ret; } .func f2() { ret; } .entry l() { ret; }"
    )
    f, k = module.by_name["f"], module.by_name["k"]
    assert (f.kind, f.linkage, f.prototype, f.directives) == (
        "func",
        "extern",
        True,
        (Directive("noreturn"),),
    )
    assert [p.nbytes for p in f.params] == [8, 8] and isinstance(f.returns[0], Param)
    assert (k.kind, k.linkage, k.directive("maxntid")) == ("entry", "weak", (32, 1))
    assert sorted(module.entries) == ["k", "l"] and module.entry("k") is k
    for name in (None, "f2", "absent"):
        with pytest.raises(KeyError, match="he module has: k, l"):
            module.entry(name)


def test_sizes_of_variables() -> None:
    module = parse_module(
        HEADER + ".global .v4 .f32 a[2][3]; .const .u16 b; .extern .shared .align 16 .b8 c[];"
    )
    a, b, c = module.variables
    assert (a.count, a.shape, a.vector, a.nbytes) == (6, (2, 3), 4, 96)
    assert (b.count, b.nbytes) == (None, 2)
    assert (c.count, c.external, c.align) == (0, True, 16)
