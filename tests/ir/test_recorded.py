"""Modules that the DSL recorded: printed, read back, equal, and launched from their text."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import ParseError, SpecError
from pyptx.ir import Instruction, Module, parse_module, print_module
from tests.examples.loading import load_example


def _module(name: str) -> Module:
    if name == "vector_add":
        return load_example("hopper/vector_add.py").vector_add.module(N=256)
    if name == "tma_copy":
        return load_example("hopper/tma_copy.py").tma_copy.module(M=128, N=256)
    if name == "probe":
        return load_example("blackwell/tcgen05_mma_probe.py").probe.module()
    extents = tuple(map(int, name.split("x")))
    return load_example("blackwell/gemm_highperf_blackwell.py").build_gemm(*extents).module()


@pytest.mark.parametrize("name", ["vector_add", "tma_copy", "probe", "128x256x64", "8192x8192x8192"])
def test_reads_back_what_was_printed(name: str) -> None:
    module = _module(name)
    text = print_module(module).text
    back = parse_module(text)
    assert back == module
    assert print_module(back).text == text


def test_difference_of_one_modifier_is_a_difference() -> None:
    text = print_module(_module("vector_add")).text
    assert parse_module(text.replace("add.rn.f32", "add.rz.f32")) != parse_module(text)


def test_launched_from_its_text() -> None:
    module = _module("vector_add")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    results = []
    for loaded in (sim.load(module), sim.load(print_module(module).text)):
        c = np.full(256, np.nan, np.float32)
        report = loaded.launch(grid=2, block=128, args=[a, b, np.uint32(200), c])
        assert str(report.verdict) == "clean", report
        results.append(c)
    assert np.array_equal(results[0][:200], (a + b)[:200])
    assert np.array_equal(results[0], results[1], equal_nan=True)


def test_statements_point_at_the_text() -> None:
    text = print_module(_module("vector_add")).text
    module = parse_module(text, "there.ptx")
    lines = text.split("\n")
    for statement in module.entry().body:
        assert statement.source is not None and statement.source.file == "there.ptx"
        if isinstance(statement, Instruction):
            assert statement.name in lines[statement.source.line - 1]


def test_load_refuses_what_is_not_ptx() -> None:
    with pytest.raises(ParseError, match=r"line 1, column 1: read 'int', expected \.version"):
        sim.load("int main() {}")
    with pytest.raises(SpecError, match="text, got int"):
        sim.load(3)  # type: ignore[arg-type]
