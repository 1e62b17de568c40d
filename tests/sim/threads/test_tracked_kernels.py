"""The code that follows undefined bits computes what the generated code computes.

Here every block runs that way, although no register has undefined bits.
"""

from __future__ import annotations

from typing import Any

import pytest

from pyptx.sim.threads.frames import Frame
from pyptx.sim.threads.undefined import UndefinedBits
from tests.sim.compiled.cases import CASES
from tests.sim.compiled.test_compiled import check


@pytest.fixture
def follows_always(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Frame.__init__

    def marked(self: Frame, *args: Any) -> None:
        plain(self, *args)
        self.undefined_rows = {-2: self}  # type: ignore[dict-item]

    monkeypatch.setattr(Frame, "__init__", marked)
    monkeypatch.setattr(UndefinedBits, "in_threads", lambda self, span: True)


@pytest.mark.one_in(18)
@pytest.mark.sample(6)
@pytest.mark.usefixtures("follows_always")
@pytest.mark.parametrize("name", [name for name, (_, case) in CASES.items() if not case.fails])
def test_compiled_kernels(name: str) -> None:
    check(name)
