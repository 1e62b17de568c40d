"""A bar on a terminal, and messages of the logger elsewhere."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest

import pyptx
from pyptx.tools.autotune.candidates import State
from tests.tools.autotune.conftest import Gpu
from tests.tools.autotune.fakes import build_double

X = np.arange(1024, dtype=np.float32)


def _tune(gpu: Gpu) -> None:
    gpu.us = lambda candidate, _: State.HUNG if candidate.number == 0 else 5.0
    pyptx.autotune("block", [32, 64])(build_double)(1024).tune(X, gpu=0)


def test_messages(gpu: Gpu, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.INFO, "pyptx.autotune"):
        _tune(gpu)
    said = [record.getMessage() for record in caplog.records if record.name == "pyptx.autotune"]
    assert said[0] == "build_double: recording, 2 candidates"
    assert "build_double: loading, 2 candidates" in said
    assert "build_double: block=32: hung: said to be hung" in said
    assert capsys.readouterr() == ("", "")


def test_a_bar(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    _tune(gpu)
    said = capsys.readouterr()
    assert "block=32: hung: said to be hung" in said.err and said.out == ""
