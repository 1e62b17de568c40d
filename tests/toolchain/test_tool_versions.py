"""Versions of tools on disk: a program runs once for all processes, and again when its file changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pyptx.toolchain import cache, find, find_ptxas
from pyptx.toolchain.tool_versions import known_version, remember_version

CHANGED = (123, 456)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_version_is_known_until_the_file_changes(folder: Path) -> None:
    program = folder.parent
    assert known_version(program, CHANGED) is None
    remember_version(program, CHANGED, (13, 0, 88))
    assert known_version(program, CHANGED) == (13, 0, 88)
    assert known_version(program, (123, 457)) is None and known_version(folder, CHANGED) is None
    assert os.listdir(folder) == ["tools.json"]


def test_programs_that_are_gone_are_forgotten(folder: Path) -> None:
    remember_version(Path("/nowhere/ptxas"), CHANGED, (1,))
    remember_version(folder.parent, CHANGED, (2,))
    assert list(json.loads((folder / "tools.json").read_text())) == [str(folder.parent)]


@pytest.mark.parametrize("text", ["{", "[]", '{"%s": 3}', '{"%s": {"changed": [123, 456], "version": []}}'])
def test_a_damaged_file_is_as_good_as_none(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "tools.json").write_text(text.replace("%s", str(folder.parent)))
    assert known_version(folder.parent, CHANGED) is None
    remember_version(folder.parent, CHANGED, (2,))
    assert known_version(folder.parent, CHANGED) == (2,)


def test_without_a_disk_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv(cache.FOLDER, str(Path(__file__) / "cache"))
    remember_version(folder.parent, CHANGED, (2,))
    monkeypatch.setenv(cache.SWITCH, "0")
    remember_version(folder.parent, CHANGED, (2,))
    assert known_version(folder.parent, CHANGED) is None


def test_one_process_runs_the_program_for_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "ptxas"
    program.write_text(
        '#!/bin/sh\necho run >> "$0.log"\necho "Cuda compilation tools, release 13.0, V13.0.88"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PYPTX_PTXAS", str(program))
    for _ in range(3):
        find._version.cache_clear()  # as a new process has it
        assert find_ptxas().version == (13, 0, 88)
    assert (tmp_path / "ptxas.log").read_text() == "run\n"
    program.write_text(program.read_text().replace("13.0.88", "13.1.115"))
    assert find_ptxas().version == (13, 1, 115)
    find._version.cache_clear()
