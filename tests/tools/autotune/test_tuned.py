"""What ``pyptx.autotune`` decorates and refuses, and when it tunes."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import SpecError, Tile, f32, kernel, ptx, reg
from pyptx.tools.autotune.tuned import TunedKernel
from tests.tools.autotune.conftest import Gpu
from tests.tools.autotune.fakes import build_double

X = np.arange(1024, dtype=np.float32)


def _line(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(n for n, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("names", "rows", "said"),
    [
        ("a, a", [[1, 2]], "has 'a' twice"),
        ("a, 2b", [[1, 2]], "'2b' in 'a, 2b' is not a name"),
        ("a, b", [[1, 2], [3]], r"row 1 has 1 values, \[3\], for 2 names: a, b"),
        ("a, b", [1], "row 0 is 1: expected 2 values"),
        ("a", [], "'a' has no rows"),
        ("a", "12", "the rows of 'a' are '12'"),
        ("a, b", [[1, 2], [3, 4], [1, 2]], "row 2 of 'a, b' repeats row 0: 1, 2"),
        (7, [1], "the names are 7"),
    ],
)
def test_names_and_rows_that_are_refused(names: Any, rows: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        pyptx.autotune(names, rows)
    assert caught.value.location is not None
    assert caught.value.location.line == _line(
        test_names_and_rows_that_are_refused, "pyptx.autotune(names, rows)"
    )


def test_values_that_are_equal_and_of_different_types_are_different_rows() -> None:
    pyptx.autotune("a", [1, True, 1.0])


def test_unknown_names_and_names_used_twice() -> None:
    with pytest.raises(SpecError, match="build_double has no parameter 'blok'; it has: N, block"):
        pyptx.autotune("blok", [64])(build_double)
    once = pyptx.autotune("block", [64])(build_double)
    with pytest.raises(SpecError, match="two decorators of build_double vary 'block'"):
        pyptx.autotune("block, per", [[64, 1]])(once)
    with pytest.raises(SpecError, match="two decorators give deadline=") as caught:
        pyptx.autotune("block", [64], deadline=1.0)(pyptx.autotune("per", [1], deadline=2.0)(build_double))
    assert caught.value.location is not None and caught.value.location.file == __file__
    with pytest.raises(SpecError, match="decorates a function, a class or a kernel, not 3"):
        pyptx.autotune("block", [64])(3)
    with pytest.raises(SpecError, match="deadline is 0"):
        pyptx.autotune("block", [64], deadline=0)
    with pytest.raises(SpecError, match="needs check="):
        pyptx.autotune("block", [64], reference=lambda a: a)


def test_stacked_decorators_multiply(gpu: Gpu) -> None:
    build = pyptx.autotune("block", [32, 64])(pyptx.autotune("per", [1, 2, 4])(build_double))
    gpu.us = lambda candidate, _: 5.0 if candidate.configuration == {"block": 64, "per": 2} else 9.0
    found = build(1024).tune(X, gpu=0)
    assert found.configuration == {"block": 64, "per": 2} and found.measured
    assert [row["configuration"] for row in found.rows()] == [
        f"block={block}, per={per}" for block in (32, 64) for per in (1, 2, 4)
    ]


def test_a_builder_tunes_at_the_first_call(gpu: Gpu) -> None:
    built: list[int] = []

    def build(N: int, *, block: int) -> Any:
        built.append(block)
        return build_double(N, block=block)

    tuned = pyptx.autotune("block", [32, 64, 128])(build)
    double = tuned(1024)
    assert isinstance(double, TunedKernel) and built == [] and double.tunings == []
    gpu.us = lambda candidate, _: {32: 9.0, 64: 4.0, 128: 9.0}[candidate.configuration["block"]]
    double.tune(X, gpu=0)
    assert built == [32, 64, 128] and len(gpu.places) == 1
    assert double.tunings[0].kernel(X).tolist() == (2 * X).tolist()
    double.tune(X, gpu=0)
    assert built == [32, 64, 128] and len(double.tunings) == 1
    assert tuned(1024) is double and tuned(2048) is not double
    assert tuned.what is build


def test_equal_kernels_are_measured_once(gpu: Gpu) -> None:
    """The boxes of tensor maps are no part of the text, but of what is measured."""

    def build(*, rows: int, unused: int) -> Any:
        tile = Tile(64, 64, f32, pyptx.Layout.TMA_128B, tma_box=(rows, 32))

        @kernel(in_specs=(tile,), out_specs=(Tile(64, 64, f32),), block=32, arch="sm_90a")
        def touch(A: Any, B: Any) -> None:
            A.tma_desc()
            ptx.ret()

        return touch

    rows = [[8, 0], [8, 1], [16, 0]]
    found = pyptx.autotune("rows, unused", rows)(build)().tune(X.repeat(4).reshape(64, 64), gpu=0)
    assert [row["state"] for row in found.rows()] == ["best", "same", "slower"]
    assert found.rows()[1]["reason"] == "the same kernel as rows=8, unused=0"
    assert list(found.stages) == [
        "recording",
        "waiting",
        "ptxas",
        "loading",
        "timing",
    ] and "(recording " in str(found)


def test_kernels_that_differ_in_their_launch_alone(gpu: Gpu) -> None:
    def build(*, carveout: int | None) -> Any:
        made = build_double(1024, block=32)
        return pyptx.Kernel(made.function, replace(made.options, carveout=carveout))

    found = pyptx.autotune("carveout", [None, 50, 100])(build)().tune(X, gpu=0)
    assert [row["state"] for row in found.rows()] == ["best", "slower", "slower"]


def test_arguments_of_a_builder(gpu: Gpu) -> None:
    tuned = pyptx.autotune("block", [32, 64])(build_double)
    with pytest.raises(SpecError, match="'block' is tuned: leave it out of the call"):
        tuned(1024, block=32)
    with pytest.raises(TypeError, match="missing a required argument: 'N'"):
        tuned()
    with pytest.raises(SpecError, match="'block' is tuned"):
        tuned(1024).tune(X, gpu=0, block=32)
    with pytest.raises(TypeError, match="build returned str: expected a kernel"):
        pyptx.autotune("a", [1])(_returns_text)().tune(X, gpu=0)


def _returns_text(a: int) -> Any:
    return f"{a}"


_returns_text.__name__ = "build"


def test_a_class(gpu: Gpu) -> None:
    @pyptx.autotune("block, per", [[32, 1], [64, 2]])
    class Double:
        def __init__(self, block: int, per: int, wrong: bool = False) -> None:
            self.block, self.per, self.wrong = block, per, wrong

        def __call__(self, N: int) -> Any:
            return build_double(N, block=self.block, per=self.per, wrong=self.wrong)

    gpu.us = lambda candidate, _: 9.0 - candidate.number
    triple = Double(wrong=True)
    found = triple(1024).tune(X, gpu=0)
    assert found.configuration == {"block": 64, "per": 2}
    assert found.kernel(X).tolist() == (3 * X).tolist()
    assert triple(1024).tunings == [found] and triple(2048).tunings == []
    with pytest.raises(SpecError, match="'per' is tuned"):
        Double(per=1)


@kernel(
    in_specs=(Tile("N", f32),),
    out_specs=(Tile("N", f32),),
    grid=lambda N, block: N // block,
    block=lambda block: block,
    arch="sm_90a",
)
def doubled(A: Any, B: Any, *, block: int, factor: int = 2, late: bool = False) -> None:
    if late:
        assert A.shape[0] > 0  # the recording depends on the size
    start = ptx.special.ctaid.x() * block + ptx.special.tid.x()
    a = reg.scalar(f32)
    ptx.inst.ld.global_.f32(a, A.at(start))
    total = a
    for _ in range(factor - 1):
        total = total + a
    ptx.inst.st.global_.f32(B.at(start), total)
    ptx.ret()


def test_a_kernel_and_run_time_sizes(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that no recording reads tunes, records and loads nothing; a constant tunes again."""
    tuned = pyptx.autotune("block", [32, 64])(doubled)
    first = tuned.tune(X, gpu=0)
    recorded: list[Any] = []
    monkeypatch.setattr("pyptx.entry.specializations.record_for", lambda *given: recorded.append(given))
    assert tuned.tune(np.ones(4096, np.float32), gpu=0) is first
    assert first.kernel.specialize_for(np.ones(4096, np.float32), **first.constants).launch.grid[0] == 128
    assert recorded == [] and len(gpu.places) == 1
    monkeypatch.undo()
    assert tuned.name == "doubled" and tuned.__name__ == "doubled"


def test_a_compile_time_size_and_a_constant_tune_again(gpu: Gpu) -> None:
    tuned = pyptx.autotune("block", [32, 64])(doubled)
    small, large = (tuned.tune(np.ones(n, np.float32), gpu=0, late=True) for n in (64, 128))
    assert small is not large and len(gpu.places) == 2
    assert tuned.tune(np.ones(64, np.float32), gpu=0, late=True) is small
    assert tuned.tune(X, gpu=0, factor=3) is not tuned.tune(X, gpu=0, factor=2)
    assert tuned.tune(X, gpu=0, factor=2) is not tuned.tune(X, gpu=1, factor=2)
    assert len(tuned.tunings) == 5


def test_a_launch_that_is_ready_needs_no_choice(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there are several choices, or a candidate that lost depends on a size that the best does not."""

    def called(tuned: Any, **keywords: Any) -> list[Any]:
        asked: list[Any] = []
        with monkeypatch.context() as patch:
            patch.setattr(pyptx.Kernel, "ready", lambda self, *given: asked.append(given) or "launched")
            tuned(X, **keywords)
        return asked

    tuned = pyptx.autotune("block", [32, 64])(doubled)
    tuned.tune(X, gpu=0)
    ((arrays, out, stream, keywords),) = called(tuned)
    assert arrays == (X,) and (out, stream, keywords) == (None, None, {"block": 32})
    assert called(tuned, factor=2)[0][3] == {"block": 32, "factor": 2}
    with pytest.raises(SpecError, match="'block' is tuned"):
        called(tuned, block=64)
    tuned.tune(X, gpu=0, factor=3)
    assert tuned._only is None
    gpu.us = lambda candidate, _: 9.0 if candidate.configuration["late"] else 1.0
    mixed = pyptx.autotune("block, late", [[32, False], [32, True]])(doubled)
    assert mixed.tune(X, gpu=0).configuration["late"] is False and mixed._only is None


def test_names_of_a_kernel() -> None:
    with pytest.raises(SpecError, match="the kernel doubled has no parameter 'N'; it has: block, factor"):
        pyptx.autotune("N", [32])(doubled)
    both = pyptx.autotune("factor", [1, 2])(pyptx.autotune("block", [32])(doubled))
    assert repr(both) == "<tuned kernel doubled, 2 configurations, tuned 0 times>"


def test_without_a_gpu_it_ranks_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyptx.tools.autotune import tuning

    monkeypatch.setattr(tuning, "_warned", set())
    monkeypatch.setattr(tuning, "assemble_all", lambda candidates, step: False)
    double = pyptx.autotune("block", [2048, 32, 64], budget=0)(build_double)(1024)
    with pytest.warns(pyptx.PyptxWarning, match="has not measured build_double.*block=32.*no ptxas") as seen:
        assert double(X).tolist() == (2 * X).tolist()
    assert seen[0].filename == __file__ and len(seen) == 1
    (found,) = double.tunings
    assert not found.measured and not found.predicted and found.where == "sm_90a"
    assert [row["state"] for row in found.rows()] == ["refused", "best", "slower"]
    assert "block 2048 is too large" in str(found)
    double.tune(X[:512].repeat(2))
    assert len(double.tunings) == 1


def test_no_configuration_is_left(gpu: Gpu) -> None:
    with pytest.raises(ValueError, match="block 2048 is too large"):
        pyptx.autotune("block", [2048, 4096])(build_double)(8192).tune(np.ones(8192, np.float32), gpu=0)
    from pyptx.tools.autotune.candidates import State

    gpu.us = lambda candidate, _: State.HUNG
    with pytest.raises(SpecError, match="no configuration of build_double can be used") as caught:
        pyptx.autotune("block", [32, 64])(build_double)(1024).tune(X, gpu=0)
    assert "block=64: hung: said to be hung" in caught.value.message
