"""Attention on Hopper: right under every schedule and mask, assembled as it was meant, and on an H200."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, PyptxError, bf16, e4m3, f16, f32, kit, ptx
from pyptx.toolchain import Tool

from .loading import load_example

attention = load_example("hopper/attention.py")
tools = load_example("hopper/attention_reference/__init__.py")
MASKS = ("causal", "window", "scale", "order")


def _wrong(
    shape: tuple[int, ...], schedule: str = "eager", seed: int = 0, inputs: Any = None, **options: Any
) -> str:
    """What is wrong with attention of random numbers; empty if nothing."""
    of_inputs = {name: options[name] for name in ("Sk", "Hk", "dtype", "order") if name in options}
    given = tools.make_inputs(*shape, **of_inputs, seed=seed) if inputs is None else inputs
    kernel: Kernel = attention.build_attention(*shape, **{"ctas": 2, **options})
    report = kernel.simulate(*given, schedule=schedule, seed=seed, sanitize="strict")
    if report.verdict != "clean" or report.holds != "every schedule":
        return str(report)
    expected = tools.reference(*given, **{name: options[name] for name in MASKS if name in options})
    error = tools.worst_error(report.outputs, expected)
    return "" if error <= 1 else f"{error} times the bound"


#: One block; a window whose blocks are cut on both sides; several tiles of a CTA, packed heads.
SMALL: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 64, 64), {"consumers": 1, "block": 64, "causal": True}),
    ((1, 1, 64, 64), {"consumers": 1, "block": 32, "Sk": 100, "window": (20, 10)}),
    ((1, 4, 20, 64), {"consumers": 1, "block": 32, "Sk": 50, "Hk": 1, "pack": True, "ctas": 1}),
    ((1, 1, 64, 64), {"consumers": 1, "block": 32, "Sk": 100, "window": (20, 10), "parts": False}),
]


@pytest.mark.one_in(10)
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "options"), SMALL, ids=str)
def test_right(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    assert not _wrong(shape, "late", **options)


CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 192, 128), {"block": 64, "causal": True, "ctas": 1}),
    ((1, 2, 200, 64), {"block": 48, "causal": True}),
    ((1, 2, 100, 64), {"block": 64, "consumers": 2, "causal": True, "window": (40, None), "ctas": 1}),
    ((1, 1, 70, 64), {"Sk": 300, "block": 48, "consumers": 2, "window": (70, 30)}),
    ((1, 1, 70, 64), {"Sk": 300, "block": 48, "consumers": 2, "window": (-5, 30)}),
    ((1, 1, 130, 64), {"Sk": 50, "block": 32, "consumers": 1, "causal": True}),
    ((1, 1, 65, 64), {"Sk": 1, "block": 16, "consumers": 2}),
    ((1, 4, 40, 64), {"Sk": 100, "Hk": 1, "block": 32, "consumers": 1, "pack": True, "dtype": f16}),
    ((2, 16, 9, 64), {"Sk": 60, "Hk": 1, "block": 32, "consumers": 2, "pack": True, "causal": True}),
    ((2, 4, 40, 64), {"Hk": 2, "block": 32, "consumers": 2, "causal": True, "lazy": 8.0, "section": 2}),
    ((1, 1, 100, 256), {"block": 48, "causal": True}),
    ((1, 1, 100, 256), {"block": 48, "staging": "q"}),
    # Warpgroups that leave out blocks, with Q in shared memory or partly in registers.
    ((1, 1, 200, 256), {"block": 48, "causal": True, "ctas": 1, "pingpong": True}),
    ((1, 2, 200, 256), {"block": 32, "causal": True, "ctas": 1, "resident": 0}),
    ((1, 2, 200, 64), {"block": 32, "window": (20, 0), "parts": False}),
    ((1, 2, 130, 64), {"Sk": 50, "block": 32, "causal": True, "parts": False, "pingpong": True}),
    ((1, 1, 200, 128), {"block": 64, "causal": True, "ctas": 1, "resident": 8}),
    ((1, 1, 130, 128), {"block": 64, "overlap": False, "order": "bhsd"}),
    ((1, 1, 130, 128), {"block": 176, "pin": True, "stages": 1, "scale": 0.3}),
    ((1, 2, 260, 64), {"block": 64, "consumers": 2, "causal": True, "overlap": False, "pingpong": False}),
    ((1, 1, 260, 64), {"block": 128, "stages": 3, "order": "bhsd", "dtype": f16}),
    # In two parts: of unequal length, maxima that always move, warpgroups without rows, in turn or not.
    ((1, 2, 400, 64), {"block": 112, "causal": True, "ctas": 1, "lazy": 0.0}),
    ((1, 1, 260, 128), {"block": 80, "causal": True, "pingpong": True, "dtype": f16}),
    ((1, 2, 260, 64), {"block": 64, "pingpong": False, "staging": "q", "stages": 1}),
    # A window in which no row sees a key.
    ((1, 1, 128, 64), {"Sk": 152, "block": 32, "consumers": 2, "window": (-40, -30), "ctas": 1}),
    ((1, 1, 128, 64), {"Sk": 152, "block": 32, "consumers": 2, "window": (-40, -30), "parts": False}),
    # The other loop.
    ((1, 2, 200, 64), {"block": 48, "causal": True, "parts": False}),
    ((1, 1, 192, 128), {"block": 64, "causal": True, "ctas": 1, "parts": False, "pingpong": True}),
    ((2, 16, 9, 64), {"Sk": 60, "Hk": 1, "block": 32, "consumers": 2, "pack": True, "parts": False}),
    ((1, 1, 128, 128), {"dtype": e4m3, "block": 64, "ctas": 1, "parts": False}),
    ((1, 4, 100, 128), {"dtype": e4m3, "Hk": 2, "block": 96, "causal": True, "consumers": 1, "parts": False}),
    ((1, 2, 200, 128), {"dtype": e4m3, "block": 128, "causal": True, "order": "bhsd", "parts": False}),
    ((1, 1, 130, 256), {"dtype": e4m3, "block": 64, "lazy": 4.0, "polynomials": 4}),
    # In parts, of equal length or not, with Q in registers or not.
    ((1, 1, 128, 128), {"dtype": e4m3, "block": 64, "ctas": 1}),
    ((1, 4, 100, 128), {"dtype": e4m3, "Hk": 2, "block": 96, "causal": True, "consumers": 1}),
    ((1, 2, 200, 128), {"dtype": e4m3, "block": 160, "causal": True, "order": "bhsd", "pingpong": True}),
    ((1, 1, 300, 128), {"dtype": e4m3, "block": 64, "window": (70, 30), "resident": 0, "ctas": 1}),
    ((1, 8, 40, 128), {"dtype": e4m3, "Hk": 1, "block": 64, "pack": True, "consumers": 3}),
    ((1, 1, 130, 256), {"dtype": e4m3, "block": 64, "parts": True, "lazy": 0.0, "causal": True}),
    ((1, 1, 130, 256), {"dtype": e4m3, "block": 64, "parts": True, "resident": 8}),
    ((1, 2, 260, 64), {"block": 64, "resident": 4, "staging": "q", "dtype": f16}),
]


@pytest.mark.full
@pytest.mark.one_in(42)
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize(("shape", "options"), CASES, ids=str)
def test_every_option(shape: tuple[int, ...], options: dict[str, Any], schedule: str) -> None:
    assert not _wrong(shape, schedule, **options)


def _sequences(
    shape: tuple[int, ...], options: dict[str, Any], seed: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...], Kernel]:
    """Inputs, what is expected, and the kernel: ``shape`` is H and D; queries and keys are lists or numbers."""
    H, D = shape
    options = {"ctas": 2, **options}
    masks = {"causal": options.get("causal", False)}
    queries, keys, lengths = (options.pop(name, None) for name in ("queries", "keys", "counts"))
    given = {name: options[name] for name in ("Hk", "dtype") if name in options}
    if lengths is None:
        inputs = tools.ragged_inputs(H, D, queries, keys, seed=seed, **given)
        options |= {"ragged": (inputs[0].shape[1], inputs[1].shape[1])}
        sizes, expected = (len(queries), max(queries), max(keys)), tools.ragged_reference(*inputs, **masks)
    else:
        given |= {name: options[name] for name in ("page", "pages") if name in options}
        inputs = tools.cache_inputs(len(lengths), H, keys, D, Sq=queries, lengths=lengths, seed=seed, **given)
        options |= {"lengths": True}
        sizes, expected = (len(lengths), queries, keys), tools.cache_reference(*inputs, **masks)
    B, S, Sk = sizes
    return inputs, expected, attention.build_attention(B, H, S, D, Sk=Sk, **options)


SEQUENCES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 64), {"queries": [20, 70], "keys": [40, 9], "consumers": 1, "block": 32, "causal": True}),
    (
        (1, 64),
        {"queries": 20, "keys": 64, "counts": (64, 21), "page": 16, "pages": 9, "consumers": 1, "block": 32},
    ),
    ((2, 64), {"queries": [70, 5, 0, 130], "keys": [70, 90, 3, 100], "Hk": 1, "block": 32, "causal": True}),
    ((4, 128), {"queries": [20, 33], "keys": [40, 0], "Hk": 2, "block": 48, "pack": True}),
    ((1, 256), {"queries": [20, 133], "keys": [40, 90], "block": 48, "dtype": f16}),
    (
        (2, 128),
        {"queries": 150, "keys": 160, "counts": (160, 33), "Hk": 1, "page": 16, "pages": 30, "block": 48},
    ),
    (
        (2, 64),
        {
            "queries": 40,
            "keys": 128,
            "counts": (128, 70),
            "page": 64,
            "pages": 5,
            "block": 32,
            "causal": True,
        },
    ),
    ((1, 256), {"queries": 40, "keys": 100, "counts": (7, 100), "causal": True, "block": 48}),
]


@pytest.mark.full
@pytest.mark.one_in(16)
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize(("shape", "options"), SEQUENCES, ids=str)
def test_sequences_of_several_lengths(shape: tuple[int, ...], options: dict[str, Any], schedule: str) -> None:
    inputs, expected, kernel = _sequences(shape, options)
    report = kernel.simulate(*inputs, schedule=schedule, sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert tools.worst_error(report.outputs, expected) <= 1


@pytest.mark.full
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "options"), SEQUENCES[:2], ids=str)
def test_two_lengths(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    inputs, expected, kernel = _sequences(shape, options)
    report = kernel.simulate(*inputs, schedule="late", sanitize="strict")
    assert report.verdict == "clean" and report.holds == "every schedule", str(report)
    assert tools.worst_error(report.outputs, expected) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shape", "options"), CASES[:3], ids=str)
def test_random_schedules(shape: tuple[int, ...], options: dict[str, Any], seed: int) -> None:
    assert not _wrong(shape, "random", seed, **options)


@pytest.mark.full
@pytest.mark.parametrize(("polynomials", "degree"), [(4, 3), (16, 5)])
def test_polynomials(polynomials: int, degree: int) -> None:
    """Exponentials that are 2**-12.9 (2**-21) off add as much of ``sum |v|`` to the error."""
    shape = (1, 1, 130, 64)
    inputs = tools.make_inputs(*shape)
    kernel = attention.build_attention(*shape, consumers=2, block=64, polynomials=polynomials, degree=degree)
    report = kernel.simulate(*inputs, sanitize="strict")
    assert report.verdict == "clean", str(report)
    o, lse, bound, near = tools.reference(*inputs)
    more = 2 * {3: 2.0**-12.9, 5: 2.0**-21}[degree]
    # The bound of O has the sum of weight * |v| times 2**-8 in it.
    assert tools.worst_error(report.outputs, (o, lse, bound * (1 + more * 2**8), near + more)) <= 1


@pytest.mark.full
def test_the_error_of_8_bits() -> None:
    """e4m3 costs 2 to 3% of O, root mean square, beside the same inputs in bf16: P is rounded by up to 2**-4."""
    shape = (1, 1, 256, 128)
    inputs = tools.make_inputs(*shape, dtype=e4m3)
    exact = tools.reference(*inputs)[0]
    q, k, v, factors = inputs
    wide = [x.astype(np.float32) * factors[:, None, :, i, None] for i, x in enumerate((q, k, v))]
    found = []
    for dtype, given in ((e4m3, inputs), (bf16, [x.astype(bf16.dtype) for x in wide])):
        report = attention.build_attention(*shape, dtype=dtype, block=128).simulate(*given)
        found.append(np.sqrt(np.mean((report.outputs[0].astype(np.float64) - exact) ** 2)))
    scale = np.sqrt(np.mean(exact**2))
    assert found[1] <= 0.005 * scale < found[0] <= 0.03 * scale


def test_special_values() -> None:
    """NaN and infinity in one row's scores make that row NaN, and no other."""
    shape = (1, 1, 64, 64)
    q, k, v = tools.make_inputs(*shape)
    q[0, 3, 0, 5] = np.nan
    q[0, 7] = 1e38
    q[0, 9] = 0
    q[0, 11] = 2.0**-133
    inputs = (q, abs(k), v)
    expected = tools.reference(*inputs)
    kernel = attention.build_attention(*shape, consumers=1, block=64)
    o, lse = (np.asarray(x).astype(np.float64) for x in kernel.simulate(*inputs).outputs)
    assert np.isnan(o[0, [3, 7]]).all() and np.isnan(lse[0, 0, [3, 7]]).all()
    rest = np.delete(np.arange(64), [3, 7])
    assert np.all(abs(o[0, rest] - expected[0][0, rest]) <= expected[2][0, rest])
    assert np.all(abs(lse[0, 0, rest] - expected[1][0, 0, rest]) <= expected[3][0, 0, rest])


def test_a_zero_output_is_wrong() -> None:
    inputs = tools.make_inputs(1, 1, 64, 64)
    o, lse, *bounds = tools.reference(*inputs)
    assert tools.worst_error((np.zeros_like(o), lse), (o, lse, *bounds)) > 50
    assert tools.worst_error((o, np.zeros_like(lse)), (o, lse, *bounds)) > 50


# --- planted bugs ---------------------------------------------------------------------------------


def _one_more(pending: int) -> None:
    ptx.inst.wgmma.wait_group.sync.aligned(pending + 1)


RING = kit.Ring


def _one_fewer(stages: int, *, consumers: int = 1, **options: Any) -> kit.Ring:
    return RING(stages, consumers=consumers - 1, **options)


#: What stands in the place of a function of the DSL while the kernel is recorded, and the finding that names it.
PLANTED: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "waits for one group too few": ("ptx.wgmma.wait_group", _one_more, {}),
    "no fence before products": ("ptx.wgmma.fence", lambda: None, {}),
    "no proxy fence before a store by TMA": ("ptx.fence.proxy_async", lambda space: None, {}),
    "a stage is freed by one warp too few": ("kit.Ring", _one_fewer, {}),
    "no barrier before O overwrites Q": (
        "ptx.bar.sync",
        lambda *_: None,
        {"staging": "q", "pingpong": False},
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, planted, options = PLANTED[name]
    owner: Any = attention
    *path, attribute = place.split(".")
    for step in path:
        owner = getattr(owner, step)
    inputs = tools.make_inputs(1, 1, 130, 64)
    kernel = attention.build_attention(1, 1, 130, 64, consumers=2, block=32, ctas=1, **options)
    assert kernel.simulate(*inputs, schedule="late", sanitize="strict").verdict == "clean"
    again = attention.build_attention(1, 1, 130, 64, consumers=2, block=32, ctas=1, **options)
    monkeypatch.setattr(owner, attribute, planted)
    assert again.simulate(*inputs, schedule="late", sanitize="strict").verdict == "error"


# --- what is assembled ----------------------------------------------------------------------------

#: What will be timed: head dim and options.
TIMED: list[tuple[int, dict[str, Any]]] = [
    (128, {"causal": True}),
    (128, {}),
    (64, {"causal": True}),
    (64, {"block": 192, "consumers": 2}),
    (256, {"causal": True}),
    (256, {}),
    (128, {"causal": True, "lazy": 8.0, "polynomials": 4, "pin": True}),
    (128, {"causal": True, "overlap": False}),
    (128, {"causal": True, "block": 160}),
    (128, {"parts": False, "block": 160, "pingpong": True}),
    (64, {"causal": True, "parts": False, "pin": True}),
    (64, {"polynomials": 8, "lazy": 8.0, "dtype": f16}),
    (128, {"window": (1024, 0)}),
    (128, {"causal": True, "Hk": 4, "pack": True}),
    (128, {"causal": True, "ragged": (9000, 9000)}),
    (64, {"causal": True, "ragged": (9000, 9000), "Hk": 4, "pack": True}),
    (128, {"causal": True, "lengths": True, "page": 64, "pages": 1000}),
    (256, {"causal": True, "lengths": True}),
    (256, {"resident": 8}),
    (256, {"block": 80, "causal": True}),
    (128, {"resident": 8}),
    (128, {"dtype": e4m3}),
    (128, {"dtype": e4m3, "causal": True}),
    (128, {"dtype": e4m3, "resident": 0}),
    (128, {"dtype": e4m3, "causal": True, "polynomials": 4, "lazy": 4.0}),
    (256, {"dtype": e4m3, "parts": False, "block": 96}),
    (256, {"dtype": e4m3}),
    (256, {"dtype": e4m3, "causal": True}),
]


@pytest.mark.one_in(24)
@pytest.mark.full
@pytest.mark.parametrize(("D", "options"), TIMED, ids=str)
def test_assembles_as_it_was_meant(D: int, options: dict[str, Any], ptxas: Tool) -> None:
    """No spills; notes would say that setmaxnreg was dropped or wgmma serialized (C7510 and others)."""
    kernel = attention.build_attention(4, 16, 4096, D, **options)
    assembly = kernel.assemble()
    assert not assembly.spills and not assembly.warnings and not assembly.notes


@pytest.mark.full
def test_the_main_loop_is_lean(ptxas: Tool, nvdisasm: Tool) -> None:
    """For each element one FFMA, one MUFU, one FMNMX and one FADD; half an F2FP; one FMUL for O."""
    kernel = attention.build_attention(4, 16, 4096, 128, causal=True, parts=False)
    lines = kernel.sass().splitlines()
    turns = [number for number, line in enumerate(lines) if "WARPGROUP.DEPBAR.LE gsb0, 0x1" in line]
    # From the wait for the scores in the loop without masks, the last one, to its branch back.
    ends = [n for n in range(turns[-1], len(lines)) if " BRA " in lines[n]]
    loop = "\n".join(lines[turns[-1] : ends[0]])
    elements = 64
    for name, most in {"FFMA": 2, "MUFU.EX2": 2, "FMNMX": 4, "FADD": 4, "FMUL": 4}.items():
        assert elements <= loop.count(f" {name}") <= elements + most, name
    assert loop.count(" F2FP") == elements // 2
    assert loop.count(" MOV ") + loop.count("IMAD.MOV") <= 4


@pytest.mark.full
@pytest.mark.parametrize("D", [64, 128])
def test_the_loop_in_parts_is_lean(D: int, ptxas: Tool, nvdisasm: Tool) -> None:
    """Between the products of one part and the vote of the other: no maximum, and no wait but at the end."""
    lines = attention.build_attention(4, 16, 4096, D).sass().splitlines()
    products = [n for n, line in enumerate(lines) if "HGMMA" in line and "gsb0" in line]
    votes = [n for n, line in enumerate(lines) if "VOTE.ANY" in line]
    found = 0
    for start in products:
        vote = next((n for n in votes if n > start), None)
        between = "\n".join(lines[start + 1 : vote])
        elements = between.count(" MUFU.EX2")
        if vote is None or "HGMMA" in between or elements != 32:
            continue
        found += 1
        assert " FMNMX" not in between
        assert elements <= between.count(" FFMA") <= elements + 2
        assert elements - 2 <= between.count(" FADD") <= elements + 2
        assert between.count(" F2FP") == elements // 2
        # The wait for the products stands behind the exponentials.
        wait = between.index("WARPGROUP.DEPBAR.LE gsb0, 0x0")
        assert between.rindex(" MUFU.EX2") < wait
    assert found >= 2


def test_text_does_not_grow_with_the_problem() -> None:
    lengths = {
        attention.build_attention(2, 4, S, 128, causal=True).ptx().count("\n") for S in (256, 4096, 65536)
    }
    assert len(lengths) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((1, 1, 64, 96), {}, "D = 96"),
        ((1, 4, 64, 64), {"Hk": 3}, "Hk a divisor of H"),
        ((1, 1, 64, 64), {"block": 40}, "block = 40"),
        ((1, 1, 64, 64), {"consumers": 4}, "consumers = 4"),
        ((1, 1, 64, 64), {"block": 16, "parts": True}, "parts with block = 16"),
        ((1, 1, 64, 128), {"dtype": e4m3, "block": 32, "parts": True}, "more than 32 keys"),
        ((1, 1, 64, 128), {"dtype": e4m3, "parts": False, "resident": 4}, "resident = 4 in e4m3"),
        ((1, 1, 64, 64), {"parts": True, "polynomials": 4}, "parts with polynomials"),
        ((1, 1, 64, 64), {"parts": True, "overlap": False}, "without overlap"),
        ((1, 1, 64, 64), {"consumers": 1, "pingpong": True}, "no other to take turns"),
        ((1, 3, 64, 64), {"Hk": 1, "pack": True}, "expected 1, 2, 4, 8 or 16"),
        ((1, 1, 64, 64), {"staging": "v"}, "staging is 'v'"),
        ((1, 4, 64, 64), {"section": 3}, "section = 3"),
        ((1, 1, 64, 256), {"block": 96}, "262144 bytes of tiles"),
        ((1, 1, 64, 64), {"resident": 5}, "resident = 5"),
        ((1, 1, 64, 128), {"dtype": e4m3, "resident": 1}, "in e4m3 all or none"),
        ((1, 1, 64, 64), {"dtype": f32}, "expected bf16, f16 or e4m3"),
        ((1, 1, 64, 64), {"dtype": e4m3}, "D = 64"),
        ((1, 1, 64, 128), {"dtype": e4m3, "block": 48}, "block = 48"),
        ((1, 1, 64, 128), {"dtype": e4m3, "staging": "q"}, "in e4m3 'own'"),
        ((1, 1, 64, 128), {"dtype": e4m3, "lazy": 9.0}, "lazy = 9.0"),
        ((1, 1, 64, 128), {"dtype": e4m3, "ragged": (64, 64)}, "e4m3 with sequences of several lengths"),
    ],
)
def test_what_is_refused(arguments: tuple[int, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(PyptxError, match=words):
        attention.build_attention(*arguments, **options)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "options"), [*SMALL, *CASES], ids=str)
def test_small_shapes_on_the_gpu(shape: tuple[int, ...], options: dict[str, Any], torch: Any) -> None:
    of_inputs = {name: options[name] for name in ("Sk", "Hk", "dtype", "order") if name in options}
    given = tools.make_inputs(*shape, **of_inputs)
    kinds = {f16: torch.float16, e4m3: torch.float8_e4m3fn}
    kind = kinds.get(options.get("dtype"), torch.bfloat16)
    bits = np.uint8 if kind is torch.float8_e4m3fn else np.uint16
    there = [torch.from_numpy(x.view(bits)).view(kind).cuda() for x in given[:3]]
    there += [torch.from_numpy(x).cuda() for x in given[3:]]
    o, lse = attention.build_attention(*shape, **options)(*there)
    expected = tools.reference(*given, **{name: options[name] for name in MASKS if name in options})
    assert tools.worst_error((o.float().cpu().numpy(), lse.cpu().numpy()), expected) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "options"), SEQUENCES, ids=str)
def test_sequences_on_the_gpu(shape: tuple[int, ...], options: dict[str, Any], torch: Any) -> None:
    inputs, expected, kernel = _sequences(shape, options)
    kind = torch.float16 if options.get("dtype") is f16 else torch.bfloat16
    there = [torch.from_numpy(x.view(np.uint16)).view(kind).cuda() for x in inputs[:3]]
    there += [torch.from_numpy(x).cuda() for x in inputs[3:]]
    o, lse = kernel(*there)
    assert tools.worst_error((o.float().cpu().numpy(), lse.cpu().numpy()), expected) <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128, 256])
@pytest.mark.parametrize("S", [2048, 4096, 8192])
def test_timed_sizes_on_the_gpu(S: int, D: int, causal: bool, torch: Any) -> None:
    q, k, v = (torch.randn(4, S, 16, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    kernel = attention.build_attention(4, 16, S, D, causal=causal, dtype=bf16)
    o, lse = kernel(q, k, v)
    parts = (x.transpose(1, 2).float() for x in (q[:1], k[:1], v[:1]))
    exact = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal).transpose(1, 2)
    assert bool(((o[:1].float() - exact).abs() <= 2.0**-7 + 2.0**-6 * exact.abs()).all())
    for _ in range(10):
        again, sums = kernel(q, k, v)
        assert torch.equal(again, o) and torch.equal(sums, lse)
