"""The package's loggers: silent unless the application or ``PYPTX_LOG`` asks for them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx import SpecError, Tile, kernel, ptx, u32
from pyptx.core import logs

ROOT = Path(__file__).parents[2]


def test_recordings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    @kernel(out_specs=(Tile("N", u32),), block=1, arch="sm_90a")
    def logged(out):  # type: ignore[no-untyped-def]
        ptx.inst.st.global_.u32(ptx.addr(out.ptr), 1)

    with caplog.at_level(logging.DEBUG, "pyptx"):
        logged.module(N=4)
        logged.module(N=4)
        logged.module(N=8)
    said = [(each.name, each.levelname, each.getMessage()) for each in caplog.records]
    assert [each[:2] for each in said] == [("pyptx.recording", "INFO"), ("pyptx.recording", "DEBUG")]
    assert said[0][2].startswith("recorded logged for {'N': 4} in ") and said[0][2].endswith(" ms")
    assert said[1][2] == "a recording of logged serves {'N': 8} too"


def test_a_level_that_there_is_not() -> None:
    with pytest.raises(SpecError, match="PYPTX_LOG is 'loud': expected debug, info, warning, error"):
        logs._configure("loud")


@pytest.mark.full
def test_the_environment_prints_the_log(tmp_path: Path) -> None:
    text = (
        "from pyptx import kernel, ptx\n"
        "@kernel(block=1, arch='sm_90a')\n"
        "def empty():\n    ptx.ret()\n"
        "empty.module(); empty.module()\n"
    )
    file = tmp_path / "program.py"
    file.write_text(text)
    said = {}
    for level in ("", "info"):
        environment = {**os.environ, logs.LOG: level, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said[level] = done.stderr
    assert said[""] == "" and said["info"].count("pyptx.recording: recorded empty for {} in ") == 1
