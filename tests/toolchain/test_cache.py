"""The disk cache of cubins: what its entries depend on, many processes, damage, disks that refuse, the bound."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyptx.core import version
from pyptx.core.errors import SpecError
from pyptx.toolchain import cache as module
from pyptx.toolchain.cache import CachedCubin, CubinCache, CubinSource, shipped_caches, user_cache

SOURCE = CubinSource("add", ".version 8.0\n.target sm_90a\n", "sm_90a", ("lineinfo",))
CUBIN = CachedCubin(bytes(range(256)) * 20, "ptxas-13.0.1", "ptxas info: 4 registers")


@pytest.fixture
def cache(tmp_path: Path) -> CubinCache:
    return CubinCache(tmp_path / "cache")


def folder(cache: CubinCache) -> Path:
    return cache.root / SOURCE.name / CUBIN.tool


def test_an_entry_is_found_again_beside_its_text(cache: CubinCache) -> None:
    assert cache.find(SOURCE, CUBIN.tool) is None
    assert cache.store(SOURCE, CUBIN)
    assert cache.find(SOURCE, CUBIN.tool) == CUBIN
    assert (folder(cache) / "kernel.ptx").read_text() == SOURCE.text
    assert (folder(cache) / "kernel.cubin").read_bytes() == CUBIN.image
    facts = json.loads((folder(cache) / "entry.json").read_text())
    assert (facts["entry"], facts["target"], facts["tool"]) == ("add", "sm_90a", "ptxas-13.0.1")


def test_folders_are_the_users_alone(cache: CubinCache) -> None:
    before = os.umask(0)
    try:
        cache.store(SOURCE, CUBIN)
    finally:
        os.umask(before)
    for path in (cache.root, folder(cache).parent, folder(cache)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "change",
    [
        {"text": SOURCE.text + " "},
        {"target": "sm_90"},
        {"options": ()},
        {"options": ("lineinfo", "O1")},
        {"entry": "b"},
    ],
    ids=str,
)
def test_the_twin_of_what_the_key_covers_is_not_found(cache: CubinCache, change: dict[str, Any]) -> None:
    cache.store(SOURCE, CUBIN)
    assert cache.find(replace(SOURCE, **change), CUBIN.tool) is None
    assert cache.find(SOURCE, CUBIN.tool) == CUBIN


def test_another_version_of_pyptx_or_of_the_tool_finds_nothing(
    cache: CubinCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store(SOURCE, CUBIN)
    assert cache.find(SOURCE, "ptxas-13.0.2") is None
    monkeypatch.setattr(module, "VERSION", version.VERSION + ".post1")
    assert cache.find(SOURCE, CUBIN.tool) is None


def test_options_and_text_do_not_run_into_each_other() -> None:
    one = CubinSource("k", "text", "sm_90", ("a", "b"))
    assert one.name != replace(one, options=("a",), text="b\0text").name


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda at: os.truncate(at / "kernel.cubin", 100),
    "flipped": lambda at: (at / "kernel.cubin").write_bytes(b"\1" + CUBIN.image[1:]),
    "no checksum": lambda at: (at / "entry.json").write_text("{}"),
    "no JSON": lambda at: (at / "entry.json").write_text("{"),
    "a list": lambda at: (at / "entry.json").write_text("[]"),
    "no text": lambda at: (at / "entry.json").write_bytes(b"\xff\xfe"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_removed_and_made_again(cache: CubinCache, damage: str) -> None:
    cache.store(SOURCE, CUBIN)
    DAMAGES[damage](folder(cache))
    assert len(cache.entries()) == 1
    assert cache.find(SOURCE, CUBIN.tool) is None
    assert not folder(cache).exists()
    assert cache.store(SOURCE, CUBIN)
    assert cache.find(SOURCE, CUBIN.tool) == CUBIN


def test_a_missing_file_is_a_miss_and_a_later_store_mends_it(cache: CubinCache) -> None:
    cache.store(SOURCE, CUBIN)
    (folder(cache) / "kernel.cubin").unlink()
    assert cache.find(SOURCE, CUBIN.tool) is None
    assert cache.store(SOURCE, CUBIN)
    assert cache.find(SOURCE, CUBIN.tool) == CUBIN


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT], ids=errno.errorcode.get
)
@pytest.mark.parametrize("call", ["write_bytes", "mkdir", "rename", "write_text"])
def test_a_disk_that_refuses_leaves_nothing(
    cache: CubinCache, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    CubinCache(cache.root).store(replace(SOURCE, text="another"), CUBIN)

    def refuse(*given: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(Path, call, refuse)
        assert not cache.store(SOURCE, CUBIN)
    assert cache.find(SOURCE, CUBIN.tool) is None
    assert len(os.listdir(cache.root)) == 1
    assert cache.store(SOURCE, CUBIN)


def test_a_read_only_folder_is_read(cache: CubinCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(SOURCE, CUBIN)

    def refuse(*given: Any, **options: Any) -> None:
        raise PermissionError(errno.EROFS, "read-only")

    monkeypatch.setattr("builtins.open", refuse)  # counting the hit
    assert cache.find(SOURCE, CUBIN.tool) == CUBIN


def test_the_entries_that_were_not_used_for_longest_go_first(tmp_path: Path) -> None:
    sources = [replace(SOURCE, text=f"text {number}") for number in range(5)]
    first = CubinCache(tmp_path)
    first.store(sources[0], CUBIN)
    each = first.entries()[0].nbytes
    cache = CubinCache(tmp_path, limit=3 * each + each // 2)
    for number in (1, 2):
        cache.store(sources[number], CUBIN)
    for age, number in ((300, 0), (200, 1), (100, 2)):
        used = tmp_path / sources[number].name / CUBIN.tool / "used"
        os.utime(used, (time.time() - age,) * 2)
    assert cache.find(sources[0], CUBIN.tool) is not None  # now the last used
    cache.store(sources[3], CUBIN)
    cache.store(sources[4], CUBIN)
    left = {s.text for s in sources if cache.find(s, CUBIN.tool) is not None}
    assert left == {"text 0", "text 3", "text 4"}
    assert sum(entry.nbytes for entry in cache.entries()) <= cache.limit
    assert len(os.listdir(tmp_path)) == 3


def test_the_bound_counts_what_other_processes_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY", 4)
    mine, other = CubinCache(tmp_path, limit=100_000), CubinCache(tmp_path, limit=1 << 30)
    mine.store(SOURCE, CUBIN)
    for number in range(30):
        other.store(replace(SOURCE, text=f"other {number}"), CUBIN)
    for number in range(4):
        mine.store(replace(SOURCE, text=f"mine {number}"), CUBIN)
    assert sum(entry.nbytes for entry in mine.entries()) <= mine.limit


def test_what_a_process_left_half_written_is_removed_later(cache: CubinCache) -> None:
    cache.store(SOURCE, CUBIN)
    old, young = cache.root / ".new-1-abc", cache.root / ".new-2-abc"
    for each in (old, young):
        each.mkdir()
        (each / "kernel.cubin").write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    CubinCache(cache.root).store(replace(SOURCE, text="another"), CUBIN)
    assert young.exists() and not old.exists()


def _write(root: Path, number: int, start: Any, die: bool) -> None:
    cache = CubinCache(root)
    if die:  # between the first file and the last
        Path.write_text = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
    start.wait()
    for text in range(20):
        source = replace(SOURCE, text=f"text {text}")
        found = cache.find(source, CUBIN.tool)
        assert found is None or found == CUBIN
        assert cache.store(source, CUBIN)
        assert cache.find(source, CUBIN.tool) == CUBIN


@pytest.mark.full
def test_eight_processes_on_one_cold_cache_one_killed_while_it_writes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Event()
    root = tmp_path / "cache"
    processes = [context.Process(target=_write, args=(root, n, start, n == 3)) for n in range(8)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, -signal.SIGKILL, 0, 0, 0, 0]
    cache = CubinCache(root)
    assert len(cache.entries()) == 20
    assert all(cache.find(replace(SOURCE, text=f"text {n}"), CUBIN.tool) == CUBIN for n in range(20))
    left = [name for name in os.listdir(root) if name.startswith(".")]
    assert len(left) == 1 and left[0].startswith(".new-")
    cache.clear()
    assert os.listdir(root) == []


def test_clear_by_age(cache: CubinCache) -> None:
    young = replace(SOURCE, text="young")
    cache.store(SOURCE, CUBIN)
    cache.store(young, CUBIN)
    os.utime(folder(cache) / "used", (time.time() - 100_000,) * 2)
    count, nbytes = cache.clear(older_than=86_400)
    assert count == 1 and nbytes > len(CUBIN.image)
    assert cache.find(SOURCE, CUBIN.tool) is None and cache.find(young, CUBIN.tool) == CUBIN


def test_hits_are_counted(cache: CubinCache) -> None:
    cache.store(SOURCE, CUBIN)
    assert cache.entries()[0].hits == 0
    for _ in range(3):
        cache.find(SOURCE, CUBIN.tool)
    assert cache.entries()[0].hits == 3


def test_any_tool_of_a_shipped_cache_serves_and_the_newest_ptxas_first(tmp_path: Path) -> None:
    writer = CubinCache(tmp_path)
    for tool in ("driver-13.5", "ptxas-13.5.7", "ptxas-13.10.1"):
        writer.store(SOURCE, CachedCubin(tool.encode(), tool))
    shipped = CubinCache(tmp_path, shipped=True)
    found = shipped.find_any(SOURCE)
    assert found is not None and found.tool == "ptxas-13.10.1"
    damaged = tmp_path / SOURCE.name / "ptxas-13.10.1"
    os.truncate(damaged / "kernel.cubin", 1)
    found = shipped.find_any(SOURCE)
    assert found is not None and found.tool == "ptxas-13.5.7"
    assert damaged.exists() and {entry.hits for entry in shipped.entries()} == {0}
    assert shipped.find_any(replace(SOURCE, target="sm_100a")) is None


def test_the_environment_says_where_and_whether(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (module.FOLDER, module.SWITCH, module.SHIPPED, module.LIMIT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    found = user_cache()
    assert found is not None and found.root == tmp_path / "xdg" / "pyptx"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # by the specification, to be ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    found = user_cache()
    assert found is not None and found.root == tmp_path / ".cache" / "pyptx"
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "mine"))
    monkeypatch.setenv(module.LIMIT, "2M")
    found = user_cache()
    assert found is not None and (found.root, found.limit) == (tmp_path / "mine", 2 << 20)
    assert user_cache() is found
    monkeypatch.setenv(module.LIMIT, "two")
    with pytest.raises(SpecError, match="PYPTX_CACHE_LIMIT is 'two': expected a size such as 512M"):
        user_cache()
    monkeypatch.setenv(module.SWITCH, "0")
    assert user_cache() is None
    assert shipped_caches() == []
    monkeypatch.setenv(module.SHIPPED, f"{tmp_path}/a:{tmp_path}/b")
    assert [c.root.name for c in shipped_caches()] == ["a", "b"] and all(c.shipped for c in shipped_caches())


def test_the_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.FOLDER, str(tmp_path))
    assert user_cache() is not None
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert user_cache() is None
