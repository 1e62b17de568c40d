"""Loads and stores: every variant of the table through the wrappers, spellings, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.core.errors import InstructionError, OperandError, TargetError, TraceError
from pyptx.core.types import TYPES, b32, b128, bf16, bf16x2, f16, f32, f64, pred, u8, u32, u64
from pyptx.dsl import ptx, reg, smem
from pyptx.dsl.units import memory
from pyptx.isa import Match
from pyptx.toolchain import Tool, check_text
from tests.dsl.helpers import body_of, in_kernel, rejected, text_of
from tests.dsl.units.reach import public_functions
from tests.dsl.units.spelled import Bench, all_pairs, assemble_variants, variants_of

_FLAGS = {"weak", "volatile", "mmio", "nc"}
_ARGUMENTS = {
    **dict.fromkeys(("relaxed", "acquire", "release"), "sem"),
    **dict.fromkeys(("cta", "cluster", "gpu", "sys"), "scope"),
    **dict.fromkeys(("ca", "cg", "cs", "lu", "cv", "wb", "wt"), "cache"),
}


def _arguments(bench: Bench, match: Match) -> dict[str, Any]:
    """What to pass for the words of a variant, but for its type and vector."""
    given: dict[str, Any] = {}
    for word in match.spelling:
        if word in _FLAGS:
            given[word] = True
        elif word in _ARGUMENTS:
            given[_ARGUMENTS[word]] = word
        elif word == "proxy::readonly":
            given["readonly"] = True
        elif word == "L2::cache_hint":
            given["cache_hint"] = bench.cache_hint
        elif word.startswith("L1::"):
            given["l1"] = word[4:]
        elif word in ("L2::64B", "L2::128B", "L2::256B"):
            given["prefetch"] = int(word[4:-1])
        elif word.startswith("L2::"):
            given["l2"] = word[4:]
        elif word not in TYPES and word not in ("v2", "v4", "v8"):
            given["space"] = word
    return given


def _shape(match: Match) -> tuple[Any, int | None]:
    """Type and length of a variant."""
    kind = next(TYPES[word] for word in reversed(match.spelling) if word in TYPES)
    vectors = [int(word[1:]) for word in match.spelling if word in ("v2", "v4", "v8")]
    return kind, vectors[0] if vectors else None


def _place(bench: Bench, match: Match) -> Any:
    if "param::func" in match.spelling or match.form.id.startswith("st.param"):
        return bench.argument
    return bench.address


def _load(bench: Bench, match: Match) -> None:
    kind, length = _shape(match)
    given = _arguments(bench, match)
    if match.form.id.startswith("ld.unified"):
        given["unified"] = True
    if length is None:
        memory.load(kind, _place(bench, match), out=bench.one(kind), **given)
    else:
        memory.load(kind, _place(bench, match), vector=length, out=bench.several(kind, length), **given)


def _store(bench: Bench, match: Match) -> None:
    kind, length = _shape(match)
    value = bench.one(kind) if length is None else bench.several(kind, length)
    memory.store(_place(bench, match), value, **_arguments(bench, match))


def _returned(match: Match) -> bool:
    """Is it a load of what a function returned? Code for it needs the call."""
    return match.form.id.startswith("ld.param.func")


def _loads() -> list[Match]:
    return variants_of("ld", lambda match: not _returned(match))


def _stores() -> list[Match]:
    """``st.async`` and ``st.bulk`` are units of their own."""
    return variants_of("st", lambda match: not match.form.id.startswith(("st.async", "st.bulk")))


@pytest.mark.full
def test_loads_with_every_pair_of_modifiers(ptxas: Tool) -> None:
    assert assemble_variants(all_pairs(_loads()), _load, ptxas, ("sm_100a",)) == []


@pytest.mark.full
def test_stores_with_every_pair_of_modifiers(ptxas: Tool) -> None:
    assert assemble_variants(all_pairs(_stores()), _store, ptxas, ("sm_100a",)) == []


@pytest.mark.slow
def test_every_load_and_store(ptxas: Tool) -> None:
    assert assemble_variants(_loads(), _load, ptxas, ("sm_100a",)) == []
    assert assemble_variants(_stores(), _store, ptxas, ("sm_100a",)) == []


@pytest.mark.full
def test_every_load_of_what_a_function_returned_assembles(ptxas: Tool) -> None:
    loads = variants_of("ld", _returned)
    assert assemble_variants(loads, _load, ptxas, ("sm_75", "sm_100a"), code=False) == []


def test_every_uniform_load_assembles(ptxas: Tool) -> None:
    def call(bench: Bench, match: Match) -> None:
        kind, length = _shape(match)
        space = _arguments(bench, match).get("space")
        if length is None:
            memory.ldu(kind, bench.address, space=space, out=bench.one(kind))
        else:
            memory.ldu(kind, bench.address, space=space, vector=length, out=bench.several(kind, length))

    assert assemble_variants(variants_of("ldu"), call, ptxas, ("sm_75", "sm_100a")) == []


def test_nothing_public_is_left_out() -> None:
    assert public_functions(memory, "ptx") == {"ptx.load", "ptx.ldu", "ptx.store"}


def test_results_are_new_registers_of_the_type(ptxas: Tool) -> None:
    def body() -> None:
        p = reg.scalar(u64, init=0)
        tile = smem.alloc(64, f16)
        x = ptx.load(f32, p, space="global", nc=True)
        h = ptx.load(bf16, tile)
        pair = ptx.load(bf16x2, ptx.addr(tile, 4), space="shared")
        row = ptx.load(f32, p, vector=4)
        byte = ptx.load(u8, p, space="global", sem="acquire", scope="gpu")
        whole = ptx.load(b128, p)
        keep = reg.scalar(pred, init=True)
        ptx.load(f32, ptx.addr(p, 8), out=x, pred=keep)
        low = ptx.load(f32, p, vector=8, out=[*row, None, None, None, None])
        fixed = ptx.ldu(f64, p, space="global")
        assert [r.type for r in (x, h, pair, byte, whole, fixed)] == [f32, bf16, bf16x2, u8, b128, f64]
        assert (row.type, len(row), list(low)) == (f32, 4, list(row))

    assert body_of(body)[2:] == [
        "ld.global.nc.f32 %x, [%p];",
        "ld.shared.b16 %h, [%smem_base];",
        "ld.shared.b32 %pair, [%smem_base+4];",
        "ld.v4.f32 {%row0, %row1, %row2, %row3}, [%p];",
        "ld.acquire.gpu.global.u8 %byte, [%p];",
        "ld.b128 %whole, [%p];",
        "mov.pred %keep, 1;",
        "@%keep ld.f32 %x, [%p+8];",
        "ld.v8.f32 {%row0, %row1, %row2, %row3, _, _, _, _}, [%p];",
        "ldu.global.f64 %fixed, [%p];",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_stores(ptxas: Tool) -> None:
    def body() -> None:
        p = reg.scalar(u64, init=0)
        tile = smem.alloc(64, f16)
        x = reg.scalar(f32, init=0.0)
        keep = reg.scalar(pred, init=True)
        ptx.store(p, x, space="global", pred=keep)
        ptx.store(tile, 1.0)
        ptx.store(p, [x, 2.0], l1="no_allocate")
        ptx.store(p, 7, u32, sem="release", scope="gpu")
        ptx.store(p, [None, *[x] * 7], space="global")
        ptx.store(p, x, b32)

    assert body_of(body)[4:] == [
        "@%keep st.global.f32 [%p], %x;",
        "st.shared.b16 [%smem_base], 15360;",
        "st.L1::no_allocate.v2.f32 [%p], {%x, 0f40000000};",
        "st.release.gpu.u32 [%p], 7;",
        "st.global.v8.f32 [%p], {_, %x, %x, %x, %x, %x, %x, %x};",
        "st.b32 [%p], %x;",
    ]
    assert check_text(text_of(body), ptxas=ptxas).ok


def test_memory_refuses() -> None:
    def check() -> None:
        p, x, narrow = reg.scalar(u64), reg.scalar(f32), reg.scalar(u32)
        row, base = reg.array(f32, 4), smem.base()
        with rejected(OperandError, "64 bits", "%narrow"):
            ptx.load(u32, narrow, space="global")  # rejected
        with rejected(OperandError, "predicate", "memory"):
            ptx.load(pred, p)  # rejected
        with rejected(OperandError, "vector is 3", "2, 4 or 8"):
            ptx.load(f32, p, vector=3)  # rejected
        with rejected(InstructionError, "256 bits", "128"):
            ptx.load(f64, p, vector=4, cache="ca", space="shared")  # rejected
        with rejected(OperandError, "prefetch is 32", "64, 128 or 256"):
            ptx.load(f32, p, prefetch=32)  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "cache_hint of ptx.load is 5: expected a register or None"):
            ptx.load(f32, p, cache_hint=5)  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "%narrow", "u64"):
            ptx.load(f32, p, cache_hint=narrow)  # rejected
        with rejected(OperandError, "one register", "vector="):
            ptx.load(f32, p, out=row)  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "4 registers"):
            ptx.load(f32, p, vector=4, out=x)  # type: ignore[call-overload]  # rejected
        with rejected(OperandError, "vector of 2", "got 4"):
            ptx.load(f32, p, vector=2, out=row)  # rejected
        with rejected(OperandError, "%x", ".u32"):
            ptx.load(u32, p, out=x)  # rejected
        with rejected(OperandError, "relaxd", "did you mean 'relaxed'"):
            ptx.load(f32, p, sem="relaxd", scope="gpu")  # rejected
        with rejected(TraceError, "%smem_base", "copy it"):
            ptx.load(u32, p, out=base)  # rejected
        with rejected(OperandError, "type of the store of 7", "u32"):
            ptx.store(p, 7)  # rejected
        with rejected(OperandError, "given of ptx.store is 'x'", "a register or an integer or a number"):
            ptx.store(p, "x", u32)  # type: ignore[arg-type]  # rejected
        with rejected(OperandError, "300", "u8"):
            ptx.store(p, 300, u8)  # rejected
        with rejected(OperandError, "vector is 3"):
            ptx.store(p, [x, x, x])  # rejected
        with rejected(OperandError, "l1 of ptx.store", "did you mean 'evict_first'"):
            ptx.store(p, x, l1="evict_firs")  # rejected

    in_kernel(check, smem=16)


def test_only_where_it_exists() -> None:
    def check() -> None:
        p = reg.scalar(u64)
        with rejected(TargetError, "sm_90"):
            ptx.load(f32, p, vector=8)  # rejected

    in_kernel(check, arch="sm_90")
