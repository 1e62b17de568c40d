"""Python's garbage collector pauses inside the block, and goes on as before after it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from pyptx import Tile, f32, kernel
from pyptx.core.collection import uncollected


def test_the_collector_pauses_inside_the_block() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled(), "an inner block ended the pause"
    assert gc.isenabled()


def test_the_pause_ends_with_an_exception() -> None:
    with pytest.raises(ValueError), uncollected():
        raise ValueError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_recording_pauses_the_collector() -> None:
    seen = []

    @kernel(in_specs=(Tile(4, f32),), grid=1, block=1)
    def probe(x):
        seen.append(gc.isenabled())

    probe.specialize()
    assert seen == [False] and gc.isenabled()

    @kernel(in_specs=(Tile(4, f32),), grid=1, block=1)
    def failing(x):
        raise RuntimeError("the author's error")

    with pytest.raises(RuntimeError):
        failing.specialize()
    assert gc.isenabled()


def test_an_import_of_names_of_the_package_collects_once_at_its_end() -> None:
    probe = (
        "import gc\nimport numpy\nimport pyptx\nruns = []\n"
        "gc.callbacks.append(lambda phase, info: runs.append(info) if phase == 'start' else None)\n"
        "from pyptx import kernel, ptx\nprint(len(runs), gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    runs, enabled = done.stdout.split()
    assert int(runs) <= 2 and enabled == "True"
