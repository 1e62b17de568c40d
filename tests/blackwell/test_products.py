"""Every matrix product of ``examples/blackwell`` is in the table, and its row is right."""

from __future__ import annotations

import ast

import pytest

from tests.examples.loading import EXAMPLES

from .registry import PRODUCTS, Product
from .rows import TARGETS, row

#: Files with builders that are no products of the table, and why.
OTHERS = {
    "cutile/matmul_mma_sync.py": "mma.sync, for sm_80 to sm_121: tests/examples/test_cutile.py",
    "ladder/generations.py": "Ampere and Hopper beside Blackwell: tests/examples/test_generations.py",
    "gemm_spelled_out.py": "the spelling of the first specification: tests/examples",
}
#: Kernels with cluster launch control, which run with each assignment of their clusters.
CANCELING = ("launch-control", "v7", "tilus-v5", "tilus-v6")


def test_every_builder_is_in_the_table() -> None:
    root = EXAMPLES / "blackwell"
    known = {product.file for product in PRODUCTS} | set(OTHERS)
    with_builders = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "tcgen05_probes" not in path.parts
        and any(
            isinstance(each, ast.FunctionDef) and each.name.startswith("build_")
            for each in ast.parse(path.read_text()).body
        )
    }
    assert with_builders <= known


@pytest.mark.one_in(4)
@pytest.mark.sample(1)
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_a_row(product: Product) -> None:
    found = row(product)
    assert found.report.verdict == "clean" and found.error <= 1, str(found.report)
    assert found.clean == list(TARGETS), [each.notes or each.warnings for each in found.assemblies.values()]
    assert found.columns <= 512 and 0 < found.shared_bytes <= 232_448
    assert found.report.holds == "every schedule", str(found.report)
    assignments = found.report.assignments
    assert (assignments is not None) is (product.name in CANCELING)
    assert assignments is None or (assignments.complete and assignments.ran == 13)
