"""Modules of kernels that are gone, with a driver that is a stand-in; tests on a GPU: test_loading_on_gpu.py."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyptx
from pyptx.core.errors import LaunchError
from pyptx.runtime import loader
from pyptx.runtime.loader import LoadedKernel, dropped, load
from pyptx.toolchain import cache
from tests.runtime.fake_driver import FakeDriver, installed

TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    monkeypatch.setenv(cache.SWITCH, "0")
    dropped.clear()
    with installed(monkeypatch) as fake:
        yield fake
    dropped.clear()


def loaded(device_index: int = 0) -> LoadedKernel:
    return load(TEXT, "k", dynamic_smem=0, device_index=device_index)


def test_a_module_stays_while_its_kernel_exists(fake: FakeDriver) -> None:
    kept, gone, other = loaded(), loaded(), loaded(1)
    modules = [kernel.module for kernel in (gone, other)]
    assert pyptx.unload_unused() == 0
    del gone, other
    gc.collect()
    assert fake.unloaded == []  # a graph may need them: the program says when
    assert pyptx.unload_unused() == 2
    assert fake.unloaded == modules and list(fake.loaded) == [kept.module]
    assert pyptx.unload_unused() == 0 and fake.contexts == [0]


def test_not_while_a_stream_is_captured(fake: FakeDriver) -> None:
    loaded()
    gc.collect()
    fake.capturing = True
    with pytest.raises(
        LaunchError, match="the current stream of GPU 0 is being captured(?s:.*)before the capture"
    ):
        pyptx.unload_unused()
    assert fake.unloaded == []
    fake.capturing = False
    assert pyptx.unload_unused() == 1


def test_many_modules_that_no_graph_can_need_are_unloaded(fake: FakeDriver) -> None:
    """A launch that a capture saw keeps its module, until the program says that the graph is gone."""
    captured, eager = loaded(), loaded()
    module = captured.module
    eager.note_capture(5)
    fake.capturing = True
    captured.note_capture(5)
    eager.note_capture(0)  # the default stream
    fake.capturing = False
    captured.note_capture(5)
    del captured, eager
    other = loaded(1).module
    for _ in range(5 * loader._MOST_DROPPED):
        loaded()
        assert len(fake.loaded) <= loader._MOST_DROPPED + 4
    gc.collect()
    assert module in fake.loaded and other in fake.loaded
    pyptx.unload_unused()
    assert not fake.loaded
