"""Results on disk: what they depend on, what an interruption leaves, and files that cannot be used."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx.core.errors import SpecError
from pyptx.toolchain.cache import user_cache
from pyptx.tools.autotune import store
from pyptx.tools.autotune.candidates import State
from pyptx.tools.autotune.tuning import Settings
from tests.tools.autotune.conftest import Gpu
from tests.tools.autotune.fakes import build_double

X = np.arange(1024, dtype=np.float32)


def _folder() -> Path:
    found = store.folder()
    assert found is not None
    return found


def _tuned(rows: Any = (32, 64), deadline: float | None = None, **keywords: Any) -> Any:
    """What a new process has: nothing is known but what is on disk."""

    def build(N: Any, *, block: int) -> Any:
        return build_double(N, block=block, **keywords)

    return pyptx.autotune("block", list(rows), deadline=deadline)(build)


def test_a_result_is_found_again(gpu: Gpu) -> None:
    gpu.us = lambda candidate, _: 9.0 - candidate.number
    first = _tuned()(1024).tune(X, gpu=0)
    again = _tuned()(1024).tune(X, gpu=0)
    assert len(gpu.places) == 1 and again.stored and not first.stored
    assert again.configuration == first.configuration == {"block": 64}
    assert again.rows() == first.rows()
    (file,) = _folder().glob("*.json")
    held = json.loads(file.read_text())
    assert held["gpu"] == "Fake" and [row["us"] for row in held["rows"]] == [9.0, 8.0]
    assert _folder().stat().st_mode & 0o777 == 0o700


def _changes(gpu: Gpu, what: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    if what == "text":
        return _tuned(wrong=True)(1024), X
    if what == "rows":
        return _tuned((64, 32))(1024), X
    if what == "size":
        return _tuned()(2048), np.ones(2048, np.float32)
    if what == "gpu":
        gpu.facts = ("Other", "1.0")
    elif what == "driver":
        gpu.facts = ("Fake", "1.1")
    elif what == "version":
        monkeypatch.setattr(store, "VERSION", "other")
    elif what == "deadline":
        return _tuned(deadline=9.0)(1024), X
    return _tuned()(1024), X


@pytest.mark.sample(7)
@pytest.mark.parametrize("what", ["text", "rows", "size", "gpu", "driver", "version", "deadline"])
def test_what_a_result_depends_on(gpu: Gpu, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _tuned()(1024).tune(X, gpu=0)
    tuned, x = _changes(gpu, what, monkeypatch)
    assert not tuned.tune(x, gpu=0).stored and len(gpu.places) == 2


def test_options_of_the_check_are_part_of_the_key(gpu: Gpu) -> None:
    """A function that is defined again with other code, and each other option; the same code is the same."""

    def settings(factor: int, **given: Any) -> list[Any]:
        code = f"def reference(a):\n    return [each * {factor} for each in a]"
        exec(code, space := {})
        return Settings({"N": 128}, space["reference"], **given).values()

    assert settings(2) == settings(2)
    assert (
        len(
            {
                json.dumps(each)
                for each in (
                    settings(2),
                    settings(3),
                    settings(2, rtol=0.1),
                    settings(2, atol=0.1),
                    Settings().values(),
                    Settings({"N": 256}, None).values(),
                    Settings({"N": 128}, None).values(),
                )
            }
        )
        == 7
    )
    candidates: list[Any] = []
    assert store.key_of(candidates, [], "", "", settings(2)) != store.key_of(
        candidates, [], "", "", settings(3)
    )


def test_all_that_hung_are_tried_again_with_another_deadline(gpu: Gpu) -> None:
    gpu.us = lambda *_: State.HUNG
    with pytest.raises(SpecError, match="no configuration"):
        _tuned()(1024).tune(X, gpu=0)
    gpu.us = lambda *_: 5.0
    with pytest.raises(SpecError, match="in an earlier tuning"):
        _tuned()(1024).tune(X, gpu=0)
    assert _tuned(deadline=60.0)(1024).tune(X, gpu=0).measured


def test_a_run_time_size_is_no_part_of_the_key(gpu: Gpu) -> None:
    """As in one process: what no recording reads does not tune again."""
    _tuned()("N").tune(X, gpu=0)
    assert _tuned()("N").tune(np.ones(4096, np.float32), gpu=0).stored


def test_an_interruption_keeps_what_is_known(gpu: Gpu) -> None:
    """The hang of the first candidate is not repeated; the one that was measured is measured again."""

    def us(candidate: Any, interval: int) -> Any:
        ends = {0: State.HUNG, 2: KeyboardInterrupt()}
        return ends.get(candidate.number, 5.0)

    gpu.us = us
    with pytest.raises(KeyboardInterrupt):
        _tuned((32, 64, 128))(1024).tune(X, gpu=0)
    gpu.us = lambda candidate, _: 5.0 - candidate.number
    found = _tuned((32, 64, 128))(1024).tune(X, gpu=0)
    assert not found.stored and found.configuration == {"block": 128}
    assert {each.number for each in gpu.places[1].asked} == {1, 2}
    assert gpu.places[0].closed and gpu.places[1].closed
    assert found.rows()[0]["reason"] == "said to be hung (in an earlier tuning)"


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["", "{", '{"ended": true, "rows": [{"number": 0}]}'])
def test_a_file_that_is_damaged_is_written_again(gpu: Gpu, text: str) -> None:
    _tuned()(1024).tune(X, gpu=0)
    (file,) = _folder().glob("*.json")
    file.write_text(text)
    assert not _tuned()(1024).tune(X, gpu=0).stored
    assert _tuned()(1024).tune(X, gpu=0).stored


def test_a_folder_that_cannot_be_written(gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "file"))
    assert _tuned()(1024).tune(X, gpu=0).configuration == {"block": 32}


def test_a_cache_that_is_turned_off(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_CACHE", "0")
    assert not _tuned()(1024).tune(X, gpu=0).stored and not _tuned()(1024).tune(X, gpu=0).stored
    assert store.folder() is None


def test_the_cache_of_machine_code_does_not_see_the_results(gpu: Gpu) -> None:
    _tuned()(1024).tune(X, gpu=0)
    cache = user_cache()
    assert cache is not None and cache.entries() == [] and cache.clear() == (0, 0)
    assert _tuned()(1024).tune(X, gpu=0).stored


def test_processes_that_tune_the_same_measure_once(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, which here is the test and holds the lock, and takes its result."""
    saved: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(store, "save", lambda *given, **options: saved.append((given, options)))
        _tuned()(1024).tune(X, gpu=0)  # measured, and not written
    ((given, options),) = saved
    looked, found, load = threading.Event(), [], store.load

    def looks(*given: Any) -> Any:
        looked.set()
        return load(*given)

    monkeypatch.setattr(store, "load", looks)
    second = threading.Thread(target=lambda: found.append(_tuned()(1024).tune(X, gpu=0)))
    with store.alone(given[0]):
        second.start()
        assert looked.wait(10)
        second.join(0.1)
        assert second.is_alive() and len(gpu.places) == 1
        store.save(*given, **options)
    second.join(10)
    assert found[0].stored and len(gpu.places) == 1
    assert [path.name for path in _folder().iterdir()] == [f"{given[0]}.json"]


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.folder() == tmp_path / "cache" / "autotune"
    monkeypatch.delenv("PYPTX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.folder() == tmp_path / "xdg" / "pyptx" / "autotune"
