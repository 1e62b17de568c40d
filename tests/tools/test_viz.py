"""``pyptx viz``: lists figures, writes them, and refuses what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyptx import SpecError, viz
from pyptx.tools.viz import command


def test_the_list_has_every_figure() -> None:
    said = CliRunner().invoke(command, []).output
    of_objects = {"copies", "data_flow", "mbarrier", "tensor_map"}  # of runs and maps, in Python only
    for name in set(viz.__all__) - {"Figure", "RunEvents"} - of_objects:
        assert f"\n{name}(" in f"\n{said}"


def test_arguments(tmp_path: Path) -> None:
    for name, arguments, expected in (
        ("swizzle", ["modes=64B,128B"], viz.swizzle(["64B", "128B"])),
        ("swizzle", ["modes=none"], viz.swizzle("none")),
        ("accumulator", ["m=64", "n=64", "ws=true"], viz.accumulator(64, 64, ws=True)),
        ("block_tiling", ["tile=64,64,32", "at=0,2"], viz.block_tiling(tile=(64, 64, 32), at=(0, 2))),
    ):
        path = tmp_path / f"{name}.svg"
        done = CliRunner().invoke(command, [name, *arguments, "-o", str(path)], catch_exceptions=False)
        assert done.output == f"wrote {path}\n"
        assert path.read_text(encoding="utf-8") == expected.svg


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["swizzles"], "there is no figure 'swizzles'"),
        (["swizzle", "mode=128B"], "'mode=128B' is no argument of swizzle: expected NAME=VALUE with modes"),
        (["pipeline"], "pipeline needs timeline=VALUE"),
        (["data_flow"], "there is no figure 'data_flow'"),
        (["swizzle", "128B"], "is no argument of swizzle"),
    ],
)
def test_refusals(arguments: list[str], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        CliRunner().invoke(command, arguments, catch_exceptions=False)
