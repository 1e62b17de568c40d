"""Registers of kernels and functions in cubins, beside what ptxas reports."""

from __future__ import annotations

import pytest

from examples.blackwell.ladder import v6
from examples.hopper import gemm_highperf_hopper, softmax
from pyptx.toolchain import Tool
from pyptx.toolchain.cubin import registers_of


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: v6.build_v6(256, 256, 256),
        lambda: softmax.build_softmax(1024),
        lambda: gemm_highperf_hopper.build_gemm(256, 256, 256),
    ],
    ids=["v6", "softmax", "gemm"],
)
def test_registers_are_those_that_ptxas_reports(kernel, ptxas: Tool) -> None:
    made = kernel()
    dims = {"M": 64} if "M" in made.options.dims else {}
    assembly = made.assemble(**dims)
    found = registers_of(assembly.cubin)
    assert found == {each.function: each.registers for each in assembly.resources}


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(ValueError, match="not a cubin"):
        registers_of(b"//\n// PTX")
