"""Accumulators as operand A: two products of one tile, right on Hopper and Blackwell; what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyptx import ScalarType, SpecError, b32, bf16, f16, f32, kit, ptx, reg, smem
from pyptx.core.types import e4m3, s32
from pyptx.dsl import RegArray
from pyptx.toolchain import Tool
from tests.dsl.helpers import body_of, in_kernel

from . import attention

BUILDERS = {"hopper": attention.on_hopper, "blackwell": attention.on_blackwell}
QUERIES = {"hopper": 64, "blackwell": 128}


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("name", BUILDERS)
def test_two_products(name: str, softmax: bool) -> None:
    arrays = attention.inputs(QUERIES[name], softmax)
    report = BUILDERS[name](softmax).simulate(*arrays, schedule="late", sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert attention.wrong(arrays, report.outputs[0], softmax) <= 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "arch"), [("hopper", None), ("blackwell", "sm_100a"), ("blackwell", "sm_103a")]
)
def test_they_assemble(name: str, arch: str | None, ptxas: Tool) -> None:
    built = BUILDERS[name](True, **({"arch": arch} if arch else {}))
    assembly = built.assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


def _values(count: int) -> RegArray:
    values = reg.array(f32, count)
    for value in values:
        ptx.inst.mov.f32(value, 1.0)
    return values


@pytest.mark.parametrize(
    ("dtype", "converted", "columns"),
    [(bf16, ["cvt.rn.bf16x2.f32"] * 4, 4), (f32, ["cvt.rna.tf32.f32"] * 8, 8), (e4m3, None, 2)],
    ids=str,
)
def test_what_store_a_records(dtype: ScalarType, converted: list[str] | None, columns: int) -> None:
    body = body_of(lambda: kit.store_a(reg.scalar(b32, init=0), _values(8), dtype))
    start = next(i for i, each in enumerate(body) if each.startswith("cvt"))
    if converted is not None:
        assert [each.split()[0] for each in body[start:-1]] == converted
    assert body[-1].startswith(f"tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [")


def test_a_fragments_are_new_registers_in_the_order_of_k() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(n=32)
        for value in acc:
            ptx.inst.mov.f32(value, 1.0)
        found.extend([list(acc), kit.a_fragments(acc, f16), kit.a_fragments(acc, f16)])

    found: list = []
    body_of(body, arch="sm_90a")
    acc, first, second = found
    assert [len(each) for each in first] == [4, 4] and first[0].layout.columns == 16
    names = [str(register) for made in (first, second) for each in made for register in each]
    assert len(set(names)) == 16 and len(acc) == 16


def test_a_fragments_may_be_written_again() -> None:
    def body() -> None:
        acc = ptx.wgmma.accumulator(n=32)
        for value in acc:
            ptx.inst.mov.f32(value, 1.0)
        first = kit.a_fragments(acc)
        again = kit.a_fragments(acc, out=first)
        assert all(a is b for a, b in zip(first, again, strict=True))
        for wrong in (first[:1], [ptx.wgmma.fragment(f16) for _ in range(2)]):
            with pytest.raises(SpecError, match="expected 2 of bf16"):
                kit.a_fragments(acc, out=wrong)

    in_kernel(body, arch="sm_90a")


@pytest.mark.parametrize(
    ("check", "fragments"),
    [
        (lambda: kit.store_a(reg.scalar(b32, init=0), _values(8), s32), ("s32", "bf16")),
        (lambda: kit.store_a(reg.scalar(b32, init=0), _values(6), bf16), ("3 columns", "power of two")),
        (lambda: kit.store_a(reg.scalar(b32, init=0), _values(3), bf16), ("1.5 columns", "power of two")),
        (lambda: kit.store_a(reg.scalar(b32, init=0), reg.array(b32, 8), bf16), ("f32", "view")),
        (lambda: kit.a_fragments(ptx.wgmma.accumulator(n=64), s32), ("s32", "bf16")),
        (lambda: kit.a_fragments(ptx.wgmma.accumulator(n=48), e4m3), ("48 columns", "multiple of 32")),
        (lambda: kit.a_fragments(ptx.wgmma.accumulator(n=24)), ("24 columns", "multiple of 16")),
        (lambda: kit.a_fragments(ptx.wgmma.accumulator(n=64)[:8]), ("whole f32 accumulator",)),
        (lambda: kit.a_fragments(ptx.wgmma.accumulator(n=64, dtype=f16)), ("whole f32 accumulator",)),
    ],
)
def test_what_is_refused(check: Callable[[], object], fragments: tuple[str, ...]) -> None:
    def body() -> None:
        with pytest.raises(SpecError) as caught:
            check()
        assert all(each in str(caught.value) for each in fragments), str(caught.value)

    in_kernel(body, arch="sm_90a" if "wgmma" in str(check.__code__.co_names) else "sm_100a")


def test_where_a_is() -> None:
    """A in tensor memory needs a type and an address; A in shared memory takes none."""

    def body() -> None:
        b = smem.alloc((64, 64), bf16, swizzle="128B")
        a = smem.alloc((128, 64), bf16, swizzle="128B")
        d = reg.scalar(b32, init=0)
        with pytest.raises(SpecError, match="a_type is None"):
            kit.StageMultiply(None, b, m=128, n=64, k=64)
        inside = kit.StageMultiply(None, b, m=128, n=64, k=64, a_type=bf16)
        with pytest.raises(SpecError, match="A is in tensor memory"):
            inside(d, 0)
        with pytest.raises(SpecError, match="A is in shared memory"):
            kit.StageMultiply(a, b, m=128, n=64, k=64)(d, 0, a_tmem=d)
        with pytest.raises(SpecError, match="MN"):
            kit.StageMultiply(None, b, m=128, n=64, k=64, a_type=bf16, a_major="MN")

    in_kernel(body)
