"""Single edits at random places of many kernels: the diff names that edit, there, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from pyptx.ir import Function, LabelStatement, Module, parse_module, print_module
from pyptx.tools.diff import diff
from tests.examples.loading import load_example
from tests.ir.corpus.sources import LESS_OPTIMIZED
from tests.ir.corpus.texts import cuda_text, triton_text
from tests.tools.diff.edits import EDITS, disguised

#: Sources of the CUDA corpus: small kernels, loops, shared memory, tensor cores, device functions, jump tables.
SOURCES = ("basics", "memory", "functions", "tensor")
#: Of the Triton corpus, with the architecture.
TRITON = {
    "softmax": "sm_80",
    "attention": "sm_90a",
    "matmul_specialized": "sm_100a",
    "gluon_tensor_memory": "sm_100a",
}
#: Seeds of a kind of edit in a source.
ROUNDS = 3


@cache
def gemm() -> Module:
    built = load_example("blackwell/gemm_highperf_blackwell.py").build_gemm(512, 512, 512)
    module = built.module()
    assert isinstance(module, Module)
    return module


def one(module: Module, function: Function) -> Module:
    """The module with one of its bodies; the others are prototypes, which calls need."""
    others = [replace(f, body=(), registers=(), variables=(), prototype=True) for f in module.functions]
    kept = [function if f.name == function.name else o for f, o in zip(module.functions, others, strict=True)]
    called = [f for f in kept if f is function or f.kind == "func"]
    return replace(module, functions=tuple({f.name: f for f in called}.values()))


def check(module: Module, name: str, seed: int) -> bool:
    """Plant one edit; False where the function has no place for it."""
    rng = random.Random(f"{name} {seed}")
    functions = [f for f in module.functions if not f.prototype and len(f.body) > 4]
    function = rng.choice(functions)
    alone = one(module, function)
    planted = EDITS[name](alone, next(f for f in alone.functions if f is function), rng)
    if planted is None:
        return False
    found = diff(alone, disguised(planted.module, rng))
    assert [d.kind for d in found.differences] == [planted.kind], (
        f"{function.name}, planted {planted.kind}: {planted.a} -> {planted.b}\n{found}"
    )
    (only,) = found.differences
    if planted.a is not None:
        assert only.a is not None and (only.a.text, only.a.index) == (planted.a, planted.at)
    elif planted.b is not None:
        assert only.a is None and only.b is not None and only.b.index == planted.at
    return True


def check_all(module: Module, seed: int) -> set[str]:
    """Every kind of edit; those that found a place."""
    rng = random.Random(seed)
    assert diff(module, disguised(module, rng)).equal
    return {name for name in EDITS for n in range(ROUNDS) if check(module, name, seed * ROUNDS + n)}


@pytest.mark.full
def test_recorded_gemm() -> None:
    planted = set.union(*(check_all(gemm(), seed) for seed in range(4)))
    assert planted == EDITS.keys()


@pytest.mark.full
@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", SOURCES)
def test_cuda(source: str) -> None:
    module = parse_module(cuda_text(source))
    planted = set.union(*(check_all(module, seed) for seed in range(3)))
    assert len(planted) >= 13


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("name, arch", TRITON.items())
def test_triton(name: str, arch: str) -> None:
    module = parse_module(triton_text(name, arch))
    assert len(check_all(module, 5)) >= 12


def test_text_of_a_disguise() -> None:
    """The same through the printer and the parser, sources of statements and all."""
    text = print_module(disguised(gemm(), random.Random(1))).text
    assert diff(gemm(), text).equal


# --- unlike kernels ---------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize("source", LESS_OPTIMIZED)
def test_every_line_is_accounted_for(source: str) -> None:
    """Two builds of a source: each instruction stands in one row, in order, and is equal, changed or alone."""
    found = diff(cuda_text(source), cuda_text(source, "less", "sm_80"))
    assert found.functions and not found.equal
    for function in found.functions:
        for side, places in enumerate((function.first, function.second)):
            shown = [row[side] for row in function.rows if row[side] is not None]
            assert shown == list(range(len(places)))
        alone = {0: 0, 1: 0}
        for row in function.rows:
            if None in row:
                alone[row.index(None)] += 1
        told = {"deleted": 0, "inserted": 0, "moved": 0}
        for difference in function.differences:
            if difference.kind in told:
                told[difference.kind] += difference.count
        assert alone[1] == told["deleted"] + told["moved"]
        assert alone[0] == told["inserted"] + told["moved"]


def test_unrelated_kernels() -> None:
    """Nothing in common is no reason to fail, nor to take different instructions for each other."""
    other = load_example("hopper/vector_add.py").vector_add
    module = other.module(**{name: 1024 for name in other.options.dims})
    found = diff(gemm(), module)
    assert found.counts["deleted"] > 100
    (function,) = found.functions
    told = {d.a.index for d in function.differences if d.kind == "opcode" and d.a is not None}
    paired = [row for row in function.rows if None not in row]
    assert paired
    for i, j in paired:
        if opcode(function.first[i].text) != opcode(function.second[j].text):
            assert i in told


def opcode(text: str) -> str:
    """The first word behind a guard."""
    return text.split()[text.startswith("@")].split(".")[0].rstrip(";")


@pytest.mark.full
def test_a_large_kernel_of_equal_parts() -> None:
    """The body many times over: nothing is unique, and one edit is one difference all the same."""
    (function,) = gemm().functions
    body = [
        s for s in function.body if not isinstance(s, LabelStatement) and getattr(s, "opcode", "") != "bra"
    ]
    large = replace(gemm(), functions=(replace(function, body=tuple(body * 40)),))
    planted = EDITS["insert_copy"](large, large.functions[0], random.Random(2))
    assert planted is not None
    assert diff(large, planted.module).counts == {"inserted": 1}
