"""Attention's rows of ``hopper.py``: forward in bf16 and e4m3, backward, full and causal, and decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from _cudnn_fp8 import cudnn_attention
from _examples import load_example
from _rivals import flash_attention, flash_attention_backward
from _rows import Composed, Row

from pyptx import SpecError, e4m3

__all__ = ["ATTENTION", "attention_row", "decode_row", "deterministic_backward", "narrow_row"]

BATCH, HEADS = 4, 16
#: Head dim: what the backward tries beside its defaults, all without spills.
BACKWARD: dict[int, tuple[dict[str, Any], ...]] = {
    64: (
        {"store_at": 0.0},
        {"store_at": 1.0},
        {"staged": False},
        {"stages": 2},
        {"overlap": 3},
        {"overlap": 2},
        {"block": 64},
        {"block": 128},
        {"block": 128, "store_at": 1.0},
    ),
    128: (
        {"store_at": 0.25},
        {"store_at": 1.0},
        {"staged": False},
        {"stages": 2},
        {"stages": 2, "store_at": 1.0},
        {"overlap": 1},
        {"overlap": 1, "store_at": 1.0},
        {"block": 48},
        {"block": 80},
    ),
}
LENGTHS = (2048, 4096, 8192, 16384)
#: The name of a row of the backward: its sequence, head dim and whether it is causal.
BACKWARDS = {
    f"attention backward hd{D} S{S} {'causal' if causal else 'full'}": (S, D, causal)
    for D in BACKWARD
    for causal in (False, True)
    for S in (4096, 8192)
}
#: Head dim: blocks of keys and consumer warpgroups to try.
CHOICES = {
    64: ((128, 3), (128, 2), (192, 2), (176, 3)),
    128: ((176, 2), (160, 2), (128, 2), (128, 3), (112, 3)),
    256: ((80, 2), (64, 2), (96, 2)),
}
#: The same for e4m3.
CHOICES_8 = {128: ((192, 2), (160, 2), (128, 2), (96, 3)), 256: ((128, 2), (96, 2), (64, 2))}


def _forward(S: int, D: int, **options: Any) -> Composed:
    """Return the kernel as a function that returns O alone, as the rivals do."""
    kernel = load_example("hopper/attention.py").build_attention(BATCH, HEADS, S, D, **options)
    return Composed(lambda q, k, v: kernel(q, k, v)[0], [(kernel, {})])


def _loops(D: int) -> Iterator[dict[str, Any]]:
    """Yield the options of the loop through the keys."""
    if D < 256:
        yield {"parts": True}
    for overlap in (False, True):
        for polynomials in (0, 8, 16):
            yield {"parts": False, "overlap": overlap, "polynomials": polynomials}
    if D == 256:
        for resident in (0, 2, 8):
            yield {"parts": False, "resident": resident}


def _candidates(S: int, D: int, causal: bool) -> dict[str, Any]:
    found = {}
    for block, consumers in CHOICES[D]:
        for loop in _loops(D):
            for pingpong in (False, True):
                options = {**loop, "pingpong": pingpong}
                name = f"{block}x{consumers}" + "".join(
                    f" {key}={value}" for key, value in options.items() if value or key == "resident"
                )
                try:
                    found[name] = _forward(S, D, causal=causal, block=block, consumers=consumers, **options)
                except SpecError:  # a combination that does not fit
                    continue
    return found


def _compared(module: str) -> Any:
    """Return a module beside the examples, with what their kernels are compared with."""
    load_example("hopper/attention.py")  # puts its folder on the path
    return import_module(module)


def _library(torch: Any, name: str, causal: bool) -> Callable[..., Any]:
    """Return torch's attention by one of its backends, of and to arrays [B, S, H, D]."""
    return _compared("attention_reference").library(torch, name, causal)


def attention_row(S: int, D: int, causal: bool) -> Row:
    """Return the row of attention in bf16 with S keys and queries and heads of D."""

    def inputs(torch: Any, copy: int) -> tuple[Any, ...]:
        torch.manual_seed(copy)
        shape = (BATCH, S, HEADS, D)
        return tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
        names = {"cuDNN": "CUDNN_ATTENTION"} | ({"FlashAttention-2": "FLASH_ATTENTION"} if D < 256 else {})
        libraries = {shown: _library(torch, name, causal) for shown, name in names.items()}
        return libraries | flash_attention(torch, D, causal)

    def reference(q: Any, k: Any, v: Any) -> Any:
        import torch

        return _library(torch, "CUDNN_ATTENTION", causal)(q, k, v)

    work = 4.0 * BATCH * HEADS * S * S * D
    return Row(
        name=f"attention hd{D} S{S} {'causal' if causal else 'full'}",
        group=f"attention-hd{D}",
        ours=partial(_forward, S, D, causal=causal),
        candidates=partial(_candidates, S, D, causal),
        rivals=rivals,
        inputs=inputs,
        reference=reference,
        rtol=2.0**-6,
        atol=2.0**-8,
        flops=work / 2 if causal else work,
        target=1.1 if D == 64 else 1.0,
    )


def _narrow(S: int, D: int, **options: Any) -> Composed:
    """Return the kernel in e4m3 as a function of the row's inputs that returns O alone."""
    build = load_example("hopper/attention.py").build_attention
    kernel = build(BATCH, HEADS, S, D, dtype=e4m3, **options)
    return Composed(lambda q, k, v, factors, *_: kernel(q, k, v, factors)[0], [(kernel, {})])


def _narrow_candidates(S: int, D: int, causal: bool) -> dict[str, Any]:
    found = {}
    for block, consumers in CHOICES_8[D]:
        for loop in ({"parts": False}, {"resident": 0}, {"resident": D // 32}):
            for pingpong in (False, True):
                options = {**loop, "pingpong": pingpong}
                name = f"{block}x{consumers} " + " ".join(f"{key}={value}" for key, value in options.items())
                try:
                    found[name] = _narrow(S, D, causal=causal, block=block, consumers=consumers, **options)
                except SpecError:  # a combination that does not fit
                    continue
    return found


def narrow_row(S: int, D: int, causal: bool) -> Row:
    """Return a row of e4m3: beside cuDNN's, and our kernel in bf16 on the same numbers.

    The reference is in bf16.  Without a mask O has a deviation of ``sqrt(e / S)``, and e4m3 an error of 2 to
    5% of it, root mean square.  With one, P's roundings do not average out in the first rows: exact sums of
    rounded P err there by up to 0.064 in 64 heads of 128 or 256, most in row 1; cuDNN rounds O by 2**-4, too.
    """

    def inputs(torch: Any, copy: int) -> tuple[Any, ...]:
        torch.manual_seed(copy)
        shape = (BATCH, S, HEADS, D)
        narrow = [torch.randn(shape, device="cuda").to(torch.float8_e4m3fn) for _ in range(3)]
        factors = torch.ones(BATCH, HEADS, 3, device="cuda")
        return *narrow, factors, *(each.to(torch.bfloat16) for each in narrow)

    def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
        wide = _forward(S, D, causal=causal)
        libraries = cudnn_attention(torch, D, causal) | flash_attention(torch, D, causal, narrow=True)
        return libraries | {"pyptx bf16": lambda *given: wide(*given[4:])}

    def reference(*given: Any) -> Any:
        import torch

        return _library(torch, "CUDNN_ATTENTION", causal)(*given[4:])

    work = 4.0 * BATCH * HEADS * S * S * D
    return Row(
        name=f"attention e4m3 hd{D} S{S} {'causal' if causal else 'full'}",
        group="attention-fp8",
        ours=partial(_narrow, S, D, causal=causal),
        candidates=partial(_narrow_candidates, S, D, causal),
        rivals=rivals,
        inputs=inputs,
        reference=reference,
        rtol=2.0**-3 if causal else 2.0**-4,
        atol=2.0**-4 if causal else 0.5 * math.sqrt(math.e / S),
        flops=work / 2 if causal else work,
        target=1.0,
    )


def _gradients(S: int, D: int, causal: bool, **options: Any) -> Composed:
    """Return the kernels of the backward as a function of Q, K, V, O, log-sum-exp and dO."""
    build = load_example("hopper/attention_backward.py").build_attention_backward
    backward = build(BATCH, HEADS, S, D, causal=causal, **options)
    return Composed(backward, [(each, {}) for each in (backward.prepare, backward.main, backward.finish)])


def _backward_candidates(S: int, D: int, causal: bool) -> dict[str, Any]:
    named = {" ".join(f"{key}={value}" for key, value in each.items()): each for each in BACKWARD[D]}
    return {name: _gradients(S, D, causal, **options) for name, options in named.items()}


def _backward(S: int, D: int, causal: bool) -> Row:
    def inputs(torch: Any, copy: int) -> tuple[Any, ...]:
        torch.manual_seed(copy)
        return _compared("attention_reference.backward").torch_inputs(torch, BATCH, HEADS, S, D, causal)

    def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
        names = {"cuDNN": "CUDNN_ATTENTION", "FlashAttention-2": "FLASH_ATTENTION"}
        libraries = {
            shown: _compared("attention_reference.backward").library(torch, name, causal)
            for shown, name in names.items()
        }
        return libraries | flash_attention_backward(torch, D, causal)

    def reference(*given: Any) -> Any:
        import torch

        return _compared("attention_reference.backward").library(torch, "FLASH_ATTENTION", causal)(*given)

    work = 10.0 * BATCH * HEADS * S * S * D
    return Row(
        name=next(name for name, shape in BACKWARDS.items() if shape == (S, D, causal)),
        group="attention-backward",
        ours=partial(_gradients, S, D, causal),
        candidates=partial(_backward_candidates, S, D, causal),
        rivals=rivals,
        inputs=inputs,
        reference=reference,
        rtol=2.0**-5,
        atol=2.0**-6,
        flops=work / 2 if causal else work,
        target=1.0,
    )


def deterministic_backward(name: str) -> Callable[[], Composed] | None:
    """Return what builds the bit-equal mode of the row called ``name``; None if it is no backward."""
    return partial(_gradients, *BACKWARDS[name], deterministic=True) if name in BACKWARDS else None


def decode_row(B: int, Sk: int, target: float | None) -> Row:
    """Return a row of decoding: a query of 32 heads, 8 heads of K and V of 128 elements, all keys in use."""
    H, Hk, D = 32, 8, 128

    def ours() -> Composed:
        kernel = load_example("hopper/attention_decode.py").build_decode(B, H, Sk, D, Hk=Hk)
        return Composed(lambda q, k, v, lengths: kernel(q, k, v, lengths)[0], [(kernel, {})])

    def inputs(torch: Any, copy: int) -> tuple[Any, ...]:
        torch.manual_seed(copy)
        shapes = ((B, 1, H, D), (B, Sk, Hk, D), (B, Sk, Hk, D))
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
        return q, k, v, torch.full((B,), Sk, dtype=torch.int32, device="cuda")

    def library(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        import torch

        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return o.transpose(1, 2)

    def sums(torch: Any) -> dict[str, Callable[..., Any]]:
        """Return the read roof: sums of K and V."""

        def run(q: Any, k: Any, v: Any, lengths: Any) -> Any:
            return k.view(torch.float32).sum(), v.view(torch.float32).sum()

        return {"torch.sum": run}

    return Row(
        name=f"decode B{B} keys {Sk}",
        group="decode",
        ours=ours,
        rivals=lambda torch: {"torch": library},
        roofs=sums,
        inputs=inputs,
        reference=library,
        rtol=2.0**-6,
        atol=2.0**-9,
        bytes=2.0 * B * Sk * Hk * D * 2,
        target=target,
        options={"flush": False, "copies": 2},
    )


def _rows() -> Iterator[Row]:
    for shape in BACKWARDS.values():
        yield _backward(*shape)
    yield from (decode_row(64, 8192, 0.93), decode_row(1, 131072, 0.93))
    for D in CHOICES:
        for causal in (False, True):
            for S in LENGTHS:
                yield attention_row(S, D, causal)
    for D in CHOICES_8:
        for causal in (False, True):
            for S in LENGTHS:
                yield narrow_row(S, D, causal)


ATTENTION = list(_rows())
