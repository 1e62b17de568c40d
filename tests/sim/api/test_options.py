"""The options of a run are defined once: their names, types and defaults agree wherever a caller gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from pyptx import Kernel, sim
from pyptx.sim.api.options import LaunchOptions, RunKeywords

OPTIONS = {option.name: option for option in fields(LaunchOptions)}
EMPTY = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f() { ret; }"


def test_the_keywords_for_type_checkers_are_the_options() -> None:
    declared = {name: kind.__forward_arg__ for name, kind in RunKeywords.__annotations__.items()}
    assert declared == {name: option.type for name, option in OPTIONS.items()}


@pytest.mark.parametrize("method", [sim.LoadedModule.launch, sim.Stream.run])
def test_signatures_show_every_option(method: Callable[..., Any]) -> None:
    shown = inspect.signature(method).parameters
    assert {name: shown[name].default for name in OPTIONS} == {n: o.default for n, o in OPTIONS.items()}
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in shown.values())


def test_a_kernels_options_have_the_same_defaults() -> None:
    shown = inspect.signature(Kernel.simulate).parameters
    common = shown.keys() & OPTIONS.keys()
    assert common == OPTIONS.keys() - {"memory", "progress"}
    assert {name: shown[name].default for name in common} == {name: OPTIONS[name].default for name in common}


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    module, stream = sim.load(EMPTY), sim.Stream()
    with pytest.raises(TypeError, match=r"unknown option 'shedule': .*; did you mean schedule\?"):
        module.launch(grid=1, block=1, shedule="late")  # type: ignore[call-arg]
    stream.launch(module, grid=1, block=1)
    with pytest.raises(TypeError, match=r"unknown option 'max_step': .*; did you mean max_steps\?"):
        stream.run(max_step=1)  # type: ignore[call-arg]
    (report,) = stream.run(schedule="late")
    assert report.verdict == "clean" and report.schedule == "late"
