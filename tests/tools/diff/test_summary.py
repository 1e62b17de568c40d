"""What diff says of the machine code where a tool is missing or refuses the text."""

from __future__ import annotations

import pytest

from pyptx.core.errors import ToolNotFoundError
from pyptx.tools.diff import summary

MODULE = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def test_a_missing_tool_is_named_without_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def assemble(text: str) -> None:
        raise ToolNotFoundError("no ptxas was found", details=["CUDA_HOME: not there"])

    monkeypatch.setattr(summary, "assemble", assemble)
    assert summary.machine(MODULE).missing == "no ptxas was found"


def test_a_refused_text_is_told_with_its_first_errors(ptxas: object) -> None:
    told = summary.machine(f"{MODULE}.visible .entry f() {{ what; ret; }}\n").missing.splitlines()
    assert told[0].startswith("ptxas ") and "refused the PTX text: " in told[0]
    assert told[1].startswith("line 4: ")
