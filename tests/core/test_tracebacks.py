"""Tracebacks of a user's mistakes: the user's frames, and one of pyptx for each way in."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Program, PyptxError, Tile, f32, kernel, ptx, reg, u32
from pyptx.core.source import is_author_file
from pyptx.core.tracebacks import FULL_TRACEBACK


def _helper(x: Any) -> None:
    ptx.inst.add.u32(x, x, 1.5)


@kernel(in_specs=[Tile(4, f32)])
def wrong(a: Any) -> None:
    _helper(reg.scalar(u32))


def _program() -> None:
    @Program("sm_90a").entry()
    def entry() -> None:
        _helper(reg.scalar(u32))


_WAYS: list[Callable[[], object]] = [
    wrong.ptx,
    wrong.module,
    lambda: wrong(np.zeros(4, np.float32)),
    lambda: wrong.simulate(np.zeros(4, np.float32)),
    _program,
]


def frames(call: Callable[[], object]) -> list[traceback.FrameSummary]:
    with pytest.raises(PyptxError) as caught:
        call()
    return traceback.extract_tb(caught.value.__traceback__)


@pytest.mark.parametrize("call", _WAYS, ids=["ptx", "module", "call", "simulate", "program"])
def test_the_users_frames_remain(call: Callable[[], object]) -> None:
    found = frames(call)
    own = [frame for frame in found if not is_author_file(frame.filename)]
    assert len(own) == 1, own
    assert [frame.name for frame in found[-2:]][-1] == "_helper"
    assert found[-1].line == "ptx.inst.add.u32(x, x, 1.5)"


def test_every_frame_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FULL_TRACEBACK, "1")
    own = [frame for frame in frames(wrong.ptx) if not is_author_file(frame.filename)]
    assert len(own) > 5
    monkeypatch.setenv(FULL_TRACEBACK, "0")
    assert len(frames(wrong.ptx)) < len(own)
