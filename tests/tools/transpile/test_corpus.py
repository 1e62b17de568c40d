"""Compilers' output and every piece of the grammar, transpiled: each program records a module that diffs equal."""

from __future__ import annotations

import pytest

from pyptx.core.errors import InstructionError, OperandError
from pyptx.ir import parse_module, print_module
from pyptx.tools.transpile.api import transpiled
from tests.ir.corpus.cases import TRITON
from tests.ir.corpus.sources import ARCHITECTURES, CUDA
from tests.ir.corpus.texts import cuda_text, triton_text
from tests.ir.forms import MODULES


def check(text: str) -> None:
    """The program is checked by ``transpiled`` itself, which raises where it differs."""
    module = parse_module(text)
    found = transpiled(module)
    assert found.checked and found.module is module
    assert found.flat == (), "blocks and operators should do"
    assert found.text.count("\n") < print_module(module).text.count("\n")


#: What the instruction table does not have (docs/roadmap.md), with what is said about it.
UNKNOWN = {
    "constant_banks": (InstructionError, "const"),
    "addresses": (OperandError, "a sink is not allowed"),
}


@pytest.mark.parametrize("name", MODULES)
def test_every_piece_of_the_grammar(name: str) -> None:
    if name in UNKNOWN:
        error, message = UNKNOWN[name]
        with pytest.raises(error, match=message):
            transpiled(MODULES[name])
    else:
        assert transpiled(MODULES[name]).flat == ()


@pytest.mark.sample(1)
@pytest.mark.one_in(8)
@pytest.mark.parametrize("source, build, arch", CUDA)
def test_cuda(source: str, arch: str, build: str) -> None:
    check(cuda_text(source, build, arch))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name, capability", TRITON)
def test_triton(name: str, capability: int) -> None:
    check(triton_text(name, ARCHITECTURES[capability]))
