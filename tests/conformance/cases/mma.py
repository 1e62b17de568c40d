"""mma and mma.sp: every variant of the target, on integers, on numbers of all sizes and on special values."""

from __future__ import annotations

from collections.abc import Iterator

from pyptx.isa import all_forms

from ..case import KernelCase
from ..fragments import matches, product_case

#: Variants of which more random operands are recorded, to pin the arithmetic of each kind of product.
_MEASURED = (
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
)
_MORE = (
    tuple(
        (mode, total) for mode in ("near", "wide", "sparse", "special") for total in ("near", "wide", "zero")
    )
    * 2
)


def _cases() -> Iterator[KernelCase]:
    dense = [form.id for form in all_forms() if form.id.startswith("mma.") and ".sp." not in form.id]
    sparse = [form.id for form in all_forms() if form.id.startswith("mma.sp.")]
    for match in matches(*dense):
        yield product_case(match, modes=_MORE if match.name in _MEASURED else ())
    for match in matches(*sparse):
        selectors = next(spec for spec in match.form.specs() if spec.name == "selector").values
        assert selectors is not None
        for selector in selectors:
            yield product_case(match, selector)


CASES = list(_cases())
