"""Tuned kernels under torch.compile."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import pyptx
from pyptx import Kernel, Scalar, Tile, f32, kernel, ptx, u32

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.full


@pyptx.autotune("block", [[32], [64]])
def build(*, block: int) -> Kernel:
    @kernel(
        in_specs=(Tile("N", f32), Scalar(u32)),
        out_specs=(Tile("N", f32),),
        grid=lambda N: -(-N // block),
        block=block,
        arch="sm_90a",
    )
    def add_one(x: Any, n: Any, y: Any) -> None:
        i = ptx.special.ctaid.x() * block + ptx.special.tid.x()
        with ptx.if_(i < n):
            ptx.store(y.at(i), ptx.load(f32, x.at(i)) + 1.0)

    return add_one


def test_the_choice_is_compiled() -> None:
    k, x = build(), torch.arange(100.0)
    run = torch.compile(lambda x: k(x * 2, x.numel()) * 3, fullgraph=True, backend="aot_eager", dynamic=True)
    with pytest.raises(Exception, match="a tuned kernel cannot be compiled before one choice|_not_tuned"):
        run(x)
    with pytest.warns(pyptx.PyptxWarning, match="has not measured"):
        k(x, x.numel())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in (100, 77):
            x = torch.arange(float(count))
            assert torch.equal(run(x), (x * 2 + 1) * 3)
