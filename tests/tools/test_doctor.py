"""``pyptx doctor``: what it finds and what it concludes, with and without ptxas, a driver and a GPU."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pyptx.core.errors import LaunchError
from pyptx.runtime import driver
from pyptx.runtime.quick import PURE, native
from pyptx.toolchain import Tool
from pyptx.tools import doctor
from pyptx.tools.cli import COMMANDS, cli
from pyptx.tools.show import show_sections


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise LaunchError("no CUDA driver on this machine")

    monkeypatch.setattr(driver, "device_count", refuse)


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    info = driver.DeviceInfo(0, "Test GPU", (10, 0), 148, 232448, (13, 0))
    monkeypatch.setattr(driver, "device_count", lambda: 1)
    monkeypatch.setattr(driver, "device_info", lambda index: info)


def with_torch(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    known = doctor._package
    monkeypatch.setattr(doctor, "_package", lambda name: version if name == "torch" else known(name))


def test_json(ptxas: Tool, no_driver: None) -> None:
    report = json.loads(run("doctor", "--json").stdout)
    assert report["ptxas"] == {
        "path": str(ptxas.path),
        "version": ptxas.version_text,
        "found": ptxas.found,
        "targets": ["sm_90a", "sm_100a"],
    }
    assert report["driver"] == {"error": "no CUDA driver on this machine"}
    assert report["launch_path"] == ("python" if native() is None else "compiled")
    assert report["packages"]["numpy"] == np.__version__ and "pyptx" in report["packages"]
    assert {what: answer["ok"] for what, answer in report["works"].items()} == {
        "emit": True,
        "assemble": True,
        "simulate": True,
        "launch": False,
    }


def test_without_ptxas(monkeypatch: pytest.MonkeyPatch, no_driver: None) -> None:
    monkeypatch.setenv("PYPTX_PTXAS", "/nowhere/ptxas")
    report = doctor.examine()
    assert "/nowhere/ptxas" in report["ptxas"]["error"]
    assert report["works"]["assemble"]["ok"] is False
    printed = run("doctor").stdout
    assert "assemble" in printed and "no: PYPTX_PTXAS names '/nowhere/ptxas'" in printed


def test_with_a_gpu(monkeypatch: pytest.MonkeyPatch, one_gpu: None) -> None:
    with_torch(monkeypatch, "2.13.0")
    report = doctor.examine()
    assert report["driver"]["gpus"] == [
        {
            "name": "Test GPU",
            "target": "sm_100a",
            "multiprocessors": 148,
            "shared_memory": 232448,
            "driver_cuda": "13.0",
        }
    ]
    assert report["works"]["launch"] == {"ok": True, "why": "kernels for sm_100a"}
    assert "Test GPU, sm_100a, 148 SMs, CUDA 13.0 driver" in run("doctor").stdout


def test_a_gpu_without_torch(monkeypatch: pytest.MonkeyPatch, one_gpu: None) -> None:
    with_torch(monkeypatch, None)
    assert "no torch" in doctor.examine()["works"]["launch"]["why"]


def test_a_driver_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: 0)
    assert doctor.examine()["works"]["launch"] == {"ok": False, "why": "the driver reports no GPU"}


def test_plain_text_in_a_pipe(no_driver: None) -> None:
    printed = run("doctor").stdout
    assert printed.isascii() and "\x1b" not in printed
    for heading in ("What works here", "Machine", "Packages", "Tools"):
        assert heading in printed.splitlines()


def test_rich_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal)
    show_sections([("Heading", [("label", "yes: it works"), ("other", "[not markup]")])])
    printed = terminal.getvalue()
    assert "\x1b[" in printed and "yes: it works" in printed and "[not markup]" in printed


def test_help_lists_every_command() -> None:
    printed = run("--help").stdout
    assert all(name in printed for name in COMMANDS)


def test_unknown_command() -> None:
    result = CliRunner().invoke(cli, ["docter"])
    assert result.exit_code == 2 and "No such command 'docter'" in result.output


def test_a_command_is_loaded_when_it_is_called() -> None:
    probe = "import sys, pyptx.tools.cli; print('pyptx.tools.doctor' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_path_of_launches(monkeypatch: pytest.MonkeyPatch, no_driver: None) -> None:
    monkeypatch.setenv(PURE, "1")
    assert "Python (slower: no C compiler" in run("doctor").stdout
