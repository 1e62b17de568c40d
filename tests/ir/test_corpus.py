"""Compilers' output, parsed, printed and assembled: the SASS is that of the original, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyptx.ir import Module, parse_module, print_module
from pyptx.isa import check_module
from pyptx.toolchain import Tool, assemble

from .corpus.cases import CASES
from .corpus.sources import ARCHITECTURES, BUILDS, CUDA, KERNELS
from .roundtrip import check, contents


def faults(module: Module) -> list[str]:
    """What the check of modules says, each thing once: a compiler's output has no faults."""
    return sorted({fault.message for fault in check_module(module)})


# --- CUDA -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, build, arch", CUDA)
def test_cuda(
    source: Path, arch: str, build: str, compile_cuda: Callable[..., str], ptxas: Tool, nvdisasm: Tool
) -> None:
    compiler, assembler = BUILDS[build]
    text = compile_cuda(source, arch, compiler)
    module = check(text, ptxas, nvdisasm, arch, (assembler,))
    assert faults(module) == []
    assert len(module.entries) >= KERNELS[source.stem]


# --- Triton and Gluon -------------------------------------------------------------------------


@pytest.mark.parametrize("name, capability", [(n, c) for n, case in CASES.items() for c in case.on])
def test_triton(
    name: str,
    capability: int,
    compile_triton: Callable[[str, int], str],
    ptxas: Tool,
    nvdisasm: Tool,
) -> None:
    text = compile_triton(name, capability)
    module = check(text, ptxas, nvdisasm, ARCHITECTURES[capability], ("-lineinfo",))
    assert list(module.entries) == [CASES[name].function]
    assert faults(module) == []


# --- the corpus itself ------------------------------------------------------------------------


@pytest.mark.parametrize("capability", ARCHITECTURES)
def test_corpus_is_large_enough(capability: int) -> None:
    assert sum(KERNELS.values()) + sum(capability in case.on for case in CASES.values()) >= 150


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
