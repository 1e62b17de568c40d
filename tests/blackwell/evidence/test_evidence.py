"""Every form, descriptor and tensor map of our Blackwell kernels is in the table of evidence, or listed with a reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx import sim
from pyptx.ir import parse_module
from pyptx.layout import OperandTile, TensorMap
from tests.blackwell.registry import PRODUCTS, VARIANTS
from tests.blackwell.runs import Run, simulated
from tests.conformance.collect import kernel_cases
from tests.sim.compiled.blackwell.triton_cases import TRITON_CASES

from .facts import Fact, Kind
from .forms import facts_of_text
from .listing import listing
from .observer import observed
from .products import constant_products
from .proof import grade, nearest, proofs, unproven
from .references import REFERENCES, Grade
from .table import Table, Use
from .unproven import REASONS

#: f16 times f16, f32 in D, M = 128, N = 32.
_IDESC = 1 << 4 | 32 // 8 << 17 | 128 // 16 << 24
_HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def _forms(body: str, shared: str = ".shared .align 16 .b8 s[64];") -> set[Fact]:
    text = f"""{_HEAD}.visible .entry k() {{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;
{shared}
{body}
ret;
}}"""
    return {fact for fact in facts_of_text(parse_module(text)) if fact.name != "ret"}


# --- our kernels ------------------------------------------------------------------------------------


_BY_NAME = {product.name: product for product in (*PRODUCTS, *VARIANTS)}


@cache
def _run(name: str) -> Run:
    return simulated(_BY_NAME[name], sanitize=False)


@pytest.mark.one_in(6)
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", _BY_NAME)
def test_the_small_size_has_the_products_of_the_large_one(name: str) -> None:
    large = _BY_NAME[name].build(4096, 4096, 4096)
    products = constant_products(
        large.specialize(**({"M": 4096} if "M" in large.options.dims else {})).module
    )
    assert products and products <= _run(name).seen


@pytest.mark.one_in(3)
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", _BY_NAME)
def test_what_is_unproven_has_a_reason(name: str) -> None:
    facts = _run(name).facts
    kinds = {fact.kind for fact in facts}
    assert {Kind.FORM, Kind.NUMBER, Kind.MMA, Kind.OPERAND} <= kinds
    assert [fact for fact in unproven(facts) if fact not in REASONS] == []


@pytest.mark.slow
@pytest.mark.full
def test_every_reason_is_needed() -> None:
    missing = {fact for name in _BY_NAME for fact in unproven(_run(name).facts)}
    assert REASONS.keys() <= missing
    assert all(len(reason.split()) > 5 for reason in REASONS.values())


# --- what a form is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bar.sync 0;", "barrier.cta.sync.aligned 1;"),
        ("barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.release.aligned;"),
        (
            "mbarrier.try_wait.parity.shared.b64 %p1, [s], 1;",
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [s], %r1;",
        ),
        ("@%p1 mov.u32 %r1, 5;", "mov.u32 %r2, %r3;"),
    ],
)
def test_the_same_form(one: str, other: str) -> None:
    assert _forms(one) == _forms(other) and len(_forms(one)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bar.sync 0;", "barrier.cta.sync 0;"),
        ("bar.sync 0;", "bar.sync 0, 64;"),
        ("barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;"),
        (
            "mbarrier.try_wait.parity.shared.b64 %p1, [s], 1;",
            "mbarrier.try_wait.parity.shared.b64 %p1, [s], 1, 1000;",
        ),
        ("mov.u32 %r1, %clusterid.x;", "mov.u32 %r1, %ctaid.x;"),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1;",
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r3], %d2, %r2, %p1;",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1;",
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, {%r4, %r5, %r6, %r7}, %p1;",
        ),
        ("setmaxnreg.inc.sync.aligned.u32 232;", "setmaxnreg.inc.sync.aligned.u32 240;"),
    ],
)
def test_other_forms(one: str, other: str) -> None:
    assert not {fact for fact in _forms(one) if fact.kind is not Kind.FORM} & _forms(other)
    assert _forms(one) != _forms(other)


def test_a_constant_descriptor_is_a_fact_of_the_text() -> None:
    chosen = f"""mov.b32 %r2, {_IDESC};
selp.b32 %r3, %r2, {_IDESC | 1 << 13}, %p1;
tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r3, %p1;"""
    products = [dict(fact.fields) for fact in _forms(chosen) if fact.kind is Kind.MMA]
    assert sorted(fields.get("negated", "") for fields in products) == ["", "A"]
    assert {fields["shape"] for fields in products} == {"128x32"}


def test_the_number_of_registers_is_a_fact() -> None:
    (number,) = (fact for fact in _forms("setmaxnreg.dec.sync.aligned.u32 24;") if fact.kind is Kind.NUMBER)
    assert dict(number.fields) == {"registers": "24"}


# --- what a run shows -------------------------------------------------------------------------------

_MULTIPLY = f"""{_HEAD}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 a, .param .u32 idesc) .reqntid 32
{{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;
.shared .align 1024 .b8 tile[32768];
.shared .align 8 .b8 bar[8];
.shared .align 4 .b8 slot[4];
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
ld.shared.b32 %r1, [slot];
ld.param.u32 %r2, [idesc];
ld.param.u64 %d1, [a];
mov.b64 %d2, map;
cvta.param.u64 %d2, %d2;
mov.u32 %r3, tile;
cvt.u64.u32 %d3, %r3;
shr.u64 %d3, %d3, 4;
or.b64 %d1, %d1, %d3;
elect.sync _|%p2, -1;
@%p2 mbarrier.init.shared.b64 [bar], 1;
@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32768;
@%p2 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%d2, {{0, 0}}], [bar];
bar.warp.sync -1;
wait:
mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
@!%p1 bra wait;
setp.ne.u32 %p3, %r2, %r2;
@%p2 tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d1, %r2, %p3;
@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d4];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
ret;
}}
""".replace(
    "@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d4];",
    """@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
more:
mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1;
@!%p1 bra more;""",
)


def _ran(idesc: int, descriptor: int, swizzle: str = "128B") -> dict[Kind, set[Fact]]:
    """The facts of one product whose operands are one tile of 128 rows, by kind."""
    source = np.ones((256, 64), np.float16)
    found: set[Fact] = set()
    with observed(found.add):
        sim.load(_MULTIPLY).launch(
            grid=1,
            block=32,
            args=[TensorMap.tiled(source, box=(256, 64), swizzle=swizzle), descriptor, idesc],
            sanitize=False,
        )
    return {kind: {fact for fact in found if fact.kind is kind} for kind in Kind}


def test_the_fields_of_a_run() -> None:
    tile = OperandTile(128, 64, 16, "K", "128B")
    facts = _ran(_IDESC, tile.descriptor(0).encode())
    (product,) = facts[Kind.MMA]
    assert dict(product.fields) == {
        "shape": "128x32",
        "types": "f16 f16 f32",
        "majors": "K K",
        "a": "shared memory",
    }
    of_a, of_b, *others = sorted(facts[Kind.OPERAND], key=lambda fact: not fact.name.startswith("tcgen05"))
    assert {dict(fact.fields)["side"] for fact in (of_a, of_b)} == {"A", "B"}
    assert (
        dict(of_a.fields).items() >= {"swizzle": "128B", "stride": "1024", "base": "0", "step": "0"}.items()
    )
    assert {fact.name for fact in others} == {"leading offset, not used", "first row in the pattern"}
    (copy,) = facts[Kind.COPY]
    assert dict(copy.fields) == {
        "element": "f16",
        "rank": "2",
        "row": "128",
        "swizzle": "128B",
        "begins": "0",
    }
    assert Fact.of(Kind.NUMBER, "cluster", extents="1x1x1") in facts[Kind.NUMBER]


@pytest.mark.parametrize(
    "change",
    [1 << 13, 1 << 15, 1 << 7 ^ 1 << 10, 16 // 8 << 17 ^ 32 // 8 << 17],
    ids=["negated", "MN-major", "bf16 and f16", "N = 16"],
)
def test_another_instruction_descriptor_is_another_fact(change: int) -> None:
    tile = OperandTile(128, 64, 16, "K", "128B").descriptor(0).encode()
    if change == 1 << 7 ^ 1 << 10:
        change = 1 << 7
    first, second = (_ran(idesc, tile)[Kind.MMA] for idesc in (_IDESC, _IDESC ^ change))
    assert first and second and not first & second


@pytest.mark.parametrize("change", [2, 8, 1 << 32, 1 << 49], ids=["step", "row", "stride", "base offset"])
def test_another_operand_descriptor_is_another_fact(change: int) -> None:
    tile = OperandTile(128, 64, 16, "K", "128B").descriptor(0).encode()
    assert _ran(_IDESC, tile)[Kind.OPERAND] != _ran(_IDESC, tile + change)[Kind.OPERAND]


def test_what_no_kernel_has_is_unproven() -> None:
    """A product of negated numbers, and an operand whose groups of rows are 2064 bytes apart."""
    tile = OperandTile(128, 64, 16, "K", "128B").descriptor(0).encode()
    odd = tile & ~(0x3FFF << 32) | 2064 // 16 << 32
    facts = _ran(_IDESC | 1 << 13, odd)
    missing = unproven(set().union(*facts.values()))
    assert {fact.kind for fact in missing} == {Kind.MMA, Kind.OPERAND}
    assert all(dict(fact.fields).get("stride", "2064") == "2064" for fact in missing)
    near = nearest(next(fact for fact in missing if fact.kind is Kind.OPERAND))
    assert near is not None and any(text.startswith("stride ") for text in near[1])
    lines = list(listing({"odd": frozenset(missing)}))
    assert sum("NO REASON" in line for line in lines) == len(missing) == 3


# --- the table --------------------------------------------------------------------------------------


def test_a_fact_reads_back() -> None:
    for fact, uses in Table.committed().uses.items():
        assert Fact.read(fact.kind.value, fact.text) == fact
        assert all(Use.read(str(use)) == use and use.project in REFERENCES and use.count > 0 for use in uses)


def test_every_project_has_facts() -> None:
    found = {use.project for uses in Table.committed().uses.values() for use in uses}
    assert found == REFERENCES.keys()


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", TRITON_CASES, ids=lambda case: case.name)
def test_the_table_has_what_triton_emits(case: Any) -> None:
    """A change of the forms without a new table fails here."""
    facts = facts_of_text(parse_module(case.run().text))
    assert all(any(use.project == "triton" for use in proofs(fact)) for fact in facts)


@pytest.mark.one_in(2)
@pytest.mark.sample(1)
@pytest.mark.parametrize("chapter", ["mbarrier", "cluster", "tensor_copy", "synchronization"])
def test_the_table_has_what_ran_on_an_h200(chapter: str) -> None:
    for case in kernel_cases(chapter):
        for fact in facts_of_text(parse_module(case.text)):
            found = grade(fact)
            assert found is not None and found <= Grade.HOPPER, str(fact)


def test_the_page_has_every_project_and_what_is_unproven() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "evidence.md").read_text()
    for reference in REFERENCES.values():
        assert reference.row in page, reference.row
    for fact, reason in REASONS.items():
        assert f"| {fact.kind.value}: `{fact.text}` | {reason} |" in page


def test_no_tcgen05_is_known_from_an_h200() -> None:
    hopper = [
        fact for fact, uses in Table.committed().uses.items() if {use.project for use in uses} == {"h200"}
    ]
    assert hopper and not [fact for fact in hopper if fact.name.startswith(("tcgen05", "clusterlaunch"))]
