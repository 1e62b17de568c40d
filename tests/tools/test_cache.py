"""``pyptx cache``: what it lists, what it removes, and what it refuses."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyptx.toolchain import cache as module
from pyptx.toolchain.cache import CachedCubin, CubinCache, CubinSource
from pyptx.tools.cache import size_text
from pyptx.tools.cli import cli


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["cache", *arguments])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CubinCache:
    """Two entries, of which ``old`` was used ten days ago."""
    monkeypatch.setenv(module.FOLDER, str(tmp_path))
    made = CubinCache(tmp_path)
    for entry in ("old", "young"):
        made.store(CubinSource(entry, "text", "sm_90a"), CachedCubin(bytes(3000), "ptxas-13.0.1"))
    made.find(CubinSource("young", "text", "sm_90a"), "ptxas-13.0.1")
    (old,) = (entry for entry in made.entries() if entry.entry == "old")
    os.utime(old.folder / "used", (time.time() - 10 * 86_400,) * 2)
    return made


def test_show(cache: CubinCache) -> None:
    rows = run("show").stdout.splitlines()
    assert rows[0].startswith(f"{cache.root}: 2 entries, ") and rows[0].endswith("of at most 512.0 MiB")
    assert rows[1].split() == ["entry", "target", "tool", "size", "last", "used", "hits", "folder"]
    assert rows[2].split()[:3] == ["young", "sm_90a", "ptxas-13.0.1"] and " 1 " in rows[2]
    assert rows[3].startswith("old") and "10 d ago" in rows[3]
    assert (cache.root / rows[3].split()[-1] / "kernel.ptx").read_text() == "text"


def test_show_json(cache: CubinCache) -> None:
    shown = json.loads(run("show", "--json").stdout)
    assert shown["folder"] == str(cache.root)
    assert [(row["entry"], row["hits"]) for row in shown["entries"]] == [("young", 1), ("old", 0)]


def test_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "none"))
    assert run("show").stdout == f"{tmp_path / 'none'}: 0 entries, 0 B of at most 512.0 MiB\n"
    assert run("clear", "--all").stdout == "removed 0 entries, 0 B\n"


def test_a_cache_that_is_turned_off_is_shown(cache: CubinCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.SWITCH, "0")
    assert "2 entries" in run("show").stdout


def test_clear_by_age_and_all(cache: CubinCache) -> None:
    assert run("clear", "--older", "11d").stdout.startswith("removed 0 ")
    assert run("clear", "--older", "9d").stdout.startswith("removed 1 entries, 3.")
    assert [entry.entry for entry in cache.entries()] == ["young"]
    assert run("clear", "--all").stdout.startswith("removed 1 ")
    assert list(cache.root.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--all", "--older", "1d"], ["--older", "week"]], ids=str)
def test_clear_asks_what(cache: CubinCache, arguments: list[str]) -> None:
    result = run("clear", *arguments)
    assert result.exit_code == 2 and (
        "--all, or --older AGE" in result.stderr or "such as 7d" in result.stderr
    )
    assert len(cache.entries()) == 2


def test_sizes() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30, 1 << 62)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB", "4294967296.0 GiB",
    ]  # fmt: skip
