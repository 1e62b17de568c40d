"""Attention for decoding: right however the keys are divided among CTAs, with pages, and on an H200."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, PyptxError, f16
from pyptx.toolchain import Tool

from .loading import load_example

decode = load_example("hopper/attention_decode.py")
tools = load_example("hopper/attention_reference/__init__.py")
INPUTS = ("Hk", "Sq", "dtype", "order", "page", "pages", "lengths")


def _given(shape: tuple[int, ...], seed: int, options: dict[str, Any]) -> tuple[Any, Any, Kernel]:
    """Inputs, what is expected, and the kernel."""
    inputs = decode.make_inputs(*shape, seed=seed, **{n: options[n] for n in INPUTS if n in options})
    masks = {name: options[name] for name in tools.MASKS if name in options}
    kernel = decode.build_decode(*shape, **{name: x for name, x in options.items() if name != "lengths"})
    return inputs, decode.reference(*inputs, **masks), kernel


def _wrong(shape: tuple[int, ...], schedule: str, seed: int = 0, **options: Any) -> str:
    """What is wrong with attention of random numbers; empty if nothing."""
    inputs, expected, kernel = _given(shape, seed, options)
    report = kernel.simulate(*inputs, schedule=schedule, seed=seed, sanitize="strict")
    if report.verdict != "clean" or report.holds != "every schedule":
        return str(report)
    error = tools.worst_error(report.outputs, expected)
    return "" if error <= 1 else f"{error} times the bound"


#: One CTA; a head of three CTAs; sequences that end within a CTA, one of them empty; pages.
SMALL: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 60, 64), {"Hk": 1, "ctas": 1, "block": 32}),
    ((1, 2, 90, 64), {"Hk": 1, "ctas": 3, "block": 16}),
    ((3, 1, 64, 64), {"ctas": 2, "block": 32, "lengths": (64, 0, 21)}),
    ((2, 2, 90, 64), {"ctas": 4, "block": 32, "together": 2, "lengths": (64, 90)}),
    ((2, 1, 64, 64), {"ctas": 2, "block": 32, "page": 8, "pages": 18, "lengths": (41, 64)}),
]


@pytest.mark.one_in(2)
@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "options"), SMALL, ids=str)
def test_right(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    assert not _wrong(shape, "late", **options)


CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 6, 150, 64), {"ctas": 7, "block": 32, "together": 3, "lengths": (150, 40)}),
    ((2, 4, 200, 64), {"Hk": 2, "ctas": 3, "block": 32, "lengths": (200, 70)}),
    ((3, 2, 96, 64), {"Hk": 1, "ctas": 5, "block": 32, "lengths": (96, 0, 33)}),
    ((3, 1, 20, 64), {"ctas": 7, "block": 32, "lengths": (0, 0, 0)}),
    ((2, 6, 160, 64), {"Hk": 2, "Sq": 3, "ctas": 4, "block": 32, "dtype": f16, "lengths": (160, 77)}),
    ((1, 2, 256, 64), {"Hk": 1, "ctas": 40, "block": 16, "lengths": (250,)}),
    ((2, 2, 128, 128), {"Hk": 1, "ctas": 3, "block": 32, "page": 64, "pages": 7, "lengths": (100, 50)}),
    ((2, 2, 128, 128), {"ctas": 3, "block": 64, "page": 16, "pages": 20, "lengths": (100, 50), "stages": 2}),
    ((2, 2, 300, 64), {"Hk": 1, "Sq": 4, "ctas": 3, "block": 32, "window": 40, "lengths": (300, 150)}),
    ((1, 2, 96, 256), {"Hk": 1, "Sq": 2, "ctas": 2, "block": 32, "causal": False, "lengths": (90,)}),
    ((2, 4, 100, 64), {"Hk": 2, "Sq": 5, "ctas": 3, "block": 32, "order": "bhsd", "lengths": (3, 100)}),
    ((40, 1, 40, 64), {"ctas": 6, "block": 32, "lengths": tuple(range(1, 41))}),
]


@pytest.mark.full
@pytest.mark.one_in(14)
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize(("shape", "options"), CASES, ids=str)
def test_every_option(shape: tuple[int, ...], options: dict[str, Any], schedule: str) -> None:
    assert not _wrong(shape, schedule, **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shape", "options"), CASES[:3], ids=str)
def test_random_schedules(shape: tuple[int, ...], options: dict[str, Any], seed: int) -> None:
    assert not _wrong(shape, "random", seed, **options)


def test_special_values() -> None:
    """NaN in one head's query, infinity in another's: these rows are NaN, the others right."""
    shape = (1, 4, 60, 64)
    q, k, v, lengths = decode.make_inputs(*shape, Hk=1, lengths=(50,))
    k[:, :50] = abs(k[:, :50])
    q[0, 0, 1, 7], q[0, 0, 2] = np.nan, 3e38
    kernel = decode.build_decode(*shape, Hk=1, ctas=2, block=32)
    with np.errstate(all="ignore"):
        expected = decode.reference(q, k, v, lengths)
    o, lse = (np.asarray(x).astype(np.float64) for x in kernel.simulate(q, k, v, lengths).outputs)
    assert np.isnan(o[0, 0, 1:3]).all() and np.isnan(lse[0, 1:3]).all()
    rest = [0, 3]
    assert np.all(abs(o[0, 0, rest] - expected[0][0, 0, rest]) <= expected[2][0, 0, rest])
    assert np.all(abs(lse[0, rest, 0] - expected[1][0, rest, 0]) <= expected[3][0, rest, 0])


@pytest.mark.full
def test_launches_in_a_row_find_the_flags_cleared() -> None:
    shape, options = SMALL[1]
    inputs, expected, kernel = _given(shape, 0, options)
    for _ in range(2):
        report = kernel.simulate(*inputs)
        assert report.verdict == "clean" and tools.worst_error(report.outputs, expected) <= 1


@pytest.mark.one_in(3)
@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((64, 32, 8192, 128), {"Hk": 8}),
        ((64, 32, 8192, 128), {"Hk": 8, "block": 128}),
        ((1, 32, 131072, 128), {"Hk": 8}),
        ((64, 32, 8192, 128), {"Hk": 8, "page": 64, "pages": 9000}),
        ((64, 32, 8192, 128), {"Hk": 8, "page": 16, "pages": 33000, "block": 128}),
        ((64, 32, 8192, 64), {"Hk": 8, "window": 1024}),
        ((8, 16, 8192, 256), {"Hk": 2, "Sq": 8}),
    ],
    ids=str,
)
def test_assembles_as_it_was_meant(shape: tuple[int, ...], options: dict[str, Any], ptxas: Tool) -> None:
    assembly = decode.build_decode(*shape, **options).assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((1, 1, 64, 96), {}, "D = 96"),
        ((1, 4, 64, 64), {"Hk": 3}, "Hk a divisor of H"),
        ((1, 33, 64, 64), {"Hk": 1, "Sq": 2}, "128 rows|66 rows"),
        ((1, 1, 64, 64), {"block": 24}, "block = 24"),
        ((1, 1, 64, 64), {"stages": 1}, "stages = 1"),
        ((4096, 64, 1 << 20, 64), {"block": 16}, "below 2"),
        ((1, 1, 64, 64), {"page": 16}, "expected both or none"),
        ((1, 1, 96, 64), {"page": 48, "pages": 4, "block": 64}, "page = 48"),
        ((1, 1, 64, 64), {"dtype": None}, "expected bf16 or f16"),
    ],
)
def test_what_is_refused(arguments: tuple[int, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(PyptxError, match=words):
        decode.build_decode(*arguments, **options)


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "options"), [*SMALL, *CASES], ids=str)
def test_small_shapes_on_the_gpu(shape: tuple[int, ...], options: dict[str, Any], torch: Any) -> None:
    inputs, expected, kernel = _given(shape, 0, options)
    kind = torch.float16 if options.get("dtype") is f16 else torch.bfloat16
    there = [torch.from_numpy(x.view(np.uint16)).view(kind).cuda() for x in inputs[:3]]
    there += [torch.from_numpy(x).cuda() for x in inputs[3:]]
    for _ in range(2):
        o, lse = kernel(*there)
        assert tools.worst_error((o.float().cpu().numpy(), lse.cpu().numpy()), expected) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize(("B", "Sk"), [(64, 8192), (1, 131072)])
def test_timed_sizes_on_the_gpu(B: int, Sk: int, torch: Any) -> None:
    q = torch.randn(B, 1, 32, 128, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(B, Sk, 8, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    lengths = torch.full((B,), Sk, dtype=torch.int32, device="cuda")
    kernel = decode.build_decode(B, 32, Sk, 128, Hk=8)
    o, _ = kernel(q, k, v, lengths)
    parts = (x.transpose(1, 2) for x in (q, k, v))
    exact = torch.nn.functional.scaled_dot_product_attention(*parts, enable_gqa=True).transpose(1, 2)
    assert bool(((o.float() - exact.float()).abs() <= 2.0**-9 + 2.0**-6 * exact.float().abs()).all())
    for _ in range(10):
        again, _ = kernel(q, k, v, lengths)
        assert torch.equal(again, o)
