"""Where machine code comes from, with a driver that is a stand-in: disk caches, the JIT, ptxas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pyptx.core.errors import AssembleError, LaunchError, SharedMemoryError
from pyptx.runtime import machine_code
from pyptx.runtime.loader import LoadedKernel, load
from pyptx.toolchain import Assembly, Message, Tool, ToolReport, cache
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
    with installed(monkeypatch) as fake:
        yield fake


@dataclass
class Ptxas:
    """A stand-in for ptxas; its cubin of a text is ``cubin of`` and the text."""

    version: tuple[int, ...] = (13, 0, 88)
    refuses: bool = False
    runs: list[str] = field(default_factory=list)

    def assemble(self, printed: Any, target: str, *, ptxas: Tool) -> Any:
        assert ptxas.version == self.version
        self.runs.append(target)
        if self.refuses:
            raise AssembleError("ptxas refused the text")
        text = printed if isinstance(printed, str) else printed.text
        report = ToolReport((Message("info", "4 registers"),))
        return Assembly(cubin_of(text), report, ptxas, target)


def cubin_of(text: str) -> bytes:
    return b"cubin of " + text.encode()


@pytest.fixture
def assembler(monkeypatch: pytest.MonkeyPatch) -> Ptxas:
    tool = Ptxas()
    monkeypatch.setattr(
        machine_code, "find_ptxas", lambda: Tool("ptxas", Path("/ptxas"), tool.version, "here")
    )
    monkeypatch.setattr("pyptx.toolchain.assemble", tool.assemble)
    return tool


@pytest.fixture
def no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_PTXAS", "/nowhere/ptxas")


def loaded(text: str = TEXT, entry: str = "k", **options: Any) -> LoadedKernel:
    return load(text, entry, **{"dynamic_smem": 0, "device_index": 0, **options})


def test_the_second_load_compiles_nothing(fake: FakeDriver, assembler: Ptxas, tmp_path: Path) -> None:
    first, second = loaded(), loaded()
    assert assembler.runs == ["sm_90a"] and fake.compiled == []
    assert fake.loaded[first.module] == fake.loaded[second.module] == cubin_of(TEXT)
    assert first.info_log == second.info_log == "info: 4 registers"
    (folder,) = (tmp_path / "cache").iterdir()
    assert [tool.name for tool in folder.iterdir()] == ["ptxas-13.0.88"]


def test_each_device_loads_its_own_module(fake: FakeDriver, assembler: Ptxas) -> None:
    first, second = loaded(), loaded(device_index=1)
    assert first.module != second.module and (first.device_index, second.device_index) == (0, 1)
    assert len(assembler.runs) == 1 and fake.contexts == [0]


@pytest.mark.parametrize("twin", ["text", "ptxas", "nothing"])
def test_the_twin_is_compiled(fake: FakeDriver, assembler: Ptxas, twin: str) -> None:
    loaded()
    if twin == "ptxas":
        assembler.version = (13, 0, 89)
    loaded(TEXT.replace("ret;", "ret; // again") if twin == "text" else TEXT)
    assert len(assembler.runs) == (1 if twin == "nothing" else 2)


def test_text_without_a_target_for_this_gpu_is_compiled_for_it(fake: FakeDriver, assembler: Ptxas) -> None:
    loaded(TEXT.replace("sm_90a", "sm_80"))
    assert assembler.runs == ["sm_90"]


@pytest.mark.parametrize("why", ["no ptxas", "newer than the driver", "the cache is off"])
def test_without_a_cubin_to_keep_the_jit_compiles(
    fake: FakeDriver,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    why: str,
) -> None:
    if why == "no ptxas":
        request.getfixturevalue("no_ptxas")
    else:
        assembler = request.getfixturevalue("assembler")
        assembler.version = (14, 0, 1) if why == "newer than the driver" else assembler.version
    if why == "the cache is off":
        monkeypatch.setenv(cache.SWITCH, "0")
    loaded()
    loaded()
    assert fake.compiled == [TEXT.encode()] * 2 and not (tmp_path / "cache").exists()


def test_a_cached_cubin_that_the_driver_refuses_is_made_again(
    fake: FakeDriver, assembler: Ptxas, tmp_path: Path
) -> None:
    writer = CubinCache(tmp_path / "cache")
    source = CubinSource("k", TEXT, "sm_90a", ("lines",))
    writer.store(source, CachedCubin(b"bad", "ptxas-13.0.88"))
    fake.refused.add(b"bad")
    assert fake.loaded[loaded().module] == cubin_of(TEXT)
    found = writer.find(source, "ptxas-13.0.88")
    assert found is not None and found.image == cubin_of(TEXT)


def test_a_cubin_of_ptxas_that_the_driver_refuses_is_not_kept(fake: FakeDriver, assembler: Ptxas) -> None:
    fake.refused.add(cubin_of(TEXT))
    assert fake.loaded[loaded().module] == TEXT.encode()
    user = cache.user_cache()
    assert user is not None and user.entries() == [] and len(assembler.runs) == 1


def test_a_shipped_cubin_serves_whatever_made_it_and_wherever_the_lines_lie(
    fake: FakeDriver, assembler: Ptxas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = b"shipped .entry k"
    CubinCache(tmp_path / "b").store(CubinSource("k", TEXT, "sm_90a"), CachedCubin(image, "ptxas-13.5.7"))
    monkeypatch.setenv(cache.SHIPPED, f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    with_lines = TEXT.replace("    ret;", "    .loc 1 7 0 ret;") + '\n.file 1 "/elsewhere/k.py"\n'
    for switch in ("", "0"):
        monkeypatch.setenv(cache.SWITCH, switch)
        assert fake.loaded[loaded(with_lines, plain=lambda: TEXT).module] == image
    assert assembler.runs == fake.compiled == [] and not (tmp_path / "cache").exists()
    monkeypatch.setenv(cache.SWITCH, "")
    fake.refused.add(image)
    assert fake.loaded[loaded(with_lines, plain=lambda: TEXT).module] == cubin_of(with_lines)
    assert len(CubinCache(tmp_path / "b").entries()) == 1


@pytest.mark.parametrize("switch", ["", "0"])
def test_text_newer_than_the_driver_is_assembled_by_ptxas(
    fake: FakeDriver, assembler: Ptxas, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.setenv(cache.SWITCH, switch)
    fake.jit_status = TOO_NEW
    assert fake.loaded[loaded().module] == cubin_of(TEXT)


def test_text_newer_than_the_driver_without_ptxas_says_what_to_install(
    fake: FakeDriver, no_ptxas: None
) -> None:
    fake.jit_status = TOO_NEW
    with pytest.raises(
        AssembleError, match=r"\.version 8\.0, which is newer than this driver \(CUDA 13\.0\)"
    ):
        loaded()


def test_a_refusal_names_the_line_and_stores_nothing(
    fake: FakeDriver, assembler: Ptxas, tmp_path: Path
) -> None:
    assembler.refuses = True
    log = "ptxas application ptx input, line 6; error   : Not a name of any known instruction: 'rot'"
    fake.jit_status = (STATUS.CUDA_ERROR_INVALID_PTX, log)
    with pytest.raises(AssembleError, match=r"the driver's JIT, loading 'k'(?s:.*)PTX line 6: ret;"):
        loaded()
    assert not (tmp_path / "cache").exists()


def test_what_ptxas_does_not_know_the_jit_may(fake: FakeDriver, assembler: Ptxas) -> None:
    assembler.refuses = True
    assert fake.loaded[loaded().module] == TEXT.encode()


def test_text_of_another_architecture_is_explained(fake: FakeDriver, no_ptxas: None) -> None:
    fake.jit_status = (STATUS.CUDA_ERROR_INVALID_PTX, "")
    with pytest.raises(AssembleError, match=r"target sm_100a, but GPU 0 \(Fake GPU\) is sm_90"):
        loaded(TEXT.replace("sm_90a", "sm_100a"))


def test_an_entry_that_the_text_lacks(fake: FakeDriver, assembler: Ptxas) -> None:
    with pytest.raises(LaunchError, match="of 'other'(?s:.*)has the entries k"):
        loaded(entry="other")
    assert fake.loaded == {}


def test_too_much_shared_memory_leaves_no_module(fake: FakeDriver, assembler: Ptxas) -> None:
    fake.static_smem = 232449
    with pytest.raises(SharedMemoryError, match="232449 bytes of static and 0 of dynamic"):
        loaded()
    assert fake.loaded == {}


def test_a_capture_of_this_thread_goes_on(fake: FakeDriver, assembler: Ptxas) -> None:
    fake.capturing = True
    before = fake.mode
    loaded()
    assert fake.mode == before
    fake.jit_status = TOO_NEW
    fake.refused.add(cubin_of(TEXT))
    with pytest.raises(AssembleError):
        loaded(device_index=1)
    assert fake.mode == before


@pytest.mark.parametrize("problem", ["read-only", "no folder"])
def test_a_disk_that_takes_nothing_costs_speed_alone(
    fake: FakeDriver, assembler: Ptxas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, problem: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "file" / "cache"))
    if problem == "no folder":
        monkeypatch.delenv(cache.FOLDER)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    loaded()
    loaded()
    assert len(fake.compiled) + len(assembler.runs) == 2


def test_a_forked_process_is_told_so(fake: FakeDriver, assembler: Ptxas) -> None:
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
