"""A program for the test of compiled code on disk: compiles a forward and a backward, and prints what it found."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._dynamo.utils import counters

from tests.entry.torch_kernels import ours, theirs


def main(device: str) -> None:
    def gradient(activation: Any) -> Any:
        x = torch.linspace(-1.0, 1.0, 64, device=device, requires_grad=True)
        (
            torch.compile(activation, fullgraph=True)(x) if activation is ours else activation(x)
        ).sum().backward()
        return x.grad

    equal = torch.equal(gradient(ours), gradient(theirs))
    print("equal" if equal else "different", counters["aot_autograd"]["autograd_cache_hit"])


if __name__ == "__main__":
    main(*sys.argv[1:])
