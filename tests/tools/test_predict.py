"""``pyptx predict`` and ``pyptx compare``: figures, JSON, ranking, exit statuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pyptx.tools.cli import cli
from tests.examples.loading import EXAMPLES

TILES = str(EXAMPLES / "blackwell/gemm_tiles.py")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_figures_of_a_prediction() -> None:
    target = f"{TILES}:build_gemm_tiles", "256", "256", "1024", "--clock", "1300"
    shown = run("predict", *target)
    assert shown.exit_code == 0 and "1300 MHz" in shown.stdout and "bound by" in shown.stdout
    figures = json.loads(run("predict", *target, "--json").stdout)
    assert figures["mhz"] == 1300 and figures["verdict"] == "clean"
    assert figures["low"] < figures["microseconds"] < figures["high"]
    assert figures["microseconds"] * 1300 == figures["cycles"]


def test_kernels_are_ranked() -> None:
    slow, fast = (f"{TILES}:build_gemm_tiles,256,256,{k}" for k in (8192, 1024))
    shown = run("compare", slow, fast, "--clock", "1300").stdout.splitlines()
    assert [line[:2] for line in shown] == ["1.", "2."]
    assert shown[0].endswith(fast) and shown[1].endswith(slow)
    assert "not distinguishable" not in shown[1]
    twice = run("compare", fast, fast, "--clock", "1300").stdout.splitlines()
    assert "not distinguishable from the one before" in twice[1]


@pytest.mark.full
def test_no_prediction() -> None:
    target = f"{EXAMPLES / 'hopper/attention.py'}:build_attention", "1", "1", "512", "128"
    shown = run("predict", *target, "--gpu", "h200", "--clock", "1700", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["verdict"] == "incomplete"


def test_wrong_clocks_and_gpus() -> None:
    target = f"{TILES}:build_gemm_tiles", "256", "256", "256"
    assert run("predict", *target, "--clock", "fast").exit_code == 2
    assert isinstance(run("predict", *target, "--gpu", "h200").exception, Exception)
