"""Where machine code comes from, with a driver that is a stand-in: disk caches, the JIT, ptxas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyptx.core.errors import AssembleError, LaunchError, SharedMemoryError
from pyptx.runtime import driver, machine_code
from pyptx.runtime.loader import LoadedKernel, load
from pyptx.toolchain import Tool, cache
from pyptx.toolchain.cache import CachedCubin, CubinCache, CubinSource
from tests.runtime.fake_driver import STATUS, FakeDriver, installed

TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n"
TOO_NEW = (
    STATUS.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    "ptxas application ptx input, line 1; fatal   : Unsupported .version 8.0; current version is '7.0'",
)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "cache"))
    monkeypatch.delenv(cache.SHIPPED, raising=False)
    monkeypatch.delenv(cache.SWITCH, raising=False)
    with installed(monkeypatch) as fake:
        yield fake


def loaded(text: str = TEXT, entry: str = "k", **options: Any) -> LoadedKernel:
    return load(text, entry, **{"dynamic_smem": 0, "device_index": 0, **options})


def test_the_second_load_compiles_nothing(fake: FakeDriver, tmp_path: Path) -> None:
    first, second = loaded(), loaded()
    assert fake.compiled == [TEXT.encode()]
    assert fake.loaded[first.module] == fake.loaded[second.module] == b"cubin of " + TEXT.encode()
    (folder,) = (tmp_path / "cache").iterdir()
    assert [tool.name for tool in folder.iterdir()] == ["driver-13.0"]


def test_each_device_loads_its_own_module(fake: FakeDriver) -> None:
    first, second = loaded(), loaded(device_index=1)
    assert first.module != second.module and (first.device_index, second.device_index) == (0, 1)
    assert len(fake.compiled) == 1 and fake.contexts == [0]


@pytest.mark.parametrize("twin", ["text", "driver", "kernel module", "off"])
def test_the_twin_is_compiled(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, twin: str
) -> None:
    loaded()
    driver.driver_name.cache_clear()
    driver.device_info.cache_clear()
    if twin == "driver":
        fake.version = 13010
    if twin == "kernel module":
        (tmp_path / "version").write_text("580.159.03\n")
        monkeypatch.setattr(driver, "_KERNEL_MODULE", ((tmp_path / "version", r"^([\d.]+)"),))
    if twin == "off":
        monkeypatch.setenv(cache.SWITCH, "0")
    loaded(TEXT.replace("ret;", "ret; // again") if twin == "text" else TEXT)
    assert len(fake.compiled) == 2


def test_a_cached_cubin_that_the_driver_refuses_is_compiled_again(fake: FakeDriver, tmp_path: Path) -> None:
    writer = CubinCache(tmp_path / "cache")
    source = CubinSource("k", TEXT, "sm_90a", ("lineinfo",))
    writer.store(source, CachedCubin(b"bad", "driver-13.0"))
    fake.refused.add(b"bad")
    assert fake.loaded[loaded().module] == b"cubin of " + TEXT.encode()
    found = writer.find(source, "driver-13.0")
    assert found is not None and found.image == b"cubin of " + TEXT.encode()


def test_a_shipped_cubin_serves_whatever_made_it_and_wherever_the_lines_lie(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = b"shipped .entry k"
    CubinCache(tmp_path / "b").store(CubinSource("k", TEXT, "sm_90a"), CachedCubin(image, "ptxas-13.5.7"))
    monkeypatch.setenv(cache.SHIPPED, f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    with_lines = TEXT.replace("    ret;", "    .loc 1 7 0 ret;") + '\n.file 1 "/elsewhere/k.py"\n'
    assert fake.loaded[loaded(with_lines, plain=lambda: TEXT).module] == image
    assert fake.compiled == [] and not (tmp_path / "cache").exists()
    fake.refused.add(image)
    assert fake.loaded[loaded(with_lines, plain=lambda: TEXT).module].startswith(b"cubin of")
    assert len(CubinCache(tmp_path / "b").entries()) == 1


def test_text_newer_than_the_driver_is_assembled_by_ptxas(
    fake: FakeDriver, ptxas: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.link_status = TOO_NEW
    runs: list[str] = []

    def counted(printed: Any, target: str, *, ptxas: Tool) -> Any:
        runs.append(target)
        from types import SimpleNamespace

        return SimpleNamespace(cubin=b"by ptxas .entry k")

    monkeypatch.setattr(machine_code, "assemble", counted)
    for _ in range(2):
        assert fake.loaded[loaded().module] == b"by ptxas .entry k"
    assert runs == ["sm_90a"]
    (folder,) = (tmp_path / "cache").iterdir()
    assert [tool.name for tool in folder.iterdir()] == [f"ptxas-{ptxas.version_text}"]


def test_text_newer_than_the_driver_without_ptxas_says_what_to_install(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.link_status = TOO_NEW
    monkeypatch.setenv("PYPTX_PTXAS", "/nowhere/ptxas")
    with pytest.raises(
        AssembleError, match=r"\.version 8\.0, which is newer than this driver \(CUDA 13\.0\)"
    ):
        loaded()


def test_a_refusal_names_the_line_and_stores_nothing(fake: FakeDriver, tmp_path: Path) -> None:
    log = "ptxas application ptx input, line 6; error   : Not a name of any known instruction: 'rot'"
    fake.link_status = (STATUS.CUDA_ERROR_INVALID_PTX, log)
    with pytest.raises(AssembleError, match=r"the driver's JIT, loading 'k'(?s:.*)PTX line 6: ret;"):
        loaded()
    assert not (tmp_path / "cache").exists()


def test_text_of_another_architecture_is_explained(fake: FakeDriver) -> None:
    fake.link_status = (STATUS.CUDA_ERROR_INVALID_PTX, "")
    with pytest.raises(AssembleError, match=r"target sm_100a, but GPU 0 \(Fake GPU\) is sm_90"):
        loaded(TEXT.replace("sm_90a", "sm_100a"))


def test_the_driver_refuses_what_was_compiled_just_now(fake: FakeDriver) -> None:
    fake.refused.add(b"cubin of " + TEXT.encode())
    with pytest.raises(
        LaunchError, match=r"cuModuleLoadData of 'k', compiled by driver-13\.0, failed: CUDA_ERR"
    ):
        loaded()


def test_an_entry_that_the_text_lacks(fake: FakeDriver) -> None:
    with pytest.raises(LaunchError, match="cuModuleGetFunction of 'other'(?s:.*)has the entries k"):
        loaded(entry="other")
    assert fake.loaded == {}


def test_too_much_shared_memory_leaves_no_module(fake: FakeDriver) -> None:
    fake.static_smem = 232449
    with pytest.raises(SharedMemoryError, match="232449 bytes of static and 0 of dynamic"):
        loaded()
    assert fake.loaded == {}


def test_a_capture_of_this_thread_goes_on(fake: FakeDriver) -> None:
    fake.capturing = True
    before = fake.mode
    loaded()
    assert fake.mode == before
    fake.refused.add(b"cubin of " + TEXT.encode())
    with pytest.raises(LaunchError):
        loaded(device_index=1)
    assert fake.mode == before


@pytest.mark.parametrize("problem", ["read-only", "no folder"])
def test_a_disk_that_takes_nothing_costs_speed_alone(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, problem: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "file" / "cache"))
    if problem == "no folder":
        monkeypatch.delenv(cache.FOLDER)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    loaded()
    loaded()
    assert len(fake.compiled) == 2


def test_a_forked_process_is_told_so(fake: FakeDriver) -> None:
    loaded()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            loaded()
            os.write(write, b"no error")
        except LaunchError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 10_000).decode()
    os.close(read)
    os.close(write)
    assert f"process {child} was forked from process {os.getpid()}, which had initialized CUDA" in said
    assert 'multiprocessing.get_context("spawn")' in said
