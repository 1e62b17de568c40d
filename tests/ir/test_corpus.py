"""Compilers' output, parsed, printed and assembled: the SASS is that of the original, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyptx.ir import Module, parse_module, print_module
from pyptx.isa import check_module
from pyptx.toolchain import Tool, assemble

from .corpus.cases import CASES, TRITON
from .corpus.sources import ARCHITECTURES, BUILDS, CUDA, KERNELS, OPTIMIZED_ONLY
from .corpus.texts import cuda_text, triton_text
from .roundtrip import check, contents


def faults(module: Module) -> list[str]:
    """What the check of modules says, each thing once: a compiler's output has no faults."""
    return sorted({fault.message for fault in check_module(module)})


# --- the texts that are kept ------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.one_in(16)
@pytest.mark.parametrize("source, build, arch", CUDA)
def test_cuda(source: str, arch: str, build: str, ptxas: Tool, nvdisasm: Tool) -> None:
    module = check(cuda_text(source, build, arch), ptxas, nvdisasm, arch, (BUILDS[build][1],))
    assert faults(module) == []
    assert len(module.entries) >= KERNELS[source]


@pytest.mark.full
@pytest.mark.one_in(24)
@pytest.mark.parametrize("name, capability", sorted(TRITON, key=lambda case: case[1]))
def test_triton(name: str, capability: int, ptxas: Tool, nvdisasm: Tool) -> None:
    arch = ARCHITECTURES[capability]
    module = check(triton_text(name, arch), ptxas, nvdisasm, arch, ("-lineinfo",))
    assert list(module.entries) == [CASES[name].function]
    assert faults(module) == []


# --- what the compilers at hand write ---------------------------------------------------------


def _one_is_enough(first: object, *values: Any) -> Any:
    """The case that the full tier compiles; the others want to be asked for."""
    return pytest.param(*values, marks=pytest.mark.full if values == first else pytest.mark.slow)


@pytest.mark.parametrize(
    "source, build, arch",
    [
        _one_is_enough(("functions", "optimized", "sm_90a"), source, build, arch)
        for source in KERNELS
        for build in BUILDS
        if build == "optimized" or source not in OPTIMIZED_ONLY
        for arch in ARCHITECTURES.values()
    ],
)
def test_nvcc_at_hand(
    source: str, build: str, arch: str, compile_cuda: Callable[..., str], ptxas: Tool, nvdisasm: Tool
) -> None:
    compiler, assembler = BUILDS[build]
    module = check(compile_cuda(source, arch, compiler), ptxas, nvdisasm, arch, (assembler,))
    assert faults(module) == []
    assert len(module.entries) >= KERNELS[source]


@pytest.mark.parametrize("name, capability", [_one_is_enough(("attention", 90), *case) for case in TRITON])
def test_triton_at_hand(
    name: str, capability: int, compile_triton: Callable[[str, int], str], ptxas: Tool, nvdisasm: Tool
) -> None:
    text = compile_triton(name, capability)
    module = check(text, ptxas, nvdisasm, ARCHITECTURES[capability], ("-lineinfo",))
    assert list(module.entries) == [CASES[name].function]
    assert faults(module) == []


# --- the corpus itself ------------------------------------------------------------------------


@pytest.mark.parametrize("capability", ARCHITECTURES)
def test_corpus_is_large_enough(capability: int) -> None:
    assert sum(KERNELS.values()) + sum(capability in case.on for case in CASES.values()) >= 150


@pytest.mark.full
def test_a_change_of_the_code_is_seen(ptxas: Tool, nvdisasm: Tool) -> None:
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        ".reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; mov.u32 %r, %tid.x; add.u32 %r, %r, 3;\n"
        "st.global.u32 [%a], %r; ret; }\n"
    )
    first, second = (
        contents(assemble(print_module(parse_module(t)), ptxas=ptxas).cubin, nvdisasm)
        for t in (text, text.replace("%r, 3", "%r, 4"))
    )
    assert first != second
    assert first == contents(assemble(text, ptxas=ptxas).cubin, nvdisasm)
