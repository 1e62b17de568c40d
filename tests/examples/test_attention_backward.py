"""Attention backward on Hopper: right under every schedule, bit-equal in order, assembled as it was meant."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from pyptx import PyptxError, f16
from pyptx.toolchain import Tool

from .loading import load_example

attention = load_example("hopper/attention_backward.py")
tools = import_module("attention_reference.backward")  # the example has put its folder on the path
OF_INPUTS = ("Sk", "Hk", "dtype", "order", "causal", "scale")
OF_REFERENCE = ("order", "causal", "scale")


def _run(
    shape: tuple[int, ...], schedule: str = "eager", seed: int = 0, inputs: Any = None, **options: Any
) -> tuple[tuple[np.ndarray, ...], float, str]:
    """Return the gradients, the largest error as a share of the bound, and what is wrong with the runs."""
    given = inputs or tools.make_inputs(*shape, **_some(options, OF_INPUTS))
    backward = attention.build_attention_backward(*shape, **{"ctas": 2, **options})
    found, reports = backward.simulate(*given, schedule=schedule, seed=seed, sanitize="strict")
    wrong = [
        str(report) for report in reports if report.verdict != "clean" or report.holds != "every schedule"
    ]
    error = tools.worst_error(found, tools.reference(*given, **_some(options, OF_REFERENCE)))
    return found, error, "\n".join(wrong)


def _some(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


#: One block of each head dim; keys that end within a block, and queries within the diagonal's.
SMALL: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 128, 64), {}),
    ((1, 1, 100, 128), {"Sk": 128, "causal": True}),
]


@pytest.mark.one_in(5)
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "options"), SMALL, ids=str)
def test_right(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    _, error, wrong = _run(shape, "late", **options)
    assert not wrong and error <= 1


CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 300, 64), {"causal": True, "ctas": 1}),
    ((1, 2, 200, 128), {"causal": True}),
    ((1, 4, 130, 64), {"Sk": 200, "Hk": 2, "dtype": f16}),
    ((2, 4, 70, 128), {"Sk": 200, "Hk": 1, "causal": True}),
    ((1, 1, 300, 64), {"Sk": 130, "causal": True}),
    ((1, 1, 64, 128), {"Sk": 300, "stages": 3}),
    ((1, 2, 200, 64), {"order": "bhsd", "ds_stages": 1, "scale": 0.2}),
    ((1, 3, 200, 128), {"order": "bhsd", "ds_stages": 1, "store_at": 0.0, "section": 1}),
    ((1, 2, 300, 64), {"deterministic": True, "store_at": 1.0}),
    ((1, 2, 200, 128), {"Hk": 1, "deterministic": True, "causal": True}),
    ((1, 1, 1, 64), {"Sk": 1}),
    ((1, 1, 100, 128), {"block": 80, "overlap": 0, "ds_stages": 1}),
    ((1, 1, 200, 128), {"block": 80, "overlap": 0, "ds_stages": 1, "causal": True, "deterministic": True}),
    ((1, 1, 200, 64), {"overlap": 0, "causal": True, "ctas": 1}),
    ((1, 2, 200, 64), {"overlap": 2, "block": 96, "causal": True, "Hk": 1, "ctas": 1}),
    ((1, 1, 150, 128), {"overlap": 2, "block": 48, "causal": True, "deterministic": True}),
    ((1, 2, 100, 128), {"block": 48, "stages": 3, "ds_stages": 3, "Hk": 1}),
    ((1, 2, 200, 128), {"causal": True, "Sk": 256, "Hk": 1, "ctas": 1}),
    ((1, 2, 200, 64), {"block": 128, "overlap": 1, "causal": True, "Hk": 1}),
    ((1, 1, 150, 128), {"block": 48, "overlap": 4, "rounded": True, "dtype": f16, "causal": True}),
    ((1, 1, 250, 64), {"overlap": 3, "Sk": 128, "stages": 3, "ds_stages": 1}),
    ((1, 2, 200, 128), {"q_stages": 4, "stages": 2, "block": 48, "Sk": 128, "Hk": 1}),
    ((1, 2, 150, 128), {"staged": False, "Sk": 128, "Hk": 1, "stages": 3, "ds_stages": 1}),
]


@pytest.mark.full
@pytest.mark.one_in(16)
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize(("shape", "options"), CASES, ids=str)
def test_every_option(shape: tuple[int, ...], options: dict[str, Any], schedule: str) -> None:
    _, error, wrong = _run(shape, schedule, **options)
    assert not wrong and error <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shape", "options"), [CASES[0], CASES[3], CASES[9]], ids=str)
def test_random_schedules(shape: tuple[int, ...], options: dict[str, Any], seed: int) -> None:
    _, error, wrong = _run(shape, "random", seed, **options)
    assert not wrong and error <= 1


@pytest.mark.slow
@pytest.mark.full
def test_bit_equal_in_order() -> None:
    """The order of the terms of dQ is that of the keys, whichever CTA is first."""
    runs = [
        _run((1, 1, 128, 64), *way, Sk=384, ctas=3, deterministic=True)[0]
        for way in (("eager",), ("late",), ("random", 1), ("random", 2))
    ]
    for other in runs[1:]:
        for one, again in zip(runs[0], other, strict=True):
            assert np.array_equal(one.view(np.uint16), again.view(np.uint16))


@pytest.mark.full
def test_special_values() -> None:
    """A query without keys has no gradient; NaN in dO reaches what the formulas say."""
    shape = (1, 1, 70, 64)
    inputs = tools.make_inputs(*shape, Sk=40, causal=True)
    assert np.isneginf(inputs[4][0, 0, :30]).all()
    inputs[5][0, 50, 0, 3] = np.nan
    (dq, dk, dv), _, wrong = _run(shape, inputs=inputs, Sk=40, causal=True)
    assert not wrong
    dq, dk, dv = (x[0, :, 0].astype(np.float64) for x in (dq, dk, dv))
    assert (dq[:30] == 0).all() and np.isnan(dq[50]).all()
    assert np.isfinite(np.delete(dq, 50, 0)).all()
    # A masked key has P = 0, and 0 * NaN is NaN.
    assert np.isnan(dv[:, 3]).all() and np.isfinite(np.delete(dv, 3, 1)).all()
    assert np.isnan(dk).all()


def test_a_zero_gradient_is_wrong() -> None:
    inputs = tools.make_inputs(1, 1, 64, 64)
    right = tools.reference(*inputs)
    for number in range(3):
        found = [np.zeros_like(x) if i == number else x for i, x in enumerate(right[:3])]
        assert tools.worst_error(found, right) > 50


# --- what is assembled ----------------------------------------------------------------------------

#: What will be timed: head dim and options.
TIMED: list[tuple[int, dict[str, Any]]] = [
    (D, options)
    for D in (64, 128)
    for options in (
        {},
        {"causal": True},
        {"deterministic": True},
        {"causal": True, "deterministic": True},
        {"causal": True, "Hk": 4},
        {"ds_stages": 1, "dtype": f16},
        {"store_at": 0.0},
        {"store_at": 1.0},
        {"staged": False},
        {"stages": 2},
        {"stages": 2, "causal": True},
        {"q_stages": 4, "stages": 2, "block": {64: 64, 128: 48}[D]},
        {"stages": 3, "ds_stages": 1, "staged": False, "causal": True},
        {"overlap": 0},
        {"overlap": 0, "causal": True, "block": {64: 96, 128: 80}[D], "ds_stages": 1},
        {"overlap": 1, "causal": True, "block": {64: 96, 128: 48}[D]},
        {"overlap": 1, "block": {64: 128, 128: 64}[D]},
        {"overlap": 1, "causal": True, "block": {64: 128, 128: 64}[D]},
        {"overlap": 3, "causal": True, "block": {64: 96, 128: 48}[D]},
        {"overlap": 4, "causal": True, "block": {64: 96, 128: 48}[D], "rounded": True},
        {"overlap": 2, "causal": True, "block": {64: 96, 128: 48}[D]},
        {"overlap": 2, "block": {64: 96, 128: 48}[D], "stages": 3},
        {"overlap": 2, "block": {64: 64, 128: 32}[D], "Hk": 4},
    )
]


@pytest.mark.one_in(24)
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("S", "D", "options"),
    # Ordered sums without a causal mask spill a few registers if the keys end within a block (docs/roadmap.md).
    [
        (S, *timed)
        for S in (4096, 4100)
        for timed in TIMED
        if S == 4096 or timed[1] != {"deterministic": True}
    ],
    ids=str,
)
def test_assembles_as_it_was_meant(S: int, D: int, options: dict[str, Any], ptxas: Tool) -> None:
    """No spills; notes would say that setmaxnreg was dropped or wgmma serialized (C7512 and others)."""
    for assembly in attention.build_attention_backward(4, 16, S, D, **options).assemble():
        assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
@pytest.mark.parametrize("D", [64, 128])
def test_the_main_loop_is_lean(D: int, ptxas: Tool, nvdisasm: Tool) -> None:
    """For each element an FFMA, a MUFU, an FADD, an FMUL and an F2FP, a fourth of an LDS; hardly a move."""
    lines = attention.build_attention_backward(4, 16, 4096, D).main.sass().splitlines()
    # The loop waits at the barrier of dS; the last wait is behind the loop.
    turn = [number for number, line in enumerate(lines) if "BAR.SYNC.DEFER_BLOCKING 0x1" in line][-2]
    labels = {line.split(":")[0]: n for n, line in enumerate(lines) if line.startswith(".L_x")}
    branches = [
        (number, labels.get(found.group(1), number))
        for number, line in enumerate(lines[turn:], turn)
        if (found := re.search(r"BRA `\((\.L_x_\d+)\)", line))
    ]
    end, start = next((end, start) for end, start in branches if start < turn)
    names = re.findall(r"\*/ +(?:@!?U?P\d+ )? *([A-Z0-9]+)", "\n".join(lines[start:end]))
    counts, elements = Counter(names), {64: 48, 128: 32}[D]
    for name in ("FFMA", "MUFU", "FADD", "FMUL", "F2FP"):
        assert counts[name] == elements, name
    assert counts["LDS"] == elements // 4
    assert counts["HGMMA"] == {64: 28, 128: 32}[D]
    # P is taken from its 16 bits, an instruction for each element.
    assert counts["LOP3"] + counts["SHF"] + counts["IMAD"] + counts["MOV"] + counts["R2UR"] <= elements + 6


def test_text_does_not_grow_with_the_problem() -> None:
    lengths = {
        attention.build_attention_backward(2, 4, S, 128, causal=True).main.ptx().count("\n")
        for S in (256, 4096, 65536)
    }
    assert len(lengths) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((1, 1, 64, 256), {}, "D = 256"),
        ((1, 4, 64, 64), {"Hk": 3}, "Hk a divisor of H"),
        ((1, 1, 64, 64), {"stages": 1}, "stages = 1"),
        ((1, 1, 64, 64), {"q_stages": 1}, "q_stages = 1"),
        ((1, 1, 64, 64), {"ds_stages": 3}, "ds_stages = 3"),
        ((1, 1, 64, 64), {"store_at": 1.5}, "store_at = 1.5"),
        ((1, 1, 64, 64), {"overlap": 5}, "overlap = 5"),
        ((1, 1, 64, 64), {"block": 80}, "block = 80"),
        ((1, 1, 64, 128), {"overlap": 0, "rounded": True}, "rounded"),
        ((1, 1, 64, 128), {"deterministic": True, "staged": False}, "deterministic without staged"),
        ((1, 1, 64, 128), {"block": 144}, "block = 144"),
        ((1, 4, 64, 64), {"section": 3}, "section = 3"),
        ((1, 1, 64, 128), {"block": 80, "ds_stages": 2}, "247040 bytes of tiles"),
        ((1, 1, 64, 64), {"dtype": None}, "expected bf16 or f16"),
    ],
)
def test_what_is_refused(arguments: tuple[int, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(PyptxError, match=words):
        attention.build_attention_backward(*arguments, **options)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "options"), [*SMALL, *CASES], ids=str)
def test_small_shapes_on_the_gpu(shape: tuple[int, ...], options: dict[str, Any], torch: Any) -> None:
    given = tools.make_inputs(*shape, **_some(options, OF_INPUTS))
    kind = torch.float16 if options.get("dtype") is f16 else torch.bfloat16
    there = [
        torch.from_numpy(x).cuda()
        if x.dtype == np.float32
        else torch.from_numpy(x.view(np.uint16)).view(kind).cuda()
        for x in given
    ]
    found = attention.build_attention_backward(*shape, **options)(*there)
    expected = tools.reference(*given, **_some(options, OF_REFERENCE))
    assert tools.worst_error([x.float().cpu().numpy() for x in found], expected) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("S", [4096, 8192])
def test_timed_sizes_on_the_gpu(S: int, D: int, causal: bool, torch: Any) -> None:
    q, k, v, do = (torch.randn(4, S, 16, D, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    parts = [x.transpose(1, 2) for x in (q, k, v)]
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention(*parts, 0.0, causal)[:2]
    given = (q, k, v, o.transpose(1, 2).contiguous(), lse, do)
    exact = [x[:1].detach().transpose(1, 2).float().requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=causal)
    out.backward(do[:1].transpose(1, 2).float())
    for deterministic in (False, True):
        kernels = attention.build_attention_backward(4, 16, S, D, causal=causal, deterministic=deterministic)
        found = kernels(*given)
        for value, leaf in zip(found, exact, strict=True):
            gradient = leaf.grad.transpose(1, 2)
            assert bool(((value[:1].float() - gradient).abs() <= 2.0**-6 + 2.0**-5 * gradient.abs()).all())
    for _ in range(200):
        assert all(torch.equal(x, y) for x, y in zip(kernels(*given), found, strict=True))
